/* gradient_loops.c - the other operators of graphs of gradients. Each number of the output is made
 * by one thread, in one order. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/formulas.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- functions of one number ---- */

/* Elements per piece of work. */
enum { PIECE = 1 << 12 };

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
    const float *x = hrf_spec_data(spec, call, 0), *dy = hrf_spec_data(spec, call, 1);
    const int64_t n = hrf_shape_count(&spec->output.shape);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t count = hrf_min(n - first, PIECE);
        float *to = hrf_floats(call) + first;
        if (!hrf_cpu_derive(function, a, x + first, dy + first, to, count))
            loops[function - HRF_OP_RELU](a, x + first, dy + first, to, count);
    }
}

/* ---- MAX_POOL ---- */

/* Channels of one image that a thread does at a time. */
enum { CHANNELS = 64 };

/* For each of n channels the pixel of the window of output (oy, ox) that has the first greatest
 * number; -1: the window sees padding alone. */
static void find_greatest(const struct hrf_spec *spec, const float *x, int64_t oy, int64_t ox,
                          int64_t n, int64_t *best)
{
    const struct hrf_window *w = &spec->attributes.window;
    const int64_t *in = spec->inputs[0].shape.dims;
    float greatest[CHANNELS];
    for (int64_t c = 0; c < n; c++) {
        greatest[c] = -FLT_MAX;
        best[c] = -1;
    }
    for (int64_t ky = 0; ky < w->kernel[0]; ky++)
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            const int64_t y = oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0];
            const int64_t u = ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1];
            if (y < 0 || y >= in[2] || u < 0 || u >= in[3])
                continue;
            const int64_t pixel = y * in[3] + u;
            for (int64_t c = 0; c < n; c++) {
                const float value = x[pixel * in[1] + c];
                const bool is_nan = value != value && greatest[c] == greatest[c];
                if (best[c] < 0 || value > greatest[c] || is_nan) {
                    greatest[c] = value;
                    best[c] = pixel;
                }
            }
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
        float *dx = hrf_floats(call) + image * area * in[1] + first;
        int64_t best[CHANNELS];
        for (int64_t i = 0; i < area; i++)
            memset(dx + i * in[1], 0, (size_t)n * sizeof *dx);
        for (int64_t i = 0; i < out[2] * out[3]; i++) {
            const float *d = dy + (image * out[2] * out[3] + i) * in[1] + first;
            find_greatest(spec, x + image * area * in[1] + first, i / out[3], i % out[3], n, best);
            for (int64_t c = 0; c < n; c++)
                if (best[c] >= 0)
                    dx[best[c] * in[1] + c] += d[c];
        }
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
