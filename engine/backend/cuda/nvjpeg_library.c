/* nvjpeg_library.c - see nvjpeg_library.h. */
#include "engine/backend/cuda/nvjpeg_library.h"

#include "base/module.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void *open_library(const char *named)
{
    static const char *const files[] = { "libnvjpeg.so.13", "libnvjpeg.so.12" };
    void *library = NULL;
    if (named != NULL)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && library == NULL; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

enum hrf_status hrf_nvjpeg_load(struct hrf_nvjpeg_library *out, struct hrf_error *err)
{
    struct hrf_nvjpeg_library l = { .get_property = NULL };
    const char *named = getenv("HRF_NVJPEG");
    void *library = open_library(named);
    if (library == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "nvJPEG cannot be loaded (%s); it comes with the CUDA toolkit and in "
                             "Python's nvidia-nvjpeg, whose folder LD_LIBRARY_PATH must name",
                             dlerror());
    if (!hrf_module_symbol(library, "nvjpegGetProperty", &l.get_property) ||
        !hrf_module_symbol(library, "nvjpegCreateEx", &l.create) ||
        !hrf_module_symbol(library, "nvjpegDestroy", &l.destroy) ||
        !hrf_module_symbol(library, "nvjpegJpegStateCreate", &l.state_create) ||
        !hrf_module_symbol(library, "nvjpegJpegStateDestroy", &l.state_destroy) ||
        !hrf_module_symbol(library, "nvjpegDecodeBatchedInitialize", &l.batch_init) ||
        !hrf_module_symbol(library, "nvjpegDecodeBatched", &l.batch_decode))
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "'%s' is no nvJPEG: %s",
                             named != NULL ? named : "libnvjpeg", dlerror());
    for (int i = 0; i < 3; i++)
        if (l.get_property(HRF_NVJPEG_MAJOR_VERSION + i, &l.version[i]) != HRF_NVJPEG_SUCCESS)
            l.version[i] = 0;
    *out = l;
    return HRF_OK;
}

enum hrf_status hrf_nvjpeg_error(int status, const char *what, struct hrf_error *err)
{
    static const char *const names[] = { "SUCCESS",
                                         "NOT_INITIALIZED",
                                         "INVALID_PARAMETER",
                                         "BAD_JPEG",
                                         "JPEG_NOT_SUPPORTED",
                                         "ALLOCATOR_FAILURE",
                                         "EXECUTION_FAILED",
                                         "ARCH_MISMATCH",
                                         "INTERNAL_ERROR",
                                         "IMPLEMENTATION_NOT_SUPPORTED",
                                         "INCOMPLETE_BITSTREAM" };
    const bool is_known = status >= 0 && (size_t)status < sizeof names / sizeof names[0];
    const bool is_jpeg = status == HRF_NVJPEG_BAD_JPEG || status == HRF_NVJPEG_JPEG_NOT_SUPPORTED ||
                         status == HRF_NVJPEG_INCOMPLETE_BITSTREAM;
    return hrf_error_set_foreign(err, is_jpeg ? HRF_E_UNSUPPORTED : HRF_E_EXTERNAL, "nvjpeg",
                                 status, "nvJPEG, %s: %s (%d)", what,
                                 is_known ? names[status] : "unknown status", status);
}
