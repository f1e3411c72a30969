/* train.c - the epochs of one training, and what it leaves. */
#include "heads/train/train.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/host.h"
#include "base/json.h"
#include "base/path.h"
#include "base/processor.h"
#include "base/random.h"
#include "heads/bags/bag_ahead.h"
#include "heads/export/export.h"
#include "heads/train/checkpoint.h"
#include "training/cohort/training_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most work that is lost if a training is killed, and an epoch. A checkpoint is on the disk
 * when it counts, which may take longer than an epoch of a small head. */
enum { KEEP_S = 10 };

struct job {
    const struct hrf_training *training;
    struct hrf_training_set set;
    enum hrf_training_part *parts; /* [n_items] */
    double *class_weights;         /* [n_classes] */
    struct hrf_training_state state;
    struct hrf_tape *tape;
    struct hrf_bag_ahead ahead;
    int64_t *order; /* slides of the epoch */
    bool *is_read;  /* [n_items]: by this process, once or more */
    float *scores;  /* [n_items][n_classes] of the weights that are kept */
    char key[HRF_HASH_HEX];
    char *checkpoint;
};

static void job_release(struct job *job)
{
    hrf_bag_ahead_release(&job->ahead);
    hrf_tape_destroy(job->tape);
    hrf_head_destroy(job->state.head);
    hrf_adam_release(&job->state.adam);
    hrf_free(job->state.best);
    hrf_free(job->state.records);
    hrf_training_set_release(&job->set);
    hrf_free(job->parts);
    hrf_free(job->class_weights);
    hrf_free(job->order);
    hrf_free(job->is_read);
    hrf_free(job->scores);
    hrf_free(job->checkpoint);
}

#define COUNT(name, member, column_, ...)                                                          \
    .key = name, HRF_FIGURE_AT(hrf_training_figures, member), .unit = HRF_UNIT_COUNT,              \
    .better = HRF_BETTER_NEITHER, .shown = HRF_IN_JSON, .column = column_, __VA_ARGS__
const struct hrf_figure_row hrf_training_rows[] = {
    { COUNT("training_slides", n_training, 1, .help = "slides that it was trained on") },
    { COUNT("validation_slides", n_validation, 2, .help = "slides that chose its epoch") },
    { COUNT("testing_slides", n_testing, 3, .help = "slides that its figures are of") },
    { COUNT("epochs", n_epochs, 4, .help = "epochs that were trained") },
    { COUNT("best_epoch", best_epoch, 5, .help = "the epoch whose weights are kept, from 1") },
    { .key = NULL },
};

#define EPOCH(member, way, column_, ...)                                                           \
    .key = #member, HRF_FIGURE_AT(hrf_epoch_record, member), .unit = HRF_UNIT_ONE,                 \
    .better = HRF_BETTER_##way, .shown = HRF_IN_CSV, .column = column_, __VA_ARGS__
const struct hrf_figure_row hrf_epoch_rows[] = {
    { EPOCH(training_loss, LOWER, 1, .help = "mean loss of a slide while the epoch trained") },
    { EPOCH(validation_loss, LOWER, 2, .help = "of the slides for validation, after the epoch") },
    { EPOCH(validation_auc, HIGHER, 3, .help = "likewise, their AUC") },
    { .key = NULL },
};

/* ---- what names a training ---- */

