/* prologue.h - what a convolution does to a pixel before its window: x * factor + shift, activated.
 *
 * Over one pixel's channels at a time (a "line"). Own kernels apply it where they read or gather
 * their input anyway; for all others conv_strips.c does it to a few rows at a time.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_PROLOGUE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_PROLOGUE_H

#include "engine/backend/cpu/product.h"

struct hrf_cpu_prologue {
    float *factors, *shifts;        /* [channels], heap; NULL: there is no prologue */
    struct hrf_epilogue activation; /* only what it says of the activation */
};

/* Copies the node's, if it has one. */
void hrf_cpu_prologue_init(struct hrf_cpu_prologue *prologue, const struct hrf_graph *graph,
                           const struct hrf_node *node);
void hrf_cpu_prologue_release(struct hrf_cpu_prologue *prologue);
static inline bool hrf_cpu_prologue_is_there(const struct hrf_cpu_prologue *prologue)
{
    return prologue->factors != NULL;
}

/* n_lines of `channels` numbers, one after the other, to lines that begin `y_stride` numbers apart;
 * y may be x. Bits do not depend on how lines are shared out over calls. */
void hrf_cpu_prologue_lines(const struct hrf_cpu_prologue *prologue, const float *x, float *y,
                            int64_t y_stride, int64_t channels, int64_t n_lines);
/* The same of bfloat16, to those: computed in float32, rounded once. Only where there is AVX-512.
 */
void hrf_prologue_b16_lines_avx512(const struct hrf_cpu_prologue *prologue, const uint16_t *x,
                                   uint16_t *y, int64_t y_stride, int64_t channels,
                                   int64_t n_lines);
/* The numbers alone, from 16 bits (F16, B16). Only where there is AVX-512. */
void hrf_widen_lines_avx512(enum hrf_dtype dtype, const void *x, float *y, int64_t y_stride,
                            int64_t channels, int64_t n_lines);
/* The way back: n floats as numbers of 16 bits. */
void hrf_narrow_line_avx512(enum hrf_dtype dtype, const float *x, void *y, int64_t n);
/* n_lines of n floats, which begin `x_stride` and `y_stride` floats apart: for short ones. */
void hrf_copy_lines_avx512(const float *x, int64_t x_stride, float *y, int64_t y_stride, int64_t n,
                           int64_t n_lines);
/* n_lines of n numbers of 16 bits, with zeros behind them up to `width`. */
void hrf_copy_halves_avx512(const uint16_t *x, int64_t x_stride, int64_t n, uint16_t *y,
                            int64_t y_stride, int64_t width, int64_t n_lines);
/* n_lines that follow each other times the factors, all of `type` (F32, F16 or B16); y_stride:
 * numbers. Each product is rounded once. */
void hrf_gate_lines_avx512(enum hrf_dtype type, const void *x, const void *factors, void *y,
                           int64_t y_stride, int64_t channels, int64_t n_lines);
/* hrf_cpu_prologue_lines() by AVX-512: what that calls where there is some. */
void hrf_prologue_lines_avx512(const struct hrf_cpu_prologue *prologue, const float *x, float *y,
                               int64_t y_stride, int64_t channels, int64_t n_lines);

#endif
