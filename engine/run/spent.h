/* spent.h - what a rank has used of its machine since it was last asked.
 *
 * Figures of ranks are added up on their way to rank 0, where each counts only what no other counts
 * too: the processors of a machine and a GPU have one rank that speaks for them, the others give 0.
 */
#ifndef HRF_ENGINE_RUN_SPENT_H
#define HRF_ENGINE_RUN_SPENT_H

#include <stdint.h>

struct hrf_spent {
    double processor_joules, gpu_joules; /* NaN: cannot be measured */
    double copy, kernels;                /* s by the device's clock; NaN: there is no device */
    int64_t device_bytes;                /* most that one process held on a device; 0: unknown */
};

static inline void hrf_spent_add(struct hrf_spent *sum, const struct hrf_spent *part)
{
    sum->processor_joules += part->processor_joules;
    sum->gpu_joules += part->gpu_joules;
    sum->copy += part->copy;
    sum->kernels += part->kernels;
    if (sum->device_bytes < part->device_bytes)
        sum->device_bytes = part->device_bytes;
}

#endif
