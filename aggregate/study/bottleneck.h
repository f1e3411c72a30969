/* bottleneck.h - what a run spent most of its time on, in one sentence with the key that changes
 * it; and why a job gained less than its network. Pure.
 */
#ifndef HRF_AGGREGATE_STUDY_BOTTLENECK_H
#define HRF_AGGREGATE_STUDY_BOTTLENECK_H

#include "aggregate/study/cohort.h"

enum hrf_bottleneck_kind {
    HRF_BOTTLENECK_UNKNOWN, /* nothing was timed */
    HRF_BOTTLENECK_QUEUE,   /* jobs waited for the scheduler */
    HRF_BOTTLENECK_TILING,
    HRF_BOTTLENECK_CALIBRATION,
    HRF_BOTTLENECK_READING, /* the network waited for patches */
    HRF_BOTTLENECK_COMPUTE,
    HRF_BOTTLENECK_STARTING, /* models were loaded and kernels made */
    HRF_BOTTLENECK_WRITING
};
/* "queue", "tiling", ...; "unknown" */
const char *hrf_bottleneck_name(enum hrf_bottleneck_kind kind);

struct hrf_bottleneck {
    enum hrf_bottleneck_kind kind;
    double share;       /* of what `of` says, 0 to 1 */
    const char *of;     /* "the time of its phases", "the time of its jobs" */
    const char *key;    /* of the workflow; NULL: none */
    char sentence[400]; /* for people; "" if unknown */
};
/* The longest phase on the clock; if that is inference, the longest part of its jobs' time. */
struct hrf_bottleneck hrf_cohort_bottleneck(const struct hrf_cohort *cohort);

/* The part that keeps a job from gaining what its network gained: the largest part of the job's
 * time but computing. UNKNOWN: there is no such difference (the job gained at least 0.9 of what the
 * network did), or nothing to compare. */
enum hrf_bottleneck_kind hrf_gain_limit(const struct hrf_cohort_precision *precision);

#endif
