/* integer_pool.c - pooling of 8-bit values: exact sums, and maxima of bytes whose order as unsigned
 * is that of the values. */
#include "engine/backend/cpu/avx512/bytes_avx512.h"
#include "engine/backend/cpu/instructions.h"
#include "engine/backend/cpu/plain/integer_private.h"

#include <string.h>

/* One output pixel with all of its channels. */
struct pooled {
    int32_t *sums; /* [channels]; NULL for a maximum */
    uint8_t
        *most; /* [channels], ordered as unsigned bytes (signed ones with the sign bit flipped) */
    int64_t count;
};

static void take_pixel(const struct hrf_operand *x, const uint8_t *pixel, struct pooled *p)
{
    const int64_t channels = x->shape.dims[1];
    const int32_t zero = x->quantization.zero_point;
    const uint8_t sign_flip = x->dtype == HRF_S8 ? 0x80 : 0;
    if (p->sums == NULL) {
        for (int64_t c = 0; c < channels; c++) {
            const uint8_t q = pixel[c] ^ sign_flip;
            p->most[c] = q > p->most[c] ? q : p->most[c];
        }
    } else if (x->dtype == HRF_S8) {
        for (int64_t c = 0; c < channels; c++)
            p->sums[c] += ((const int8_t *)pixel)[c] - zero;
    } else {
        for (int64_t c = 0; c < channels; c++)
            p->sums[c] += pixel[c] - zero;
    }
}

static void give_pixel(const struct hrf_spec *spec, const struct pooled *p,
                       const uint8_t table[256], uint8_t *out)
{
    const struct hrf_operand *x = &spec->inputs[0], *y = &spec->output;
    const int64_t channels = x->shape.dims[1];
    const uint8_t sign_flip = x->dtype == HRF_S8 ? 0x80 : 0;
    const struct hrf_target target = hrf_target_of(y);
    const float ratio = x->quantization.scale / y->quantization.scale;
    if (p->sums == NULL)
        for (int64_t c = 0; c < channels; c++)
            out[c] = table[p->most[c] ^ sign_flip];
    for (int64_t c = 0; c < channels && p->sums != NULL; c++)
        out[c] = hrf_narrow(target,
                            p->count > 0 ? (float)p->sums[c] * ratio / (float)p->count : 0.0f);
}

static bool is_max(enum hrf_op op)
{
    return op == HRF_OP_MAX_POOL || op == HRF_OP_GLOBAL_MAX_POOL;
}

/* A thread's part of the workspace: sums, or maxima, of every channel. */
static struct pooled pooled_init(const struct hrf_spec *spec, void *workspace, int64_t slot)
{
    const int64_t channels = spec->inputs[0].shape.dims[1];
    int32_t *own = (int32_t *)workspace + slot * channels;
    memset(own, 0, (size_t)channels * sizeof *own);
    return is_max(spec->op) ? (struct pooled){ .most = (uint8_t *)own }
                            : (struct pooled){ .sums = own };
}

static void pool_at(const struct hrf_spec *spec, const uint8_t *in, int64_t n, int64_t oy,
                    int64_t ox, struct pooled *p)
{
    const struct hrf_operand *x = &spec->inputs[0];
    const struct hrf_window *w = &spec->attributes.window;
    const int64_t rows = x->shape.dims[2], columns = x->shape.dims[3];
    for (int64_t ky = 0; ky < w->kernel[0]; ky++) {
        const int64_t y = oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0];
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            const int64_t u = ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1];
            const bool inside = y >= 0 && y < rows && u >= 0 && u < columns;
            const bool padded = y < rows + w->pad_end[0] && u < columns + w->pad_end[1];
            p->count += inside || (padded && w->count_include_pad);
            if (inside)
                take_pixel(x, in + ((n * rows + y) * columns + u) * x->shape.dims[1], p);
        }
    }
}

/* The maximum of up to MAX_TAPS pixels, for a block of channels in registers. */
enum { MAX_TAPS = 64, BLOCK = 64 };

static void max_block(const uint8_t *const taps[], int64_t n_taps, int64_t first, int64_t n,
                      uint8_t sign_flip, const uint8_t table[256], uint8_t *out)
{
    uint8_t most[BLOCK] = { 0 };
    for (int64_t t = 0; t < n_taps && n == BLOCK; t++)
        for (int64_t c = 0; c < BLOCK;
             c++) { /* a constant length, so that `most` stays in registers */
            const uint8_t q = taps[t][first + c] ^ sign_flip;
            most[c] = q > most[c] ? q : most[c];
        }
    for (int64_t t = 0; t < n_taps && n < BLOCK; t++)
        for (int64_t c = 0; c < n; c++) {
            const uint8_t q = taps[t][first + c] ^ sign_flip;
            most[c] = q > most[c] ? q : most[c];
        }
    for (int64_t c = 0; c < n; c++)
        out[first + c] = table != NULL ? table[most[c] ^ sign_flip] : most[c] ^ sign_flip;
}

