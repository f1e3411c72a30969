/* task_output.c - what a job has left of a task: the record, the file of embeddings that it names,
 * or the part of one that an interrupted attempt had done. Found, checked, and put where it
 * belongs.
 */
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/embedding_file.h"
#include "schema/record/job.h"
#include "schema/store/embeddings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a result ---- */

void run_found_release(struct run_found *found)
{
    if (found->has_status)
        hrf_task_status_release(&found->status);
    hrf_free(found->record);
    hrf_free(found->embeddings);
}

enum hrf_status run_find_record(const struct run *run, const struct run_job *job, const char *id,
                                struct run_found *out, struct hrf_error *err)
{
    enum hrf_status found = HRF_E_AGAIN;
    for (int k = run_newest_start(job); k >= 0 && found == HRF_E_AGAIN; k--) {
        HRF_AUTO_FREE char *directory = run_start_path(run, job, k);
        HRF_CHECK_MEMORY(directory != NULL, err, "no memory for a path");
        found = hrf_task_collect(directory, id, &out->status, &out->record, &out->n_bytes, err);
        if (found != HRF_OK)
            continue;
        out->has_status = true;
        out->embeddings = hrf_task_embeddings_path(directory, id);
        HRF_CHECK_MEMORY(out->embeddings != NULL, err, "no memory for a path");
    }
    return found;
}

enum hrf_status run_check_result(struct run *run, const struct hrf_task_row *task, const char *id,
                                 const struct run_found *found, struct hrf_error *err)
{
    struct hrf_record_identity expected;
    const struct hrf_task_status *status = &found->status;
    if (status->task_key[0] != '\0' && strcmp(status->task_key, task->key) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s.json: it is the status of another task (%.12s..., expected "
                             "%.12s...)",
                             id, status->task_key, task->key);
    if (status->outcome == HRF_TASK_FAILED)
        return HRF_OK;
    if (found->record == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s.json: it reports success, but there is no record",
                             id);
    HRF_TRY(run_expect(run, task, &expected, err));
    HRF_AUTO_FREE char *where = hrf_format("%s.rec", id);
    return hrf_record_check(found->record, found->n_bytes, hrf_task_record_kind(task->kind),
                            &expected, where != NULL ? where : id, err);
}

/* True if the store has the task's result already, from another attempt. */
static bool is_known(struct run *run, const struct hrf_task_row *task)
{
    struct hrf_record_identity expected = { .task = "" };
    struct hrf_bytes record;
    snprintf(expected.task, sizeof expected.task, "%s", task->key);
    if (hrf_store_get_record(run->store, task->kind, &expected, &record, NULL) != HRF_OK)
        return false;
    hrf_bytes_release(&record);
    return true;
}

enum hrf_status run_take_embeddings(struct run *run, const struct hrf_task_row *task,
                                    const struct run_found *found, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO_FREE char *to = NULL;
    if (task->kind != HRF_TASK_INFER || found->record == NULL ||
        !hrf_scores_name_embeddings(found->record, found->n_bytes))
        return HRF_OK;
    HRF_TRY(hrf_store_embeddings_path(run->store, task->key, &to, err));
    HRF_AUTO_FREE char *folder = hrf_path_directory(to);
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    HRF_TRY(
        hrf_scores_decode(found->record, found->n_bytes, NULL, "a task's record", &scores, err));
    if (is_known(run, task)) {
        unlink(found->embeddings);
        return HRF_OK;
    }
    if (!hrf_path_exists(found->embeddings) && hrf_path_exists(to))
        return hrf_embedding_file_check(to, scores, true, err);
    const enum hrf_status status = hrf_embedding_file_check(found->embeddings, scores, true, err);
    if (status == HRF_E_USER)
        unlink(found->embeddings); /* it is large, and of no use */
    HRF_TRY(status);
    HRF_TRY(hrf_path_make_directories(folder, err));
    hrf_crash_point("run.embeddings.before_rename");
    if (rename(found->embeddings, to) != 0)
        return hrf_error_set_errno(err, errno, "cannot move '%s' to '%s'", found->embeddings, to);
    hrf_crash_point("run.embeddings.after_rename");
    return hrf_path_sync_directory(folder, err);
}

/* ---- a part ---- */

void run_remove_part(const struct run *run, const struct hrf_task_row *task)
{
    HRF_AUTO_FREE char *part = run_part_path(run, task->key);
    HRF_AUTO_FREE char *rows = hrf_part_rows_path(part);
    if (part == NULL || rows == NULL || task->kind != HRF_TASK_INFER)
        return;
    unlink(part);
    unlink(rows);
}

/* The rows that belong to a part, of a run of embeddings: they move first. Beside an earlier part
 * the next attempt takes those of them that have its sums. */
static bool take_rows(const char *rows, const char *part)
{
    HRF_AUTO_FREE char *to = hrf_part_rows_path(part);
    return rows == NULL || to == NULL || !hrf_path_exists(rows) || rename(rows, to) == 0;
}

bool run_take_part(const struct run *run, const struct run_job *job, size_t index,
                   const struct hrf_task_row *task)
{
    char id[24];
    HRF_AUTO_FREE char *to = run_part_path(run, task->key);
    HRF_AUTO_FREE char *parts = to != NULL ? hrf_path_directory(to) : NULL;
    struct hrf_error err;
    snprintf(id, sizeof id, "t%04zu", index);
    for (int k = run_newest_start(job); k >= 0 && parts != NULL; k--) {
        HRF_AUTO_FREE char *directory = run_start_path(run, job, k);
        HRF_AUTO_FREE char *from = directory != NULL ? hrf_task_part_path(directory, id) : NULL;
        HRF_AUTO_FREE char *rows = directory != NULL ? hrf_task_embeddings_path(directory, id)
                                                     : NULL;
        if (from == NULL || !hrf_path_exists(from)) {
            if (rows != NULL)
                unlink(rows); /* without a part nobody knows which of them are there */
            continue;
        }
        const bool is_ready = hrf_path_make_directories(parts, &err) == HRF_OK &&
                              take_rows(rows, to);
        hrf_crash_point("run.part.rows");
        if (is_ready && rename(from, to) == 0)
            return true;
        hrf_log_warning("run", "the finished part of a task cannot be saved in '%s'", to);
    }
    return false;
}
