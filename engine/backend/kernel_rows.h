/* kernel_rows.h - the kernels of a back end as rows of a table, for each operator best first.
 * Nothing else chooses: who plans, rewrites or compiles a graph asks the table which row computes a
 * node, and what else that row does.
 *
 * Tables are immutable; any thread may read them. A choice depends on the node, its values and the
 * processor alone, so it is the same in every run there.
 */
#ifndef HRF_ENGINE_BACKEND_KERNEL_ROWS_H
#define HRF_ENGINE_BACKEND_KERNEL_ROWS_H

#include "base/error.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_backend;
struct hrf_kernel;

/* A node is computed in what its run-time values hold. Bits. */
enum hrf_node_form {
    HRF_FORM_FLOAT = 1,   /* float32 in, float32 out */
    HRF_FORM_HALF = 2,    /* float16 or bfloat16 somewhere */
    HRF_FORM_INTEGER = 4, /* S8 or U8 somewhere */
    HRF_FORM_ANY = 7,
};
enum hrf_node_form hrf_node_form(const struct hrf_graph *graph, const struct hrf_node *node);

/* What the processor must have. Each has what those before it have. */
enum hrf_isa {
    HRF_ISA_ANY, /* what the back end needs in any case */
    HRF_ISA_AVX512,
    HRF_ISA_AVX512_VNNI,
    HRF_ISA_AVX512_BF16,
    HRF_ISA_AMX, /* of bfloat16 and of bytes */
};

/* What a kernel does besides its operator. Bits. */
enum hrf_kernel_extra {
    /* Takes a prologue (graph.h). Nodes that have one fit no other row. */
    HRF_TAKES_PROLOGUE = 1,
    /* Takes input 0, or every input, at a pixel stride (hrf_value.pixel_stride) of any number of
     * whole cache lines; gives its output at one. A CONV's residual then has its output's pixel
     * stride; unless there is one, what lies between the output's pixels is left as it is. */
    HRF_STRIDED_INPUT = 2,
    HRF_STRIDED_INPUTS = 4,
    HRF_STRIDED_OUTPUT = 8,
    HRF_STRIDED = HRF_STRIDED_INPUTS | HRF_STRIDED_OUTPUT,
};

/* Activations that hrf_pass_fuse_epilogue() fuses, as bits of `epilogues`. */
#define HRF_EPILOGUE(activation) (1u << (activation))
#define HRF_ANY_EPILOGUE         (~0u)

struct hrf_kernel_row {
    const char *name; /* in reports: "implicit_product:avx512" */
    /* Its operators: a list, or all of which this is true. */
    const enum hrf_op *ops;
    int32_t n_ops;
    bool (*is_op)(enum hrf_op op);
    unsigned forms; /* hrf_node_form; 0: all */
    enum hrf_isa isa;
    unsigned extras;    /* hrf_kernel_extra */
    unsigned epilogues; /* that it computes in floats without a pass of its own over the result */
    /* NULL if it computes this node of its operators and forms, and no slower than the rows below;
     * else the reason. Optional: NULL = it computes all. */
    const char *(*misfit)(const struct hrf_graph *graph, const struct hrf_node *node);
    /* Whether it tries to compute this CONV and `norm`, a BATCH_NORM of its output, in one pass
     * that writes both. Optional: NULL = never. */
    bool (*takes_norm)(const struct hrf_graph *graph, const struct hrf_node *conv,
                       const struct hrf_node *norm);
    /* Fails for lack of memory only. */
    enum hrf_status (*compile)(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                               const struct hrf_graph *graph, const struct hrf_node *node,
                               struct hrf_kernel **out, struct hrf_error *err);
    const void *own; /* what the back end's compile() reads */
};
#define HRF_ROW_OPS(...)                                                                           \
    .ops = (const enum hrf_op[]){ __VA_ARGS__ },                                                   \
    .n_ops = sizeof((const enum hrf_op[]){ __VA_ARGS__ }) / sizeof(enum hrf_op)

struct hrf_kernel_table {
    const char *device;                       /* "cpu" */
    const struct hrf_kernel_row *const *rows; /* ends with NULL */
    bool (*has_isa)(enum hrf_isa isa);        /* NULL: ISA_ANY alone */
    const char *advice;                       /* what to do where no row fits; NULL: nothing */
};

/* NULL if the row computes the node; else why not. */
const char *hrf_kernel_misfit(const struct hrf_kernel_table *table,
                              const struct hrf_kernel_row *row, const struct hrf_graph *graph,
                              const struct hrf_node *node);
/* The row that computes the node; NULL: none, and `err` (may be NULL) lists the reasons. */
const struct hrf_kernel_row *hrf_kernel_find(const struct hrf_kernel_table *table,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_kernel_compile(const struct hrf_kernel_table *table,
                                               struct hrf_backend *backend,
                                               const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err);
/* True if some row computes the operator in that form. */
bool hrf_kernels_have(const struct hrf_kernel_table *table, enum hrf_op op,
                      enum hrf_node_form form);
/* True if the row of this CONV or GEMM computes that activation in its epilogue. */
bool hrf_kernels_take_activation(const struct hrf_kernel_table *table,
                                 const struct hrf_graph *graph, const struct hrf_node *node,
                                 enum hrf_activation activation);
/* True if a row computes this CONV, which has none, with a prologue. */
bool hrf_kernels_take_prologue(const struct hrf_kernel_table *table, const struct hrf_graph *graph,
                               const struct hrf_node *conv);
/* True if the row of this CONV computes `norm`, a BATCH_NORM of its output, too. */
bool hrf_kernels_take_norm(const struct hrf_kernel_table *table, const struct hrf_graph *graph,
                           const struct hrf_node *conv, const struct hrf_node *norm);
/* True if the row of the node takes its input k (-1: its output), an image, at a pixel stride. */
bool hrf_kernels_take_pixel_stride(const struct hrf_kernel_table *table,
                                   const struct hrf_graph *graph, const struct hrf_node *node,
                                   int32_t k);

#endif
