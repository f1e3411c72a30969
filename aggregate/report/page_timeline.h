/* page_timeline.h - the timeline of a run's jobs, without the run's pauses. */
#ifndef HRF_AGGREGATE_REPORT_PAGE_TIMELINE_H
#define HRF_AGGREGATE_REPORT_PAGE_TIMELINE_H

#include "aggregate/study/cohort.h"

/* A pause between two jobs in which nothing was submitted. Wall clock. */
struct hrf_timeline_gap {
    int64_t from_ms, to_ms;
};
/* Jobs that have ended, by submission; gaps in order, none overlaps a job. */
struct hrf_timeline {
    const struct hrf_cohort_job **jobs;
    size_t n;
    struct hrf_timeline_gap *gaps;
    size_t n_gaps;
    int64_t from_ms, to_ms; /* wall clock */
};
struct hrf_timeline hrf_timeline_make(const struct hrf_cohort *cohort);
void hrf_timeline_release(struct hrf_timeline *timeline);
/* Returns the ms since the beginning, without gaps. */
int64_t hrf_timeline_at(const struct hrf_timeline *timeline, int64_t ms);

#endif
