/* plain_resize.c - resizes images: each output row and column has a few input rows and columns with
 * weights, which are computed once. */
#include "engine/backend/cpu/plain/plain.h"

#include <string.h>

struct resize_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    int n_taps;
    struct hrf_resize_tap *taps[2]; /* for each output row, and for each output column */
};

static void add_pixel(const float *x, float weight, int64_t n, float *y)
{
    for (int64_t c = 0; c < n; c++)
        y[c] += weight * x[c];
}

static void run_row(const struct resize_kernel *k, const float *x, int64_t i, float *y)
{
    const struct hrf_shape *in = &k->spec->inputs[0].shape, *out = &k->spec->output.shape;
    const int64_t channels = in->dims[1], rows = out->dims[2];
    const int64_t from = k->spec->inputs[0].pixel_stride, to = k->spec->output.pixel_stride;
    const struct hrf_resize_tap *row = &k->taps[0][i % rows];
    for (int64_t u = 0; u < out->dims[3]; u++, y += to) {
        const struct hrf_resize_tap *column = &k->taps[1][u];
        memset(y, 0, (size_t)channels * sizeof *y);
        for (int t = 0; t < k->n_taps * k->n_taps; t++) {
            const int a = t / k->n_taps, b = t % k->n_taps;
            const int64_t line = i / rows * in->dims[2] + row->index[a];
            add_pixel(x + (line * in->dims[3] + column->index[b]) * from,
                      (float)(row->weight[a] * column->weight[b]), channels, y);
        }
    }
}

static enum hrf_status plain_resize_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                        struct hrf_error *err)
{
    (void)err;
    const struct resize_kernel *k = (const struct resize_kernel *)base;
    const struct hrf_shape *out = &k->spec->output.shape;
    const float *x = hrf_spec_data(k->spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < out->dims[0] * out->dims[2]; i++)
        run_row(k, x, i, hrf_floats(call) + i * out->dims[3] * k->spec->output.pixel_stride);
    return HRF_OK;
}

static void plain_resize_destroy(struct hrf_kernel *base)
{
    struct resize_kernel *k = (struct resize_kernel *)base;
    hrf_free(k->taps[0]);
    hrf_free(k->taps[1]);
    hrf_spec_destroy(k->spec);
    hrf_free(k);
}

enum hrf_status hrf_resize_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                   const struct hrf_graph *graph, const struct hrf_node *node,
                                   struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row, (void)backend;
    struct resize_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = plain_resize_run, .destroy = plain_resize_destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    k->n_taps = hrf_resize_n(&k->spec->attributes.resize);
    for (int axis = 0; axis < 2; axis++) {
        const size_t n_out = (size_t)k->spec->output.shape.dims[2 + axis];
        k->taps[axis] = hrf_alloc_array(n_out, sizeof *k->taps[axis]);
        hrf_resize_taps(k->spec, axis, k->taps[axis]);
    }
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
