/* live_jobs.c - reads the sentinels and results of jobs that no driver has imported (live_jobs.h).
 */
#include "orchestrator/cli/live_jobs.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "schema/record/job.h"
#include "schema/record/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 4096, SHOWN = 20 };

static const char *live_state_name(enum hrf_live_state state)
{
    static const char *const names[] = { "waiting", "running", "silent",
                                         "ended",   "gone",    "withdrawn" };
    return names[state];
}

void hrf_live_jobs_release(struct hrf_live_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n_items; i++) {
        hrf_free(jobs->items[i].id);
        hrf_free(jobs->items[i].host);
        hrf_free(jobs->items[i].text);
    }
    hrf_free(jobs->items);
    *jobs = (struct hrf_live_jobs){ .items = NULL };
}

static int64_t count(const struct hrf_live_jobs *jobs, enum hrf_live_state state)
{
    int64_t n = 0;
    for (size_t i = 0; i < jobs->n_items; i++)
        n += jobs->items[i].state == state;
    return n;
}

int64_t hrf_live_jobs_alive(const struct hrf_live_jobs *jobs)
{
    return count(jobs, HRF_LIVE_RUNNING) + count(jobs, HRF_LIVE_SILENT) +
           count(jobs, HRF_LIVE_WAITING) + jobs->n_unread;
}

/* True if the launcher was a process of this machine and is not there any more. */
static bool is_gone(const struct hrf_attempt_row *attempt, const struct hrf_sentinel *start)
{
    char host[128], boot[40];
    if (attempt->start_time == 0) /* the job is a scheduler's */
        return false;
    hrf_process_host_name(host, sizeof host);
    hrf_process_boot_id(boot);
    if (start != NULL && strcmp(start->host, host) != 0)
        return false;
    if (start != NULL && start->boot[0] != '\0' && strcmp(start->boot, boot) != 0)
        return true; /* the machine has been started anew */
    return hrf_process_start_time((pid_t)attempt->pid) != attempt->start_time;
}

static enum hrf_live_state judge_job(const char *directory, const struct hrf_attempt_row *attempt,
                                     const char *newest, struct hrf_sentinel *last,
                                     struct hrf_live_job *out)
{
    struct hrf_sentinel start;
    const bool has_begun = hrf_cli_read_sentinel(directory, attempt, "start", &start);
    if (has_begun) {
        *last = start;
        last->beat_ms = start.start_ms;
        out->host = hrf_strdup(start.host);
    }
    if (hrf_cli_read_sentinel(directory, attempt, "done", last)) {
        last->beat_ms = last->end_ms;
        return HRF_LIVE_ENDED;
    }
    if (hrf_cli_read_sentinel(directory, attempt, "beat", &start))
        *last = start;
    if (is_gone(attempt, has_begun ? last : NULL)) {
        out->text = hrf_strdup("its process is gone; the next driver imports its results");
        return HRF_LIVE_GONE;
    }
    if (!has_begun && hrf_fence_is_set(newest))
        return HRF_LIVE_WITHDRAWN;
    if (!has_begun)
        return attempt->start_time != 0 ? HRF_LIVE_RUNNING : HRF_LIVE_WAITING;
    out->text = hrf_cli_silence(directory, attempt);
    return out->text != NULL ? HRF_LIVE_SILENT : HRF_LIVE_RUNNING;
}

/* True if a task of the job has ended. Otherwise *done is the number of its patches that are
 * scored. */
static bool has_ended(const char *attempt, int n_starts, size_t index, int64_t *done)
{
    char id[24];
    int64_t total;
    *done = 0;
    snprintf(id, sizeof id, "t%04zu", index);
    for (int k = n_starts > 0 ? n_starts - 1 : 0; k >= 0; k--) {
        HRF_AUTO_FREE char *directory = hrf_start_directory(attempt, k);
        if (hrf_task_has_status(directory, id))
            return true;
        if (*done == 0 && !hrf_task_progress_read(directory, id, done, &total))
            *done = 0;
    }
    return false;
}

static int compare_ids(const void *key, const void *row)
{
    const int64_t a = *(const int64_t *)key, b = ((const struct hrf_task_row *)row)->id;
    return a < b ? -1 : a > b;
}

/* Counts the job's tasks. `by_id` is sorted. */
static void count_tasks(const struct hrf_attempt_row *attempt, const char *path, int n_starts,
                        const struct hrf_task_row *by_id, size_t n, struct hrf_live_job *job,
                        struct hrf_live_jobs *all)
{
    for (size_t i = 0; i < attempt->n_task_ids; i++) {
        const struct hrf_task_row *task = bsearch(&attempt->task_ids[i], by_id, n, sizeof *by_id,
                                                  compare_ids);
        if (task == NULL)
            continue;
        int64_t part = 0;
        const int64_t n_patches = task->kind == HRF_TASK_INFER ? task->n_patches : 0;
        const bool is_open = task->state == HRF_TASK_RUNNING;
        const bool ended = !is_open || has_ended(path, n_starts, i, &part);
        const int64_t done = ended ? n_patches : part < n_patches ? part : n_patches;
        job->n_tasks++;
        job->n_done += ended;
        job->n_patches += n_patches;
        job->n_patches_done += done;
        all->n_patches_written += is_open ? done : 0;
        all->n_written[task->kind] += is_open && ended;
        all->tasks[task->kind][job->state] += is_open && !ended;
    }
}

