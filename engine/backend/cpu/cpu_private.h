/* cpu_private.h - the CPU operators, by family. */
#ifndef HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H
#define HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H

#include "engine/backend/cpu/plain/plain.h"
#include "engine/backend/cpu/product.h"

#include <oneapi/dnnl/dnnl.h>

struct hrf_backend {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int32_t n_threads;
};

/* A oneDNN status as ours; `what` names the node and the call. */
enum hrf_status hrf_dnnl_error(struct hrf_error *err, dnnl_status_t status, const char *node,
                               const char *what);

HRF_CHECKED enum hrf_status hrf_cpu_conv_compile(struct hrf_backend *backend,
                                                 const struct hrf_graph *graph,
                                                 const struct hrf_node *node,
                                                 struct hrf_kernel **out, struct hrf_error *err);

/* Whether oneDNN can pad this CONV_TRANSPOSE's output so far. */
bool hrf_cpu_conv_transpose_fits(const struct hrf_graph *graph, const struct hrf_node *node);

/* Whether oneDNN's 8-bit convolution gives this CONV's or GEMM's exact result here. */
bool hrf_cpu_conv_integer_fits(const struct hrf_graph *graph, const struct hrf_node *node);

/* Whether this processor multiplies the bfloat16 numbers of this CONV by itself. */
bool hrf_cpu_conv_half_fits(const struct hrf_graph *graph, const struct hrf_node *node);
/* How many of this CONV's multiply-adds oneDNN does in the time of one in float32: 1 where they are
 * of floats, or 16 bits are only how numbers are stored; 2 with AVX-512 BF16. */
double hrf_cpu_native_speed(const struct hrf_graph *graph, const struct hrf_node *node);
#define HRF_CPU_AMX_SPEED 16 /* and with AMX */

/* Own kernels for the shapes where they beat oneDNN's: a fixed rule over shapes and the
 * processor, so the choice is the same in every run there. */
/* They read and write 16-bit floats, too, but a residual must be of the output's type. */
bool hrf_cpu_types_fit(const struct hrf_graph *graph, const struct hrf_node *node);
/* What those for AVX-512 need of a CONV or GEMM: an image and a residual that are computed, of
 * types that fit, weights that are not, and an output that is not empty. */
bool hrf_cpu_avx512_fits(const struct hrf_graph *graph, const struct hrf_node *node);
/* True if oneDNN multiplies this CONV no faster than they do; `pairs`: if they multiply pairs of
 * bfloat16, as AVX-512 BF16 does. */
bool hrf_cpu_is_as_fast(const struct hrf_graph *graph, const struct hrf_node *node, bool pairs);
/* A name for `what` that says where 16 bits are only how numbers are stored. `what`: a literal. */
#define HRF_CPU_NAME(type, what)                                                                   \
    ((type) == HRF_B16 ? "bf16 in " what : (type) == HRF_F16 ? "f16 in " what : what)
bool hrf_cpu_product_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_product_compile(struct hrf_backend *backend,
                                                    const struct hrf_graph *graph,
                                                    const struct hrf_node *node,
                                                    struct hrf_kernel **out, struct hrf_error *err);
/* Whether it takes this GEMM, of weights and a bias that are constants: then it is the faster. */
bool hrf_cpu_product_fits_gemm(const struct hrf_graph *graph, const struct hrf_node *node);
/* For windows of more than one pixel. */
bool hrf_cpu_windows_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_windows_compile(struct hrf_backend *backend,
                                                    const struct hrf_graph *graph,
                                                    const struct hrf_node *node,
                                                    struct hrf_kernel **out, struct hrf_error *err);
