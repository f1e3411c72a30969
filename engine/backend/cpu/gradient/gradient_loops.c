/* gradient_loops.c - the other operators of graphs of gradients. Each number of the output is made
 * by one thread, in one order. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/narrow_floats.h"
#include "engine/backend/formulas.h"

#include <math.h>
#include <string.h>

/* ---- functions of one number ---- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Of functions that hrf_cpu_derive() does not know, in double: a loop for each function, so that
 * the compiler sees one formula at a time. */
#define LOOP_OF(OP, FORMULA)                                                                       \
    static void loop_of_##OP(const struct hrf_attributes *a, const float *numbers,                 \
                             const float *dy, float *out, int64_t n)                               \
    {                                                                                              \
        const double alpha = (double)a->alpha, beta = (double)a->beta;                             \
        const double low = (double)a->activation_min, high = (double)a->activation_max;            \
        (void)alpha, (void)beta, (void)low, (void)high;                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const double x = (double)numbers[i];                                                   \
            (void)x;                                                                               \
            out[i] = (float)((double)dy[i] * (FORMULA));                                           \
        }                                                                                          \
    }
HRF_DERIVATIVES(LOOP_OF)
#undef LOOP_OF

typedef void derivative_loop(const struct hrf_attributes *a, const float *x, const float *dy,
                             float *out, int64_t n);
static derivative_loop *const loops[] = {
#define ENTRY(OP, FORMULA) [HRF_OP_##OP - HRF_OP_RELU] = loop_of_##OP,
    HRF_DERIVATIVES(ENTRY)
#undef ENTRY
};
_Static_assert(HRF_N_DERIVATIVES == HRF_OP_CLIP + 1 - HRF_OP_RELU,
               "a derivative for every function of one number");

void hrf_cpu_function_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *a = &spec->attributes;
    const enum hrf_op function = (enum hrf_op)a->function;
    const enum hrf_dtype x_type = spec->inputs[0].dtype, dy_type = spec->inputs[1].dtype;
    const enum hrf_dtype y_type = spec->output.dtype;
    const void *of_x = hrf_spec_data(spec, call, 0), *of_dy = hrf_spec_data(spec, call, 1);
    const int64_t n = hrf_shape_count(&spec->output.shape);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += HRF_HALVES_PIECE) {
        const int64_t count = hrf_min(n - first, HRF_HALVES_PIECE);
        float own[3][HRF_HALVES_PIECE];
        const float *x = hrf_cpu_read(x_type, of_x, first, count, own[0]);
        const float *dy = hrf_cpu_read(dy_type, of_dy, first, count, own[1]);
        float *to = hrf_cpu_place(y_type, call->output, first, own[2]);
        if (!hrf_cpu_derive(function, a, x, dy, to, count))
            loops[function - HRF_OP_RELU](a, x, dy, to, count);
        hrf_cpu_finish(y_type, call->output, first, count, own[2]);
    }
}

/* ---- MAX_POOL ---- */

/* Channels of one image that a thread does at a time. */
enum { CHANNELS = 64 };

/* Elements of an image's window along one axis that lie in it: [begin, end). */
static void clip_window(const struct hrf_window *w, int i, int64_t out, int64_t size,
                        int64_t *begin, int64_t *end)
{
    const int64_t first = out * w->stride[i] - w->pad_begin[i], step = w->dilation[i];
    *begin = first >= 0 ? 0 : hrf_ceil_div(-first, step);
    *end = first >= size ? 0 : hrf_min(w->kernel[i], hrf_ceil_div(size - first, step));
}

/* Gives the n channels of output (oy, ox) to the pixel of its window that has the first greatest
 * number: a NaN, if there is one. None, if the window sees padding alone. */
