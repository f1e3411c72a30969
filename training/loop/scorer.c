/* scorer.c - a session over the pictures of a part. */
#include "training/loop/scorer.h"

#include "base/host.h"
#include "base/log.h"
#include "base/own_process.h"
#include "engine/comm/comm.h"
#include "engine/planning/request.h"
#include "engine/run/network.h"
#include "statistics/most_likely.h"
#include "training/loop/not_finite.h"

#include <math.h>
#include <string.h>

int hrf_scorer_readers(const struct hrf_fine_tuning *tuning)
{
    const int n = tuning->n_threads > 0 ? tuning->n_threads : hrf_process_cpu_count();
    return n > 2 ? n : 2;
}

enum hrf_status hrf_scorer_memory(const struct hrf_fine_tuning *tuning,
                                  const struct hrf_sample_feed_config *feeding, int64_t *out,
                                  struct hrf_error *err)
{
    const int64_t limit = tuning->recipe->memory, read = hrf_sample_feed_memory(feeding);
    if (limit == 0) {
        const int64_t left = hrf_process_memory_left() - read;
        *out = left > 0 ? left : 1;
        return HRF_OK;
    }
    if (limit <= read)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "images of %lld px that are read ahead need %.1f MiB alone, and "
                             "train.memory allows %.1f MiB: give it more, or make batches smaller",
                             (long long)tuning->form.side, (double)read / 0x1p20,
                             (double)limit / 0x1p20);
    *out = limit - read;
    return HRF_OK;
}

enum hrf_status hrf_scorer_explain_memory(const struct hrf_fine_tuning *tuning,
                                          const struct hrf_sample_feed_config *feeding,
                                          enum hrf_status status, struct hrf_error *err)
{
    const double limit = (double)tuning->recipe->memory / 0x1p20;
    const double read = (double)hrf_sample_feed_memory(feeding) / 0x1p20;
    if (status != HRF_E_NOMEM || limit == 0)
        return status;
    return hrf_error_wrap(err, status,
                          "of the %.1f MiB of train.memory, images of %lld px that are read ahead "
                          "leave %.2f MiB",
                          limit, (long long)tuning->form.side, limit - read);
}

static enum hrf_status create_network(const struct hrf_fine_tuning *tuning,
                                      const struct hrf_graph *network,
                                      const struct hrf_sample_feed_config *feeding, size_t width,
                                      const char *activation, int64_t kept_bytes,
                                      struct hrf_network **out, struct hrf_error *err)
{
    struct hrf_network_config config = { .session = { .device = tuning->device,
                                                      .precision = HRF_FP32,
                                                      .n_threads = tuning->n_threads } };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(hrf_engine_finish_scores(graph, (int64_t)width, activation, err));
    HRF_TRY(hrf_scorer_memory(tuning, feeding, &config.session.memory_limit_bytes, err));
    const int64_t left = config.session.memory_limit_bytes - kept_bytes;
    config.session.memory_limit_bytes = left > 0 ? left : 1;
    HRF_TRY(hrf_scorer_explain_memory(tuning, feeding, hrf_network_create(graph, &config, out, err),
                                      err));
    if (hrf_network_banded(*out) != NULL) {
        char text[HRF_BANDED_TEXT];
        hrf_banded_text(hrf_network_banded(*out), 0, text);
        hrf_log_debug("training", "scores %s", text);
    }
    return HRF_OK;
}

