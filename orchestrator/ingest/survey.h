/* survey.h - opens the header of every slide of a cohort, in parallel, to find which can be scored.
 * It reads no pixels, so it does not find damage inside of a slide.
 */
#ifndef HRF_ORCHESTRATOR_INGEST_SURVEY_H
#define HRF_ORCHESTRATOR_INGEST_SURVEY_H

#include "schema/store/store.h"
#include "tiler/slide/slide.h"

enum hrf_finding_kind {
    HRF_SLIDE_IS_READY,
    HRF_SLIDE_IS_EXCLUDED,
    HRF_SLIDE_IS_MISSING,
    HRF_SLIDE_IS_UNREADABLE,
    HRF_SLIDE_IS_CUT_SHORT,
    HRF_SLIDE_IS_CHANGING, /* its size changes, or it was just written and is incomplete */
    HRF_SLIDE_HAS_NO_MPP,
    HRF_N_FINDING_KINDS
};
/* The finding's name in JSON ("cut-short"), and its text for users after a number of slides
 * ("still being copied"). */
const char *hrf_finding_word(enum hrf_finding_kind kind);
const char *hrf_finding_text(enum hrf_finding_kind kind);

struct hrf_slide_finding {
    enum hrf_finding_kind kind;
    char *reason; /* heap; NULL if it is ready */
    char vendor[64], scanner[64];
    int64_t width, height; /* 0: it could not be opened */
    double mpp_x, mpp_y;   /* 0: not known */
    enum hrf_mpp_source source;
};
struct hrf_survey {
    struct hrf_slide_finding *items; /* one for each row of the cohort */
    size_t n_items;
    double seconds;
};

/* Opens the slides in n_children child processes, because a damaged slide may end one. A
 * workflow_mpp of 0 is not given. A file that was written less than a minute ago is checked twice,
 * a second apart. Fails only if no process can be started. */
HRF_CHECKED enum hrf_status hrf_survey_make(const struct hrf_slide_rows *rows, double workflow_mpp,
                                            int32_t n_children, struct hrf_survey *out,
                                            struct hrf_error *err);
void hrf_survey_release(struct hrf_survey *survey);

#endif
