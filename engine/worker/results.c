/* results.c - the scores of a group of tasks on rank 0 (results.h). */
#include "engine/worker/results.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own_process.h"
#include "base/path.h"
#include "engine/worker/label_rows.h"
#include "schema/record/embedding_file.h"
#include "schema/record/sentinel.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PART_MS = 60000 }; /* the most work that is lost if a job is killed */

static enum hrf_status new_scores(const struct hrf_worker *job, const struct hrf_job_task *task,
                                  const struct hrf_task_source *source, struct hrf_scores **out,
                                  struct hrf_error *err)
{
    const struct hrf_tile_plan *plan = source->plan;
    const struct hrf_network *network = job->networks[task->network].network;
    HRF_AUTO(hrf_scores) scores = hrf_calloc(1, sizeof *scores);
    scores->identity = task->identity;
    memcpy(scores->identity.plan, plan->hash, sizeof scores->identity.plan);
    scores->precision = hrf_strdup(hrf_job_network_name(&job->spec->networks[task->network]));
    scores->device = hrf_strdup(hrf_network_device_name(network));
    scores->host = hrf_strdup(job->host);
    memcpy(scores->hardware.model, job->identity.model, sizeof scores->hardware.model);
    memcpy(scores->hardware.path, job->identity.path, sizeof scores->hardware.path);
    memcpy(scores->hardware.driver, job->identity.driver, sizeof scores->hardware.driver);
    memcpy(scores->hardware.libraries, job->identity.libraries, sizeof scores->hardware.libraries);
    snprintf(scores->decoder, sizeof scores->decoder, "%s", source->decoder);
    if (source->gives_tiles) {
        const size_t n = strlen(scores->hardware.libraries);
        snprintf(scores->hardware.libraries + n, sizeof scores->hardware.libraries - n, ", %s",
                 source->decoder);
    }
    snprintf(scores->notes, sizeof scores->notes, "%s", hrf_network_notes(network));
    if (hrf_network_transport(network) != NULL)
        snprintf(scores->traffic.transport, sizeof scores->traffic.transport, "%s",
                 hrf_network_transport(network));
    scores->first_patch = task->first_patch;
    scores->n_patches = task->n_patches;
    scores->n_classes = (int32_t)(job->label_side > 0 ? hrf_workflow_n_scores(job->spec->settings)
                                                      : job->n_values);
    scores->embeddings.is_set = job->spec->settings->model.output == HRF_OUTPUT_EMBEDDING;
    if (!scores->embeddings.is_set)
        scores->probabilities = hrf_try_calloc((size_t)task->n_patches * (size_t)scores->n_classes,
                                               sizeof scores->probabilities[0]);
    if (job->label_side > 0)
        HRF_TRY(
            hrf_label_maps_init(&scores->labels, (int32_t)job->label_side, task->n_patches, err));
    HRF_CHECK_MEMORY((scores->embeddings.is_set || scores->probabilities != NULL), err,
                     "no memory for the scores of %lld patches", (long long)task->n_patches);
    HRF_MOVE(*out, scores);
    return HRF_OK;
}

/* The file of a task's embeddings. */
static enum hrf_status new_rows(const struct hrf_worker *job, const struct hrf_job_task *task,
                                struct hrf_embedding_rows **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_task_embeddings_path(job->directory, task->id);
    return hrf_embedding_rows_create(path, task->n_patches, job->n_values, out, err);
}

enum hrf_status hrf_results_init(struct hrf_results *r, const struct hrf_worker *job,
                                 const struct hrf_task_group *group,
                                 const struct hrf_task_source *source, struct hrf_error *err)
{
    *r = (struct hrf_results){ .job = job, .group = group, .saved_at = hrf_clock_seconds() };
    for (int k = 0; k < group->n; k++) {
        HRF_TRY(new_scores(job, group->tasks[k], source, &r->scores[k], err));
        if (job->spec->settings->model.output == HRF_OUTPUT_EMBEDDING)
            HRF_TRY(new_rows(job, group->tasks[k], &r->rows[k], err));
    }
    return HRF_OK;
}

