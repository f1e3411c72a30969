/* row_source.h - the first kernel of a fused pair as a source of pixels, which the second one asks
 * for as it needs them, so that the image between them is never stored.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_ROW_SOURCE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_ROW_SOURCE_H

#include "engine/backend/compute.h"

#include <stdint.h>

struct hrf_cpu_row_source {
    /* Writes n pixels from `first` on, counted through all images, of the channels of one panel
     * (hrf_product_panel_begin()), without gaps. Any thread may call it. */
    void (*make)(const struct hrf_cpu_row_source *source, int64_t first, int64_t n, int64_t panel,
                 void *to);
    const struct hrf_kernel *kernel;
    const struct hrf_kernel_call *call;
};

/* True if the kernel is a depth-wise convolution that can read its image from a source; and its
 * run. The image's type is the source's. */
bool hrf_cpu_depthwise_takes_source(const struct hrf_kernel *kernel);
void hrf_cpu_depthwise_run_source(const struct hrf_kernel *kernel,
                                  const struct hrf_kernel_call *call,
                                  const struct hrf_cpu_row_source *source);

#endif
