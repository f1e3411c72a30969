#include "engine/backend/cuda/cudnn_choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Types that cuDNN multiplies; zero points would have to stand in the pads too. */
static bool is_known_type(const struct hrf_value *value)
{
    switch (value->dtype) {
    case HRF_F32:
    case HRF_F16:
    case HRF_B16:
        return true;
    case HRF_S8:
        return value->quantization.zero_point == 0;
    default:
        return false;
    }
}

/* A matrix product with constant weights and a bias for each column: a convolution of one pixel,
 * whose rows are images. */
static bool is_pixel_product(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *w = hrf_node_value(graph, node, HRF_CONV_WEIGHTS);
    const struct hrf_value *bias = hrf_node_value(graph, node, HRF_CONV_BIAS);
    const int64_t columns = hrf_shape_last(&graph->values[node->outputs[0]].shape);
    if (node->attributes.gemm.transpose_a || w->data == NULL || w->shape.rank != 2)
        return false;
    return bias == NULL || (bias->data != NULL && hrf_shape_count(&bias->shape) == columns &&
                            hrf_shape_last(&bias->shape) == columns);
}

static void describe_product(const struct hrf_shape *x, const struct hrf_shape *y,
                             struct hrf_cudnn_conv *c)
{
    const int64_t depth = hrf_shape_last(x), columns = hrf_shape_last(y);
    const int64_t rows = hrf_shape_count(y) / columns;
    const int64_t dims[3][4] = { { rows, depth, 1, 1 },
                                 { columns, depth, 1, 1 },
                                 { rows, columns, 1, 1 } };
    memcpy(c->x, dims[0], sizeof c->x);
    memcpy(c->w, dims[1], sizeof c->w);
    memcpy(c->y, dims[2], sizeof c->y);
    c->window = (struct hrf_cudnn_window){ .stride = { 1, 1 }, .dilation = { 1, 1 } };
}

static void describe_shapes(const struct hrf_graph *graph, const struct hrf_node *node,
                            struct hrf_cudnn_conv *c)
{
    const struct hrf_shape *x = &hrf_node_value(graph, node, HRF_CONV_X)->shape;
    const struct hrf_shape *w = &hrf_node_value(graph, node, HRF_CONV_WEIGHTS)->shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const struct hrf_window *window = &node->attributes.window;
    if (x->rank != 4) {
        describe_product(x, y, c);
        return;
    }
    memcpy(c->x, x->dims, sizeof c->x);
    memcpy(c->y, y->dims, sizeof c->y);
    for (int i = 0; i < 4; i++)
        c->w[i] = i < w->rank ? w->dims[i] : 1;
    for (int i = 0; i < 2; i++) {
        c->window.stride[i] = window->stride[i];
        c->window.dilation[i] = window->dilation[i];
        c->window.pad_begin[i] = window->pad_begin[i];
        c->window.pad_end[i] = window->pad_end[i];
    }
}

static void describe_prologue(const struct hrf_node *node, struct hrf_cudnn_conv *c)
{
    const struct hrf_prologue *p = &node->attributes.prologue;
    c->has_prologue = hrf_node_has_prologue(node);
    if (!c->has_prologue)
        return;
    c->before.kind = p->activation;
    if (p->activation == HRF_ACT_CLIP) {
        c->before.low = (double)p->low;
        c->before.high = (double)p->high;
    }
    if (p->activation == HRF_ACT_LEAKY_RELU)
        c->before.slope = (double)p->slope;
}

static void describe_epilogue(const struct hrf_graph *graph, const struct hrf_node *node,
                              struct hrf_cudnn_conv *c)
{
    const struct hrf_attributes *t = &node->attributes;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_value *residual = hrf_node_value(graph, node, HRF_CONV_RESIDUAL);
    const float step = y->dtype == HRF_S8 ? y->quantization.scale : 1.0f;
    c->has_bias = hrf_node_value(graph, node, HRF_CONV_BIAS) != NULL;
    c->has_residual = residual != NULL;
    c->residual_type = residual != NULL ? residual->dtype : c->out_type;
    c->activation.kind = t->activation;
    if (t->activation == HRF_ACT_CLIP) {
        c->activation.low = (double)(t->activation_min / step);
        c->activation.high = (double)(t->activation_max / step);
    }
    if (t->activation == HRF_ACT_LEAKY_RELU)
        c->activation.slope = (double)t->alpha;
}

