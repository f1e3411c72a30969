/* simple.c - operators that are one launch: functions of a number, pools, products, means. */
#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/cudnn_arithmetic.h"

#include <assert.h>
#include <math.h>

struct hrf_k_walk hrf_cuda_walk(const struct hrf_shape *shape, const int64_t y[HRF_MAX_RANK],
                                const int64_t a[HRF_MAX_RANK], const int64_t b[HRF_MAX_RANK])
{
    struct hrf_walk merged;
    struct hrf_k_walk walk = { .rank = 0 };
    int64_t strides[HRF_WALK_MAX_OPERANDS][HRF_MAX_RANK];
    for (int32_t i = 0; i < shape->rank; i++) {
        strides[0][i] = y[i];
        strides[1][i] = a[i];
        strides[2][i] = b != NULL ? b[i] : 0;
    }
    hrf_walk_init(&merged, shape, b != NULL ? 3 : 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    walk.rank = merged.rank;
    for (int32_t i = 0; i < merged.rank; i++) {
        walk.dims[i] = merged.dims[i];
        walk.y[i] = merged.strides[0][i];
        walk.a[i] = merged.strides[1][i];
        walk.b[i] = b != NULL ? merged.strides[2][i] : 0;
    }
    return walk;
}

struct hrf_k_window hrf_cuda_window(const struct hrf_shape *x, const struct hrf_shape *y,
                                    const struct hrf_window *window)
{
    struct hrf_k_window w = { .n = x->dims[0],
                              .in_rows = x->dims[2],
                              .in_columns = x->dims[3],
                              .out_rows = y->dims[2],
                              .out_columns = y->dims[3],
                              .channels = x->dims[1],
                              .count_include_pad = window->count_include_pad };
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = window->kernel[i];
        w.stride[i] = window->stride[i];
        w.dilation[i] = window->dilation[i];
        w.pad_begin[i] = window->pad_begin[i];
        w.pad_end[i] = window->pad_end[i];
    }
    return w;
}

static cudaStream_t stream_of(const struct hrf_cuda_kernel *kernel)
{
    return kernel->backend->device->stream;
}

/* ---- functions of one or two numbers ---- */

static const struct hrf_k_epilogue nothing = { .activation = HRF_K_NONE };

#define MATH(OP, FORMULA) [HRF_OP_##OP] = HRF_K_##OP,
static enum hrf_k_math math_of(enum hrf_op op)
{
    static const enum hrf_k_math maths[HRF_N_OPS] = { HRF_FORMULAS(MATH)
                                                          HRF_BINARY_FORMULAS(MATH) };
    return maths[op]; /* COPY for those that are an activation, or a change of type */
}

/* Whether functions of one and of two numbers have their place in the table above. */
static bool has_math(enum hrf_op op)
{
    return math_of(op) != HRF_K_COPY || op == HRF_OP_RELU || op == HRF_OP_LEAKY_RELU ||
           op == HRF_OP_CLIP;
}

static cudaError_t launch_unary(const struct hrf_cuda_kernel *kernel,
                                const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const struct hrf_k_walk walk = {
        .rank = 1, .dims = { hrf_shape_count(&spec->output.shape) }, .y = { 1 }, .a = { 1 }
    };
    const struct hrf_k_function function = { .math = math_of(spec->op),
                                             .alpha = t->alpha,
                                             .beta = t->beta };
    struct hrf_k_epilogue epilogue = nothing;
    if (spec->op == HRF_OP_RELU)
        epilogue.activation = HRF_K_RELU;
    else if (spec->op == HRF_OP_LEAKY_RELU)
        epilogue = (struct hrf_k_epilogue){ .activation = HRF_K_LEAKY_RELU, .slope = t->alpha };
    else if (spec->op == HRF_OP_CLIP)
        epilogue = (struct hrf_k_epilogue){ .activation = HRF_K_CLIP,
                                            .low = t->activation_min,
                                            .high = t->activation_max };
    return hrf_k_pointwise(&function, hrf_cuda_output(kernel, call),
                           hrf_cuda_input(kernel, call, 0), (struct hrf_k_array){ .data = NULL },
                           &walk, &epilogue, stream_of(kernel));
}

