/* cpu.h - the CPU back end: oneDNN and own kernels for convolutions, own kernels for matrix
 * products, attention and operators that are bound by memory. Threads: OpenMP, which oneDNN uses,
 * too. */
#ifndef HRF_ENGINE_BACKEND_CPU_CPU_H
#define HRF_ENGINE_BACKEND_CPU_CPU_H

#include "engine/backend/backend.h"

extern const struct hrf_backend_ops hrf_backend_cpu;

#endif
