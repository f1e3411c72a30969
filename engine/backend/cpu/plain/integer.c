/* integer.c - 8-bit operators in plain integer arithmetic; faster kernels give the same bytes.
 *
 * Functions of one 8-bit value are tables of 256 results. Sums are exact 32-bit integers, so
 * results do not depend on their order or on how the work is divided. A float step is written once
 * for every operator: real = (q - zero point) * scale; results are rounded half to even and
 * saturated.
 */
#include "engine/backend/cpu/avx512/bytes_avx512.h"
#include "engine/backend/cpu/instructions.h"
#include "engine/backend/cpu/plain/integer_private.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"

#include <math.h>
#include <string.h>

static inline void write8(const struct hrf_operand *y, void *out, int64_t i, float steps)
{
    ((uint8_t *)out)[i] = hrf_narrow(hrf_target_of(y), steps);
}

/* ---- convolution and matrix product ---- */

struct conv_view {
    int64_t n, rows, columns, channels, out_rows, out_columns, out_channels, per_group;
    const struct hrf_window *window; /* NULL: a matrix product */
    int64_t kernel[2];
};

static struct conv_view view_of(const struct hrf_spec *spec)
{
    const struct hrf_shape *x = &spec->inputs[HRF_CONV_X].shape, *y = &spec->output.shape;
    const struct hrf_shape *w = &spec->inputs[HRF_CONV_WEIGHTS].shape;
    if (spec->op == HRF_OP_GEMM)
        return (struct conv_view){ .n = hrf_shape_count(x) / hrf_shape_last(x),
                                   .rows = 1,
                                   .columns = 1,
                                   .channels = hrf_shape_last(x),
                                   .out_rows = 1,
                                   .out_columns = 1,
                                   .out_channels = hrf_shape_last(y),
                                   .per_group = hrf_shape_last(x),
                                   .kernel = { 1, 1 } };
    return (struct conv_view){ x->dims[0],
                               x->dims[2],
                               x->dims[3],
                               x->dims[1],
                               y->dims[2],
                               y->dims[3],
                               y->dims[1],
                               w->dims[1],
                               &spec->attributes.window,
                               { w->dims[2], w->dims[3] } };
}

/* The input row or column under tap k of the window of output `at`; -1: none. */
static int64_t seen_at(const struct hrf_spec *spec, int axis, int64_t at, int64_t k, int64_t size)
{
    const struct hrf_window *w = &spec->attributes.window;
    int64_t i = at * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis];
    if (spec->op == HRF_OP_CONV_TRANSPOSE) {
        i = at + w->pad_begin[axis] - k * w->dilation[axis];
        if (i < 0 || i % w->stride[axis] != 0)
            return -1;
        i /= w->stride[axis];
    }
    return i < size ? i : -1;
}

static int32_t sum_at(const struct hrf_spec *spec, const struct conv_view *v, const void *x,
                      const int8_t *w, int64_t n, int64_t m, int64_t oy, int64_t ox)
{
    const struct hrf_operand *in = &spec->inputs[HRF_CONV_X];
    const int64_t group = v->window != NULL ? spec->attributes.group : 1;
    const int64_t first = m / (v->out_channels / group) * v->per_group;
    const int64_t area = v->kernel[0] * v->kernel[1];
    int32_t sum = 0;
    for (int64_t i = 0; i < area; i++) {
        int64_t y = 0, u = 0;
        if (v->window != NULL) {
            y = seen_at(spec, 0, oy, i / v->kernel[1], v->rows);
            u = seen_at(spec, 1, ox, i % v->kernel[1], v->columns);
        }
        if (y < 0 || u < 0)
            continue;
        const int64_t pixel = ((n * v->rows + y) * v->columns + u) * v->channels + first;
        for (int64_t k = 0; k < v->per_group; k++)
            sum += (hrf_read8(in->dtype, x, pixel + k) - in->quantization.zero_point) *
                   w[(m * v->per_group + k) * area + i];
    }
    return sum;
}