/* An hrf_source: boxes of the images of the batch that is held. */
static enum hrf_status read_box(void *context, int32_t input, int64_t first, int64_t n,
                                const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct hrf_sample_feed *feed = context;
    const int64_t each = (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * 3;
    if (input != 0)
        return hrf_error_set(err, HRF_E_BUG, "a network of pictures has no input %d", (int)input);
    for (int64_t i = 0; i < n; i++)
        hrf_sample_feed_put(feed, first + i, box, out + i * each);
    return HRF_OK;
}

void hrf_scorer_take_vector(void *context, int64_t item, const float *numbers,
                            const struct hrf_shape *shape, const unsigned char *mask)
{
    const struct hrf_scorer_vectors *vectors = context;
    (void)shape;
    (void)mask;
    memcpy(vectors->numbers + (size_t)item * vectors->width, numbers,
           vectors->width * sizeof *numbers);
}

struct pixels {
    float *scores; /* [n_items][2 n_classes + 1] */
    int64_t side;  /* of a mask */
};

/* -log of the softmax of z at `class`; *called: the class of the largest, the first of equals. */
static double pixel_loss(const float *z, int64_t n_classes, int64_t class, int64_t *called)
{
    double sum = 0;
    *called = hrf_most_likely(z, n_classes);
    for (int64_t k = 0; k < n_classes; k++)
        sum += exp((double)z[k] - (double)z[*called]);
    return log(sum) + (double)z[*called] - (double)z[class];
}

/* Counts the pixels of a picture; those that no class is known of count for nothing. */
static void take_pixels(void *context, int64_t item, const float *numbers,
                        const struct hrf_shape *shape, const unsigned char *mask)
{
    const struct pixels *p = context;
    const int64_t n = shape->dims[1], step = p->side / shape->dims[2];
    float *scores = p->scores + item * (2 * n + 1);
    double loss = 0;
    memset(scores, 0, (size_t)(2 * n + 1) * sizeof *scores);
    for (int64_t y = 0; y < p->side; y++)
        for (int64_t x = 0; x < p->side; x++) {
            const unsigned char class = mask[y * p->side + x];
            int64_t called = 0;
            if (class == HRF_NO_CLASS)
                continue;
            loss += pixel_loss(numbers + (y / step * shape->dims[3] + x / step) * n, n, class,
                               &called);
            scores[class] += called == class;
            scores[n + called]++;
        }
    scores[2 * n] = (float)(loss / (double)(p->side * p->side));
}

/* All ranks score, each for itself; the first that is done waits for the others. */
static enum hrf_status show_life(struct hrf_comm *comm, struct hrf_error *err)
{
    if (comm == NULL)
        return HRF_OK;
    atomic_fetch_add(&comm->steps, 1);
    return comm->ops->progress != NULL ? comm->ops->progress(comm, err) : HRF_OK;
}

enum hrf_status hrf_scorer_outputs(const struct hrf_fine_tuning *tuning,
                                   const struct hrf_graph *network, const int64_t *order, int64_t n,
                                   size_t n_outputs, const char *activation, int64_t kept_bytes,
                                   hrf_scorer_take *take, void *context, struct hrf_error *err)
{
    HRF_AUTO(hrf_network) scorer = NULL;
    HRF_AUTO(hrf_sample_feed) feed = NULL;
    if (n == 0)
        return HRF_OK;
    const int64_t batch = network->values[network->inputs[0]].shape.dims[0];
    const struct hrf_sample_feed_config feeding = { .list = tuning->list,
                                                    .form = &tuning->form,
                                                    .order = order,
                                                    .n = n,
                                                    .batch = batch,
                                                    .n_threads = hrf_scorer_readers(tuning) };
    HRF_TRY(
        create_network(tuning, network, &feeding, n_outputs, activation, kept_bytes, &scorer, err));
    HRF_TRY(hrf_sample_feed_create(&feeding, &feed, err));
    const struct hrf_shape shape = hrf_network_output_shape(scorer, 0);
    const int64_t n_numbers = hrf_shape_count(&shape) / batch;
    for (int64_t first = 0; first < n; first += batch) {
        HRF_TRY(hrf_sample_feed_hold(feed, err));
        HRF_TRY(hrf_network_run(scorer, read_box, feed, err));
        HRF_TRY(show_life(tuning->comm, err));
        const float *out = hrf_network_output(scorer, 0);
        for (int64_t i = 0; i < batch && first + i < n; i++)
            take(context, order[first + i], out + i * n_numbers, &shape,
                 hrf_sample_feed_mask(feed, i));
        hrf_sample_feed_give_back(feed);
    }
    return HRF_OK;
}

enum hrf_status hrf_scorer_run(const struct hrf_fine_tuning *tuning,
                               const struct hrf_graph *network, const enum hrf_training_part *parts,
                               enum hrf_training_part part, float *scores, struct hrf_error *err)
{
    const struct hrf_training_set *set = &tuning->list->set;
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array(set->n_items + 1, sizeof *order);
    int64_t n = 0;
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] == part)
            order[n++] = (int64_t)i;
    const size_t n_classes = tuning->recipe->classes.n_items;
    struct hrf_scorer_vectors vectors = { scores, n_classes };
    struct pixels pixels = { scores, tuning->form.side };
    const bool is_pixels = set->kind == HRF_LABEL_PIXELS;
    HRF_TRY(hrf_scorer_outputs(tuning, network, order, n, n_classes,
                               hrf_train_recipe_activation(tuning->recipe), 0,
                               is_pixels ? take_pixels : hrf_scorer_take_vector,
                               is_pixels ? (void *)&pixels : &vectors, err));
    return hrf_not_finite_check(tuning, network, parts, part, scores, err);
}
