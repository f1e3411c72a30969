/* cpu_private.h - the rows of the CPU back end, and what they share. */
#ifndef HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H
#define HRF_ENGINE_BACKEND_CPU_CPU_PRIVATE_H

#include "base/min_max.h"
#include "engine/backend/cpu/instructions.h"
#include "engine/backend/cpu/onednn.h"
#include "engine/backend/cpu/plain/plain.h"
#include "engine/backend/cpu/product.h"

struct hrf_backend {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int32_t n_threads;
};

/* The rows of this back end that have a file of their own. cpu.c lists all rows. */
extern const struct hrf_kernel_row hrf_cpu_onednn, hrf_cpu_onednn_integer,
    hrf_cpu_onednn_transposed;
/* Convolutions and products by own kernels. Each row has a rule, by shapes and processor, that says
 * when it is faster than oneDNN. Rows `of_pairs` multiply pairs of bfloat16. */
extern const struct hrf_kernel_row hrf_cpu_product,
    hrf_cpu_product_of_pairs; /* windows of one pixel */
extern const struct hrf_kernel_row hrf_cpu_groups,
    hrf_cpu_groups_of_pairs; /* windows of 3 columns, few channels */
extern const struct hrf_kernel_row hrf_cpu_windows, hrf_cpu_windows_of_pairs;
extern const struct hrf_kernel_row hrf_cpu_depthwise, hrf_cpu_depthwise_avx512;
extern const struct hrf_kernel_row hrf_cpu_depthwise_bytes, hrf_cpu_integer_winograd;
extern const struct hrf_kernel_row hrf_cpu_integer_product; /* without VNNI */
extern const struct hrf_kernel_row hrf_cpu_strips; /* a prologue, then a kernel without one */
extern const struct hrf_kernel_row hrf_cpu_gate;   /* MUL by a factor for each channel (gate.h) */
/* Transformers. hrf_cpu_token_rows has the operators that work on each token by itself. */
extern const struct hrf_kernel_row hrf_cpu_token_rows, hrf_cpu_token_product,
    hrf_cpu_token_product_avx512;
extern const struct hrf_kernel_row hrf_cpu_attention_long, hrf_cpu_attention_fixed,
    hrf_cpu_attention_of_pairs, hrf_cpu_attention_heads, hrf_cpu_attention_long_plain,
    hrf_cpu_attention_plain;
extern const struct hrf_kernel_row hrf_cpu_conv_weight_gradient,
    hrf_cpu_conv_weight_gradient_avx512, hrf_cpu_amx_product;
extern const struct hrf_kernel_row hrf_cpu_byte_attention, hrf_cpu_byte_attention_avx512;

/* Texts of misfit() that several rows use (struct hrf_kernel_row). */
#define HRF_CPU_ONEDNN_IS_FASTER "oneDNN multiplies these numbers faster"
#define HRF_CPU_NO_PAIRS         "its numbers are no pairs of bfloat16"
#define HRF_CPU_FEW_KEYS         "its keys are few, or it has a mask"
const char *hrf_cpu_conv_transpose_misfit(const struct hrf_graph *graph,
                                          const struct hrf_node *node);
const char *hrf_cpu_depthwise_misfit(const struct hrf_graph *graph, const struct hrf_node *node);
/* NULL if own kernels for AVX-512 can compute the CONV or GEMM: its image and residual come at run
 * time and have types that fit, its weights are constant floats, and its output is not empty.
 * Otherwise the reason. */
const char *hrf_cpu_avx512_misfit(const struct hrf_graph *graph, const struct hrf_node *node);
/* True if own kernels can read and write the types: floats of 32 and 16 bits, a residual of the
 * output's type. */
bool hrf_cpu_types_fit(const struct hrf_graph *graph, const struct hrf_node *node);

/* True if the processor has instructions that multiply this CONV's bfloat16. */
bool hrf_cpu_conv_half_fits(const struct hrf_graph *graph, const struct hrf_node *node);
/* The number of this CONV's multiply-adds that oneDNN does in the time of one in float32: 1 if it
 * computes in float32, 2 with AVX-512 BF16. */
double hrf_cpu_native_speed(const struct hrf_graph *graph, const struct hrf_node *node);
#define HRF_CPU_AMX_SPEED 16 /* the same with AMX */
/* True if own kernels multiply this CONV as fast as oneDNN. `pairs`: they multiply pairs of
 * bfloat16 (AVX-512 BF16). */
bool hrf_cpu_is_as_fast(const struct hrf_graph *graph, const struct hrf_node *node, bool pairs);
/* True if the kernel is one of hrf_cpu_token_product_avx512 that can normalise the rows itself; and
 * its run, where `x` is the norm's input. */
