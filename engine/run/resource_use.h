/* resource_use.h - energy, device time and device memory that a rank has used since the last query.
 *
 * The figures of all ranks are added up on rank 0. So that nothing counts twice, one rank reports
 * the energy of a machine's processors or of a GPU, and the others report 0.
 */
#ifndef HRF_ENGINE_RUN_RESOURCE_USE_H
#define HRF_ENGINE_RUN_RESOURCE_USE_H

#include <stdint.h>

/* The networks of a job that are scored side by side, each with figures of its own: at most. */
enum { HRF_MOST_PARTS = 8 };

struct hrf_resource_use {
    double processor_joules, gpu_joules; /* NaN: not measurable */
    double copy, kernels;                /* s by the device's clock; NaN: no device */
    int64_t device_bytes;                /* largest device memory of one process; 0: unknown */
};

static inline void hrf_resource_use_add(struct hrf_resource_use *sum,
                                        const struct hrf_resource_use *part)
{
    sum->processor_joules += part->processor_joules;
    sum->gpu_joules += part->gpu_joules;
    sum->copy += part->copy;
    sum->kernels += part->kernels;
    if (sum->device_bytes < part->device_bytes)
        sum->device_bytes = part->device_bytes;
}

#endif
