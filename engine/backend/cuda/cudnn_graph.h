/* cudnn_graph.h - cuDNN's operation graphs from C: tensors, operations, engines, plans.
 *
 * A builder owns every descriptor it makes and remembers the first failure, so that a graph is
 * written down as a list of calls and asked once at the end. Needs no device: where there is
 * none, the properties of one come as JSON (hrf_cudnn_device). One thread at a time.
 * Source: NVIDIA cuDNN 9 backend API reference.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_GRAPH_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_GRAPH_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/ir/graph.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

enum hrf_status hrf_cudnn_error(struct hrf_error *err, cudnnStatus_t status, const char *what);
#define HRF_TRY_CUDNN(call, what)                                                                  \
    do {                                                                                           \
        cudnnStatus_t status_ = (call);                                                            \
        if (status_ != CUDNN_STATUS_SUCCESS)                                                       \
            return hrf_cudnn_error(err, status_, what);                                            \
    } while (0)

/* A device as cuDNN's planning knows it. */
struct hrf_cudnn_device;
/* From cuDNN's own JSON form of a device's properties: works without that device. */
HRF_CHECKED enum hrf_status hrf_cudnn_device_parse(const char *json, struct hrf_cudnn_device **out,
                                                   struct hrf_error *err);
/* The present device of `handle`. */
HRF_CHECKED enum hrf_status hrf_cudnn_device_of(cudnnHandle_t handle, struct hrf_cudnn_device **out,
                                                struct hrf_error *err);
void hrf_cudnn_device_destroy(struct hrf_cudnn_device *device);
HRF_DEFINE_AUTO(hrf_cudnn_device)
/* Borrowed. */
cudnnBackendDescriptor_t hrf_cudnn_device_descriptor(const struct hrf_cudnn_device *device);
/* JSON of the properties; heap. */
HRF_CHECKED enum hrf_status hrf_cudnn_device_json(const struct hrf_cudnn_device *device, char **out,
                                                  struct hrf_error *err);

enum { HRF_CUDNN_MAX_DESCRIPTORS = 48, HRF_CUDNN_MAX_OPERATIONS = 12 };

struct hrf_cudnn_graph {
    cudnnBackendDescriptor_t owned[HRF_CUDNN_MAX_DESCRIPTORS];
    int32_t n_owned;
    cudnnBackendDescriptor_t operations[HRF_CUDNN_MAX_OPERATIONS];
    int32_t n_operations;
    cudnnBackendDescriptor_t graph; /* after hrf_cudnn_graph_finish */
    int64_t next_virtual;           /* id of the next tensor that never touches memory */
    struct hrf_error first;         /* the first failure */
};

/* N, C, H, W dims with memory in N, H, W, C order, dense, 16-byte aligned. id > 0 names the
 * tensor at run time; 0 makes a virtual one. NULL after a failure, which later calls accept. */
cudnnBackendDescriptor_t hrf_cudnn_tensor(struct hrf_cudnn_graph *g, int64_t id,
                                          enum hrf_dtype dtype, const int64_t dims[4]);
/* The same, lying in memory as `strides` (in elements) say. */
cudnnBackendDescriptor_t hrf_cudnn_view(struct hrf_cudnn_graph *g, int64_t id, enum hrf_dtype dtype,
                                        const int64_t dims[4], const int64_t strides[4]);
/* A float that a run is given by the host's address. */
cudnnBackendDescriptor_t hrf_cudnn_number(struct hrf_cudnn_graph *g, int64_t id);
struct hrf_cudnn_window {
    int64_t stride[2], dilation[2], pad_begin[2], pad_end[2];
};
/* y = conv(x, w), summed in `accumulate`. */
void hrf_cudnn_convolution(struct hrf_cudnn_graph *g, const struct hrf_cudnn_window *window,
                           enum hrf_dtype accumulate, cudnnBackendDescriptor_t x,
                           cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y);
/* The tensor of a convolution that a graph computes from the two others: y, the gradient to x from
 * that to y, or the gradient to w likewise. */
enum hrf_cudnn_result { HRF_CUDNN_GIVES_Y, HRF_CUDNN_GIVES_X, HRF_CUDNN_GIVES_W };
/* The gradient to x or w of that convolution, in the place of x or w; y is the gradient to y. */
void hrf_cudnn_convolution_gradient(struct hrf_cudnn_graph *g,
                                    const struct hrf_cudnn_window *window,
                                    enum hrf_dtype accumulate, enum hrf_cudnn_result result,
                                    cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                    cudnnBackendDescriptor_t y);
/* y = mode(x, b); b may be NULL for modes of one operand. Computed in float. `lower` and `upper`
 * are ReLU's clips (upper 0: none), `slope` its slope below `lower`. */
struct hrf_cudnn_pointwise {
    cudnnPointwiseMode_t mode;
    double lower, upper, slope;
};
void hrf_cudnn_apply(struct hrf_cudnn_graph *g, const struct hrf_cudnn_pointwise *pointwise,
                     cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                     cudnnBackendDescriptor_t y);
/* y = softmax(scale q k') v, of dims N, heads, tokens, channels. Scores in float; they are rounded
 * to y's type before the second product. cuDNN 9.19 or newer. */
void hrf_cudnn_attend(struct hrf_cudnn_graph *g, cudnnBackendDescriptor_t q,
                      cudnnBackendDescriptor_t k, cudnnBackendDescriptor_t v,
                      cudnnBackendDescriptor_t scale, cudnnBackendDescriptor_t y);
/* Finalises the graph, or gives the first failure of all the calls before. Plans of a handle want a
 * graph of the same one; `handle` NULL: for a device that is described. */
HRF_CHECKED enum hrf_status hrf_cudnn_graph_finish(struct hrf_cudnn_graph *g, cudnnHandle_t handle,
                                                   struct hrf_error *err);
void hrf_cudnn_graph_release(struct hrf_cudnn_graph *g);

/* What an engine says of itself. */
struct hrf_cudnn_engine {
    cudnnBackendDescriptor_t config; /* owned by the list */
    int64_t index;                   /* cuDNN's global number of the engine */
    uint64_t setting;                /* of its knobs; another one is another kernel */
    int64_t workspace_bytes;
    bool deterministic, tensor_core, reduced_precision, winograd_or_fft;
};
enum { HRF_CUDNN_MAX_ENGINES = 40 };
struct hrf_cudnn_engines {
    struct hrf_cudnn_engine items[HRF_CUDNN_MAX_ENGINES];
    int32_t n_items;
};
/* cuDNN's lists, in the order in which they are asked for: the quick heuristic (A), the one that
 * looks closer (B; cuDNN 9.19 has none of its own for convolutions and answers as for A), and the
 * engines that take most graphs. Each is ranked, best first. */
enum hrf_cudnn_mode {
    HRF_CUDNN_MODE_A,
    HRF_CUDNN_MODE_B,
    HRF_CUDNN_MODE_FALL_BACK,
    HRF_CUDNN_N_MODES,
};
/* Adds the engines of that list that `engines` does not have yet, as far as it has room. None is no
 * error. After an error the caller still releases the list. */
HRF_CHECKED enum hrf_status hrf_cudnn_engines_add(const struct hrf_cudnn_graph *g,
                                                  const struct hrf_cudnn_device *device,
                                                  enum hrf_cudnn_mode mode,
                                                  struct hrf_cudnn_engines *engines,
                                                  struct hrf_error *err);
/* Whether there are two with different numbers, not one alone with several settings. */
bool hrf_cudnn_engines_differ(const struct hrf_cudnn_engines *engines);
void hrf_cudnn_engines_release(struct hrf_cudnn_engines *engines);

#endif
