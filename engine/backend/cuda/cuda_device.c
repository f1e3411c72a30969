#include "engine/backend/cuda/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 4 << 20 }; /* an H200 copies it in 0.1 ms: waiting for it is 10 % of that */
enum { OLDEST_MAJOR = 8 }; /* Ampere: the first with BF16 and TF32; kernels are built from it on */

enum hrf_status hrf_cuda_error(struct hrf_error *err, cudaError_t status, const char *what)
{
    (void)cudaGetLastError(); /* so that the next launch is not blamed for it */
    return hrf_error_set_foreign(
        err, status == cudaErrorMemoryAllocation ? HRF_E_NOMEM : HRF_E_EXTERNAL, "cuda",
        (int)status, "CUDA, %s: %s", what, cudaGetErrorString(status));
}

static enum hrf_status explain_start(cudaError_t status, int driver, int runtime,
                                     struct hrf_error *err)
{
    static const char way_out[] = "use device cpu instead";
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    (void)cudaGetLastError();
    if (status == cudaErrorStubLibrary)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the libcuda.so.1 found first is the toolkit's stub, not a driver; "
                             "take its folder out of LD_LIBRARY_PATH, or %s",
                             way_out);
    if (driver == 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "no NVIDIA driver is installed on this machine (libcuda.so.1 is not "
                             "found); %s",
                             way_out);
    if (status == cudaErrorInsufficientDriver)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the NVIDIA driver is too old: it serves CUDA up to %d.%d and this "
                             "build needs %d.%d; update the driver, or %s",
                             driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                             way_out);
    if (status == cudaErrorNoDevice || status == cudaSuccess)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES is %s%s%s); %s",
                             visible != NULL ? "'" : "", visible != NULL ? visible : "not set",
                             visible != NULL ? "'" : "", way_out);
    return hrf_cuda_error(err, status, "looking for a GPU");
}

static enum hrf_status cuda_device_describe(struct hrf_cuda_device *device, struct hrf_error *err)
{
    struct cudaDeviceProp properties;
    HRF_TRY_CUDA(cudaGetDeviceProperties(&properties, device->index), "asking the GPU what it is");
    snprintf(device->name, sizeof device->name, "%s", properties.name);
    device->major = properties.major;
    device->minor = properties.minor;
    device->memory_bytes = (int64_t)properties.totalGlobalMem;
    if (device->major < OLDEST_MAJOR)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "%s has compute capability %d.%d; this build needs %d.0 or newer; use "
                             "device cpu instead",
                             device->name, device->major, device->minor, OLDEST_MAJOR);
    return HRF_OK;
}

enum hrf_status hrf_cuda_device_open(int index, struct hrf_cuda_device **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_cuda_device) device = hrf_calloc(1, sizeof *device);
    int n_devices = 0;
    if (cudaDriverGetVersion(&device->driver) != cudaSuccess)
        device->driver = 0;
    (void)cudaRuntimeGetVersion(&device->runtime);
    cudaError_t status = cudaGetDeviceCount(&n_devices);
    if (status != cudaSuccess || n_devices == 0)
        return explain_start(status, device->driver, device->runtime, err);
    device->binding = hrf_binding_read(getenv, n_devices);
    device->index = index < 0 ? hrf_binding_device(&device->binding) : index % n_devices;
    HRF_TRY(cuda_device_describe(device, err));
    HRF_TRY_CUDA(cudaSetDevice(device->index), "starting the GPU");
    HRF_TRY_CUDA(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking),
                 "starting the GPU");
    HRF_TRY_CUDA(cudaStreamCreateWithFlags(&device->copies, cudaStreamNonBlocking),
                 "starting the GPU");
    HRF_TRY_CUDA(cudaStreamCreateWithFlags(&device->peers, cudaStreamNonBlocking),
                 "starting the GPU");
    HRF_TRY_CUDA(cudaEventCreateWithFlags(&device->reached, cudaEventDisableTiming),
                 "starting the GPU");
    HRF_TRY_CUDA(cudaEventCreateWithFlags(&device->reached_peers, cudaEventDisableTiming),
                 "starting the GPU");
    HRF_TRY_CUDA(cudaMallocHost(&device->staging, STAGING_BYTES), "starting the GPU");
    device->queue = device->stream;
    HRF_TRY_CUDA(cudaDeviceGetPCIBusId(device->address, sizeof device->address, device->index),
                 "asking the GPU where it is");
    HRF_MOVE(*out, device);
    return HRF_OK;
}

