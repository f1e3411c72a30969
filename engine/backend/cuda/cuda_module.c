/* cuda_module.c - what the program finds in hrf_cuda.so. */
#include "base/module.h"
#include "engine/backend/cuda/cuda.h"
#include "module_builds.h"

extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .build = HRF_BUILD_CUDA, .operations = &hrf_backend_cuda };
