/* conv.c - convolutions and matrix products with constant weights, with all that is fused. */
#include "engine/backend/cuda/conv_strips.h"
#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/cudnn_arithmetic.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/backend/cuda/graph_convs.h"
#include "engine/backend/cuda/plan_ranks.h"
#include "engine/ir/number.h"

#include <stdio.h>
#include <string.h>

struct conv_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_spec *spec;
    struct hrf_planned_conv planned; /* plan NULL: the own kernel runs it */
    struct hrf_planned_conv both;    /* the same with a second output; plan NULL: there is none */
    int64_t in_channels, out_channels, n_in_pixels, n_out_pixels; /* as the graph has them */
    bool widens_x, widens_y, rounds_rows; /* rounds_rows: x is float, its rows go to 8 bits here */
    bool is_depthwise;                    /* of the own kernel's: hrf_k_depthwise() */
    /* On the device. Weights: K, R, S, C of x's type, widened like the channels. */
    void *weights;
    void *fixed[HRF_CONV_N_INPUTS];       /* an image or residual that is a constant of the model */
    float *scale, *bias, *residual_scale; /* [K], [K], [1]; NULL where there is none */
    float *rounder;                       /* [1], of `both` in INT8 */
    float *factors, *shifts; /* [C], of the prologue, or of rounded rows; NULL: there is none */
    float low, high, own_residual_scale; /* of the own kernel's epilogue */
    size_t row_scales_at, wide_y_at, wide_residual_at, scratch_at; /* in the workspace; x stands
                                                                      first */
    char implementation[64];
};

bool hrf_cuda_conv_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    struct hrf_cudnn_conv conv;
    return node->op != HRF_OP_GEMM || hrf_node_form(graph, node) == HRF_FORM_INTEGER ||
           hrf_cudnn_conv_describe(graph, node, false, &conv);
}

/* ---- running ---- */

static void *at(const struct hrf_kernel_call *call, size_t offset)
{
    return (char *)call->workspace + offset;
}

static cudaError_t conv_widen(const struct conv_kernel *k, const struct hrf_operand *operand,
                              const void *from, void *to, int64_t pixels, int64_t channels,
                              int64_t wide)
{
    return hrf_k_widen(hrf_cuda_array(operand, to), hrf_cuda_array(operand, from), pixels, channels,
                       wide, k->backend->device->stream);
}

static cudaError_t narrow(const struct conv_kernel *k, const struct hrf_kernel_call *call)
{
    const struct hrf_k_walk walk = { .rank = 2,
                                     .dims = { k->n_out_pixels, k->out_channels },
                                     .y = { k->out_channels, 1 },
                                     .a = { k->planned.conv.y[1], 1 } };
    return hrf_k_copy(hrf_cuda_array(&k->spec->output, call->output),
                      hrf_cuda_array(&k->spec->output, at(call, k->wide_y_at)), &walk,
                      k->backend->device->stream);
}

static struct hrf_k_array input(const struct conv_kernel *k, const struct hrf_kernel_call *call,
                                int32_t i)
{
    if (!hrf_spec_has(k->spec, i))
        return (struct hrf_k_array){ .data = NULL };
    return hrf_cuda_array(&k->spec->inputs[i], k->fixed[i] != NULL ? k->fixed[i] : call->inputs[i]);
}

static cudaError_t round_rows(const struct conv_kernel *k, const struct hrf_kernel_call *call)
{
    if (call->inputs[HRF_CONV_X] == NULL && k->fixed[HRF_CONV_X] == NULL)
        return cudaSuccess; /* hrf_cuda_conv_run_rounded() */
    return hrf_k_round_rows(at(call, 0), at(call, k->row_scales_at), input(k, call, HRF_CONV_X),
                            k->factors, k->n_in_pixels, k->in_channels, k->planned.conv.x[1],
                            k->backend->device->stream);
}

struct arguments {
    int64_t ids[HRF_CUDNN_N_TENSORS];
    void *pointers[HRF_CUDNN_N_TENSORS];
    int32_t n;
};

