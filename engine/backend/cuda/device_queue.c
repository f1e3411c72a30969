/* device_queue.c - memory and the order of work on the GPU: struct hrf_device_ops.
 *
 * Kernels and transfers of results go through one stream; pixels arrive on a second one, so that a
 * batch crosses the bus while the one before it is computed. Events tie the two together.
 */
#include "engine/backend/cuda/cuda_private.h"

#include <assert.h>

static enum hrf_status device_queue_allocate(struct hrf_backend *backend, size_t n_bytes,
                                             void **out, struct hrf_error *err)
{
    return hrf_cuda_allocate(backend->device, n_bytes, out, err);
}

static void device_queue_release(struct hrf_backend *backend, void *memory)
{
    (void)backend;
    hrf_cuda_release(memory);
}

static enum hrf_status allocate_host(struct hrf_backend *backend, size_t n_bytes, void **out,
                                     struct hrf_error *err)
{
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    HRF_TRY_CUDA(cudaMallocHost(out, n_bytes > 0 ? n_bytes : 1),
                 "allocating host memory for transfers");
    return HRF_OK;
}

static void release_host(struct hrf_backend *backend, void *memory)
{
    (void)backend;
    if (memory != NULL)
        (void)cudaFreeHost(memory);
}

static enum hrf_status upload(struct hrf_backend *backend, void *to, const void *from,
                              size_t n_bytes, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyHostToDevice, backend->device->queue),
                 "copying to the GPU");
    return HRF_OK;
}

static enum hrf_status download(struct hrf_backend *backend, void *to, const void *from,
                                size_t n_bytes, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDeviceToHost, backend->device->queue),
                 "copying from the GPU");
    return HRF_OK;
}

static enum hrf_status make_room(struct hrf_backend *backend, struct hrf_cuda_landing *landing,
                                 size_t n_bytes, struct hrf_error *err)
{
    void *room = NULL;
    if (n_bytes <= landing->n_bytes)
        return HRF_OK;
    HRF_TRY(hrf_cuda_allocate(backend->device, n_bytes, &room, err));
    hrf_cuda_release(landing->pixels); /* waits for whoever still reads it */
    landing->pixels = room;
    landing->n_bytes = n_bytes;
    return HRF_OK;
}

static enum hrf_status reserve_pixels(struct hrf_backend *backend, int64_t n_pixels,
                                      struct hrf_error *err)
{
    for (int slot = 0; slot < 2; slot++)
        HRF_TRY(make_room(backend, &backend->landings[slot], 3 * (size_t)n_pixels, err));
    return HRF_OK;
}

static const char landing_pixels[] = "copying pixels to the GPU";

enum hrf_status hrf_cuda_land_begin(struct hrf_backend *backend, int32_t slot, uint8_t **pixels,
                                    struct hrf_error *err)
{
    const struct hrf_cuda_device *device = backend->device;
    assert(slot == 0 || slot == 1);
    struct hrf_cuda_landing *landing = &backend->landings[slot];
    HRF_TRY_CUDA(cudaStreamWaitEvent(device->copies, landing->used, 0), landing_pixels);
    HRF_TRY_CUDA(cudaEventRecord(landing->sent, device->copies), landing_pixels);
    *pixels = landing->pixels;
    return HRF_OK;
}

enum hrf_status hrf_cuda_land_end(struct hrf_backend *backend, int32_t slot, void *to,
                                  const struct hrf_value *input, int64_t n_pixels,
                                  const struct hrf_pixel_form *form, struct hrf_error *err)
{
    const struct hrf_operand y = { .dtype = input->dtype, .quantization = input->quantization };
    const struct hrf_cuda_device *device = backend->device;
    struct hrf_cuda_landing *landing = &backend->landings[slot];
    assert(3 * (size_t)n_pixels <= landing->n_bytes);
    HRF_TRY_CUDA(cudaEventRecord(landing->arrived, device->copies), landing_pixels);
    HRF_TRY_CUDA(cudaStreamWaitEvent(device->stream, landing->arrived, 0), landing_pixels);
    HRF_TRY_CUDA(hrf_k_normalise(hrf_cuda_array(&y, to), landing->pixels, n_pixels, form->scale,
                                 form->shift, device->stream),
                 landing_pixels);
    HRF_TRY_CUDA(cudaEventRecord(landing->used, device->stream), landing_pixels);
    landing->is_timed = true;
    return HRF_OK;
}

static enum hrf_status upload_pixels(struct hrf_backend *backend, int32_t slot, void *to,
                                     const struct hrf_value *input, const uint8_t *from,
                                     int64_t n_pixels, const struct hrf_pixel_form *form,
                                     struct hrf_error *err)
{
    uint8_t *pixels = NULL;
    HRF_TRY(hrf_cuda_land_begin(backend, slot, &pixels, err));
    HRF_TRY_CUDA(cudaMemcpyAsync(pixels, from, 3 * (size_t)n_pixels, cudaMemcpyHostToDevice,
                                 backend->device->copies),
                 landing_pixels);
    return hrf_cuda_land_end(backend, slot, to, input, n_pixels, form, err);
}

