/* resize.c - images of other sizes: for each output row and column a few input ones and weights,
 * worked out once. Shared by the back ends of host memory. */
#include "engine/backend/backend.h"

#include <math.h>
#include <string.h>

struct resize_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    int n_taps;
    struct hrf_resize_tap *taps[2]; /* of each output row, of each output column */
};

/* Source: ONNX Resize, coordinate_transformation_mode. */
static double origin_of(const struct hrf_resize *r, double scale, int64_t x, int64_t n_in,
                        int64_t n_out)
{
    const double half = ((double)x + 0.5) / scale - 0.5;
    switch (r->coordinates) {
    case HRF_RESIZE_PYTORCH_HALF_PIXEL:
        return n_out > 1 ? half : 0;
    case HRF_RESIZE_ALIGN_CORNERS:
        /* By its reference code the wanted length counts, not what is left of it as a whole. */
        return n_out > 1 ? (double)x * (double)(n_in - 1) / ((double)n_in * scale - 1) : 0;
    case HRF_RESIZE_ASYMMETRIC:
        return (double)x / scale;
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

static void place(struct hrf_resize_tap *tap, int i, double at, double weight, int64_t n_in)
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
        place(&tap, i, at, counts ? cubic((double)r->cubic_a, origin - at) : 0, n_in);
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
        place(&tap, 0, nearest(r->rounding, origin), 1, n_in);
        return tap;
    }
    place(&tap, 0, low, 1 - (origin - low), n_in);
    place(&tap, 1, low + 1, origin - low, n_in);
    return tap;
}

static void add_pixel(const float *x, float weight, int64_t n, float *y)
{
    for (int64_t c = 0; c < n; c++)
        y[c] += weight * x[c];
}

static void run_row(const struct resize_kernel *k, const float *x, int64_t i, float *y)
{
    const struct hrf_shape *in = &k->spec->inputs[0].shape, *out = &k->spec->output.shape;
    const int64_t channels = in->dims[1], rows = out->dims[2];
    const struct hrf_resize_tap *row = &k->taps[0][i % rows];
    for (int64_t u = 0; u < out->dims[3]; u++, y += channels) {
        const struct hrf_resize_tap *column = &k->taps[1][u];
        memset(y, 0, (size_t)channels * sizeof *y);
        for (int t = 0; t < k->n_taps * k->n_taps; t++) {
            const int a = t / k->n_taps, b = t % k->n_taps;
            const int64_t line = i / rows * in->dims[2] + row->index[a];
            add_pixel(x + (line * in->dims[3] + column->index[b]) * channels,
                      (float)(row->weight[a] * column->weight[b]), channels, y);
        }
    }
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct resize_kernel *k = (const struct resize_kernel *)base;
    const struct hrf_shape *out = &k->spec->output.shape;
    const float *x = hrf_spec_data(k->spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < out->dims[0] * out->dims[2]; i++)
        run_row(k, x, i, hrf_floats(call) + i * out->dims[3] * out->dims[1]);
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct resize_kernel *k = (struct resize_kernel *)base;
    hrf_free(k->taps[0]);
    hrf_free(k->taps[1]);
    hrf_spec_destroy(k->spec);
    hrf_free(k);
}

int32_t hrf_resize_n_taps(const struct hrf_spec *spec)
{
    const enum hrf_resize_mode mode = spec->attributes.resize.mode;
    return mode == HRF_RESIZE_NEAREST ? 1 : mode == HRF_RESIZE_LINEAR ? 2 : HRF_RESIZE_TAPS;
}

void hrf_resize_taps(const struct hrf_spec *spec, int axis, struct hrf_resize_tap *taps)
{
    const struct hrf_resize *r = &spec->attributes.resize;
    const int64_t n_in = spec->inputs[0].shape.dims[2 + axis];
    const int64_t n_out = spec->output.shape.dims[2 + axis];
    const double scale = r->scales[0] > 0 ? (double)r->scales[2 + axis]
                                          : (double)n_out / (double)n_in;
    for (int64_t i = 0; i < n_out; i++)
        taps[i] = tap_of(r, origin_of(r, scale, i, n_in, n_out), n_in);
}

enum hrf_status hrf_resize_compile(const struct hrf_graph *graph, const struct hrf_node *node,
                                   struct hrf_kernel **out, struct hrf_error *err)
{
    struct resize_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy, .implementation = "resize" };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    k->n_taps = hrf_resize_n_taps(k->spec);
    for (int axis = 0; axis < 2; axis++) {
        const size_t n_out = (size_t)k->spec->output.shape.dims[2 + axis];
        k->taps[axis] = hrf_alloc_array(n_out, sizeof *k->taps[axis]);
        if (k->taps[axis] == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
        hrf_resize_taps(k->spec, axis, k->taps[axis]);
    }
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
