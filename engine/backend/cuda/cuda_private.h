/* cuda_private.h - the insides of the CUDA back end, for this folder only. */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDA_PRIVATE_H
#define HRF_ENGINE_BACKEND_CUDA_CUDA_PRIVATE_H

#include "base/strbuf.h"
#include "engine/backend/compute.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_attention.h"
#include "engine/backend/cuda/decode.h"
#include "engine/backend/cuda/kernels.h"
#include "engine/backend/cuda/plan_cache.h"
#include "engine/backend/cuda/product.h"

#include <cublasLt.h>
#include <cudnn.h>

/* Where pixels land on the device before they become floats. */
struct hrf_cuda_landing {
    uint8_t *pixels;
    size_t n_bytes;
    cudaEvent_t sent, arrived, used;
    bool is_timed; /* sent and arrived are of the last batch in this slot */
};

struct hrf_backend {
    struct hrf_cuda_device *device;
    cudnnHandle_t cudnn;
    cublasLtHandle_t cublas; /* NULL until a product asks for it */
    struct hrf_cudnn_device *properties;
    struct hrf_plan_cache *plans;
    struct hrf_attention_plans *attentions; /* NULL until an attention asks for it */
    struct hrf_cuda_landing landings[2];
    struct hrf_cuda_decoder *decoder; /* NULL until somebody asks for it */
    cudaEvent_t begins[2], marks[2];
    bool allow_tf32;
    bool told_of_seconds; /* why a convolution does not write a second output */
    int32_t n_planning_threads;
    char description[512];
    struct hrf_strbuf notes, lines; /* lines: for the next notes */
};

/* device_queue.c: pixels land between the two, in the stream device->copies. *pixels: where. */
HRF_CHECKED enum hrf_status hrf_cuda_land_begin(struct hrf_backend *backend, int32_t slot,
                                                uint8_t **pixels, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_land_end(struct hrf_backend *backend, int32_t slot, void *to,
                                              const struct hrf_value *input, int64_t n_pixels,
                                              const struct hrf_pixel_form *form,
                                              struct hrf_error *err);
/* device_share.c: what the queue (struct hrf_device_ops) has for ranks. */
enum hrf_status hrf_cuda_copy_box(struct hrf_backend *backend, const struct hrf_device_box *box,
                                  struct hrf_error *err);
const char *hrf_cuda_address(const struct hrf_backend *backend);
extern const struct hrf_device_peer_ops hrf_cuda_peers;
/* device_flags.c: flags that queues set and wait for (struct hrf_device_peer_ops). */
enum hrf_status hrf_cuda_try_flags(struct hrf_backend *backend, void *memory,
                                   struct hrf_error *err);
enum hrf_status hrf_cuda_flag_set(struct hrf_backend *backend, void *flag, struct hrf_error *err);
enum hrf_status hrf_cuda_flag_take(struct hrf_backend *backend, void *flag, struct hrf_error *err);
enum hrf_status hrf_cuda_flags_write(struct hrf_backend *backend, void *flags, int32_t n,
                                     uint32_t value, struct hrf_error *err);

struct hrf_cuda_kernel;
typedef cudaError_t hrf_cuda_launch(const struct hrf_cuda_kernel *kernel,
                                    const struct hrf_kernel_call *call);

/* A node as launches of kernels.h. */
struct hrf_cuda_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_spec *spec;
    hrf_cuda_launch *launch;
    void **constants; /* [n_inputs]: device copies of the spec's constants; NULL elsewhere */
    /* On the device: BATCH_NORM's factors and shifts, RESIZE's rows and columns, GATHER's rows,
     * BYTE_ATTENTION's steps. */
    void *tables[2];
    size_t constant_bytes;
    struct hrf_product_plan *product;       /* in the place of `launch` */
    const struct hrf_cudnn_plan *attention; /* likewise; the back end's */
    struct hrf_planned_conv gradient;       /* likewise, to weights; plan NULL: `launch` */
    char implementation[32];
};

/* An operand as a kernel takes it. */
struct hrf_k_array hrf_cuda_array(const struct hrf_operand *operand, const void *data);
/* Input i of a call, constants included; data NULL when it is absent. */
struct hrf_k_array hrf_cuda_input(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call, int32_t i);
static inline struct hrf_k_array hrf_cuda_output(const struct hrf_cuda_kernel *kernel,
                                                 const struct hrf_kernel_call *call)
{
    return hrf_cuda_array(&kernel->spec->output, call->output);
}
struct hrf_k_epilogue hrf_cuda_epilogue(const struct hrf_attributes *attributes);
/* An activation that hrf_cuda_epilogue() does not have, on the node's output in place. */
cudaError_t hrf_cuda_apply_activation(const struct hrf_spec *spec, void *output,
                                      cudaStream_t stream);
/* The window of a convolution or pool over x giving y. */
struct hrf_k_window hrf_cuda_window(const struct hrf_shape *x, const struct hrf_shape *y,
                                    const struct hrf_window *window);
