/* device_share.c - what ranks do with each other's GPU memory: packing, joining, memory and signals
 * that another back end may use (struct hrf_device_peer_ops).
 *
 * Within a process a handle is the pointer itself and another GPU is reached by peer access;
 * between processes it is CUDA IPC's. A process cannot open what it shared itself. Signals are
 * events without timing, which CUDA lets other processes wait for.
 */
#include "engine/backend/cuda/cuda_private.h"

#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) <= sizeof(struct hrf_device_handle) &&
                   sizeof(cudaIpcEventHandle_t) <= sizeof(struct hrf_device_handle),
               "CUDA IPC's handles fit");

enum hrf_status hrf_cuda_copy_box(struct hrf_backend *backend, const struct hrf_device_box *box,
                                  struct hrf_error *err)
{
    const struct hrf_k_box b = { box->to,     box->from,       box->n_images,
                                 box->n_rows, box->row_bytes,  box->to_image,
                                 box->to_row, box->from_image, box->from_row };
    HRF_TRY_CUDA(hrf_k_copy_box(&b, backend->device->queue), "packing what ranks exchange");
    return HRF_OK;
}

static cudaError_t device_share_join(const struct hrf_device_join *j, void *out, const void *parts,
                                     cudaStream_t stream)
{
    static const enum hrf_k_type types[] = { [HRF_F32] = HRF_K_F32,
                                             [HRF_F16] = HRF_K_F16,
                                             [HRF_B16] = HRF_K_B16,
                                             [HRF_S8] = HRF_K_S8,
                                             [HRF_U8] = HRF_K_U8 };
    if (!j->is_max && j->dtype == HRF_S32)
        return hrf_k_sum_integers(out, parts, j->n_parts, j->count, stream);
    if (!j->is_max)
        return hrf_k_sum_doubles(out, parts, j->n_parts, j->count, stream);
    const struct hrf_k_array y = { .data = out, .type = types[j->dtype], .scale = 1 };
    struct hrf_k_array x = { .type = types[j->dtype], .scale = 1 };
    memcpy(&x.data, &parts, sizeof parts); /* kernels take one kind of array: const goes */
    return hrf_k_largest(&y, &x, j->n_parts, j->count, stream);
}

static enum hrf_status join_parts(struct hrf_backend *backend, const struct hrf_device_join *j,
                                  void *out, const void *parts, struct hrf_error *err)
{
    HRF_TRY_CUDA(device_share_join(j, out, parts, backend->device->queue),
                 "joining the ranks' sums");
    return HRF_OK;
}

const char *hrf_cuda_address(const struct hrf_backend *backend)
{
    return backend->device->address;
}

static void *queue(struct hrf_backend *backend)
{
    return backend->device->queue;
}

static void select_queue(struct hrf_backend *backend, enum hrf_device_queue queue)
{
    struct hrf_cuda_device *device = backend->device;
    device->queue = queue == HRF_QUEUE_PEERS ? device->peers : device->stream;
}

static enum hrf_status follow(struct hrf_backend *backend, struct hrf_error *err)
{
    static const char what[] = "ordering kernels and exchanges";
    const struct hrf_cuda_device *device = backend->device;
    const bool is_peers = device->queue == device->stream;
    const cudaEvent_t event = is_peers ? device->reached_peers : device->reached;
    HRF_TRY_CUDA(cudaEventRecord(event, is_peers ? device->peers : device->stream), what);
    HRF_TRY_CUDA(cudaStreamWaitEvent(device->queue, event, 0), what);
    return HRF_OK;
}

/* ---- memory ---- */

static enum hrf_status share(struct hrf_backend *backend, void *memory, bool is_interprocess,
                             struct hrf_device_handle *out, struct hrf_error *err)
{
    struct hrf_device_handle handle = { { 0 } };
    cudaIpcMemHandle_t ipc;
    if (!is_interprocess) {
        memcpy(handle.bytes, &memory, sizeof memory);
        *out = handle;
        return HRF_OK;
    }
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    const cudaError_t status = cudaIpcGetMemHandle(&ipc, memory);
    if (status != cudaSuccess) {
        (void)cudaGetLastError();
        return hrf_error_set_foreign(err, HRF_E_UNSUPPORTED, "cuda", (int)status,
                                     "GPU memory of this process cannot be shared with another "
                                     "(CUDA IPC): %s",
                                     cudaGetErrorString(status));
    }
    memcpy(handle.bytes, &ipc, sizeof ipc);
    *out = handle;
    return HRF_OK;
}

/* The GPU at `address` from this one; one that this process does not see may be reached between
 * processes all the same (CUDA 10.1 on): opening tells. */
