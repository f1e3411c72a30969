/* page_timeline.h - a run's jobs on a line of time without its pauses. */
#ifndef HRF_AGGREGATE_REPORT_PAGE_TIMELINE_H
#define HRF_AGGREGATE_REPORT_PAGE_TIMELINE_H

#include "aggregate/study/cohort.h"

/* Between two jobs of a run and its continuation: nothing was submitted. Wall clock. */
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
HRF_CHECKED enum hrf_status hrf_timeline_make(const struct hrf_cohort *cohort,
                                              struct hrf_timeline *out, struct hrf_error *err);
void hrf_timeline_release(struct hrf_timeline *timeline);
/* ms since the begin, gaps left out. */
int64_t hrf_timeline_at(const struct hrf_timeline *timeline, int64_t ms);
/* By the job's own clock where it told, else by what the driver saw. */
int64_t hrf_timeline_start(const struct hrf_cohort_job *job);
int64_t hrf_timeline_end(const struct hrf_cohort_job *job);

#endif
