#include "engine/backend/cpu/part_queues.h"

#include <omp.h>

static int64_t first_of(const struct hrf_part_queues *s, int64_t thread)
{
    return s->n * thread / s->n_threads;
}

struct hrf_part_queues hrf_part_queues_begin(struct hrf_part_queue *of, int64_t n_threads,
                                             int64_t n)
{
    const struct hrf_part_queues s = { .of = of, .n_threads = n_threads, .n = n };
    for (int64_t i = 0; i < n_threads; i++)
        of[i].next = first_of(&s, i);
    return s;
}

int64_t hrf_part_queues_take(const struct hrf_part_queues *s)
{
    for (int64_t i = 0; i < s->n_threads; i++) {
        const int64_t owner = (omp_get_thread_num() + i) % s->n_threads;
        int64_t taken;
#pragma omp atomic capture
        taken = s->of[owner].next++;
        if (taken < first_of(s, owner + 1))
            return taken;
    }
    return -1;
}

size_t hrf_parts_workspace(int64_t n_threads, size_t scratch_bytes)
{
    return (size_t)n_threads * (sizeof(struct hrf_part_queue) + hrf_buffer_aligned(scratch_bytes));
}

void hrf_parts_run(void *workspace, int64_t n_threads, int64_t n, size_t scratch_bytes,
                   hrf_part_function *function, const void *context)
{
    const struct hrf_part_queues parts = hrf_part_queues_begin(workspace, n_threads, n);
#pragma omp parallel
    {
        char *const scratch = (char *)(parts.of + n_threads) +
                              (size_t)omp_get_thread_num() * hrf_buffer_aligned(scratch_bytes);
        for (int64_t part, before = -1; (part = hrf_part_queues_take(&parts)) >= 0; before = part)
            function(context, part, before, scratch);
    }
}
