#include "engine/backend/cpu/conv/prologue.h"

#include "base/alloc.h"
#include "engine/backend/cpu/cpu_private.h"

#include <string.h>

void hrf_cpu_prologue_init(struct hrf_cpu_prologue *p, const struct hrf_graph *graph,
                           const struct hrf_node *node)
{
    const struct hrf_prologue *a = &node->attributes.prologue;
    *p = (struct hrf_cpu_prologue){ .factors = NULL };
    if (!hrf_node_has_prologue(node))
        return;
    const size_t n = (size_t)graph->values[node->inputs[HRF_CONV_X]].shape.dims[1];
    p->factors = hrf_alloc_array(n + 1, sizeof *p->factors);
    p->shifts = hrf_alloc_array(n + 1, sizeof *p->shifts);
    memcpy(p->factors, hrf_cpu_constant(graph, node, HRF_CONV_FACTORS), n * sizeof *p->factors);
    memcpy(p->shifts, hrf_cpu_constant(graph, node, HRF_CONV_SHIFTS), n * sizeof *p->shifts);
    p->activation = (struct hrf_epilogue){
        .activation = a->activation, .low = a->low, .high = a->high, .slope = a->slope
    };
}

void hrf_cpu_prologue_release(struct hrf_cpu_prologue *p)
{
    hrf_free(p->factors);
    hrf_free(p->shifts);
    *p = (struct hrf_cpu_prologue){ .factors = NULL };
}

static void plain_lines(const struct hrf_cpu_prologue *p, const float *x, float *y,
                        int64_t y_stride, int64_t channels, int64_t n_lines)
{
    const struct hrf_attributes activation = { .activation = p->activation.activation,
                                               .activation_min = p->activation.low,
                                               .activation_max = p->activation.high,
                                               .alpha = p->activation.slope };
    for (int64_t i = 0; i < n_lines; i++, x += channels, y += y_stride) {
        for (int64_t c = 0; c < channels; c++)
            y[c] = x[c] * p->factors[c] + p->shifts[c];
        hrf_cpu_activate(&activation, y, channels);
    }
}

void hrf_cpu_prologue_lines(const struct hrf_cpu_prologue *p, const float *x, float *y,
                            int64_t y_stride, int64_t channels, int64_t n_lines)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        hrf_prologue_lines_avx512(p, x, y, y_stride, channels, n_lines);
        return;
    }
#endif
    plain_lines(p, x, y, y_stride, channels, n_lines);
}
