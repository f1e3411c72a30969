#include "engine/plan/stages.h"

#include <math.h>
#include <string.h>

double hrf_stages_cost(const struct hrf_graph *graph, const struct hrf_node *node)
{
    /* A byte costs as much as 16 operations: a core of 150 GFLOPS and 10 GB/s. */
    double bytes = 0;
    for (int32_t i = -1; i < node->n_inputs; i++) {
        const int32_t v = i < 0 ? node->outputs[0] : node->inputs[i];
        if (v >= 0)
            bytes += (double)hrf_shape_count(&graph->values[v].shape) *
                     (double)hrf_dtype_size(graph->values[v].dtype);
    }
    return hrf_node_operations(graph, node) + 16 * bytes;
}

/* best[s][i]: the least possible maximum over s + 1 stages of the first i costs. */
enum hrf_status hrf_stages_cut(const double *costs, int32_t n, int32_t n_stages, int32_t *stage_of,
                               struct hrf_error *err)
{
    if (n_stages > n)
        return hrf_error_set(err, HRF_E_USER,
                             "%d stages for a network of %d nodes; at most stages=%d would work",
                             n_stages, n, n);
    const size_t width = (size_t)n + 1, cells = width * (size_t)n_stages;
    HRF_AUTO_FREE double *sums = hrf_calloc(width, sizeof *sums);
    HRF_AUTO_FREE double *best = hrf_alloc_array(cells, sizeof *best);
    HRF_AUTO_FREE int32_t *from = hrf_calloc(cells, sizeof *from);
    if (sums == NULL || best == NULL || from == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to cut %d nodes", n);
    for (int32_t i = 0; i < n; i++)
        sums[i + 1] = sums[i] + costs[i];
    for (int32_t s = 0; s < n_stages; s++)
        for (int32_t i = 0; i <= n; i++) {
            double *cell = &best[(size_t)s * width + (size_t)i];
            *cell = s == 0 && i > 0 ? sums[i] : INFINITY;
            for (int32_t k = s; s > 0 && k < i; k++) {
                const double before = best[(size_t)(s - 1) * width + (size_t)k];
                const double most = fmax(before, sums[i] - sums[k]);
                if (most < *cell) {
                    *cell = most;
                    from[(size_t)s * width + (size_t)i] = k;
                }
            }
        }
    for (int32_t s = n_stages - 1, end = n; s >= 0; s--) {
        const int32_t begin = s > 0 ? from[(size_t)s * width + (size_t)end] : 0;
        for (int32_t i = begin; i < end; i++)
            stage_of[i] = s;
        end = begin;
    }
    return HRF_OK;
}