static enum hrf_status make_key(const struct hrf_training *t, char key[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    const struct hrf_recipe *r = t->recipe;
    const int64_t numbers[] = { (int64_t)r->kind,
                                r->hidden,
                                r->attention,
                                r->landmarks,
                                r->samples,
                                (int64_t)r->split,
                                r->folds,
                                r->split_seed,
                                r->epochs,
                                r->patience,
                                r->min_epochs,
                                (int64_t)r->optimizer,
                                (int64_t)r->class_weights,
                                r->shuffle,
                                t->fold,
                                t->seed,
                                t->slides->width };
    const double reals[] = { r->dropout, r->instance_weight, r->validation, r->learning_rate,
                             r->weight_decay };
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, r->set);
    hrf_hash_text(hash, t->slides->origin);
    hrf_hash_bytes(hash, numbers, sizeof numbers);
    hrf_hash_bytes(hash, reals, sizeof reals);
    for (int32_t k = 0; k < (int32_t)r->classes.n_items; k++)
        hrf_hash_text(hash, r->classes.items[k]);
    for (size_t i = 0; i < t->slides->n_items; i++) {
        const struct hrf_head_slide *s = &t->slides->items[i];
        hrf_hash_text(hash, s->name);
        hrf_hash_text(hash, s->patient);
        hrf_hash_int(hash, s->label);
        hrf_hash_int(hash, (int64_t)s->part);
        hrf_hash_text(hash, s->sha256);
    }
    hrf_hash_hex(hash, key);
    return HRF_OK;
}

/* heads/tape/loops.c is compiled for these instructions. */
enum hrf_status hrf_training_check_processor(struct hrf_error *err)
{
#ifdef __x86_64__
    if (!hrf_processor_has_avx2())
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "training a slide head needs AVX2 and FMA, which this processor does not have");
#endif
    (void)err;
    return HRF_OK;
}

json_t *hrf_training_json(const struct hrf_training *training,
                          const struct hrf_training_figures *figures)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "fold", training->fold);
    hrf_json_put_int(object, "seed", training->seed);
    hrf_figures_put(object, hrf_training_rows, 0, figures);
    hrf_figures_put(object, hrf_scored_figure_rows, 0, &figures->testing);
    hrf_json_put_text(object, "why_no_figure", figures->testing.why);
    return object;
}

bool hrf_training_is_done(const struct hrf_training *training, struct hrf_training_figures *out)
{
    char key[HRF_HASH_HEX];
    const char *found = NULL;
    HRF_AUTO_JSON json = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(training->folder, "result.json");
    if (make_key(training, key, NULL) != HRF_OK ||
        hrf_json_read_file(path, &json, NULL) != HRF_OK ||
        hrf_json_get_text(json, "key", path, &found, NULL) != HRF_OK || strcmp(found, key) != 0)
        return false;
    *out = (struct hrf_training_figures){ .n_training = 0 };
    if (hrf_figures_get(json, hrf_training_rows, path, out, NULL) != HRF_OK ||
        hrf_figures_get(json, hrf_scored_figure_rows, path, &out->testing, NULL) != HRF_OK ||
        hrf_json_get_text(json, "why_no_figure", path, &found, NULL) != HRF_OK)
        return false;
    snprintf(out->testing.why, sizeof out->testing.why, "%s", found);
    return true;
}

/* ---- set-up ---- */

/* slides / (classes * slides of the class), as scikit-learn's "balanced". */
static void weigh_classes(struct job *job)
{
    const struct hrf_training *t = job->training;
    const int32_t n_classes = (int32_t)t->recipe->classes.n_items;
    int64_t n = 0;
    job->class_weights = hrf_calloc((size_t)n_classes, sizeof *job->class_weights);
    for (size_t i = 0; i < t->slides->n_items; i++)
        if (job->parts[i] == HRF_PART_TRAINING) {
            job->class_weights[t->slides->items[i].label]++;
            n++;
        }
    for (int32_t k = 0; k < n_classes; k++) {
        const double count = job->class_weights[k];
        job->class_weights[k] = t->recipe->class_weights == HRF_WEIGHTS_BALANCED && count > 0
                                    ? (double)n / (n_classes * count)
                                    : 1.0;
    }
}