/* Lists the pixels under a window. *count: the divisor of an average. */
static int64_t find_taps(const struct hrf_spec *spec, const uint8_t *in, int64_t pixel,
                         const uint8_t *taps[MAX_TAPS], int64_t *count)
{
    const struct hrf_shape *x = &spec->inputs[0].shape, *out = &spec->output.shape;
    const struct hrf_window *w = &spec->attributes.window;
    const int64_t rows = x->dims[2], columns = x->dims[3], channels = x->dims[1];
    const int64_t n = pixel / (out->dims[2] * out->dims[3]);
    const int64_t top = pixel / out->dims[3] % out->dims[2] * w->stride[0] - w->pad_begin[0];
    const int64_t left = pixel % out->dims[3] * w->stride[1] - w->pad_begin[1];
    int64_t n_taps = 0;
    *count = 0;
    for (int64_t ky = 0; ky < w->kernel[0]; ky++) {
        const int64_t y = top + ky * w->dilation[0];
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            const int64_t u = left + kx * w->dilation[1];
            const bool inside = y >= 0 && y < rows && u >= 0 && u < columns;
            const bool padded = y < rows + w->pad_end[0] && u < columns + w->pad_end[1];
            *count += inside || (padded && w->count_include_pad);
            if (inside)
                taps[n_taps++] = in + ((n * rows + y) * columns + u) * channels;
        }
    }
    return n_taps;
}

static void max_at(const struct hrf_spec *spec, const uint8_t *in, int64_t pixel,
                   const uint8_t table[256], uint8_t *out)
{
    const uint8_t sign_flip = spec->inputs[0].dtype == HRF_S8 ? 0x80 : 0, *taps[MAX_TAPS];
    const int64_t channels = spec->output.shape.dims[1];
    int64_t count;
    const int64_t n_taps = find_taps(spec, in, pixel, taps, &count);
    for (int64_t c = 0; c < channels; c += BLOCK)
        max_block(taps, n_taps, c, channels - c < BLOCK ? channels - c : BLOCK, sign_flip, table,
                  out);
}

static void run_max_pool(const struct hrf_integer_kernel *kernel,
                         const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *out = &spec->output.shape;
    const uint8_t *x = hrf_spec_data(spec, call, 0);
    const uint8_t *table = hrf_integer_changes_nothing(kernel->tables[0]) ? NULL
                                                                          : kernel->tables[0];
    const int64_t channels = out->dims[1], n_pixels = hrf_shape_count(out) / channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixels; i++)
        max_at(spec, x, i, table, (uint8_t *)call->output + i * channels);
}

#ifdef HRF_BUILD_AVX512
static void run_average_pool(const struct hrf_integer_kernel *kernel,
                             const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_quantization *x = &spec->inputs[0].quantization;
    const struct hrf_target t = hrf_target_of(&spec->output);
    const struct hrf_bytes_average average = { .type = spec->inputs[0].dtype,
                                               .x_zero = x->zero_point,
                                               .y_zero = t.zero_point,
                                               .ratio = x->scale / spec->output.quantization.scale,
                                               .low = t.low,
                                               .high = t.high };
    const int64_t channels = spec->output.shape.dims[1];
    const int64_t n_pixels = hrf_shape_count(&spec->output.shape) / channels;
    const uint8_t *in = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_pixels; i++) {
        const uint8_t *taps[MAX_TAPS];
        int64_t count;
        const int64_t n_taps = find_taps(spec, in, i, taps, &count);
        hrf_bytes_average_avx512(&average, taps, n_taps, count > 0 ? count : 1,
                                 (uint8_t *)call->output + i * channels, channels);
    }
}
#endif

/* True for windows whose taps are listed. In this order no comparison overflows. */
static bool is_small(const struct hrf_window *w)
{
    return w->kernel[0] <= MAX_TAPS && w->kernel[0] * w->kernel[1] <= MAX_TAPS;
}

void hrf_integer_pool(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call)
{
    const struct hrf_window *w = &kernel->spec->attributes.window;
    if (is_max(kernel->spec->op) && is_small(w)) {
        run_max_pool(kernel, call);
        return;
    }
#ifdef HRF_BUILD_AVX512
    if (!is_max(kernel->spec->op) && is_small(w) && hrf_cpu_has_avx512()) {
        run_average_pool(kernel, call);
        return;
    }
#endif
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_shape *out = &spec->output.shape;
    const uint8_t *x = hrf_spec_data(spec, call, 0);
    uint8_t *y = call->output;
    const int64_t channels = out->dims[1], n_pixels = hrf_shape_count(out) / channels;
    const int64_t slots = kernel->slots;
#pragma omp parallel for schedule(static)
    for (int64_t s = 0; s < slots; s++)
        for (int64_t i = n_pixels * s / slots; i < n_pixels * (s + 1) / slots; i++) {
            struct pooled p = pooled_init(spec, call->workspace, s);
            pool_at(spec, x, i / (out->dims[2] * out->dims[3]), i / out->dims[3] % out->dims[2],
                    i % out->dims[3], &p);
            give_pixel(spec, &p, kernel->tables[0], y + i * channels);
        }
}

void hrf_integer_global_pool(const struct hrf_integer_kernel *kernel,
                             const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_operand *in = &spec->inputs[0];
    const uint8_t *x = hrf_spec_data(spec, call, 0);
    uint8_t *y = call->output;
    const int64_t channels = in->shape.dims[1], area = in->shape.dims[2] * in->shape.dims[3];
    const int64_t images = in->shape.dims[0], slots = kernel->slots;
#pragma omp parallel for schedule(static)
    for (int64_t s = 0; s < slots; s++)
        for (int64_t n = images * s / slots; n < images * (s + 1) / slots; n++) {
            struct pooled p = pooled_init(spec, call->workspace, s);
            p.count = area;
            for (int64_t k = 0; k < area; k++)
                take_pixel(in, x + (n * area + k) * channels, &p);
            give_pixel(spec, &p, kernel->tables[0], y + n * channels);
        }
}
