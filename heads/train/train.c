/* train.c - the epochs of one training, and what it leaves. */
#include "heads/train/train.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/host.h"
#include "base/json.h"
#include "base/path.h"
#include "base/random.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/run/session.h"
#include "engine/run/slide_head.h"
#include "engine/train/trainer.h"
#include "heads/bags/bag_ahead.h"
#include "heads/export/export.h"
#include "training/cohort/checkpoint_file.h"
#include "training/cohort/training_files.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* The most work that is lost if a training is killed, and an epoch. A checkpoint is on the disk
 * when it counts, which may take longer than an epoch of a small head. */
enum { KEEP_MS = 10000 };

/* What a checkpoint holds first. */
struct progress {
    int64_t epoch;      /* epochs that are done */
    int64_t best_epoch; /* from 1; 0: none yet */
    double best_loss;
};

struct job {
    const struct hrf_training *training;
    struct hrf_training_set set;
    enum hrf_training_part *parts; /* [n_items] */
    double *class_weights;         /* [n_classes] */
    struct hrf_head *head;         /* its weights are those of the last scores */
    struct hrf_trainer *trainer;
    struct progress progress;
    struct hrf_training_epoch *records; /* [recipe->epochs] */
    float *best;                        /* [n_values of the head]: the weights to keep */
    struct hrf_bag_ahead ahead;
    int64_t *order; /* slides of the epoch */
    bool *is_read;  /* [n_items]: by this process, once or more */
    float *scores;  /* [n_items][n_classes] */
    char key[HRF_HASH_HEX];
    char *checkpoint;
};

static void job_release(struct job *job)
{
    hrf_bag_ahead_release(&job->ahead);
    hrf_head_destroy(job->head);
    hrf_trainer_destroy(job->trainer);
    hrf_free(job->best);
    hrf_free(job->records);
    hrf_training_set_release(&job->set);
    hrf_free(job->parts);
    hrf_free(job->class_weights);
    hrf_free(job->order);
    hrf_free(job->is_read);
    hrf_free(job->scores);
    hrf_free(job->checkpoint);
}

/* ---- what names a training ---- */