static enum hrf_status make_state(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_recipe *r = t->recipe;
    struct hrf_training_state *s = &job->state;
    const struct hrf_head_form form = { .kind = r->kind,
                                        .width = t->slides->width,
                                        .n_classes = (int32_t)r->classes.n_items,
                                        .hidden = r->hidden,
                                        .attention = r->attention,
                                        .landmarks = r->landmarks,
                                        .samples = r->samples,
                                        .dropout = r->dropout,
                                        .instance_weight = r->instance_weight };
    HRF_TRY(hrf_head_create(&form, (uint64_t)t->seed, &s->head, err));
    s->adam.learning_rate = r->learning_rate;
    s->adam.weight_decay = r->weight_decay;
    s->adam.is_decoupled = r->optimizer == HRF_ADAMW;
    hrf_adam_init(&s->adam, s->head);
    s->best_loss = INFINITY;
    s->max_epochs = r->epochs;
    s->best = hrf_try_alloc_array((size_t)s->head->n_values, sizeof *s->best);
    s->records = hrf_calloc((size_t)r->epochs, sizeof *s->records);
    HRF_CHECK_MEMORY(s->best != NULL, err, "no memory for a training");
    memcpy(s->best, s->head->values, (size_t)s->head->n_values * sizeof *s->best);
    return HRF_OK;
}

/* Bytes of the tape for a bag of n embeddings, all zeros. */
static enum hrf_status measure_tape(struct job *job, int64_t n, bool is_training, double *n_bytes,
                                    struct hrf_error *err)
{
    const int64_t width = job->training->slides->width;
    struct hrf_head_result r;
    HRF_AUTO_FREE float *zeros = hrf_try_calloc((size_t)n, (size_t)width * sizeof *zeros);
    HRF_CHECK_MEMORY(zeros != NULL, err, "no memory for a bag");
    hrf_tape_clear(job->tape, 0, is_training);
    hrf_head_forget_grads(job->state.head);
    HRF_TRY(hrf_head_run(job->state.head, job->tape, hrf_tape_input(job->tape, zeros, n, width),
                         is_training ? 0 : -1, 1, &r, err));
    if (is_training)
        HRF_TRY(hrf_tape_backward(job->tape, r.loss, err));
    *n_bytes = (double)hrf_tape_bytes(job->tape);
    return HRF_OK;
}

/* Refuses a part's largest bag before the first epoch if its calculation will not fit. What a tape
 * takes grows with the rows by a straight line, which two small bags give. */
static enum hrf_status check_memory(struct job *job, bool is_training, struct hrf_error *err)
{
    enum { SMALL = 1024, LARGER = 4096, ALWAYS_FITS = 16384 }; /* embeddings */
    const struct hrf_head_slides *s = job->training->slides;
    const struct hrf_head_slide *largest = NULL;
    double small = 0, larger = 0;
    for (size_t i = 0; i < s->n_items; i++)
        if ((job->parts[i] == HRF_PART_TRAINING) == is_training &&
            (largest == NULL || s->items[i].n_patches > largest->n_patches))
            largest = &s->items[i];
    if (largest == NULL || largest->n_patches <= ALWAYS_FITS)
        return HRF_OK;
    HRF_TRY(measure_tape(job, SMALL, is_training, &small, err));
    HRF_TRY(measure_tape(job, LARGER, is_training, &larger, err));
    const double n = (double)largest->n_patches, left = (double)hrf_process_memory_left();
    const double need = small + (n - SMALL) * (larger - small) / (LARGER - SMALL) +
                        n * (double)s->width * sizeof(float);
    if (need <= left)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_NOMEM,
                         "%s the head on slide '%s', %lld embeddings of %lld numbers, needs %.0f "
                         "MB, and %.0f MB of memory are left: run it where there is more, or leave "
                         "the slide out",
                         is_training ? "training" : "scoring", largest->name,
                         (long long)largest->n_patches, (long long)s->width, need / 1e6,
                         left / 1e6);
}

