/* part_queues.h - the parts of a layer shared out so that a thread meets the same images in each.
 *
 * What a thread wrote is fetched slowly by one that shares no cache with it (measured between the
 * third-level caches of one processor: 320 ns a line, 80 within one of them). So parts are not
 * given to whoever comes first: each thread has a stretch of parts that follow each other, the same
 * fraction of every layer, and takes them in their order. When it has none left it helps the
 * others, as threads are not equally quick.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PART_QUEUES_H
#define HRF_ENGINE_BACKEND_CPU_PART_QUEUES_H

#include "engine/backend/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Alone in its line of the cache. */
struct hrf_part_queue {
    _Alignas(64) int64_t next;
};

struct hrf_part_queues {
    struct hrf_part_queue *of; /* each thread */
    int64_t n_threads, n;      /* n: parts of all */
};

/* Whether n parts that take about as long leave threads idle for at most an eighth of the time. */
static inline bool hrf_part_queues_are_even(int64_t n, int64_t n_threads)
{
    const int64_t most = (n + n_threads - 1) / n_threads; /* of one thread */
    return 8 * (most * n_threads - n) <= n;
}
/* `of`: n_threads of them, the caller's. Before the threads begin. */
struct hrf_part_queues hrf_part_queues_begin(struct hrf_part_queue *of, int64_t n_threads,
                                             int64_t n);
/* A part that no thread has taken yet, for the OpenMP thread that calls; -1: there is none. */
int64_t hrf_part_queues_take(const struct hrf_part_queues *stretches);

/* Does n parts by all threads. Each has scratch_bytes of the workspace to itself, aligned to
 * HRF_BUFFER_ALIGNMENT, which keep from one of its parts to the next what the last one left there;
 * `before`: that part, -1: this is the thread's first. */
typedef void hrf_part_function(const void *context, int64_t part, int64_t before, void *scratch);
void hrf_parts_run(void *workspace, int64_t n_threads, int64_t n, size_t scratch_bytes,
                   hrf_part_function *function, const void *context);
/* Bytes of the workspace. */
size_t hrf_parts_workspace(int64_t n_threads, size_t scratch_bytes);

#endif
