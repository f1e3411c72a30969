#include "engine/backend/cuda/cudnn_graph.h"

#include <stdio.h>
#include <string.h>

enum hrf_status hrf_cudnn_error(struct hrf_error *err, cudnnStatus_t status, const char *what)
{
    char detail[256];
    cudnnGetLastErrorString(detail, sizeof detail);
    for (char *at = detail; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    enum hrf_status kind = HRF_E_EXTERNAL;
    if (status == CUDNN_STATUS_ALLOC_FAILED)
        kind = HRF_E_NOMEM;
    else if (status / 1000 == 3)
        kind = HRF_E_UNSUPPORTED;
    return hrf_error_set_foreign(err, kind, "cudnn", (int)status, "cuDNN, %s: %s%s%s", what,
                                 cudnnGetErrorString(status), detail[0] != '\0' ? ": " : "",
                                 detail);
}

/* F32, F16, B16, S8, S32; HRF_E_UNSUPPORTED for others. */
static enum hrf_status cudnn_type(enum hrf_dtype dtype, cudnnDataType_t *out, struct hrf_error *err)
{
    switch (dtype) {
    case HRF_F32:
        *out = CUDNN_DATA_FLOAT;
        return HRF_OK;
    case HRF_F16:
        *out = CUDNN_DATA_HALF;
        return HRF_OK;
    case HRF_B16:
        *out = CUDNN_DATA_BFLOAT16;
        return HRF_OK;
    case HRF_S8:
        *out = CUDNN_DATA_INT8;
        return HRF_OK;
    case HRF_S32:
        *out = CUDNN_DATA_INT32;
        return HRF_OK;
    default:
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "cuDNN is not used for %s",
                             hrf_dtype_name(dtype));
    }
}

/* ---- devices ---- */

struct hrf_cudnn_device {
    cudnnBackendDescriptor_t descriptor;
};

void hrf_cudnn_device_destroy(struct hrf_cudnn_device *device)
{
    if (device == NULL)
        return;
    if (device->descriptor != NULL)
        cudnnBackendDestroyDescriptor(device->descriptor);
    hrf_free(device);
}

static enum hrf_status create_device(cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type, int64_t n, const void *value,
                                     struct hrf_cudnn_device **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_cudnn_device) device = hrf_calloc(1, sizeof *device);
    HRF_TRY_CUDNN(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device->descriptor),
        "device properties");
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(device->descriptor, name, type, n, value),
                  "device properties");
    HRF_TRY_CUDNN(cudnnBackendFinalize(device->descriptor), "device properties");
    HRF_MOVE(*out, device);
    return HRF_OK;
}

enum hrf_status hrf_cudnn_device_parse(const char *json, struct hrf_cudnn_device **out,
                                       struct hrf_error *err)
{
    return create_device(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                         (int64_t)strlen(json) + 1, json, out, err);
}

enum hrf_status hrf_cudnn_device_of(cudnnHandle_t handle, struct hrf_cudnn_device **out,
                                    struct hrf_error *err)
{
    return create_device(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, out, err);
}

cudnnBackendDescriptor_t hrf_cudnn_device_descriptor(const struct hrf_cudnn_device *device)
{
    return device->descriptor;
}

enum hrf_status hrf_cudnn_device_json(const struct hrf_cudnn_device *device, char **out,
                                      struct hrf_error *err)
{
    enum { MOST = 1 << 16 };
    HRF_AUTO_FREE char *text = hrf_calloc(MOST, 1);
    int64_t n = 0;
    HRF_TRY_CUDNN(cudnnBackendGetAttribute(device->descriptor,
                                           CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, MOST - 1, &n, text),
                  "device properties");
    HRF_MOVE(*out, text);
    return HRF_OK;
}

/* ---- the builder ---- */

static void cudnn_graph_fail(struct hrf_cudnn_graph *g, cudnnStatus_t status, const char *what)
{
    if (g->first.status == HRF_OK)
        (void)hrf_cudnn_error(&g->first, status, what);
}

static cudnnBackendDescriptor_t
cudnn_graph_make(struct hrf_cudnn_graph *g, cudnnBackendDescriptorType_t type, const char *what)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    if (g->first.status != HRF_OK)
        return NULL;
    if (g->n_owned == HRF_CUDNN_MAX_DESCRIPTORS) {
        (void)hrf_error_set(&g->first, HRF_E_BUG, "an operation graph of over %d descriptors",
                            HRF_CUDNN_MAX_DESCRIPTORS);
        return NULL;
    }
    cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &descriptor);
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnn_graph_fail(g, status, what);
        return NULL;
    }
    g->owned[g->n_owned++] = descriptor;
    return descriptor;
}