static enum hrf_status set_up(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const size_t n = t->slides->n_items;
    job->parts = hrf_alloc_array(n, sizeof *job->parts);
    job->order = hrf_alloc_array(n, sizeof *job->order);
    job->is_read = hrf_calloc(n, sizeof *job->is_read);
    job->scores = hrf_calloc(n * t->recipe->classes.n_items, sizeof *job->scores);
    job->checkpoint = hrf_path_join(t->folder, "checkpoint.bin");
    memset(job->is_read, t->slides->is_read_once, n * sizeof *job->is_read);
    hrf_head_set_init(&job->set, t->slides, t->recipe);
    HRF_TRY(make_key(t, job->key, err));
    HRF_TRY(hrf_training_set_split(&job->set, t->fold, job->parts, err));
    weigh_classes(job);
    HRF_TRY(make_state(job, err));
    hrf_tape_create(&job->tape);
    HRF_TRY(check_memory(job, true, err));
    return check_memory(job, false, err);
}

/* ---- epochs ---- */

static uint64_t draw_seed(const struct job *job, int64_t epoch, int64_t slide)
{
    struct hrf_random random = hrf_random_init((uint64_t)job->training->seed);
    uint64_t seed = hrf_random_u64(&random);
    random = hrf_random_init(seed ^ (uint64_t)epoch);
    seed = hrf_random_u64(&random);
    random = hrf_random_init(seed ^ (uint64_t)slide);
    return hrf_random_u64(&random);
}

/* The slides of a part in order; for training, in the drawn order of the epoch. */
static size_t make_order(struct job *job, enum hrf_training_part part, int64_t epoch)
{
    size_t n = 0;
    for (size_t i = 0; i < job->training->slides->n_items; i++)
        if (job->parts[i] == part)
            job->order[n++] = (int64_t)i;
    if (part != HRF_PART_TRAINING || !job->training->recipe->shuffle)
        return n;
    struct hrf_random random = hrf_random_init(draw_seed(job, epoch, -1));
    for (size_t i = n; i > 1; i--) {
        const int64_t other = hrf_random_below(&random, (int64_t)i);
        const int64_t kept = job->order[i - 1];
        job->order[i - 1] = job->order[other];
        job->order[other] = kept;
    }
    return n;
}

/* The i-th bag of the order in place of the one before, in whose memory the next one is read. */
static enum hrf_status take_bag(struct job *job, size_t i, size_t n, struct hrf_bag **bag,
                                struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_head_slide *slides = t->slides->items;
    HRF_AUTO(hrf_bag) spare = NULL;
    HRF_MOVE(spare, *bag);
    HRF_TRY(hrf_bag_ahead_take(&job->ahead, slides[job->order[i]].path, t->recipe->set,
                               t->slides->width, bag, err));
    if (i + 1 == n)
        return HRF_OK;
    const int64_t next = job->order[i + 1];
    hrf_bag_ahead_start(&job->ahead, slides[next].path, t->recipe->set, t->slides->width,
                        job->is_read[next], spare);
    spare = NULL;
    job->is_read[next] = true;
    return HRF_OK;
}

static enum hrf_status train_slide(struct job *job, const struct hrf_bag *bag, int64_t epoch,
                                   int64_t index, double *loss, struct hrf_error *err)
{
    const struct hrf_head_slide *slide = &job->training->slides->items[index];
    struct hrf_head_result r;
    hrf_tape_clear(job->tape, draw_seed(job, epoch, index), true);
    hrf_head_forget_grads(job->state.head);
    HRF_TRY(hrf_head_run(job->state.head, job->tape,
                         hrf_tape_input(job->tape, bag->values, bag->n, bag->width), slide->label,
                         job->class_weights[slide->label], &r, err));
    HRF_TRY(hrf_tape_backward(job->tape, r.loss, err));
    *loss += (double)r.loss->data[0];
    if (!isfinite(r.loss->data[0]))
        return hrf_error_set(err, HRF_E_USER,
                             "epoch %lld: the loss of slide '%s' is %f: a lower "
                             "train.learning_rate may help",
                             (long long)epoch, slide->name, (double)r.loss->data[0]);
    hrf_adam_step(&job->state.adam, job->state.head);
    return HRF_OK;
}