static void conv_add(struct arguments *a, int64_t id, const void *pointer)
{
    a->ids[a->n] = id;
    memcpy(&a->pointers[a->n], &pointer, sizeof pointer); /* cuDNN takes inputs as outputs */
    a->n++;
}

static void add_second(struct arguments *a, const struct conv_kernel *k,
                       const struct hrf_cuda_kernel *norm, const void *output)
{
    conv_add(a, HRF_CUDNN_SECOND, output);
    conv_add(a, HRF_CUDNN_POST_SCALE, norm->tables[0]);
    conv_add(a, HRF_CUDNN_POST_SHIFT, norm->tables[1]);
    if (k->rounder != NULL)
        conv_add(a, HRF_CUDNN_ROUNDER, k->rounder);
}

/* A transposed convolution: x of the convolution, of which this is the gradient, is the output. */
static enum hrf_status run_gradient(const struct conv_kernel *k, const struct hrf_kernel_call *call,
                                    struct hrf_error *err)
{
    struct arguments a = { .n = 0 };
    conv_add(&a, HRF_CUDNN_X, call->output);
    conv_add(&a, HRF_CUDNN_W, k->weights);
    conv_add(&a, HRF_CUDNN_Y, call->inputs[HRF_CONV_X]);
    return hrf_cudnn_plan_run(k->planned.plan, k->backend->cudnn, a.ids, a.pointers, a.n,
                              at(call, k->scratch_at), err);
}

/* `norm` NULL: by itself; else with that kernel's output as its second one. */
static enum hrf_status run_cudnn(const struct conv_kernel *k, const struct hrf_kernel_call *call,
                                 const struct hrf_cuda_kernel *norm, const void *second,
                                 struct hrf_error *err)
{
    static const char what[] = "widening channels";
    const struct hrf_spec *spec = k->spec;
    const struct hrf_planned_conv *planned = norm != NULL ? &k->both : &k->planned;
    const struct hrf_cudnn_conv *conv = &planned->conv;
    const void *x = call->inputs[HRF_CONV_X];
    const void *residual = conv->has_residual ? call->inputs[HRF_CONV_RESIDUAL] : NULL;
    void *y = k->widens_y ? at(call, k->wide_y_at) : call->output;
    struct arguments a = { .n = 0 };
    if (k->rounds_rows) {
        HRF_TRY_CUDA(round_rows(k, call), "rounding rows");
        x = at(call, 0);
        conv_add(&a, HRF_CUDNN_ROW_SCALE, at(call, k->row_scales_at));
    } else if (k->widens_x) {
        HRF_TRY_CUDA(conv_widen(k, &spec->inputs[HRF_CONV_X], x, at(call, 0), k->n_in_pixels,
                                k->in_channels, conv->x[1]),
                     what);
        x = at(call, 0);
    }
    if (k->widens_y && residual != NULL) {
        HRF_TRY_CUDA(conv_widen(k, &spec->inputs[HRF_CONV_RESIDUAL], residual,
                                at(call, k->wide_residual_at), k->n_out_pixels, k->out_channels,
                                conv->y[1]),
                     what);
        residual = at(call, k->wide_residual_at);
    }
    conv_add(&a, HRF_CUDNN_X, x);
    conv_add(&a, HRF_CUDNN_W, k->weights);
    conv_add(&a, HRF_CUDNN_Y, y);
    if (k->scale != NULL)
        conv_add(&a, HRF_CUDNN_SCALE, k->scale);
    if (conv->has_bias)
        conv_add(&a, HRF_CUDNN_BIAS, k->bias);
    if (residual != NULL)
        conv_add(&a, HRF_CUDNN_RESIDUAL, residual);
    if (k->residual_scale != NULL)
        conv_add(&a, HRF_CUDNN_RESIDUAL_SCALE, k->residual_scale);
    if (conv->has_prologue) {
        conv_add(&a, HRF_CUDNN_PRE_SCALE, k->factors);
        conv_add(&a, HRF_CUDNN_PRE_SHIFT, k->shifts);
    }
    if (norm != NULL)
        add_second(&a, k, norm, second);
    HRF_TRY(hrf_cudnn_plan_run(planned->plan, k->backend->cudnn, a.ids, a.pointers, a.n,
                               at(call, k->scratch_at), err));
    if (k->widens_y)
        HRF_TRY_CUDA(narrow(k, call), "narrowing channels");
    return HRF_OK;
}

