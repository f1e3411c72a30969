/* plain.h - kernels of plain loops over host memory, for operators that need nothing faster. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_PLAIN_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_PLAIN_H

#include "engine/backend/compute.h"

extern const struct hrf_kernel_table hrf_cpu_kernels;
/* True if all inputs of a move have the output's type and scale, so that bytes are moved. */
bool hrf_moves_as_is(const struct hrf_graph *graph, const struct hrf_node *node);
/* True if integer.c has a loop for the operator; moves have none, except CONCAT of different
 * scales. */
bool hrf_integer_has(enum hrf_op op);
/* Compile functions of rows. */
#define HRF_PLAIN_COMPILE(name)                                                                    \
    HRF_CHECKED enum hrf_status hrf_##name##_compile(                                              \
        const struct hrf_kernel_row *row, struct hrf_backend *backend,                             \
        const struct hrf_graph *graph, const struct hrf_node *node, struct hrf_kernel **out,       \
        struct hrf_error *err)
HRF_PLAIN_COMPILE(move); /* hrf_moves_as_is() */
HRF_PLAIN_COMPILE(resize);
HRF_PLAIN_COMPILE(integer); /* exact; faster kernels give the same bytes */
HRF_PLAIN_COMPILE(partial); /* POOL_SUM and POOL_FINISH, of any type */
/* 16-bit floats by the kernel for float32: inputs are widened into the workspace, and the result is
 * narrowed. Also CAST. */
HRF_PLAIN_COMPILE(half);

/* hrf_op_is_unary() and hrf_op_is_binary() operators, in double. */
double hrf_unary_value(enum hrf_op op, const struct hrf_attributes *attributes, double x);
double hrf_binary_value(enum hrf_op op, double a, double b);

#endif
