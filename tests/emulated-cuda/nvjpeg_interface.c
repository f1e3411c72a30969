/* nvjpeg_interface.c - that what we say of nvJPEG's interface is what its header says, where there
 * is one: this file compiles or does not. */
#include "engine/backend/cuda/nvjpeg_library.h"

#include <nvjpeg.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(HRF_NVJPEG_SUCCESS, NVJPEG_STATUS_SUCCESS);
SAME(HRF_NVJPEG_BAD_JPEG, NVJPEG_STATUS_BAD_JPEG);
SAME(HRF_NVJPEG_JPEG_NOT_SUPPORTED, NVJPEG_STATUS_JPEG_NOT_SUPPORTED);
SAME(HRF_NVJPEG_INCOMPLETE_BITSTREAM, NVJPEG_STATUS_INCOMPLETE_BITSTREAM);
SAME(HRF_NVJPEG_BACKEND_GPU_HYBRID, NVJPEG_BACKEND_GPU_HYBRID);
SAME(HRF_NVJPEG_BACKEND_HARDWARE, NVJPEG_BACKEND_HARDWARE);
SAME(HRF_NVJPEG_OUTPUT_UNCHANGED, NVJPEG_OUTPUT_UNCHANGED);
SAME(HRF_NVJPEG_OUTPUT_RGBI, NVJPEG_OUTPUT_RGBI);
SAME(HRF_NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION);
SAME(HRF_NVJPEG_MAX_COMPONENT, NVJPEG_MAX_COMPONENT);
SAME(HRF_NVJPEG_MAJOR_VERSION, MAJOR_VERSION);
SAME(HRF_NVJPEG_MINOR_VERSION, MINOR_VERSION);
SAME(HRF_NVJPEG_PATCH_LEVEL, PATCH_LEVEL);
SAME(sizeof(struct hrf_nvjpeg_image), sizeof(nvjpegImage_t));
SAME(offsetof(struct hrf_nvjpeg_image, pitch), offsetof(nvjpegImage_t, pitch));
SAME(sizeof(int), sizeof(nvjpegStatus_t));
SAME(sizeof(int), sizeof(nvjpegBackend_t));
SAME(sizeof(int), sizeof(nvjpegOutputFormat_t));
SAME(sizeof(int), sizeof(libraryPropertyType));

/* Pointers to structs and void pointers, enumerations and ints are passed alike; the number of
 * parameters, and those of other types, are compared by calling the real functions. */
int hrf_nvjpeg_interface(nvjpegHandle_t handle, nvjpegJpegState_t state, nvjpegImage_t *images,
                         const unsigned char *const *data, const size_t *lengths,
                         cudaStream_t stream);
int hrf_nvjpeg_interface(nvjpegHandle_t handle, nvjpegJpegState_t state, nvjpegImage_t *images,
                         const unsigned char *const *data, const size_t *lengths,
                         cudaStream_t stream)
{
    int value = 0;
    unsigned int flags = 0;
    return (int)nvjpegGetProperty(MAJOR_VERSION, &value) |
           (int)nvjpegCreateEx(NVJPEG_BACKEND_HARDWARE, NULL, NULL, flags, &handle) |
           (int)nvjpegDestroy(handle) | (int)nvjpegJpegStateCreate(handle, &state) |
           (int)nvjpegJpegStateDestroy(state) |
           (int)nvjpegDecodeBatchedInitialize(handle, state, value, 1, NVJPEG_OUTPUT_RGBI) |
           (int)nvjpegDecodeBatched(handle, state, data, lengths, images, stream);
}
