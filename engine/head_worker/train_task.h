/* train_task.h - one training of a slide head as a task of a job. */
#ifndef HRF_ENGINE_HEAD_WORKER_TRAIN_TASK_H
#define HRF_ENGINE_HEAD_WORKER_TRAIN_TASK_H

#include "schema/record/job.h"
#include "schema/record/trained_head.h"

/* Trains the head of the task's recipe, fold and seed in the folder that the recipe names, which
 * keeps a checkpoint of every epoch: another attempt goes on from there, to the same bytes.
 * HRF_E_AGAIN: asked to stop. `attempt` is the folder of the job's attempt. */
HRF_CHECKED enum hrf_status hrf_train_task_run(const struct hrf_job_task *task, const char *attempt,
                                               int64_t n_threads, bool (*is_stopping)(void),
                                               struct hrf_bytes *record, struct hrf_error *err);

#endif
