/* rank_record.h - rank-NNNN.json: the status of one rank of a job of several, in the job's folder.
 *
 * A rank writes it when it begins and when it ends, so that the launcher can name the rank that
 * failed: srun and mpirun report the deaths of the ranks that they killed afterwards. A rank that
 * is "running" when the job is over was killed.
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
    int64_t n_cpus;           /* the number of processors that it may use */
    char cpus[128];           /* their list, "0-3" */
    int64_t begin_ms, end_ms; /* wall clock of its host; end 0 while it runs */
    int64_t n_batches;        /* batches that it scored */
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
/* Writes a sentence on the rank that made a job of n_ranks fail: the first that says so, otherwise
 * one that was killed; and its exit code, 0 if it is not known. "" if all ended well. */
void hrf_rank_find_failed(const char *directory, int64_t n_ranks, char *out, size_t size,
                          int64_t *exit_code);
/* Sums the processor time of all ranks of a job, and finds the largest memory of one. Both are 0
 * unless every rank has written its end, because a sum over some of them would pass for all. */
void hrf_rank_sum_usage(const char *directory, int64_t n_ranks, int64_t *cpu_ms,
                        int64_t *peak_bytes);
/* Returns how long a rank waits for another that shows no progress before it ends the job: 2
 * minutes, or HRF_RANK_DEADLINE_MS. */
int64_t hrf_rank_deadline_ms(void);
/* True if every rank has written its end, or if one has written that it failed, which ends the job:
 * the processes only have to exit. */
bool hrf_rank_have_ended(const char *directory, int64_t n_ranks);

#endif
