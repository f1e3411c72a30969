/* ingest.h - from the workflow's `dataset` to the cohort: one row per slide, in a fixed order.
 *
 * Looks at names, label files and stat() only; no slide is opened here (the tile jobs do that).
 * A slide is never dropped: one that a label file names and that is missing becomes a row of
 * state HRF_SLIDE_FAILED, an excluded one a row of state HRF_SLIDE_EXCLUDED. The slides of
 * calibrate.slides stand behind the cohort's; what is in both is excluded from the cohort.
 */
#ifndef HRF_ORCHESTRATOR_INGEST_INGEST_H
#define HRF_ORCHESTRATOR_INGEST_INGEST_H

#include "base/error.h"
#include "base/strbuf.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

/* Fills *out (hrf_slide_rows_release) with ids from 1; name, path, n_bytes, mtime_ns, truth,
 * label_text, annotation, mpp_csv (um/px), state and reason are set. The same files give the
 * same rows in the same order. Names are unique: the stem, with as many folders before it as tell
 * it from others of that stem ("case1/slide"). `warnings` (may be NULL) gets one printable line per
 * warning. A file that is there twice (by two paths, by a link, or as a copy) is one slide, with a
 * warning. HRF_E_USER: a folder, glob or label file that is missing, empty or wrong; the text names
 * it, for a label file with its wrong lines ("labels.csv:7: ..."); one slide with two labels. */
HRF_CHECKED enum hrf_status hrf_ingest(const struct hrf_workflow *workflow,
                                       struct hrf_slide_rows *out, struct hrf_strbuf *warnings,
                                       struct hrf_error *err);

#endif
