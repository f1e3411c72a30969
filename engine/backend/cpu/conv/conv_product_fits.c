/* conv_product_fits.c - which convolutions and matrix products conv_product.c is the quickest for.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/product.h"

static bool window_is_a_pixel(const struct hrf_window *w, const struct hrf_shape *weights)
{
    bool is_pixel = true;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        is_pixel &= weights->dims[2 + i] == 1 && w->pad_begin[i] == 0 && w->pad_end[i] == 0;
    return is_pixel;
}

bool hrf_cpu_product_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    return hrf_cpu_avx512_fits(graph, node) && node->attributes.group == 1 &&
           window_is_a_pixel(w, k) && hrf_cpu_is_as_fast(graph, node, k->dims[1] % 2 == 0);
}

bool hrf_cpu_product_fits_gemm(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool has_bias = node->n_inputs > HRF_CONV_BIAS && node->inputs[HRF_CONV_BIAS] >= 0;
    if (!hrf_cpu_avx512_fits(graph, node) || a->transpose_a || a->alpha != 1 ||
        hrf_shape_last(&y->shape) < HRF_PANEL)
        return false;
    if (!has_bias)
        return true;
    const struct hrf_value *bias = &graph->values[node->inputs[HRF_CONV_BIAS]];
    const bool one_each = hrf_shape_count(&bias->shape) == hrf_shape_last(&y->shape) &&
                          hrf_shape_last(&bias->shape) == hrf_shape_last(&y->shape);
    return bias->data != NULL && a->beta == 1 && one_each;
}
