/* gpu_meter.h - what NVIDIA's driver says of one GPU (NVML): its version, energy, memory in use.
 *
 * libnvidia-ml.so.1 comes with the driver and is loaded when it is asked for, so that this needs
 * neither CUDA nor a GPU to build. The counter is of the whole GPU, whoever uses it, and never runs
 * over. Each figure stands alone: what this GPU or this user is not told stays unknown. Used by one
 * thread at a time.
 */
#ifndef HRF_BASE_GPU_METER_H
#define HRF_BASE_GPU_METER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

struct hrf_gpu_meter; /* opaque */

/* `address` on the PCI bus ("0000:3b:00.0"); `library` NULL: $HRF_NVML, or libnvidia-ml.so.1 where
 * that is not set. HRF_E_UNSUPPORTED with the reason where there is no NVML or no such GPU. */
HRF_CHECKED enum hrf_status hrf_gpu_meter_create(const char *address, const char *library,
                                                 struct hrf_gpu_meter **out, struct hrf_error *err);
void hrf_gpu_meter_destroy(struct hrf_gpu_meter *meter);
HRF_DEFINE_AUTO(hrf_gpu_meter)

const char *hrf_gpu_meter_driver(const struct hrf_gpu_meter *meter); /* "580.82.07"; "" unknown */
const char *hrf_gpu_meter_uuid(const struct hrf_gpu_meter *meter);   /* "GPU-..."; "" unknown */
/* Since the meter was made or this was asked last, J; NaN from the first failure on. */
double hrf_gpu_meter_joules(struct hrf_gpu_meter *meter);
/* What this process holds there now, its context and libraries included; 0: unknown. Where the
 * driver knows this process by another number (a container), the only one on the GPU is taken. */
int64_t hrf_gpu_meter_process_bytes(struct hrf_gpu_meter *meter);

#endif
