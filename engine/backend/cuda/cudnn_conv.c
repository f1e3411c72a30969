#include "engine/backend/cuda/cudnn_conv.h"

typedef cudnnBackendDescriptor_t tensor;

static tensor binary(struct hrf_cudnn_graph *g, cudnnPointwiseMode_t mode, tensor x, tensor b,
                     enum hrf_dtype type, int64_t id, const int64_t dims[4])
{
    const struct hrf_cudnn_pointwise p = { .mode = mode };
    tensor y = hrf_cudnn_tensor(g, id, type, dims);
    hrf_cudnn_apply(g, &p, x, b, y);
    return y;
}

static tensor clip(struct hrf_cudnn_graph *g, const struct hrf_cudnn_pointwise *p, tensor x,
                   enum hrf_dtype type, int64_t id, const int64_t dims[4])
{
    tensor y = hrf_cudnn_tensor(g, id, type, dims);
    hrf_cudnn_apply(g, p, x, NULL, y);
    return y;
}

static struct hrf_cudnn_pointwise activation_of(const struct hrf_cudnn_activation *activation)
{
    struct hrf_cudnn_pointwise p = { .mode = CUDNN_POINTWISE_RELU_FWD };
    switch (activation->kind) {
    case HRF_ACT_CLIP:
        p.lower = activation->low;
        p.upper = activation->high;
        return p;
    case HRF_ACT_LEAKY_RELU:
        p.slope = activation->slope;
        return p;
    case HRF_ACT_GELU:
        p.mode = CUDNN_POINTWISE_GELU_FWD;
        return p;
    case HRF_ACT_GELU_TANH:
        p.mode = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
        return p;
    case HRF_ACT_SWISH:
        p.mode = CUDNN_POINTWISE_SWISH_FWD;
        return p;
    default:
        return p;
    }
}

/* In float up to its end, whatever x is: its factors would lose by 16 bits. */
static tensor add_prologue(struct hrf_cudnn_graph *g, const struct hrf_cudnn_conv *conv, tensor x)
{
    const int64_t per_channel[4] = { 1, conv->x[1], 1, 1 };
    const bool acts = conv->before.kind != HRF_ACT_NONE;
    const struct hrf_cudnn_pointwise p = activation_of(&conv->before);
    tensor scale = hrf_cudnn_tensor(g, HRF_CUDNN_PRE_SCALE, HRF_F32, per_channel);
    tensor shift = hrf_cudnn_tensor(g, HRF_CUDNN_PRE_SHIFT, HRF_F32, per_channel);
    x = binary(g, CUDNN_POINTWISE_MUL, x, scale, HRF_F32, 0, conv->x);
    x = binary(g, CUDNN_POINTWISE_ADD, x, shift, acts ? HRF_F32 : conv->type, 0, conv->x);
    return acts ? clip(g, &p, x, conv->type, 0, conv->x) : x;
}

/* y in whole numbers from -128 to 127, still floats. */
static tensor round_steps(struct hrf_cudnn_graph *g, const struct hrf_cudnn_conv *conv, tensor y)
{
    static const int64_t one[4] = { 1, 1, 1, 1 };
    const struct hrf_cudnn_pointwise range = { .mode = CUDNN_POINTWISE_RELU_FWD,
                                               .lower = -128,
                                               .upper = 127 };
    const struct hrf_cudnn_pointwise store = { .mode = CUDNN_POINTWISE_IDENTITY };
    tensor rounder = hrf_cudnn_tensor(g, HRF_CUDNN_ROUNDER, HRF_F32, one);
    y = clip(g, &range, y, HRF_F32, 0, conv->y);
    y = binary(g, CUDNN_POINTWISE_ADD, y, rounder, HRF_F32, 0, conv->y);
    y = binary(g, CUDNN_POINTWISE_SUB, y, rounder, HRF_F32, 0, conv->y);
    (void)clip(g, &store, y, HRF_S8, HRF_CUDNN_Y, conv->y);
    return y;
}

