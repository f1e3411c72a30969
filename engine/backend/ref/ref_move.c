/* ref_move.c - operators whose every output is one of the inputs' numbers, and RESIZE, whose output
 * is a few of them, weighted. Source: ONNX. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>
#include <string.h>

/* ---- moves ---- */

/* Output pixel and channel of DEPTH_TO_SPACE from those of its input, or the other way round for
 * SPACE_TO_DEPTH: the block's row and column come out of, or go into, the channel. */
static void move_block(const struct hrf_ref_node *node, const int64_t *at, int64_t *from)
{
    const struct hrf_attributes *a = &node->attributes;
    const int64_t block = a->block.size, *out = node->output.shape.dims,
                  *in = node->inputs[0].shape.dims;
    from[0] = at[0];
    if (node->op == HRF_OP_SPACE_TO_DEPTH) {
        const int64_t position = at[1] / in[1]; /* in the block */
        from[1] = at[1] % in[1];
        from[2] = at[2] * block + position / block;
        from[3] = at[3] * block + position % block;
        return;
    }
    const int64_t y = at[2] + a->block.skip[0], u = at[3] + a->block.skip[1];
    const int64_t position = y % block * block + u % block;
    from[1] = a->block.column_row_depth ? at[1] * block * block + position
                                        : position * out[1] + at[1];
    from[2] = y / block;
    from[3] = u / block;
}

/* The indices' axes stand in the place of the input's `axis`. */
static void move_gather(const struct hrf_ref_node *node, const int64_t *at,
                        int64_t from[HRF_MAX_RANK])
{
    const struct hrf_ref_tensor *x = &node->inputs[0], *indices = &node->inputs[1];
    const int64_t axis = node->attributes.axis;
    const int32_t n = indices->shape.rank;
    const int64_t k = (int64_t)indices->numbers[hrf_ref_index(&indices->shape, at + axis)];
    for (int32_t i = 0; i < x->shape.rank; i++)
        from[i] = i < axis ? at[i] : i > axis ? at[i + n - 1] : k < 0 ? k + x->shape.dims[i] : k;
}

/* Where a place outside an axis of `size` is copied from: 3 2 | 0 1 2 3 ... */
static int64_t fold_back(enum hrf_pad_mode mode, int64_t at, int64_t size)
{
    if (mode == HRF_PAD_EDGE)
        return at < 0 ? 0 : at >= size ? size - 1 : at;
    if (mode == HRF_PAD_REFLECT)
        return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
    return mode == HRF_PAD_WRAP ? ((at % size) + size) % size : at;
}

/* Where output position `at` comes from in input *input; false: PAD's constant. */
static bool source_of(const struct hrf_ref_node *node, const int64_t *at, int32_t *input,
                      int64_t from[HRF_MAX_RANK])
{
    const struct hrf_attributes *a = &node->attributes;
    bool inside = true;
    memcpy(from, at, HRF_MAX_RANK * sizeof *from);
    switch (node->op) {
    case HRF_OP_CONCAT:
        while (from[a->axis] >= node->inputs[*input].shape.dims[a->axis])
            from[a->axis] -= node->inputs[(*input)++].shape.dims[a->axis];
        break;
    case HRF_OP_TRANSPOSE:
        for (int32_t i = 0; i < node->output.shape.rank; i++)
            from[a->axes[i]] = at[i];
        break;
    case HRF_OP_SLICE:
        for (int32_t i = 0; i < a->n_axes; i++)
            from[a->axes[i]] = a->slice.starts[i] +
                               at[a->axes[i]] * (a->slice.steps[i] != 0 ? a->slice.steps[i] : 1);
        break;
    case HRF_OP_PAD:
        for (int32_t i = 0; i < a->n_axes; i++) {
            const int64_t axis = a->n_axes == node->output.shape.rank ? i : a->axes[i];
            from[axis] = fold_back(a->pad.mode, from[axis] - a->pad.sizes[i],
                                   node->inputs[0].shape.dims[axis]);
            inside &= from[axis] >= 0 && from[axis] < node->inputs[0].shape.dims[axis];
        }
        break;
    case HRF_OP_TILE:
        for (int32_t i = 0; i < node->output.shape.rank; i++)
            from[i] = at[i] % node->inputs[0].shape.dims[i];
        break;
    case HRF_OP_GATHER:
        move_gather(node, at, from);
        break;
    default:
        move_block(node, at, from);
        break;
    }
    return inside;
}

