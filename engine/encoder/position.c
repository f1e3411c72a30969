/* position.c - position embeddings at another grid, as timm's resample_abs_pos_embed() and
 * PyTorch's antialiased bicubic interpolation make them: each output is a weighted mean of the
 * inputs in reach, weights by Keys' cubic with a = -0.5, stretched by the factor by which the grid
 * shrinks. */
#include "engine/encoder/build_private.h"
#include "image/cubic.h"

#include <math.h>

/* Weight of input j in output i of one axis: out[i * from + j]. */
static void fill_weights(int64_t from, int64_t to, double *out)
{
    const double scale = (double)from / (double)to, stretch = scale > 1 ? scale : 1;
    const double reach = 2 * stretch;
    for (int64_t i = 0; i < to; i++) {
        const double centre = scale * ((double)i + 0.5);
        const int64_t first = (int64_t)fmax(floor(centre - reach + 0.5), 0);
        const int64_t end = (int64_t)fmin(floor(centre + reach + 0.5), (double)from);
        double sum = 0;
        for (int64_t j = 0; j < from; j++) {
            const bool counts = j >= first && j < end;
            out[i * from + j] = counts ? hrf_cubic(((double)j - centre + 0.5) / stretch) : 0;
            sum += out[i * from + j];
        }
        for (int64_t j = 0; j < from; j++)
            out[i * from + j] /= sum;
    }
}

enum hrf_status hrf_position_resize(const float *in, int64_t from, int64_t to, int64_t channels,
                                    float *out, struct hrf_error *err)
{
    HRF_AUTO_FREE double *weights = hrf_alloc_array((size_t)(from * to), sizeof *weights);
    HRF_AUTO_FREE float *wide = hrf_try_alloc_array((size_t)(from * to * channels), sizeof *wide);
    HRF_CHECK_MEMORY(wide != NULL, err, "no memory for position embeddings");
    fill_weights(from, to, weights);
    for (int64_t y = 0; y < from; y++) /* columns first */
        for (int64_t i = 0; i < to; i++)
            for (int64_t c = 0; c < channels; c++) {
                double sum = 0;
                for (int64_t j = 0; j < from; j++)
                    sum += weights[i * from + j] * (double)in[(y * from + j) * channels + c];
                wide[(y * to + i) * channels + c] = (float)sum;
            }
    for (int64_t i = 0; i < to; i++)
        for (int64_t k = 0; k < to * channels; k++) {
            double sum = 0;
            for (int64_t j = 0; j < from; j++)
                sum += weights[i * from + j] * (double)wide[j * to * channels + k];
            out[i * to * channels + k] = (float)sum;
        }
    return HRF_OK;
}