void hrf_results_release(struct hrf_results *r)
{
    for (int k = 0; k < HRF_JOB_MAX_NETWORKS; k++) {
        hrf_scores_destroy(r->scores[k]);
        hrf_embedding_rows_destroy(r->rows[k]);
    }
}

/* ---- what is kept of a task that is not finished ---- */

/* Rows first, so that a part never names one that is not on the disk. */
static enum hrf_status encode_part(const struct hrf_results *r, int k, struct hrf_bytes *record,
                                   struct hrf_error *err)
{
    struct hrf_scores *scores = r->scores[k];
    if (r->rows[k] == NULL)
        return hrf_scores_encode(scores, record, err);
    HRF_TRY(hrf_embedding_rows_sync(r->rows[k], err));
    hrf_crash_point("engine.part.rows");
    scores->embeddings.row_sums = hrf_embedding_rows_sums(r->rows[k]); /* lent */
    const enum hrf_status status = hrf_scores_encode(scores, record, err);
    scores->embeddings.row_sums = NULL;
    return status;
}

static bool keep_part(const struct hrf_results *r, int k)
{
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_task_part_path(r->job->directory, r->group->tasks[k]->id);
    hrf_crash_point("engine.part.before");
    const bool is_kept = encode_part(r, k, &record, &err) == HRF_OK &&
                         hrf_file_write_atomic(path, record.data, record.n_bytes, &err) == HRF_OK;
    if (!is_kept)
        hrf_log_warning("engine", "cannot save the scores so far: %s", err.text);
    hrf_crash_point("engine.part.after");
    return is_kept;
}

/* Parts are written only if they hold more than the last ones, because a part counts as progress. A
 * revoked attempt writes nothing: its successor continues with what it found. */
void hrf_results_keep(struct hrf_results *r)
{
    bool are_kept = true;
    r->saved_at = hrf_clock_seconds();
    if (r->n_done == r->n_saved || hrf_fence_is_set(r->job->directory))
        return;
    for (int k = 0; k < r->group->n; k++)
        are_kept &= keep_part(r, k);
    if (are_kept)
        r->n_saved = r->n_done;
}

static double part_seconds(void)
{
    return (double)hrf_clock_setting_ms("HRF_PART_MS", 0, PART_MS) / 1000;
}

/* Reads what an earlier attempt left of task k. A part that does not belong to the task or cannot
 * be read is not used: its patches are scored again. */
static void read_part(const struct hrf_results *r, int k, struct hrf_scores **out)
{
    const struct hrf_job_task *task = r->group->tasks[k];
    HRF_AUTO_FREE char *bytes = NULL;
    HRF_AUTO(hrf_scores) part = NULL;
    size_t n_bytes = 0;
    struct hrf_error why = { .status = HRF_OK };
    if (task->partial == NULL || !hrf_path_exists(task->partial))
        return;
    if (hrf_file_read(task->partial, (size_t)1 << 32, &bytes, &n_bytes, &why) != HRF_OK ||
        hrf_scores_decode(bytes, n_bytes, &task->identity, task->partial, &part, &why) != HRF_OK ||
        part->n_patches != task->n_patches || part->n_classes != r->scores[k]->n_classes ||
        part->labels.side != r->scores[k]->labels.side ||
        strcmp(part->decoder, r->scores[k]->decoder) != 0) {
        hrf_log_warning("engine", "the scores of an earlier attempt are not used: %s",
                        why.text[0] != '\0'
                            ? why.text
                            : "they are for other patches or classes, or of another decoder");
        return;
    }
    HRF_MOVE(*out, part);
}

/* The rows that stand beside a part; -1: it has none. */
static int open_rows(const struct hrf_results *r, int k, const struct hrf_scores *part)
{
    HRF_AUTO_FREE char *path = part != NULL && r->rows[k] != NULL
                                   ? hrf_part_rows_path(r->group->tasks[k]->partial)
                                   : NULL;
    int fd = -1;
    return path != NULL && hrf_file_open(path, &fd, NULL) == HRF_OK ? fd : -1;
}

/* Whether a part has a patch. */
static bool has_patch(const struct hrf_scores *part, int64_t patch)
{
    if (part->embeddings.row_sums != NULL)
        return part->embeddings.row_sums[patch] != 0;
    return part->probabilities != NULL && !isnan(part->probabilities[patch * part->n_classes]) &&
           (part->labels.side == 0 || part->labels.items[patch].n_bytes > 0);
}