/* One more axis, inside those that the walk has. */
static inline void hrf_cuda_walk_add(struct hrf_k_walk *walk, int64_t dim, int64_t y, int64_t a,
                                     int64_t b)
{
    walk->dims[walk->rank] = dim;
    walk->y[walk->rank] = y;
    walk->a[walk->rank] = a;
    walk->b[walk->rank] = b;
    walk->rank++;
}
/* Along `shape`, y in memory order; strides as hrf_walk_init() takes them. b may be NULL. */
struct hrf_k_walk hrf_cuda_walk(const struct hrf_shape *shape, const int64_t y[HRF_MAX_RANK],
                                const int64_t a[HRF_MAX_RANK], const int64_t b[HRF_MAX_RANK]);

extern const struct hrf_device_ops hrf_cuda_queue;

/* NULL: not one of this family. */
hrf_cuda_launch *hrf_cuda_simple(enum hrf_op op);
hrf_cuda_launch *hrf_cuda_move(enum hrf_op op);
bool hrf_cuda_is_performer(enum hrf_op op);
size_t hrf_cuda_performer_workspace(const struct hrf_spec *spec);
hrf_cuda_launch hrf_cuda_launch_performer;

/* The operators that only graphs of gradients have (gradient_kernels.c). */
hrf_cuda_launch *hrf_cuda_gradient(enum hrf_op op);
size_t hrf_cuda_gradient_workspace(const struct hrf_spec *spec);
/* Sets kernel->gradient of a CONV_WEIGHT_GRADIENT that cuDNN has an engine for, and runs it. */
HRF_CHECKED enum hrf_status hrf_cuda_plan_weight_gradient(struct hrf_cuda_kernel *kernel,
                                                          const struct hrf_graph *graph,
                                                          const struct hrf_node *node,
                                                          struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_run_weight_gradient(const struct hrf_cuda_kernel *kernel,
                                                         const struct hrf_kernel_call *call,
                                                         struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_prepare_gather_gradient(struct hrf_cuda_kernel *kernel,
                                                             struct hrf_error *err);

/* ATTENTION, ATTENTION_PART. */
hrf_cuda_launch hrf_cuda_launch_attention;
hrf_cuda_launch hrf_cuda_launch_byte_attention;
/* Sets kernel->attention where cuDNN is to run it. */
void hrf_cuda_plan_attention(struct hrf_cuda_kernel *kernel);
HRF_CHECKED enum hrf_status hrf_cuda_run_attention(const struct hrf_cuda_kernel *kernel,
                                                   const struct hrf_kernel_call *call,
                                                   struct hrf_error *err);
/* LAYER_NORM, RMS_NORM, GROUP_NORM. */
hrf_cuda_launch hrf_cuda_launch_norm;
/* Makes a kernel of the first two, or of SWIGLU, run fused with a product that rounds the rows it
 * gives. */
void hrf_cuda_rows_fuse(struct hrf_cuda_kernel *kernel);

/* The constant weights to K, R, S, C, as wide as `conv` has them; `to` is zeros. */
struct hrf_cudnn_conv;
void hrf_cuda_order_weights(const struct hrf_spec *spec, const struct hrf_cudnn_conv *conv,
                            int64_t in_channels, int64_t out_channels, void *to);

/* Those of a convolution of each channel by itself to R, S, C. */
void hrf_cuda_order_depthwise(const struct hrf_spec *spec, void *to);

/* Where a product that rounds rows, of `depth` numbers each, has them in its workspace. */
struct hrf_cuda_rows {
    int64_t n_rows, depth, wide;
    size_t rows_at, scales_at;
    const float *factors; /* NULL: there are none */
};
/* False: the kernel is no such product. */
bool hrf_cuda_conv_rows(const struct hrf_kernel *kernel, struct hrf_cuda_rows *out);
/* Its run when they are there. */
HRF_CHECKED enum hrf_status hrf_cuda_conv_run_rounded(struct hrf_kernel *kernel,
                                                      const struct hrf_kernel_call *call,
                                                      struct hrf_error *err);
/* Number i of the kernel's tables, uploaded. */
HRF_CHECKED enum hrf_status hrf_cuda_upload_table(struct hrf_cuda_kernel *kernel, int i,
                                                  const void *from, size_t n_bytes,
                                                  struct hrf_error *err);
/* The tables of a BATCH_NORM, of a RESIZE, of a GATHER of rows and of a BYTE_ATTENTION. */
HRF_CHECKED enum hrf_status hrf_cuda_prepare_batch_norm(struct hrf_cuda_kernel *kernel,
                                                        struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_prepare_resize(struct hrf_cuda_kernel *kernel,
                                                    struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_prepare_gather(struct hrf_cuda_kernel *kernel,
                                                    struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_prepare_byte_attention(struct hrf_cuda_kernel *kernel,
                                                            struct hrf_error *err);

/* The kernel as that of a BATCH_NORM; NULL: it is another one. */
const struct hrf_cuda_kernel *hrf_cuda_as_batch_norm(const struct hrf_kernel *kernel);

/* Plans of all convolutions of a graph, several at a time. */
HRF_CHECKED enum hrf_status hrf_cuda_prepare_convs(struct hrf_backend *backend,
                                                   const struct hrf_graph *graph,
                                                   const struct hrf_backend_ranks *ranks,
                                                   struct hrf_error *err);
/* CONV, and GEMM where it is a convolution of one pixel: by cuDNN where it has an engine, else by
 * an own kernel. */
bool hrf_cuda_conv_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cuda_conv_compile(struct hrf_backend *backend,
                                                  const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_kernel **out, struct hrf_error *err);

#endif
