/* slurm_queue.h - the state of all jobs of a run, as squeue reports it.
 *
 * squeue runs in the background and at intervals, once for all drivers of the user (queue_cache.h).
 * The last good answer stays valid until the next one arrives. A failed question changes nothing
 * that was known: it delays the next question and sets the text that trouble() returns.
 * A job counts as gone only if an answer of this machine, asked for after the job was submitted,
 * does not show it. If another machine's answer does not show a job, this machine asks as well.
 * Not thread-safe.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SLURM_QUEUE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SLURM_QUEUE_H

#include "orchestrator/executor/executor.h"
#include "orchestrator/executor/slurm/parse.h"

struct hrf_slurm_queue; /* opaque */

/* `limits` is borrowed. If it is still empty, the first question fills it in, because only the
 * controller knows which queue cache belongs to it. */
struct hrf_slurm_queue *hrf_slurm_queue_create(const char *run_id, struct hrf_slurm_limits *limits);
void hrf_slurm_queue_destroy(struct hrf_slurm_queue *queue); /* NULL is fine */
/* If the question that fills `limits` is under way, waits until it has ended, so that the caller
 * need not ask the same again. */
void hrf_slurm_queue_wait_for_limits(struct hrf_slurm_queue *queue);
/* To be called once per loop iteration. Returns true if look() or trouble() may now return
 * something else than before. */
bool hrf_slurm_queue_poll(struct hrf_slurm_queue *queue);
void hrf_slurm_queue_look(struct hrf_slurm_queue *queue, const struct hrf_job_handle *handle,
                          struct hrf_job_view *out);
/* The array's job ID if the job still exists, 0 if it has ended, and the handle's ID if squeue does
 * not show the job. */
int64_t hrf_slurm_queue_live_id(const struct hrf_slurm_queue *queue,
                                const struct hrf_job_handle *handle);
/* To be called after a change: asks again in `ms`, and then often for a while. */
void hrf_slurm_queue_ask_soon(struct hrf_slurm_queue *queue, int64_t ms);
/* Why the controller cannot be asked at present; "" if it can. */
const char *hrf_slurm_queue_trouble(const struct hrf_slurm_queue *queue);

#endif