bool hrf_cudnn_conv_takes_prologue(const struct hrf_cudnn_conv *conv)
{
    return conv->type != HRF_F32 || conv->allow_tf32;
}

/* Windows of y over x, whose pads at the end do not count where windows do not reach them: cuDNN
 * wants those that give y's size, and knows equal ones on both sides best. */
static bool describe_window(const struct hrf_window *window, struct hrf_cudnn_conv *c)
{
    for (int i = 0; i < 2; i++) {
        struct hrf_cudnn_window *w = &c->window;
        const int64_t span = (c->y[2 + i] - 1) * window->stride[i] +
                             (c->w[2 + i] - 1) * window->dilation[i] + 1;
        const int64_t least = span - c->x[2 + i] - window->pad_begin[i];
        w->stride[i] = window->stride[i];
        w->dilation[i] = window->dilation[i];
        w->pad_begin[i] = w->pad_end[i] = window->pad_begin[i];
        if (w->pad_end[i] < least || w->pad_end[i] - least >= window->stride[i])
            w->pad_end[i] = least > 0 ? least : 0;
        if (w->pad_end[i] - least >= window->stride[i])
            return false;
    }
    return true;
}

/* A CONV_TRANSPOSE by plain weights is the gradient to x of a convolution. */
static bool describe_data_gradient(const struct hrf_graph *graph, const struct hrf_node *node,
                                   struct hrf_cudnn_conv *c)
{
    const struct hrf_value *dy = hrf_node_value(graph, node, HRF_CONV_X);
    const struct hrf_value *w = hrf_node_value(graph, node, HRF_CONV_WEIGHTS);
    const struct hrf_value *dx = &graph->values[node->outputs[0]];
    for (int32_t i = HRF_CONV_BIAS; i < node->n_inputs; i++)
        if (node->inputs[i] != HRF_NO_VALUE)
            return false;
    if (node->attributes.activation != HRF_ACT_NONE || w->dtype != HRF_F32)
        return false;
    c->gives = HRF_CUDNN_GIVES_X;
    c->type = dy->dtype;
    c->out_type = c->residual_type = dx->dtype;
    memcpy(c->x, dx->shape.dims, sizeof c->x);
    memcpy(c->w, w->shape.dims, sizeof c->w);
    memcpy(c->y, dy->shape.dims, sizeof c->y);
    return describe_window(&node->attributes.window, c);
}

static bool describe_weight_gradient(const struct hrf_graph *graph, const struct hrf_node *node,
                                     struct hrf_cudnn_conv *c)
{
    const struct hrf_value *x = hrf_node_value(graph, node, 0),
                           *dy = hrf_node_value(graph, node, 1);
    const struct hrf_value *dw = &graph->values[node->outputs[0]];
    if (x->dtype != dy->dtype)
        return false;
    c->gives = HRF_CUDNN_GIVES_W;
    c->type = x->dtype;
    c->out_type = c->residual_type = dw->dtype;
    memcpy(c->x, x->shape.dims, sizeof c->x);
    memcpy(c->w, dw->shape.dims, sizeof c->w);
    memcpy(c->y, dy->shape.dims, sizeof c->y);
    return describe_window(&node->attributes.window, c);
}

/* Of floats that are computed; a result of more bits than its terms is float32. */
static bool describe_gradient(const struct hrf_graph *graph, const struct hrf_node *node,
                              bool allow_tf32, struct hrf_cudnn_conv *out)
{
    *out = (struct hrf_cudnn_conv){ .gives = HRF_CUDNN_GIVES_Y };
    for (int32_t i = 0; i < 2; i++) {
        const struct hrf_value *value = hrf_node_value(graph, node, i);
        const bool is_weights = node->op == HRF_OP_CONV_TRANSPOSE && i == HRF_CONV_WEIGHTS;
        if (!hrf_dtype_is_float(value->dtype) || (value->data != NULL) != is_weights ||
            hrf_shape_count(&value->shape) < 1)
            return false;
    }
    if (hrf_shape_count(&graph->values[node->outputs[0]].shape) < 1 ||
        !hrf_dtype_is_float(graph->values[node->outputs[0]].dtype))
        return false;
    const bool is_one = node->op == HRF_OP_CONV_TRANSPOSE
                            ? describe_data_gradient(graph, node, out)
                            : describe_weight_gradient(graph, node, out);
    out->allow_tf32 = allow_tf32 && out->type == HRF_F32;
    return is_one && (out->out_type == out->type || out->out_type == HRF_F32);
}