/* False for a product of matrices: its rows are pixels. */
static bool has_windows(const struct conv_kernel *k)
{
    return k->spec->inputs[HRF_CONV_WEIGHTS].shape.rank == 4;
}

static struct hrf_k_window own_window(const struct conv_kernel *k)
{
    const struct hrf_shape *x = &k->spec->inputs[HRF_CONV_X].shape, *y = &k->spec->output.shape;
    struct hrf_k_window w = { .n = k->n_in_pixels,
                              .in_rows = 1,
                              .in_columns = 1,
                              .out_rows = 1,
                              .out_columns = 1,
                              .channels = k->in_channels,
                              .kernel = { 1, 1 },
                              .stride = { 1, 1 },
                              .dilation = { 1, 1 } };
    if (has_windows(k)) {
        w = hrf_cuda_window(x, y, &k->spec->attributes.window);
        for (int i = 0; i < 2; i++)
            w.kernel[i] = k->spec->inputs[HRF_CONV_WEIGHTS].shape.dims[2 + i];
    }
    return w;
}

/* What the own kernel computes behind its sum itself; the others are a pass. */
static enum hrf_k_math own_formula(const struct conv_kernel *k)
{
    if (hrf_dtype_is_byte(k->spec->output.dtype))
        return HRF_K_COPY;
    switch (k->spec->attributes.activation) {
    case HRF_ACT_GELU:
        return HRF_K_GELU;
    case HRF_ACT_GELU_TANH:
        return HRF_K_GELU_TANH;
    case HRF_ACT_SWISH:
        return HRF_K_SWISH;
    default:
        return HRF_K_COPY;
    }
}

static struct hrf_k_convolution own_convolution(const struct conv_kernel *k)
{
    const struct hrf_spec *spec = k->spec;
    struct hrf_k_convolution c = { .window = own_window(k),
                                   .out_channels = k->out_channels,
                                   .group = has_windows(k) ? spec->attributes.group : 1,
                                   .is_transposed = spec->op == HRF_OP_CONV_TRANSPOSE,
                                   .scale = k->scale,
                                   .bias = k->bias,
                                   .residual_scale = k->own_residual_scale,
                                   .epilogue = hrf_cuda_epilogue(&spec->attributes),
                                   .formula = own_formula(k) };
    c.epilogue.low = k->low;
    c.epilogue.high = k->high;
    return c;
}

static enum hrf_status run_own(const struct conv_kernel *k, const struct hrf_kernel_call *call,
                               struct hrf_error *err)
{
    const struct hrf_spec *spec = k->spec;
    const cudaStream_t stream = k->backend->device->stream;
    struct hrf_k_convolution c = own_convolution(k);
    const struct hrf_k_array y = hrf_cuda_array(&spec->output, call->output);
    const struct hrf_k_array residual = input(k, call, HRF_CONV_RESIDUAL);
    struct hrf_k_array x = input(k, call, HRF_CONV_X);
    if (k->rounds_rows) {
        HRF_TRY_CUDA(round_rows(k, call), "rounding rows");
        x = (struct hrf_k_array){ at(call, 0), HRF_K_S8, 1, 0 };
        c.row_scale = at(call, k->row_scales_at);
    }
    HRF_TRY_CUDA(k->is_depthwise ? hrf_k_depthwise(y, x, k->weights, residual, &c, stream)
                                 : hrf_k_convolve(y, x, k->weights, residual, &c, stream),
                 "starting a convolution");
    if (c.formula == HRF_K_COPY)
        HRF_TRY_CUDA(hrf_cuda_apply_activation(spec, call->output, stream),
                     "starting a convolution's activation");
    return HRF_OK;
}

