/* bottleneck.h - the phase or activity that took most of a run's time, with the key that changes
 * it; why a job gained less than its network; and who waited, readers or network. Pure.
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
    double share;       /* its share of the time that `of` names, 0 to 1 */
    const char *of;     /* "the time of its phases", "the time of its jobs" */
    const char *key;    /* of the workflow; NULL: none */
    char sentence[400]; /* for people; "" if unknown */
};
/* Returns the phase with the longest wall time; if that is inference, the longest part of its jobs'
 * time. */
struct hrf_bottleneck hrf_cohort_bottleneck(const struct hrf_cohort *cohort);

/* The parts of a job's time, the largest first. */
enum { HRF_JOB_PARTS = 4 };
struct hrf_job_part {
    enum hrf_bottleneck_kind kind; /* reading, compute, starting or writing */
    double share;                  /* of the job's time, 0 to 1 */
};
void hrf_job_parts(const struct hrf_timing *timing, struct hrf_job_part parts[HRF_JOB_PARTS]);

/* Returns what keeps a job from gaining as much as its network: the largest part of its time, which
 * may be the computation. UNKNOWN: there is no such difference (the job gained at least 0.9 of the
 * network's gain), or nothing to compare. */
enum hrf_bottleneck_kind hrf_gain_limit(const struct hrf_cohort_precision *precision);

/* The reading of all precisions together. */
struct hrf_reading {
    int64_t n_scored;             /* patches, counted once for every precision */
    int64_t n_read;               /* a patch that several precisions share counts once */
    double decode, prepare, wait; /* s: sums of the reader threads; the network's wait for them */
    double compute;               /* s: of the network */
    /* Patches a second of one rank: the rate of its readers while they are not blocked, and the
     * rate of its network, in all precisions, while it does not wait. NaN: not known. On a
     * processor both share the cores, so that each is faster alone. */
    double readers_rate, network_rate;
    const char *waiter; /* "network" or "readers", whichever is faster; NULL: not known */
};
struct hrf_reading hrf_cohort_reading(const struct hrf_cohort *cohort);

#endif
