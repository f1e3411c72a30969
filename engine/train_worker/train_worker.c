/* train_worker.c - trainings of networks as tasks of a job (train_worker.h). */
#include "engine/train_worker/train_worker.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/path.h"
#include "schema/record/job.h"
#include "schema/record/trained_head.h"
#include "training/cohort/folds_and_seeds.h"
#include "training/cohort/training_files.h"
#include "training/cutting/pictures.h"
#include "training/loop/training_result.h"

#include <string.h>

/* A job and the file of trainings that it read last. */
struct job {
    struct hrf_worker *worker; /* spec, directory and ranks; borrowed */
    struct hrf_train_recipe *recipe;
    struct hrf_sample_list *list;
    struct hrf_fine_tuning *tuning;
    const struct hrf_job_task *task; /* of now */
    double told;                     /* when its progress was written */
};

static void job_release(struct job *job)
{
    hrf_fine_tuning_destroy(job->tuning);
    hrf_sample_list_destroy(job->list);
    hrf_train_recipe_destroy(job->recipe);
    job->tuning = NULL;
    job->list = NULL;
    job->recipe = NULL;
}

static bool is_stopping(bool others)
{
    if (others)
        hrf_worker_stop(0);
    return hrf_worker_is_stopping();
}

static bool is_root(const struct job *job)
{
    return job->worker->ranks == NULL || hrf_ranks_is_root(job->worker->ranks);
}

static void report(void *context, int64_t done, int64_t all)
{
    enum { EVERY_S = 1 };
    struct job *job = context;
    const double now = hrf_clock_seconds();
    if (now - job->told < EVERY_S && done < all)
        return;
    job->told = now;
    hrf_task_progress_write(job->worker->directory, job->task->id, done, all);
}

/* Reads the file and the pictures, which were made before there were jobs. */
static enum hrf_status read_inputs(struct job *job, const char *path, struct hrf_findings *findings,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_left_outs) left_out = { .n_items = 0 };
    HRF_TRY(hrf_train_recipe_read(path, &job->recipe, findings, err));
    HRF_TRY(
        hrf_pictures_find(job->recipe, HRF_VERSION, true, &job->list, &left_out, findings, err));
    return hrf_fine_tuning_open(job->recipe, job->list, &job->tuning, err);
}

static enum hrf_status open_inputs(struct job *job, const char *path, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_error why = { .status = HRF_OK };
    job_release(job);
    const enum hrf_status status = read_inputs(job, path, &findings, &why);
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s%s%.*s", why.text, findings.n_items > 0 ? ": " : "",
                             (int)strcspn(findings.text.text, "\n"), findings.text.text);
    if (job->worker->ranks != NULL &&
        hrf_layout_ranks(&job->recipe->ranks) != job->worker->spec->n_ranks)
        return hrf_error_set(err, HRF_E_USER, "'train.layout' %s is not for the job's %lld ranks",
                             job->recipe->layout, (long long)job->worker->spec->n_ranks);
    job->tuning->version = HRF_VERSION;
    job->tuning->attempt = job->worker->directory;
    job->tuning->n_threads = (int32_t)job->worker->spec->n_threads;
    job->tuning->is_stopping = is_stopping;
    job->tuning->report = report;
    job->tuning->comm = job->worker->ranks != NULL ? hrf_ranks_all(job->worker->ranks) : NULL;
    job->tuning->context = job;
    return HRF_OK;
}

static enum hrf_status train(struct job *job, struct hrf_bytes *record, struct hrf_error *err)
{
    const struct hrf_job_training *t = &job->task->training;
    char key[HRF_HASH_HEX];
    struct hrf_training_figures figures;
    HRF_TRY(open_inputs(job, t->recipe, err));
    HRF_TRY(hrf_fine_tuning_key(job->tuning, t->fold, t->seed, key, err));
    if (strcmp(key, job->task->identity.task) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s', its model or its pictures have changed since the training was "
                             "planned: run the same command again",
                             t->recipe);
    HRF_AUTO_FREE char *name = hrf_training_name(t->fold, t->seed);
    HRF_AUTO_FREE char *folder = hrf_path_join(job->recipe->out, name);
    HRF_TRY(hrf_path_make_directories(folder, err));
    if (hrf_fine_tuning_is_done(job->tuning, t->fold, t->seed, folder, &figures))
        hrf_training_remove_checkpoint(folder);
    else
        HRF_TRY(hrf_fine_tuning_run(job->tuning, t->fold, t->seed, folder, err));
    if (!is_root(job))
        return HRF_OK;
    return hrf_trained_network_encode(&job->task->identity, folder, record, err);
}

static enum hrf_status do_task(struct job *job, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_task_status) outcome = { .outcome = HRF_TASK_DONE };
    struct hrf_error cause = { .status = HRF_OK };
    const double start = hrf_clock_seconds();
    hrf_crash_point("train.task.begin");
    const enum hrf_status status = train(job, &record, &cause);
    /* Ranks that fail do not all do it at the same place: the job ends, and its error says why. */
    if (hrf_status_row(status)->ends_job || (status != HRF_OK && job->worker->ranks != NULL))
        return hrf_error_pass(err, &cause);
    if (!is_root(job))
        return HRF_OK;
    if (status != HRF_OK) {
        hrf_log_error("engine", "%s: %s", job->task->slide_name, cause.text);
        hrf_task_status_fail(&outcome, job->worker->spec, job->task, &cause);
    }
    outcome.seconds = hrf_clock_seconds() - start;
    hrf_crash_point("train.task.before_commit");
    HRF_TRY(hrf_task_commit(job->worker->directory, job->task, record.data, record.n_bytes,
                            &outcome, err));
    hrf_crash_point("train.task.after_commit");
    return HRF_OK;
}

static enum hrf_status run_tasks(struct job *job, struct hrf_error *err)
{
    for (size_t i = 0; i < job->worker->spec->n_tasks; i++) {
        if (hrf_worker_is_stopping())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        job->task = &job->worker->spec->tasks[i];
        HRF_TRY(do_task(job, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_train_worker_run(struct hrf_worker *worker, const char *spec_path,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(job) job = { .worker = worker };
    worker->directory = hrf_path_directory(spec_path);
    HRF_TRY(hrf_job_spec_read(spec_path, &worker->spec, err));
    if (worker->spec->kind != HRF_JOB_TRAIN_NETWORK)
        return hrf_error_set(err, HRF_E_USER, "'%s' is the spec of a job of kind '%s', not '%s'",
                             spec_path, hrf_job_kind_name(worker->spec->kind),
                             hrf_job_kind_name(HRF_JOB_TRAIN_NETWORK));
    if (worker->spec->n_ranks > 1)
        HRF_TRY(hrf_ranks_create(worker->directory, worker->spec->n_ranks, &worker->ranks, err));
    return run_tasks(&job, err);
}
