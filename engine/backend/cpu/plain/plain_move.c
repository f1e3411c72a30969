/* plain_move.c - operators that copy elements without changing them. */
#include "base/inline.h"
#include "base/min_max.h"
#include "engine/backend/cpu/plain/plain.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"
#include "engine/ir/pad_source.h"

#include <assert.h>
#include <string.h>

typedef void move_function(const struct hrf_spec *spec, const struct hrf_kernel_call *call);

struct move_kernel {
    struct hrf_kernel base;
    move_function *function;
    struct hrf_spec *spec;
};

bool hrf_moves_as_is(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!hrf_op_is_move(node->op))
        return false;
    for (int32_t i = 0; i < (node->op == HRF_OP_CONCAT ? node->n_inputs : 1); i++) {
        const struct hrf_value *x = &graph->values[node->inputs[i]];
        if (x->dtype != y->dtype || x->quantization.scale != y->quantization.scale ||
            x->quantization.zero_point != y->quantization.zero_point)
            return false;
    }
    return true;
}

HRF_ALWAYS_INLINE void copy_elements(const size_t size, int64_t n, char *out, int64_t to,
                                     const char *in, int64_t from)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * to * (int64_t)size, in + i * from * (int64_t)size, size);
}

/* Copies short runs (pixels of few channels) without a call of memcpy(). */
static void copy_run(char *out, const char *in, int64_t n_bytes)
{
    enum { SHORT = 256, STEP = 32 };
    for (; n_bytes >= STEP && n_bytes <= SHORT; n_bytes -= STEP, in += STEP, out += STEP)
        memcpy(out, in, STEP);
    if (n_bytes >= STEP / 2 && n_bytes < STEP) {
        memcpy(out, in, STEP / 2);
        n_bytes -= STEP / 2, in += STEP / 2, out += STEP / 2;
    }
    if (n_bytes > 0)
        memcpy(out, in, (size_t)n_bytes);
}

static void copy_strided(size_t size, int64_t n, char *out, int64_t to, const char *in,
                         int64_t from)
{
    if (to == 1 && from == 1) {
        copy_run(out, in, n * (int64_t)size);
        return;
    }
    switch (size) {
    case 1:
        copy_elements(1, n, out, to, in, from);
        break;
    case 2:
        copy_elements(2, n, out, to, in, from);
        break;
    case 4:
        copy_elements(4, n, out, to, in, from);
        break;
    default:
        copy_elements(8, n, out, to, in, from);
        break;
    }
}

enum {
    PARALLEL_FROM = 1 << 14, /* elements; fewer are copied before a second thread wakes up */
    PIECE_BYTES = 1 << 14,   /* that a thread copies at once, roughly */
};

/* The rows of a piece, for rows of row_bytes. */
static int64_t rows_of_piece(int64_t row_bytes)
{
    return 1 + PIECE_BYTES / (row_bytes + 1);
}

/* Copies rows [row, end) of the walk. It steps along the axis before the last one, because
 * computing where a row begins takes longer than copying a short row. */
static void copy_rows(const struct hrf_walk *walk, int64_t row, int64_t end, int64_t bytes,
                      const char *in, char *out)
{
    const int32_t last = walk->rank - 1;
    while (row < end) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(walk, row, at);
        const int64_t per_line = last > 0 ? walk->dims[last - 1] : 1;
        const int64_t left = per_line - row % per_line, n = left < end - row ? left : end - row;
        for (int64_t i = 0; i < n; i++) {
            copy_strided((size_t)bytes, walk->dims[last], out + at[0] * bytes,
                         walk->strides[0][last], in + at[1] * bytes, walk->strides[1][last]);
            at[0] += last > 0 ? walk->strides[0][last - 1] : 0;
            at[1] += last > 0 ? walk->strides[1][last - 1] : 0;
        }
        row += n;
    }
}

/* True if neighbours of one side lie apart by the last axis, and those of the other by the axis
 * before it: runs of single elements, if one copied rows. */
static bool is_transposition(const struct hrf_walk *walk)
{
    enum { LEAST = 8 };
    const int32_t last = walk->rank - 1;
    if (last < 1 || walk->dims[last] < LEAST || walk->dims[last - 1] < LEAST)
        return false;
    return (walk->strides[0][last] == 1 && walk->strides[1][last - 1] == 1) ||
           (walk->strides[0][last - 1] == 1 && walk->strides[1][last] == 1);
}

