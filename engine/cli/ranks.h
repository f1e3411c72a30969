/* ranks.h - the processes that score one job's patches together: found, checked, told apart.
 *
 * A job of one rank has no MPI and no record. Rank 0 writes the results; every rank writes its own
 * record (schema/record/rank.h).
 */
#ifndef HRF_ENGINE_CLI_RANKS_H
#define HRF_ENGINE_CLI_RANKS_H

#include "engine/run/share.h"
#include "schema/record/rank.h"

struct hrf_ranks; /* opaque */

/* `n_ranks` as the job's spec says. Checks what the starter of the ranks says of their layout and
 * logs it. */
HRF_CHECKED enum hrf_status hrf_ranks_create(const char *directory, int64_t n_ranks,
                                             struct hrf_ranks **out, struct hrf_error *err);
/* Waits for the other ranks. NULL is fine. */
void hrf_ranks_destroy(struct hrf_ranks *ranks);
HRF_DEFINE_AUTO(hrf_ranks)
struct hrf_share *hrf_ranks_share(struct hrf_ranks *ranks);
bool hrf_ranks_is_root(const struct hrf_ranks *ranks);
void hrf_ranks_count_batch(struct hrf_ranks *ranks);
/* How this rank ended, into its record. */
void hrf_ranks_tell_end(struct hrf_ranks *ranks, enum hrf_rank_state state, int exit_code,
                        const char *reason);
/* Ends every rank, when this one cannot go on. Returns with one rank. */
void hrf_ranks_abort(struct hrf_ranks *ranks, const char *reason);

#endif
