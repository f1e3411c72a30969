/* lower_smooth.c - smoothing: factors that even out the channels of a product's input before it is
 * rounded to 8 bits, and that its weights take back.
 *
 * Channel k of the input is divided by s[k] and row k of the weights is multiplied by it, so that
 * the product is the same. With peaks p[k], the largest magnitudes of the channels on the sample,
 * and w[k], those of the weights that meet the channel, s = p^a / w^(1 - a): strength a = 0 leaves
 * all of the differences to the input's rounding, 1 gives them all to the weights. Source: Xiao et
 * al., "SmoothQuant", ICML 2023. Here s is rounded to a power of two, so that a float loses nothing
 * by the factors, wherever they are applied.
 */
#include "engine/passes/lower_private.h"

#include <math.h>

/* s is at most so many powers of two away from 1. */
enum { MAX_POWER = 20 };

void hrf_lower_smooth(const float *peaks, const float *weights, int64_t n, float strength,
                      float *factors)
{
    for (int64_t k = 0; k < n; k++) {
        factors[k] = 1;
        if (!(peaks[k] > 0) || !(strength > 0))
            continue;
        /* A channel that no weight meets is divided by the most: it may not cost the others bits.
         */
        const double power = weights[k] > 0
                                 ? rint((double)strength * log2((double)peaks[k]) -
                                        (1 - (double)strength) * log2((double)weights[k]))
                                 : MAX_POWER;
        factors[k] = ldexpf(1, (int)fmax(-MAX_POWER, fmin(MAX_POWER, power)));
    }
}

enum hrf_status hrf_lower_find_smoothing(const struct hrf_graph *graph, int32_t value,
                                         const struct hrf_range *range, float **factors,
                                         struct hrf_error *err)
{
    const int64_t n = hrf_shape_innermost(&graph->values[value].shape);
    if (range == NULL || range->peaks == NULL || range->n_means != n || !(range->strength > 0))
        return HRF_OK;
    HRF_AUTO_FREE float *weights = hrf_try_calloc((size_t)n, sizeof *weights);
    HRF_AUTO_FREE float *found = hrf_try_alloc_array((size_t)n, sizeof *found);
    HRF_CHECK_MEMORY(weights != NULL && found != NULL, err, "no memory to lower a graph");
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (hrf_lower_is_of_rows(graph, &graph->nodes[i]) &&
            graph->nodes[i].inputs[HRF_CONV_X] == value)
            hrf_lower_largest_weights(graph, &graph->nodes[i], weights);
    hrf_lower_smooth(range->peaks, weights, n, range->strength, found);
    HRF_MOVE(*factors, found);
    return HRF_OK;
}
