/* part_queues.h - divides the parts of a layer among threads so that a thread works on the same
 * images in every layer.
 *
 * Data that another core has written is slow to read if the cores share no cache (measured between
 * the L3 caches of one processor: 320 ns per cache line, within one of them 80). So parts are not
 * given to whichever thread is free: each thread has a range of consecutive parts, the same
 * fraction of every layer, and takes them in order. A thread that has none left takes parts of
 * other threads (work stealing).
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PART_QUEUES_H
#define HRF_ENGINE_BACKEND_CPU_PART_QUEUES_H

#include "engine/backend/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Has a cache line of its own. */
struct hrf_part_queue {
    _Alignas(64) int64_t next;
};

struct hrf_part_queues {
    struct hrf_part_queue *of; /* each thread */
    int64_t n_threads, n;      /* n: parts of all */
};

/* True if n parts of about equal time leave threads idle for at most an eighth of the time. */
static inline bool hrf_part_queues_are_even(int64_t n, int64_t n_threads)
{
    const int64_t most = (n + n_threads - 1) / n_threads; /* of one thread */
    return 8 * (most * n_threads - n) <= n;
}
/* Called before the threads begin. `of`: n_threads queues in the caller's memory. */
struct hrf_part_queues hrf_part_queues_begin(struct hrf_part_queue *of, int64_t n_threads,
                                             int64_t n);
/* Takes a part for the calling OpenMP thread; -1: none is left. */
int64_t hrf_part_queues_take(const struct hrf_part_queues *stretches);

/* Computes n parts with all threads. Each thread has scratch_bytes of the workspace, aligned to
 * HRF_BUFFER_ALIGNMENT, whose content stays from one of its parts to the next. `before`: the
 * thread's previous part; -1: this is its first. */
typedef void hrf_part_function(const void *context, int64_t part, int64_t before, void *scratch);
void hrf_parts_run(void *workspace, int64_t n_threads, int64_t n, size_t scratch_bytes,
                   hrf_part_function *function, const void *context);
/* The size of the workspace in bytes. */
size_t hrf_parts_workspace(int64_t n_threads, size_t scratch_bytes);

#endif