bool hrf_cudnn_conv_describe(const struct hrf_graph *graph, const struct hrf_node *node,
                             bool allow_tf32, struct hrf_cudnn_conv *out)
{
    if (node->op == HRF_OP_CONV_TRANSPOSE || node->op == HRF_OP_CONV_WEIGHT_GRADIENT)
        return describe_gradient(graph, node, allow_tf32, out);
    if (node->op != HRF_OP_CONV && node->op != HRF_OP_GEMM && node->op != HRF_OP_TOKEN_PRODUCT)
        return false;
    const struct hrf_value *x = hrf_node_value(graph, node, HRF_CONV_X);
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_value *residual = hrf_node_value(graph, node, HRF_CONV_RESIDUAL);
    if (!is_known_type(x) || !is_known_type(y) || (residual != NULL && !is_known_type(residual)))
        return false;
    if (x->data != NULL || (residual != NULL && residual->data != NULL))
        return false;
    if (node->op == HRF_OP_GEMM && !is_pixel_product(graph, node))
        return false;
    if (hrf_shape_count(&x->shape) < 1 || hrf_shape_count(&y->shape) < 1)
        return false;
    *out = (struct hrf_cudnn_conv){ .type = x->dtype, .out_type = y->dtype };
    out->has_row_scales = node->op == HRF_OP_TOKEN_PRODUCT;
    if (out->has_row_scales)
        out->type = HRF_S8;
    out->allow_tf32 = allow_tf32 && out->type == HRF_F32;
    describe_shapes(graph, node, out);
    describe_prologue(node, out);
    describe_epilogue(graph, node, out);
    return true;
}

static bool describe_after(const struct hrf_value *y, const struct hrf_node *norm,
                           struct hrf_cudnn_activation *out)
{
    const struct hrf_attributes *t = &norm->attributes;
    const float step = y->dtype == HRF_S8 ? y->quantization.scale : 1.0f;
    *out = (struct hrf_cudnn_activation){ .kind = t->activation };
    switch (t->activation) {
    case HRF_ACT_NONE:
    case HRF_ACT_RELU:
        return true;
    case HRF_ACT_CLIP:
        out->low = (double)(t->activation_min / step);
        out->high = (double)(t->activation_max / step);
        return true;
    case HRF_ACT_LEAKY_RELU:
        out->slope = (double)t->alpha;
        return true;
    default:
        return false;
    }
}

bool hrf_cudnn_conv_describe_both(const struct hrf_graph *graph, const struct hrf_node *node,
                                  const struct hrf_node *norm, bool allow_tf32,
                                  struct hrf_cudnn_conv *out)
{
    const struct hrf_value *second = &graph->values[norm->outputs[0]];
    if (node->op != HRF_OP_CONV || !hrf_cudnn_conv_describe(graph, node, allow_tf32, out))
        return false;
    out->has_second = true;
    return !out->has_row_scales && out->w[1] == out->x[1] && out->out_type == out->type &&
           second->dtype == out->type && is_known_type(second) &&
           describe_after(second, norm, &out->after);
}

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* 2 GB of an H200's: at 8192 x 8192 in fp32 one engine asks for 8.6 GB where the next does with
 * none. */
int64_t hrf_cudnn_most_workspace(int64_t memory_bytes)
{
    enum { SHARE_OF_MEMORY = 64 };
    return memory_bytes / SHARE_OF_MEMORY;
}

void hrf_cudnn_conv_widen(struct hrf_cudnn_conv *conv, int64_t in_channels, int64_t out_channels)
{
    if (conv->w[1] == conv->x[1])
        conv->w[1] = in_channels;
    conv->x[1] = in_channels;
    conv->w[0] = conv->y[1] = out_channels;
}

/* Asking takes 3 to 20 ms of a core, in 8 bits up to a second: a further list is asked for where
 * the lists before it name one engine at most. */
static enum hrf_status try_engines(const struct hrf_cudnn_conv *conv, cudnnHandle_t handle,
                                   const struct hrf_cudnn_device *device, int64_t most_workspace,
                                   struct hrf_cudnn_graph *graph, struct hrf_cudnn_engines *engines,
                                   struct hrf_error *err)
{
    HRF_TRY(hrf_cudnn_conv_build(conv, handle, graph, err));
    for (int mode = 0; mode < HRF_CUDNN_N_MODES && !hrf_cudnn_engines_differ(engines); mode++) {
        HRF_TRY(hrf_cudnn_engines_add(graph, device, (enum hrf_cudnn_mode)mode, engines, err));
        hrf_cudnn_conv_filter(conv, most_workspace, engines);
    }
    return HRF_OK;
}

