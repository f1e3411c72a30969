/* pixels.c - see pixels.h. */
#include "engine/backend/cpu/pixels.h"

#include <string.h>

int64_t hrf_pixels_stride_bytes(const struct hrf_pixels *p)
{
    return p->stride * (int64_t)hrf_dtype_size(p->type);
}

int64_t hrf_pixels_stride_words(const struct hrf_pixels *p)
{
    return hrf_pixels_stride_bytes(p) / (int64_t)sizeof(float);
}

bool hrf_pixels_are_words(const struct hrf_pixels *p)
{
    return (p->type == HRF_F32 || p->word_type == HRF_WORD_B16_PAIR) &&
           !hrf_cpu_prologue_is_there(&p->prologue);
}

/* Copies n contiguous pixels as floats. */
static void copy_floats(const struct hrf_pixels *p, const char *from, int64_t n, float *to,
                        int64_t to_stride)
{
    const float *floats = (const float *)(const void *)from;
    const bool has_prologue = hrf_cpu_prologue_is_there(&p->prologue);
    if (p->type == HRF_F32) {
        hrf_cpu_prologue_lines(&p->prologue, floats, to, to_stride, p->channels, n);
    } else if (!has_prologue && to_stride == p->channels) {
        hrf_widen_lines_avx512(p->type, from, to, 0, n * p->channels, 1);
    } else {
        hrf_widen_lines_avx512(p->type, from, to, to_stride, p->channels, n);
        for (int64_t i = 0; has_prologue && i < n; i++)
            hrf_cpu_prologue_lines(&p->prologue, to + i * to_stride, to + i * to_stride, to_stride,
                                   p->channels, 1);
    }
}

/* Copies n contiguous pixels of bfloat16 through the prologue. */
static void copy_pairs(const struct hrf_pixels *p, const char *from, int64_t n, uint16_t *to,
                       int64_t to_stride)
{
    hrf_prologue_b16_lines_avx512(&p->prologue, (const uint16_t *)(const void *)from, to, to_stride,
                                  p->channels, n);
    for (int64_t i = 0; i < n && p->width > p->channels; i++)
        to[i * to_stride + p->channels] = 0;
}

/* Copies pixels that need no arithmetic. */
static void copy_as_is(const struct hrf_pixels *p, const char *from, int64_t step_bytes, int64_t n,
                       void *to, int64_t to_stride)
{
    const int64_t size = (int64_t)hrf_dtype_size(p->type);
    if (step_bytes == p->channels * size && to_stride == p->channels)
        memcpy(to, from, (size_t)(n * step_bytes));
    else if (size == 4 || (p->width % 2 == 0 && p->width == p->channels && step_bytes % 4 == 0))
        hrf_copy_lines_avx512((const float *)(const void *)from, step_bytes / 4, to,
                              to_stride * size / 4, p->width * size / 4, n);
    else
        hrf_copy_halves_avx512((const uint16_t *)(const void *)from, step_bytes / size, p->channels,
                               to, to_stride, p->width, n);
}

void hrf_pixels_copy(const struct hrf_pixels *p, const char *from, int64_t step, int64_t n,
                     void *to, int64_t to_stride)
{
    const int64_t step_bytes = step * hrf_pixels_stride_bytes(p);
    const int64_t at_once = step == 1 && p->stride == p->channels ? n : 1;
    if (hrf_pixels_are_words(p)) {
        copy_as_is(p, from, step_bytes, n, to, to_stride);
        return;
    }
    for (int64_t i = 0; i < n; i += at_once)
        if (p->word_type == HRF_WORD_B16_PAIR)
            copy_pairs(p, from + i * step_bytes, at_once, (uint16_t *)to + i * to_stride,
                       to_stride);
        else
            copy_floats(p, from + i * step_bytes, at_once, (float *)to + i * to_stride, to_stride);
}