/* Takes over a patch that the part has. False: its row beside the part is not the one it names. */
static bool take_patch(struct hrf_results *r, int k, struct hrf_scores *part, int rows,
                       int64_t patch)
{
    struct hrf_scores *scores = r->scores[k];
    const int64_t at = patch * scores->n_classes;
    if (r->rows[k] != NULL)
        return part->embeddings.row_sums != NULL && rows >= 0 &&
               hrf_embedding_rows_take(r->rows[k], rows, patch, part->embeddings.row_sums[patch]);
    if (part->probabilities == NULL)
        return false;
    memcpy(scores->probabilities + at, part->probabilities + at,
           (size_t)scores->n_classes * sizeof *part->probabilities);
    if (scores->labels.side > 0) {
        scores->labels.items[patch] = part->labels.items[patch];
        part->labels.items[patch] = (struct hrf_bytes){ NULL, 0 };
    }
    return true;
}

/* Takes over the batches of the part that are whole; `done` keeps those that are in every part. A
 * batch that is not whole is computed again, all of it. */
static void take_part(struct hrf_results *r, int k, struct hrf_scores *part, const int64_t *order,
                      int64_t n_batches, bool *done)
{
    struct hrf_scores *scores = r->scores[k];
    const int64_t batch = r->job->batch, all = scores->n_patches;
    HRF_AUTO_CLOSE int rows = open_rows(r, k, part);
    for (int64_t b = 0; b < n_batches; b++) {
        const int64_t end = (b + 1) * batch < all ? (b + 1) * batch : all;
        bool is_whole = part != NULL;
        for (int64_t i = b * batch; i < end && is_whole; i++)
            is_whole = has_patch(part, order[i]);
        for (int64_t i = b * batch; i < end && is_whole; i++)
            is_whole = take_patch(r, k, part, rows, order[i]);
        done[b] &= is_whole;
    }
    if (part == NULL)
        return;
    scores->timing = part->timing;
    scores->traffic = part->traffic;
    scores->energy_joules = part->energy_joules;
    scores->gpu_energy_joules = part->gpu_energy_joules;
    scores->device_memory_bytes = part->device_memory_bytes;
    r->computed[k] = part->timing.compute;
}

static void count_done(struct hrf_results *r, const bool *done, int64_t n_batches)
{
    const int64_t batch = r->job->batch, all = r->group->tasks[0]->n_patches;
    for (int64_t b = 0; b < n_batches; b++)
        if (done[b])
            r->n_done += (b + 1) * batch < all ? batch : all - b * batch;
    r->n_saved = r->n_done;
    if (r->n_done > 0)
        hrf_log_info("engine", "%lld of %lld patches were scored by an earlier attempt",
                     (long long)r->n_done, (long long)all);
}

void hrf_results_begin(struct hrf_results *r, const struct hrf_tile_plan *plan, int64_t n_batches,
                       bool **done)
{
    const struct hrf_job_task *first = r->group->tasks[0];
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array((size_t)first->n_patches + 1, sizeof *order);
    bool *found = hrf_alloc_array((size_t)n_batches + 1, sizeof *found);
    *done = found;
    memset(found, true, (size_t)n_batches + 1);
    hrf_feed_order(plan, first->first_patch, first->n_patches, order);
    for (int k = 0; k < r->group->n; k++) {
        HRF_AUTO(hrf_scores) part = NULL;
        struct hrf_scores *scores = r->scores[k];
        for (int64_t i = 0;
             scores->probabilities != NULL && i < scores->n_patches * scores->n_classes; i++)
            scores->probabilities[i] = NAN;
        read_part(r, k, &part);
        take_part(r, k, part, order, n_batches, found);
    }
    count_done(r, found, n_batches);
}

/* ---- results ---- */