void hrf_cuda_device_destroy(struct hrf_cuda_device *device)
{
    if (device == NULL)
        return;
    if (device->staging != NULL)
        (void)cudaFreeHost(device->staging);
    if (device->stream != NULL)
        (void)cudaStreamDestroy(device->stream);
    if (device->copies != NULL)
        (void)cudaStreamDestroy(device->copies);
    if (device->peers != NULL)
        (void)cudaStreamDestroy(device->peers);
    if (device->aside != NULL)
        (void)cudaStreamDestroy(device->aside);
    if (device->reached != NULL)
        (void)cudaEventDestroy(device->reached);
    if (device->reached_peers != NULL)
        (void)cudaEventDestroy(device->reached_peers);
    hrf_free(device);
}

enum hrf_status hrf_cuda_device_enter(const struct hrf_cuda_device *device, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaSetDevice(device->index), "entering the GPU");
    return HRF_OK;
}

enum hrf_status hrf_cuda_allocate(const struct hrf_cuda_device *device, size_t n_bytes, void **out,
                                  struct hrf_error *err)
{
    enum { LEAST = 256 };
    size_t free_bytes = 0, all_bytes = 0;
    void *memory = NULL;
    HRF_TRY(hrf_cuda_device_enter(device, err));
    cudaError_t status = cudaMalloc(&memory, n_bytes > LEAST ? n_bytes : LEAST);
    if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&free_bytes, &all_bytes);
        return hrf_error_set(err, HRF_E_NOMEM,
                             "%s has %.2f of its %.2f GiB free and %.2f GiB are needed; use a "
                             "smaller batch, set {engine.memory}, or end what else runs on it",
                             device->name, (double)free_bytes / 0x1p30, (double)all_bytes / 0x1p30,
                             (double)n_bytes / 0x1p30);
    }
    HRF_TRY_CUDA(status, "allocating memory");
    *out = memory;
    return HRF_OK;
}

void hrf_cuda_release(void *memory)
{
    if (memory != NULL)
        (void)cudaFree(memory);
}

enum hrf_status hrf_cuda_write(const struct hrf_cuda_device *device, const void *from,
                               size_t n_bytes, void *to, struct hrf_error *err)
{
    static const char what[] = "copying to the GPU";
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        const size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        memcpy(device->staging, (const char *)from + at, n);
        HRF_TRY_CUDA(cudaMemcpyAsync((char *)to + at, device->staging, n, cudaMemcpyHostToDevice,
                                     device->stream),
                     what);
        HRF_TRY_CUDA(cudaStreamSynchronize(device->stream), what);
    }
    return HRF_OK;
}

enum hrf_status hrf_cuda_read(const struct hrf_cuda_device *device, const void *from,
                              size_t n_bytes, void *to, struct hrf_error *err)
{
    static const char what[] = "copying from the GPU";
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        const size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        HRF_TRY_CUDA(cudaMemcpyAsync(device->staging, (const char *)from + at, n,
                                     cudaMemcpyDeviceToHost, device->stream),
                     what);
        HRF_TRY_CUDA(cudaStreamSynchronize(device->stream), what);
        memcpy((char *)to + at, device->staging, n);
    }
    return HRF_OK;
}

enum hrf_status hrf_cuda_upload(const struct hrf_cuda_device *device, const void *from,
                                size_t n_bytes, void **out, struct hrf_error *err)
{
    void *memory = NULL;
    if (*out != NULL)
        return hrf_cuda_write(device, from, n_bytes, *out, err);
    HRF_TRY(hrf_cuda_allocate(device, n_bytes, &memory, err));
    const enum hrf_status status = hrf_cuda_write(device, from, n_bytes, memory, err);
    if (status != HRF_OK) {
        hrf_cuda_release(memory);
        return status;
    }
    *out = memory;
    return HRF_OK;
}
