/* progress.h - shows the progress of a run: a live block on a terminal, otherwise a plain line on
 * stderr at most every 10 s. */
#ifndef HRF_ORCHESTRATOR_RUN_PROGRESS_H
#define HRF_ORCHESTRATOR_RUN_PROGRESS_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_progress_facts {
    int64_t n_slides, n_ended, n_failed;
    int64_t tile_done, tile_total;           /* slides */
    int64_t calibrate_done, calibrate_total; /* slides of the sample; 0 of 0: no calibration */
    int64_t infer_done, infer_total;         /* patches, all precisions */
    int64_t infer_failed;                    /* patches of tasks that were given up */
    int64_t n_jobs;                          /* jobs that wait or run */
    double patches_per_second;               /* 0 = not known */
    int64_t n_trainings, trainings_done;     /* of networks; 0: a run of slides. Failed: n_failed */
    double trainings_share;                  /* of all their steps that is done, 0 to 1 */
};

struct hrf_progress; /* opaque */
struct hrf_progress *hrf_progress_create(bool quiet);
void hrf_progress_show(struct hrf_progress *progress, const struct hrf_progress_facts *facts);
/* Shows `facts` (may be NULL) a last time and ends the block. */
void hrf_progress_finish(struct hrf_progress *progress, const struct hrf_progress_facts *facts);
void hrf_progress_destroy(struct hrf_progress *progress);

#endif
