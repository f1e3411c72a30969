/* slide_bags.c - see slide_bags.h. */
#include "training/loop/slide_bags.h"

#include "base/array.h"
#include "base/own_process.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "engine/run/agree.h"
#include "engine/run/slide_head.h"
#include "heads/export/export.h"
#include "training/loop/scorer.h"
#include "training/samples/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hrf_head_form hrf_slide_head_form(const struct hrf_train_recipe *recipe)
{
    return (struct hrf_head_form){ .kind = (enum hrf_head_kind)(recipe->head - HRF_TRAIN_MEAN),
                                   .n_classes = (int64_t)recipe->classes.n_items,
                                   .dropout = -1,
                                   .instance_weight = -1 };
}

/* ---- a step ---- */

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* An hrf_bag_images: each pass has a feed of its own, which changes the patches alike. */
static enum hrf_status give(void *context, const struct hrf_bag_part *part, int64_t first,
                            float *images, struct hrf_error *err)
{
    struct hrf_step_bag *b = context;
    const struct hrf_train_recipe *r = b->tuning->recipe;
    struct hrf_error why = { .status = HRF_OK };
    if (first == 0) {
        hrf_sample_feed_destroy(b->feed);
        b->feed = NULL;
        for (int64_t i = 0; i < part->n && part->which != NULL; i++) {
            b->order[i] = b->order[part->which[i]]; /* which rises */
            b->places[i] = part->which[i];
        }
        const struct hrf_sample_feed_config config = { .list = b->tuning->list,
                                                       .form = &b->tuning->form,
                                                       .order = b->order,
                                                       .places = part->which != NULL ? b->places
                                                                                     : NULL,
                                                       .n = part->n,
                                                       .batch = r->patch_batch,
                                                       .own_first = b->own_first,
                                                       .own_end = b->own_end,
                                                       .augmentation = &r->augmentation,
                                                       .seed = b->seed,
                                                       .epoch = b->number,
                                                       .n_threads = hrf_scorer_readers(b->tuning) };
        HRF_TRY(hrf_sample_feed_create(&config, &b->feed, err));
    }
    const double before = hrf_sample_feed_waited(b->feed);
    const enum hrf_status status = hrf_sample_feed_next(b->feed, images, NULL, &why);
    b->waited += hrf_sample_feed_waited(b->feed) - before;
    if (b->tuning->comm != NULL) /* or one process waits for what another one has not read */
        return hrf_agree_status(b->tuning->comm, status, &why, err);
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

int64_t hrf_step_bag_patches(const struct hrf_fine_tuning *tuning, size_t slide)
{
    const int64_t *first = tuning->list->first_patch, most = tuning->recipe->bag;
    const int64_t n_all = first[slide + 1] - first[slide];
    return most > 0 && most < n_all ? most : n_all;
}

void hrf_step_bag_init(struct hrf_step_bag *b, const struct hrf_fine_tuning *tuning, int64_t slide,
                       int64_t seed, int64_t number, int64_t own_first, int64_t own_end)
{
    const int64_t *first = tuning->list->first_patch;
    const int64_t n_all = first[slide + 1] - first[slide];
    const int64_t n = hrf_step_bag_patches(tuning, (size_t)slide);
    struct hrf_random random = hrf_draw(seed, HRF_DRAW_BAG, number, 0);
    *b = (struct hrf_step_bag){
        .tuning = tuning, .seed = seed, .number = number, .own_first = own_first, .own_end = own_end
    };
    b->bag = (struct hrf_slide_bag){ .n = n,
                                     .label = tuning->list->set.items[slide].label,
                                     .dropout = hrf_random_u64(&random),
                                     .images = give,
                                     .context = b };
    b->order = hrf_alloc_array((size_t)n_all + 1, sizeof *b->order);
    b->places = hrf_alloc_array((size_t)n + 1, sizeof *b->places);
    for (int64_t i = 0; i < n_all; i++)
        b->order[i] = first[slide] + i;
    if (n < n_all)
        hrf_random_draw(&random, b->order, n_all, n);
    qsort(b->order, (size_t)n, sizeof *b->order, by_number); /* heads may read their places */
}

void hrf_step_bag_release(struct hrf_step_bag *b)
{
    hrf_sample_feed_destroy(b->feed);
    hrf_free(b->order);
    hrf_free(b->places);
}

/* ---- scores ---- */

/* The embeddings of one slide after the other. */
struct scoring {
    const struct hrf_fine_tuning *tuning;
    struct hrf_slide_head *head;
    float *embeddings; /* of the slide of now, [capacity] numbers */
    size_t capacity;
    int64_t slide, width;
    int n_threads;
    float *scores;
    enum hrf_status status; /* of the first slide that failed */
    struct hrf_error error;
};

static void scoring_release(struct scoring *s)
{
    hrf_slide_head_close(s->head);
    hrf_free(s->embeddings);
}

static enum hrf_status read_rows(void *context, int64_t first, int64_t n, float *out,
                                 struct hrf_error *err)
{
    const struct scoring *s = context;
    (void)err;
    memcpy(out, s->embeddings + first * s->width, (size_t)(n * s->width) * sizeof *out);
    return HRF_OK;
}

static enum hrf_status score_slide(struct scoring *s, int64_t n, struct hrf_error *err)
{
    const size_t n_classes = s->tuning->recipe->classes.n_items;
    const struct hrf_bag_rows rows = { n, s->width, read_rows, s };
    struct hrf_slide_head_result result;
    HRF_TRY(hrf_slide_head_run(s->head, &rows, s->n_threads, &result, err));
    for (size_t k = 0; k < n_classes; k++)
        if (!isfinite(result.scores[k]))
            return hrf_error_set(err, HRF_E_USER,
                                 "the scores of slide '%s' are not finite; a smaller learning rate "
                                 "or clipped gradients may help",
                                 s->tuning->list->items[s->slide].name);
    memcpy(s->scores + (size_t)s->slide * n_classes, result.scores, n_classes * sizeof *s->scores);
    return HRF_OK;
}

/* An hrf_scorer_take: patches come slide by slide. */
static void take_embedding(void *context, int64_t item, const float *numbers,
                           const struct hrf_shape *shape, const unsigned char *mask)
{
    struct scoring *s = context;
    const int64_t *first = s->tuning->list->first_patch;
    (void)shape;
    (void)mask;
    while (item >= first[s->slide + 1])
        s->slide++;
    const int64_t n = first[s->slide + 1] - first[s->slide], at = item - first[s->slide];
    if (s->status != HRF_OK)
        return;
    if (at == 0)
        HRF_RESERVE(s->embeddings, s->capacity, (size_t)(n * s->width));
    memcpy(s->embeddings + at * s->width, numbers, (size_t)s->width * sizeof *numbers);
    if (at + 1 == n)
        s->status = score_slide(s, n, &s->error);
}

enum hrf_status hrf_slide_bags_score(const struct hrf_fine_tuning *tuning,
                                     const struct hrf_graph *encoder, const struct hrf_head *head,
                                     const enum hrf_training_part *parts,
                                     enum hrf_training_part part, float *scores,
                                     struct hrf_error *err)
{
    const struct hrf_training_set *set = &tuning->list->set;
    const int64_t *first = tuning->list->first_patch;
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array((size_t)first[set->n_items] + 1, sizeof *order);
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO_RELEASE(scoring)
    s = { .tuning = tuning,
          .width = (int64_t)tuning->width,
          .n_threads = tuning->n_threads > 0 ? tuning->n_threads : hrf_process_cpu_count(),
          .scores = scores,
          .error = { .status = HRF_OK } };
    int64_t n = 0, most = 0, of_head = 0;
    for (size_t i = 0; i < set->n_items; i++) {
        for (int64_t k = first[i]; parts[i] == part && k < first[i + 1]; k++)
            order[n++] = k;
        if (parts[i] == part && first[i + 1] - first[i] > most)
            most = first[i + 1] - first[i];
    }
    HRF_TRY(hrf_head_network(head, &network, err));
    HRF_TRY(hrf_slide_head_create(&network, "the head", &s.head, err));
    if (most > 0)
        HRF_TRY(hrf_slide_head_reserve(s.head, most, s.width, s.n_threads, &of_head, err));
    HRF_TRY(hrf_scorer_outputs(tuning, encoder, order, n, tuning->width, "none",
                               of_head + most * s.width * (int64_t)sizeof(float), take_embedding,
                               &s, err));
    return s.status == HRF_OK ? HRF_OK : hrf_error_pass(err, &s.error);
}

enum hrf_status hrf_slide_bags_write_head(const struct hrf_fine_tuning *tuning,
                                          const struct hrf_head *head,
                                          const enum hrf_training_part *parts,
                                          const char *encoder_path, const char *folder,
                                          struct hrf_error *err)
{
    const struct hrf_training_set *set = &tuning->list->set;
    const struct hrf_text_list *classes = &tuning->recipe->classes;
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "head.onnx");
    HRF_AUTO_RELEASE(hrf_text_list) seen = { .items = NULL };
    HRF_AUTO(hrf_graph) encoder = NULL;
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_onnx_read_named(encoder_path, sha256, &encoder, err));
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] != HRF_PART_TESTING) {
            HRF_AUTO_FREE char *name = hrf_path_stem(tuning->list->items[i].path);
            hrf_text_list_add(&seen, name);
        }
    const struct hrf_head_labels labels = { .classes = classes->items,
                                            .n_classes = (int32_t)classes->n_items,
                                            .encoder = sha256,
                                            .seen = (const char *const *)seen.items,
                                            .n_seen = seen.n_items };
    return hrf_head_export(head, &labels, path, err);
}
