/* ref_private.h - the reference operators, by family. */
#ifndef HRF_ENGINE_BACKEND_REF_REF_PRIVATE_H
#define HRF_ENGINE_BACKEND_REF_REF_PRIVATE_H

#include "engine/backend/backend.h"

typedef void hrf_ref_function(const struct hrf_spec *spec, const struct hrf_kernel_call *call);

hrf_ref_function hrf_ref_conv, hrf_ref_conv_transpose, hrf_ref_gemm, hrf_ref_matmul, hrf_ref_pool,
    hrf_ref_global_pool, hrf_ref_lrn, hrf_ref_unary, hrf_ref_binary, hrf_ref_batch_norm,
    hrf_ref_softmax, hrf_ref_reduction, hrf_ref_performer_max, hrf_ref_performer_state,
    hrf_ref_performer_apply;

/* The fused activation of a node. */
double hrf_ref_activate(const struct hrf_attributes *attributes, double x);

#endif
