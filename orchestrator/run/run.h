/* run.h - drives one run from its workflow to its report.
 *
 * The run directory holds run.db, workflow.yaml, jobs/<job>.a<attempt>/, plans/, results/ and
 * report/. If the directory already holds a run, that run is continued. Only one driver at a time
 * may work on a directory.
 */
#ifndef HRF_ORCHESTRATOR_RUN_RUN_H
#define HRF_ORCHESTRATOR_RUN_RUN_H

#include "base/error.h"
#include "schema/command/engine_commands.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

#include <stdbool.h>
#include <stdint.h>

/* Trainings of networks that are driven as a run without slides: a task for each of them. */
struct hrf_run_trainings {
    const char *file;                        /* absolute: what `train` reads */
    const struct hrf_listed_trainings *list; /* borrowed */
};

struct hrf_run_options {
    const struct hrf_run_trainings *trainings; /* NULL: a run of slides */
    bool quiet;                                /* show no progress */
    bool calibrate_only; /* stop after the int8 calibration: no results, no report */
};

enum hrf_run_end {
    HRF_RUN_DONE,     /* every slide has ended; see n_failed */
    HRF_RUN_DETACHED, /* interrupted: the jobs continue */
    HRF_RUN_CANCELLED /* interrupted twice: the jobs were ended */
};

struct hrf_run_summary {
    enum hrf_run_end end;
    int64_t n_slides, n_done, n_failed, n_no_tissue, n_excluded; /* slides, or trainings */
    int64_t n_tasks_run, n_tasks_cached;
    char run_id[40]; /* stays the same for the life of the directory; "" = it was never opened */
    int64_t n_ends;  /* how often a run of this directory has ended, this end included */
    char calibration[65]; /* key of the calibration; "" = none */
    bool calibration_cached;
};

/* *out is filled as far as the run got, also on failure. HRF_E_AGAIN: another process drives this
 * directory. HRF_E_NOSPACE: the disk is full; nothing is lost. */
HRF_CHECKED enum hrf_status hrf_run(const struct hrf_workflow *workflow, const char *directory,
                                    const struct hrf_run_options *options,
                                    struct hrf_run_summary *out, struct hrf_error *err);

/* Aggregates, and writes results/ and report/ from the store alone. *n_failed (may be NULL) gets
 * the number of slides whose files could not be made or written; the store holds the reasons. */
HRF_CHECKED enum hrf_status hrf_run_report(const struct hrf_workflow *workflow,
                                           struct hrf_store *store, const char *directory,
                                           size_t *n_failed, struct hrf_error *err);

/* Installs the driver's signal handlers. To be called once, before hrf_run(). */
void hrf_run_catch_signals(void);

#endif
