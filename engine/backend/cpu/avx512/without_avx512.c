/* without_avx512.c - in the place of the kernels for AVX-512 where the compiler has none or
 * HRF_WITH_AVX512 is off: nothing fits them, so the others are taken and nothing here is run. */
#include "engine/backend/cpu/avx512/functions_avx512.h"
#include "engine/backend/cpu/conv/prologue.h"
#include "engine/backend/cpu/cpu_private.h"

#include <assert.h>

bool hrf_cpu_product_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_product_fits_gemm(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_groups_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_gate_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_windows_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_depthwise_bytes_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_integer_winograd_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_token_rows_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_attention_heads_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

bool hrf_cpu_attention_long_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph, (void)node;
    return false;
}

static enum hrf_status refuse(const struct hrf_node *node, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_BUG, "node '%s': this build has no kernels for AVX-512",
                         node->name);
}

enum hrf_status hrf_cpu_product_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                        const struct hrf_node *node, struct hrf_kernel **out,
                                        struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_token_rows_compile(const struct hrf_graph *graph,
                                           const struct hrf_node *node, struct hrf_kernel **out,
                                           struct hrf_error *err)
{
    (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_attention_long_compile(struct hrf_backend *backend,
                                               const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_attention_heads_compile(struct hrf_backend *backend,
                                                const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_groups_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                       const struct hrf_node *node, struct hrf_kernel **out,
                                       struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_gate_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                     const struct hrf_node *node, struct hrf_kernel **out,
                                     struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_windows_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                        const struct hrf_node *node, struct hrf_kernel **out,
                                        struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_depthwise_bytes_compile(struct hrf_backend *backend,
                                                const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

enum hrf_status hrf_cpu_integer_winograd_compile(struct hrf_backend *backend,
                                                 const struct hrf_graph *graph,
                                                 const struct hrf_node *node,
                                                 struct hrf_kernel **out, struct hrf_error *err)
{
    (void)backend, (void)graph, (void)out;
    return refuse(node, err);
}

void hrf_prologue_b16_lines_avx512(const struct hrf_cpu_prologue *prologue, const uint16_t *x,
                                   uint16_t *y, int64_t y_stride, int64_t channels, int64_t n_lines)
{
    (void)prologue, (void)x, (void)y, (void)y_stride, (void)channels, (void)n_lines;
    assert(false);
}

bool hrf_functions_have_avx512(enum hrf_op op)
{
    (void)op;
    return false;
}

void hrf_functions_avx512(enum hrf_op op, const struct hrf_attributes *attributes,
                          enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type, void *y,
                          int64_t n)
{
    (void)op, (void)attributes, (void)x_type, (void)x, (void)y_type, (void)y, (void)n;
    assert(false);
}