static void set(struct hrf_cudnn_graph *g, cudnnBackendDescriptor_t descriptor,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *value, const char *what)
{
    if (g->first.status != HRF_OK)
        return;
    cudnnStatus_t status = cudnnBackendSetAttribute(descriptor, name, type, n, value);
    if (status != CUDNN_STATUS_SUCCESS)
        cudnn_graph_fail(g, status, what);
}

static cudnnBackendDescriptor_t finish(struct hrf_cudnn_graph *g,
                                       cudnnBackendDescriptor_t descriptor, const char *what)
{
    if (g->first.status != HRF_OK)
        return NULL;
    cudnnStatus_t status = cudnnBackendFinalize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnn_graph_fail(g, status, what);
        return NULL;
    }
    return descriptor;
}

/* A tensor; by value: one number, at the host's address. */
static cudnnBackendDescriptor_t add_tensor(struct hrf_cudnn_graph *g, int64_t id,
                                           enum hrf_dtype dtype, const int64_t dims[4],
                                           const int64_t strides[4], bool by_value)
{
    enum { FIRST_VIRTUAL = 1000 };
    static const char what[] = "a tensor";
    const int64_t alignment = 16;
    const bool is_virtual = id == 0;
    cudnnDataType_t type;
    if (g->first.status != HRF_OK || cudnn_type(dtype, &type, &g->first) != HRF_OK)
        return NULL;
    if (is_virtual)
        id = FIRST_VIRTUAL + g->next_virtual++;
    cudnnBackendDescriptor_t t = cudnn_graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims, what);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides, what);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, what);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, what);
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, what);
    if (by_value)
        set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, what);
    return finish(g, t, what);
}

cudnnBackendDescriptor_t hrf_cudnn_tensor(struct hrf_cudnn_graph *g, int64_t id,
                                          enum hrf_dtype dtype, const int64_t dims[4])
{
    const int64_t strides[4] = { dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1] };
    return add_tensor(g, id, dtype, dims, strides, false);
}

cudnnBackendDescriptor_t hrf_cudnn_view(struct hrf_cudnn_graph *g, int64_t id, enum hrf_dtype dtype,
                                        const int64_t dims[4], const int64_t strides[4])
{
    return add_tensor(g, id, dtype, dims, strides, false);
}

cudnnBackendDescriptor_t hrf_cudnn_number(struct hrf_cudnn_graph *g, int64_t id)
{
    static const int64_t one[4] = { 1, 1, 1, 1 };
    return add_tensor(g, id, HRF_F32, one, one, true);
}

static void add_operation(struct hrf_cudnn_graph *g, cudnnBackendDescriptor_t operation,
                          const char *what)
{
    if (finish(g, operation, what) == NULL)
        return;
    if (g->n_operations == HRF_CUDNN_MAX_OPERATIONS) {
        (void)hrf_error_set(&g->first, HRF_E_BUG, "an operation graph of over %d operations",
                            HRF_CUDNN_MAX_OPERATIONS);
        return;
    }
    g->operations[g->n_operations++] = operation;
}

/* NULL after a failure. */
static cudnnBackendDescriptor_t add_window(struct hrf_cudnn_graph *g,
                                           const struct hrf_cudnn_window *window,
                                           enum hrf_dtype accumulate, const char *what)
{
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n_axes = 2;
    cudnnDataType_t type;
    if (g->first.status != HRF_OK || cudnn_type(accumulate, &type, &g->first) != HRF_OK)
        return NULL;
    cudnnBackendDescriptor_t c = cudnn_graph_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n_axes, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, window->dilation, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, window->stride, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, window->pad_begin, what);
    set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, window->pad_end, what);
    return finish(g, c, what);
}

/* What the attributes of an operation of three tensors are called. */
struct operation_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
};

static void add_convolution(struct hrf_cudnn_graph *g, const struct operation_names *names,
                            const struct hrf_cudnn_window *window, enum hrf_dtype accumulate,
                            cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                            cudnnBackendDescriptor_t y, const char *what)
{
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t c = add_window(g, window, accumulate, what);
    if (c == NULL)
        return;
    cudnnBackendDescriptor_t o = cudnn_graph_make(g, names->type, what);
    set(g, o, names->window, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c, what);
    set(g, o, names->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x, what);
    set(g, o, names->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w, what);
    set(g, o, names->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y, what);
    set(g, o, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha, what);
    set(g, o, names->beta, CUDNN_TYPE_FLOAT, 1, &beta, what);
    add_operation(g, o, what);
}

