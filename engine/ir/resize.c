#include "engine/ir/resize.h"

#include <math.h>

/* Which pixel is nearest may depend on the last bit of a position, and ONNX Runtime computes
 * positions as floats. Interpolated values change no more than the position does, so they use all
 * its bits. */
static double position(const struct hrf_resize *r, double x)
{
    return r->mode == HRF_RESIZE_NEAREST ? (double)(float)x : x;
}

/* Source: ONNX Resize, coordinate_transformation_mode. */
static double origin_of(const struct hrf_resize *r, double scale, int64_t x, int64_t n_in,
                        int64_t n_out)
{
    const double half = position(r, position(r, ((double)x + 0.5) / scale) - 0.5);
    switch (r->coordinates) {
    case HRF_RESIZE_PYTORCH_HALF_PIXEL:
        return n_out > 1 ? half : 0;
    case HRF_RESIZE_ALIGN_CORNERS:
        /* The corners meet, whatever the scale, as in PyTorch and ONNX Runtime. ONNX's reference
         * code divides by the exact scaled length less 1 instead. */
        return n_out > 1 ? position(r, (double)x * (double)(n_in - 1) / (double)(n_out - 1)) : 0;
    case HRF_RESIZE_ASYMMETRIC:
        return position(r, (double)x / scale);
    default:
        return half;
    }
}

static double nearest(enum hrf_resize_rounding rounding, double x)
{
    switch (rounding) {
    case HRF_RESIZE_PREFER_CEIL:
        return floor(x + 0.5);
    case HRF_RESIZE_FLOOR:
        return floor(x);
    case HRF_RESIZE_CEIL:
        return ceil(x);
    default:
        return ceil(x - 0.5);
    }
}

/* Keys' cubic at distance x. */
static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static void put_tap(struct hrf_resize_tap *tap, int i, double at, double weight, int64_t n_in)
{
    tap->index[i] = at < 0 ? 0 : at > (double)(n_in - 1) ? n_in - 1 : (int64_t)at;
    tap->weight[i] = weight;
}

static struct hrf_resize_tap cubic_tap(const struct hrf_resize *r, double origin, int64_t n_in)
{
    struct hrf_resize_tap tap = { .weight = { 0 } };
    double sum = 0;
    for (int i = 0; i < HRF_RESIZE_TAPS; i++) {
        const double at = floor(origin) - 1 + i;
        const bool counts = !r->exclude_outside || (at >= 0 && at <= (double)(n_in - 1));
        put_tap(&tap, i, at, counts ? cubic((double)r->cubic_a, origin - at) : 0, n_in);
        sum += tap.weight[i];
    }
    for (int i = 0; i < HRF_RESIZE_TAPS && r->exclude_outside; i++)
        tap.weight[i] /= sum;
    return tap;
}

static struct hrf_resize_tap tap_of(const struct hrf_resize *r, double origin, int64_t n_in)
{
    struct hrf_resize_tap tap = { .weight = { 0 } };
    const double low = floor(origin);
    if (r->mode == HRF_RESIZE_CUBIC)
        return cubic_tap(r, origin, n_in);
    if (r->mode == HRF_RESIZE_NEAREST) {
        put_tap(&tap, 0, nearest(r->rounding, origin), 1, n_in);
        return tap;
    }
    put_tap(&tap, 0, low, 1 - (origin - low), n_in);
    put_tap(&tap, 1, low + 1, origin - low, n_in);
    return tap;
}

int32_t hrf_resize_n(const struct hrf_resize *resize)
{
    return resize->mode == HRF_RESIZE_NEAREST  ? 1
           : resize->mode == HRF_RESIZE_LINEAR ? 2
                                               : HRF_RESIZE_TAPS;
}

double hrf_resize_size(const struct hrf_resize *resize, int64_t size, int axis)
{
    return floor((double)((float)size * resize->scales[axis]));
}

struct hrf_resize_tap hrf_resize_tap_at(const struct hrf_resize *r, int axis, int64_t n_in,
                                        int64_t n_out, int64_t i)
{
    const struct hrf_resize_part *part = &r->part[axis];
    const bool is_part = part->n_in > 0;
    const int64_t all_in = is_part ? part->n_in : n_in, all_out = is_part ? part->n_out : n_out;
    const double scale = r->scales[0] > 0 ? (double)r->scales[2 + axis]
                                          : position(r, (double)all_out / (double)all_in);
    const double origin = origin_of(r, scale, i + part->first_out, all_in, all_out);
    struct hrf_resize_tap tap = tap_of(r, origin, all_in);
    for (int t = 0; t < hrf_resize_n(r); t++)
        tap.index[t] -= part->first_in;
    return tap;
}
