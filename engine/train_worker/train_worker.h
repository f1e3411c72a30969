/* train_worker.h - the trainings of a job: networks of patches, one task for each fold and seed.
 *
 * `hires-engine train-networks` calls it. A training works in the folder that its file names and
 * keeps checkpoints there: another attempt goes on from the last one, to the same bytes. Its record
 * is what it has come to; the model stays in the folder. Two attempts that run at the same time (on
 * a node that was given up too early) write equal files, each by rename. The ranks of a job share
 * each training as its file's train.layout says; rank 0 writes.
 */
#ifndef HRF_ENGINE_TRAIN_WORKER_TRAIN_WORKER_H
#define HRF_ENGINE_TRAIN_WORKER_TRAIN_WORKER_H

#include "engine/worker/worker.h"

/* Runs the job's tasks one after the other, until hrf_worker_stop(). Of `job`, which begins zeroed
 * and is the caller's to release, also on failure, it sets the spec, the directory and the ranks.
 * HRF_E_AGAIN: asked to stop, with a checkpoint. */
HRF_CHECKED enum hrf_status hrf_train_worker_run(struct hrf_worker *job, const char *spec_path,
                                                 struct hrf_error *err);

#endif