static float finish_sum(const struct hrf_spec *spec, const struct hrf_requantize *r, int64_t m,
                        int32_t sum, const void *residual, int64_t at)
{
    int32_t q = 0;
    if (residual != NULL)
        q = hrf_read8(spec->inputs[HRF_CONV_RESIDUAL].dtype, residual, at) - r->residual_zero_point;
    return hrf_integer_steps(r, r->bias[m], r->multiplier[m], sum, residual != NULL ? &q : NULL);
}

static void run_conv(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct conv_view v = view_of(spec);
    const void *x = hrf_spec_data(spec, call, HRF_CONV_X);
    const int8_t *w = hrf_spec_data(spec, call, HRF_CONV_WEIGHTS);
    const void *residual = hrf_spec_data(spec, call, HRF_CONV_RESIDUAL);
    const int64_t n_pixels = v.n * v.out_rows * v.out_columns;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < n_pixels; p++) {
        const int64_t n = p / (v.out_rows * v.out_columns);
        const int64_t oy = p / v.out_columns % v.out_rows, ox = p % v.out_columns;
        for (int64_t m = 0; m < v.out_channels; m++) {
            const int64_t at = p * v.out_channels + m;
            const int32_t sum = sum_at(spec, &v, x, w, n, m, oy, ox);
            const float t = finish_sum(spec, kernel->requantize, m, sum, residual, at);
            if (spec->output.dtype == HRF_F32)
                hrf_floats(call)[at] = t;
            else
                write8(&spec->output, call->output, at, t);
        }
    }
}

/* ---- one value in, one out ---- */

static float unary(const struct hrf_spec *spec, float x)
{
    const struct hrf_attributes *a = &spec->attributes;
    switch (spec->op) {
    case HRF_OP_RELU:
        return x > 0 ? x : 0;
    case HRF_OP_LEAKY_RELU:
        return x >= 0 ? x : a->alpha * x;
    case HRF_OP_CLIP:
        return hrf_integer_activate(HRF_ACT_CLIP, a->activation_min, a->activation_max, 0, x);
    case HRF_OP_SIGMOID:
        return (float)(1 / (1 + exp(-(double)x)));
    case HRF_OP_TANH:
        return (float)tanh((double)x);
    default:
        /* Other operators keep the value and change only its scale. */
        return hrf_op_is_unary(spec->op) ? (float)hrf_unary_value(spec->op, a, (double)x) : x;
    }
}

static void fill_table(const struct hrf_spec *spec, int32_t input, uint8_t table[256])
{
    const struct hrf_operand *x = &spec->inputs[input], *y = &spec->output;
    for (int32_t i = 0; i < 256; i++) {
        const int32_t q = x->dtype == HRF_S8 ? (i < 128 ? i : i - 256) : i;
        const float real = (float)(q - x->quantization.zero_point) * x->quantization.scale;
        const bool same = x->dtype == y->dtype && x->quantization.scale == y->quantization.scale &&
                          x->quantization.zero_point == y->quantization.zero_point;
        table[i] = (uint8_t)(same && !hrf_op_is_unary(spec->op)
                                 ? i
                                 : hrf_quantize(unary(spec, real), y->dtype, &y->quantization) &
                                       0xff);
    }
}

enum {
    SLOTS = 64, /* parts of a pool's work */
};

static void plain_by_table(const uint8_t table[256], const uint8_t *x, uint8_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}

typedef void table_function(const uint8_t table[256], const uint8_t *x, uint8_t *y, int64_t n);

static table_function *best_by_table(void)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512_vbmi())
        return hrf_bytes_by_table_avx512;
#endif
    return plain_by_table;
}

static void run_table(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call)
{
    const uint8_t *x = hrf_spec_data(kernel->spec, call, 0), *table = kernel->tables[0];
    uint8_t *y = call->output;
    const int64_t n = hrf_shape_count(&kernel->spec->output.shape);
    table_function *const by_table = best_by_table();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += HRF_INTEGER_PIECE)
        by_table(table, x + i, y + i, n - i < HRF_INTEGER_PIECE ? n - i : HRF_INTEGER_PIECE);
}

