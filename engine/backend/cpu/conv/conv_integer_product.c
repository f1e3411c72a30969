/* conv_integer_product.c - 8-bit convolutions and fully connected layers as integer matrix
 * products, for processors without VNNI (integer_product.h).
 *
 * A row of the product is an output pixel: the inputs under its window, in the order of window
 * rows, window columns and channels. Padding, and positions of a transposed convolution that meet
 * no input pixel, are zeros. Groups with few outputs are multiplied together, as many as fill a
 * panel, with zero weights between different groups.
 */
#include "engine/backend/cpu/conv/own_conv.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/plain/integer_product.h"

#include <string.h>

struct integer_product {
    struct hrf_own_conv own; /* weights: packed; bias: [groups][columns up to whole panels] */
    struct hrf_integer_product product;
    int64_t group_channels; /* of a group of the product */
    bool is_transposed;
    bool joins_columns; /* a row of the window is contiguous */
    int32_t x_zero_point, y_zero_point;
    enum hrf_dtype residual_type;
    struct hrf_requantize *requantize;
    float *multiplier; /* as bias */
};

struct context {
    const struct integer_product *kernel;
    const struct hrf_kernel_call *call;
};

static int64_t padded_columns(const struct integer_product *k)
{
    return hrf_ceil_div(k->product.n_columns, HRF_INTEGER_PANEL) * HRF_INTEGER_PANEL;
}

/* ---- running ---- */

/* The input row (axis 0) or column (axis 1) under tap `tap` of an output's window; -1 if there is
 * none. */
static int64_t input_position(const struct integer_product *k, int axis, int64_t output,
                              int64_t tap)
{
    const struct hrf_window *w = &k->own.shape.window;
    int64_t at = hrf_window_first(w, axis, output) + tap * w->dilation[axis];
    if (k->is_transposed) {
        at = output + w->pad_begin[axis] - tap * w->dilation[axis];
        if (at < 0 || at % w->stride[axis] != 0)
            return -1;
        at /= w->stride[axis];
    }
    return at >= 0 && at < (axis == 0 ? k->own.shape.rows : k->own.shape.columns) ? at : -1;
}

static void conv_integer_product_widen(const struct integer_product *k, const uint8_t *x, int64_t n,
                                       int16_t *to)
{
    HRF_INTEGER_LOOPS(hrf_integer_widen)(k->own.shape.x_type, k->x_zero_point, x, n, to);
}

/* Loads one row of a window; `x`: the group's first channel in the first pixel of the row, `reach`:
 * the columns under the window. */
static void load_window_row(const struct integer_product *k, const uint8_t *x, int64_t column,
                            struct hrf_conv_reach reach, int16_t *to)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n = k->group_channels, n_taps = s->window.kernel[1];
    if (k->joins_columns) {
        for (int64_t i = 0; i < reach.begin * n; i++)
            to[i] = 0;
        if (reach.end > reach.begin)
            conv_integer_product_widen(k, x + (reach.first + reach.begin) * n,
                                       (reach.end - reach.begin) * n, to + reach.begin * n);
        for (int64_t i = reach.end * n; i < n_taps * n; i++)
            to[i] = 0;
        return;
    }
    for (int64_t t = 0; t < n_taps; t++, to += n) {
        const int64_t at = input_position(k, 1, column, t);
        if (at >= 0)
            conv_integer_product_widen(k, x + at * s->channels, n, to);
        else
            memset(to, 0, (size_t)n * sizeof *to);
    }
}