static void give_greatest(const struct hrf_spec *spec, const float *x, int64_t oy, int64_t ox,
                          int64_t n, const float *dy, float *dx)
{
    const struct hrf_window *w = &spec->attributes.window;
    const int64_t *in = spec->inputs[0].shape.dims, channels = in[1];
    int64_t y0, y1, x0, x1;
    float greatest[CHANNELS];
    int32_t best[CHANNELS];
    clip_window(w, 0, oy, in[2], &y0, &y1);
    clip_window(w, 1, ox, in[3], &x0, &x1);
    const int64_t top = oy * w->stride[0] - w->pad_begin[0];
    const int64_t left = ox * w->stride[1] - w->pad_begin[1];
    for (int64_t c = 0; c < CHANNELS; c++) {
        greatest[c] = -INFINITY;
        best[c] = -1;
    }
    for (int64_t ky = y0; ky < y1; ky++)
        for (int64_t kx = x0; kx < x1; kx++) {
            const int64_t pixel = (top + ky * w->dilation[0]) * in[3] + left + kx * w->dilation[1];
            const float *value = x + pixel * channels;
            const int32_t element = (int32_t)(ky * w->kernel[1] + kx);
            for (int64_t c = 0; c < n; c++) {
                const float v = value[c], most = greatest[c];
                const int more = (best[c] < 0) | (v > most) | ((v != v) & (most == most));
                greatest[c] = more ? v : most;
                best[c] = more ? element : best[c];
            }
        }
    for (int64_t ky = y0; ky < y1; ky++)
        for (int64_t kx = x0; kx < x1; kx++) {
            const int64_t pixel = (top + ky * w->dilation[0]) * in[3] + left + kx * w->dilation[1];
            const int32_t element = (int32_t)(ky * w->kernel[1] + kx);
            float *to = dx + pixel * channels;
            for (int64_t c = 0; c < n; c++)
                to[c] = best[c] == element ? to[c] + dy[c] : to[c];
        }
}

void hrf_cpu_max_pool_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0), *dy = hrf_spec_data(spec, call, 1);
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const int64_t blocks = (in[1] + CHANNELS - 1) / CHANNELS, area = in[2] * in[3];
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < in[0] * blocks; task++) {
        const int64_t image = task / blocks, first = task % blocks * CHANNELS;
        const int64_t n = hrf_min(in[1] - first, CHANNELS);
        const float *from = x + image * area * in[1] + first;
        float *dx = hrf_floats(call) + image * area * in[1] + first;
        for (int64_t i = 0; i < area; i++)
            memset(dx + i * in[1], 0, (size_t)n * sizeof *dx);
        for (int64_t i = 0; i < out[2] * out[3]; i++)
            give_greatest(spec, from, i / out[3], i % out[3], n,
                          dy + (image * out[2] * out[3] + i) * in[1] + first, dx);
    }
}

/* ---- GATHER ---- */

void hrf_cpu_gather_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *dy = hrf_spec_data(spec, call, 0);
    const int64_t *indices = spec->inputs[1].constant;
    const int64_t axis = spec->attributes.axis, n = spec->inputs[1].shape.dims[0];
    struct hrf_shape box = spec->output.shape; /* that one index adds to */
    struct hrf_walk walk;
    int64_t strides[2][HRF_MAX_RANK];
    hrf_layout_strides(&spec->output.shape, strides[0]);
    hrf_layout_strides(&spec->inputs[0].shape, strides[1]);
    box.dims[axis] = 1;
    hrf_walk_init(&walk, &box, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    const int32_t last = walk.rank - 1;
    memset(call->output, 0, (size_t)hrf_shape_count(&spec->output.shape) * sizeof(float));
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < hrf_walk_rows(&walk); row++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(&walk, row, at);
        for (int64_t k = 0; k < n; k++) {
            float *to = hrf_floats(call) + at[0] + indices[k] * strides[0][axis];
            const float *from = dy + at[1] + k * strides[1][axis];
            for (int64_t i = 0; i < walk.dims[last]; i++)
                to[i * walk.strides[0][last]] += from[i * walk.strides[1][last]];
        }
    }
}