void hrf_cudnn_convolution(struct hrf_cudnn_graph *g, const struct hrf_cudnn_window *window,
                           enum hrf_dtype accumulate, cudnnBackendDescriptor_t x,
                           cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    static const struct operation_names names = {
        .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        .window = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        .x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        .w = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        .y = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    };
    add_convolution(g, &names, window, accumulate, x, w, y, "a convolution");
}

void hrf_cudnn_convolution_gradient(struct hrf_cudnn_graph *g,
                                    const struct hrf_cudnn_window *window,
                                    enum hrf_dtype accumulate, enum hrf_cudnn_result result,
                                    cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                    cudnnBackendDescriptor_t y)
{
    static const struct operation_names to_x = {
        .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        .window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    };
    static const struct operation_names to_w = {
        .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        .window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    };
    add_convolution(g, result == HRF_CUDNN_GIVES_X ? &to_x : &to_w, window, accumulate, x, w, y,
                    "a convolution's gradient");
}

void hrf_cudnn_apply(struct hrf_cudnn_graph *g, const struct hrf_cudnn_pointwise *pointwise,
                     cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                     cudnnBackendDescriptor_t y)
{
    static const char what[] = "a pointwise operation";
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t p = cudnn_graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &pointwise->mode, what);
    set(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    /* A plain ReLU says no more than that: engines differ in which clips they know. */
    if (pointwise->lower != 0 || pointwise->upper != 0) {
        set(g, p, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, &pointwise->lower,
            what);
        set(g, p, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &pointwise->upper,
            what);
    }
    if (pointwise->slope != 0)
        set(g, p, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1,
            &pointwise->slope, what);
    p = finish(g, p, what);
    cudnnBackendDescriptor_t o = cudnn_graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                                                  what);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p,
        what);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x, what);
    if (b != NULL)
        set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b, what);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y, what);
    add_operation(g, o, what);
}

void hrf_cudnn_attend(struct hrf_cudnn_graph *g, cudnnBackendDescriptor_t q,
                      cudnnBackendDescriptor_t k, cudnnBackendDescriptor_t v,
                      cudnnBackendDescriptor_t scale, cudnnBackendDescriptor_t y)
{
#if CUDNN_VERSION >= 91900
    static const char what[] = "an attention";
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendDescriptor_t tensor;
    } operands[] = { { CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q },
                     { CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k },
                     { CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v },
                     { CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale },
                     { CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, y } };
    cudnnBackendDescriptor_t o = cudnn_graph_make(g, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                                                  what);
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++)
        set(g, o, operands[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operands[i].tensor, what);
    add_operation(g, o, what);
#else
    (void)q, (void)k, (void)v, (void)scale, (void)y;
    if (g->first.status == HRF_OK)
        (void)hrf_error_set(&g->first, HRF_E_UNSUPPORTED, "this build's cuDNN has no attention");
#endif
}

/* What cuDNN before its planning without a device asked for, and later versions still take: one
 * that does not take it needs none. */
static void set_handle(const struct hrf_cudnn_graph *g, cudnnBackendDescriptor_t graph,
                       cudnnHandle_t handle)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    if (g->first.status == HRF_OK)
        (void)cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                                       1, &handle);
#pragma GCC diagnostic pop
}

enum hrf_status hrf_cudnn_graph_finish(struct hrf_cudnn_graph *g, cudnnHandle_t handle,
                                       struct hrf_error *err)
{
    static const char what[] = "an operation graph";
    cudnnBackendDescriptor_t graph = cudnn_graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                                                      what);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations,
        g->operations, what);
    if (handle != NULL)
        set_handle(g, graph, handle);
    g->graph = finish(g, graph, what);
    if (g->first.status != HRF_OK && err != NULL)
        *err = g->first;
    return g->first.status;
}

void hrf_cudnn_graph_release(struct hrf_cudnn_graph *g)
{
    while (g->n_owned > 0)
        cudnnBackendDestroyDescriptor(g->owned[--g->n_owned]);
    *g = (struct hrf_cudnn_graph){ .graph = NULL };
}
