/* fine_tuning.c - the epochs of one training (fine_tuning.h). */
#include "training/loop/fine_tuning_private.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/path.h"
#include "engine/run/agree.h"
#include "schema/record/training_progress.h"
#include "training/cohort/checkpoint_file.h"
#include "training/cohort/folds_and_seeds.h"
#include "training/cohort/training_files.h"
#include "training/loop/last_layer.h"
#include "training/loop/lora.h"
#include "training/loop/probe.h"
#include "training/loop/scorer.h"
#include "training/loop/tuned_network.h"
#include "training/loop/weights.h"
#include "training/samples/sampler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a network of each kind of labels is trained by, and what its epochs are followed by. */
static const struct {
    enum hrf_loss loss;
    const char *figure; /* its short name on a terminal */
} kinds[HRF_N_LABEL_KINDS] = {
    [HRF_LABEL_CLASS] = { HRF_LOSS_CROSS_ENTROPY, "AUC" },
    [HRF_LABEL_SEVERAL] = { HRF_LOSS_BCE, "AUC" },
    [HRF_LABEL_NUMBERS] = { HRF_LOSS_MSE, "R2" },
    [HRF_LABEL_PIXELS] = { HRF_LOSS_CROSS_ENTROPY, "Dice" },
};

/* ---- what all trainings have in common ---- */

void hrf_fine_tuning_destroy(struct hrf_fine_tuning *tuning)
{
    if (tuning == NULL)
        return;
    hrf_graph_destroy(tuning->graph);
    hrf_free(tuning->embeddings);
    hrf_free(tuning);
}