static enum hrf_status conv_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    const struct conv_kernel *k = (const struct conv_kernel *)base;
    enum hrf_status status = k->planned.plan == NULL ? run_own(k, call, err)
                             : k->planned.conv.gives == HRF_CUDNN_GIVES_Y
                                 ? run_cudnn(k, call, NULL, NULL, err)
                                 : run_gradient(k, call, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "node '%s'", k->spec->name);
    return HRF_OK;
}

bool hrf_cuda_conv_rows(const struct hrf_kernel *kernel, struct hrf_cuda_rows *out)
{
    const struct conv_kernel *k = (const struct conv_kernel *)kernel;
    if (kernel->run != conv_run || !k->rounds_rows)
        return false;
    *out = (struct hrf_cuda_rows){ .n_rows = k->n_in_pixels,
                                   .depth = k->in_channels,
                                   .wide = k->planned.conv.x[1],
                                   .scales_at = k->row_scales_at,
                                   .factors = k->factors };
    return true;
}

enum hrf_status hrf_cuda_conv_run_rounded(struct hrf_kernel *kernel,
                                          const struct hrf_kernel_call *call, struct hrf_error *err)
{
    const struct conv_kernel *k = (const struct conv_kernel *)kernel;
    const void *inputs[HRF_CONV_MAX_INPUTS] = { NULL };
    struct hrf_kernel_call rounded = *call;
    for (int32_t i = 0; i < k->spec->n_inputs; i++)
        inputs[i] = i != HRF_CONV_X ? call->inputs[i] : NULL;
    rounded.inputs = inputs;
    return conv_run(kernel, &rounded, err);
}

static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct conv_kernel *k = (const struct conv_kernel *)base;
    return k->both.plan != NULL && !pair->is_residual && !pair->overlaps &&
           hrf_cuda_as_batch_norm(next) != NULL;
}

static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    const struct conv_kernel *k = (const struct conv_kernel *)base;
    const enum hrf_status status = run_cudnn(k, call, hrf_cuda_as_batch_norm(next),
                                             next_call->output, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "node '%s' and its second output", k->spec->name);
    return HRF_OK;
}

static void conv_destroy(struct hrf_kernel *base)
{
    struct conv_kernel *k = (struct conv_kernel *)base;
    hrf_cuda_release(k->weights);
    for (int i = 0; i < HRF_CONV_N_INPUTS; i++)
        hrf_cuda_release(k->fixed[i]);
    hrf_cuda_release(k->scale);
    hrf_cuda_release(k->bias);
    hrf_cuda_release(k->residual_scale);
    hrf_cuda_release(k->rounder);
    hrf_cuda_release(k->factors);
    hrf_cuda_release(k->shifts);
    hrf_spec_destroy(k->spec);
    hrf_free(k);
}

/* ---- compiling ---- */

static enum hrf_status upload(struct conv_kernel *k, const void *from, size_t n_bytes, void **to,
                              struct hrf_error *err)
{
    const bool is_new = *to == NULL;
    HRF_TRY(hrf_cuda_upload(k->backend->device, from, n_bytes, to, err));
    k->base.weight_bytes += is_new ? n_bytes : 0;
    return HRF_OK;
}

static enum hrf_status upload_weights(struct conv_kernel *k, struct hrf_error *err)
{
    struct hrf_operand *w = &k->spec->inputs[HRF_CONV_WEIGHTS];
    const struct hrf_cudnn_conv *conv = &k->planned.conv;
    const enum hrf_dtype type = w->dtype == HRF_F32 ? k->spec->inputs[HRF_CONV_X].dtype : w->dtype;
    const size_t n = (size_t)(conv->w[0] * conv->w[1] * conv->w[2] * conv->w[3]);
    const size_t size = hrf_dtype_size(w->dtype);
    HRF_AUTO_FREE char *ordered = hrf_try_calloc(n, size);
    HRF_AUTO_FREE char *low = hrf_try_calloc(n, hrf_dtype_size(type));
    HRF_CHECK_MEMORY(ordered != NULL && low != NULL, err, "weights of node '%s'", k->spec->name);
    if (k->is_depthwise)
        hrf_cuda_order_depthwise(k->spec, ordered);
    else
        hrf_cuda_order_weights(k->spec, conv, k->in_channels, k->out_channels, ordered);
    hrf_free(w->constant); /* a copy of all weights on the host is one too many */
    w->constant = NULL;
    if (type == w->dtype)
        return upload(k, ordered, n * size, &k->weights, err);
    hrf_floats_to(type, (const float *)(const void *)ordered, low, (int64_t)n);
    return upload(k, low, n * hrf_dtype_size(type), &k->weights, err);
}