bool hrf_cpu_token_product_takes_norm(const struct hrf_kernel *kernel, int64_t n_rows,
                                      int64_t depth);
struct hrf_row_norm;
void hrf_cpu_token_product_run_normed(const struct hrf_kernel *kernel,
                                      const struct hrf_row_norm *norm, const float *x,
                                      const struct hrf_kernel_call *call);
/* The elements of constant input i in ONNX order; NULL if it is absent. */
const float *hrf_cpu_constant(const struct hrf_graph *graph, const struct hrf_node *node,
                              int32_t i);
/* True if a CONV's image and residual come at run time. Constants there are left to oneDNN. */
bool hrf_cpu_comes_at_run_time(const struct hrf_graph *graph, const struct hrf_node *node);
/* The epilogue for these attributes. `bias` is borrowed; `type` is the output's. */
struct hrf_epilogue hrf_cpu_epilogue(const struct hrf_attributes *attributes, enum hrf_dtype type,
                                     const float *bias, bool accumulate);

/* Computes the node of `spec` with the back end's threads. It cannot fail: what can (memory) is
 * done by the row's `prepare`, when the node is compiled. */
typedef void hrf_cpu_function(const struct hrf_spec *spec, const struct hrf_kernel_call *call);
hrf_cpu_function hrf_cpu_gemm, hrf_cpu_matmul, hrf_cpu_max_pool, hrf_cpu_average_pool,
    hrf_cpu_global_pool, hrf_cpu_lrn, hrf_cpu_unary, hrf_cpu_binary, hrf_cpu_batch_norm,
    hrf_cpu_softmax, hrf_cpu_reduction, hrf_cpu_performer_max, hrf_cpu_performer_state,
    hrf_cpu_performer_apply, hrf_cpu_layer_norm, hrf_cpu_group_norm, hrf_cpu_swiglu, hrf_cpu_where,
    hrf_cpu_select_max, hrf_cpu_top_k_mask;
hrf_cpu_function hrf_cpu_function_gradient, hrf_cpu_max_pool_gradient, hrf_cpu_gather_gradient,
    hrf_cpu_depthwise_weight_gradient, hrf_cpu_tiled_weight_gradient, hrf_cpu_amx_weight_gradient,
    hrf_cpu_attention_gradient, hrf_cpu_amx_attention_gradient;
const char *hrf_cpu_depthwise_weight_gradient_misfit(const struct hrf_graph *graph,
                                                     const struct hrf_node *node);
const char *hrf_cpu_tiled_weight_gradient_misfit(const struct hrf_graph *graph,
                                                 const struct hrf_node *node);
const char *hrf_cpu_amx_weight_gradient_misfit(const struct hrf_graph *graph,
                                               const struct hrf_node *node);
const char *hrf_cpu_amx_attention_gradient_misfit(const struct hrf_graph *graph,
                                                  const struct hrf_node *node);
/* Sets to[i] = dy[i] times the derivative at x[i] of a function that has vector loops; false: it
 * has none. One thread. */
bool hrf_cpu_derive(enum hrf_op function, const struct hrf_attributes *attributes, const float *x,
                    const float *dy, float *to, int64_t n);

/* True if hrf_cpu_binary() computes this node's 16-bit floats directly, by AVX-512. */
bool hrf_cpu_binary_takes_halves(const struct hrf_graph *graph, const struct hrf_node *node);

/* Packs GEMM's second matrix, if it is a constant. */
HRF_CHECKED enum hrf_status hrf_cpu_prepare_gemm(struct hrf_spec *spec, struct hrf_error *err);
/* Transposes and scales the projection of PERFORMER's parts. */
HRF_CHECKED enum hrf_status hrf_cpu_prepare_performer(struct hrf_spec *spec, struct hrf_error *err);
/* The workspace of a node, in bytes. */
typedef size_t hrf_cpu_workspace(const struct hrf_spec *spec);
hrf_cpu_workspace hrf_cpu_gemm_workspace, hrf_cpu_matmul_workspace, hrf_cpu_performer_workspace,
    hrf_cpu_layer_norm_workspace, hrf_cpu_reduction_workspace,
    hrf_cpu_depthwise_weight_gradient_workspace, hrf_cpu_tiled_weight_gradient_workspace,
    hrf_cpu_amx_weight_gradient_workspace, hrf_cpu_amx_attention_gradient_workspace,
    hrf_cpu_attention_gradient_workspace;

/* Turns BATCH_NORM's constants into a factor (input 1) and a shift (input 2). */
HRF_CHECKED enum hrf_status hrf_cpu_prepare_batch_norm(struct hrf_spec *spec,
                                                       struct hrf_error *err);

/* Applies the fused activation to n elements in place. */
void hrf_cpu_activate(const struct hrf_attributes *attributes, float *x, int64_t n);

#endif
