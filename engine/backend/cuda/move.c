/* move.c - operators that only move numbers, as strided copies. */
#include "engine/backend/cuda/cuda_private.h"
#include "engine/ir/op.h"

static struct hrf_k_array shifted(struct hrf_k_array array, int64_t elements)
{
    static const int64_t sizes[] = { [HRF_K_F32] = 4, [HRF_K_F16] = 2, [HRF_K_B16] = 2,
                                     [HRF_K_S8] = 1,  [HRF_K_U8] = 1,  [HRF_K_S32] = 4 };
    array.data = (char *)array.data + elements * sizes[array.type];
    return array;
}

static cudaError_t move_copy(const struct hrf_cuda_kernel *kernel, struct hrf_k_array y,
                             struct hrf_k_array x, const struct hrf_k_walk *walk)
{
    return hrf_k_copy(y, x, walk, kernel->backend->device->stream);
}

/* Element i of `shape` goes from x + i . from to y + i . to. */
static cudaError_t copy_box(const struct hrf_cuda_kernel *kernel, const struct hrf_shape *shape,
                            struct hrf_k_array y, const int64_t to[HRF_MAX_RANK],
                            struct hrf_k_array x, const int64_t from[HRF_MAX_RANK])
{
    if (hrf_shape_count(shape) == 0)
        return cudaSuccess;
    const struct hrf_k_walk walk = hrf_cuda_walk(shape, to, from, NULL);
    return move_copy(kernel, y, x, &walk);
}

static cudaError_t launch_concat(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t axis = spec->attributes.axis;
    struct hrf_k_array y = hrf_cuda_output(kernel, call);
    int64_t to[HRF_MAX_RANK], from[HRF_MAX_RANK];
    hrf_layout_strides(&spec->output.shape, to);
    for (int32_t i = 0; i < spec->n_inputs; i++) {
        const struct hrf_shape *shape = &spec->inputs[i].shape;
        hrf_layout_strides(shape, from);
        const cudaError_t status = copy_box(kernel, shape, y, to, hrf_cuda_input(kernel, call, i),
                                            from);
        if (status != cudaSuccess)
            return status;
        y = shifted(y, shape->dims[axis] * to[axis]);
    }
    return cudaSuccess;
}

/* A walk through `shape` in ONNX's order of elements, which is one side's order in memory too:
 * strides of that side, and of the other one, whose layout is its own. */
static struct hrf_k_walk onnx_order(const struct hrf_shape *shape, bool y_is_dense)
{
    int64_t own[HRF_MAX_RANK], dense = 1;
    struct hrf_k_walk walk = { .rank = shape->rank };
    hrf_layout_strides(shape, own);
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        walk.dims[i] = shape->dims[i];
        walk.y[i] = y_is_dense ? dense : own[i];
        walk.a[i] = y_is_dense ? own[i] : dense;
        dense *= shape->dims[i];
    }
    return walk;
}

/* Shape changes keep ONNX's order of elements: through the workspace where neither side's memory
 * is in that order. */
static cudaError_t launch_reshape(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *in = &spec->inputs[0].shape, *out = &spec->output.shape;
    const struct hrf_k_array x = hrf_cuda_input(kernel, call, 0);
    const struct hrf_k_array y = hrf_cuda_output(kernel, call);
    const struct hrf_k_walk from_onnx = onnx_order(out, false), to_onnx = onnx_order(in, true);
    if (spec->attributes.channels_last) { /* in the memory's order, which is each side's own */
        const struct hrf_k_walk dense = {
            .rank = 1, .dims = { hrf_shape_count(out) }, .y = { 1 }, .a = { 1 }
        };
        return move_copy(kernel, y, x, &dense);
    }
    if (hrf_layout_is_onnx(in))
        return move_copy(kernel, y, x, &from_onnx);
    if (hrf_layout_is_onnx(out))
        return move_copy(kernel, y, x, &to_onnx);
    struct hrf_k_array between = x;
    between.data = call->workspace;
    const cudaError_t status = move_copy(kernel, between, x, &to_onnx);
    return status != cudaSuccess ? status : move_copy(kernel, y, between, &from_onnx);
}

