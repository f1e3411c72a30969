/* slides_summary.h - counts the findings of a survey of slides: kinds of faults, formats, scanners,
 * resolutions, sizes. `check --slides` and `plan` show it. */
#ifndef HRF_ORCHESTRATOR_CLI_SLIDES_SUMMARY_H
#define HRF_ORCHESTRATOR_CLI_SLIDES_SUMMARY_H

#include "base/json.h"
#include "orchestrator/ingest/survey.h"
#include "schema/workflow/workflow.h"

struct hrf_tally_entry {
    char text[80];
    int64_t n;
};
/* Counts how often each text occurs; texts beyond the last entry are counted as "others". */
enum { HRF_TALLY_MAX = 24 };
struct hrf_tally {
    struct hrf_tally_entry items[HRF_TALLY_MAX];
    int n_items;
};

struct hrf_slides_summary {
    const struct hrf_workflow *workflow;
    const struct hrf_slide_rows *rows;
    const struct hrf_survey *survey;
    int64_t n[HRF_N_FINDING_KINDS], n_upsampled, n_without_patches;
    int64_t patches;           /* number of patches if all were tissue */
    int64_t bytes;             /* total size of the files */
    int64_t smallest, largest; /* px of level 0 */
    struct hrf_tally vendors, scanners, resolutions;
};

/* Makes the summary, which borrows its three inputs. */
void hrf_slides_summary_make(const struct hrf_workflow *workflow, const struct hrf_slide_rows *rows,
                             const struct hrf_survey *survey, struct hrf_slides_summary *out);
/* Prints the slides that cannot be scored, grouped by reason with the first few names, then those
 * that are doubtful. */
void hrf_slides_summary_print_faults(const struct hrf_slides_summary *summary);
/* Prints formats, scanners, resolutions and sizes, one line each, indented by `indent` spaces. */
void hrf_slides_summary_print_kinds(const struct hrf_slides_summary *summary, int indent);
/* Adds "counts", "formats", "scanners", "resolutions" and "bytes" to an object. */
void hrf_slides_summary_json(const struct hrf_slides_summary *summary, json_t *object);
/* True if the patches asked for are finer than the slide. */
bool hrf_slide_is_upsampled(const struct hrf_workflow *w, const struct hrf_slide_finding *finding);

#endif