static void look_at_job(const char *directory, const struct hrf_attempt_row *attempt,
                        const struct hrf_task_row *by_id, size_t n, struct hrf_live_job *job,
                        struct hrf_live_jobs *all)
{
    struct hrf_sentinel last = { .start_ms = 0 };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, attempt->directory);
    const int n_starts = hrf_start_count(path, 0);
    HRF_AUTO_FREE char *newest = hrf_start_directory(path, n_starts > 0 ? n_starts - 1 : 0);
    job->id = hrf_strdup(attempt->job_id);
    job->kind = attempt->kind;
    job->state = judge_job(directory, attempt, newest, &last, job);
    const double now = (double)hrf_clock_wall_ms();
    job->age_s = last.beat_ms > 0 && now > (double)last.beat_ms
                     ? (now - (double)last.beat_ms) / 1000
                     : 0;
    count_tasks(attempt, path, n_starts, by_id, n, job, all);
    const double seconds = last.start_ms > 0 ? (now - (double)last.start_ms) / 1000 : 0;
    if (job->state == HRF_LIVE_RUNNING && job->kind == HRF_TASK_INFER && seconds > 0.5)
        job->patches_per_second = (double)job->n_patches_done / seconds;
    all->patches_per_second += job->patches_per_second;
}

static int compare_rows(const void *a, const void *b)
{
    return compare_ids(&((const struct hrf_task_row *)a)->id, b);
}

enum hrf_status hrf_live_jobs_read(struct hrf_store *store, const char *directory,
                                   const struct hrf_task_rows *tasks, struct hrf_live_jobs *out,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) open = { NULL, 0 };
    *out = (struct hrf_live_jobs){ .items = NULL };
    HRF_AUTO_FREE struct hrf_task_row *by_id = hrf_alloc_array(tasks->n_items + 1, sizeof *by_id);
    memcpy(by_id, tasks->items, tasks->n_items * sizeof *by_id);
    qsort(by_id, tasks->n_items, sizeof *by_id, compare_rows);
    HRF_TRY(hrf_store_get_attempts(store, true, &open, err));
    const size_t n = open.n_items < MAX ? open.n_items : MAX;
    out->n_unread = (int64_t)(open.n_items - n);
    out->items = hrf_calloc(n + 1, sizeof *out->items);
    for (; out->n_items < n; out->n_items++)
        look_at_job(directory, &open.items[out->n_items], by_id, tasks->n_items,
                    &out->items[out->n_items], out);
    return HRF_OK;
}

static void print_job(const struct hrf_live_job *job)
{
    hrf_cli_printf("job       %s %s", job->id, live_state_name(job->state));
    if (job->host != NULL)
        hrf_cli_printf(" on %s", job->host);
    if (job->state == HRF_LIVE_RUNNING && job->age_s > 0)
        hrf_cli_printf(", sign of life %.0f s ago", job->age_s);
    if (job->n_tasks > 1 || job->kind != HRF_TASK_INFER)
        hrf_cli_printf(", %lld of %lld tasks done", (long long)job->n_done,
                       (long long)job->n_tasks);
    if (job->kind == HRF_TASK_INFER)
        hrf_cli_printf(", %lld of %lld patches", (long long)job->n_patches_done,
                       (long long)job->n_patches);
    if (job->patches_per_second > 0)
        hrf_cli_printf(", %.*f patches/s", job->patches_per_second < 10 ? 1 : 0,
                       job->patches_per_second);
    if (job->text != NULL)
        hrf_cli_printf(": %s", job->text);
    hrf_cli_printf("\n");
}

int hrf_live_jobs_print(const struct hrf_live_jobs *jobs)
{
    size_t shown = 0;
    int64_t left = jobs->n_unread;
    for (size_t i = 0; i < jobs->n_items; i++) {
        if (jobs->items[i].state == HRF_LIVE_WAITING || shown == SHOWN) {
            left++; /* a job that waits has written nothing */
            continue;
        }
        print_job(&jobs->items[i]);
        shown++;
    }
    if (left > 0)
        hrf_cli_printf("job       %s%lld more (%lld waiting in all)\n", shown > 0 ? "and " : "",
                       (long long)left, (long long)count(jobs, HRF_LIVE_WAITING));
    return (int)shown + (left > 0);
}

json_t *hrf_live_jobs_json(const struct hrf_live_jobs *jobs)
{
    json_t *list = json_array();
    for (size_t i = 0; i < jobs->n_items; i++) {
        const struct hrf_live_job *j = &jobs->items[i];
        json_t *entry = json_object();
        hrf_json_put_text(entry, "job", j->id);
        hrf_json_put_text(entry, "kind", hrf_task_kind_name(j->kind));
        hrf_json_put_text(entry, "state", live_state_name(j->state));
        hrf_json_put_text(entry, "host", j->host);
        hrf_json_put_text(entry, "text", j->text);
        hrf_json_put_number(entry, "seconds_since_sign_of_life", j->age_s);
        hrf_json_put_int(entry, "tasks_done", j->n_done);
        hrf_json_put_int(entry, "tasks", j->n_tasks);
        hrf_json_put_int(entry, "patches_done", j->n_patches_done);
        hrf_json_put_int(entry, "patches", j->n_patches);
        hrf_json_put_number(entry, "patches_per_second", j->patches_per_second);
        hrf_json_add(list, entry);
    }
    return list;
}