static cudaError_t launch_transpose(const struct hrf_cuda_kernel *kernel,
                                    const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    int64_t own[HRF_MAX_RANK], from[HRF_MAX_RANK], to[HRF_MAX_RANK];
    hrf_layout_strides(&spec->inputs[0].shape, own);
    hrf_layout_strides(&spec->output.shape, to);
    for (int32_t i = 0; i < spec->output.shape.rank; i++)
        from[i] = own[spec->attributes.axes[i]];
    return copy_box(kernel, &spec->output.shape, hrf_cuda_output(kernel, call), to,
                    hrf_cuda_input(kernel, call, 0), from);
}

static cudaError_t launch_slice(const struct hrf_cuda_kernel *kernel,
                                const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    int64_t from[HRF_MAX_RANK], to[HRF_MAX_RANK], first = 0;
    hrf_layout_strides(&spec->inputs[0].shape, from);
    hrf_layout_strides(&spec->output.shape, to);
    for (int32_t i = 0; i < t->n_axes; i++) {
        const int64_t axis = t->axes[i];
        first += t->slice.starts[i] * from[axis];
        from[axis] *= t->slice.steps[i] != 0 ? t->slice.steps[i] : 1;
    }
    return copy_box(kernel, &spec->output.shape, hrf_cuda_output(kernel, call), to,
                    shifted(hrf_cuda_input(kernel, call, 0), first), from);
}

enum hrf_status hrf_cuda_prepare_gather(struct hrf_cuda_kernel *kernel, struct hrf_error *err)
{
    const struct hrf_operand *rows = &kernel->spec->inputs[1];
    const size_t n_bytes = (size_t)hrf_shape_count(&rows->shape) * sizeof(int32_t);
    if (!kernel->spec->attributes.channels_last)
        return HRF_OK;
    return hrf_cuda_upload_table(kernel, 0, rows->constant, n_bytes, err);
}

/* One copy for each index: there are few (channels of an image). Rows, of which there are many, are
 * one launch. */
static cudaError_t launch_gather(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    if (spec->attributes.channels_last)
        return hrf_k_gather_rows(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                                 kernel->tables[0], hrf_shape_count(&spec->inputs[1].shape),
                                 spec->attributes.row_size, kernel->backend->device->stream);
    const struct hrf_gather gather = hrf_gather_of(spec);
    for (int64_t i = 0; i < gather.n; i++) {
        int64_t offsets[2];
        hrf_gather_seek(spec, &gather, i, offsets);
        const cudaError_t status = copy_box(
            kernel, &gather.box, shifted(hrf_cuda_output(kernel, call), offsets[1]), gather.out,
            shifted(hrf_cuda_input(kernel, call, 0), offsets[0]), gather.in);
        if (status != cudaSuccess)
            return status;
    }
    return cudaSuccess;
}

