#include "engine/backend/cpu/conv/own_conv.h"

#include "engine/backend/cpu/cpu_private.h"

#include <string.h>

static const struct hrf_own_conv_type *type_of(const struct hrf_kernel *kernel)
{
    return kernel->row->own;
}

void hrf_own_conv_bring_residual(const struct hrf_own_conv *k, const struct hrf_kernel_call *call)
{
    if (k->epilogue.accumulate && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL], hrf_conv_output_bytes(&k->shape));
}

static enum hrf_status own_conv_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                    struct hrf_error *err)
{
    const struct hrf_own_conv *k = (const struct hrf_own_conv *)base;
    (void)err;
    hrf_own_conv_bring_residual(k, call);
    type_of(base)->compute(k, call);
    return HRF_OK;
}

const struct hrf_own_conv *hrf_own_conv_as(const struct hrf_kernel *kernel,
                                           hrf_own_conv_function *compute)
{
    const bool is_that = kernel->run == own_conv_run && type_of(kernel)->compute == compute;
    return is_that ? (const struct hrf_own_conv *)kernel : NULL;
}

static void own_conv_destroy(struct hrf_kernel *base)
{
    struct hrf_own_conv *k = (struct hrf_own_conv *)base;
    if (type_of(base)->release != NULL)
        type_of(base)->release(k);
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k);
}

enum hrf_status hrf_own_conv_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                     const struct hrf_graph *graph, const struct hrf_node *node,
                                     struct hrf_kernel **out, struct hrf_error *err)
{
    const struct hrf_own_conv_type *type = row->own;
    struct hrf_own_conv *k = hrf_calloc(1, type->size);
    k->base = type->base;
    k->base.run = own_conv_run;
    k->base.destroy = own_conv_destroy;
    k->base.row = row;
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->n_threads = backend->n_threads;
    k->shape = hrf_conv_shape_of(graph, node);
    k->word_type = row->isa == HRF_ISA_AVX512_BF16 ? HRF_WORD_B16_PAIR : HRF_WORD_F32;
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->shape.y_type, NULL, k->shape.has_residual);
    HRF_TRY(type->prepare(k, graph, node, err));
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

enum hrf_status hrf_own_conv_make_weights(struct hrf_own_conv *k, const struct hrf_graph *graph,
                                          const struct hrf_node *node, size_t n_bytes,
                                          int64_t n_channels, struct hrf_error *err)
{
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(k->weights != NULL, err, "no memory for the weights of node '%s': %zu bytes",
                     node->name, n_bytes);
    k->epilogue.bias = k->bias = hrf_calloc((size_t)n_channels, sizeof(float));
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->shape.out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)n_channels * sizeof(float);
    return HRF_OK;
}

bool hrf_own_conv_has_pairs(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const int64_t n_groups = node->attributes.group;
    return x->dtype == HRF_B16 && hrf_cpu_has_avx512_bf16() &&
           (n_groups == 1 || x->shape.dims[1] / n_groups % 2 == 0);
}
