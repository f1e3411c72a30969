/* prepare.h - which tasks a slide has, and their content keys. Used by the run, and by a preview
 * of it. */
#ifndef HRF_ORCHESTRATOR_RUN_PREPARE_H
#define HRF_ORCHESTRATOR_RUN_PREPARE_H

#include "base/hash.h"
#include "schema/record/tile_plan.h"
#include "schema/store/tasks.h"
#include "schema/workflow/workflow.h"

/* um/px to use for a slide whose file names no resolution; 0 = the user gave none. */
double run_fallback_mpp(const struct hrf_workflow *workflow, const struct hrf_slide_row *slide);
/* The content key of a slide's tile task. tissue_sha256: of the network that finds tissue; ""
 * without one. */
HRF_CHECKED enum hrf_status run_tile_key(const struct hrf_workflow *workflow,
                                         const char *tissue_sha256,
                                         const struct hrf_slide_row *slide, char out[HRF_HASH_HEX],
                                         struct hrf_error *err);
/* The infer tasks of a tiled slide for all precisions; *out is heap. `scales` is the key of the
 * calibration, or RUN_OWN_SCALES; NULL: not known yet, so that int8 is left out. */
#define RUN_OWN_SCALES "own"
HRF_CHECKED enum hrf_status
run_infer_tasks(const struct hrf_workflow *workflow, const char *model_sha256, const char *scales,
                const struct hrf_slide_row *slide, const struct hrf_tile_plan *plan,
                struct hrf_task_row **out, size_t *n, struct hrf_error *err);
/* The hash of the network that finds tissue; "" without one. */
HRF_CHECKED enum hrf_status run_tissue_hash(const struct hrf_workflow *workflow,
                                            char out[HRF_HASH_HEX], struct hrf_error *err);

#endif