enum hrf_status hrf_fine_tuning_open(const struct hrf_train_recipe *recipe,
                                     const struct hrf_sample_list *list,
                                     struct hrf_fine_tuning **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_fine_tuning) t = hrf_calloc(1, sizeof *t);
    t->recipe = recipe;
    t->list = list;
    t->device = "cpu";
    HRF_TRY(hrf_tuned_network_open(t, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

/* ---- one training ---- */

void hrf_tuning_drop_learner(struct hrf_tuning_job *job)
{
    job->steps->destroy(job->learner);
    job->learner = NULL;
    job->trainer = NULL;
}

static void hrf_tuning_job_release(struct hrf_tuning_job *job)
{
    hrf_tuning_drop_learner(job);
    hrf_head_destroy(job->head);
    hrf_graph_destroy(job->base);
    hrf_graph_destroy(job->shaped);
    hrf_graph_destroy(job->adapted);
    hrf_text_list_release(&job->trained);
    hrf_free(job->parts);
    hrf_free(job->units);
    hrf_free(job->offsets);
    hrf_free(job->records);
    hrf_free(job->best);
    hrf_free(job->order);
    hrf_free(job->scores);
    hrf_free(job->checkpoint);
}

enum hrf_status hrf_fine_tuning_key(const struct hrf_fine_tuning *t, int64_t fold, int64_t seed,
                                    char key[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) settings = HRF_STRBUF_INIT;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_train_recipe_describe(t->recipe, HRF_FOR_TRAINING, &settings);
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, settings.text);
    hrf_hash_text(hash, t->model_sha256);
    hrf_hash_int(hash, fold);
    hrf_hash_int(hash, seed);
    for (size_t i = 0; i < t->list->set.n_items; i++) {
        const struct hrf_training_item *item = &t->list->set.items[i];
        hrf_hash_text(hash, item->name);
        hrf_hash_text(hash, item->patient);
        hrf_hash_int(hash, item->label);
        for (size_t k = 0; t->list->set.truths != NULL && k < t->list->set.n_classes; k++)
            hrf_hash_double(hash, (double)t->list->set.truths[i * t->list->set.n_classes + k]);
        hrf_hash_int(hash, (int64_t)item->part);
        hrf_hash_text(hash, t->list->items[i].sha256);
        if (t->list->has_masks)
            hrf_hash_text(hash, t->list->items[i].mask_sha256);
    }
    hrf_hash_hex(hash, key);
    return HRF_OK;
}

/* ---- ranks ---- */

bool hrf_tuning_is_first(const struct hrf_tuning_job *job)
{
    return job->tuning->comm == NULL || job->tuning->comm->rank == 0;
}

enum hrf_status hrf_tuning_share(const struct hrf_tuning_job *job, void *bytes, size_t n_bytes,
                                 struct hrf_error *err)
{
    return job->tuning->comm != NULL ? hrf_broadcast(job->tuning->comm, bytes, n_bytes, err)
                                     : HRF_OK;
}

enum hrf_status hrf_tuning_agree(struct hrf_tuning_job *job, enum hrf_status status,
                                 const struct hrf_error *why, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    job->is_stopping = t->is_stopping != NULL && t->is_stopping(false);
    if (t->comm == NULL)
        return status == HRF_OK ? HRF_OK : hrf_error_pass(err, why);
    HRF_AUTO_FREE struct hrf_vote *vote = hrf_calloc(1, sizeof *vote);
    vote->status = status;
    vote->stops = job->is_stopping;
    snprintf(vote->text, sizeof vote->text, "%.511s", status == HRF_OK ? "" : why->text);
    HRF_TRY(hrf_agree(t->comm, vote, err));
    job->is_stopping = vote->stops;
    if (vote->stops && t->is_stopping != NULL)
        (void)t->is_stopping(true);
    return vote->status == HRF_OK ? HRF_OK : hrf_error_set(err, vote->status, "%s", vote->text);
}

/* ---- checkpoints ---- */

static const char magic[8] = "HRFTUNE3";

static enum hrf_status write_checkpoint(struct hrf_tuning_job *job, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    const double begin = hrf_clock_seconds();
    if (!hrf_tuning_is_first(job))
        return HRF_OK;
    snprintf(job->progress.layout, sizeof job->progress.layout, "%s", job->tuning->recipe->layout);
    snprintf(job->progress.device, sizeof job->progress.device, "%s", job->tuning->device);
    job->steps->append_state(job->learner, &state);
    const struct hrf_checkpoint_part parts[] = {
        { &job->progress, sizeof job->progress },
        { job->records, (size_t)job->tuning->recipe->epochs * sizeof *job->records },
        { job->best, (size_t)job->n_weights * sizeof *job->best },
        { state.text, state.length },
    };
    HRF_TRY(hrf_checkpoint_file_write(job->checkpoint, job->tuning->attempt, magic, job->key, parts,
                                      sizeof parts / sizeof parts[0], err));
    job->kept = hrf_clock_seconds();
    job->kept_steps = hrf_trainer_steps(job->trainer);
    job->write_seconds = job->kept - begin;
    return HRF_OK;
}

/* Goes on where the checkpoint was written, if there is one of this training. */
static enum hrf_status read_checkpoint(struct hrf_tuning_job *job, bool *is_there,
                                       struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const size_t n_records = (size_t)r->epochs * sizeof *job->records;
    const size_t n_best = (size_t)job->n_weights * sizeof *job->best;
    const size_t before = sizeof job->progress + n_records + n_best;
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    if (hrf_tuning_is_first(job) &&
        !hrf_checkpoint_file_read(job->checkpoint, magic, job->key, SIZE_MAX / 2, &bytes, &n))
        n = 0;
    HRF_TRY(hrf_tuning_share(job, &n, sizeof n, err));
    *is_there = n > before;
    if (!*is_there)
        return HRF_OK;
    if (!hrf_tuning_is_first(job))
        bytes = hrf_try_alloc(n);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for a checkpoint");
    HRF_TRY(hrf_tuning_share(job, bytes, n, err));
    HRF_TRY(job->steps->set_state(job->learner, bytes + before, n - before, err));
    job->kept_steps = hrf_trainer_steps(job->trainer);
    memcpy(&job->progress, bytes, sizeof job->progress);
    memcpy(job->records, bytes + sizeof job->progress, n_records);
    memcpy(job->best, bytes + sizeof job->progress + n_records, n_best);
    return HRF_OK;
}

/* At most every ten seconds, and for at most a twentieth of the time: a checkpoint of a large
 * network takes long. */
static enum hrf_status keep(struct hrf_tuning_job *job, struct hrf_error *err)
{
    enum { KEEP_MS = 10000, SHARE = 20 };
    const double interval = (double)hrf_clock_setting_ms("HRF_PART_MS", 0, KEEP_MS) / 1e3;
    const double since = hrf_clock_seconds() - job->kept;
    if (!hrf_tuning_is_first(job) || since < interval ||
        (interval > 0 && since < SHARE * job->write_seconds))
        return HRF_OK;
    hrf_crash_point("train.checkpoint.before");
    HRF_TRY(write_checkpoint(job, err));
    hrf_crash_point("train.checkpoint.after");
    return HRF_OK;
}

/* ---- set-up ---- */

static bool is_trained(void *context, const char *weight)
{
    const struct hrf_text_list *names = context;
    for (size_t i = 0; i < names->n_items; i++)
        if (strcmp(names->items[i], weight) == 0)
            return true;
    return false;
}

struct hrf_sample_feed_config hrf_tuning_feeding(const struct hrf_tuning_job *job, int64_t first)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const int64_t at_once = hrf_train_recipe_at_once(r);
    return (struct hrf_sample_feed_config){ .list = job->tuning->list,
                                            .form = &job->tuning->form,
                                            .order = job->order,
                                            .n = job->n_steps * at_once,
                                            .first = first * at_once,
                                            .batch = at_once,
                                            .augmentation = &r->augmentation,
                                            .seed = job->seed,
                                            .epoch = job->progress.epoch + 1,
                                            .n_threads = hrf_scorer_readers(job->tuning) };
}

