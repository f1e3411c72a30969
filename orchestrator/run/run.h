/* run.h - one run directory, driven from a workflow to its report.
 *
 * DIR/run.db, DIR/workflow.yaml, DIR/jobs/<job>.a<attempt>/, DIR/plans/, DIR/results/,
 * DIR/report/. Running on a directory that holds a run continues it. One driver at a time.
 */
#ifndef HRF_ORCHESTRATOR_RUN_RUN_H
#define HRF_ORCHESTRATOR_RUN_RUN_H

#include "base/error.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_run_options {
    bool quiet;          /* no progress */
    bool calibrate_only; /* ends when int8's calibration is there; no results, no report */
};

enum hrf_run_end {
    HRF_RUN_DONE,     /* every slide has ended; see n_failed */
    HRF_RUN_DETACHED, /* interrupted: jobs go on */
    HRF_RUN_CANCELLED /* interrupted twice: jobs were ended */
};

struct hrf_run_summary {
    enum hrf_run_end end;
    int64_t n_slides, n_done, n_failed, n_no_tissue, n_excluded;
    int64_t n_tasks_run, n_tasks_cached;
    char calibration[65]; /* its key; "" where there is none */
    bool calibration_cached;
};

/* HRF_E_AGAIN: another process drives this directory. HRF_E_NOSPACE: the disk is full; nothing
 * is lost. */
HRF_CHECKED enum hrf_status hrf_run(const struct hrf_workflow *workflow, const char *directory,
                                    const struct hrf_run_options *options,
                                    struct hrf_run_summary *out, struct hrf_error *err);

/* Aggregates and writes results/ and report/ from the store alone. *n_failed (may be NULL): slides
 * whose files could not be made or written; the store says why. */
HRF_CHECKED enum hrf_status hrf_run_report(const struct hrf_workflow *workflow,
                                           struct hrf_store *store, const char *directory,
                                           bool aggregate_again, size_t *n_failed,
                                           struct hrf_error *err);

/* Signals of the driver: call once, before hrf_run. */
void hrf_run_catch_signals(void);

#endif
