/* cpu_private.h - the CPU operators, by family. */
#ifndef HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H
#define HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H

#include "engine/backend/backend.h"

#include <oneapi/dnnl/dnnl.h>

struct hrf_backend {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int32_t n_threads;
};

/* A oneDNN status as ours; `what` names the node and the call. */
enum hrf_status hrf_dnnl_error(struct hrf_error *err, dnnl_status_t status, const char *node,
                               const char *what);

HRF_CHECKED enum hrf_status hrf_cpu_conv_compile(struct hrf_backend *backend,
                                                 const struct hrf_graph *graph,
                                                 const struct hrf_node *node,
                                                 struct hrf_kernel **out, struct hrf_error *err);

/* Own loops: a function over the spec, run with the back end's threads. */
typedef enum hrf_status hrf_cpu_function(const struct hrf_spec *spec,
                                         const struct hrf_kernel_call *call, struct hrf_error *err);
hrf_cpu_function hrf_cpu_gemm, hrf_cpu_matmul, hrf_cpu_max_pool, hrf_cpu_average_pool,
    hrf_cpu_global_pool, hrf_cpu_lrn, hrf_cpu_unary, hrf_cpu_binary, hrf_cpu_batch_norm,
    hrf_cpu_softmax, hrf_cpu_reduce_mean;

/* The fused activation over a run of n elements, in place. */
void hrf_cpu_activate(const struct hrf_attributes *attributes, float *x, int64_t n);

#endif