static cudaError_t launch_binary(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    const struct hrf_k_function function = { .math = math_of(spec->op) };
    int64_t strides[3][HRF_MAX_RANK];
    hrf_layout_strides(shape, strides[0]);
    hrf_layout_broadcast_strides(&spec->inputs[0].shape, shape, strides[1]);
    hrf_layout_broadcast_strides(&spec->inputs[1].shape, shape, strides[2]);
    const struct hrf_k_walk walk = hrf_cuda_walk(shape, strides[0], strides[1], strides[2]);
    const struct hrf_k_epilogue epilogue = hrf_cuda_epilogue(&spec->attributes);
    return hrf_k_pointwise(&function, hrf_cuda_output(kernel, call),
                           hrf_cuda_input(kernel, call, 0), hrf_cuda_input(kernel, call, 1), &walk,
                           &epilogue, stream_of(kernel));
}

cudaError_t hrf_cuda_apply_activation(const struct hrf_spec *spec, void *output,
                                      cudaStream_t stream)
{
    const struct hrf_k_array y = hrf_cuda_array(&spec->output, output);
    const struct hrf_k_walk walk = {
        .rank = 1, .dims = { hrf_shape_count(&spec->output.shape) }, .y = { 1 }, .a = { 1 }
    };
    struct hrf_k_function function = { .alpha = 1 };
    switch (spec->attributes.activation) {
    case HRF_ACT_GELU:
        function.math = HRF_K_GELU;
        break;
    case HRF_ACT_GELU_TANH:
        function.math = HRF_K_GELU_TANH;
        break;
    case HRF_ACT_SWISH:
        function.math = HRF_K_SWISH;
        break;
    default:
        return cudaSuccess;
    }
    return hrf_k_pointwise(&function, y, y, (struct hrf_k_array){ .data = NULL }, &walk, &nothing,
                           stream);
}

/* A function of the two halves of the last axis. */
static cudaError_t launch_swiglu(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    const struct hrf_k_function function = { .math = HRF_K_SWIGLU };
    int64_t y[HRF_MAX_RANK], x[HRF_MAX_RANK];
    hrf_layout_strides(shape, y);
    hrf_layout_strides(&spec->inputs[0].shape, x);
    const struct hrf_k_walk walk = hrf_cuda_walk(shape, y, x, x);
    const struct hrf_k_array gate = hrf_cuda_input(kernel, call, 0);
    struct hrf_k_array other = gate;
    other.data = (char *)gate.data + hrf_shape_last(shape) * x[shape->rank - 1] *
                                         (int64_t)hrf_dtype_size(spec->inputs[0].dtype);
    return hrf_k_pointwise(&function, hrf_cuda_output(kernel, call), gate, other, &walk, &nothing,
                           stream_of(kernel));
}

/* ---- choices ---- */

static cudaError_t launch_where(const struct hrf_cuda_kernel *kernel,
                                const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[4][HRF_MAX_RANK]; /* of y, condition, and both sides */
    struct hrf_walk merged;
    struct hrf_k_walk walk = { .rank = 0 }, of_condition = { .rank = 0 };
    hrf_layout_strides(shape, strides[0]);
    for (int k = 0; k < 3; k++)
        hrf_layout_broadcast_strides(&spec->inputs[k].shape, shape, strides[1 + k]);
    hrf_walk_init(&merged, shape, 4, (const int64_t(*)[HRF_MAX_RANK])strides);
    for (int32_t i = 0; i < merged.rank; i++) {
        hrf_cuda_walk_add(&walk, merged.dims[i], merged.strides[0][i], merged.strides[2][i],
                          merged.strides[3][i]);
        hrf_cuda_walk_add(&of_condition, merged.dims[i], 0, merged.strides[1][i], 0);
    }
    return hrf_k_where(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0).data,
                       hrf_cuda_input(kernel, call, 1), hrf_cuda_input(kernel, call, 2), &walk,
                       &of_condition, stream_of(kernel));
}