void hrf_results_add_counts(struct hrf_scores *scores, const struct hrf_comm_count *counts)
{
    struct hrf_traffics part = { .n_items = 0 };
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        struct hrf_traffic *t = &part.items[part.n_items];
        *t = (struct hrf_traffic){ .messages = counts[use].messages,
                                   .bytes = counts[use].bytes,
                                   .sending = counts[use].sending,
                                   .receiving = counts[use].receiving };
        snprintf(t->operation, sizeof t->operation, "%s",
                 hrf_comm_use_name((enum hrf_comm_use)use));
        part.n_items += t->messages > 0;
    }
    hrf_traffics_add(&scores->traffic, &part);
}

static void results_add_spent(struct hrf_scores *scores, const struct hrf_resource_use *spent)
{
    scores->energy_joules += spent->processor_joules;
    scores->gpu_energy_joules += spent->gpu_joules;
    scores->timing.copy += spent->copy;
    scores->timing.kernels += spent->kernels;
    if (scores->device_memory_bytes < spent->device_bytes)
        scores->device_memory_bytes = spent->device_bytes;
}

/* Rows of n_values numbers: probabilities, and the labels of a segmentation network behind them, or
 * embeddings. */
static enum hrf_status take_values(const struct hrf_results *r, int k,
                                   const struct hrf_work_queue_result *result, const float *values,
                                   struct hrf_error *err)
{
    struct hrf_scores *scores = r->scores[k];
    const int64_t n = scores->n_classes;
    for (int64_t i = 0; i < result->n; i++) {
        const float *row = values + i * r->job->n_values;
        if (r->rows[k] != NULL) {
            hrf_embedding_rows_put(r->rows[k], result->patches[i], row);
            continue;
        }
        memcpy(scores->probabilities + result->patches[i] * n, row, (size_t)n * sizeof *values);
        if (scores->labels.side > 0)
            HRF_TRY(hrf_label_maps_put(&scores->labels, result->patches[i],
                                       hrf_label_row_labels(row, n), err));
    }
    return HRF_OK;
}

void hrf_results_take(void *context, const struct hrf_work_queue_result *result)
{
    struct hrf_results *r = context;
    const float *values = result->values;
    for (int k = 0; k < r->group->n && k < result->n_parts; k++) {
        struct hrf_scores *scores = r->scores[k];
        if (r->status == HRF_OK)
            r->status = take_values(r, k, result, values, &r->err);
        values += result->n * r->job->n_values;
        scores->timing.compute += result->parts[k].seconds;
        results_add_spent(scores, &result->parts[k].spent);
        hrf_results_add_counts(scores, result->parts[k].counts);
    }
    r->n_done += result->n;
    const double now = hrf_clock_seconds();
    for (int k = 0; k < r->group->n && now - r->shown >= 0.5; k++)
        hrf_task_progress_write(r->job->directory, r->group->tasks[k]->id, r->n_done,
                                r->group->tasks[k]->n_patches);
    r->shown = now - r->shown >= 0.5 ? now : r->shown;
    if (now - r->saved_at >= part_seconds())
        hrf_results_keep(r);
}

/* ---- the end ---- */

/* The share of `all` seconds that task k is charged with: its network's own time and an equal part
 * of the time when no network ran; with several ranks, which compute side by side, its part of all
 * computing. */
static double share_of(const struct hrf_results *r, int k, double all)
{
    const double own = r->scores[k]->timing.compute - r->computed[k];
    double sum = 0;
    for (int i = 0; i < r->group->n; i++)
        sum += r->scores[i]->timing.compute - r->computed[i];
    return sum <= all ? own + (all - sum) / r->group->n : all * own / sum;
}

