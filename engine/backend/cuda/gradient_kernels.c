/* gradient_kernels.c - the operators that only graphs of gradients have, as launches of
 * gradient_kernels.h. */
#include "engine/backend/cuda/gradient_kernels.h"

#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/cudnn_choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static cudaError_t launch_derivative(const struct hrf_cuda_kernel *kernel,
                                     const struct hrf_kernel_call *call)
{
    static const enum hrf_k_derivative functions[] = {
#define ENTRY(OP, FORMULA) [HRF_OP_##OP - HRF_OP_RELU] = HRF_K_DERIVATIVE_OF_##OP,
        HRF_DERIVATIVES(ENTRY)
#undef ENTRY
    };
    _Static_assert((int)HRF_N_DERIVATIVES == HRF_OP_CLIP + 1 - HRF_OP_RELU,
                   "a derivative for every function of one number");
    const struct hrf_attributes *a = &kernel->spec->attributes;
    const struct hrf_k_derivative_form form = {
        .function = functions[a->function - HRF_OP_RELU],
        .alpha = a->alpha,
        .beta = a->beta,
        .low = a->activation_min,
        .high = a->activation_max,
    };
    return hrf_k_derivative(&form, hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                            hrf_cuda_input(kernel, call, 1),
                            hrf_shape_count(&kernel->spec->output.shape),
                            kernel->backend->device->stream);
}

/* ---- windows: inputs are x and dy ---- */

static struct hrf_k_window window_of(const struct hrf_spec *spec)
{
    return hrf_cuda_window(&spec->inputs[0].shape, &spec->inputs[1].shape,
                           &spec->attributes.window);
}

static struct hrf_k_weight_gradient_form weight_gradient_of(const struct hrf_spec *spec)
{
    return (struct hrf_k_weight_gradient_form){ .window = window_of(spec),
                                                .out_channels = spec->output.shape.dims[0],
                                                .group = spec->attributes.group };
}

static size_t weight_gradient_workspace(const struct hrf_spec *spec)
{
    const struct hrf_k_weight_gradient_form form = weight_gradient_of(spec);
    return hrf_k_weight_gradient_workspace(&form);
}

static cudaError_t launch_weight_gradient(const struct hrf_cuda_kernel *kernel,
                                          const struct hrf_kernel_call *call)
{
    const struct hrf_k_weight_gradient_form form = weight_gradient_of(kernel->spec);
    return hrf_k_weight_gradient(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                                 hrf_cuda_input(kernel, call, 1), &form, call->workspace,
                                 kernel->backend->device->stream);
}

enum hrf_status hrf_cuda_plan_weight_gradient(struct hrf_cuda_kernel *kernel,
                                              const struct hrf_graph *graph,
                                              const struct hrf_node *node, struct hrf_error *err)
{
    struct hrf_backend *backend = kernel->backend;
    struct hrf_cudnn_conv conv;
    if (!hrf_cudnn_conv_describe(graph, node, backend->allow_tf32, &conv))
        return HRF_OK;
    HRF_TRY(hrf_plan_cache_get(backend->plans, &conv, &kernel->gradient, err));
    if (kernel->gradient.plan == NULL)
        return HRF_OK;
    snprintf(kernel->implementation, sizeof kernel->implementation, "cudnn engine %d",
             (int)kernel->gradient.plan->engine);
    kernel->base.implementation = kernel->implementation;
    kernel->base.workspace_bytes = (size_t)kernel->gradient.plan->workspace_bytes;
    return HRF_OK;
}

enum hrf_status hrf_cuda_run_weight_gradient(const struct hrf_cuda_kernel *kernel,
                                             const struct hrf_kernel_call *call,
                                             struct hrf_error *err)
{
    static const int64_t ids[] = { HRF_CUDNN_X, HRF_CUDNN_Y, HRF_CUDNN_W };
    void *pointers[] = { NULL, NULL, call->output };
    memcpy(pointers, call->inputs, 2 * sizeof pointers[0]); /* cuDNN takes inputs as outputs */
    const enum hrf_status status = hrf_cudnn_plan_run(kernel->gradient.plan, kernel->backend->cudnn,
                                                      ids, pointers, 3, call->workspace, err);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "node '%s'", kernel->spec->name);
}

static size_t max_pool_workspace(const struct hrf_spec *spec)
{
    const struct hrf_k_window window = window_of(spec);
    return hrf_k_max_pool_gradient_workspace(&window);
}

static cudaError_t launch_max_pool_gradient(const struct hrf_cuda_kernel *kernel,
                                            const struct hrf_kernel_call *call)
{
    const struct hrf_k_window window = window_of(kernel->spec);
    return hrf_k_max_pool_gradient(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                                   hrf_cuda_input(kernel, call, 1), &window, call->workspace,
                                   kernel->backend->device->stream);
}

/* ---- GATHER ---- */

/* For each place along the axis of the output where those of dy stand that are added to it, in
 * their order. */
enum hrf_status hrf_cuda_prepare_gather_gradient(struct hrf_cuda_kernel *kernel,
                                                 struct hrf_error *err)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t *indices = spec->inputs[1].constant;
    const int64_t n = hrf_shape_count(&spec->inputs[1].shape);
    const int64_t length = spec->output.shape.dims[spec->attributes.axis];
    HRF_AUTO_FREE int32_t *first = hrf_calloc((size_t)length + 1, sizeof *first);
    HRF_AUTO_FREE int32_t *places = hrf_alloc_array((size_t)n + 1, sizeof *places);
    int32_t n_placed = 0;
    for (int64_t k = 0; k < n; k++)
        first[indices[k] + 1]++;
    for (int64_t at = 0; at < length; at++)
        first[at + 1] += first[at];
    HRF_AUTO_FREE int32_t *next = hrf_alloc_array((size_t)length + 1, sizeof *next);
    for (int64_t at = 0; at < length; at++)
        next[at] = first[at];
    for (int64_t k = 0; k < n; k++, n_placed++)
        places[next[indices[k]]++] = (int32_t)k;
    HRF_TRY(hrf_cuda_upload_table(kernel, 0, first, ((size_t)length + 1) * sizeof *first, err));
    return hrf_cuda_upload_table(kernel, 1, places, (size_t)n_placed * sizeof *places, err);
}

