/* ranks.h - the processes that score one job's patches together: found, checked, told apart.
 *
 * A job of one rank has no MPI and no record. Rank 0 writes the results; every rank writes its own
 * record (schema/record/rank_record.h).
 *
 * Ranks form groups: those of a group run one network together, and groups share the patches. The
 * first rank of a group leads it: it gets batches from rank 0 and orders its group to run them, so
 * that all of a group run the same batches in the same order. With groups of one nobody is ordered.
 */
#ifndef HRF_ENGINE_WORKER_RANKS_H
#define HRF_ENGINE_WORKER_RANKS_H

#include "engine/run/work_queue.h"
#include "schema/record/rank_record.h"

struct hrf_ranks; /* opaque */

/* `n_ranks` as the job's spec says. Checks what the starter of the ranks says of their layout and
 * logs it. */
HRF_CHECKED enum hrf_status hrf_ranks_create(const char *directory, int64_t n_ranks,
                                             struct hrf_ranks **out, struct hrf_error *err);
/* Waits for the other ranks. NULL is fine. */
void hrf_ranks_destroy(struct hrf_ranks *ranks);
HRF_DEFINE_AUTO(hrf_ranks)
/* Messages between all ranks, before the queue is open; NULL with one rank. */
struct hrf_comm *hrf_ranks_all(const struct hrf_ranks *ranks);
/* Groups of `n_group` ranks, which divides their number; once. */
HRF_CHECKED enum hrf_status hrf_ranks_form(struct hrf_ranks *ranks, int32_t n_group,
                                           struct hrf_error *err);
/* The leaders share the patches from here on, and no longer send each other messages by
 * hrf_ranks_all(). */
HRF_CHECKED enum hrf_status hrf_ranks_open_queue(struct hrf_ranks *ranks, struct hrf_error *err);
bool hrf_ranks_is_root(const struct hrf_ranks *ranks);
/* Of the ranks on this machine, by what their starter says. */
bool hrf_ranks_is_first_on_node(const struct hrf_ranks *ranks);
/* The rest: once the groups are formed. */
bool hrf_ranks_leads(const struct hrf_ranks *ranks);
/* What the leaders share; NULL on others. */
struct hrf_work_queue *hrf_ranks_work_queue(struct hrf_ranks *ranks);
/* What the network's messages go by; NULL in a group of one. */
struct hrf_comm *hrf_ranks_group(const struct hrf_ranks *ranks);
/* hrf_feed_config.next: the group's next batch, -1: no more of this task. */
int64_t hrf_ranks_next(void *ranks);
/* After the last hrf_ranks_next() of a task, when no reader is left that would call it: whatever
 * was ordered and not run is forgotten. */
HRF_CHECKED enum hrf_status hrf_ranks_end_task(struct hrf_ranks *ranks, struct hrf_error *err);
void hrf_ranks_count_batch(struct hrf_ranks *ranks);
/* How this rank ended, into its record. */
void hrf_ranks_tell_end(struct hrf_ranks *ranks, enum hrf_rank_state state, int exit_code,
                        const char *reason);
/* Ends every rank, when this one cannot go on. Returns with one rank. */
void hrf_ranks_abort(struct hrf_ranks *ranks, const char *reason);

#endif