static enum hrf_status make_key(const struct hrf_training *t, char key[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_recipe_describe(t->recipe, &settings);
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, settings.text);
    hrf_hash_text(hash, t->slides->origin);
    hrf_hash_int(hash, t->slides->width);
    hrf_hash_int(hash, t->fold);
    hrf_hash_int(hash, t->seed);
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

bool hrf_training_is_done(const struct hrf_training *training, struct hrf_training_figures *out)
{
    char key[HRF_HASH_HEX];
    return make_key(training, key, NULL) == HRF_OK &&
           hrf_training_figures_read(training->folder, key, hrf_training_of_slides_rows,
                                     HRF_LABEL_CLASS, out);
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

static enum hrf_status make_head(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_recipe *r = t->recipe;
    const struct hrf_head_form form = { .kind = r->kind,
                                        .width = t->slides->width,
                                        .n_classes = (int32_t)r->classes.n_items,
                                        .hidden = r->hidden,
                                        .attention = r->attention,
                                        .landmarks = r->landmarks,
                                        .samples = r->samples,
                                        .dropout = r->dropout,
                                        .instance_weight = r->instance_weight };
    HRF_TRY(hrf_head_create(&form, (uint64_t)t->seed, &job->head, err));
    job->progress.best_loss = INFINITY;
    job->best = hrf_try_alloc_array((size_t)job->head->n_values, sizeof *job->best);
    job->records = hrf_calloc((size_t)r->epochs, sizeof *job->records);
    HRF_CHECK_MEMORY(job->best != NULL, err, "no memory for a training");
    memcpy(job->best, job->head->values, (size_t)job->head->n_values * sizeof *job->best);
    return HRF_OK;
}

/* The first network has all weights; each step changes to that of its bag. */
static enum hrf_status make_trainer(struct job *job, struct hrf_error *err)
{
    const struct hrf_recipe *r = job->training->recipe;
    const struct hrf_head_step any = { .n = 1, .label = -1 };
    struct hrf_trainer_config config = {
        .step = { .device = "cpu",
                  .loss = HRF_LOSS_LINEAR,
                  .n_threads = omp_get_max_threads(),
                  .tiles = { 1, 1 } },
        .optimizer = hrf_optimizer_default(HRF_OPTIMIZER_ADAMW),
    };
    HRF_AUTO(hrf_graph) network = NULL;
    config.optimizer.weight_decay = r->weight_decay;
    config.optimizer.decays_all = true;
    config.optimizer.couples_decay = r->optimizer == HRF_ADAM;
    HRF_TRY(hrf_head_step_network(job->head, &any, &network, err));
    HRF_TRY(hrf_trainer_create(network, &config, &job->trainer, err));
    return HRF_OK;
}

/* Bytes that a bag of n embeddings takes. */
static enum hrf_status measure_bag(const struct job *job, int64_t n, bool is_training,
                                   double *n_bytes, struct hrf_error *err)
{
    const struct hrf_head_step step = { .n = n, .label = 0 };
    const struct hrf_shape of_bag = { 2, { n, job->head->form.width } };
    const struct hrf_session_config config = {
        .device = "cpu", .precision = HRF_FP32, .n_threads = omp_get_max_threads(), .is_lent = true
    };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    if (is_training) {
        HRF_TRY(hrf_head_step_network(job->head, &step, &graph, err));
        HRF_TRY(hrf_pass_training_step(graph, HRF_LOSS_LINEAR, NULL, &gradients, err));
    } else {
        HRF_TRY(hrf_head_network(job->head, &graph, err));
        HRF_TRY(hrf_graph_set_input_shape(graph, 0, &of_bag, err));
    }
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    const struct hrf_session_memory memory = hrf_session_memory(session);
    *n_bytes = (double)hrf_session_memory_total(&memory) +
               (double)hrf_shape_count(&of_bag) * sizeof(float);
    return HRF_OK;
}

/* Refuses a part's largest bag before the first epoch if its calculation will not fit beside what
 * is *taken, to which it is added. */
static enum hrf_status check_memory(struct job *job, bool is_training, double *taken,
                                    struct hrf_error *err)
{
    const struct hrf_head_slides *s = job->training->slides;
    const struct hrf_head_slide *largest = NULL;
    const bool has_blocks = !is_training && job->head->form.kind != HRF_HEAD_TRANSMIL;
    double need = 0;
    for (size_t i = 0; i < s->n_items; i++)
        if ((job->parts[i] == HRF_PART_TRAINING) == is_training &&
            !(has_blocks && s->items[i].n_patches > HRF_BAG_WHOLE) &&
            (largest == NULL || s->items[i].n_patches > largest->n_patches))
            largest = &s->items[i];
    if (largest == NULL)
        return HRF_OK;
    HRF_TRY(measure_bag(job, largest->n_patches, is_training, &need, err));
    const double left = (double)hrf_process_memory_left();
    *taken += need;
    if (*taken <= left)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_NOMEM,
                         "%s the head on slide '%s', %lld embeddings of %lld numbers, needs %.0f "
                         "MB, and %.0f MB of memory are left: run it where there is more, or leave "
                         "the slide out",
                         is_training ? "training" : "scoring", largest->name,
                         (long long)largest->n_patches, (long long)s->width, *taken / 1e6,
                         left / 1e6);
}

static enum hrf_status set_up(struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const size_t n = t->slides->n_items;
    double taken = 0;
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
    HRF_TRY(make_head(job, err));
    HRF_TRY(make_trainer(job, err));
    HRF_TRY(check_memory(job, true, &taken, err));
    return check_memory(job, false, &taken, err);
}

/* ---- checkpoints ---- */

static const char magic[8] = "HRFHEAD3";

static enum hrf_status write_checkpoint(struct job *job, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    hrf_trainer_append_state(job->trainer, &state);
    const struct hrf_checkpoint_part parts[] = {
        { &job->progress, sizeof job->progress },
        { job->records, (size_t)job->training->recipe->epochs * sizeof *job->records },
        { job->best, (size_t)job->head->n_values * sizeof *job->best },
        { state.text, state.length },
    };
    return hrf_checkpoint_file_write(job->checkpoint, job->training->attempt, magic, job->key,
                                     parts, sizeof parts / sizeof parts[0], err);
}

/* Goes on where the checkpoint was written; false: there is none of this training. */
static bool read_checkpoint(struct job *job)
{
    const size_t n_records = (size_t)job->training->recipe->epochs * sizeof *job->records;
    const size_t n_best = (size_t)job->head->n_values * sizeof *job->best;
    const size_t before = sizeof job->progress + n_records + n_best;
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    if (!hrf_checkpoint_file_read(job->checkpoint, magic, job->key, SIZE_MAX / 2, &bytes, &n) ||
        n <= before ||
        hrf_trainer_set_state(job->trainer, bytes + before, n - before, NULL) != HRF_OK)
        return false;
    memcpy(&job->progress, bytes, sizeof job->progress);
    memcpy(job->records, bytes + sizeof job->progress, n_records);
    memcpy(job->best, bytes + sizeof job->progress + n_records, n_best);
    return true;
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
    hrf_random_shuffle(&random, job->order, (int64_t)n);
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

/* Fills what a step reads: the bag, what dropout leaves, the factors of the loss. */
static void fill_step(struct job *job, const struct hrf_graph *network,
                      const struct hrf_head_step *made, const struct hrf_bag *bag, uint64_t seed)
{
    struct hrf_train_step *step = hrf_trainer_next(job->trainer);
    struct hrf_random random = hrf_random_init(seed);
    memcpy(hrf_train_step_images(step), bag->values,
           (size_t)(bag->n * bag->width) * sizeof *bag->values);
    for (int32_t i = 1; i < network->n_inputs; i++) {
        const struct hrf_shape *shape = &network->values[network->inputs[i]].shape;
        hrf_head_draw_dropout(job->head->form.dropout, hrf_random_u64(&random), shape->dims[0],
                              shape->dims[1], hrf_train_step_input(step, i));
    }
    hrf_head_step_factors(job->head, made, job->class_weights[made->label],
                          hrf_train_step_targets(step));
}

static enum hrf_status train_slide(struct job *job, const struct hrf_bag *bag, int64_t epoch,
                                   int64_t index, double *sum, struct hrf_error *err)
{
    const struct hrf_head_slide *slide = &job->training->slides->items[index];
    const struct hrf_head_step made = { .n = bag->n, .label = slide->label };
    HRF_AUTO(hrf_graph) network = NULL;
    double loss = 0;
    HRF_TRY(hrf_head_step_network(job->head, &made, &network, err));
    HRF_TRY(hrf_train_step_change(hrf_trainer_next(job->trainer), network, err));
    fill_step(job, network, &made, bag, draw_seed(job, epoch, index));
    const enum hrf_status status = hrf_trainer_step(
        job->trainer, job->training->recipe->learning_rate, &loss, err);
    *sum += loss;
    return status == HRF_OK ? HRF_OK
                            : hrf_error_wrap(err, status, "epoch %lld, slide '%s'",
                                             (long long)epoch, slide->name);
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

static enum hrf_status read_rows(void *context, int64_t first, int64_t n, float *out,
                                 struct hrf_error *err)
{
    const struct hrf_bag *bag = context;
    (void)err;
    memcpy(out, bag->values + first * bag->width, (size_t)(n * bag->width) * sizeof *out);
    return HRF_OK;
}

/* Scores of all slides of a part by the head's weights, as `head score` computes them. */
static enum hrf_status score_part(struct job *job, enum hrf_training_part part,
                                  struct hrf_error *err)
{
    const size_t n = make_order(job, part, 0);
    const size_t n_classes = job->training->recipe->classes.n_items;
    const struct hrf_head_slide *slides = job->training->slides->items;
    HRF_AUTO(hrf_bag) bag = NULL;
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_slide_head) head = NULL;
    HRF_TRY(hrf_head_network(job->head, &network, err));
    HRF_TRY(hrf_slide_head_create(&network, "the head", &head, err));
    for (size_t i = 0; i < n; i++) {
        struct hrf_slide_head_result r;
        HRF_TRY(take_bag(job, i, n, &bag, err));
        const struct hrf_bag_rows rows = { bag->n, bag->width, read_rows, bag };
        const enum hrf_status status = hrf_slide_head_run(head, &rows, omp_get_max_threads(), &r,
                                                          err);
        if (status != HRF_OK)
            return hrf_error_wrap(err, status, "slide '%s'", slides[job->order[i]].name);
        memcpy(job->scores + (size_t)job->order[i] * n_classes, r.scores,
               n_classes * sizeof *job->scores);
    }
    return HRF_OK;
}

/* The head's weights become those of the trainer, which has them in the order of the parameters,
 * but for some that no loss depends on. */
static void take_weights(struct job *job)
{
    const struct hrf_train_step *step = hrf_trainer_next(job->trainer);
    const struct hrf_head_parameter *p = job->head->parameters;
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++, p++) {
        const struct hrf_trained_tensor *weights = &hrf_train_step_weights(step)[i];
        while (strcmp(p->name, weights->name) != 0)
            p++;
        memcpy(p->numbers, weights->numbers,
               (size_t)hrf_shape_count(&weights->shape) * sizeof(float));
    }
}

static enum hrf_status write_history(const struct job *job, struct hrf_error *err)
{
    return hrf_history_write(job->training->folder, job->training->attempt,
                             hrf_epoch_of_slides_rows, job->records, sizeof job->records[0],
                             job->progress.epoch, err);
}

static enum hrf_status run_epoch(struct job *job, struct hrf_error *err)
{
    struct progress *s = &job->progress;
    struct hrf_training_epoch *record = &job->records[s->epoch];
    HRF_TRY(train_epoch(job, s->epoch + 1, &record->training_loss, err));
    take_weights(job);
    const enum hrf_status status = score_part(job, HRF_PART_VALIDATION, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "after epoch %lld", (long long)s->epoch + 1);
    record->validation_loss = hrf_predictions_loss(&job->set, job->parts, HRF_PART_VALIDATION,
                                                   job->training->recipe->classes.n_items,
                                                   job->scores);
    record->validation_figure = hrf_predictions_figures(&job->set, job->parts, HRF_PART_VALIDATION,
                                                        &job->training->recipe->classes,
                                                        job->scores)
                                    .auc;
    s->epoch++;
    if (!(record->validation_loss >= s->best_loss)) { /* also without validation: NaN */
        s->best_loss = isnan(record->validation_loss) ? INFINITY : record->validation_loss;
        s->best_epoch = s->epoch;
        memcpy(job->best, job->head->values, (size_t)job->head->n_values * sizeof *job->best);
    }
    hrf_training_epoch_print(job->training->fold, job->training->seed, s->epoch, record, "AUC");
    fputc('\n', stderr);
    return write_history(job, err);
}

static bool is_over(const struct job *job)
{
    const struct hrf_recipe *r = job->training->recipe;
    const struct progress *s = &job->progress;
    return s->epoch >= r->epochs ||
           (s->epoch >= r->min_epochs && s->epoch - s->best_epoch >= r->patience);
}

/* ---- what it leaves ---- */

static enum hrf_status write_result(const struct job *job, struct hrf_error *err)
{
    const struct hrf_training *t = job->training;
    const struct hrf_training_figures figures = hrf_training_figures_find(
        &job->set, job->parts, &t->recipe->classes, job->scores, job->progress.epoch,
        job->progress.best_epoch);
    HRF_AUTO_FREE char *path = hrf_path_join(t->folder, "result.json");
    HRF_AUTO_JSON json = hrf_training_figures_json(hrf_training_of_slides_rows, HRF_LABEL_CLASS,
                                                   t->fold, t->seed, &figures);
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
    return hrf_head_export(job->head, &labels, path, err);
}

static enum hrf_status finish(struct job *job, struct hrf_error *err)
{
    const char *folder = job->training->folder;
    memcpy(job->head->values, job->best, (size_t)job->head->n_values * sizeof *job->best);
    HRF_TRY(score_part(job, HRF_PART_VALIDATION, err));
    HRF_TRY(score_part(job, HRF_PART_TESTING, err));
    HRF_TRY(write_history(job, err));
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
    if (!read_checkpoint(job))
        HRF_TRY(write_checkpoint(job, err));
    else if (job->progress.epoch > 0)
        fprintf(stderr, "fold %lld seed %lld: goes on after epoch %lld\n",
                (long long)job->training->fold, (long long)job->training->seed,
                (long long)job->progress.epoch);
    hrf_training_remove_leftovers(job->training->folder);
    hrf_crash_point("head.start");
    const double interval = (double)hrf_clock_setting_ms("HRF_PART_MS", 0, KEEP_MS) / 1e3;
    double kept = hrf_clock_seconds();
    while (!is_over(job)) {
        HRF_TRY(run_epoch(job, err));
        const bool stops = job->training->is_stopping != NULL && job->training->is_stopping() &&
                           !is_over(job);
        hrf_crash_point("head.epoch.before");
        if (stops || hrf_clock_seconds() - kept >= interval) {
            HRF_TRY(write_checkpoint(job, err));
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
