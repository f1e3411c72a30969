/* cudnn_arithmetic.h - how an engine rounds between the sum of an INT8 convolution and its result.
 *
 * The sum is a whole number, which every engine has exactly. What follows it (a factor, a bias, a
 * scaled residual) is in float, and a compiler may join a product with the sum behind it into one
 * operation that rounds once: results then differ by a step where they lie almost half-way between
 * two. Engines that round alike give the same bytes, whatever shape they were chosen for.
 *
 * A residual's factor is short (hrf_arithmetic_short_factor), so that its product is exact and no
 * engine can round it otherwise: cuDNN 9.19's engine 2 joins 124 of a thread's 128 such products
 * with their sum on an H200, and not the other four.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_ARITHMETIC_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_ARITHMETIC_H

#include "engine/backend/cuda/cudnn_conv.h"

/* Numbered by what is joined; the lowest is preferred. */
enum hrf_arithmetic {
    HRF_AS_WRITTEN = 0,
    HRF_JOINS_SCALE = 1, /* the sum's (last) factor with the addition behind it */
    HRF_ARITHMETIC_OTHER,
    HRF_N_ARITHMETICS,
};
const char *hrf_arithmetic_text(enum hrf_arithmetic arithmetic);

/* What one result is made of; residual_scale 0: no residual, else a short factor; row_scale 0:
 * none.
 */
struct hrf_int8_terms {
    int64_t sum;
    float scale, row_scale, bias, residual, residual_scale;
};
/* The result by an arithmetic other than OTHER: a whole number in S8, in F32 a float. */
float hrf_arithmetic_result(const struct hrf_cudnn_conv *conv, const struct hrf_int8_terms *terms,
                            enum hrf_arithmetic arithmetic);
/* The factor with the 16 leading bits of its fraction. Its product with a number of 8 bits is exact
 * in float32, so that a sum behind it is rounded once in either way. */
float hrf_arithmetic_short_factor(float factor);
/* A bias for telling result `i`, with which it lies half-way between two numbers of its type where
 * it is computed as written, and to one side of that otherwise, as far as one can be found: of
 * every two neighbours one half-way goes up, the other down. Behind GELU and Swish it lies where
 * these give their argument itself: what engines compute of other numbers differs by formula. */
float hrf_arithmetic_telling_bias(const struct hrf_cudnn_conv *conv,
                                  const struct hrf_int8_terms *terms, int i);

#endif
