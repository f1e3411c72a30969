/* nvjpeg_library.h - NVIDIA's JPEG decoder, loaded if it exists.
 *
 * What we use of its interface, as nvjpeg.h of the versions 11 to 13 has it: toolkits do not all
 * install that header, and the library is of no use to a run that does not ask for it.
 * tests/emulated-cuda/nvjpeg_interface.c compares the two where there is one.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_NVJPEG_LIBRARY_H
#define HRF_ENGINE_BACKEND_CUDA_NVJPEG_LIBRARY_H

#include "base/error.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

enum {
    HRF_NVJPEG_SUCCESS = 0,
    HRF_NVJPEG_BAD_JPEG = 3,
    HRF_NVJPEG_JPEG_NOT_SUPPORTED = 4,
    HRF_NVJPEG_INCOMPLETE_BITSTREAM = 10
};
enum { HRF_NVJPEG_BACKEND_GPU_HYBRID = 2, HRF_NVJPEG_BACKEND_HARDWARE = 3 };
enum { HRF_NVJPEG_OUTPUT_UNCHANGED = 0, HRF_NVJPEG_OUTPUT_RGBI = 5 };
enum { HRF_NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION = 1 << 5 };
enum { HRF_NVJPEG_MAX_COMPONENT = 4 };
enum { HRF_NVJPEG_MAJOR_VERSION, HRF_NVJPEG_MINOR_VERSION, HRF_NVJPEG_PATCH_LEVEL };

struct hrf_nvjpeg_image {
    unsigned char *channel[HRF_NVJPEG_MAX_COMPONENT];
    size_t pitch[HRF_NVJPEG_MAX_COMPONENT];
};

/* Enumerations are ints in its interface. */
struct hrf_nvjpeg_library {
    int (*get_property)(int property, int *value);
    int (*create)(int backend, void *device_allocator, void *pinned_allocator, unsigned int flags,
                  void **handle);
    int (*destroy)(void *handle);
    int (*state_create)(void *handle, void **state);
    int (*state_destroy)(void *state);
    int (*batch_init)(void *handle, void *state, int n, int max_cpu_threads, int output_format);
    int (*batch_decode)(void *handle, void *state, const unsigned char *const *data,
                        const size_t *lengths, struct hrf_nvjpeg_image *images,
                        cudaStream_t stream);
    int version[3];
};

/* Loads it: the file that HRF_NVJPEG names, else that of version 13 or 12. It stays loaded.
 * HRF_E_UNSUPPORTED: there is none, or it lacks what we use. */
HRF_CHECKED enum hrf_status hrf_nvjpeg_load(struct hrf_nvjpeg_library *out, struct hrf_error *err);
/* "nvJPEG, decoding: BAD_JPEG (3)". HRF_E_UNSUPPORTED: a JPEG is not to its liking; HRF_E_EXTERNAL:
 * something else. */
enum hrf_status hrf_nvjpeg_error(int status, const char *what, struct hrf_error *err);

#endif