static cudaError_t launch_select_max(const struct hrf_cuda_kernel *kernel,
                                     const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t *scores = spec->inputs[1].shape.dims;
    return hrf_k_select_max(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                            hrf_cuda_input(kernel, call, 1), scores[0], scores[1],
                            spec->output.shape.dims[1], stream_of(kernel));
}

static cudaError_t launch_top_k_mask(const struct hrf_cuda_kernel *kernel,
                                     const struct hrf_kernel_call *call)
{
    const struct hrf_shape *shape = &kernel->spec->output.shape;
    const int64_t length = hrf_shape_last(shape);
    return hrf_k_top_k_mask(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                            length > 0 ? hrf_shape_count(shape) / length : 0, length,
                            kernel->spec->attributes.greatest, stream_of(kernel));
}

/* ---- BATCH_NORM ---- */

static bool is_in_steps(const struct hrf_spec *spec)
{
    const enum hrf_dtype x = spec->inputs[0].dtype, y = spec->output.dtype;
    return hrf_dtype_is_byte(x) && hrf_dtype_is_byte(y);
}

enum hrf_status hrf_cuda_upload_table(struct hrf_cuda_kernel *kernel, int i, const void *from,
                                      size_t n_bytes, struct hrf_error *err)
{
    const bool is_new = kernel->tables[i] == NULL;
    HRF_TRY(hrf_cuda_upload(kernel->backend->device, from, n_bytes, &kernel->tables[i], err));
    kernel->constant_bytes += is_new ? n_bytes : 0;
    return HRF_OK;
}

/* y = x * scale + shift, of integers in steps (as integer.c has it). Source: ONNX
 * BatchNormalization, inference form. */
enum hrf_status hrf_cuda_prepare_batch_norm(struct hrf_cuda_kernel *kernel, struct hrf_error *err)
{
    const struct hrf_spec *spec = kernel->spec;
    const bool in_steps = is_in_steps(spec);
    const double sx = in_steps ? (double)spec->inputs[0].quantization.scale : 1;
    const double sy = in_steps ? (double)spec->output.quantization.scale : 1;
    const int64_t channels = spec->output.shape.dims[1];
    const size_t n_bytes = (size_t)channels * sizeof(float);
    const float *p[4]; /* scale, bias, mean, variance */
    HRF_AUTO_FREE float *factors = hrf_try_alloc_array(2 * (size_t)channels, sizeof *factors);
    HRF_CHECK_MEMORY(factors != NULL, err, "no memory for the kernel of node '%s'", spec->name);
    for (int32_t i = 0; i < 4; i++)
        p[i] = spec->inputs[i + 1].constant;
    for (int64_t c = 0; c < channels; c++) {
        const double s = (double)p[0][c] / sqrt((double)p[3][c] + (double)spec->attributes.epsilon);
        factors[c] = (float)(s * sx / sy);
        if (in_steps) /* as a second output of a convolution (cudnn_conv.h) */
            factors[c] = hrf_arithmetic_short_factor(factors[c]);
        factors[channels + c] = (float)(((double)p[1][c] - (double)p[2][c] * s) / sy);
    }
    HRF_TRY(hrf_cuda_upload_table(kernel, 0, factors, n_bytes, err));
    return hrf_cuda_upload_table(kernel, 1, factors + channels, n_bytes, err);
}

static cudaError_t launch_batch_norm(const struct hrf_cuda_kernel *kernel,
                                     const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    struct hrf_k_epilogue epilogue = hrf_cuda_epilogue(&spec->attributes);
    int64_t inner = 1; /* elements of one channel in a row, by the memory order */
    for (int32_t i = 2; i < shape->rank && shape->rank != 4; i++)
        inner *= shape->dims[i];
    if (is_in_steps(spec)) {
        epilogue.low /= spec->output.quantization.scale;
        epilogue.high /= spec->output.quantization.scale;
    }
    const int64_t n = hrf_shape_count(shape), channels = shape->dims[1];
    if (n == 0)
        return cudaSuccess;
    return hrf_k_affine(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                        kernel->tables[0], kernel->tables[1], n / (channels * inner), channels,
                        inner, &epilogue, stream_of(kernel));
}

/* ---- along axes ---- */

