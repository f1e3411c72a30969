/* memory_layout.c - where the elements of a tensor lie, and walks over several tensors at once. */
#include "base/inline.h"
#include "base/min_max.h"
#include "engine/backend/compute.h"

#include <assert.h>
#include <string.h>

/* Memory order of the axes: N, H, W, C for rank 4, as written otherwise. */
static void memory_order(int32_t rank, int32_t order[HRF_MAX_RANK])
{
    static const int32_t nhwc[4] = { 0, 2, 3, 1 };
    for (int32_t i = 0; i < rank; i++)
        order[i] = rank == 4 ? nhwc[i] : i;
}

void hrf_layout_strides(const struct hrf_shape *shape, int64_t strides[HRF_MAX_RANK])
{
    int32_t order[HRF_MAX_RANK];
    memory_order(shape->rank, order);
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[order[i]] = stride;
        stride *= shape->dims[order[i]];
    }
}

bool hrf_layout_is_onnx(const struct hrf_shape *shape)
{
    return shape->rank != 4 || shape->dims[1] == 1 || (shape->dims[2] == 1 && shape->dims[3] == 1);
}

/* Of a tile, which is a line of the cache long where it is read. Eight rows fit into one set of the
 * first-level cache: with a step of a power of two all are of the same one. */
enum { TILE_ROWS = 8, TILE_COLUMNS = 16 };

HRF_ALWAYS_INLINE void transpose_tiles(const size_t size, int64_t rows, int64_t columns,
                                       const char *in, int64_t in_step, char *out, int64_t out_step)
{
    const int64_t bytes = (int64_t)size;
    for (int64_t column = 0; column < columns; column += TILE_COLUMNS)
        for (int64_t row = 0; row < rows; row += TILE_ROWS) {
            const int64_t end = hrf_min(row + TILE_ROWS, rows);
            for (int64_t c = column; c < hrf_min(column + TILE_COLUMNS, columns); c++)
                for (int64_t r = row; r < end; r++)
                    memcpy(out + (c * out_step + r) * bytes, in + (r * in_step + c) * bytes, size);
        }
}

void hrf_transpose(size_t element_size, int64_t rows, int64_t columns, const void *in,
                   int64_t in_step, void *out, int64_t out_step)
{
    switch (element_size) {
    case 1:
        transpose_tiles(1, rows, columns, in, in_step, out, out_step);
        break;
    case 2:
        transpose_tiles(2, rows, columns, in, in_step, out, out_step);
        break;
    case 4:
        transpose_tiles(4, rows, columns, in, in_step, out, out_step);
        break;
    default:
        assert(element_size == 8);
        transpose_tiles(8, rows, columns, in, in_step, out, out_step);
        break;
    }
}

static void transpose_planes(int64_t n, int64_t rows, int64_t columns, size_t element_size,
                             const void *in, void *out)
{
    enum { PART = 64, PARALLEL_FROM = 1 << 14 }; /* columns of a task; elements */
    const int64_t n_parts = hrf_ceil_div(columns, PART);
#pragma omp parallel for schedule(static) if (n * rows * columns > PARALLEL_FROM)
    for (int64_t i = 0; i < n * n_parts; i++) {
        const int64_t image = i / n_parts, first = i % n_parts * PART;
        const int64_t from = image * rows * columns + first;
        const int64_t to = (image * columns + first) * rows;
        hrf_transpose(element_size, rows, hrf_min(columns - first, PART),
                      (const char *)in + from * (int64_t)element_size, columns,
                      (char *)out + to * (int64_t)element_size, rows);
    }
}

void hrf_layout_from_onnx(const struct hrf_shape *shape, size_t element_size, const void *onnx,
                          void *out)
{
    if (shape->rank == 4)
        transpose_planes(shape->dims[0], shape->dims[1], shape->dims[2] * shape->dims[3],
                         element_size, onnx, out);
    else
        memcpy(out, onnx, (size_t)hrf_shape_count(shape) * element_size);
}

void hrf_layout_to_onnx(const struct hrf_shape *shape, size_t element_size, const void *in,
                        void *onnx)
{
    if (shape->rank == 4)
        transpose_planes(shape->dims[0], shape->dims[2] * shape->dims[3], shape->dims[1],
                         element_size, in, onnx);
    else
        memcpy(onnx, in, (size_t)hrf_shape_count(shape) * element_size);
}

void hrf_layout_broadcast_strides(const struct hrf_shape *operand, const struct hrf_shape *to,
                                  int64_t strides[HRF_MAX_RANK])
{
    int64_t own[HRF_MAX_RANK];
    hrf_layout_strides(operand, own);
    const int32_t missing = to->rank - operand->rank;
    for (int32_t i = 0; i < to->rank; i++)
        strides[i] = i < missing || operand->dims[i - missing] == 1 ? 0 : own[i - missing];
}

/* Axis `outer` can swallow its inner neighbour when one step along it is a whole run of that. */
static bool can_merge(const struct hrf_walk *walk, int32_t outer)
{
    for (int32_t k = 0; k < walk->n_operands; k++)
        if (walk->strides[k][outer] != walk->strides[k][outer + 1] * walk->dims[outer + 1])
            return false;
    return true;
}

static void drop_axis(struct hrf_walk *walk, int32_t axis)
{
    walk->rank--;
    for (int32_t i = axis; i < walk->rank; i++) {
        walk->dims[i] = walk->dims[i + 1];
        for (int32_t k = 0; k < walk->n_operands; k++)
            walk->strides[k][i] = walk->strides[k][i + 1];
    }
}

