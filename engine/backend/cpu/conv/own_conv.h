/* own_conv.h - what the own kernels of convolutions have in common: shape, packed weights,
 * epilogue, and how a kernel is compiled from its row.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_OWN_CONV_H
#define HRF_ENGINE_BACKEND_CPU_CONV_OWN_CONV_H

#include "engine/backend/backend.h"
#include "engine/backend/cpu/conv/conv_shape.h"
#include "engine/backend/cpu/product.h"

/* A kernel's struct begins with this. */
struct hrf_own_conv {
    struct hrf_kernel base;
    int64_t n_threads;
    struct hrf_conv_shape shape;
    enum hrf_word_type word_type; /* that it multiplies: pairs in a row for AVX-512 BF16 */
    struct hrf_epilogue epilogue;
    void *weights; /* packed */
    float *bias;
};

/* Computes the output, into which the residual is copied before if the epilogue accumulates. */
typedef void hrf_own_conv_function(const struct hrf_own_conv *kernel,
                                   const struct hrf_kernel_call *call);

/* `own` of a kernel row whose compile() is hrf_own_conv_compile(). */
struct hrf_own_conv_type {
    size_t size; /* of the kernel's struct */
    hrf_own_conv_function *compute;
    struct hrf_kernel base; /* what it fuses with */
    /* Fills in what the kernel adds to the shape, and packs its weights. */
    enum hrf_status (*prepare)(struct hrf_own_conv *kernel, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_error *err);
    void (*release)(struct hrf_own_conv *kernel); /* what prepare() added; NULL: nothing */
    const void *loops; /* of an instruction set; NULL: there is only one */
};
HRF_CHECKED enum hrf_status hrf_own_conv_compile(const struct hrf_kernel_row *row,
                                                 struct hrf_backend *backend,
                                                 const struct hrf_graph *graph,
                                                 const struct hrf_node *node,
                                                 struct hrf_kernel **out, struct hrf_error *err);

/* Allocates n_bytes for packed weights and the bias of n_channels: the node's bias, then zeros. */
HRF_CHECKED enum hrf_status hrf_own_conv_make_weights(struct hrf_own_conv *kernel,
                                                      const struct hrf_graph *graph,
                                                      const struct hrf_node *node, size_t n_bytes,
                                                      int64_t n_channels, struct hrf_error *err);
/* The kernel if `compute` is its function, else NULL. */
const struct hrf_own_conv *hrf_own_conv_as(const struct hrf_kernel *kernel,
                                           hrf_own_conv_function *compute);
/* Copies the residual into the output, where the epilogue adds to it, unless the plan has put it
 * there. For callers that bypass the kernel's run(). */
void hrf_own_conv_bring_residual(const struct hrf_own_conv *kernel,
                                 const struct hrf_kernel_call *call);

/* True if a CONV of bfloat16 can be multiplied in pairs: no pair spans two groups, and the
 * processor has the instruction. */
bool hrf_own_conv_has_pairs(const struct hrf_graph *graph, const struct hrf_node *node);

/* Defines two rows of a kernel that differ in nothing else: hrf_cpu_NAME for floats and
 * hrf_cpu_NAME_of_pairs for pairs of bfloat16. */
#define HRF_OWN_CONV_ROWS(row_name, title, operators, takes, type, misfit_of, pairs_misfit_of)     \
    const struct hrf_kernel_row hrf_cpu_##row_name##_of_pairs = {                                  \
        .name = title ":avx512_bf16",                                                              \
        operators,                                                                                 \
        .forms = HRF_FORM_HALF,                                                                    \
        .isa = HRF_ISA_AVX512_BF16,                                                                \
        .extras = takes,                                                                           \
        .epilogues = HRF_ANY_EPILOGUE,                                                             \
        .misfit = pairs_misfit_of,                                                                 \
        .compile = hrf_own_conv_compile,                                                           \
        .own = type,                                                                               \
    };                                                                                             \
    const struct hrf_kernel_row hrf_cpu_##row_name = {                                             \
        .name = title ":avx512",                                                                   \
        operators,                                                                                 \
        .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,                                                   \
        .isa = HRF_ISA_AVX512,                                                                     \
        .extras = takes,                                                                           \
        .epilogues = HRF_ANY_EPILOGUE,                                                             \
        .misfit = misfit_of,                                                                       \
        .compile = hrf_own_conv_compile,                                                           \
        .own = type,                                                                               \
    }

#endif