static void quantize_piece(const float *x, float scale, struct hrf_target t, uint8_t *out,
                           int64_t n)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        const struct hrf_bytes_quantize steps = { scale, t.low, t.high, t.zero_point };
        hrf_bytes_quantize_avx512(&steps, x, out, n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        out[i] = hrf_narrow(t, x[i] / scale);
}

static void run_quantize(const struct hrf_integer_kernel *kernel,
                         const struct hrf_kernel_call *call)
{
    const struct hrf_operand *y = &kernel->spec->output;
    const float *x = hrf_spec_data(kernel->spec, call, 0);
    uint8_t *out = call->output;
    const int64_t n = hrf_shape_count(&y->shape);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += HRF_INTEGER_PIECE)
        quantize_piece(x + i, y->quantization.scale, hrf_target_of(y), out + i,
                       n - i < HRF_INTEGER_PIECE ? n - i : HRF_INTEGER_PIECE);
}

/* The index along the axis, and so of the scale, of the element at offset `i` in memory. */
static int64_t index_along_axis(const struct hrf_spec *spec, int64_t i)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(&spec->output.shape, strides);
    return i / strides[spec->attributes.axis] % spec->output.shape.dims[spec->attributes.axis];
}

static void run_quantize_along_axis(const struct hrf_integer_kernel *kernel,
                                    const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_operand *y = &spec->output;
    const float *x = hrf_spec_data(spec, call, 0);
    const float *scales = hrf_spec_data(spec, call, HRF_QUANTIZE_SCALE);
    const void *zeros = hrf_spec_data(spec, call, HRF_QUANTIZE_ZERO_POINT);
    const int64_t n = hrf_shape_count(&y->shape);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = index_along_axis(spec, i);
        const struct hrf_quantization q = { .scale = scales[index],
                                            .zero_point = zeros != NULL
                                                              ? hrf_read8(y->dtype, zeros, index)
                                                              : 0 };
        ((uint8_t *)call->output)[i] = (uint8_t)(hrf_quantize(x[i], y->dtype, &q) & 0xff);
    }
}

static void run_dequantize(const struct hrf_integer_kernel *kernel,
                           const struct hrf_kernel_call *call)
{
    const struct hrf_operand *x = &kernel->spec->inputs[0];
    const void *in = hrf_spec_data(kernel->spec, call, 0);
    float *out = hrf_floats(call);
    const int64_t n = hrf_shape_count(&x->shape);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(hrf_read8(x->dtype, in, i) - x->quantization.zero_point) *
                 x->quantization.scale;
}

#ifdef HRF_BUILD_AVX512
/* True for images whose activation only clips. */
static bool scales_images(const struct hrf_spec *spec)
{
    const enum hrf_activation a = spec->attributes.activation;
    return spec->output.shape.rank == 4 && hrf_cpu_has_avx512() &&
           (a == HRF_ACT_NONE || a == HRF_ACT_RELU || a == HRF_ACT_CLIP);
}

static void scale_images(const struct hrf_integer_kernel *kernel,
                         const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const struct hrf_target target = hrf_target_of(&spec->output);
    const float sy = spec->output.quantization.scale;
    struct hrf_bytes_scale scale = { .type = spec->inputs[0].dtype,
                                     .x_zero = spec->inputs[0].quantization.zero_point,
                                     .y_zero = target.zero_point,
                                     .factors = kernel->factors,
                                     .shifts = kernel->shifts,
                                     .least = t->activation == HRF_ACT_RELU ? 0 : -INFINITY,
                                     .most = INFINITY,
                                     .low = target.low,
                                     .high = target.high };
    if (t->activation == HRF_ACT_CLIP) {
        scale.least = t->activation_min / sy;
        scale.most = t->activation_max / sy;
    }
    const int64_t channels = spec->output.shape.dims[1];
    const int64_t n_pixels = hrf_shape_count(&spec->output.shape) / channels;
    const uint8_t *x = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixels; i++)
        hrf_bytes_scale_avx512(&scale, x + i * channels, (uint8_t *)call->output + i * channels,
                               channels);
}
#endif