static cudaError_t launch_scatter(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t axis = spec->attributes.axis;
    struct hrf_shape box = spec->output.shape;
    int64_t to[HRF_MAX_RANK], from[HRF_MAX_RANK];
    hrf_layout_strides(&spec->output.shape, to);
    hrf_layout_strides(&spec->inputs[0].shape, from);
    box.dims[axis] = 1;
    const struct hrf_k_scatter_form form = {
        .box = hrf_cuda_walk(&box, to, from, NULL),
        .length = spec->output.shape.dims[axis],
        .y_step = to[axis],
        .a_step = from[axis],
        .first = kernel->tables[0],
        .places = kernel->tables[1],
    };
    return hrf_k_scatter(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0), &form,
                         kernel->backend->device->stream);
}

/* ---- attention: q, k, v, dy -> the rows of dq, dk and dv, one behind the other ---- */

static struct hrf_k_heads heads_of(const struct hrf_shape *x, bool is_turned)
{
    int64_t strides[HRF_MAX_RANK];
    const int32_t token = x->rank - (is_turned ? 1 : 2), channel = x->rank - (is_turned ? 2 : 1);
    hrf_layout_strides(x, strides);
    return (struct hrf_k_heads){ .image = strides[0],
                                 .head = x->rank == 4 ? strides[1] : 0,
                                 .token = strides[token],
                                 .channel = strides[channel],
                                 .shared = 1 };
}

static struct hrf_k_attention attention_of(const struct hrf_spec *spec)
{
    const struct hrf_attributes *a = &spec->attributes;
    const struct hrf_shape *q = &spec->inputs[HRF_ATTENTION_Q].shape;
    const struct hrf_shape *v = &spec->inputs[HRF_ATTENTION_V].shape;
    const float scale = a->attention.scale;
    struct hrf_k_attention f = { .images = q->dims[0],
                                 .heads = q->rank == 4 ? q->dims[1] : 1,
                                 .n_queries = q->dims[q->rank - 2],
                                 .n_keys = v->dims[v->rank - 2],
                                 .depth = hrf_shape_last(q),
                                 .channels = hrf_shape_last(v),
                                 .causal = a->attention.causal };
    f.scale = scale != 0 ? scale : 1 / sqrtf((float)f.depth);
    f.q = f.y = heads_of(q, false);
    f.v = heads_of(v, false);
    f.k = heads_of(&spec->inputs[HRF_ATTENTION_K].shape, a->attention.transpose_k);
    return f;
}

static size_t attention_workspace(const struct hrf_spec *spec)
{
    const struct hrf_k_attention f = attention_of(spec);
    return hrf_k_attention_gradient_workspace(&f);
}

/* The output from row `first` of its tokens on. */
static struct hrf_k_heads rows_from(const struct hrf_cuda_kernel *kernel,
                                    const struct hrf_kernel_call *call, int64_t first)
{
    const struct hrf_operand *output = &kernel->spec->output;
    struct hrf_k_heads rows = heads_of(&output->shape, false);
    rows.array = hrf_cuda_array(
        output, (char *)call->output + first * rows.token * (int64_t)hrf_dtype_size(output->dtype));
    return rows;
}

static cudaError_t launch_attention_gradient(const struct hrf_cuda_kernel *kernel,
                                             const struct hrf_kernel_call *call)
{
    struct hrf_k_attention_gradient_form g = { .forward = attention_of(kernel->spec) };
    struct hrf_k_attention *f = &g.forward;
    struct hrf_k_heads *const inputs[] = { &f->q, &f->k, &f->v, &f->y };
    for (int32_t i = 0; i < 4; i++)
        inputs[i]->array = hrf_cuda_input(kernel, call, i);
    g.dq = rows_from(kernel, call, 0);
    g.dk = rows_from(kernel, call, f->n_queries);
    g.dv = rows_from(kernel, call, f->n_queries + f->n_keys);
    return hrf_k_attention_gradient(&g, call->workspace, kernel->backend->device->stream);
}

/* ---- the table ---- */

static const struct {
    hrf_cuda_launch *launch;
    size_t (*workspace)(const struct hrf_spec *spec); /* NULL: none */
} gradients[HRF_N_OPS] = {
    [HRF_OP_FUNCTION_GRADIENT] = { .launch = launch_derivative },
    [HRF_OP_CONV_WEIGHT_GRADIENT] = { launch_weight_gradient, weight_gradient_workspace },
    [HRF_OP_MAX_POOL_GRADIENT] = { launch_max_pool_gradient, max_pool_workspace },
    [HRF_OP_GATHER_GRADIENT] = { .launch = launch_scatter },
    [HRF_OP_ATTENTION_GRADIENT] = { launch_attention_gradient, attention_workspace },
};

hrf_cuda_launch *hrf_cuda_gradient(enum hrf_op op)
{
    return gradients[op].launch;
}

size_t hrf_cuda_gradient_workspace(const struct hrf_spec *spec)
{
    return gradients[spec->op].workspace != NULL ? gradients[spec->op].workspace(spec) : 0;
}