/* By parts of the axis before the last one. */
static void transpose_box(const struct hrf_walk *walk, size_t size, const char *in, char *out)
{
    enum { PART = 64 };
    const int32_t last = walk->rank - 1;
    const int64_t bytes = (int64_t)size, n_last = walk->dims[last], lines = walk->dims[last - 1];
    const int64_t n_parts = hrf_ceil_div(lines, PART), rows = hrf_walk_rows(walk);
    const bool is_last_out = walk->strides[0][last] == 1; /* out's neighbours are of the last */
#pragma omp parallel for schedule(static) if (rows * n_last > PARALLEL_FROM)
    for (int64_t i = 0; i < rows / lines * n_parts; i++) {
        const int64_t first = i % n_parts * PART, n = hrf_min(lines - first, PART);
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(walk, i / n_parts * lines + first, at);
        if (is_last_out)
            hrf_transpose(size, n_last, n, in + at[1] * bytes, walk->strides[1][last],
                          out + at[0] * bytes, walk->strides[0][last - 1]);
        else
            hrf_transpose(size, n, n_last, in + at[1] * bytes, walk->strides[1][last - 1],
                          out + at[0] * bytes, walk->strides[0][last]);
    }
}

/* Copies a box: element i of `shape` goes from in + i . in_strides to out + i . out_strides. */
static void copy_box(const struct hrf_shape *shape, size_t size, const char *in,
                     const int64_t in_strides[HRF_MAX_RANK], char *out,
                     const int64_t out_strides[HRF_MAX_RANK])
{
    int64_t strides[2][HRF_MAX_RANK];
    if (hrf_shape_count(shape) == 0)
        return;
    memcpy(strides[0], out_strides, sizeof strides[0]);
    memcpy(strides[1], in_strides, sizeof strides[1]);
    struct hrf_walk walk;
    hrf_walk_init(&walk, shape, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    if (is_transposition(&walk)) {
        transpose_box(&walk, size, in, out);
        return;
    }
    const int64_t bytes = (int64_t)size, rows = hrf_walk_rows(&walk);
    const int64_t piece = rows_of_piece(walk.dims[walk.rank - 1] * bytes);
#pragma omp parallel for schedule(static) if (rows * walk.dims[walk.rank - 1] > PARALLEL_FROM)
    for (int64_t row = 0; row < rows; row += piece)
        copy_rows(&walk, row, row + piece < rows ? row + piece : rows, bytes, in, out);
}

static size_t element_size(const struct hrf_spec *spec)
{
    return hrf_dtype_size(spec->output.dtype);
}

/* A contiguous run of a CONCAT's input: the elements that have the same indices before its axis. */
struct line {
    int64_t n_bytes, step; /* step: bytes from line to line */
};

static struct line line_of(const struct hrf_spec *spec, const struct hrf_operand *operand)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(&operand->shape, strides);
    const int64_t axis = spec->attributes.axis, size = (int64_t)element_size(spec);
    const int64_t n_bytes = operand->shape.dims[axis] * strides[axis] * size;
    const bool is_pixel = operand->shape.rank == 4 && axis == 1;
    return (struct line){ n_bytes, is_pixel ? operand->pixel_stride * size : n_bytes };
}

/* True if all inputs already lie in the output. */
static bool is_joined(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const char *at = call->output;
    for (int32_t k = 0; k < spec->n_inputs; k++) {
        if (hrf_spec_data(spec, call, k) != at)
            return false;
        at += line_of(spec, &spec->inputs[k]).n_bytes;
    }
    return true;
}