/* factor times n floats, zeros behind them where the channels are widened. */
static enum hrf_status upload_row(struct conv_kernel *k, const float *from, int64_t n, int64_t wide,
                                  float factor, float **out, struct hrf_error *err)
{
    HRF_AUTO_FREE float *row = hrf_try_calloc((size_t)wide, sizeof *row);
    void *on_device = *out;
    HRF_CHECK_MEMORY(row != NULL, err, "weights of node '%s'", k->spec->name);
    for (int64_t i = 0; i < n; i++)
        row[i] = factor * from[i];
    HRF_TRY(upload(k, row, (size_t)wide * sizeof *row, &on_device, err));
    *out = on_device;
    return HRF_OK;
}

static enum hrf_status upload_filters(struct conv_kernel *k, const float *from, float factor,
                                      float **out, struct hrf_error *err)
{
    return upload_row(k, from, k->out_channels, k->planned.conv.y[1], factor, out, err);
}

static enum hrf_status upload_prologue(struct conv_kernel *k, const struct hrf_graph *graph,
                                       const struct hrf_node *node, struct hrf_error *err)
{
    const int64_t wide = k->planned.conv.x[1];
    if (k->rounds_rows && hrf_node_has_input(node, HRF_CONV_FACTORS))
        return upload_row(k, graph->values[node->inputs[HRF_CONV_FACTORS]].data, k->in_channels,
                          k->in_channels, 1, &k->factors, err);
    if (!k->planned.conv.has_prologue)
        return HRF_OK;
    HRF_TRY(upload_row(k, graph->values[node->inputs[HRF_CONV_FACTORS]].data, k->in_channels, wide,
                       1, &k->factors, err));
    return upload_row(k, graph->values[node->inputs[HRF_CONV_SHIFTS]].data, k->in_channels, wide, 1,
                      &k->shifts, err);
}

/* By the formula of struct hrf_requantize; cuDNN multiplies first and adds the bias then, so its
 * bias is in y's steps. */
static enum hrf_status upload_requantize(struct conv_kernel *k, struct hrf_error *err)
{
    HRF_AUTO(hrf_requantize) r = hrf_requantize_create(k->spec);
    const bool is_own = k->planned.plan == NULL;
    if (hrf_spec_has(k->spec, HRF_CONV_RESIDUAL) &&
        hrf_dtype_is_byte(k->spec->inputs[HRF_CONV_RESIDUAL].dtype))
        r->residual_scale = hrf_arithmetic_short_factor(r->residual_scale);
    for (int64_t c = 0; c < r->n_channels && !is_own; c++)
        r->bias[c] *= r->multiplier[c];
    void *on_device = k->residual_scale;
    enum hrf_status status = upload_filters(k, r->multiplier, 1, &k->scale, err);
    if (status == HRF_OK && hrf_spec_has(k->spec, HRF_CONV_BIAS))
        status = upload_filters(k, r->bias, 1, &k->bias, err);
    if (status == HRF_OK && hrf_spec_has(k->spec, HRF_CONV_RESIDUAL))
        status = upload(k, &r->residual_scale, sizeof r->residual_scale, &on_device, err);
    k->residual_scale = on_device;
    k->own_residual_scale = r->residual_scale;
    k->low = r->low;
    k->high = r->high;
    return status;
}

