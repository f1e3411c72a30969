/* phases.c - how long each phase took on the clock: the time during which at least one of its jobs
 * existed, with or without a driver. */
#include "orchestrator/run/run_private.h"

#include <stdio.h>
#include <stdlib.h>

static int compare_spans(const void *a, const void *b)
{
    const struct run_span *u = a, *v = b;
    return u->from < v->from ? -1 : u->from > v->from;
}

double run_union_seconds(struct run_span *spans, size_t n)
{
    int64_t sum = 0, covered = INT64_MIN;
    qsort(spans, n, sizeof *spans, compare_spans);
    for (size_t i = 0; i < n; i++) {
        const int64_t from = spans[i].from > covered ? spans[i].from : covered;
        if (spans[i].to > from)
            sum += spans[i].to - from;
        covered = spans[i].to > covered ? spans[i].to : covered;
    }
    return (double)sum / 1000;
}

static bool has_own_task(struct run *run, const struct hrf_attempt_row *attempt)
{
    for (size_t i = 0; i < attempt->n_task_ids; i++)
        if (run_tasks_find(&run->tasks, attempt->task_ids[i]) != NULL)
            return true;
    return false;
}

/* Computes how long a phase took. A job whose tasks were all planned anew since then does not
 * count: nothing that it made is used. */
static void phase_seconds(struct run *run, const struct hrf_attempt_rows *attempts,
                          enum hrf_task_kind kind, double *out)
{
    HRF_AUTO_FREE struct run_span *spans = hrf_alloc_array(attempts->n_items + 1, sizeof *spans);
    size_t n = 0;
    for (size_t i = 0; i < attempts->n_items; i++) {
        const struct hrf_attempt_row *a = &attempts->items[i];
        if (a->kind == kind && a->ended_ms > a->submitted_ms && has_own_task(run, a))
            spans[n++] = (struct run_span){ a->submitted_ms, a->ended_ms };
    }
    *out = run_union_seconds(spans, n);
}

static enum hrf_status put_phase(struct run *run, const char *name, double seconds, bool cached,
                                 int64_t n_tasks, int64_t n_cached, struct hrf_error *err)
{
    struct hrf_phase_row row = {
        .seconds = seconds, .cached = cached, .n_tasks = n_tasks, .n_cached = n_cached
    };
    snprintf(row.name, sizeof row.name, "%s", name);
    return hrf_store_put_phase(run->setup.store, &row, err);
}

static enum hrf_status record_kind(struct run *run, const struct hrf_attempt_rows *attempts,
                                   enum hrf_task_kind kind, struct hrf_error *err)
{
    int64_t n = 0, cached = 0;
    double seconds = 0;
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        n += run->tasks.rows.items[i].kind == kind;
        cached += run->tasks.rows.items[i].kind == kind && run->tasks.rows.items[i].cached;
    }
    if ((kind == HRF_TASK_HEAD || kind == HRF_TASK_TRAIN) && n == 0)
        return HRF_OK;
    run->summary.n_tasks_cached += cached;
    const bool all_cached = kind == HRF_TASK_CALIBRATE ? run->calibration.is_cached
                                                       : n > 0 && cached == n;
    if (!all_cached)
        phase_seconds(run, attempts, kind, &seconds);
    return put_phase(run, hrf_task_kind_name(kind), seconds, all_cached, n, cached, err);
}

enum hrf_status run_record_phases(struct run *run, double ingest_seconds, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) attempts = { NULL, 0 };
    HRF_TRY(put_phase(run, "ingest", ingest_seconds, false, (int64_t)run->slides.n_items, 0, err));
    HRF_TRY(hrf_store_get_attempts(run->setup.store, false, &attempts, err));
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++)
        if (kind != HRF_TASK_CALIBRATE || run->calibration.fitted != NULL)
            HRF_TRY(record_kind(run, &attempts, (enum hrf_task_kind)kind, err));
    return HRF_OK;
}