static void add_second(struct hrf_cudnn_graph *g, const struct hrf_cudnn_conv *conv, tensor y)
{
    const int64_t per_filter[4] = { 1, conv->y[1], 1, 1 };
    const bool acts = conv->after.kind != HRF_ACT_NONE;
    const struct hrf_cudnn_pointwise p = activation_of(&conv->after);
    if (conv->type == HRF_S8)
        y = round_steps(g, conv, y);
    tensor scale = hrf_cudnn_tensor(g, HRF_CUDNN_POST_SCALE, HRF_F32, per_filter);
    tensor shift = hrf_cudnn_tensor(g, HRF_CUDNN_POST_SHIFT, HRF_F32, per_filter);
    y = binary(g, CUDNN_POINTWISE_MUL, y, scale, HRF_F32, 0, conv->y);
    y = binary(g, CUDNN_POINTWISE_ADD, y, shift, acts ? HRF_F32 : conv->out_type,
               acts ? 0 : HRF_CUDNN_SECOND, conv->y);
    if (acts)
        (void)clip(g, &p, y, conv->out_type, HRF_CUDNN_SECOND, conv->y);
}

/* How many operations follow the convolution: the last one's output is y itself. */
struct tail {
    int32_t left;
    enum hrf_dtype out_type;
};

static int64_t id_of_next(struct tail *tail)
{
    return --tail->left == 0 ? HRF_CUDNN_Y : 0;
}

static enum hrf_dtype type_of_next(const struct tail *tail)
{
    return tail->left == 1 ? tail->out_type : HRF_F32;
}

static tensor step(struct hrf_cudnn_graph *g, const struct hrf_cudnn_conv *conv, struct tail *tail,
                   cudnnPointwiseMode_t mode, tensor x, tensor b)
{
    const enum hrf_dtype type = type_of_next(tail);
    return binary(g, mode, x, b, type, id_of_next(tail), conv->y);
}

static tensor add_residual(struct hrf_cudnn_graph *g, const struct hrf_cudnn_conv *conv,
                           struct tail *tail, tensor y)
{
    static const int64_t one[4] = { 1, 1, 1, 1 };
    tensor residual = hrf_cudnn_tensor(g, HRF_CUDNN_RESIDUAL, conv->residual_type, conv->y);
    if (conv->type == HRF_S8 && !conv->has_row_scales) {
        tensor scale = hrf_cudnn_tensor(g, HRF_CUDNN_RESIDUAL_SCALE, HRF_F32, one);
        residual = binary(g, CUDNN_POINTWISE_MUL, residual, scale, HRF_F32, 0, conv->y);
    }
    return step(g, conv, tail, CUDNN_POINTWISE_ADD, y, residual);
}

/* Engines that give float32 of 16 bits have an operation behind the sum (cuDNN 9.19). */
static enum hrf_status build_gradient(const struct hrf_cudnn_conv *conv, cudnnHandle_t handle,
                                      struct hrf_cudnn_graph *g, struct hrf_error *err)
{
    const struct hrf_cudnn_pointwise store = { .mode = CUDNN_POINTWISE_IDENTITY };
    const bool to_x = conv->gives == HRF_CUDNN_GIVES_X, converts = conv->out_type != conv->type;
    const int64_t id = to_x ? HRF_CUDNN_X : HRF_CUDNN_W, *dims = hrf_cudnn_conv_result(conv);
    tensor result = hrf_cudnn_tensor(g, converts ? 0 : id, converts ? HRF_F32 : conv->out_type,
                                     dims);
    tensor other = hrf_cudnn_tensor(g, to_x ? HRF_CUDNN_W : HRF_CUDNN_X, conv->type,
                                    to_x ? conv->w : conv->x);
    tensor dy = hrf_cudnn_tensor(g, HRF_CUDNN_Y, conv->type, conv->y);
    hrf_cudnn_convolution_gradient(g, &conv->window, HRF_F32, conv->gives, to_x ? result : other,
                                   to_x ? other : result, dy);
    if (converts)
        (void)clip(g, &store, result, conv->out_type, id, dims);
    return hrf_cudnn_graph_finish(g, handle, err);
}