static enum hrf_status upload_fixed(struct conv_kernel *k, int32_t i, struct hrf_error *err)
{
    if (!hrf_spec_has(k->spec, i) || k->spec->inputs[i].constant == NULL)
        return HRF_OK;
    const struct hrf_operand *operand = &k->spec->inputs[i];
    return upload(k, operand->constant,
                  (size_t)hrf_shape_count(&operand->shape) * hrf_dtype_size(operand->dtype),
                  &k->fixed[i], err);
}

static enum hrf_status upload_constants(struct conv_kernel *k, struct hrf_error *err)
{
    const struct hrf_attributes *t = &k->spec->attributes;
    HRF_TRY(upload_weights(k, err));
    HRF_TRY(upload_fixed(k, HRF_CONV_X, err));
    HRF_TRY(upload_fixed(k, HRF_CONV_RESIDUAL, err));
    k->own_residual_scale = 1;
    k->low = t->activation_min;
    k->high = t->activation_max;
    const enum hrf_dtype type = k->spec->inputs[HRF_CONV_X].dtype;
    if (hrf_dtype_is_byte(type))
        return upload_requantize(k, err);
    if (k->rounds_rows)
        HRF_TRY(upload_filters(k, k->spec->inputs[HRF_CONV_SCALES].constant, 1, &k->scale, err));
    if (hrf_spec_has(k->spec, HRF_CONV_BIAS))
        return upload_filters(k, k->spec->inputs[HRF_CONV_BIAS].constant,
                              k->spec->op == HRF_OP_GEMM ? t->gemm.beta : 1.0f, &k->bias, err);
    return HRF_OK;
}

static size_t aligned(int64_t elements, enum hrf_dtype type)
{
    return hrf_cuda_aligned((size_t)elements * hrf_dtype_size(type));
}

static void lay_out_workspace(struct conv_kernel *k)
{
    const struct hrf_cudnn_conv *conv = &k->planned.conv;
    const bool has_x = k->widens_x || k->rounds_rows;
    const enum hrf_dtype x_type = k->rounds_rows ? HRF_S8 : conv->type;
    size_t used = has_x ? aligned(k->n_in_pixels * conv->x[1], x_type) : 0;
    k->row_scales_at = used;
    used += k->rounds_rows ? aligned(k->n_in_pixels, HRF_F32) : 0;
    k->wide_y_at = used;
    used += k->widens_y ? aligned(k->n_out_pixels * conv->y[1], conv->out_type) : 0;
    k->wide_residual_at = used;
    if (k->widens_y && conv->has_residual)
        used += aligned(k->n_out_pixels * conv->y[1], conv->residual_type);
    k->scratch_at = used;
    k->base.workspace_bytes = used;
    int64_t scratch = k->planned.plan != NULL ? k->planned.plan->workspace_bytes : 0;
    if (k->both.plan != NULL && k->both.plan->workspace_bytes > scratch)
        scratch = k->both.plan->workspace_bytes;
    k->base.workspace_bytes += (size_t)scratch;
}

/* Tensors lie at multiples of 16 bytes, as the plan of memory has them. */
static bool is_depthwise(const struct conv_kernel *k)
{
    const struct hrf_k_array none = { .data = NULL };
    const struct hrf_spec *spec = k->spec;
    const struct hrf_k_convolution c = own_convolution(k);
    const bool has_residual = hrf_spec_has(spec, HRF_CONV_RESIDUAL);
    return !k->rounds_rows &&
           (!has_residual ||
            spec->inputs[HRF_CONV_RESIDUAL].dtype == spec->inputs[HRF_CONV_X].dtype) &&
           hrf_k_depthwise_fits(hrf_cuda_array(&spec->output, NULL),
                                hrf_cuda_array(&spec->inputs[HRF_CONV_X], NULL), none, &c);
}