void hrf_walk_init(struct hrf_walk *walk, const struct hrf_shape *shape, int32_t n_operands,
                   const int64_t strides[][HRF_MAX_RANK])
{
    assert(n_operands <= HRF_WALK_MAX_OPERANDS);
    *walk = (struct hrf_walk){ .n_operands = n_operands };
    int32_t order[HRF_MAX_RANK];
    memory_order(shape->rank, order);
    for (int32_t i = 0; i < shape->rank; i++) {
        const int32_t axis = order[i];
        if (shape->dims[axis] == 1)
            continue;
        walk->dims[walk->rank] = shape->dims[axis];
        for (int32_t k = 0; k < n_operands; k++)
            walk->strides[k][walk->rank] = strides[k][axis];
        walk->rank++;
    }
    for (int32_t i = walk->rank - 2; i >= 0; i--) {
        if (!can_merge(walk, i))
            continue;
        walk->dims[i + 1] *= walk->dims[i];
        drop_axis(walk, i);
    }
    if (walk->rank == 0)
        walk->dims[walk->rank++] = 1; /* a scalar: strides are all 0, one step */
}

int64_t hrf_walk_rows(const struct hrf_walk *walk)
{
    int64_t rows = 1;
    for (int32_t i = 0; i < walk->rank - 1; i++)
        rows *= walk->dims[i];
    return rows;
}

void hrf_walk_seek(const struct hrf_walk *walk, int64_t row, int64_t offsets[HRF_WALK_MAX_OPERANDS])
{
    memset(offsets, 0, HRF_WALK_MAX_OPERANDS * sizeof offsets[0]);
    for (int32_t i = walk->rank - 2; i >= 0; i--) {
        const int64_t index = row % walk->dims[i];
        row /= walk->dims[i];
        for (int32_t k = 0; k < walk->n_operands; k++)
            offsets[k] += index * walk->strides[k][i];
    }
}

struct hrf_gather hrf_gather_of(const struct hrf_spec *spec)
{
    const int64_t axis = spec->attributes.axis;
    const int32_t added = spec->inputs[1].shape.rank; /* axes that stand in the place of one */
    struct hrf_gather gather = { .box = spec->inputs[0].shape,
                                 .n = hrf_shape_count(&spec->inputs[1].shape) };
    int64_t own[HRF_MAX_RANK];
    hrf_layout_strides(&gather.box, gather.in);
    hrf_layout_strides(&spec->output.shape, own);
    gather.box.dims[axis] = 1;
    for (int32_t i = 0; i < gather.box.rank; i++)
        if (i != axis)
            gather.out[i] = own[i < axis ? i : i + added - 1];
    gather.step = gather.in[axis];
    for (int32_t k = 0; k < added; k++)
        gather.steps[k] = own[axis + k];
    return gather;
}

/* Index i, a constant, counted from the beginning of the axis. */
static int64_t gather_index(const struct hrf_spec *spec, int64_t i)
{
    const char *indices = spec->inputs[1].constant;
    int32_t narrow;
    int64_t index;
    if (spec->inputs[1].dtype == HRF_S32) {
        memcpy(&narrow, indices + i * 4, sizeof narrow);
        index = narrow;
    } else {
        memcpy(&index, indices + i * 8, sizeof index);
    }
    return index < 0 ? index + spec->inputs[0].shape.dims[spec->attributes.axis] : index;
}

void hrf_gather_seek(const struct hrf_spec *spec, const struct hrf_gather *gather, int64_t i,
                     int64_t offsets[2])
{
    const struct hrf_shape *indices = &spec->inputs[1].shape;
    int64_t rest = i;
    offsets[0] = gather_index(spec, i) * gather->step;
    offsets[1] = 0;
    for (int32_t k = indices->rank - 1; k >= 0; k--) {
        offsets[1] += rest % indices->dims[k] * gather->steps[k];
        rest /= indices->dims[k];
    }
}

struct hrf_blocks hrf_blocks_of(const struct hrf_spec *spec)
{
    const bool to_space = spec->op == HRF_OP_DEPTH_TO_SPACE;
    const struct hrf_operand *deep = to_space ? &spec->inputs[0] : &spec->output;
    const struct hrf_operand *flat = to_space ? &spec->output : &spec->inputs[0];
    const int64_t *dims = deep->shape.dims;
    const int64_t block = spec->attributes.block.size, rows = dims[2], columns = dims[3];
    const int64_t channels = dims[1] / (block * block), depth = deep->pixel_stride;
    const bool inside = spec->attributes.block.column_row_depth;
    const int64_t pixel = flat->pixel_stride, line = columns * block * pixel;
    const int64_t wide[HRF_MAX_RANK] = { rows * block * line, block * line, line,
                                         block * pixel,       pixel,        1 };
    const int64_t narrow[HRF_MAX_RANK] = {
        rows * columns * depth, columns * depth,           inside ? block : block * channels, depth,
        inside ? 1 : channels,  inside ? block * block : 1
    };
    struct hrf_blocks blocks = {
        .box = { .rank = 6, .dims = { dims[0], rows, block, columns, block, channels } }
    };
    memcpy(blocks.in, to_space ? narrow : wide, sizeof blocks.in);
    memcpy(blocks.out, to_space ? wide : narrow, sizeof blocks.out);
    return blocks;
}
