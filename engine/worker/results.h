/* results.h - the scores of a group of tasks, as they are gathered on rank 0: kept now and then, so
 * that a job that is killed costs a minute of work at most, and written as one record per task.
 * For this folder only.
 */
#ifndef HRF_ENGINE_WORKER_RESULTS_H
#define HRF_ENGINE_WORKER_RESULTS_H

#include "engine/worker/embedding_rows.h"
#include "engine/worker/worker.h"

struct hrf_results {
    const struct hrf_worker *job;
    const struct hrf_task_group *group;
    struct hrf_scores *scores[HRF_JOB_MAX_NETWORKS];       /* owned */
    struct hrf_embedding_rows *rows[HRF_JOB_MAX_NETWORKS]; /* owned; of a job of embeddings */
    double computed[HRF_JOB_MAX_NETWORKS];                 /* s that earlier attempts computed */
    int64_t n_done;         /* patches that all networks have scored */
    int64_t n_saved;        /* of them: in the parts that were read at the start or written last */
    double shown, saved_at; /* monotonic seconds */
    enum hrf_status status; /* of taking results: not HRF_OK, and why, when one could not be kept */
    struct hrf_error err;
};

HRF_CHECKED enum hrf_status hrf_results_init(struct hrf_results *results,
                                             const struct hrf_worker *job,
                                             const struct hrf_task_group *group,
                                             const struct hrf_task_source *source,
                                             struct hrf_error *err);
void hrf_results_release(struct hrf_results *results);
/* Forgets all scores, then takes over what earlier attempts left; *done [n_batches] is heap: the
 * batches that every network has scored. */
void hrf_results_begin(struct hrf_results *results, const struct hrf_tile_plan *plan,
                       int64_t n_batches, bool **done);
/* hrf_work_queue_sink: values are [network of the group][n][numbers per patch]. */
hrf_work_queue_sink hrf_results_take;
/* Writes what is done so far, for the next attempt. */
void hrf_results_keep(struct hrf_results *results);
void hrf_results_add_counts(struct hrf_scores *scores, const struct hrf_comm_count *counts);
/* Adds the times of reading, and of all since `start`, to the tasks: reading and waiting are
 * divided among them, so that the tasks' times add up to those of the machine. */
void hrf_results_note_timing(struct hrf_results *results, struct hrf_worker *job,
                             const struct hrf_task_source *source, double start);
/* Checks the scores of each task and writes its record. */
void hrf_results_finish(struct hrf_results *results, struct hrf_task_result *out);

#endif
