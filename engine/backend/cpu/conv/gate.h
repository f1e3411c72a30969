/* gate.h - the product of an image and one factor per channel, as at the end of squeeze-and-excite:
 * computed by a kernel of its own, or by a 1x1 convolution while it reads the pixels.
 *
 * Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_GATE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_GATE_H

#include "engine/backend/compute.h"

struct hrf_cpu_gate {
    enum hrf_dtype type; /* of the image, the factors and the result: F32, F16 or B16 */
    int64_t channels;
    int64_t image_pixels; /* of one image */
    const char *x;
    const char *factors; /* [images][channels] */
};

/* Computes n pixels from `first` on, counted through all images. to_stride: elements from one pixel
 * of `to` to the next. Each product is rounded once. */
void hrf_cpu_gate_pixels(const struct hrf_cpu_gate *gate, int64_t first, int64_t n, void *to,
                         int64_t to_stride);

/* True if the kernel is a 1x1 convolution that can read a gate of `type`; and its run. */
bool hrf_cpu_product_takes_gate(const struct hrf_kernel *kernel, enum hrf_dtype type);
void hrf_cpu_product_run_gate(const struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                              const struct hrf_cpu_gate *gate);

#endif
