/* prologue.h - what a convolution does to its input before the window: x * factor + shift, then an
 * activation.
 *
 * It is applied to one pixel's channels (a "line") at a time. Own kernels apply it where they read
 * or gather their input anyway; for all others conv_strips.c applies it to a few rows at a time.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_PROLOGUE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_PROLOGUE_H

#include "engine/backend/cpu/product.h"

struct hrf_cpu_prologue {
    float *factors, *shifts;        /* [channels], heap; NULL: there is no prologue */
    struct hrf_epilogue activation; /* only its activation is used */
};

/* Copies the node's prologue, if it has one. */
void hrf_cpu_prologue_init(struct hrf_cpu_prologue *prologue, const struct hrf_graph *graph,
                           const struct hrf_node *node);
void hrf_cpu_prologue_release(struct hrf_cpu_prologue *prologue);
static inline bool hrf_cpu_prologue_is_there(const struct hrf_cpu_prologue *prologue)
{
    return prologue->factors != NULL;
}

/* Applies the prologue to n_lines contiguous lines of `channels` floats and writes lines that
 * begin `y_stride` floats apart; y may be x. Results do not depend on how lines are divided
 * among calls. */
void hrf_cpu_prologue_lines(const struct hrf_cpu_prologue *prologue, const float *x, float *y,
                            int64_t y_stride, int64_t channels, int64_t n_lines);
/* The same for bfloat16: computed in float32, rounded once. Only with AVX-512. */
void hrf_prologue_b16_lines_avx512(const struct hrf_cpu_prologue *prologue, const uint16_t *x,
                                   uint16_t *y, int64_t y_stride, int64_t channels,
                                   int64_t n_lines);
/* Converts lines of F16 or B16 to floats, without a prologue. Only with AVX-512, as are the
 * following. */
void hrf_widen_lines_avx512(enum hrf_dtype dtype, const void *x, float *y, int64_t y_stride,
                            int64_t channels, int64_t n_lines);
/* Copies n_lines of n floats, which begin `x_stride` and `y_stride` floats apart; made for short
 * lines. */
void hrf_copy_lines_avx512(const float *x, int64_t x_stride, float *y, int64_t y_stride, int64_t n,
                           int64_t n_lines);
/* Copies n_lines of n 16-bit elements and pads each with zeros up to `width`. */
void hrf_copy_halves_avx512(const uint16_t *x, int64_t x_stride, int64_t n, uint16_t *y,
                            int64_t y_stride, int64_t width, int64_t n_lines);
/* Multiplies n_lines contiguous lines by the factors, all of `type` (F32, F16 or B16); y_stride in
 * elements. Each product is rounded once. */
void hrf_gate_lines_avx512(enum hrf_dtype type, const void *x, const void *factors, void *y,
                           int64_t y_stride, int64_t channels, int64_t n_lines);
/* The implementation of hrf_cpu_prologue_lines() with AVX-512. */
void hrf_prologue_lines_avx512(const struct hrf_cpu_prologue *prologue, const float *x, float *y,
                               int64_t y_stride, int64_t channels, int64_t n_lines);

#endif