void hrf_tuning_find_own(const struct hrf_tuning_job *job, int64_t *first, int64_t *end)
{
    const int64_t batch = hrf_train_recipe_at_once(job->tuning->recipe);
    int64_t own = 0, n_own = 0;
    hrf_train_step_own_images(hrf_trainer_next(job->trainer), &own, &n_own);
    *first = n_own > 0 ? own : batch;
    *end = n_own > 0 ? own + n_own : batch;
}

static enum hrf_status create_trainer(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_train_recipe *r = t->recipe;
    const struct hrf_sample_feed_config feeding = hrf_tuning_feeding(job, 0);
    struct hrf_trainer_config config = {
        .step = { .device = t->device,
                  .precision = r->precision == HRF_TRAIN_BF16 ? HRF_BF16 : HRF_FP32,
                  .loss = kinds[r->output].loss,
                  .uses_batch = r->batch_norm == HRF_NORM_BATCH,
                  .is_trained = r->layers > 0 || r->lora > 0 ? is_trained : NULL,
                  .context = &job->trained,
                  .n_threads = t->n_threads,
                  .layout = &r->ranks,
                  .comm = t->comm },
        .optimizer = hrf_train_recipe_optimizer(r),
    };
    const struct hrf_graph *network = job->adapted != NULL ? job->adapted : job->shaped;
    HRF_TRY(hrf_scorer_memory(t, &feeding, &config.step.memory_limit_bytes, err));
    const enum hrf_status status = job->steps->create(job, network, &config, err);
    return hrf_scorer_explain_memory(t, &feeding, status, err);
}

static enum hrf_status make_trainer(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_TRY(hrf_tuned_network_with_classes(t, job->seed, &job->base, err));
    HRF_TRY(hrf_tuned_network_shape(t, job->base, &job->shaped, err));
    if (t->recipe->lora > 0) {
        HRF_TRY(hrf_graph_copy(job->shaped, &job->adapted, err));
        HRF_TRY(hrf_lora_add(job->adapted, t->recipe->lora, t->recipe->layers, job->seed,
                             &job->trained, err));
        HRF_TRY(hrf_graph_infer_shapes(job->adapted, err));
    } else {
        HRF_TRY(hrf_last_layers_list(job->shaped, t->recipe->layers, &job->trained, err));
    }
    HRF_TRY(create_trainer(job, err));
    const struct hrf_train_step *step = hrf_trainer_next(job->trainer);
    if (hrf_tuning_is_first(job) && hrf_train_step_text(step)[0] != '\0')
        fprintf(stderr, "fold %lld seed %lld: each step %s\n", (long long)job->fold,
                (long long)job->seed, hrf_train_step_text(step));
    return HRF_OK;
}

