/* device_flags.c - flags that streams set and wait for, in the memory of any GPU within reach:
 * CUDA's stream memory operations, which may be recorded.
 *
 * They belong to the driver, whose functions the run time looks up. A stream that writes a flag
 * first makes everything before it visible to all GPUs (a fence, by default). CUDA does not see the
 * order that flags give, so no two streams that it might serve in one line may wait for each other.
 */
#include "engine/backend/cuda/cuda_private.h"

#include <cuda.h>
#include <string.h>

typedef CUresult batch_function(CUstream stream, unsigned count, CUstreamBatchMemOpParams *params,
                                unsigned flags);

static CUdeviceptr address_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static CUstreamBatchMemOpParams write_op(const void *flag, uint32_t value)
{
    CUstreamBatchMemOpParams op = { .pad = { 0 } };
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = address_of(flag);
    op.writeValue.value = value;
    op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return op;
}

static CUstreamBatchMemOpParams wait_op(const void *flag)
{
    CUstreamBatchMemOpParams op = { .pad = { 0 } };
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = address_of(flag);
    op.waitValue.value = 1;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    return op;
}

static enum hrf_status queue(const struct hrf_cuda_device *device, cudaStream_t stream,
                             CUstreamBatchMemOpParams *ops, unsigned n, struct hrf_error *err)
{
    batch_function *batch = NULL;
    memcpy(&batch, &device->memory_operations, sizeof batch);
    const CUresult result = batch(stream, n, ops, 0);
    if (result == CUDA_SUCCESS)
        return HRF_OK;
    const bool is_unsupported = result == CUDA_ERROR_NOT_SUPPORTED ||
                                result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return hrf_error_set_foreign(
        err, is_unsupported ? HRF_E_UNSUPPORTED : HRF_E_EXTERNAL, "cuda", (int)result,
        "CUDA, memory operations of streams (cuStreamBatchMemOp): %s, error %d of the driver",
        is_unsupported ? "not supported by this GPU or driver" : "failed", (int)result);
}

enum hrf_status hrf_cuda_flag_set(struct hrf_backend *backend, void *flag, struct hrf_error *err)
{
    CUstreamBatchMemOpParams set = write_op(flag, 1);
    return queue(backend->device, backend->device->queue, &set, 1, err);
}

enum hrf_status hrf_cuda_flag_take(struct hrf_backend *backend, void *flag, struct hrf_error *err)
{
    CUstreamBatchMemOpParams take[] = { wait_op(flag), write_op(flag, 0) };
    return queue(backend->device, backend->device->queue, take, 2, err);
}

enum hrf_status hrf_cuda_flags_write(struct hrf_backend *backend, void *flags, int32_t n,
                                     uint32_t value, struct hrf_error *err)
{
    enum { MOST = 128 }; /* the driver takes fewer than 256 in a batch */
    const struct hrf_cuda_device *device = backend->device;
    CUstreamBatchMemOpParams ops[MOST];
    for (int32_t first = 0; first < n; first += MOST) {
        const int32_t count = n - first < MOST ? n - first : MOST;
        for (int32_t i = 0; i < count; i++)
            ops[i] = write_op((uint32_t *)flags + first + i, value);
        HRF_TRY(queue(device, device->aside, ops, (unsigned)count, err));
    }
    HRF_TRY_CUDA(cudaStreamSynchronize(device->aside), "writing flags between ranks");
    return HRF_OK;
}

/* ---- trying them out ---- */

static enum hrf_status find_function(struct hrf_cuda_device *device, struct hrf_error *err)
{
    enum { SINCE = 12000 }; /* of this form of the function */
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion(
        "cuStreamBatchMemOp", &device->memory_operations, SINCE, cudaEnableDefault, &found);
    if (status == cudaSuccess && found == cudaDriverEntryPointSuccess)
        return HRF_OK;
    (void)cudaGetLastError();
    device->memory_operations = NULL;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "the NVIDIA driver has no memory operations of streams "
                         "(cuStreamBatchMemOp)");
}

static enum hrf_status record_take(struct hrf_backend *backend, void *flag, cudaGraphExec_t *exec,
                                   struct hrf_error *err)
{
    static const char what[] = "trying flags between ranks";
    const struct hrf_cuda_device *device = backend->device;
    CUstreamBatchMemOpParams ops[] = { write_op(flag, 1), wait_op(flag), write_op(flag, 0) };
    cudaGraph_t graph = NULL;
    HRF_TRY_CUDA(cudaStreamBeginCapture(device->aside, cudaStreamCaptureModeThreadLocal), what);
    const enum hrf_status status = queue(device, device->aside, ops, 3, err);
    const cudaError_t ended = cudaStreamEndCapture(device->aside, &graph);
    if (status == HRF_OK)
        HRF_TRY_CUDA(ended, what);
    const cudaError_t made = status == HRF_OK ? cudaGraphInstantiate(exec, graph, 0) : cudaSuccess;
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    HRF_TRY(status);
    HRF_TRY_CUDA(made, what);
    return HRF_OK;
}

static enum hrf_status replay_twice(struct hrf_backend *backend, cudaGraphExec_t exec,
                                    struct hrf_error *err)
{
    static const char what[] = "trying flags between ranks";
    for (int i = 0; i < 2; i++)
        HRF_TRY_CUDA(cudaGraphLaunch(exec, backend->device->aside), what);
    HRF_TRY_CUDA(cudaStreamSynchronize(backend->device->aside), what);
    return HRF_OK;
}

enum hrf_status hrf_cuda_try_flags(struct hrf_backend *backend, void *memory, struct hrf_error *err)
{
    enum { BEFORE_OTHERS = -1 }; /* a stream of its own priority has a line of its own */
    struct hrf_cuda_device *device = backend->device;
    cudaGraphExec_t exec = NULL;
    HRF_TRY(hrf_cuda_device_enter(device, err));
    if (device->memory_operations == NULL)
        HRF_TRY(find_function(device, err));
    if (device->aside == NULL)
        HRF_TRY_CUDA(
            cudaStreamCreateWithPriority(&device->aside, cudaStreamNonBlocking, BEFORE_OTHERS),
            "starting the GPU");
    enum hrf_status status = record_take(backend, memory, &exec, err);
    if (status == HRF_OK)
        status = replay_twice(backend, exec, err);
    if (exec != NULL)
        (void)cudaGraphExecDestroy(exec);
    return status;
}