/* With windows of 3 columns and few channels: in groups of 2 to 16, or few outputs of one. */
bool hrf_cpu_groups_fit(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_groups_compile(struct hrf_backend *backend,
                                                   const struct hrf_graph *graph,
                                                   const struct hrf_node *node,
                                                   struct hrf_kernel **out, struct hrf_error *err);
/* With as many groups as channels, in floats of any kind and in 8-bit integers. */
bool hrf_cpu_depthwise_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_depthwise_compile(struct hrf_backend *backend,
                                                      const struct hrf_graph *graph,
                                                      const struct hrf_node *node,
                                                      struct hrf_kernel **out,
                                                      struct hrf_error *err);
/* Of 8-bit integers with AVX-512 VNNI; what it does not take is the above's. */
bool hrf_cpu_depthwise_bytes_fit(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_depthwise_bytes_compile(struct hrf_backend *backend,
                                                            const struct hrf_graph *graph,
                                                            const struct hrf_node *node,
                                                            struct hrf_kernel **out,
                                                            struct hrf_error *err);
/* In 8-bit integers, exactly. */
bool hrf_cpu_integer_winograd_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_integer_winograd_compile(struct hrf_backend *backend,
                                                             const struct hrf_graph *graph,
                                                             const struct hrf_node *node,
                                                             struct hrf_kernel **out,
                                                             struct hrf_error *err);
/* MUL of an image and a factor for each channel of each image (gate.h). */
bool hrf_cpu_gate_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_gate_compile(struct hrf_backend *backend,
                                                 const struct hrf_graph *graph,
                                                 const struct hrf_node *node,
                                                 struct hrf_kernel **out, struct hrf_error *err);
/* What transformers do to each token by itself, in floats of 32 or 16 bits. */
bool hrf_cpu_token_rows_fit(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_token_rows_compile(const struct hrf_graph *graph,
                                                       const struct hrf_node *node,
                                                       struct hrf_kernel **out,
                                                       struct hrf_error *err);
/* ATTENTION in floats of 32 or 16 bits. */
/* ATTENTION of 8-bit values that rounds between its products (byte_attention.c). */
bool hrf_cpu_byte_attention_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_byte_attention_compile(struct hrf_backend *backend,
                                                           const struct hrf_graph *graph,
                                                           const struct hrf_node *node,
                                                           struct hrf_kernel **out,
                                                           struct hrf_error *err);
bool hrf_cpu_attention_heads_fit(const struct hrf_graph *graph, const struct hrf_node *node);
bool hrf_cpu_attention_long_fits(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_cpu_attention_long_compile(struct hrf_backend *backend,
                                                           const struct hrf_graph *graph,
                                                           const struct hrf_node *node,
                                                           struct hrf_kernel **out,
                                                           struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cpu_attention_heads_compile(struct hrf_backend *backend,
                                                            const struct hrf_graph *graph,
                                                            const struct hrf_node *node,
                                                            struct hrf_kernel **out,
                                                            struct hrf_error *err);
/* A GEMM or 1x1 CONV of float32 rows with S8 weights (hrf_product_rounds_rows(), byte_product.h).
 */
HRF_CHECKED enum hrf_status hrf_cpu_token_product_compile(struct hrf_backend *backend,
                                                          const struct hrf_graph *graph,
                                                          const struct hrf_node *node,
                                                          struct hrf_kernel **out,
                                                          struct hrf_error *err);
/* Whether this processor multiplies those bytes by itself; else plain loops do. */
bool hrf_cpu_token_product_is_fast(void);
/* Whether that kernel can normalise rows itself, and its run with `x` the norm's input. */
bool hrf_cpu_token_product_takes_norm(const struct hrf_kernel *kernel, int64_t n_rows,
                                      int64_t depth);
struct hrf_row_norm;
void hrf_cpu_token_product_run_normed(const struct hrf_kernel *kernel,
                                      const struct hrf_row_norm *norm, const float *x,
                                      const struct hrf_kernel_call *call);
/* Any CONV with a prologue that the two above do not take. */
HRF_CHECKED enum hrf_status hrf_cpu_strips_compile(struct hrf_backend *backend,
                                                   const struct hrf_graph *graph,
                                                   const struct hrf_node *node,
                                                   struct hrf_kernel **out, struct hrf_error *err);
/* Input i's numbers in ONNX order, NULL when it is absent. It must be a constant. */
const float *hrf_cpu_constant(const struct hrf_graph *graph, const struct hrf_node *node,
                              int32_t i);
/* True when a CONV's image and residual are computed; a constant there is oneDNN's to read. */
bool hrf_cpu_comes_at_run_time(const struct hrf_graph *graph, const struct hrf_node *node);
/* `bias` stays borrowed; `type`: of the output. */
struct hrf_epilogue hrf_cpu_epilogue(const struct hrf_attributes *attributes, enum hrf_dtype type,
                                     const float *bias, bool accumulate);

/* Own loops: a function over the spec, run with the back end's threads. */
typedef enum hrf_status hrf_cpu_function(const struct hrf_spec *spec,
                                         const struct hrf_kernel_call *call, struct hrf_error *err);
hrf_cpu_function hrf_cpu_gemm, hrf_cpu_matmul, hrf_cpu_max_pool, hrf_cpu_average_pool,
    hrf_cpu_global_pool, hrf_cpu_lrn, hrf_cpu_unary, hrf_cpu_binary, hrf_cpu_batch_norm,
    hrf_cpu_softmax, hrf_cpu_reduction, hrf_cpu_performer_max, hrf_cpu_performer_state,
    hrf_cpu_performer_apply, hrf_cpu_layer_norm, hrf_cpu_group_norm, hrf_cpu_softmax_attention,
    hrf_cpu_swiglu, hrf_cpu_where, hrf_cpu_select_max;

/* Whether hrf_cpu_binary() computes this node in 16 bits as it stands; else half.c widens it. */
bool hrf_cpu_binary_takes_halves(const struct hrf_graph *graph, const struct hrf_node *node);

/* PERFORMER's parts: turns the projection, once; the bytes they work in. */
HRF_CHECKED enum hrf_status hrf_cpu_prepare_attention(struct hrf_spec *spec, struct hrf_error *err);
size_t hrf_cpu_matmul_workspace(const struct hrf_spec *spec);
size_t hrf_cpu_attention_workspace(const struct hrf_spec *spec);
size_t hrf_cpu_layer_norm_workspace(const struct hrf_spec *spec);
size_t hrf_cpu_softmax_attention_workspace(const struct hrf_spec *spec);

/* Turns BATCH_NORM's constants into a factor (input 1) and a shift (input 2), once. */
void hrf_cpu_prepare_batch_norm(struct hrf_spec *spec);

/* The fused activation over a run of n elements, in place. */
void hrf_cpu_activate(const struct hrf_attributes *attributes, float *x, int64_t n);

/* For how much of what is cut up. */
static inline int64_t hrf_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t hrf_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