static cudaError_t launch_softmax(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    const int64_t length = shape->dims[spec->attributes.axis];
    const int64_t inner = strides[spec->attributes.axis];
    if (hrf_shape_count(shape) == 0)
        return cudaSuccess;
    return hrf_k_softmax(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                         hrf_shape_count(shape) / (length * inner), length, inner,
                         spec->op == HRF_OP_LOG_SOFTMAX, stream_of(kernel));
}

static cudaError_t launch_lrn(const struct hrf_cuda_kernel *kernel,
                              const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *t = &kernel->spec->attributes;
    const struct hrf_shape *shape = &kernel->spec->output.shape;
    const struct hrf_k_lrn_form form = {
        .size = t->lrn.size, .alpha = t->lrn.alpha, .beta = t->lrn.beta, .bias = t->lrn.bias
    };
    return hrf_k_lrn(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                     hrf_shape_count(shape) / shape->dims[1], shape->dims[1], &form,
                     stream_of(kernel));
}

static enum hrf_k_reduction reduction_of(enum hrf_op op)
{
    static const enum hrf_k_reduction reductions[] = {
        [HRF_OP_REDUCE_MEAN - HRF_OP_REDUCE_MEAN] = HRF_K_MEAN,
        [HRF_OP_REDUCE_SUM - HRF_OP_REDUCE_MEAN] = HRF_K_SUM,
        [HRF_OP_REDUCE_MAX - HRF_OP_REDUCE_MEAN] = HRF_K_MOST,
        [HRF_OP_REDUCE_MIN - HRF_OP_REDUCE_MEAN] = HRF_K_LEAST,
        [HRF_OP_REDUCE_PROD - HRF_OP_REDUCE_MEAN] = HRF_K_PRODUCT,
        [HRF_OP_REDUCE_L1 - HRF_OP_REDUCE_MEAN] = HRF_K_L1,
        [HRF_OP_REDUCE_L2 - HRF_OP_REDUCE_MEAN] = HRF_K_L2,
        [HRF_OP_REDUCE_SUM_SQUARE - HRF_OP_REDUCE_MEAN] = HRF_K_SUM_SQUARE,
        [HRF_OP_REDUCE_LOG_SUM - HRF_OP_REDUCE_MEAN] = HRF_K_LOG_SUM,
        [HRF_OP_REDUCE_LOG_SUM_EXP - HRF_OP_REDUCE_MEAN] = HRF_K_LOG_SUM_EXP,
    };
    return reductions[op - HRF_OP_REDUCE_MEAN];
}

static cudaError_t launch_reduction(const struct hrf_cuda_kernel *kernel,
                                    const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *in = &spec->inputs[0].shape;
    int64_t x[HRF_MAX_RANK], y[HRF_MAX_RANK];
    bool is_reduced[HRF_MAX_RANK] = { false };
    struct hrf_k_walk kept = { .rank = 0 }, reduced = { .rank = 0 };
    hrf_layout_strides(in, x);
    hrf_layout_strides(&spec->output.shape, y);
    for (int32_t i = 0; i < spec->attributes.n_axes; i++)
        is_reduced[spec->attributes.axes[i]] = true;
    for (int32_t i = 0, o = 0; i < in->rank; i++) {
        if (is_reduced[i])
            hrf_cuda_walk_add(&reduced, in->dims[i], 0, x[i], 0);
        else
            hrf_cuda_walk_add(&kept, in->dims[i], y[o], x[i], 0);
        o += !is_reduced[i] || spec->attributes.keep_dims;
    }
    return hrf_k_reduce(reduction_of(spec->op), hrf_cuda_output(kernel, call),
                        hrf_cuda_input(kernel, call, 0), &kept, &reduced, stream_of(kernel));
}

/* ---- pools ---- */

static cudaError_t launch_pool(const struct hrf_cuda_kernel *kernel,
                               const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_k_window window = hrf_cuda_window(&spec->inputs[0].shape, &spec->output.shape,
                                                       &spec->attributes.window);
    return hrf_k_pool_window(spec->op == HRF_OP_MAX_POOL ? HRF_K_POOL_MAX : HRF_K_POOL_AVERAGE,
                             hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                             &window, stream_of(kernel));
}