static enum hrf_status reach(const struct hrf_cuda_device *device, const char *address,
                             bool is_interprocess, struct hrf_error *err)
{
    int other = -1, can = 0;
    if (strcmp(address, device->address) == 0)
        return HRF_OK;
    const cudaError_t seen = cudaDeviceGetByPCIBusId(&other, address);
    if (seen != cudaSuccess) {
        (void)cudaGetLastError();
        return is_interprocess ? HRF_OK : hrf_cuda_error(err, seen, "looking for a rank's GPU");
    }
    HRF_TRY_CUDA(cudaDeviceCanAccessPeer(&can, device->index, other),
                 "asking which GPUs reach each other");
    if (!can)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the GPU at %s cannot reach the memory of the one at %s (no peer "
                             "access, nvidia-smi topo -p2p r)",
                             device->address, address);
    const cudaError_t status = is_interprocess ? cudaSuccess : cudaDeviceEnablePeerAccess(other, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
    else
        HRF_TRY_CUDA(status, "reaching a rank's GPU");
    return HRF_OK;
}

static enum hrf_status open_memory(struct hrf_backend *backend,
                                   const struct hrf_device_handle *handle, const char *address,
                                   bool is_interprocess, void **out, struct hrf_error *err)
{
    void *memory = NULL;
    cudaIpcMemHandle_t ipc;
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    HRF_TRY(reach(backend->device, address, is_interprocess, err));
    if (!is_interprocess) {
        memcpy(out, handle->bytes, sizeof *out);
        return HRF_OK;
    }
    memcpy(&ipc, handle->bytes, sizeof ipc);
    const cudaError_t status = cudaIpcOpenMemHandle(&memory, ipc, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
        (void)cudaGetLastError();
        return hrf_error_set_foreign(err, HRF_E_UNSUPPORTED, "cuda", (int)status,
                                     "the memory of the GPU at %s cannot be opened from the one at "
                                     "%s (CUDA IPC): %s",
                                     address, backend->device->address, cudaGetErrorString(status));
    }
    *out = memory;
    return HRF_OK;
}

static void close_memory(struct hrf_backend *backend, void *memory, bool is_interprocess)
{
    (void)backend;
    if (is_interprocess && memory != NULL)
        (void)cudaIpcCloseMemHandle(memory);
}

/* ---- signals ---- */

static enum hrf_status signal_create(struct hrf_backend *backend, bool is_interprocess, void **out,
                                     struct hrf_device_handle *handle, struct hrf_error *err)
{
    static const char what[] = "making a signal between ranks";
    struct hrf_device_handle made = { { 0 } };
    cudaIpcEventHandle_t ipc;
    cudaEvent_t event = NULL;
    const unsigned flags = cudaEventDisableTiming | (is_interprocess ? cudaEventInterprocess : 0u);
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    HRF_TRY_CUDA(cudaEventCreateWithFlags(&event, flags), what);
    if (is_interprocess) {
        const cudaError_t status = cudaIpcGetEventHandle(&ipc, event);
        if (status != cudaSuccess) {
            (void)cudaEventDestroy(event);
            return hrf_cuda_error(err, status, what);
        }
        memcpy(made.bytes, &ipc, sizeof ipc);
    } else {
        memcpy(made.bytes, &event, sizeof event);
    }
    *handle = made;
    *out = event;
    return HRF_OK;
}

static enum hrf_status signal_open(struct hrf_backend *backend,
                                   const struct hrf_device_handle *handle, bool is_interprocess,
                                   void **out, struct hrf_error *err)
{
    cudaIpcEventHandle_t ipc;
    cudaEvent_t event = NULL;
    if (!is_interprocess) {
        memcpy(out, handle->bytes, sizeof *out);
        return HRF_OK;
    }
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    memcpy(&ipc, handle->bytes, sizeof ipc);
    HRF_TRY_CUDA(cudaIpcOpenEventHandle(&event, ipc), "opening another rank's signal");
    *out = event;
    return HRF_OK;
}

static void signal_destroy(struct hrf_backend *backend, void *signal)
{
    (void)backend;
    if (signal != NULL)
        (void)cudaEventDestroy(signal);
}

static enum hrf_status signal_set(struct hrf_backend *backend, void *signal, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaEventRecord(signal, backend->device->queue), "signalling to another rank");
    return HRF_OK;
}

static enum hrf_status signal_wait(struct hrf_backend *backend, void *signal, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaStreamWaitEvent(backend->device->queue, signal, 0),
                 "waiting for another rank");
    return HRF_OK;
}

const struct hrf_device_peer_ops hrf_cuda_peers = {
    .queue = queue,
    .select_queue = select_queue,
    .follow = follow,
    .join = join_parts,
    .share = share,
    .open = open_memory,
    .close = close_memory,
    .signal_create = signal_create,
    .signal_open = signal_open,
    .signal_destroy = signal_destroy,
    .signal_set = signal_set,
    .signal_wait = signal_wait,
    .try_flags = hrf_cuda_try_flags,
    .flag_set = hrf_cuda_flag_set,
    .flag_take = hrf_cuda_flag_take,
    .flags_write = hrf_cuda_flags_write,
};
