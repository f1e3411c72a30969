/* head_worker.c - the tasks of a head or train job, one after the other (head_worker.h). */
#include "engine/head_worker/head_worker.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "engine/head_worker/top_patches.h"
#include "engine/head_worker/train_task.h"
#include "engine/run/slide_head.h"
#include "heads/bags/bag.h"
#include "heads/export/export.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t is_stopping;

void hrf_head_worker_stop(int signal_number)
{
    (void)signal_number;
    is_stopping = 1;
}

static bool is_asked_to_stop(void)
{
    return is_stopping != 0;
}

/* A job and the head that it used last. */
struct job {
    struct hrf_job_spec *spec;
    char *directory;
    struct hrf_slide_head *head;
    struct hrf_head_card *card;
    char sha256[HRF_HASH_HEX]; /* of that head; "": none is open */
};

static void job_release(struct job *job)
{
    hrf_job_spec_destroy(job->spec);
    hrf_free(job->directory);
    hrf_slide_head_close(job->head);
    hrf_head_card_destroy(job->card);
}

/* HRF_E_AGAIN: the file is not what the run planned with; the next attempt gets a new spec. */
static enum hrf_status check_file(const char *path, const char *sha256, struct hrf_error *err)
{
    char found[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_file(path, found, err));
    if (strcmp(found, sha256) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "'%s' has changed since the run planned with it (SHA-256 %.12s..., "
                         "expected %.12s...); run again",
                         path, found, sha256);
}

static enum hrf_status open_head(struct job *job, const struct hrf_job_bag *bag,
                                 struct hrf_error *err)
{
    if (strcmp(job->sha256, bag->head_sha256) == 0)
        return HRF_OK;
    job->sha256[0] = '\0';
    hrf_slide_head_close(job->head);
    job->head = NULL;
    hrf_head_card_destroy(job->card);
    job->card = NULL;
    HRF_TRY(check_file(bag->head, bag->head_sha256, err));
    HRF_TRY(hrf_head_card_read(bag->head, &job->card, err));
    HRF_TRY(hrf_slide_head_open(bag->head, &job->head, err));
    snprintf(job->sha256, sizeof job->sha256, "%s", bag->head_sha256);
    return HRF_OK;
}

/* Lines as "a, b"; heap. */
static char *head_worker_list(const char *lines)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    for (const char *at = lines; *at != '\0'; at++)
        if (*at == '\n')
            hrf_strbuf_adds(&text, ", ");
        else
            hrf_strbuf_addc(&text, *at);
    return hrf_strbuf_detach(&text);
}

/* The head's classes have to be those of the workflow, in the same order. */
static enum hrf_status check_classes(const struct job *job, const struct hrf_job_bag *bag,
                                     int64_t n_scores, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) own = HRF_STRBUF_INIT;
    int64_t n_wanted = 1;
    for (const char *at = bag->classes; *at != '\0'; at++)
        n_wanted += *at == '\n';
    if (n_scores != n_wanted)
        return hrf_error_set(err, HRF_E_USER,
                             "the slide head gives %lld scores, and {model.classes} names %lld "
                             "classes",
                             (long long)n_scores, (long long)n_wanted);
    for (size_t i = 0; i < job->card->n_classes; i++)
        hrf_strbuf_addf(&own, "%s%s", i > 0 ? "\n" : "", job->card->classes[i]);
    if (job->card->n_classes == 0 || strcmp(own.text, bag->classes) == 0)
        return HRF_OK;
    HRF_AUTO_FREE char *found = head_worker_list(own.text);
    HRF_AUTO_FREE char *wanted = head_worker_list(bag->classes);
    return hrf_error_set(
        err, HRF_E_USER,
        "the slide head was trained for the classes %s, and {model.classes} are %s", found, wanted);
}

static enum hrf_status head_worker_fill(const struct hrf_job_task *task,
                                        const struct hrf_tile_plan *plan,
                                        const struct hrf_slide_head_result *r,
                                        struct hrf_head_scores *out, struct hrf_error *err)
{
    const size_t n_attention = (size_t)(r->n_branches * plan->n_patches);
    out->identity = task->identity;
    memcpy(out->head_sha256, task->bag.head_sha256, sizeof out->head_sha256 - 1);
    out->n_classes = (int32_t)r->n_classes;
    out->n_patches = plan->n_patches;
    out->scores = hrf_alloc_array((size_t)r->n_classes, sizeof *out->scores);
    for (int64_t k = 0; k < r->n_classes; k++)
        out->scores[k] = (double)r->scores[k];
    if (r->attention == NULL)
        return HRF_OK;
    out->attention = hrf_try_alloc_array(n_attention, sizeof *out->attention);
    HRF_CHECK_MEMORY(out->attention != NULL, err, "no memory for the attention of %lld patches",
                     (long long)plan->n_patches);
    out->n_branches = (int32_t)r->n_branches;
    memcpy(out->attention, r->attention, n_attention * sizeof *out->attention);
    return HRF_OK;
}