/* Within a limit the memory is the trainer's or the scorer's, one after the other. */
static enum hrf_status score(struct hrf_tuning_job *job, const struct hrf_graph *network,
                             enum hrf_training_part part, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) state = HRF_STRBUF_INIT;
    const bool is_limited = job->tuning->recipe->memory > 0 &&
                            hrf_predictions_count(&job->set, job->parts, part) > 0;
    if (is_limited) {
        job->steps->append_state(job->learner, &state);
        hrf_tuning_drop_learner(job);
    }
    HRF_TRY(job->steps->score(job, network, part, err));
    if (!is_limited)
        return HRF_OK;
    HRF_TRY(create_trainer(job, err));
    return job->steps->set_state(job->learner, state.text, state.length, err);
}

/* Numbers are trained in deviations from their mean over the pictures for training, so that the
 * learning rate need not know their unit; a fresh last layer is scaled back at the end. */
static void find_units(struct hrf_tuning_job *job)
{
    const struct hrf_training_set *set = &job->set;
    const size_t n_classes = set->n_classes;
    if (set->kind != HRF_LABEL_NUMBERS || !job->tuning->is_renewed)
        return;
    const bool has_bias = hrf_last_layer_has_bias(job->base);
    const double n = (double)hrf_predictions_count(set, job->parts, HRF_PART_TRAINING);
    job->units = hrf_calloc(n_classes, sizeof *job->units);
    job->offsets = hrf_calloc(n_classes, sizeof *job->offsets);
    for (size_t k = 0; k < n_classes; k++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < set->n_items && has_bias; i++)
            sum += job->parts[i] == HRF_PART_TRAINING ? (double)set->truths[i * n_classes + k] : 0;
        const double mean = sum / n;
        for (size_t i = 0; i < set->n_items; i++) {
            const double off = (double)set->truths[i * n_classes + k] - mean;
            squares += job->parts[i] == HRF_PART_TRAINING ? off * off : 0;
        }
        job->offsets[k] = mean;
        job->units[k] = squares > 0 ? sqrt(squares / n) : 1;
    }
    job->set.units = job->units;
}

/* The network as it is trained now, with the layers of the file. */
static enum hrf_status trained_network(const struct hrf_tuning_job *job, struct hrf_graph **out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) network = NULL;
    if (job->tuning->recipe->lora == 0)
        return hrf_trainer_network(job->trainer, out, err);
    HRF_TRY(hrf_trainer_network(job->trainer, &network, err));
    return hrf_lora_merge(job->shaped, network, out, err);
}

