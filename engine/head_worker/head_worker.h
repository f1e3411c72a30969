/* head_worker.h - the worker of head and train jobs: scores the embeddings of slides by slide
 * heads, and trains such heads.
 *
 * `hires-engine score-bags` and `train-heads` call it. A task is one slide at one precision, or one
 * training. What cannot be scored or trained fails its own task only. One thread; the heads'
 * kernels use as many as the spec says.
 */
#ifndef HRF_ENGINE_HEAD_WORKER_HEAD_WORKER_H
#define HRF_ENGINE_HEAD_WORKER_HEAD_WORKER_H

#include "schema/record/head_scores.h"
#include "schema/record/job.h"

/* Runs every task of the job that the spec describes, which must be of this kind, and commits a
 * record of each. HRF_E_AGAIN: a signal stopped it, or a file that the job needs has changed. */
HRF_CHECKED enum hrf_status hrf_head_worker_run(const char *spec_path, enum hrf_job_kind kind,
                                                struct hrf_error *err);
/* A signal handler: the job ends after the present slide or epoch. */
void hrf_head_worker_stop(int signal_number);

#endif