static enum hrf_status train_epoch(struct job *job, int64_t epoch, double *loss,
                                   struct hrf_error *err)
{
    const size_t n = make_order(job, HRF_PART_TRAINING, epoch);
    HRF_AUTO(hrf_bag) bag = NULL;
    *loss = 0;
    for (size_t i = 0; i < n; i++) {
        HRF_TRY(take_bag(job, i, n, &bag, err));
        HRF_TRY(train_slide(job, bag, epoch, job->order[i], loss, err));
    }
    *loss /= (double)n;
    return HRF_OK;
}

/* Scores of all slides of a part, without dropout. */
static enum hrf_status score_part(struct job *job, enum hrf_training_part part,
                                  struct hrf_error *err)
{
    const size_t n = make_order(job, part, 0);
    const size_t n_classes = job->training->recipe->classes.n_items;
    HRF_AUTO(hrf_bag) bag = NULL;
    for (size_t i = 0; i < n; i++) {
        struct hrf_head_result r;
        HRF_TRY(take_bag(job, i, n, &bag, err));
        hrf_tape_clear(job->tape, 0, false);
        HRF_TRY(hrf_head_run(job->state.head, job->tape,
                             hrf_tape_input(job->tape, bag->values, bag->n, bag->width), -1, 1, &r,
                             err));
        memcpy(job->scores + (size_t)job->order[i] * n_classes, r.scores->data,
               n_classes * sizeof *job->scores);
    }
    return HRF_OK;
}

static struct hrf_scored_figures part_figures(const struct job *job, enum hrf_training_part part)
{
    return hrf_predictions_figures(&job->set, job->parts, part, &job->training->recipe->classes,
                                   job->scores);
}

static enum hrf_status run_epoch(struct job *job, struct hrf_error *err)
{
    struct hrf_training_state *s = &job->state;
    struct hrf_epoch_record *record = &s->records[s->epoch];
    HRF_TRY(train_epoch(job, s->epoch + 1, &record->training_loss, err));
    HRF_TRY(score_part(job, HRF_PART_VALIDATION, err));
    record->validation_loss = hrf_predictions_loss(&job->set, job->parts, HRF_PART_VALIDATION,
                                                   job->training->recipe->classes.n_items,
                                                   job->scores);
    record->validation_auc = part_figures(job, HRF_PART_VALIDATION).auc;
    s->epoch++;
    if (!(record->validation_loss >= s->best_loss)) { /* also without validation: NaN */
        s->best_loss = isnan(record->validation_loss) ? INFINITY : record->validation_loss;
        s->best_epoch = s->epoch;
        memcpy(s->best, s->head->values, (size_t)s->head->n_values * sizeof *s->best);
    }
    fprintf(stderr, "fold %lld seed %lld epoch %lld: loss %.4f", (long long)job->training->fold,
            (long long)job->training->seed, (long long)s->epoch, record->training_loss);
    if (!isnan(record->validation_loss))
        fprintf(stderr, ", validation %.4f", record->validation_loss);
    if (!isnan(record->validation_auc))
        fprintf(stderr, " (AUC %.3f)", record->validation_auc);
    fputc('\n', stderr);
    return HRF_OK;
}

static bool is_over(const struct job *job)
{
    const struct hrf_recipe *r = job->training->recipe;
    const struct hrf_training_state *s = &job->state;
    return s->epoch >= r->epochs ||
           (s->epoch >= r->min_epochs && s->epoch - s->best_epoch >= r->patience);
}

/* ---- what it leaves ---- */