static cudaError_t launch_pad(const struct hrf_cuda_kernel *kernel,
                              const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const struct hrf_k_array y = hrf_cuda_output(kernel, call);
    struct hrf_shape kept = spec->inputs[0].shape; /* what negative pads leave of it */
    int64_t from[HRF_MAX_RANK], to[HRF_MAX_RANK], first = 0, skipped = 0;
    hrf_layout_strides(&spec->inputs[0].shape, from);
    hrf_layout_strides(&spec->output.shape, to);
    for (int32_t i = 0; i < t->n_axes; i++) {
        const int64_t axis = t->n_axes == spec->output.shape.rank ? i : t->axes[i];
        const int64_t begin = t->pad.sizes[i], end = t->pad.sizes[t->n_axes + i];
        first += begin > 0 ? begin * to[axis] : 0;
        skipped += begin < 0 ? -begin * from[axis] : 0;
        kept.dims[axis] += (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
    }
    const cudaError_t status = hrf_k_fill(y, hrf_shape_count(&spec->output.shape), t->pad.value,
                                          kernel->backend->device->stream);
    if (status != cudaSuccess)
        return status;
    return copy_box(kernel, &kept, shifted(y, first), to,
                    shifted(hrf_cuda_input(kernel, call, 0), skipped), from);
}

/* A rank's part of the output may begin and end inside a block (partition.h). */
static bool has_whole_blocks(const struct hrf_spec *spec)
{
    const int64_t *x = spec->inputs[0].shape.dims, *y = spec->output.shape.dims;
    const int64_t block = spec->attributes.block.size;
    return spec->op == HRF_OP_SPACE_TO_DEPTH || (y[2] == x[2] * block && y[3] == x[3] * block);
}

static cudaError_t launch_part_of_blocks(const struct hrf_cuda_kernel *kernel,
                                         const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const int64_t *x = spec->inputs[0].shape.dims, *y = spec->output.shape.dims;
    const struct hrf_k_blocks form = {
        .n = y[0],
        .in_rows = x[2],
        .in_columns = x[3],
        .out_rows = y[2],
        .out_columns = y[3],
        .out_channels = y[1],
        .block = t->block.size,
        .skip = { t->block.skip[0], t->block.skip[1] },
        .column_row_depth = t->block.column_row_depth,
    };
    return hrf_k_depth_to_space(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                                &form, kernel->backend->device->stream);
}

static cudaError_t launch_blocks(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    if (!has_whole_blocks(kernel->spec))
        return launch_part_of_blocks(kernel, call);
    const struct hrf_blocks blocks = hrf_blocks_of(kernel->spec);
    return copy_box(kernel, &blocks.box, hrf_cuda_output(kernel, call), blocks.out,
                    hrf_cuda_input(kernel, call, 0), blocks.in);
}

static cudaError_t launch_expand(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_shape *shape = &kernel->spec->output.shape;
    int64_t to[HRF_MAX_RANK], from[HRF_MAX_RANK];
    hrf_layout_strides(shape, to);
    hrf_layout_broadcast_strides(&kernel->spec->inputs[0].shape, shape, from);
    return copy_box(kernel, shape, hrf_cuda_output(kernel, call), to,
                    hrf_cuda_input(kernel, call, 0), from);
}

/* n more copies of the numbers of `there` behind them, `step` elements from one to the next: by one
 * kernel where its walk has room for one more axis, else by one a copy. */
static cudaError_t repeat(const struct hrf_cuda_kernel *kernel, struct hrf_k_array y,
                          const struct hrf_shape *there, const int64_t to[HRF_MAX_RANK],
                          int64_t step, int64_t n)
{
    struct hrf_k_walk walk = hrf_cuda_walk(there, to, to, NULL);
    cudaError_t status = cudaSuccess;
    if (n > 0 && walk.rank < HRF_K_MAX_RANK) {
        hrf_cuda_walk_add(&walk, n, step, 0, 0);
        return move_copy(kernel, shifted(y, step), y, &walk);
    }
    for (int64_t i = 1; i <= n && status == cudaSuccess; i++)
        status = move_copy(kernel, shifted(y, i * step), y, &walk);
    return status;
}

/* The input goes into the output's corner, and along one axis after the other what is there is
 * repeated. */
static cudaError_t launch_tile(const struct hrf_cuda_kernel *kernel,
                               const struct hrf_kernel_call *call)
{
    const struct hrf_shape *shape = &kernel->spec->output.shape;
    const struct hrf_k_array y = hrf_cuda_output(kernel, call);
    struct hrf_shape there = kernel->spec->inputs[0].shape;
    int64_t to[HRF_MAX_RANK], from[HRF_MAX_RANK];
    hrf_layout_strides(shape, to);
    hrf_layout_strides(&there, from);
    if (hrf_shape_count(shape) == 0)
        return cudaSuccess;
    cudaError_t status = copy_box(kernel, &there, y, to, hrf_cuda_input(kernel, call, 0), from);
    for (int32_t i = 0; i < shape->rank && status == cudaSuccess; i++) {
        status = repeat(kernel, y, &there, to, there.dims[i] * to[i],
                        shape->dims[i] / there.dims[i] - 1);
        there.dims[i] = shape->dims[i];
    }
    return status;
}

hrf_cuda_launch *hrf_cuda_move(enum hrf_op op)
{
    static hrf_cuda_launch *const launches[HRF_N_OPS] = {
        [HRF_OP_EXPAND] = launch_expand,
        [HRF_OP_TILE] = launch_tile,
        [HRF_OP_CONCAT] = launch_concat,
        [HRF_OP_TRANSPOSE] = launch_transpose,
        [HRF_OP_SLICE] = launch_slice,
        [HRF_OP_GATHER] = launch_gather,
        [HRF_OP_PAD] = launch_pad,
        [HRF_OP_DEPTH_TO_SPACE] = launch_blocks,
        [HRF_OP_SPACE_TO_DEPTH] = launch_blocks,
    };
    return hrf_op_info(op)->op_class == HRF_CLASS_VIEW ? launch_reshape : launches[op];
}