/* The network that is scored and written: numbers in their own unit. */
static enum hrf_status finish_network(const struct hrf_tuning_job *job,
                                      const struct hrf_graph *trained, struct hrf_graph **out,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(trained, &copy, err));
    if (job->units != NULL)
        HRF_TRY(hrf_last_layer_scale(copy, job->units, job->offsets, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

/* Makes the parts and the key, which probes need, too. */
static enum hrf_status split(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_training_set *set = &job->set;
    job->set = t->list->set;
    job->parts = hrf_alloc_array(set->n_items + 1, sizeof *job->parts);
    job->scores = hrf_calloc((set->n_items + 1) *
                                 hrf_label_n_scores(set->kind, t->recipe->classes.n_items),
                             sizeof *job->scores);
    HRF_TRY(hrf_fine_tuning_key(t, job->fold, job->seed, job->key, err));
    return hrf_training_set_split(set, job->fold, job->parts, err);
}

static enum hrf_status set_up(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const struct hrf_training_set *set = &job->set;
    job->records = hrf_calloc((size_t)r->epochs, sizeof *job->records);
    job->checkpoint = hrf_path_join(job->folder, "checkpoint.bin");
    job->progress.best_loss = INFINITY;
    HRF_TRY(split(job, err));
    const int64_t n = r->epoch_samples > 0
                          ? r->epoch_samples
                          : hrf_predictions_count(set, job->parts, HRF_PART_TRAINING);
    job->step_items = job->steps->items(r);
    job->n_steps = n / job->step_items > 0 ? n / job->step_items : 1;
    job->order = hrf_alloc_array((size_t)(job->n_steps * job->step_items), sizeof *job->order);
    HRF_TRY(make_trainer(job, err));
    job->n_trained = hrf_train_step_n_weights(hrf_trainer_next(job->trainer)) +
                     (job->head != NULL ? job->head->n_parameters : 0);
    find_units(job);
    job->n_weights = hrf_weights_count(job->base) + (job->head != NULL ? job->head->n_values : 0);
    job->best = hrf_try_calloc((size_t)job->n_weights + 1, sizeof *job->best);
    HRF_CHECK_MEMORY(job->best != NULL, err, "no memory for the weights");
    return HRF_OK;
}

/* ---- epochs ---- */

static double rate_of(const struct hrf_tuning_job *job, int64_t step)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const double most = r->learning_rate > 0 ? r->learning_rate : job->steps->usual_rate(r);
    const double all = (double)(r->epochs * job->n_steps);
    const double warm = r->warmup_epochs * (double)job->n_steps, at = (double)step;
    if (at < warm)
        return most * (at + 1) / warm < most ? most * (at + 1) / warm : most;
    return most * 0.5 * (1 + cos(3.14159265358979323846 * (at - warm) / (all - warm)));
}

/* A line that is replaced, on a terminal alone. */
static void show_progress(struct hrf_tuning_job *job)
{
    const double now = hrf_clock_seconds();
    if (!hrf_tuning_is_first(job) || !isatty(STDERR_FILENO) || now - job->shown < 0.5)
        return;
    job->shown = now;
    fprintf(stderr, "\rfold %lld seed %lld epoch %lld: %lld of %lld %s, loss %.4f ",
            (long long)job->fold, (long long)job->seed, (long long)job->progress.epoch + 1,
            (long long)(job->progress.step * job->step_items),
            (long long)(job->n_steps * job->step_items), job->set.nouns,
            job->progress.loss_sum / (double)job->progress.step);
}

/* For those who look on, at most every second; of a job by its present attempt alone. */
static void tell_progress(struct hrf_tuning_job *job)
{
    enum { TELL_MS = 1000 };
    const double interval = (double)hrf_clock_setting_ms("HRF_PART_MS", 0, TELL_MS) / 1e3;
    const struct hrf_training_progress progress = {
        .epoch = job->progress.epoch + 1,
        .step = job->progress.step,
        .n_steps = job->n_steps,
        .loss = job->progress.loss_sum / (double)job->progress.step,
    };
    const double now = hrf_clock_seconds();
    if (!hrf_tuning_is_first(job) || now - job->told < interval ||
        hrf_training_check_attempt(job->tuning->attempt, NULL) != HRF_OK)
        return;
    job->told = now;
    hrf_training_progress_write(job->folder, &progress);
}

/* Tells how far it is, and ends the training if that is asked for. */
static enum hrf_status answer(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_tuning_progress *p = &job->progress;
    if (t->report != NULL && hrf_tuning_is_first(job))
        t->report(t->context, p->epoch * job->n_steps + p->step, t->recipe->epochs * job->n_steps);
    if (!job->is_stopping)
        return HRF_OK;
    HRF_TRY(write_checkpoint(job, err));
    return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal; epoch %lld, step %lld kept",
                         (long long)p->epoch + 1, (long long)p->step);
}

static enum hrf_status train_epoch(struct hrf_tuning_job *job, struct hrf_tuning_pace *pace,
                                   struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    const struct hrf_train_recipe *r = t->recipe;
    struct hrf_tuning_progress *p = &job->progress;
    hrf_sampler_draw(&t->list->set, job->parts, r->classes.n_items, r->sampling, job->seed,
                     p->epoch + 1, job->n_steps * job->step_items, job->order);
    const double begin = hrf_clock_seconds();
    if (job->steps->begin_epoch != NULL)
        HRF_TRY(job->steps->begin_epoch(job, err));
    while (p->step < job->n_steps) {
        const double rate = rate_of(job, p->epoch * job->n_steps + p->step);
        double loss = 0;
        HRF_TRY(job->steps->step(job, rate, &loss, pace, err));
        p->loss_sum += loss;
        p->step++;
        show_progress(job);
        tell_progress(job);
        hrf_crash_point("train.step");
        HRF_TRY(keep(job, err));
        HRF_TRY(answer(job, err));
    }
    pace->seconds = hrf_clock_seconds() - begin;
    return job->steps->end_epoch(job, pace, err);
}