static enum hrf_status read_plan(const struct hrf_job_task *task, struct hrf_tile_plan **out,
                                 struct hrf_error *err)
{
    struct hrf_record_identity expected = task->identity;
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    expected.task[0] = '\0'; /* that of the tile task */
    HRF_TRY(hrf_file_read(task->tile_plan, (size_t)1 << 30, &bytes, &n, err));
    return hrf_tile_plan_decode(bytes, n, &expected, task->tile_plan, out, err);
}

static enum hrf_status read_rows(void *context, int64_t first, int64_t n, float *out,
                                 struct hrf_error *err)
{
    return hrf_bag_file_read(context, first, n, out, err);
}

static enum hrf_status head_worker_score(struct job *job, const struct hrf_job_task *task,
                                         struct hrf_bytes *record, struct hrf_error *err)
{
    const struct hrf_job_bag *b = &task->bag;
    struct hrf_slide_head_result result;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_bag_file) file = NULL;
    HRF_AUTO(hrf_head_scores) scores = hrf_calloc(1, sizeof *scores);
    char when_seen[128], when_mixed[128];
    hrf_message_expand("exclude it ({dataset.exclude})", when_seen, sizeof when_seen);
    hrf_message_expand("set {slide_head.mixed} to true if that is meant", when_mixed,
                       sizeof when_mixed);
    const struct hrf_head_use use = { .may_mix = b->mixed,
                                      .any_precision = b->any_precision,
                                      .when_seen = when_seen,
                                      .when_mixed = when_mixed };
    HRF_TRY(read_plan(task, &plan, err));
    HRF_TRY(open_head(job, b, err));
    HRF_TRY(check_file(b->features, b->features_sha256, err));
    HRF_TRY(hrf_head_card_check(job->card, b->features, NULL, &use, err));
    HRF_TRY(hrf_bag_file_open(b->features, NULL, hrf_slide_head_width(job->head), &file, err));
    if (file->n != plan->n_patches)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has %lld embeddings, the tile plan %lld patches", b->features,
                             (long long)file->n, (long long)plan->n_patches);
    const struct hrf_bag_rows bag = { file->n, file->width, read_rows, file };
    HRF_TRY(hrf_slide_head_run(job->head, &bag, job->spec->n_threads, &result, err));
    HRF_TRY(check_classes(job, b, result.n_classes, err));
    HRF_TRY(head_worker_fill(task, plan, &result, scores, err));
    HRF_TRY(hrf_top_patches_add(task, plan, scores, err));
    return hrf_head_scores_encode(scores, record, err);
}

static enum hrf_status do_task(struct job *job, const struct hrf_job_task *task,
                               struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_task_status) outcome = { .outcome = HRF_TASK_DONE };
    struct hrf_error cause = { .status = HRF_OK };
    const double start = hrf_clock_seconds();
    hrf_crash_point("head.task.begin");
    enum hrf_status status = job->spec->kind == HRF_JOB_TRAIN
                                 ? hrf_train_task_run(task, job->directory, job->spec->n_threads,
                                                      is_asked_to_stop, &record, &cause)
                                 : head_worker_score(job, task, &record, &cause);
    if (hrf_status_row(status)->ends_job)
        return hrf_error_pass(err, &cause);
    if (status != HRF_OK) {
        HRF_AUTO_FREE char *name = hrf_text_escaped(task->slide_name);
        hrf_log_error("engine", "%s: %s", name, cause.text);
        hrf_task_status_fail(&outcome, job->spec, task, &cause);
    }
    outcome.seconds = hrf_clock_seconds() - start;
    hrf_crash_point("head.task.before_commit");
    status = hrf_task_commit(job->directory, task, record.data, record.n_bytes, &outcome, err);
    hrf_crash_point("head.task.after_commit");
    return status;
}

static enum hrf_status head_worker_run(struct job *job, const char *spec_path,
                                       enum hrf_job_kind kind, struct hrf_error *err)
{
    job->directory = hrf_path_directory(spec_path);
    HRF_TRY(hrf_job_spec_read(spec_path, &job->spec, err));
    if (job->spec->kind != kind)
        return hrf_error_set(err, HRF_E_USER, "'%s' is the spec of a job of kind '%s', not '%s'",
                             spec_path, hrf_job_kind_name(job->spec->kind),
                             hrf_job_kind_name(kind));
    for (size_t i = 0; i < job->spec->n_tasks; i++) {
        if (is_stopping)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        HRF_TRY(do_task(job, &job->spec->tasks[i], err));
    }
    return HRF_OK;
}

enum hrf_status hrf_head_worker_run(const char *spec_path, enum hrf_job_kind kind,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(job) job = { .spec = NULL };
    return head_worker_run(&job, spec_path, kind, err);
}
