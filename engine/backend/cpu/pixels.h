/* pixels.h - copies pixels of an image to the form that the matrix product reads (product.h):
 * floats, or pairs of bfloat16 if the processor multiplies those.
 *
 * While pixels are copied, 16-bit floats that the product does not take are widened, and a prologue
 * is applied. Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PIXELS_H
#define HRF_ENGINE_BACKEND_CPU_PIXELS_H

#include "engine/backend/cpu/conv/prologue.h"
#include "engine/backend/cpu/product.h"

struct hrf_pixels {
    enum hrf_dtype type; /* of the image: F32, F16 or B16 */
    enum hrf_word_type word_type;
    int64_t channels;
    int64_t width;  /* elements of a copied pixel: its channels, then zeros */
    int64_t stride; /* elements from one pixel of the image to the next */
    struct hrf_cpu_prologue prologue;
};

/* Bytes from one pixel of the image to the next. */
int64_t hrf_pixels_stride_bytes(const struct hrf_pixels *pixels);
/* The same in the product's words, for an image that consists of them. */
int64_t hrf_pixels_stride_words(const struct hrf_pixels *pixels);
/* True if the image already consists of the product's words, so that the product can read it in
 * place. */
bool hrf_pixels_are_words(const struct hrf_pixels *pixels);

/* Copies n pixels, every step-th from `from` on, to `to`, as floats or, for pairs, as bfloat16.
 * to_stride: elements from one pixel of `to` to the next. */
void hrf_pixels_copy(const struct hrf_pixels *pixels, const char *from, int64_t step, int64_t n,
                     void *to, int64_t to_stride);

#endif