static void conv_integer_product_load(const void *context, const struct hrf_integer_rows *rows)
{
    const struct context *c = context;
    const struct integer_product *k = c->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n = s->window.kernel[1] * k->group_channels; /* inputs of a window's row */
    /* Counted up: divisions for each pixel take as long as loading a small window. */
    const int64_t line = rows->first / s->out_columns;
    int64_t column = rows->first % s->out_columns, row = line % s->out_rows;
    int64_t image = line / s->out_rows;
    for (int64_t r = 0; r < rows->n; r++) {
        const uint8_t *x = (const uint8_t *)c->call->inputs[HRF_CONV_X] +
                           image * s->rows * s->columns * s->channels +
                           rows->group * k->group_channels;
        const struct hrf_conv_reach reach = hrf_conv_reach_of(s, 1, column, 1);
        int16_t *to = rows->numbers + r * rows->stride;
        for (int64_t t = 0; t < s->window.kernel[0]; t++, to += n) {
            const int64_t at = input_position(k, 0, row, t);
            if (at >= 0)
                load_window_row(k, x + at * s->columns * s->channels, column, reach, to);
            else
                memset(to, 0, (size_t)n * sizeof *to);
        }
        column = column + 1 < s->out_columns ? column + 1 : 0;
        row += column == 0;
        if (row == s->out_rows) {
            row = 0;
            image++;
        }
    }
}

static void finish(const void *context, const struct hrf_integer_rows *rows, int64_t column,
                   int64_t n, const int32_t *sums)
{
    const struct context *c = context;
    const struct integer_product *k = c->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t at = rows->group * padded_columns(k) + column;
    const int64_t first = rows->first * s->out_channels + rows->group * k->product.n_columns +
                          column;
    const uint8_t *residual = c->call->inputs[HRF_CONV_RESIDUAL];
    const struct hrf_integer_finish f = {
        .requantize = k->requantize,
        .type = s->y_type,
        .residual_type = k->residual_type,
        .zero_point = k->y_zero_point,
        .bias = k->own.bias + at,
        .multiplier = k->multiplier + at,
        .residual = s->has_residual ? residual + first : NULL,
        .y = (char *)c->call->output + first * (int64_t)hrf_dtype_size(s->y_type),
        .stride = s->out_channels,
        .n_rows = rows->n,
        .n_columns = n,
    };
    HRF_INTEGER_LOOPS(hrf_integer_finish)(&f, sums);
}

static void conv_integer_product_run(const struct hrf_own_conv *own,
                                     const struct hrf_kernel_call *call)
{
    const struct context context = { (const struct integer_product *)own, call };
    hrf_integer_product_run(&context.kernel->product, &context, call->workspace);
}

static void conv_integer_product_release(struct hrf_own_conv *own)
{
    struct integer_product *k = (struct integer_product *)own;
    hrf_requantize_destroy(k->requantize);
    hrf_free(k->multiplier);
}

/* ---- compiling ---- */

/* Writes the weights of one output channel in the order of a row, with zeros for other groups. */
static void order_weights(const struct integer_product *k, const int8_t *w, int64_t n_own,
                          int64_t first_own, int8_t *to)
{
    const int64_t area = k->own.shape.window.kernel[0] * k->own.shape.window.kernel[1];
    memset(to, 0, (size_t)k->product.depth);
    for (int64_t t = 0; t < area; t++)
        for (int64_t c = 0; c < n_own; c++)
            to[t * k->group_channels + first_own + c] = w[c * area + t];
}

static enum hrf_status pack_weights(struct integer_product *k, const struct hrf_operand *weights,
                                    const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_own = s->channels / s->n_groups, n_out = s->out_channels / s->n_groups;
    const int64_t of_channel = n_own * s->window.kernel[0] * s->window.kernel[1];
    const int64_t n_lanes = k->product.n_groups * padded_columns(k);
    HRF_AUTO_FREE int8_t *ordered = hrf_try_calloc((size_t)k->product.depth, 1);
    HRF_CHECK_MEMORY(ordered != NULL, err, "no memory for the weights of node '%s'", node->name);
    for (int64_t m = 0; m < s->out_channels; m++) {
        const int64_t group = m / k->product.n_columns, column = m % k->product.n_columns;
        const int64_t at = group * padded_columns(k) + column;
        order_weights(k, (const int8_t *)weights->constant + m * of_channel, n_own,
                      column / n_out * n_own, ordered);
        hrf_integer_pack_column(&k->product, group, column, ordered, k->own.weights);
        k->own.bias[at] = k->requantize->bias[m];
        k->multiplier[at] = k->requantize->multiplier[m];
    }
    k->own.base.weight_bytes += (size_t)n_lanes * sizeof *k->multiplier;
    return HRF_OK;
}

