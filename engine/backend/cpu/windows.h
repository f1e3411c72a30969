/* windows.h - what each output pixel of a convolution sees, gathered into rows of a matrix product.
 *
 * A row holds the channels of the pixels under the window, row by row, and zeros where the window
 * reaches beyond the image. It is counted in the product's words (product.h): floats, or two
 * channels of bfloat16 where the processor multiplies those. 16 bits that it does not are widened,
 * and a prologue is computed, on the way. Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_WINDOWS_H
#define HRF_ENGINE_BACKEND_CPU_WINDOWS_H

#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/prologue.h"

/* NHWC images, and the outputs whose windows lie on them. */
struct hrf_windows {
    int64_t rows, columns, channels, out_rows, out_columns;
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    enum hrf_dtype type;
    enum hrf_words words;
    int64_t pixel_words; /* a pixel's channels as the product reads them */
    int64_t x_pitch;     /* numbers from pixel to pixel of the image */
    struct hrf_cpu_prologue prologue;
};

/* From pixel to pixel of the image, in bytes; in words, of an image that has those. */
int64_t hrf_windows_pixel_bytes(const struct hrf_windows *windows);
int64_t hrf_windows_pitch(const struct hrf_windows *windows);
/* The image has the product's words already. */
bool hrf_windows_are_plain(const struct hrf_windows *windows);
/* Every pixel of the image is a row of the product as it stands there. */
bool hrf_windows_are_pixels(const struct hrf_windows *windows);

/* Rows [begin, end) of the windows of n outputs from `first` on (counted through all images at x);
 * `pitch`: words from one output's row of the product to the next. */
void hrf_windows_gather(const struct hrf_windows *windows, const char *x, int64_t first, int64_t n,
                        int64_t begin, int64_t end, float *to, int64_t pitch);

#endif