static void run_batch_norm(const struct hrf_integer_kernel *kernel,
                           const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_operand *in = &spec->inputs[0];
    const struct hrf_attributes *t = &spec->attributes;
#ifdef HRF_BUILD_AVX512
    if (scales_images(spec)) {
        scale_images(kernel, call);
        return;
    }
#endif
    const void *x = hrf_spec_data(spec, call, 0);
    const int64_t channels = in->shape.dims[1], n = hrf_shape_count(&in->shape);
    const float sy = spec->output.quantization.scale;
    const struct hrf_target target = hrf_target_of(&spec->output);
    uint8_t *out = call->output;
    int64_t inner = 1;
    for (int32_t i = 2; i < in->shape.rank && in->shape.rank != 4; i++)
        inner *= in->shape.dims[i];
    const int64_t line = inner > 1 ? inner : channels; /* contiguous elements */
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < n / line; k++)
        for (int64_t i = k * line; i < (k + 1) * line; i++) {
            const int64_t c = inner > 1 ? k % channels : i - k * line;
            const int32_t q = hrf_read8(in->dtype, x, i) - in->quantization.zero_point;
            const float steps = (float)q * kernel->factors[c] + kernel->shifts[c];
            out[i] = hrf_narrow(target,
                                hrf_integer_activate(t->activation, t->activation_min / sy,
                                                     t->activation_max / sy, t->alpha, steps));
        }
}

/* ---- concat ---- */

static void run_concat(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t axis = spec->attributes.axis;
    int64_t strides[2][HRF_MAX_RANK];
    uint8_t *out = call->output;
    table_function *const by_table = best_by_table();
    hrf_layout_strides(&spec->output.shape, strides[0]);
    for (int32_t k = 0; k < spec->n_inputs; k++) {
        const struct hrf_shape *shape = &spec->inputs[k].shape;
        const uint8_t *x = hrf_spec_data(spec, call, k), *table = kernel->tables[k];
        struct hrf_walk walk;
        hrf_layout_strides(shape, strides[1]);
        hrf_walk_init(&walk, shape, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
        const int32_t last = walk.rank - 1;
        const int64_t to = walk.strides[0][last], from = walk.strides[1][last];
        const int64_t rows = hrf_walk_rows(&walk);
        const bool keeps = hrf_integer_changes_nothing(table);
#pragma omp parallel for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            int64_t at[HRF_WALK_MAX_OPERANDS];
            hrf_walk_seek(&walk, row, at);
            if (to == 1 && from == 1) {
                if (keeps)
                    memcpy(out + at[0], x + at[1], (size_t)walk.dims[last]);
                else
                    by_table(table, x + at[1], out + at[0], walk.dims[last]);
                continue;
            }
            for (int64_t i = 0; i < walk.dims[last]; i++)
                out[at[0] + i * to] = table[x[at[1] + i * from]];
        }
        out += shape->dims[axis] * strides[0][axis];
    }
}

/* ---- compiling ---- */

typedef void integer_function(const struct hrf_integer_kernel *kernel,
                              const struct hrf_kernel_call *call);

static integer_function *function_of(enum hrf_op op)
{
    static integer_function *const functions[HRF_N_OPS] = {
        [HRF_OP_CONV] = run_conv,
        [HRF_OP_CONV_TRANSPOSE] = run_conv,
        [HRF_OP_GEMM] = run_conv,
        [HRF_OP_QUANTIZE] = run_quantize,
        [HRF_OP_DEQUANTIZE] = run_dequantize,
        [HRF_OP_ADD] = hrf_integer_binary,
        [HRF_OP_SUB] = hrf_integer_binary,
        [HRF_OP_MUL] = hrf_integer_binary,
        [HRF_OP_BATCH_NORM] = run_batch_norm,
        [HRF_OP_MAX_POOL] = hrf_integer_pool,
        [HRF_OP_AVERAGE_POOL] = hrf_integer_pool,
        [HRF_OP_GLOBAL_AVERAGE_POOL] = hrf_integer_global_pool,
        [HRF_OP_GLOBAL_MAX_POOL] = hrf_integer_global_pool,
        [HRF_OP_CONCAT] = run_concat,
    };
    return hrf_op_is_unary(op) ? run_table : functions[op];
}

