/* cuda_runtime_api.h - a GPU that is not there: the part of the CUDA run time that the back end
 * uses, done by the host (runtime_private.hh names the parts). Names and meanings are NVIDIA's;
 * numbers are not.
 *
 * Work is queued and done no earlier than someone waits for it, streams are tied by events alone,
 * and "device" memory cannot be touched by the host in between: what is right here by luck alone
 * fails.
 */
#ifndef HRF_TESTS_EMULATED_CUDA_RUNTIME_API_H
#define HRF_TESTS_EMULATED_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorStubLibrary = 34,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorDeviceUninitialized = 201,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905
} cudaError_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
};

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4 };
enum { cudaIpcMemLazyEnablePeerAccess = 1 };
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess,
    cudaDriverEntryPointSymbolNotFound
};
typedef struct cudaIpcMemHandle_st {
    char reserved[64];
} cudaIpcMemHandle_t;
typedef struct cudaIpcEventHandle_st {
    char reserved[64];
} cudaIpcEventHandle_t;

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char *address, int size, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *address);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory);
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *memory);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);
/* cuStreamBatchMemOp (cuda.h), the only one that there is. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);

cudaError_t cudaMalloc(void **memory, size_t n_bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t n_bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t n_bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* What was done so far, in this process; by dlsym("hrf_emulated_counted"). */
struct hrf_emulated_counts {
    long graph_launches;
    long flags_taken;          /* by memory operations of streams */
    long flags_taken_replayed; /* of them as part of a graph */
};
typedef struct hrf_emulated_counts hrf_emulated_counts_function(void);

#ifdef __cplusplus
}

#include <functional>

/* Queues `work` on the stream, as a kernel's launch does. */
cudaError_t hrf_emulated_queue(cudaStream_t stream, std::function<void()> work);

/* Called by such work: the device's clock goes on. */
void hrf_emulated_take_time(double ms);

/* Work that needs others: tried until it is true. `begin` gives what is tried, anew each time that
 * the work comes up (a recording is replayed). */
using hrf_emulated_attempt = std::function<bool()>;
cudaError_t hrf_emulated_queue_attempt(cudaStream_t stream,
                                       std::function<hrf_emulated_attempt()> begin);

/* What another module of the process gets of this GPU, by dlsym("hrf_emulated_gpu_pointer"). */
struct hrf_emulated_gpu {
    cudaError_t (*queue_attempt)(cudaStream_t stream, std::function<hrf_emulated_attempt()> begin);
    int (*current_device)(void);
    bool (*is_on_device)(const void *memory, size_t n_bytes); /* in one block */
    void (*work_by_itself)(bool on); /* for peers in other processes, who cannot get it to work */
};

template <typename... Parameters, typename... Arguments>
cudaError_t hrf_emulated_launch(cudaStream_t stream, void (*kernel)(Parameters...),
                                Arguments... arguments)
{
    return hrf_emulated_queue(stream, [=] { kernel(arguments...); });
}
#endif
#endif
