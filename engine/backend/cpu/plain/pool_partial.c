/* pool_partial.c - GLOBAL_AVERAGE_POOL in two steps, between which ranks add up their sums.
 *
 * Sums of 8-bit values are exact 32-bit integers and sums of floats are double, so that the result
 * does not depend on how the image was divided.
 */
#include "engine/backend/cpu/plain/plain.h"
#include "engine/ir/number.h"

#include <string.h>

struct partial_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
};

enum { BLOCK = 64 }; /* channels whose sums stay in the L1 cache */

static void sum_integers(const struct hrf_operand *x, const uint8_t *in, int64_t area,
                         int64_t first, int64_t n, int32_t *out)
{
    const int64_t channels = x->shape.dims[1];
    const int32_t zero = x->quantization.zero_point;
    for (int64_t c = 0; c < n; c++)
        out[c] = 0;
    for (int64_t i = 0; i < area; i++) {
        const uint8_t *pixel = in + i * channels + first;
        if (x->dtype == HRF_S8)
            for (int64_t c = 0; c < n; c++)
                out[c] += (int8_t)pixel[c] - zero;
        else
            for (int64_t c = 0; c < n; c++)
                out[c] += pixel[c] - zero;
    }
}

static void sum_floats(const struct hrf_operand *x, const char *in, int64_t area, int64_t first,
                       int64_t n, double *out)
{
    const int64_t channels = x->shape.dims[1], size = (int64_t)hrf_dtype_size(x->dtype);
    float pixel[BLOCK];
    for (int64_t c = 0; c < n; c++)
        out[c] = 0;
    for (int64_t i = 0; i < area; i++) {
        const char *from = in + (i * channels + first) * size;
        if (x->dtype == HRF_F32)
            memcpy(pixel, from, (size_t)n * sizeof pixel[0]);
        else
            hrf_floats_from(x->dtype, from, pixel, n);
        for (int64_t c = 0; c < n; c++)
            out[c] += (double)pixel[c];
    }
}

static void run_sum(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_operand *x = &spec->inputs[0];
    const int64_t channels = x->shape.dims[1], area = x->shape.dims[2] * x->shape.dims[3];
    const int64_t blocks = (channels + BLOCK - 1) / BLOCK;
    const int64_t image = area * channels * (int64_t)hrf_dtype_size(x->dtype);
    const char *in = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->shape.dims[0] * blocks; i++) {
        const int64_t first = i % blocks * BLOCK, at = i / blocks * channels + first;
        const int64_t n = channels - first < BLOCK ? channels - first : BLOCK;
        const char *from = in + i / blocks * image;
        if (spec->output.dtype == HRF_S32)
            sum_integers(x, (const uint8_t *)from, area, first, n, (int32_t *)call->output + at);
        else
            sum_floats(x, from, area, first, n, (double *)call->output + at);
    }
}

/* The same float operations as in the undivided pool (integer.c). */
static void finish_integers(const struct hrf_spec *spec, const int32_t *sums, uint8_t *out)
{
    const struct hrf_operand *x = &spec->inputs[0], *y = &spec->output;
    const float ratio = x->quantization.scale / y->quantization.scale;
    const int64_t n = hrf_shape_count(&y->shape);
    for (int64_t i = 0; i < n; i++) {
        const float steps = (float)sums[i] * ratio / (float)spec->attributes.n_pixels;
        out[i] = (uint8_t)(hrf_saturate(steps, y->dtype, y->quantization.zero_point) & 0xff);
    }
}

static void finish_floats(const struct hrf_spec *spec, const double *sums, char *out)
{
    const int64_t n = hrf_shape_count(&spec->output.shape);
    const int64_t size = (int64_t)hrf_dtype_size(spec->output.dtype);
    for (int64_t i = 0; i < n; i++) {
        const float mean = (float)(sums[i] / (double)spec->attributes.n_pixels);
        if (spec->output.dtype == HRF_F32)
            ((float *)out)[i] = mean;
        else
            hrf_floats_to(spec->output.dtype, &mean, out + i * size, 1);
    }
}

static enum hrf_status pool_partial_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                        struct hrf_error *err)
{
    (void)err;
    const struct hrf_spec *spec = ((const struct partial_kernel *)base)->spec;
    if (spec->op == HRF_OP_POOL_SUM)
        run_sum(spec, call);
    else if (spec->inputs[0].dtype == HRF_S32)
        finish_integers(spec, hrf_spec_data(spec, call, 0), call->output);
    else
        finish_floats(spec, hrf_spec_data(spec, call, 0), call->output);
    return HRF_OK;
}

static void pool_partial_destroy(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct partial_kernel *)base)->spec);
    hrf_free(base);
}

enum hrf_status hrf_partial_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row, (void)backend;
    struct partial_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = pool_partial_run, .destroy = pool_partial_destroy };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
