/* pixels.h - pixels of an image as the matrix product reads them (product.h): floats, or pairs of
 * bfloat16 where the processor multiplies those.
 *
 * 16-bit numbers that the product does not take are widened, and a prologue is computed, while
 * pixels are copied. Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PIXELS_H
#define HRF_ENGINE_BACKEND_CPU_PIXELS_H

#include "engine/backend/cpu/conv/prologue.h"
#include "engine/backend/cpu/product.h"

struct hrf_pixels {
    enum hrf_dtype type; /* of the image: F32, F16 or B16 */
    enum hrf_words words;
    int64_t channels;
    int64_t width;  /* numbers of a pixel that is copied: its channels, then zeros */
    int64_t stride; /* numbers from pixel to pixel of the image */
    struct hrf_cpu_prologue prologue;
};

/* From pixel to pixel of the image. */
int64_t hrf_pixels_stride_bytes(const struct hrf_pixels *pixels);
/* The same in words, of an image that has those. */
int64_t hrf_pixels_stride_words(const struct hrf_pixels *pixels);
/* True if the image has the product's words already: the product can read it where it stands. */
bool hrf_pixels_are_words(const struct hrf_pixels *pixels);

/* n pixels, every step-th from `from` on, to `to`, as floats or, for pairs, as bfloat16; to_stride:
 * of these numbers, between pixels there. */
void hrf_pixels_copy(const struct hrf_pixels *pixels, const char *from, int64_t step, int64_t n,
                     void *to, int64_t to_stride);

#endif