/* Copies in one pass over the output, in which the runs of the inputs alternate. */
static void run_concat(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct line out = line_of(spec, &spec->output);
    const int64_t size = (int64_t)element_size(spec), piece = rows_of_piece(out.n_bytes);
    const int64_t n = out.n_bytes > 0 ? hrf_shape_count(&spec->output.shape) * size / out.n_bytes
                                      : 0;
    if (is_joined(spec, call))
        return;
#pragma omp parallel for schedule(static) if (n * out.n_bytes > PARALLEL_FROM * size)
    for (int64_t first = 0; first < n; first += piece) {
        const int64_t end = first + piece < n ? first + piece : n;
        char *to = call->output;
        for (int32_t k = 0; k < spec->n_inputs; k++) {
            const char *in = hrf_spec_data(spec, call, k);
            const struct line own = line_of(spec, &spec->inputs[k]);
            for (int64_t i = first; i < end && in != to; i++)
                copy_run(to + i * out.step, in + i * own.step, own.n_bytes);
            to += own.n_bytes;
        }
    }
}

static void copy_all(const void *from, void *to, int64_t n_bytes)
{
    enum { PIECE = 1 << 16 };
    if (from == to)
        return;
#pragma omp parallel for schedule(static) if (n_bytes > 2 * PIECE)
    for (int64_t first = 0; first < n_bytes; first += PIECE)
        memcpy((char *)to + first, (const char *)from + first,
               (size_t)(n_bytes - first < PIECE ? n_bytes - first : PIECE));
}

/* Shape changes keep ONNX's order of elements, which is not the order in memory if a side has rank
 * 4. If both sides have, elements go through the workspace. */
static void run_reshape(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &spec->inputs[0].shape, *out = &spec->output.shape;
    const size_t size = element_size(spec);
    const void *x = hrf_spec_data(spec, call, 0);
    if (spec->attributes.channels_last) { /* the order in memory */
        copy_all(x, call->output, hrf_shape_count(out) * (int64_t)size);
    } else if (hrf_layout_is_onnx(in)) {
        hrf_layout_from_onnx(out, size, x, call->output);
    } else if (hrf_layout_is_onnx(out)) {
        hrf_layout_to_onnx(in, size, x, call->output);
    } else {
        hrf_layout_to_onnx(in, size, x, call->workspace);
        hrf_layout_from_onnx(out, size, call->workspace, call->output);
    }
}

static void run_transpose(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t own[HRF_MAX_RANK], in[HRF_MAX_RANK], out[HRF_MAX_RANK];
    hrf_layout_strides(&spec->inputs[0].shape, own);
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t i = 0; i < spec->output.shape.rank; i++)
        in[i] = own[spec->attributes.axes[i]];
    copy_box(&spec->output.shape, element_size(spec), hrf_spec_data(spec, call, 0), in,
             call->output, out);
}

static void run_slice(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK], first = 0;
    const struct hrf_attributes *attributes = &spec->attributes;
    const char *x = hrf_spec_data(spec, call, 0);
    hrf_layout_strides(&spec->inputs[0].shape, in);
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t i = 0; i < attributes->n_axes; i++) {
        const int64_t axis = attributes->axes[i];
        first += attributes->slice.starts[i] * in[axis];
        in[axis] *= attributes->slice.steps[i] != 0 ? attributes->slice.steps[i] : 1;
    }
    copy_box(&spec->output.shape, element_size(spec), x + first * (int64_t)element_size(spec), in,
             call->output, out);
}

/* Computes a part of the output of DEPTH_TO_SPACE: the pixels after block.skip. */
static void run_cut_blocks(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &spec->inputs[0].shape, *out = &spec->output.shape;
    const struct hrf_attributes *a = &spec->attributes;
    const int64_t block = a->block.size, channels = out->dims[1],
                  size = (int64_t)element_size(spec);
    const int64_t from = spec->inputs[0].pixel_stride, to = spec->output.pixel_stride;
    const int64_t *cut = a->block.skip;
    const char *x = hrf_spec_data(spec, call, 0);
    char *y = call->output;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < out->dims[0] * out->dims[2]; row++) {
        const int64_t at = row % out->dims[2] + cut[0];
        const char *line = x + (row / out->dims[2] * in->dims[2] + at / block) * in->dims[3] *
                                   from * size;
        for (int64_t u = 0; u < out->dims[3]; u++) {
            const int64_t column = u + cut[1], position = at % block * block + column % block;
            const char *pixel = line + column / block * from * size;
            copy_strided((size_t)size, channels, y + (row * out->dims[3] + u) * to * size, 1,
                         pixel + position * (a->block.column_row_depth ? 1 : channels) * size,
                         a->block.column_row_depth ? block * block : 1);
        }
    }
}

