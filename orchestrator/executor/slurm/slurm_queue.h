/* slurm_queue.h - squeue's word on all jobs of a run: asked beside us, at a cadence, once for all
 * drivers of the user (board.h).
 *
 * The last good answer stands until the next. A failed one changes nothing that was known: it makes
 * the next question later and `trouble` true. Absence is believed only from an answer of this
 * machine that was asked for after the job was submitted; where another machine's shows no such
 * job, we ask. Not thread-safe.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SLURM_QUEUE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SLURM_QUEUE_H

#include "orchestrator/executor/executor.h"
#include "orchestrator/executor/slurm/parse.h"

struct hrf_slurm_queue; /* opaque */

/* `limits` (borrowed) is filled in by the first question when it is not known before: whose board
 * it is, only the controller tells. */
HRF_CHECKED enum hrf_status hrf_slurm_queue_create(const char *run_id,
                                                   struct hrf_slurm_limits *limits,
                                                   struct hrf_slurm_queue **out,
                                                   struct hrf_error *err);
void hrf_slurm_queue_destroy(struct hrf_slurm_queue *queue); /* NULL is fine */
/* Where the first question is under way, until its end: nobody else need ask. */
void hrf_slurm_queue_wait_for_limits(struct hrf_slurm_queue *queue);
/* Once a tick. True: look() or trouble() may say otherwise than before. */
bool hrf_slurm_queue_poll(struct hrf_slurm_queue *queue);
void hrf_slurm_queue_look(struct hrf_slurm_queue *queue, const struct hrf_job_handle *handle,
                          struct hrf_job_view *out);
/* The job's id, 0 when it has ended; the handle's where the queue does not show it. */
int64_t hrf_slurm_queue_living(const struct hrf_slurm_queue *queue,
                               const struct hrf_job_handle *handle);
/* Something was changed: the next question in `ms`, and often for a while. */
void hrf_slurm_queue_hurry(struct hrf_slurm_queue *queue, int64_t ms);
const char *hrf_slurm_queue_trouble(const struct hrf_slurm_queue *queue); /* "" = none */

#endif
