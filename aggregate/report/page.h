/* page.h - report/index.html: one self-contained page for people.
 *
 * Style, script, charts and thumbnails are inside the page; links lead to the files below
 * results/. Slide names are data: every text goes through hrf_out_html() or hrf_out_url(). Looks
 * right in light and dark and works without JavaScript, only sorting and filtering need it.
 */
#ifndef HRF_AGGREGATE_REPORT_PAGE_H
#define HRF_AGGREGATE_REPORT_PAGE_H

#include "aggregate/study/cohort.h"
#include "aggregate/study/run_pair.h"
#include "base/error.h"

#include <stdbool.h>

/* Limits on the slides in the page's table and the lines of its lists: a browser opens such a page
 * at once, and its pictures are a few megabytes. results/labels.csv has all slides. */
enum { HRF_PAGE_SLIDES = 2000, HRF_PAGE_LINES = 200 };

/* What was written for a slide, in addition to the cohort's facts. */
struct hrf_page_slide {
    bool is_left_out;           /* of the page's table; it has no pictures then */
    struct hrf_bytes thumbnail; /* PNG of the reference's heatmap, or of the slide; may be empty */
    struct hrf_bytes top_patches; /* PNG: patches of highest attention side by side; may be empty */
    char *note;                   /* e.g. an annotation that could not be read; NULL = none */
    bool has_csv, has_geojson, has_heatmap, has_top_patches, has_mask, has_regions;
    const char *features; /* suffix of the files with its embeddings (".h5"); NULL = none */
};

/* Of a cohort of more than HRF_PAGE_SLIDES slides, keeps those that deserve attention: labels that
 * differ from the truth, the most confident errors first; labels that differ between precisions;
 * slides that failed or have a warning; and the scores nearest to the threshold. */
void hrf_page_choose_slides(const struct hrf_cohort *cohort, struct hrf_page_slide *extras);

/* extras[n_slides]; made_at: shown as it is ("2026-01-31T23:59:59Z"). */
HRF_CHECKED enum hrf_status hrf_report_page(const struct hrf_cohort *cohort,
                                            const struct hrf_page_slide *extras,
                                            const char *made_at, const char *path,
                                            struct hrf_error *err);
/* Writes the page of a comparison of two runs: the study, and what has no match. */
HRF_CHECKED enum hrf_status hrf_report_pair_page(const struct hrf_run_pair *pair,
                                                 const char *const directories[2],
                                                 const char *made_at, const char *path,
                                                 struct hrf_error *err);

#endif