static void run_blocks(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    if (spec->op == HRF_OP_DEPTH_TO_SPACE &&
        (spec->output.shape.dims[2] !=
             spec->inputs[0].shape.dims[2] * spec->attributes.block.size ||
         spec->output.shape.dims[3] !=
             spec->inputs[0].shape.dims[3] * spec->attributes.block.size)) {
        run_cut_blocks(spec, call);
        return;
    }
    const struct hrf_blocks blocks = hrf_blocks_of(spec);
    copy_box(&blocks.box, element_size(spec), hrf_spec_data(spec, call, 0), blocks.in, call->output,
             blocks.out);
}

/* Copies rows; those that are contiguous in both tensors are copied at once. */
static void gather_rows(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    enum { PIECE = 64 }; /* rows */
    const int64_t bytes = spec->attributes.row_size * (int64_t)element_size(spec);
    const int64_t n = hrf_shape_count(&spec->inputs[1].shape);
    const int32_t *from = spec->inputs[1].constant;
    const char *x = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t end = n - first < PIECE ? n : first + PIECE;
        for (int64_t i = first, next; i < end; i = next) {
            for (next = i + 1; next < end && from[next] == from[next - 1] + 1;)
                next++;
            memcpy((char *)call->output + i * bytes, x + from[i] * bytes,
                   (size_t)((next - i) * bytes));
        }
    }
}

static void run_gather(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    if (spec->attributes.channels_last) {
        gather_rows(spec, call);
        return;
    }
    const struct hrf_gather gather = hrf_gather_of(spec);
    const size_t bytes = element_size(spec);
    const char *x = hrf_spec_data(spec, call, 0);
    for (int64_t i = 0; i < gather.n; i++) {
        int64_t offsets[2];
        hrf_gather_seek(spec, &gather, i, offsets);
        copy_box(&gather.box, bytes, x + offsets[0] * (int64_t)bytes, gather.in,
                 (char *)call->output + offsets[1] * (int64_t)bytes, gather.out);
    }
}

static void run_expand(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK];
    hrf_layout_broadcast_strides(&spec->inputs[0].shape, &spec->output.shape, in);
    hrf_layout_strides(&spec->output.shape, out);
    copy_box(&spec->output.shape, element_size(spec), hrf_spec_data(spec, call, 0), in,
             call->output, out);
}

/* Copies the whole input once for each repeat. */
static void run_tile(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK], repeats[HRF_MAX_RANK], n = 1;
    const struct hrf_shape *x = &spec->inputs[0].shape;
    hrf_layout_strides(x, in);
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t i = 0; i < x->rank; i++) {
        repeats[i] = spec->output.shape.dims[i] / x->dims[i];
        n *= repeats[i];
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at = 0;
        for (int32_t i = x->rank - 1; i >= 0; i--) {
            at += rest % repeats[i] * x->dims[i] * out[i];
            rest /= repeats[i];
        }
        copy_box(x, element_size(spec), hrf_spec_data(spec, call, 0), in,
                 (char *)call->output + at * (int64_t)element_size(spec), out);
    }
}

static void plain_move_fill(const struct hrf_spec *spec, float value, void *out)
{
    const int64_t n = hrf_shape_count(&spec->output.shape);
    const struct hrf_quantization *q = &spec->output.quantization;
    switch (spec->output.dtype) {
    case HRF_S8:
    case HRF_U8:
        memset(out, hrf_quantize(value, spec->output.dtype, q) & 0xff, (size_t)n);
        break;
    case HRF_F16:
    case HRF_B16: {
        const uint16_t bits = spec->output.dtype == HRF_F16 ? hrf_f16_from_float(value)
                                                            : hrf_b16_from_float(value);
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = bits;
        break;
    }
    default:
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] = value;
        break;
    }
}

/* Copies outwards, axis by axis, what is already in the output. Along later axes only the inside is
 * there yet. */