/* How the own kernel sees it: no channel widened, the weights as they are. */
static void describe_own(struct conv_kernel *k)
{
    const struct hrf_shape *w = &k->spec->inputs[HRF_CONV_WEIGHTS].shape;
    struct hrf_cudnn_conv *conv = &k->planned.conv;
    conv->gives = HRF_CUDNN_GIVES_Y;
    conv->x[1] = k->in_channels;
    conv->y[1] = k->out_channels;
    conv->w[0] = k->out_channels;
    conv->w[1] = has_windows(k) ? k->in_channels / k->spec->attributes.group : k->in_channels;
    conv->w[2] = has_windows(k) ? w->dims[2] : 1;
    conv->w[3] = has_windows(k) ? w->dims[3] : 1;
    k->is_depthwise = is_depthwise(k);
    snprintf(k->implementation, sizeof k->implementation, "%s",
             k->is_depthwise ? "own, depth-wise" : "own");
}

static enum hrf_status plan(struct conv_kernel *k, const struct hrf_graph *graph,
                            const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_shape *x = &k->spec->inputs[HRF_CONV_X].shape, *y = &k->spec->output.shape;
    struct hrf_cudnn_conv conv;
    k->in_channels = hrf_shape_innermost(x);
    k->out_channels = hrf_shape_innermost(y);
    k->n_in_pixels = k->in_channels > 0 ? hrf_shape_count(x) / k->in_channels : 0;
    k->n_out_pixels = k->out_channels > 0 ? hrf_shape_count(y) / k->out_channels : 0;
    k->base.implementation = k->implementation;
    k->rounds_rows = node->op == HRF_OP_TOKEN_PRODUCT;
    if (hrf_cudnn_conv_describe(graph, node, k->backend->allow_tf32, &conv))
        HRF_TRY(hrf_plan_cache_get(k->backend->plans, &conv, &k->planned, err));
    if (k->planned.plan == NULL) {
        describe_own(k);
        return HRF_OK;
    }
    const bool is_forward = k->planned.conv.gives == HRF_CUDNN_GIVES_Y;
    k->widens_x = is_forward && k->planned.conv.x[1] != k->in_channels;
    k->widens_y = is_forward && k->planned.conv.y[1] != k->out_channels;
    snprintf(k->implementation, sizeof k->implementation, "cudnn engine %d%s%s",
             (int)k->planned.plan->engine, k->rounds_rows ? ", rows rounded" : "",
             k->widens_x || k->widens_y ? ", channels widened" : "");
    return HRF_OK;
}

/* Why the convolution does not write the second output; NULL: it does. */
static const char *refuse_second(const struct conv_kernel *k)
{
    if (k->both.plan == NULL)
        return "no engine of cuDNN's takes it, or gives what the two passes give";
    if (k->both.conv.y[1] != k->out_channels || k->both.conv.x[1] != k->planned.conv.x[1])
        return "its engine wants other channels";
    if (k->both.arithmetic != k->planned.arithmetic)
        return "its engine rounds otherwise than that of the convolution alone";
    if (k->planned.ms >= 0 && k->both.pass_ms >= 0 && k->both.ms > k->planned.ms + k->both.pass_ms)
        return "the convolution and a pass take less time than both at once";
    return NULL;
}

/* The plan that writes the BATCH_NORM behind it too, where the graph says so. */
static enum hrf_status plan_second(struct conv_kernel *k, const struct hrf_graph *graph,
                                   const struct hrf_node *node, struct hrf_error *err)
{
    static const float rounder = HRF_CUDNN_ROUNDER_VALUE;
    const struct hrf_node *second = hrf_graph_second_of(graph, node);
    struct hrf_cudnn_conv conv;
    void *on_device = NULL;
    if (second == NULL || k->planned.plan == NULL ||
        !hrf_cudnn_conv_describe_both(graph, node, second, k->backend->allow_tf32, &conv))
        return HRF_OK;
    HRF_TRY(hrf_plan_cache_get(k->backend->plans, &conv, &k->both, err));
    const char *why = refuse_second(k);
    if (why != NULL && !k->backend->told_of_seconds)
        hrf_strbuf_addf(&k->backend->lines,
                        "node '%s' is a pass of its own, not a second output of '%s': %s\n",
                        second->name, node->name, why);
    k->backend->told_of_seconds |= why != NULL;
    k->both.plan = why == NULL ? k->both.plan : NULL;
    if (k->both.plan == NULL)
        return HRF_OK;
    snprintf(k->implementation, sizeof k->implementation, "cudnn engine %d, two outputs",
             (int)k->both.plan->engine);
    if (conv.type == HRF_S8)
        HRF_TRY(upload(k, &rounder, sizeof rounder, &on_device, err));
    k->rounder = on_device;
    return HRF_OK;
}

