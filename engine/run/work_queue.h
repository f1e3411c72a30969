/* work_queue.h - dynamic load balancing: the batches of a task are handed out to the ranks of a job
 * on request.
 *
 * Rank 0 hands out batch numbers one by one and collects the results. A fast rank asks more often,
 * so that ranks wait for the slowest only at the very end of a task. The contents of a batch do not
 * depend on who scores it, so the result is the same for any number of ranks. All ranks go through
 * the same tasks in the same order; a rank may be one task ahead of rank 0, never behind. A single
 * rank needs no messages and no threads. All tasks of a job have the same number of values per
 * patch.
 *
 * Threads: the reader of the feed calls next(), the rank's own thread everything else. On rank 0 a
 * server thread handles the messages. If a rank keeps a batch for much longer than batches usually
 * take, or shows no progress while another waits for it (comm.h), the job fails with its name.
 */
#ifndef HRF_ENGINE_RUN_WORK_QUEUE_H
#define HRF_ENGINE_RUN_WORK_QUEUE_H

#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/run/resource_use.h"

#include <stdbool.h>

struct hrf_work_queue; /* opaque */

struct hrf_work_queue_config {
    struct hrf_comm *comm; /* borrowed; NULL: one rank */
    /* A rank from which a message with this tag has arrived; -1: none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    int64_t stuck_ms; /* the least time after which a rank with a batch counts as stuck */
};

/* What one network took for a batch. */
struct hrf_work_queue_part {
    double seconds; /* time to score it */
    struct hrf_resource_use
        spent; /* resources that the ranks which scored it used since their last result */
    /* Messages of these ranks since their last result. */
    struct hrf_comm_count counts[HRF_N_COMM_USES];
};

/* A batch, scored by one or more networks. */
struct hrf_work_queue_result {
    int64_t batch;
    int64_t n;              /* patches in it */
    const int64_t *patches; /* [n] */
    const float *values;    /* n x values per patch, in an order that the sink knows */
    const struct hrf_work_queue_part *parts;
    int32_t n_parts; /* networks, at most HRF_MOST_PARTS */
};
/* Called on rank 0 for every result, one at a time, from any thread. */
typedef void hrf_work_queue_sink(void *context, const struct hrf_work_queue_result *result);

struct hrf_work_queue_task {
    int64_t n_batches, batch; /* patches in a full one */
    int64_t n_values;         /* per patch */
    const bool *done;         /* rank 0: [n_batches] batches that are already scored; NULL: none */
    hrf_work_queue_sink *sink;
    void *context;
};

HRF_CHECKED enum hrf_status hrf_work_queue_create(const struct hrf_work_queue_config *config,
                                                  struct hrf_work_queue **out,
                                                  struct hrf_error *err);
/* Rank 0 waits until the other ranks have left; after stop() at most a few seconds. */
void hrf_work_queue_destroy(struct hrf_work_queue *queue);
HRF_DEFINE_AUTO(hrf_work_queue)
bool hrf_work_queue_is_root(const struct hrf_work_queue *queue);

/* Begins the next task. */
HRF_CHECKED enum hrf_status hrf_work_queue_begin(struct hrf_work_queue *queue,
                                                 const struct hrf_work_queue_task *task,
                                                 struct hrf_error *err);
/* For hrf_feed_config.next: the next batch for this rank; -1: the task has no more. */
int64_t hrf_work_queue_next(void *queue);
HRF_CHECKED enum hrf_status hrf_work_queue_give(struct hrf_work_queue *queue,
                                                const struct hrf_work_queue_result *result,
                                                struct hrf_error *err);
/* Reports that this rank cannot score the task, for example cannot read the slide. The task then
 * fails for all ranks. */
void hrf_work_queue_fail(struct hrf_work_queue *queue, enum hrf_status status, const char *text);
/* Ends the task. Rank 0 waits for all results; if another rank fails, it returns that error. `idle`
 * (may be NULL) is called from time to time; if it returns true, the wait ends with HRF_E_AGAIN. It
 * also ends so if a rank gave a batch back after all others had stopped requesting. */
HRF_CHECKED enum hrf_status hrf_work_queue_end(struct hrf_work_queue *queue, bool (*idle)(void),
                                               struct hrf_error *err);
/* Stops handing out batches to any rank. */
void hrf_work_queue_stop(struct hrf_work_queue *queue);
/* On rank 0, after stop(): waits, at most a few seconds, until the other ranks have delivered their
 * last results and left. */
void hrf_work_queue_gather(struct hrf_work_queue *queue);

#endif
