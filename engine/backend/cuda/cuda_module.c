/* cuda_module.c - what the program finds in hrf_cuda.so. */
#include "base/module.h"
#include "engine/backend/cuda/cuda.h"

extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .version = HRF_VERSION, .operations = &hrf_backend_cuda };