/* ---- plans of a whole graph ---- */

static bool has_plan(void *plans, const struct hrf_cudnn_conv *conv)
{
    struct hrf_planned_conv planned = { .plan = NULL };
    return hrf_plan_cache_get(plans, conv, &planned, NULL) == HRF_OK && planned.plan != NULL;
}

static struct hrf_conv_target target_of(const struct hrf_backend *backend)
{
    return (struct hrf_conv_target){ .memory_bytes = backend->device->memory_bytes,
                                     .allow_tf32 = backend->allow_tf32,
                                     .has_plan = has_plan,
                                     .context = backend->plans };
}

enum hrf_status hrf_cuda_prepare_convs(struct hrf_backend *backend, const struct hrf_graph *graph,
                                       const struct hrf_backend_ranks *ranks, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_cudnn_conv *convs = hrf_alloc_array((size_t)graph->n_nodes + 1,
                                                                 sizeof *convs);
    for (int in_strips = 0; in_strips < 2; in_strips++) {
        const struct hrf_conv_target target = target_of(backend);
        int32_t n = 0;
        HRF_TRY(hrf_cuda_graph_convs(&target, graph, in_strips != 0, convs, &n, err));
        const int32_t n_threads = backend->n_planning_threads;
        if (ranks != NULL)
            HRF_TRY(hrf_plan_cache_prepare_ranks(backend->plans, ranks, convs, n, n_threads, err));
        else
            HRF_TRY(hrf_plan_cache_prepare(backend->plans, convs, n, n_threads, err));
    }
    return HRF_OK;
}

/* GEMM's alpha goes into its weights. */
static void fold_alpha(struct hrf_spec *spec)
{
    struct hrf_operand *w = &spec->inputs[HRF_CONV_WEIGHTS];
    if (spec->op != HRF_OP_GEMM || w->dtype != HRF_F32 || spec->attributes.gemm.alpha == 1.0f)
        return;
    float *weights = w->constant;
    const int64_t n = hrf_shape_count(&w->shape);
    for (int64_t i = 0; i < n; i++)
        weights[i] *= spec->attributes.gemm.alpha;
}

static enum hrf_status conv_refresh(struct hrf_kernel *base, const struct hrf_graph *graph,
                                    const struct hrf_node *node, struct hrf_error *err)
{
    struct conv_kernel *k = (struct conv_kernel *)base;
    HRF_TRY(hrf_cuda_device_enter(k->backend->device, err));
    HRF_TRY(hrf_spec_refresh(k->spec, graph, node, err));
    fold_alpha(k->spec);
    HRF_TRY(upload_constants(k, err));
    return upload_prologue(k, graph, node, err);
}

enum hrf_status hrf_cuda_conv_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                      const struct hrf_node *node, struct hrf_kernel **out,
                                      struct hrf_error *err)
{
    const struct hrf_conv_target target = target_of(backend);
    struct hrf_cudnn_conv conv;
    if (hrf_cudnn_conv_describe(graph, node, backend->allow_tf32, &conv)
            ? hrf_cuda_runs_in_strips(&target, node, &conv)
            : hrf_node_has_prologue(node))
        return hrf_cuda_strips_compile(backend, graph, node, out, err);
    struct conv_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = conv_run,
                                   .destroy = conv_destroy,
                                   .can_fuse = can_fuse,
                                   .run_fused = run_fused,
                                   .refresh = conv_refresh,
                                   .implementation = "own" };
    k->backend = backend;
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    fold_alpha(k->spec);
    HRF_TRY(plan(k, graph, node, err));
    HRF_TRY(plan_second(k, graph, node, err));
    HRF_TRY(upload_constants(k, err));
    HRF_TRY(upload_prologue(k, graph, node, err));
    lay_out_workspace(k);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