enum hrf_status hrf_cudnn_conv_choose(struct hrf_cudnn_conv *conv, cudnnHandle_t handle,
                                      const struct hrf_cudnn_device *device, int64_t most_workspace,
                                      struct hrf_cudnn_graph *graph,
                                      struct hrf_cudnn_engines *engines, struct hrf_error *err)
{
    static const int64_t steps[][2] = { { 1, 1 }, { 4, 1 }, { 4, 4 }, { 16, 16 } };
    const struct hrf_cudnn_conv asked = *conv;
    /* Not in groups; a gradient's tensors stay as they are. */
    const bool is_whole = asked.w[1] == asked.x[1] && asked.gives == HRF_CUDNN_GIVES_Y;
    *graph = (struct hrf_cudnn_graph){ .graph = NULL };
    *engines = (struct hrf_cudnn_engines){ .n_items = 0 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && (i == 0 || is_whole); i++) {
        struct hrf_cudnn_conv wide = asked;
        hrf_cudnn_conv_widen(&wide, round_up(asked.x[1], steps[i][0]),
                             round_up(asked.y[1], steps[i][1]));
        if (i > 0 && wide.x[1] == conv->x[1] && wide.y[1] == conv->y[1])
            continue;
        hrf_cudnn_graph_release(graph);
        *conv = wide;
        HRF_TRY(try_engines(conv, handle, device, most_workspace, graph, engines, err));
        if (engines->n_items > 0)
            return HRF_OK;
    }
    *conv = asked;
    return HRF_OK;
}

struct hrf_cudnn_conv hrf_cudnn_conv_kind(const struct hrf_cudnn_conv *conv)
{
    struct hrf_cudnn_conv kind = *conv;
    kind.x[0] = kind.x[2] = kind.x[3] = 0;
    kind.y[0] = kind.y[2] = kind.y[3] = 0;
    kind.has_second = false; /* its first output is to have the bytes of the convolution's alone */
    kind.after = (struct hrf_cudnn_activation){ .kind = HRF_ACT_NONE };
    for (int i = 0; i < 2; i++)
        kind.window.pad_begin[i] = kind.window.pad_end[i] = 0;
    return kind;
}

static int activation_text(const char *name, const struct hrf_cudnn_activation *a, char *text,
                           size_t size)
{
    return snprintf(text, size, " %s %d %.9g %.9g %.9g", name, (int)a->kind, a->low, a->high,
                    a->slope);
}

void hrf_cudnn_conv_text(const struct hrf_cudnn_conv *c, char *text, size_t size)
{
    static const char *const results[] = { [HRF_CUDNN_GIVES_Y] = "",
                                           [HRF_CUDNN_GIVES_X] = " gradient to x",
                                           [HRF_CUDNN_GIVES_W] = " gradient to w" };
    const struct hrf_cudnn_window *w = &c->window;
    int n = snprintf(text, size,
                     "%s%s x %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " w %" PRId64 " %" PRId64
                     " %" PRId64 " %" PRId64 " y %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                     " stride %" PRId64 " %" PRId64 " dilation %" PRId64 " %" PRId64
                     " pads %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "%s%s%s%s%s",
                     hrf_dtype_name(c->type), c->allow_tf32 ? " tf32" : "", c->x[0], c->x[1],
                     c->x[2], c->x[3], c->w[0], c->w[1], c->w[2], c->w[3],
                     hrf_dtype_name(c->out_type), c->y[0], c->y[1], c->y[2], c->y[3], w->stride[0],
                     w->stride[1], w->dilation[0], w->dilation[1], w->pad_begin[0], w->pad_begin[1],
                     w->pad_end[0], w->pad_end[1], results[c->gives],
                     c->has_row_scales ? " rows" : "", c->has_bias ? " bias" : "",
                     c->has_residual ? " residual " : "",
                     c->has_residual ? hrf_dtype_name(c->residual_type) : "");
    n += activation_text("act", &c->activation, text + n, size - (size_t)n);
    if (c->has_prologue)
        n += activation_text("after", &c->before, text + n, size - (size_t)n);
    if (c->has_second)
        (void)activation_text("second", &c->after, text + n, size - (size_t)n);
}
