/* depthwise_weight_gradient.c - CONV_WEIGHT_GRADIENT where each channel has a window of its own,
 * for which oneDNN 2.6 has no kernel but for few windows. A task is a block of channels of one
 * image; what the images give is added in their order, so that the bits do not depend on the number
 * of threads. */
#include "engine/backend/cpu/gradient/depthwise_weight_gradient.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/window_span.h"

#include <omp.h>
#include <string.h>

enum { LANES = HRF_DEPTHWISE_LANES };

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define LOOPS(what) hrf_depthwise_##what##_avx2
#else
#define LOOPS(what) hrf_depthwise_##what##_plain
#endif

struct geometry {
    const struct hrf_window *window;
    int64_t n_images, channels, n_blocks, n_taps;
    int64_t rows, columns, out_rows, out_columns;
    int64_t span_rows;    /* of a window: so many rows of the image are kept as floats */
    int64_t span_columns; /* of all windows of a row */
    int64_t task_floats;  /* scratch of a thread */
};

static struct geometry geometry_of(const struct hrf_spec *spec)
{
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const struct hrf_window *w = &spec->attributes.window;
    struct geometry g = { .window = w,
                          .n_images = in[0],
                          .channels = in[1],
                          .n_blocks = hrf_ceil_div(in[1], LANES),
                          .n_taps = w->kernel[0] * w->kernel[1],
                          .rows = in[2],
                          .columns = in[3],
                          .out_rows = out[2],
                          .out_columns = out[3],
                          .span_rows = hrf_window_span(w, 0, 1),
                          .span_columns = hrf_window_span(w, 1, out[3]) };
    g.task_floats = (g.span_rows * g.span_columns + g.out_columns) * LANES;
    return g;
}

const char *hrf_cpu_depthwise_weight_gradient_misfit(const struct hrf_graph *graph,
                                                     const struct hrf_node *node)
{
    const int64_t *weights = graph->values[node->outputs[0]].shape.dims;
    const int64_t group = node->attributes.group;
    return group > 1 && weights[0] == group && weights[1] == 1 ? NULL : "it is not depth-wise";
}

/* The sums of each image, then the threads' scratch. */
size_t hrf_cpu_depthwise_weight_gradient_workspace(const struct hrf_spec *spec)
{
    const struct geometry g = geometry_of(spec);
    return (size_t)(g.n_images * g.n_blocks * g.n_taps * LANES +
                    omp_get_max_threads() * g.task_floats) *
           sizeof(float);
}

static void widen(const struct geometry *g, const float *from, int64_t n, int64_t n_channels,
                  float *to)
{
    const struct hrf_depthwise_pixels pixels = { .type = HRF_F32, .stride = g->channels };
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        hrf_depthwise_widen_avx512(&pixels, from, n, n_channels, to, LANES);
        return;
    }
#endif
    LOOPS(widen)(&pixels, from, n, n_channels, to, LANES);
}

static void add_line(const struct hrf_depthwise_weight_line *line, float *sums)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        hrf_depthwise_weight_line_avx512(line, sums);
        return;
    }
#endif
    LOOPS(weight_line)(line, sums);
}

/* x and dy: an image's, at the block's first channel. kept[span_rows][span_columns][LANES]: row r
 * of the image with its border is in place r % span_rows, where the columns of the border stay 0.
 */
static void do_task(const struct geometry *g, const float *x, const float *dy, int64_t n_channels,
                    float *kept, float *sums)
{
    const struct hrf_window *w = g->window;
    const int64_t left = hrf_min(w->pad_begin[1], g->span_columns);
    const int64_t n_seen = hrf_min(g->columns, g->span_columns - left);
    float *own_dy = kept + g->span_rows * g->span_columns * LANES;
    int64_t next = 0; /* row of the image with its border */
    memset(kept, 0, (size_t)(g->span_rows * g->span_columns * LANES) * sizeof *kept);
    memset(sums, 0, (size_t)(g->n_taps * LANES) * sizeof *sums);
    for (int64_t oy = 0; oy < g->out_rows; oy++) {
        const int64_t first = oy * w->stride[0];
        for (next = hrf_max(next, first); next < first + g->span_rows; next++) {
            const int64_t row = next - w->pad_begin[0];
            if (row >= 0 && row < g->rows)
                widen(g, x + row * g->columns * g->channels, n_seen, n_channels,
                      kept + (next % g->span_rows * g->span_columns + left) * LANES);
        }
        widen(g, dy + oy * g->out_columns * g->channels, g->out_columns, n_channels, own_dy);
        for (int64_t ky = 0; ky < w->kernel[0]; ky++) {
            const int64_t at = first + ky * w->dilation[0], row = at - w->pad_begin[0];
            const struct hrf_depthwise_weight_line line = { .x = kept + at % g->span_rows *
                                                                            g->span_columns * LANES,
                                                            .dy = own_dy,
                                                            .window_columns = w->kernel[1],
                                                            .n = g->out_columns,
                                                            .dilation = w->dilation[1],
                                                            .stride = w->stride[1] };
            if (row >= 0 && row < g->rows)
                add_line(&line, sums + ky * w->kernel[1] * LANES);
        }
    }
}

void hrf_cpu_depthwise_weight_gradient(const struct hrf_spec *spec,
                                       const struct hrf_kernel_call *call)
{
    const struct geometry g = geometry_of(spec);
    const float *x = hrf_spec_data(spec, call, 0), *dy = hrf_spec_data(spec, call, 1);
    const int64_t n_tasks = g.n_images * g.n_blocks, task_sums = g.n_taps * LANES;
    float *sums = call->workspace, *scratch = sums + n_tasks * task_sums, *out = hrf_floats(call);
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < n_tasks; task++) {
        const int64_t image = task / g.n_blocks, first = task % g.n_blocks * LANES;
        do_task(&g, x + image * g.rows * g.columns * g.channels + first,
                dy + image * g.out_rows * g.out_columns * g.channels + first,
                hrf_min(LANES, g.channels - first), scratch + omp_get_thread_num() * g.task_floats,
                sums + task * task_sums);
    }
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < g.channels; c++)
        for (int64_t tap = 0; tap < g.n_taps; tap++) {
            double sum = 0;
            for (int64_t image = 0; image < g.n_images; image++)
                sum += (double)
                    sums[((image * g.n_blocks + c / LANES) * g.n_taps + tap) * LANES + c % LANES];
            out[c * g.n_taps + tap] = (float)sum;
        }
}
