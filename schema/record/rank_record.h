/* rank_record.h - rank-NNNN.json: what a rank of a job of many says of itself, in the job's folder.
 *
 * Written by the rank when it begins and when it ends, so that the launcher can name the one that
 * failed: what the starter of the ranks (srun, mpirun) tells is the death of those that it killed
 * then. One that says "running" when the job is over was killed.
 */
#ifndef HRF_SCHEMA_RECORD_RANK_RECORD_H
#define HRF_SCHEMA_RECORD_RANK_RECORD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_rank_state { HRF_RANK_RUNNING, HRF_RANK_DONE, HRF_RANK_STOPPED, HRF_RANK_FAILED };

struct hrf_rank_record {
    int64_t rank, n_ranks, pid;
    int64_t n_cpus;           /* that it may use */
    char cpus[128];           /* which they are, "0-3" */
    int64_t begin_ms, end_ms; /* wall, of its host; end 0 while it runs */
    int64_t n_batches;        /* that it scored */
    int64_t cpu_ms;           /* processor time of its process, at its end; 0: not known */
    int64_t peak_bytes;       /* largest resident size of its process, at its end; 0: not known */
    int64_t exit_code;
    enum hrf_rank_state state;
    char host[128];
    char reason[512]; /* "" unless failed */
};

HRF_CHECKED enum hrf_status
hrf_rank_write(const char *directory, const struct hrf_rank_record *record, struct hrf_error *err);
/* HRF_E_AGAIN when it is not there. */
HRF_CHECKED enum hrf_status hrf_rank_read(const char *directory, int64_t rank,
                                          struct hrf_rank_record *out, struct hrf_error *err);
/* Which rank a job of n_ranks failed by, as a sentence: the first that says so, else one that was
 * killed; and its exit code, 0 when not known. "" when all ended well. */
void hrf_rank_find_failed(const char *directory, int64_t n_ranks, char *out, size_t size,
                          int64_t *exit_code);
/* The processor time of all ranks of a job together, and the memory of the largest. Both are 0
 * unless every rank has told its end: a sum over some of them would pass for all. */
void hrf_rank_sum_usage(const char *directory, int64_t n_ranks, int64_t *cpu_ms,
                        int64_t *peak_bytes);
/* How long one rank waits for another that shows no progress, before it ends all: 2 minutes, or
 * HRF_RANK_DEADLINE_MS. */
int64_t hrf_rank_deadline_ms(void);
/* Whether every rank has said its last word, or one that it failed, by which it ends all: what is
 * left of the job is its end. */
bool hrf_rank_have_ended(const char *directory, int64_t n_ranks);

#endif
