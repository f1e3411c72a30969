/* reading.h - what all precisions together read, how fast patches were read, how fast they were
 * computed, and which of the two waits for the other. Pure.
 */
#ifndef HRF_AGGREGATE_STUDY_READING_H
#define HRF_AGGREGATE_STUDY_READING_H

#include "aggregate/study/cohort.h"

struct hrf_reading {
    int64_t n_scored; /* every precision counts */
    double n_read;    /* a patch that several scored at once counts once; NaN: unknown */
    double decode, prepare, wait; /* s: of all reader threads together; of the network for them */
    /* Patches a second of one rank: what its readers deliver while nobody keeps them waiting, and
     * what its network, in all precisions, takes while it does not wait. NaN: not known. Where a
     * processor computes, both had their times while the other took part of it. */
    double readers_rate, network_rate;
    const char *waiter; /* "network" or "readers": who is the faster; NULL: not known */
};
struct hrf_reading hrf_cohort_reading(const struct hrf_cohort *cohort);

#endif