static enum hrf_status begin(struct hrf_backend *backend, int32_t slot, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaEventRecord(backend->begins[slot], backend->device->stream),
                 "queueing work on the GPU");
    return HRF_OK;
}

static enum hrf_status mark(struct hrf_backend *backend, int32_t slot, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaEventRecord(backend->marks[slot], backend->device->queue),
                 "queueing work on the GPU");
    return HRF_OK;
}

static enum hrf_status device_queue_wait(struct hrf_backend *backend, int32_t slot,
                                         struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaEventSynchronize(backend->marks[slot]), "running the network");
    return HRF_OK;
}

static enum hrf_status is_done(struct hrf_backend *backend, int32_t slot, bool *out,
                               struct hrf_error *err)
{
    const cudaError_t status = cudaEventQuery(backend->marks[slot]);
    if (status == cudaErrorNotReady)
        (void)cudaGetLastError();
    else
        HRF_TRY_CUDA(status, "running the network");
    *out = status == cudaSuccess;
    return HRF_OK;
}

static enum hrf_status times(struct hrf_backend *backend, int32_t slot,
                             struct hrf_device_times *out, struct hrf_error *err)
{
    const struct hrf_cuda_landing *landing = &backend->landings[slot];
    float copy_ms = 0, kernels_ms = 0;
    if (landing->is_timed)
        HRF_TRY_CUDA(cudaEventElapsedTime(&copy_ms, landing->sent, landing->arrived),
                     "timing a batch");
    HRF_TRY_CUDA(cudaEventElapsedTime(&kernels_ms, backend->begins[slot], backend->marks[slot]),
                 "timing a batch");
    *out = (struct hrf_device_times){ (double)copy_ms * 1e-3, (double)kernels_ms * 1e-3 };
    return HRF_OK;
}

static enum hrf_status record_begin(struct hrf_backend *backend, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaStreamBeginCapture(backend->device->stream, cudaStreamCaptureModeThreadLocal),
                 "recording the network as one graph");
    return HRF_OK;
}

static enum hrf_status record_end(struct hrf_backend *backend, void **recording,
                                  struct hrf_error *err)
{
    static const char what[] = "recording the network as one graph";
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    HRF_TRY_CUDA(cudaStreamEndCapture(backend->device->stream, &graph), what);
    const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
    (void)cudaGraphDestroy(graph);
    HRF_TRY_CUDA(status, what);
    *recording = exec;
    return HRF_OK;
}

static enum hrf_status replay(struct hrf_backend *backend, void *recording, struct hrf_error *err)
{
    HRF_TRY_CUDA(cudaGraphLaunch(recording, backend->device->stream), "running the network");
    return HRF_OK;
}

static void record_destroy(struct hrf_backend *backend, void *recording)
{
    (void)backend;
    if (recording != NULL)
        (void)cudaGraphExecDestroy(recording);
}

static int32_t n_wrong_engines(const struct hrf_backend *backend)
{
    return hrf_plan_cache_n_wrong(backend->plans);
}

static const char *notes(struct hrf_backend *backend)
{
    hrf_strbuf_clear(&backend->notes);
    hrf_plan_cache_notes(backend->plans, &backend->notes);
    hrf_strbuf_adds(&backend->notes, backend->lines.text);
    hrf_strbuf_clear(&backend->lines);
    return backend->notes.text;
}

static const char *device_queue_describe(const struct hrf_backend *backend)
{
    return backend->description;
}

static bool is_first(const struct hrf_backend *backend)
{
    return hrf_binding_is_first(&backend->device->binding);
}

static const struct hrf_device_recording_ops recording = {
    .begin = record_begin,
    .end = record_end,
    .replay = replay,
    .destroy = record_destroy,
};

const struct hrf_device_ops hrf_cuda_queue = {
    .recording = &recording,
    .peers = &hrf_cuda_peers,
    .decoding = &hrf_cuda_decoding,
    .allocate = device_queue_allocate,
    .release = device_queue_release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .upload = upload,
    .download = download,
    .reserve_pixels = reserve_pixels,
    .upload_pixels = upload_pixels,
    .begin = begin,
    .mark = mark,
    .wait = device_queue_wait,
    .is_done = is_done,
    .times = times,
    .notes = notes,
    .n_wrong_engines = n_wrong_engines,
    .describe = device_queue_describe,
    .copy_box = hrf_cuda_copy_box,
    .address = hrf_cuda_address,
    .is_first = is_first,
};
