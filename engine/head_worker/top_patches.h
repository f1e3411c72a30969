/* top_patches.h - the patches that a slide head looked at most, as one picture. */
#ifndef HRF_ENGINE_HEAD_WORKER_TOP_PATCHES_H
#define HRF_ENGINE_HEAD_WORKER_TOP_PATCHES_H

#include "schema/record/head_scores.h"
#include "schema/record/job.h"
#include "schema/record/tile_plan.h"

/* Fills shown, n_shown and shown_png of a slide's scores from its attention: of the class with the
 * highest score where each class has its own. Does nothing without attention. HRF_E_USER,
 * HRF_E_EXTERNAL: the slide cannot be read. */
HRF_CHECKED enum hrf_status hrf_top_patches_add(const struct hrf_job_task *task,
                                                const struct hrf_tile_plan *plan,
                                                struct hrf_head_scores *scores,
                                                struct hrf_error *err);

#endif
