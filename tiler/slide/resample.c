/* resample.c - see resample.h. */
#include "tiler/slide/resample.h"

#include <assert.h>
#include <math.h>

/* The weight of input pixel `i`, which covers [i, i + 1), in an output that covers [begin, begin +
 * scale). */
static double tap_weight(double begin, double scale, int64_t i)
{
    if (scale < 1) { /* a tent around the centre */
        double weight = 1 - fabs(begin + scale / 2 - 0.5 - (double)i);
        return weight > 0 ? weight : 0;
    }
    double low = fmax(begin, (double)i), high = fmin(begin + scale, (double)(i + 1));
    return high > low ? high - low : 0;
}

/* The first input pixel of output pixel j, counted from the second one that is read; at least -1.
 */
static int64_t first_tap(const struct hrf_axis *axis, int64_t j)
{
    double begin = axis->phase + (double)j * axis->scale;
    return (int64_t)floor(axis->scale < 1 ? begin + axis->scale / 2 - 0.5 : begin);
}

/* Fills the table. The phase is in [0, 1) if the level's downsample is a whole number; otherwise it
 * may lie outside by up to half a level-0 px. */
static void set_phase(struct hrf_axis *axis, int64_t size, double phase)
{
    if (axis->phase == phase)
        return;
    axis->phase = phase;
    for (int64_t j = 0; j < size; j++) {
        float *weights = axis->weights + j * axis->n_taps;
        int64_t first = first_tap(axis, j);
        double begin = phase + (double)j * axis->scale, sum = 0;
        axis->first[j] = (int32_t)(first + 1);
        for (int32_t t = 0; t < axis->n_taps; t++)
            sum += tap_weight(begin, axis->scale, first + t);
        for (int32_t t = 0; t < axis->n_taps; t++)
            weights[t] = (float)(tap_weight(begin, axis->scale, first + t) / sum);
    }
}

static void init_axis(struct hrf_axis *axis, int64_t size, double scale)
{
    axis->scale = scale;
    axis->phase = -1; /* no table yet */
    axis->n_taps = scale >= 1 ? (int32_t)ceil(scale) + 1 : 2;
    axis->extent = (int64_t)ceil((double)size * scale) + axis->n_taps + 4;
    axis->first = hrf_alloc_array((size_t)size, sizeof axis->first[0]);
    axis->weights = hrf_alloc_array((size_t)size, (size_t)axis->n_taps * sizeof axis->weights[0]);
}

/* Adds an input row to the sums of an output row; the first input row sets them. */
static void add_row(float *sums, const unsigned char *in, int64_t n, float weight, bool is_first)
{
    if (is_first)
        for (int64_t i = 0; i < n; i++)
            sums[i] = weight * (float)in[i];
    else
        for (int64_t i = 0; i < n; i++)
            sums[i] += weight * (float)in[i];
}

static unsigned char rounded(float value)
{
    return (unsigned char)(value < 254.5f ? value + 0.5f : 255);
}

/* Resamples the columns of a complete output row. */
static void emit_row(const struct hrf_axis *x, int64_t size, const float *sums, unsigned char *rgb)
{
    const float *weight = x->weights;
    for (int64_t j = 0; j < size; j++) {
        const float *p = sums + 3 * x->first[j];
        float r = 0, g = 0, b = 0;
        for (int32_t t = 0; t < x->n_taps; t++, p += 3, weight++) {
            r += *weight * p[0];
            g += *weight * p[1];
            b += *weight * p[2];
        }
        rgb[3 * j] = rounded(r);
        rgb[3 * j + 1] = rounded(g);
        rgb[3 * j + 2] = rounded(b);
    }
}

/* The last input row that contributes to output row j. */
int64_t hrf_axis_last(const struct hrf_axis *y, int64_t j)
{
    int32_t t = y->n_taps - 1;
    while (t > 0 && y->weights[j * y->n_taps + t] == 0)
        t--;
    return y->first[j] + t;
}

void hrf_resampler_init(struct hrf_resampler *r, int64_t size, double scale_x, double scale_y)
{
    r->size = size;
    init_axis(&r->x, size, scale_x);
    init_axis(&r->y, size, scale_y);
    const double per_row = ceil(1 / scale_y); /* output rows that begin in one input row */
    r->n_open = 2 * (int32_t)per_row + 2;
    r->sums = hrf_alloc_array((size_t)r->n_open * (size_t)r->x.extent, 3 * sizeof r->sums[0]);
    r->line = hrf_alloc_array((size_t)size, 3);
}

void hrf_resampler_release(struct hrf_resampler *r)
{
    hrf_free(r->x.first);
    hrf_free(r->x.weights);
    hrf_free(r->y.first);
    hrf_free(r->y.weights);
    hrf_free(r->sums);
    hrf_free(r->line);
}

void hrf_resampler_set_phase(struct hrf_resampler *r, double phase_x, double phase_y)
{
    set_phase(&r->x, r->size, phase_x);
    set_phase(&r->y, r->size, phase_y);
}

void hrf_resampler_begin(struct hrf_resampler *r, int64_t first, int64_t n, hrf_take_rows *take,
                         void *context)
{
    assert(first >= 0 && n >= 1 && first + n <= r->size);
    r->first = r->done = first;
    r->end = first + n;
    r->take = take;
    r->context = context;
}

void hrf_resampler_row(struct hrf_resampler *r, int64_t row, const unsigned char *in, int64_t width)
{
    const struct hrf_axis *y = &r->y;
    for (int64_t j = r->done; j < r->end && y->first[j] <= row; j++) {
        const int64_t t = row - y->first[j];
        float *sums = r->sums + j % r->n_open * r->x.extent * 3;
        if (t < y->n_taps)
            add_row(sums, in, 3 * width, y->weights[j * y->n_taps + t], t == 0);
    }
    while (r->done < r->end && hrf_axis_last(y, r->done) <= row) {
        emit_row(&r->x, r->size, r->sums + r->done % r->n_open * r->x.extent * 3, r->line);
        r->take(r->context, r->done++ - r->first, 1, r->line, 3 * r->size);
    }
}
