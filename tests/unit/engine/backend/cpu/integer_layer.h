/* integer_layer.h - what graphs of one 8-bit layer are put together from. */
#ifndef HRF_TESTS_ENGINE_BACKEND_CPU_INTEGER_LAYER_H
#define HRF_TESTS_ENGINE_BACKEND_CPU_INTEGER_LAYER_H

#include "tests/unit/engine/backend/cpu/layer.h"

#include "base/alloc.h"

static inline int32_t add_quantized(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                                    struct hrf_shape shape, const void *data, float scale,
                                    int32_t zero)
{
    const int32_t index = add_value(graph, name, dtype, shape, data);
    graph->values[index].quantization = (struct hrf_quantization){ .scale = scale,
                                                                   .zero_point = zero };
    return index;
}

/* n numbers in [low, high). */
static inline int32_t add_floats(struct hrf_graph *graph, const char *name, int64_t n, double low,
                                 double high, struct hrf_random *random)
{
    HRF_AUTO_FREE float *x = hrf_alloc_array((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(low + hrf_random_unit(random) * (high - low));
    return add_value(graph, name, HRF_F32, SHAPE(n), x);
}

#endif
