/* fixture.h - a cohort made by hand, with tissue-like thumbnails: what the report tests render. */
#ifndef HRF_TESTS_UNIT_AGGREGATE_REPORT_FIXTURE_H
#define HRF_TESTS_UNIT_AGGREGATE_REPORT_FIXTURE_H

#include "aggregate/report/report_files.h"

#include <stddef.h>

#define FIXTURE_HOSTILE "\"><script>alert('x')</script>\n&amp; \xf0\x9f\x98\x90, \xff"

struct fixture {
    struct hrf_cohort *cohort;
    struct hrf_report_source source;
    char *directory; /* a fresh one below the temporary directory */
};

/* n_slides >= 6: of every state, one with a hostile name (and one with an annotation); labelled:
 * with truths. The precisions are fp32 and, when there are two, int8, which differs a little. */
void fixture_init(struct fixture *fixture, size_t n_slides, size_t n_precisions, bool labelled);
/* Two done slides of four patches with round numbers, one without tissue, one failed. */
void fixture_init_small(struct fixture *fixture);
void fixture_release(struct fixture *fixture); /* removes the directory */

#endif