static void print_epoch(const struct hrf_tuning_job *job, const struct hrf_training_epoch *record,
                        const struct hrf_tuning_pace *pace)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    hrf_training_epoch_print(job->fold, job->seed, job->progress.epoch, record,
                             kinds[job->set.kind].figure);
    if (pace->n > 0 && pace->seconds > 0)
        fprintf(stderr, "; %.3g %s/s, %.0f %% of it waiting for them",
                (double)pace->n / pace->seconds, job->steps->nouns,
                100 * pace->waited / pace->seconds);
    if (job->tuning->recipe->skip_gradients > 0 && pace->n > 0)
        fprintf(stderr, "; %.0f %% of them skipped",
                100 * (double)(pace->n - pace->n_counted) / (double)pace->n);
    fputc('\n', stderr);
}

/* The head's weights in those that are kept. */
static float *head_of_best(struct hrf_tuning_job *job)
{
    return job->best + (job->n_weights - job->head->n_values);
}

static enum hrf_status run_epoch(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    struct hrf_tuning_progress *p = &job->progress;
    struct hrf_training_epoch *record = &job->records[p->epoch];
    struct hrf_tuning_pace pace = { 0, 0, 0, 0 };
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_graph) finished = NULL;
    HRF_TRY(train_epoch(job, &pace, err));
    HRF_TRY(trained_network(job, &network, err));
    HRF_TRY(finish_network(job, network, &finished, err));
    const enum hrf_status status = score(job, finished, HRF_PART_VALIDATION, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "after epoch %lld", (long long)p->epoch + 1);
    record->training_loss = p->loss_sum / (double)job->n_steps;
    record->validation_loss = hrf_predictions_loss(&job->set, job->parts, HRF_PART_VALIDATION,
                                                   t->recipe->classes.n_items, job->scores);
    const struct hrf_scored_figures figures = hrf_predictions_figures(
        &job->set, job->parts, HRF_PART_VALIDATION, &t->recipe->classes, job->scores);
    record->validation_figure = hrf_figure_value(hrf_scored_rows[job->set.kind], &figures);
    record->learning_rate = rate_of(job, (p->epoch + 1) * job->n_steps - 1);
    HRF_TRY(hrf_tuning_share(job, record, sizeof *record,
                             err)); /* processors may differ in the last bit */
    p->epoch++;
    p->step = 0;
    p->loss_sum = 0;
    if (!(record->validation_loss >= p->best_loss)) { /* also without validation: NaN */
        p->best_loss = isnan(record->validation_loss) ? INFINITY : record->validation_loss;
        p->best_epoch = p->epoch;
        HRF_TRY(hrf_weights_get(job->base, network, job->best, err));
        if (job->head != NULL)
            memcpy(head_of_best(job), job->head->values,
                   (size_t)job->head->n_values * sizeof *job->best);
    }
    if (!hrf_tuning_is_first(job))
        return HRF_OK;
    print_epoch(job, record, &pace);
    return hrf_history_write(job->folder, t->attempt, hrf_epoch_of_pictures_rows[job->set.kind],
                             job->records, sizeof job->records[0], p->epoch, err);
}

static bool is_over(const struct hrf_tuning_job *job)
{
    const struct hrf_train_recipe *r = job->tuning->recipe;
    const struct hrf_tuning_progress *p = &job->progress;
    return p->epoch >= r->epochs ||
           (p->epoch >= r->min_epochs && p->epoch - p->best_epoch >= r->patience);
}

/* ---- the whole of it ---- */

/* `network` NULL: nothing that a run could take. */
static enum hrf_status leave(const struct hrf_tuning_job *job, const struct hrf_graph *network,
                             struct hrf_error *err)
{
    const struct hrf_training_result result = { .fold = job->fold,
                                                .seed = job->seed,
                                                .key = job->key,
                                                .network = network,
                                                .head = job->head,
                                                .set = &job->set,
                                                .parts = job->parts,
                                                .scores = job->scores,
                                                .records = job->records,
                                                .n_epochs = job->progress.epoch,
                                                .best_epoch = job->progress.best_epoch,
                                                .n_trained = job->n_trained };
    return hrf_training_result_write(&result, job->tuning, job->folder, err);
}

