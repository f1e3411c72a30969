/* layer.h - what graphs of one layer are put together from. */
#ifndef HRF_TESTS_ENGINE_BACKEND_CPU_LAYER_H
#define HRF_TESTS_ENGINE_BACKEND_CPU_LAYER_H

#include "tests/unit/unit.h"

#include "tests/ops/build.h"

static struct hrf_error err;

static inline void must(enum hrf_status status)
{
    if (status != HRF_OK)
        fail_msg("%s", err.text);
}

static inline int32_t add_value(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                                struct hrf_shape shape, const void *data)
{
    int32_t index;
    must(hrf_graph_add_value(graph, name, dtype, &shape, data, &index, &err));
    return index;
}

#endif