/* The number of groups that are multiplied together. */
static int64_t count_joined(const struct hrf_conv_shape *s)
{
    int64_t n = hrf_clamp(HRF_INTEGER_PANEL / (s->out_channels / s->n_groups), 1, s->n_groups);
    while (s->n_groups % n != 0)
        n--;
    return n;
}

static enum hrf_status conv_integer_product_prepare(struct hrf_own_conv *own,
                                                    const struct hrf_graph *graph,
                                                    const struct hrf_node *node,
                                                    struct hrf_error *err)
{
    struct integer_product *k = (struct integer_product *)own;
    const struct hrf_conv_shape *s = &own->shape;
    const int64_t n_joined = count_joined(s), area = s->window.kernel[0] * s->window.kernel[1];
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    own->epilogue.accumulate = false; /* the residual is added as it is read */
    k->requantize = hrf_requantize_create(spec);
    k->x_zero_point = spec->inputs[HRF_CONV_X].quantization.zero_point;
    k->y_zero_point = spec->output.quantization.zero_point;
    if (s->has_residual)
        k->residual_type = spec->inputs[HRF_CONV_RESIDUAL].dtype;
    k->is_transposed = node->op == HRF_OP_CONV_TRANSPOSE;
    k->group_channels = s->channels / s->n_groups * n_joined;
    k->product.n_rows = s->n_images * s->out_rows * s->out_columns;
    k->product.depth = area * k->group_channels;
    k->product.n_groups = s->n_groups / n_joined;
    k->product.n_columns = s->out_channels / k->product.n_groups;
    k->product.load = conv_integer_product_load;
    k->product.finish = finish;
    k->joins_columns = !k->is_transposed && k->product.n_groups == 1 && s->window.dilation[1] == 1;
    const int64_t n_lanes = k->product.n_groups * padded_columns(k);
    const size_t n_bytes = hrf_integer_packed_bytes(&k->product);
    HRF_TRY(hrf_own_conv_make_weights(own, graph, node, n_bytes, n_lanes, err));
    memset(own->weights, 0, n_bytes);
    k->product.packed = own->weights;
    k->multiplier = hrf_calloc((size_t)n_lanes, sizeof *k->multiplier);
    HRF_TRY(pack_weights(k, &spec->inputs[HRF_CONV_WEIGHTS], node, err));
    own->base.workspace_bytes = hrf_integer_product_plan(&k->product, own->n_threads);
    return HRF_OK;
}

static bool is_byte(const struct hrf_graph *graph, int32_t value)
{
    return hrf_dtype_is_byte(graph->values[value].dtype);
}

static const char *conv_integer_product_misfit(const struct hrf_graph *graph,
                                               const struct hrf_node *node)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!hrf_cpu_comes_at_run_time(graph, node) || w->data == NULL || w->dtype != HRF_S8)
        return "its image or residual is a constant, or its weights are no constant bytes";
    if (!is_byte(graph, node->inputs[HRF_CONV_X]) ||
        (hrf_node_has_input(node, HRF_CONV_RESIDUAL) &&
         !is_byte(graph, node->inputs[HRF_CONV_RESIDUAL])))
        return "its image or residual is not of 8 bits";
    if (y->dtype != HRF_F32 && !is_byte(graph, node->outputs[0]))
        return "its output is neither of 8 bits nor of float32";
    return hrf_shape_count(&y->shape) > 0 ? NULL : "its output is empty";
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct integer_product),
    .compute = conv_integer_product_run,
    .prepare = conv_integer_product_prepare,
    .release = conv_integer_product_release,
};
const struct hrf_kernel_row hrf_cpu_integer_product = {
    .name = "int8 product" HRF_INTEGER_LOOPS_NAME,
    HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_CONV_TRANSPOSE, HRF_OP_GEMM),
    .forms = HRF_FORM_INTEGER,
    .misfit = conv_integer_product_misfit,
    .compile = hrf_own_conv_compile,
    .own = &type,
};
