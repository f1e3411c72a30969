/* share.h - the batches of a task, shared out over the ranks of a job as they come for more.
 *
 * Rank 0 hands out batch numbers one by one and takes the results; a fast rank comes more often,
 * so that nobody waits for the slowest but at the very end of a task. What a batch holds does not
 * depend on who scores it, so the result is the same for any number of ranks. Ranks go through the
 * same tasks in the same order; one may be a task ahead, not behind. With one rank there are no
 * messages and no threads. Every task of a job has as many values a patch.
 *
 * Threads: next() from the feed's reader, give() and the rest from the rank's own thread. Rank 0's
 * messages are its server thread's. A rank that has had a batch for much longer than batches take
 * is named and ends the job; so does one that waits for a rank that shows no progress (comm.h).
 */
#ifndef HRF_ENGINE_RUN_SHARE_H
#define HRF_ENGINE_RUN_SHARE_H

#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/run/spent.h"

#include <stdbool.h>

struct hrf_share; /* opaque */

struct hrf_share_config {
    struct hrf_comm *comm; /* borrowed; NULL: one rank */
    /* A rank of which a message of this tag waits, -1: none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    int64_t stuck_ms; /* least time after which a rank that has a batch is stuck */
};

/* A scored batch. */
struct hrf_share_result {
    int64_t batch;
    int64_t n;              /* patches in it */
    const int64_t *patches; /* [n] */
    const float *values;    /* [n][values per patch] */
    double seconds;         /* it took */
    struct hrf_spent spent; /* by the ranks that scored it, since the result before */
    /* Messages of the ranks that scored it, since the result before; NULL: there were none. */
    const struct hrf_comm_count *counts; /* [HRF_N_COMM_USES] */
};
/* On rank 0, for every result, one at a time, from any thread. */
typedef void hrf_share_sink(void *context, const struct hrf_share_result *result);

struct hrf_share_task {
    int64_t n_batches, batch; /* patches in a full one */
    int64_t n_values;         /* per patch */
    const bool *done;         /* rank 0: [n_batches] that need not be scored; NULL: none */
    hrf_share_sink *sink;
    void *context;
};

HRF_CHECKED enum hrf_status hrf_share_create(const struct hrf_share_config *config,
                                             struct hrf_share **out, struct hrf_error *err);
/* Rank 0 waits until the others have left; after stop() at most for a few seconds. */
void hrf_share_destroy(struct hrf_share *share);
HRF_DEFINE_AUTO(hrf_share)
bool hrf_share_is_root(const struct hrf_share *share);

/* Begins the next task. */
HRF_CHECKED enum hrf_status
hrf_share_begin(struct hrf_share *share, const struct hrf_share_task *task, struct hrf_error *err);
/* hrf_feed_config.next: the next batch for this rank; -1: no more of this task. */
int64_t hrf_share_next(void *share);
HRF_CHECKED enum hrf_status hrf_share_give(struct hrf_share *share,
                                           const struct hrf_share_result *result,
                                           struct hrf_error *err);
/* This rank cannot score this task, e.g. not read the slide: the task fails for all. */
void hrf_share_fail(struct hrf_share *share, enum hrf_status status, const char *text);
/* Ends the task. Rank 0 waits for all results, or for what another rank failed with, which it
 * returns; `idle` (may be NULL) is called now and then and ends the wait with HRF_E_AGAIN by true.
 */
HRF_CHECKED enum hrf_status hrf_share_end(struct hrf_share *share, bool (*idle)(void),
                                          struct hrf_error *err);
/* No more batches for anybody. */
void hrf_share_stop(struct hrf_share *share);
/* After stop(), on rank 0: waits until the others have given what they had and left, a few seconds
 * at most. */
void hrf_share_gather(struct hrf_share *share);

#endif