static cudaError_t launch_global_pool(const struct hrf_cuda_kernel *kernel,
                                      const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &kernel->spec->inputs[0].shape;
    return hrf_k_pool_global(
        kernel->spec->op == HRF_OP_GLOBAL_MAX_POOL ? HRF_K_POOL_MAX : HRF_K_POOL_AVERAGE,
        hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0), in->dims[0],
        in->dims[2] * in->dims[3], in->dims[1], call->workspace, stream_of(kernel));
}

static cudaError_t launch_pool_sum(const struct hrf_cuda_kernel *kernel,
                                   const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &kernel->spec->inputs[0].shape;
    return hrf_k_pool_sum(call->output, hrf_cuda_input(kernel, call, 0), in->dims[0],
                          in->dims[2] * in->dims[3], in->dims[1], call->workspace,
                          stream_of(kernel));
}

static cudaError_t launch_pool_finish(const struct hrf_cuda_kernel *kernel,
                                      const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    return hrf_k_pool_finish(hrf_cuda_output(kernel, call), call->inputs[0],
                             spec->inputs[0].dtype == HRF_S32, spec->inputs[0].quantization.scale,
                             spec->attributes.n_pixels, hrf_shape_count(&spec->output.shape),
                             stream_of(kernel));
}

static cudaError_t launch_quantize(const struct hrf_cuda_kernel *kernel,
                                   const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[HRF_MAX_RANK];
    if (!hrf_spec_has(spec, HRF_QUANTIZE_SCALE))
        return launch_unary(kernel, call);
    hrf_layout_strides(shape, strides);
    const int64_t length = shape->dims[spec->attributes.axis];
    const int64_t inner = strides[spec->attributes.axis];
    return hrf_k_quantize(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                          hrf_cuda_input(kernel, call, HRF_QUANTIZE_SCALE).data,
                          hrf_cuda_input(kernel, call, HRF_QUANTIZE_ZERO_POINT).data,
                          hrf_shape_count(shape) / (length * inner), length, inner,
                          stream_of(kernel));
}

/* ---- images of other sizes ---- */

enum hrf_status hrf_cuda_prepare_resize(struct hrf_cuda_kernel *kernel, struct hrf_error *err)
{
    static_assert(sizeof(struct hrf_k_tap) == sizeof(struct hrf_resize_tap) &&
                      (int)HRF_K_TAPS == (int)HRF_RESIZE_TAPS,
                  "the kernel's table is the host's");
    const struct hrf_spec *spec = kernel->spec;
    for (int axis = 0; axis < 2; axis++) {
        const size_t n = (size_t)spec->output.shape.dims[2 + axis];
        HRF_AUTO_FREE struct hrf_resize_tap *taps = hrf_alloc_array(n, sizeof *taps);
        hrf_resize_taps(spec, axis, taps);
        HRF_TRY(hrf_cuda_upload_table(kernel, axis, taps, n * sizeof *taps, err));
    }
    return HRF_OK;
}

static cudaError_t launch_resize(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t *x = spec->inputs[0].shape.dims, *y = spec->output.shape.dims;
    const struct hrf_k_resize resize = {
        .n = x[0],
        .in_rows = x[2],
        .in_columns = x[3],
        .out_rows = y[2],
        .out_columns = y[3],
        .channels = x[1],
        .n_taps = hrf_resize_n(&spec->attributes.resize),
        .rows = kernel->tables[0],
        .columns = kernel->tables[1],
    };
    return hrf_k_resize_image(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                              &resize, stream_of(kernel));
}

/* ---- matrix products that are no convolution ---- */