bool hrf_integer_has(enum hrf_op op)
{
    return function_of(op) != NULL;
}

static enum hrf_status integer_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                   struct hrf_error *err)
{
    (void)err;
    const struct hrf_integer_kernel *kernel = (const struct hrf_integer_kernel *)base;
    kernel->function(kernel, call);
    return HRF_OK;
}

static void integer_destroy(struct hrf_kernel *base)
{
    struct hrf_integer_kernel *kernel = (struct hrf_integer_kernel *)base;
    hrf_spec_destroy(kernel->spec);
    hrf_requantize_destroy(kernel->requantize);
    hrf_free(kernel->tables);
    hrf_free(kernel->pairs);
    hrf_free(kernel->factors);
    hrf_free(kernel->shifts);
    hrf_free(kernel);
}

/* y / s_y = x_steps * factor + shift. Source: ONNX BatchNormalization, inference form. */
static void prepare_batch_norm(struct hrf_integer_kernel *kernel)
{
    const struct hrf_spec *spec = kernel->spec;
    const float *p[4]; /* scale, bias, mean, variance */
    for (int32_t i = 0; i < 4; i++)
        p[i] = spec->inputs[i + 1].constant;
    const double sx = (double)spec->inputs[0].quantization.scale;
    const double sy = (double)spec->output.quantization.scale;
    for (int64_t c = 0; c < spec->output.shape.dims[1]; c++) {
        const double s = (double)p[0][c] / sqrt((double)p[3][c] + (double)spec->attributes.epsilon);
        kernel->factors[c] = (float)(s * sx / sy);
        kernel->shifts[c] = (float)(((double)p[1][c] - (double)p[2][c] * s) / sy);
    }
}

static void integer_prepare(struct hrf_integer_kernel *kernel)
{
    const struct hrf_spec *spec = kernel->spec;
    if (kernel->function == run_conv) {
        kernel->requantize = hrf_requantize_create(spec);
        return;
    }
    if (spec->op == HRF_OP_BATCH_NORM) {
        const size_t channels = (size_t)spec->output.shape.dims[1];
        kernel->factors = hrf_alloc_array(channels, sizeof(float));
        kernel->shifts = hrf_alloc_array(channels, sizeof(float));
        prepare_batch_norm(kernel);
        return;
    }
    if (kernel->function == hrf_integer_binary) {
        if (!hrf_integer_looks_pairs_up(spec))
            return;
        kernel->pairs = hrf_alloc_array(256, 256);
        hrf_integer_fill_pairs(spec, kernel->pairs);
        return;
    }
    if (kernel->function == hrf_integer_pool || kernel->function == hrf_integer_global_pool) {
        kernel->slots = SLOTS;
        kernel->base.workspace_bytes = (size_t)(SLOTS * spec->inputs[0].shape.dims[1]) *
                                       sizeof(int32_t);
    }
    if (spec->inputs[0].dtype == HRF_F32 || spec->output.dtype == HRF_F32)
        return;
    kernel->tables = hrf_alloc_array((size_t)spec->n_inputs, sizeof *kernel->tables);
    for (int32_t i = 0; i < spec->n_inputs && spec->op != HRF_OP_LOOKUP; i++)
        fill_table(spec, i, kernel->tables[i]);
    if (spec->op == HRF_OP_LOOKUP)
        memcpy(kernel->tables[0], spec->inputs[1].constant, sizeof kernel->tables[0]);
}

enum hrf_status hrf_integer_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row, (void)backend;
    struct hrf_integer_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = integer_run, .destroy = integer_destroy };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    kernel->function = function_of(node->op);
    if (node->op == HRF_OP_QUANTIZE && graph->values[node->outputs[0]].quantization.scale <= 0)
        kernel->function = run_quantize_along_axis;
    integer_prepare(kernel);
    kernel->base.weight_bytes = hrf_spec_constant_bytes(kernel->spec);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