void hrf_results_note_timing(struct hrf_results *r, struct hrf_worker *job,
                             const struct hrf_task_source *source, double start)
{
    const struct hrf_feed_times times = source->feed != NULL ? hrf_feed_times(source->feed)
                                                             : source->times;
    const double all = hrf_clock_seconds() - start, n = r->group->n;
    for (int k = 0; k < r->group->n; k++) {
        const int i = r->group->networks[k];
        struct hrf_scores *scores = r->scores[k];
        /* added to what an earlier attempt has used */
        scores->timing.decode += times.decode / n;
        scores->timing.prepare += times.prepare / n;
        scores->timing.wait += times.wait / n;
        scores->timing.total += share_of(r, k, all);
        scores->timing.build +=
            job->networks[i].build_seconds; /* once, for the task that needed it */
        job->networks[i].build_seconds = 0;
        scores->timing.reads = (double)scores->n_patches / n;
        scores->timing.fed += source->feed != NULL ? (double)times.n_patches / n : NAN;
        scores->peak_memory_bytes = job->networks[i].peak_bytes;
        scores->peak_process_bytes = hrf_process_peak_memory();
        const struct hrf_resource_use groups = job->networks[i].spent,
                                      own = hrf_meters_take_all(&job->meters, i);
        job->networks[i].spent = (struct hrf_resource_use){ 0 };
        results_add_spent(scores, &groups);
        results_add_spent(scores, &own);
        scores->n_threads = scores->n_readers = source->n_threads;
    }
}

/* "NaN" or a number; printf knows -nan too. */
static void show_number(double value, char out[32])
{
    snprintf(out, 32, isnan(value) ? "NaN" : "%g", value);
}

/* Numbers that are no probabilities would spoil every figure of the cohort. The slide fails by name
 * instead. */
static enum hrf_status check_scores(const struct hrf_job_task *task, const struct hrf_scores *s,
                                    enum hrf_model_output output, struct hrf_error *err)
{
    const bool is_number = output == HRF_OUTPUT_NONE;
    for (int64_t i = 0; i < s->n_patches * s->n_classes; i++) {
        const double p = (double)s->probabilities[i];
        if (is_number ? isfinite(p) : p >= 0.0 && p <= 1.0)
            continue;
        char text[32];
        show_number(p, text);
        const long long patch = (long long)(task->first_patch + i / s->n_classes);
        const long long at = (long long)(i % s->n_classes);
        if (output == HRF_OUTPUT_SEGMENTATION)
            return hrf_error_set(err, HRF_E_USER,
                                 "the model gives pixels of patch %lld outputs that are not finite "
                                 "numbers in %s; is %s wide enough for this model?",
                                 patch, s->precision, s->precision);
        if (is_number)
            return hrf_error_set(err, HRF_E_USER,
                                 "output %lld that the model gives patch %lld is %s in %s; is %s "
                                 "wide enough for this model?",
                                 at, patch, text, s->precision, s->precision);
        return hrf_error_set(err, HRF_E_USER,
                             "the model gives patch %lld the probability %s of class %lld in "
                             "%s; does it end in softmax or sigmoid, and is %s precise enough "
                             "for it?",
                             patch, text, at, s->precision, s->precision);
    }
    return HRF_OK;
}

/* Features that are not finite would spoil every slide head's output. */
static enum hrf_status finish_rows(const struct hrf_job_task *task, struct hrf_scores *s,
                                   struct hrf_embedding_rows *rows, struct hrf_error *err)
{
    struct hrf_embedding_flaw flaw;
    char text[32];
    HRF_TRY(hrf_embedding_rows_finish(rows, &flaw, s->embeddings.sha256, err));
    hrf_crash_point("engine.embeddings.complete");
    if (flaw.row < 0)
        return HRF_OK;
    show_number((double)flaw.value, text);
    return hrf_error_set(err, HRF_E_USER,
                         "number %lld of the embedding that the model gives patch %lld is "
                         "%s in %s; is %s wide enough for this model?",
                         (long long)flaw.column, (long long)(task->first_patch + flaw.row), text,
                         s->precision, s->precision);
}

void hrf_results_finish(struct hrf_results *r, struct hrf_task_result *out)
{
    for (int k = 0; k < r->group->n; k++) {
        const struct hrf_job_task *task = r->group->tasks[k];
        out[k].status = r->status;
        out[k].err = r->err;
        if (out[k].status == HRF_OK)
            out[k].status = r->rows[k] != NULL
                                ? finish_rows(task, r->scores[k], r->rows[k], &out[k].err)
                                : check_scores(task, r->scores[k],
                                               r->job->spec->settings->model.output, &out[k].err);
        if (out[k].status == HRF_OK)
            out[k].status = hrf_scores_encode(r->scores[k], &out[k].record, &out[k].err);
        hrf_scores_destroy(r->scores[k]); /* records may be large */
        r->scores[k] = NULL;
    }
}