enum hrf_status hrf_cudnn_conv_build(const struct hrf_cudnn_conv *conv, cudnnHandle_t handle,
                                     struct hrf_cudnn_graph *out, struct hrf_error *err)
{
    const int64_t per_filter[4] = { 1, conv->w[0], 1, 1 };
    const int64_t per_pixel[4] = { conv->y[0], 1, conv->y[2], conv->y[3] };
    const bool is_int8 = conv->type == HRF_S8, acts = conv->activation.kind != HRF_ACT_NONE;
    /* Of INT8 with a second output y is stored by one more operation (round_steps). */
    struct tail tail = { .left = is_int8 + conv->has_row_scales + conv->has_bias +
                                 conv->has_residual + acts + (is_int8 && conv->has_second),
                         .out_type = conv->out_type };
    *out = (struct hrf_cudnn_graph){ .graph = NULL };
    if (conv->gives != HRF_CUDNN_GIVES_Y)
        return build_gradient(conv, handle, out, err);
    tensor x = hrf_cudnn_tensor(out, HRF_CUDNN_X, conv->type, conv->x);
    tensor w = hrf_cudnn_tensor(out, HRF_CUDNN_W, conv->type, conv->w);
    if (conv->has_prologue)
        x = add_prologue(out, conv, x);
    const enum hrf_dtype sum = is_int8 ? HRF_S32 : HRF_F32;
    tensor y = hrf_cudnn_tensor(out, tail.left == 0 ? HRF_CUDNN_Y : 0,
                                tail.left == 0 ? conv->out_type : sum, conv->y);
    hrf_cudnn_convolution(out, &conv->window, sum, x, w, y);
    if (is_int8)
        y = step(out, conv, &tail, CUDNN_POINTWISE_MUL, y,
                 hrf_cudnn_tensor(out, HRF_CUDNN_SCALE, HRF_F32, per_filter));
    if (conv->has_row_scales)
        y = step(out, conv, &tail, CUDNN_POINTWISE_MUL, y,
                 hrf_cudnn_tensor(out, HRF_CUDNN_ROW_SCALE, HRF_F32, per_pixel));
    if (conv->has_bias)
        y = step(out, conv, &tail, CUDNN_POINTWISE_ADD, y,
                 hrf_cudnn_tensor(out, HRF_CUDNN_BIAS, HRF_F32, per_filter));
    if (conv->has_residual)
        y = add_residual(out, conv, &tail, y);
    if (acts) {
        const struct hrf_cudnn_pointwise p = activation_of(&conv->activation);
        const enum hrf_dtype type = type_of_next(&tail);
        y = clip(out, &p, y, type, id_of_next(&tail), conv->y);
    }
    if (conv->has_second)
        add_second(out, conv, y);
    return hrf_cudnn_graph_finish(out, handle, err);
}

static bool is_fit(const struct hrf_cudnn_conv *conv, const struct hrf_cudnn_engine *e)
{
    const bool full_float = conv->type == HRF_F32 && !conv->allow_tf32;
    return e->deterministic && !e->reduced_precision && !e->winograd_or_fft &&
           !(full_float && e->tensor_core);
}

void hrf_cudnn_conv_filter(const struct hrf_cudnn_conv *conv, int64_t most_workspace,
                           struct hrf_cudnn_engines *engines)
{
    bool has_modest = false;
    int32_t kept = 0;
    for (int32_t i = 0; i < engines->n_items; i++)
        has_modest |= is_fit(conv, &engines->items[i]) &&
                      engines->items[i].workspace_bytes <= most_workspace;
    for (int32_t i = 0; i < engines->n_items; i++) {
        const struct hrf_cudnn_engine *e = &engines->items[i];
        if (is_fit(conv, e) && (!has_modest || e->workspace_bytes <= most_workspace))
            engines->items[kept++] = *e;
        else
            cudnnBackendDestroyDescriptor(e->config);
    }
    engines->n_items = kept;
}