static void copy_outwards(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t out[HRF_MAX_RANK];
    const struct hrf_attributes *a = &spec->attributes;
    const int64_t bytes = (int64_t)element_size(spec);
    const int32_t rank = spec->output.shape.rank;
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t axis = 0; axis < rank; axis++) {
        const int64_t size = spec->inputs[0].shape.dims[axis];
        struct hrf_shape slab = spec->output.shape;
        int64_t first = 0;
        for (int32_t i = axis + 1; i < rank; i++) {
            slab.dims[i] = spec->inputs[0].shape.dims[i];
            first += a->pad.sizes[i] * out[i];
        }
        slab.dims[axis] = 1;
        for (int64_t k = 0; k < spec->output.shape.dims[axis]; k++) {
            if (k >= a->pad.sizes[axis] && k < a->pad.sizes[axis] + size)
                continue;
            const int64_t begin = a->pad.sizes[axis];
            const int64_t from = begin + hrf_pad_source(a->pad.mode, k - begin, size);
            char *y = call->output;
            copy_box(&slab, (size_t)bytes, y + (first + from * out[axis]) * bytes, out,
                     y + (first + k * out[axis]) * bytes, out);
        }
    }
}

static void run_pad(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK], first = 0;
    const struct hrf_attributes *attributes = &spec->attributes;
    const int64_t bytes = (int64_t)element_size(spec);
    hrf_layout_strides(&spec->inputs[0].shape, in);
    hrf_layout_strides(&spec->output.shape, out);
    if (attributes->pad.mode == HRF_PAD_CONSTANT)
        plain_move_fill(spec, attributes->pad.value, call->output);
    struct hrf_shape kept = spec->inputs[0].shape; /* what is left of it after negative pads */
    int64_t skipped = 0;
    for (int32_t i = 0; i < attributes->n_axes; i++) {
        const int32_t axis = attributes->n_axes == spec->output.shape.rank
                                 ? i
                                 : (int32_t)attributes->axes[i];
        const int64_t begin = attributes->pad.sizes[i],
                      end = attributes->pad.sizes[attributes->n_axes + i];
        first += begin > 0 ? begin * out[axis] : 0;
        skipped += begin < 0 ? -begin * in[axis] : 0;
        kept.dims[axis] += (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
    }
    copy_box(&kept, (size_t)bytes, (const char *)hrf_spec_data(spec, call, 0) + skipped * bytes, in,
             (char *)call->output + first * bytes, out);
    if (attributes->pad.mode != HRF_PAD_CONSTANT)
        copy_outwards(spec, call);
}

static move_function *function_of(enum hrf_op op)
{
    static move_function *const functions[HRF_N_OPS] = {
        [HRF_OP_CONCAT] = run_concat,
        [HRF_OP_TRANSPOSE] = run_transpose,
        [HRF_OP_SLICE] = run_slice,
        [HRF_OP_DEPTH_TO_SPACE] = run_blocks,
        [HRF_OP_SPACE_TO_DEPTH] = run_blocks,
        [HRF_OP_GATHER] = run_gather,
        [HRF_OP_EXPAND] = run_expand,
        [HRF_OP_TILE] = run_tile,
        [HRF_OP_PAD] = run_pad,
    };
    return hrf_op_info(op)->op_class == HRF_CLASS_VIEW ? run_reshape : functions[op];
}

static enum hrf_status plain_move_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                      struct hrf_error *err)
{
    const struct move_kernel *kernel = (const struct move_kernel *)base;
    (void)err;
    kernel->function(kernel->spec, call);
    return HRF_OK;
}

static void plain_move_destroy(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct move_kernel *)base)->spec);
    hrf_free(base);
}

enum hrf_status hrf_move_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                 const struct hrf_graph *graph, const struct hrf_node *node,
                                 struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row, (void)backend;
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    struct move_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = plain_move_run,
                                        .destroy = plain_move_destroy,
                                        .weight_bytes = hrf_spec_constant_bytes(spec) };
    kernel->function = function_of(spec->op);
    assert(kernel->function != NULL);
    if (spec->op != HRF_OP_DEPTH_TO_SPACE && spec->op != HRF_OP_SPACE_TO_DEPTH &&
        !spec->attributes.channels_last && !hrf_layout_is_onnx(&spec->inputs[0].shape) &&
        !hrf_layout_is_onnx(&spec->output.shape))
        kernel->base.workspace_bytes = (size_t)hrf_shape_count(&spec->output.shape) *
                                       element_size(spec);
    HRF_MOVE(kernel->spec, spec);
    *out = &kernel->base;
    return HRF_OK;
}