static cudaError_t launch_gemm(const struct hrf_cuda_kernel *kernel,
                               const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const int64_t *y = spec->output.shape.dims;
    const int64_t depth = spec->inputs[0].shape.dims[t->gemm.transpose_a ? 0 : 1];
    int64_t c[HRF_MAX_RANK] = { 0 };
    if (hrf_spec_has(spec, 2))
        hrf_layout_broadcast_strides(&spec->inputs[2].shape, &spec->output.shape, c);
    const struct hrf_k_product_form form = {
        .rows = y[0],
        .columns = y[1],
        .depth = depth,
        .a_row = t->gemm.transpose_a ? 1 : depth,
        .a_depth = t->gemm.transpose_a ? y[0] : 1,
        .b_depth = t->gemm.transpose_b ? 1 : y[1],
        .b_column = t->gemm.transpose_b ? depth : 1,
        .c_row = c[0],
        .c_column = c[1],
        .y_row = y[1],
        .y_column = 1,
        .alpha = t->gemm.alpha,
        .beta = t->gemm.beta,
        .epilogue = hrf_cuda_epilogue(t),
    };
    return hrf_k_product(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                         hrf_cuda_input(kernel, call, 1), hrf_cuda_input(kernel, call, 2),
                         hrf_cuda_input(kernel, call, 3).data, &form, stream_of(kernel));
}

static cudaError_t launch_matmul(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    struct hrf_matmul view;
    hrf_matmul_view(kernel->spec, &view);
    struct hrf_k_product_form form = {
        .rows = view.rows,
        .columns = view.columns,
        .depth = view.depth,
        .a_row = view.a[0],
        .a_depth = view.a[1],
        .b_depth = view.b[0],
        .b_column = view.b[1],
        .y_row = view.y[0],
        .y_column = view.y[1],
        .alpha = 1,
        .epilogue = nothing,
    };
    for (int32_t i = 0; i < view.n_batch; i++) {
        hrf_cuda_walk_add(&form.batch, view.batch[i], view.batch_strides[2][i],
                          view.batch_strides[0][i], view.batch_strides[1][i]);
    }
    return hrf_k_product(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                         hrf_cuda_input(kernel, call, 1), (struct hrf_k_array){ .data = NULL },
                         NULL, &form, stream_of(kernel));
}

hrf_cuda_launch *hrf_cuda_simple(enum hrf_op op)
{
    if (hrf_op_is_unary(op))
        return has_math(op) ? launch_unary : NULL;
    if (hrf_op_is_binary(op))
        return has_math(op) ? launch_binary : NULL;
    if (hrf_op_is_reduction(op))
        return launch_reduction;
    static hrf_cuda_launch *const launches[HRF_N_OPS] = {
        [HRF_OP_CAST] = launch_unary,
        [HRF_OP_DEQUANTIZE] = launch_unary,
        [HRF_OP_QUANTIZE] = launch_quantize,
        [HRF_OP_BATCH_NORM] = launch_batch_norm,
        [HRF_OP_SOFTMAX] = launch_softmax,
        [HRF_OP_LOG_SOFTMAX] = launch_softmax,
        [HRF_OP_LRN] = launch_lrn,
        [HRF_OP_LAYER_NORM] = hrf_cuda_launch_norm,
        [HRF_OP_RMS_NORM] = hrf_cuda_launch_norm,
        [HRF_OP_GROUP_NORM] = hrf_cuda_launch_norm,
        [HRF_OP_SWIGLU] = launch_swiglu,
        [HRF_OP_WHERE] = launch_where,
        [HRF_OP_SELECT_MAX] = launch_select_max,
        [HRF_OP_TOP_K_MASK] = launch_top_k_mask,
        [HRF_OP_ATTENTION] = hrf_cuda_launch_attention,
        [HRF_OP_TOKEN_ATTENTION] = hrf_cuda_launch_attention,
        [HRF_OP_BYTE_ATTENTION] = hrf_cuda_launch_byte_attention,
        [HRF_OP_ATTENTION_PART] = hrf_cuda_launch_attention,
        [HRF_OP_RESIZE] = launch_resize,
        [HRF_OP_MAX_POOL] = launch_pool,
        [HRF_OP_AVERAGE_POOL] = launch_pool,
        [HRF_OP_GLOBAL_AVERAGE_POOL] = launch_global_pool,
        [HRF_OP_GLOBAL_MAX_POOL] = launch_global_pool,
        [HRF_OP_POOL_SUM] = launch_pool_sum,
        [HRF_OP_POOL_FINISH] = launch_pool_finish,
        [HRF_OP_GEMM] = launch_gemm,
        [HRF_OP_MATMUL] = launch_matmul,
    };
    return launches[op];
}