void hrf_ref_where(const struct hrf_ref_node *node)
{
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK], from[3];
        hrf_ref_position(&node->output.shape, i, at);
        for (int32_t k = 0; k < 3; k++)
            from[k] = hrf_ref_broadcast(&node->inputs[k].shape, &node->output.shape, at);
        const int32_t k = node->inputs[0].numbers[from[0]] != 0 ? 1 : 2;
        hrf_ref_put(node, i, node->inputs[k].numbers[from[k]]);
    }
}

/* How many of the n numbers x[0], x[stride] ... come before number i: the greatest has none. */
static int64_t count_greater(const double *x, int64_t n, int64_t stride, int64_t i)
{
    const double own = x[i * stride];
    int64_t greater = 0;
    for (int64_t k = 0; k < n; k++) {
        const double other = x[k * stride];
        const bool is_equal = other == own || (isnan(other) && isnan(own));
        greater += is_equal ? k < i : isnan(other) || other > own;
    }
    return greater;
}

void hrf_ref_select_max(const struct hrf_ref_node *node)
{
    const int64_t n = node->inputs[0].shape.dims[0], width = node->inputs[0].shape.dims[1];
    const int64_t n_columns = node->output.shape.dims[0];
    for (int64_t column = 0; column < n_columns; column++)
        for (int64_t row = 0; row < n; row++) {
            if (count_greater(node->inputs[1].numbers + column, n, n_columns, row) > 0)
                continue;
            for (int64_t k = 0; k < width; k++)
                hrf_ref_put(node, column * width + k, node->inputs[0].numbers[row * width + k]);
        }
}

void hrf_ref_top_k_mask(const struct hrf_ref_node *node)
{
    const int64_t n = hrf_shape_last(&node->output.shape);
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        const double *row = node->inputs[0].numbers + i / n * n;
        hrf_ref_put(node, i, count_greater(row, n, 1, i % n) < node->attributes.greatest);
    }
}

/* Those that only change the shape keep the order of the elements. */
static bool keeps_order(enum hrf_op op)
{
    return op == HRF_OP_FLATTEN || op == HRF_OP_RESHAPE || op == HRF_OP_SQUEEZE ||
           op == HRF_OP_UNSQUEEZE || op == HRF_OP_IDENTITY;
}

/* Of RESHAPE: where element `i` of N, C, H, W stands in the order N, H, W, C, or the reverse. Other
 * ranks have one order. */
static int64_t pixel_order(const struct hrf_shape *shape, int64_t i, bool from_pixels)
{
    if (shape->rank != 4)
        return i;
    const int64_t area = shape->dims[2] * shape->dims[3], channels = shape->dims[1];
    const int64_t image = i / (area * channels), rest = i % (area * channels);
    const int64_t inner = from_pixels ? channels : area;
    return image * area * channels + rest % inner * (from_pixels ? area : channels) + rest / inner;
}

/* Of a move that is of_pixels: the input's element that becomes element `i` of the output. */
static int64_t moved_from(const struct hrf_ref_node *node, int64_t i)
{
    const int64_t size = node->attributes.row_size;
    int64_t at = pixel_order(&node->output.shape, i, false);
    if (node->op == HRF_OP_GATHER)
        at = (int64_t)node->inputs[1].numbers[at / size] * size + at % size;
    return pixel_order(&node->inputs[0].shape, at, true);
}

void hrf_ref_move(const struct hrf_ref_node *node)
{
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK] = { 0 }, from[HRF_MAX_RANK];
        int32_t k = 0;
        hrf_ref_position(&node->output.shape, i, at);
        if (node->op == HRF_OP_EXPAND)
            hrf_ref_put(
                node, i,
                hrf_ref_real(node, 0,
                             hrf_ref_broadcast(&node->inputs[0].shape, &node->output.shape, at)));
        else if (node->attributes.channels_last)
            hrf_ref_put(node, i, hrf_ref_real(node, 0, moved_from(node, i)));
        else if (keeps_order(node->op))
            hrf_ref_put(node, i, hrf_ref_real(node, 0, i));
        else if (source_of(node, at, &k, from))
            hrf_ref_put(node, i,
                        hrf_ref_real(node, k, hrf_ref_index(&node->inputs[k].shape, from)));
        else
            hrf_ref_put(node, i, (double)node->attributes.pad.value);
    }
}

/* ---- resize ---- */

/* One output row or column: up to four input ones and their weights. */
struct taps {
    int n;
    int64_t index[4];
    double weight[4];
};