static enum hrf_status write_result(const struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_training_figures figures = {
        .n_training = hrf_predictions_count(&job->set, job->parts, HRF_PART_TRAINING),
        .n_validation = hrf_predictions_count(&job->set, job->parts, HRF_PART_VALIDATION),
        .n_testing = hrf_predictions_count(&job->set, job->parts, HRF_PART_TESTING),
        .n_epochs = job->state.epoch,
        .best_epoch = job->state.best_epoch,
        .testing = part_figures(job, HRF_PART_TESTING)
    };
    HRF_AUTO_FREE char *path = hrf_path_join(t->folder, "result.json");
    HRF_AUTO_JSON json = hrf_training_json(t, &figures);
    hrf_json_put_int(json, "version", 1);
    hrf_json_put_text(json, "key", job->key);
    hrf_json_put_text(json, "head", hrf_head_kind_names[t->recipe->kind]);
    hrf_json_put_text(json, "features", t->slides->origin);
    return hrf_json_write_file(path, json, err);
}

/* What stays with the head: who it is, and what it has seen. */
static enum hrf_status write_head(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    HRF_AUTO_FREE char *path = hrf_path_join(t->folder, "head.onnx");
    HRF_AUTO_FREE const char **seen = hrf_calloc(t->slides->n_items + 1, sizeof *seen);
    size_t n = 0;
    for (size_t i = 0; i < t->slides->n_items; i++)
        if (job->parts[i] != HRF_PART_TESTING)
            seen[n++] = t->slides->items[i].name;
    const struct hrf_head_labels labels = { .classes = t->recipe->classes.items,
                                            .n_classes = (int32_t)t->recipe->classes.n_items,
                                            .origin = t->slides->origin,
                                            .seen = seen,
                                            .n_seen = n };
    return hrf_head_export(job->state.head, &labels, path, err);
}

static enum hrf_status finish(struct job *job, struct hrf_error *err)
{
    const char *folder = job->training->folder;
    memcpy(job->state.head->values, job->state.best,
           (size_t)job->state.head->n_values * sizeof *job->state.best);
    HRF_TRY(score_part(job, HRF_PART_VALIDATION, err));
    HRF_TRY(score_part(job, HRF_PART_TESTING, err));
    HRF_TRY(hrf_history_write(folder, hrf_epoch_rows, job->state.records,
                              sizeof job->state.records[0], job->state.epoch, err));
    HRF_TRY(hrf_predictions_write(folder, "slide", &job->set, job->parts,
                                  &job->training->recipe->classes, job->scores, err));
    hrf_crash_point("head.write.before");
    HRF_TRY(write_head(job, err));
    hrf_crash_point("head.result.before");
    HRF_TRY(write_result(job, err));
    hrf_crash_point("head.result.after");
    hrf_training_remove_checkpoint(folder);
    return HRF_OK;
}

static enum hrf_status train(struct job *job, struct hrf_error *err)
{
    HRF_TRY(set_up(job, err));
    if (!hrf_checkpoint_read(&job->state, job->key, job->checkpoint))
        HRF_TRY(hrf_checkpoint_write(&job->state, job->key, job->checkpoint, err));
    else if (job->state.epoch > 0)
        fprintf(stderr, "fold %lld seed %lld: goes on after epoch %lld\n",
                (long long)job->training->fold, (long long)job->training->seed,
                (long long)job->state.epoch);
    hrf_training_remove_leftovers(job->training->folder);
    hrf_crash_point("head.start");
    const char *asked = getenv("HRF_PART_MS");
    const double interval = asked != NULL ? strtod(asked, NULL) / 1e3 : KEEP_S;
    double kept = hrf_clock_seconds();
    while (!is_over(job)) {
        HRF_TRY(run_epoch(job, err));
        const bool stops = job->training->is_stopping != NULL && job->training->is_stopping() &&
                           !is_over(job);
        hrf_crash_point("head.epoch.before");
        if (stops || hrf_clock_seconds() - kept >= interval) {
            HRF_TRY(hrf_checkpoint_write(&job->state, job->key, job->checkpoint, err));
            kept = hrf_clock_seconds();
        }
        hrf_crash_point("head.epoch.after");
        if (stops)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    return finish(job, err);
}

enum hrf_status hrf_training_run(const struct hrf_training *training, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(job) job = { .training = training };
    return train(&job, err);
}