static enum hrf_status finish(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_AUTO(hrf_graph) trained = NULL;
    HRF_AUTO(hrf_graph) best = NULL;
    HRF_AUTO(hrf_graph) shaped = NULL;
    HRF_TRY(hrf_weights_set(job->base, job->best, &trained, err));
    if (job->head != NULL)
        memcpy(job->head->values, head_of_best(job),
               (size_t)job->head->n_values * sizeof *job->best);
    HRF_TRY(finish_network(job, trained, &best, err));
    HRF_TRY(hrf_tuned_network_shape(t, best, &shaped, err));
    if (t->recipe->memory > 0) { /* which is the scorer's now */
        hrf_tuning_drop_learner(job);
    }
    HRF_TRY(job->steps->score(job, shaped, HRF_PART_VALIDATION, err));
    HRF_TRY(job->steps->score(job, shaped, HRF_PART_TESTING, err));
    return hrf_tuning_is_first(job) ? leave(job, best, err) : HRF_OK;
}

/* The embeddings' own training, which takes no steps of the network. */
static enum hrf_status probe(struct hrf_tuning_job *job, struct hrf_error *err)
{
    const struct hrf_fine_tuning *t = job->tuning;
    HRF_AUTO_FREE double *weights = NULL;
    HRF_TRY(split(job, err));
    hrf_training_remove_leftovers(job->folder);
    if (t->recipe->method == HRF_METHOD_KNN) {
        HRF_TRY(hrf_probe_neighbours(t, job->parts, job->scores, err));
        return leave(job, NULL, err);
    }
    HRF_TRY(hrf_probe_linear(t, job->parts, &weights, &job->progress.epoch, job->scores, err));
    job->n_trained = 2;
    job->progress.best_epoch = job->progress.epoch;
    HRF_TRY(hrf_tuned_network_with_classes(t, job->seed, &job->base, err));
    HRF_TRY(hrf_last_layer_set(job->base, weights, err));
    return leave(job, job->base, err);
}

/* Sums are made in another order on other ranks, and on another device. */
static void tell_place(const struct hrf_tuning_job *job, const char *what, const char *before,
                       const char *now)
{
    if (strcmp(before, now) != 0 && job->progress.epoch + job->progress.step > 0)
        fprintf(stderr,
                "fold %lld seed %lld: began with the %s %s and goes on with %s: the same within "
                "rounding, not to the last bit\n",
                (long long)job->fold, (long long)job->seed, what, before, now);
}

static enum hrf_status train(struct hrf_tuning_job *job, struct hrf_error *err)
{
    bool is_there = false;
    HRF_TRY(set_up(job, err));
    HRF_TRY(read_checkpoint(job, &is_there, err));
    if (is_there && hrf_tuning_is_first(job)) {
        tell_place(job, "layout", job->progress.layout, job->tuning->recipe->layout);
        tell_place(job, "device", job->progress.device, job->tuning->device);
    }
    if (!is_there)
        HRF_TRY(write_checkpoint(job, err)); /* the folder can be written */
    else if (hrf_tuning_is_first(job) && job->progress.epoch + job->progress.step > 0)
        fprintf(stderr, "fold %lld seed %lld: goes on after epoch %lld and %lld steps\n",
                (long long)job->fold, (long long)job->seed, (long long)job->progress.epoch,
                (long long)job->progress.step);
    if (hrf_tuning_is_first(job))
        hrf_training_remove_leftovers(job->folder);
    job->kept = hrf_clock_seconds();
    hrf_crash_point("train.start");
    while (!is_over(job)) {
        HRF_TRY(run_epoch(job, err));
        hrf_crash_point("train.epoch");
        HRF_TRY(keep(job, err));
    }
    return finish(job, err);
}

enum hrf_status hrf_fine_tuning_run(const struct hrf_fine_tuning *tuning, int64_t fold,
                                    int64_t seed, const char *folder, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_tuning_job)
    job = { .tuning = tuning,
            .fold = fold,
            .seed = seed,
            .folder = folder,
            .steps = tuning->recipe->head != HRF_TRAIN_NONE ? &hrf_steps_of_slides
                                                            : &hrf_steps_of_pictures };
    return (tuning->recipe->method == HRF_METHOD_FINE_TUNING ? train : probe)(&job, err);
}
