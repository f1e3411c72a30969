/* gpu_meter.h - one GPU's driver version, energy and memory in use, from NVIDIA's driver (NVML).
 *
 * libnvidia-ml.so.1 comes with the driver and is loaded at run time, so that building needs neither
 * CUDA nor a GPU. The energy counter counts the whole GPU, whichever process uses it, and does not
 * wrap around. Each figure is read by itself: one that the driver does not give is unknown, and the
 * others are still read. A meter is used by one thread at a time.
 */
#ifndef HRF_ENGINE_METERS_GPU_METER_H
#define HRF_ENGINE_METERS_GPU_METER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

struct hrf_gpu_meter; /* opaque */

/* `address` is the GPU's on the PCI bus ("0000:3b:00.0"). `library` NULL stands for $HRF_NVML, or
 * for libnvidia-ml.so.1 if that is not set. HRF_E_UNSUPPORTED: there is no NVML, or no such GPU. */
HRF_CHECKED enum hrf_status hrf_gpu_meter_create(const char *address, const char *library,
                                                 struct hrf_gpu_meter **out, struct hrf_error *err);
void hrf_gpu_meter_destroy(struct hrf_gpu_meter *meter);
HRF_DEFINE_AUTO(hrf_gpu_meter)

const char *hrf_gpu_meter_driver(const struct hrf_gpu_meter *meter); /* "580.82.07"; "" unknown */
/* Returns the energy in J since the meter was created or this function was last called; NaN from
 * the first failure on. */
double hrf_gpu_meter_joules(struct hrf_gpu_meter *meter);
/* Returns the GPU memory that this process holds now, in bytes, its context and libraries included;
 * 0 if unknown. If the driver does not list this process's number (in a container), the figure of
 * the only process on the GPU is taken. */
int64_t hrf_gpu_meter_process_bytes(struct hrf_gpu_meter *meter);

#endif
