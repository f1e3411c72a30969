/* ingest.h - makes the cohort from a workflow's `dataset`: one row per slide, in a fixed order.
 *
 * It uses only file names, label files, stat() and a few blocks of bytes (tiler/slide/content.h);
 * no slide is opened (the tile jobs do that). No slide is dropped: a slide that a label file names
 * but that is missing becomes a row with the state HRF_SLIDE_FAILED, an excluded slide one with
 * HRF_SLIDE_EXCLUDED. The slides of calibrate.slides follow the cohort; a slide that is in both is
 * excluded from the cohort.
 */
#ifndef HRF_ORCHESTRATOR_INGEST_INGEST_H
#define HRF_ORCHESTRATOR_INGEST_INGEST_H

#include "base/error.h"
#include "base/strbuf.h"
#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

/* Fills *out (hrf_slide_rows_release) with ids from 1; name, path, n_bytes, mtime_ns, truth,
 * label_text, annotation, mpp_csv (um/px), state and reason are set. The same files give the
 * same rows in the same order. Names are unique: the file's stem, preceded by as many directories
 * as distinguish it from equal stems ("case1/slide"). `warnings` (may be NULL) gets one printable
 * line per warning. A file that occurs twice (by two paths, by a link, or as a copy) is one slide,
 * with a warning.
 *
 * If `known` is given, `seen` and `content` of PENDING rows are set, too. `known` has the rows of
 * an earlier ingest (n_items may be 0); their content is reused for slides whose files have the
 * same names, sizes and times. NULL: identities are not needed.
 *
 * HRF_E_USER: a directory, glob or label file is missing, empty or malformed, or one slide has two
 * labels; the text names it, and for a label file the lines ("labels.csv:7: ..."). */
HRF_CHECKED enum hrf_status hrf_ingest(const struct hrf_workflow *workflow,
                                       const struct hrf_slide_rows *known,
                                       struct hrf_slide_rows *out, struct hrf_strbuf *warnings,
                                       struct hrf_error *err);
/* Adds the mistakes in the label files of dataset.csv and calibrate.slides.csv to `findings`. The
 * workflow may have errors; the slides are not read. */
void hrf_ingest_check(const struct hrf_workflow *workflow, struct hrf_findings *findings);
/* Checks that a slide's annotation can be used. Outlines are read. A mask only has to be there: it
 * is opened when its slide is judged. */
HRF_CHECKED enum hrf_status hrf_ingest_check_annotation(const char *path, struct hrf_error *err);

#endif