/* Where output i of n_out lies among the n_in of the input. Nearest pixels are chosen by floats, as
 * in ONNX Runtime, for pixels in the middle of two. */
static double coordinate(const struct hrf_resize *r, double scale, int64_t i, int64_t n_in,
                         int64_t n_out)
{
    const float at = (float)i, s = (float)scale;
    const double x = (double)i;
    const bool is_nearest = r->mode == HRF_RESIZE_NEAREST;
    if (n_out == 1 && (r->coordinates == HRF_RESIZE_PYTORCH_HALF_PIXEL ||
                       r->coordinates == HRF_RESIZE_ALIGN_CORNERS))
        return 0;
    if (r->coordinates == HRF_RESIZE_ALIGN_CORNERS)
        return is_nearest ? (double)(at * (float)(n_in - 1) / (float)(n_out - 1))
                          : x * (double)(n_in - 1) / (double)(n_out - 1);
    if (r->coordinates == HRF_RESIZE_ASYMMETRIC)
        return is_nearest ? (double)(at / s) : x / scale;
    return is_nearest ? (double)((at + 0.5f) / s - 0.5f) : (x + 0.5) / scale - 0.5;
}

static double round_to_pixel(enum hrf_resize_rounding rounding, double x)
{
    switch (rounding) {
    case HRF_RESIZE_FLOOR:
        return floor(x);
    case HRF_RESIZE_CEIL:
        return ceil(x);
    case HRF_RESIZE_PREFER_CEIL:
        return floor(x + 0.5);
    default:
        return ceil(x - 0.5);
    }
}

/* How much a pixel at distance d counts: a triangle, or Keys' cubic. */
static double weight_at(const struct hrf_resize *r, double d)
{
    const double a = (double)r->cubic_a;
    d = fabs(d);
    if (r->mode == HRF_RESIZE_LINEAR)
        return d < 1 ? 1 - d : 0;
    return d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
           : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a
                   : 0;
}

static struct taps taps_at(const struct hrf_ref_node *node, int axis, int64_t i)
{
    const struct hrf_resize *r = &node->attributes.resize;
    const struct hrf_resize_part whole = { .n_in = node->inputs[0].shape.dims[2 + axis],
                                           .n_out = node->output.shape.dims[2 + axis] };
    const struct hrf_resize_part p = r->part[axis].n_in > 0 ? r->part[axis] : whole;
    const double scale = r->scales[0] > 0 ? (double)r->scales[2 + axis]
                                          : (double)p.n_out / (double)p.n_in;
    const double x = coordinate(r, scale, i + p.first_out, p.n_in, p.n_out);
    const bool is_cubic = r->mode == HRF_RESIZE_CUBIC;
    struct taps t = { .n = r->mode == HRF_RESIZE_NEAREST ? 1 : is_cubic ? 4 : 2 };
    double sum = 0;
    for (int k = 0; k < t.n; k++) {
        const double at = t.n == 1 ? round_to_pixel(r->rounding, x) : floor(x) + k - is_cubic;
        const double last = (double)(p.n_in - 1);
        const bool counts = !is_cubic || !r->exclude_outside || (at >= 0 && at <= last);
        t.index[k] = (int64_t)fmin(fmax(at, 0), last) - p.first_in;
        t.weight[k] = t.n == 1 ? 1 : counts ? weight_at(r, x - at) : 0;
        sum += t.weight[k];
    }
    for (int k = 0; k < t.n && is_cubic && r->exclude_outside; k++)
        t.weight[k] /= sum;
    return t;
}

void hrf_ref_resize(const struct hrf_ref_node *node)
{
    const struct hrf_shape *in = &node->inputs[0].shape, *out = &node->output.shape;
    for (int64_t i = 0; i < hrf_shape_count(out); i++) {
        int64_t at[HRF_MAX_RANK];
        double sum = 0;
        hrf_ref_position(out, i, at);
        const struct taps rows = taps_at(node, 0, at[2]), columns = taps_at(node, 1, at[3]);
        for (int a = 0; a < rows.n; a++)
            for (int b = 0; b < columns.n; b++) {
                const int64_t from[HRF_MAX_RANK] = { at[0], at[1], rows.index[a],
                                                     columns.index[b] };
                sum += rows.weight[a] * columns.weight[b] *
                       node->inputs[0].numbers[hrf_ref_index(in, from)];
            }
        hrf_ref_put(node, i, sum);
    }
}
