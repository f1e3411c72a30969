/* integer_layer.h - what graphs of one 8-bit layer are put together from. */
#ifndef HRF_TESTS_ENGINE_BACKEND_CPU_INTEGER_LAYER_H
#define HRF_TESTS_ENGINE_BACKEND_CPU_INTEGER_LAYER_H

#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "tests/ops/build.h"

static struct hrf_error err;

static inline void must(enum hrf_status status)
{
    if (status != HRF_OK)
        fail_msg("%s", err.text);
}

static inline int32_t add_value(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                                struct hrf_shape shape, const void *data, float scale, int32_t zero)
{
    int32_t index;
    must(hrf_graph_add_value(graph, name, dtype, &shape, data, &index, &err));
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
    return add_value(graph, name, HRF_F32, SHAPE(n), x, 0, 0);
}

#endif
