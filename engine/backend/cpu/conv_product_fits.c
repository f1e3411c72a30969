/* conv_product_fits.c - which convolutions and matrix products conv_product.c is the quickest for.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/product.h"

enum {
    FEW_PIXELS = 128,                 /* fewer than pay for reading large weights more than once */
    LONG_SUM = 2 * HRF_PRODUCT_CHAIN, /* products, from which on the chains of those sums matter */
};

/* In cycles of one thread for each output pixel: multiply-adds at what was measured of their peak,
 * and for the product the gathering of a row, which the second-level cache limits (5 % of 256
 * channels' time, 10 % of 128's), and the calls for each row of the window. */
static double own_cycles(int64_t depth, int64_t columns, int64_t kernel_rows)
{
    const int64_t whole = hrf_ceil_div(columns, HRF_PANEL) * HRF_PANEL;
    const double multiply_adds = (double)(depth * whole) / hrf_cpu_multiply_adds_per_cycle() / 0.94;
    return multiply_adds + 0.45 * (double)depth + 25.0 * (double)kernel_rows;
}

/* oneDNN reads rows where they stand. Of stride 1 it needs no more than its multiply-adds; else it
 * is the better if one line of the cache serves the next pixel as well, the worse if pixels that
 * follow each other compete for the same lines. */
static double dnn_cycles(int64_t depth, int64_t columns, int64_t stride, int64_t channels)
{
    const bool collides = stride * channels * (int64_t)sizeof(float) % 4096 == 0;
    const double efficiency = stride == 1 ? 1 : collides ? 0.7 : 0.82;
    return (double)(depth * columns) / hrf_cpu_multiply_adds_per_cycle() / efficiency;
}

/* For windows of more than a pixel: where oneDNN is slower or less exact.
 *
 * oneDNN adds up all products of an output one after the other. Float32 sums of more than LONG_SUM
 * are computed here for their exactness (product.h), even where that takes longer: 1,152 products
 * then have a third of the error, 1,800 an eighth. Layers whose outputs fill no panels pay most
 * (3x3: 200 channels to 48 0.74 -> 1.42 ms, 64 to 64 of stride 2 0.33 -> 0.45); of 128 and more
 * with a stride, and wherever Winograd fits, there is nothing to pay. Sums that are rounded to 16
 * bits gain nothing.
 *
 * oneDNN is slower with strides, unless there are too few outputs to pay for the gathering
 * (measured at stride 2: 64 channels to 128 pay, 96 to 96 do not); and where large weights serve
 * few pixels, which it shares out among the threads, so that each reads all weights (512 channels
 * of 8x8 pixels: 1.4 ms, 1.2 here). */
static bool window_fits(const struct hrf_window *w, const struct hrf_shape *k,
                        const struct hrf_shape *y, enum hrf_dtype type)
{
    const int64_t channels = k->dims[1], columns = k->dims[0];
    const int64_t depth = channels * k->dims[2] * k->dims[3];
    const int64_t n_pixels = y->dims[0] * y->dims[2] * y->dims[3];
    if (type == HRF_F32 && depth > LONG_SUM)
        return true;
    if (n_pixels <= FEW_PIXELS && depth * columns * (int64_t)sizeof(float) > HRF_CPU_LARGE_WEIGHTS)
        return true;
    return own_cycles(depth, columns, k->dims[2]) <
           dnn_cycles(depth, columns, w->stride[1], channels);
}

static bool window_is_a_pixel(const struct hrf_window *w, const struct hrf_shape *weights)
{
    bool is_pixel = true;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        is_pixel &= weights->dims[2 + i] == 1 && w->pad_begin[i] == 0 && w->pad_end[i] == 0;
    return is_pixel;
}

/* Then each would compute its pixels' prologues anew, which strips compute once (256 channels to
 * 128, 3x3 of stride 2: 22 ms, and 17 in strips; to 64 38 and 25). */
static bool windows_overlap(const struct hrf_window *w, const struct hrf_shape *k)
{
    return w->stride[0] < k->dims[2] || w->stride[1] < k->dims[3];
}

/* Where oneDNN multiplies bfloat16, too, and reads windows where they stand as fast as this kernel
 * its rows: it is the slower at single pixels only, unless panels are not full (48 columns: 37 %
 * behind, 144: 11 %). */
static bool pairs_fit(const struct hrf_window *w, const struct hrf_shape *k)
{
    const int64_t whole = hrf_ceil_div(k->dims[0], HRF_PANEL) * HRF_PANEL;
    return window_is_a_pixel(w, k) && k->dims[1] % 2 == 0 && 16 * (whole - k->dims[0]) <= whole;
}

bool hrf_cpu_product_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_comes_at_run_time(graph, node) ||
        !hrf_cpu_types_fit(graph, node) || node->attributes.group != 1 || hrf_shape_count(y) == 0)
        return false;
    if (hrf_cpu_native_speed(graph, node) > 1)
        return pairs_fit(w, k);
    if (window_is_a_pixel(w, k))
        return true;
    return !(hrf_node_has_prologue(node) && windows_overlap(w, k)) &&
           window_fits(w, k, y, graph->values[node->outputs[0]].dtype);
}

bool hrf_cpu_product_accepts_pixel_stride(const struct hrf_graph *graph,
                                          const struct hrf_node *node)
{
    return window_is_a_pixel(&node->attributes.window,
                             &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape);
}

bool hrf_cpu_product_fits_gemm(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool has_bias = node->n_inputs > HRF_CONV_BIAS && node->inputs[HRF_CONV_BIAS] >= 0;
    if (!hrf_cpu_has_avx512() || a->transpose_a || a->alpha != 1 ||
        hrf_shape_count(&y->shape) == 0 || y->shape.dims[1] < HRF_PANEL ||
        !hrf_cpu_types_fit(graph, node) || !hrf_cpu_comes_at_run_time(graph, node) ||
        hrf_cpu_constant(graph, node, HRF_CONV_WEIGHTS) == NULL)
        return false;
    if (!has_bias)
        return true;
    const struct hrf_value *bias = &graph->values[node->inputs[HRF_CONV_BIAS]];
    const bool one_each = hrf_shape_count(&bias->shape) == y->shape.dims[1] &&
                          bias->shape.dims[bias->shape.rank - 1] == y->shape.dims[1];
    return bias->data != NULL && a->beta == 1 && one_each;
}
