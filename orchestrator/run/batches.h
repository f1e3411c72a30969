/* batches.h - which tasks go into one job. The tasks of one shard in several precisions go
 * together: the engine reads the patches once for all of them. */
#ifndef HRF_ORCHESTRATOR_RUN_BATCHES_H
#define HRF_ORCHESTRATOR_RUN_BATCHES_H

#include "orchestrator/run/task_table.h"

/* Tasks that go into one job, as indices into the tasks' rows; those that read the same patches
 * stand next to each other (a group). */
struct run_batch {
    size_t *tasks;
    size_t n, capacity, n_groups;
    unsigned precisions; /* of each group, one bit for each; 0: no infer job */
    int64_t n_patches;   /* patches that are read, by all groups together */
};
struct run_batches {
    struct run_batch *items;
    size_t n, capacity;
};
void run_batches_release(struct run_batches *batches);

/* True if one job scores its patches in several precisions. A slide that is one image is read for
 * each precision, because the network's input takes most of the memory; ranks whose layout is still
 * to be chosen may be grouped in another way for each precision. */
bool hrf_run_shares_reading(const struct hrf_workflow *workflow);
/* Makes at most `max` batches of the PENDING tasks of one kind that may be tried now. *out begins
 * zeroed. */
void run_batches_gather(const struct run_setup *setup, const struct run_tasks *tasks,
                        enum hrf_task_kind kind, size_t max, struct run_batches *out);
/* Returns how many jobs the PENDING tasks of a kind among `rows` would become. */
int64_t run_batches_count_jobs(const struct hrf_workflow *workflow, struct hrf_task_row *rows,
                               size_t n_rows, enum hrf_task_kind kind);
/* Returns DIR/parts/<key>.rec, the partial result that interrupted attempts left of a task. Heap.
 */
char *run_part_path(const struct run_setup *setup, const char *key);

#endif
