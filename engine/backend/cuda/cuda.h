/* cuda.h - the back end for one NVIDIA GPU. Loaded as a module: hrf_backend_open("cuda"). */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDA_H
#define HRF_ENGINE_BACKEND_CUDA_CUDA_H

#include "engine/backend/backend.h"

extern const struct hrf_backend_ops hrf_backend_cuda;

#endif
