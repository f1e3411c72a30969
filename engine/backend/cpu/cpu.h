/* cpu.h - the CPU back end: oneDNN for convolution, BLAS of oneDNN for products, own loops for
 * what is bound by memory. Dense NHWC, float32. Threads: OpenMP, oneDNN's own runtime. */
#ifndef HRF_ENGINE_BACKEND_CPU_CPU_H
#define HRF_ENGINE_BACKEND_CPU_CPU_H

#include "engine/backend/backend.h"

extern const struct hrf_backend_ops hrf_backend_cpu;

#endif
