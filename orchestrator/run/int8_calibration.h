/* int8_calibration.h - INT8's calibration: a sample of patches over all tiled slides, one observing
 * task for each slide of it, merged and fitted, kept in the store that runs share.
 *
 * The sample's identity is part of the key, as are the model, its preprocessing, the method and the
 * version: a calibration that was made once, by whichever run, is found again. */
#ifndef HRF_ORCHESTRATOR_RUN_INT8_CALIBRATION_H
#define HRF_ORCHESTRATOR_RUN_INT8_CALIBRATION_H

#include "base/hash.h"
#include "schema/record/calibration.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

struct run;

struct run_calibration {
    struct hrf_calibration *fitted; /* NULL: not needed, or not made yet */
    char *path;                     /* file of its record, which jobs read */
    char *failure;                  /* why it failed in this run; NULL: it did not */
    bool is_planned, is_compared, is_cached;
    /* Key of the calibration that this run has claimed and makes, or, if is_awaited, that another
     * run makes; "" = none. */
    char claim[HRF_HASH_HEX];
    bool is_awaited;
    double next_look; /* monotonic seconds, when to renew the claim or to check again */
    /* Monotonic seconds, first submission and last result of its tasks; 0 = none. */
    double first_submit, last_result;
};
/* Gives up the claim, so that another run may make the calibration. */
void run_calibration_give_up(struct run_calibration *calibration,
                             const struct hrf_workflow *workflow);
void run_calibration_release(struct run_calibration *calibration);

/* True if INT8 runs with the scales that the model brings: it has some, and the workflow asks for
 * nothing that only a calibration finds (calibrate.keep). The engine is asked if the workflow has
 * int8. */
HRF_CHECKED enum hrf_status run_find_own_scales(const struct hrf_workflow *workflow, bool *out,
                                                struct hrf_error *err);
/* True if INT8 is calibrated on the cohort's slides for training alone: a CAMELYON16 cohort of both
 * parts, without calibrate.slides. */
bool run_samples_training_part(const struct hrf_workflow *workflow,
                               const struct hrf_slide_rows *slides);
/* Reads the run's last calibration from its database. *out stays NULL if there is none. */
HRF_CHECKED enum hrf_status
run_read_calibration(struct hrf_store *store, struct hrf_calibration **out, struct hrf_error *err);

bool run_wants_calibration(const struct run *run);
/* True if int8 is wanted and its calibration has neither been made nor failed. */
bool run_waits_for_calibration(const struct run *run);
/* Continues the calibration as far as the tasks allow: plans it, or fits and stores it. If it
 * fails, the int8 tasks of every slide fail; with calibrate_only, the run fails. */
HRF_CHECKED enum hrf_status run_calibrate(struct run *run, struct hrf_error *err);
/* To be called once per loop iteration. Renews this run's claim on the calibration that it makes,
 * or checks whether the run that makes it has finished or is gone. */
HRF_CHECKED enum hrf_status run_tend_calibration(struct run *run, struct hrf_error *err);

#endif
