/* driver_stub.c - as much of NVIDIA's driver library as cuDNN needs to compile a plan.
 *
 * cuDNN compiles a kernel by its own compiler and hands the result to the driver only to see that
 * it loads. Here it always does; nothing can run. The other functions that cuDNN looks up must be
 * there and are never of use. Linked to hires-cuda-plans alone, as libcuda.so.1. Source: NVIDIA
 * CUDA driver API, library management. */

enum { SUCCESS = 0, NO_DEVICE = 100 };

int cuInit(unsigned flags);
int cuDeviceGetCount(int *n);
int cuGetErrorString(int error, const char **text);
int cuLibraryLoadData(void **library, const void *code, int *options, void **values, unsigned n,
                      int *library_options, void **library_values, unsigned n_library);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryUnload(void *library);

static char loaded; /* any address that is not NULL */

int cuInit(unsigned flags)
{
    (void)flags;
    return NO_DEVICE;
}

int cuDeviceGetCount(int *n)
{
    *n = 0;
    return NO_DEVICE;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == SUCCESS ? "no error" : "no CUDA-capable device is detected";
    return SUCCESS;
}

int cuLibraryLoadData(void **library, const void *code, int *options, void **values, unsigned n,
                      int *library_options, void **library_values, unsigned n_library)
{
    (void)code, (void)options, (void)values, (void)n;
    (void)library_options, (void)library_values, (void)n_library;
    *library = &loaded;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library, (void)name;
    *kernel = &loaded;
    return SUCCESS;
}

int cuLibraryUnload(void *library)
{
    (void)library;
    return SUCCESS;
}

/* cuDNN asks whether they are there. */
#define ABSENT(name)                                                                               \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuDeviceGet)
ABSENT(cuDriverGetVersion)
ABSENT(cuGetErrorName)
ABSENT(cuKernelGetAttribute)
ABSENT(cuKernelSetAttribute)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate)
ABSENT(cuLinkDestroy)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuStreamGetCtx)
