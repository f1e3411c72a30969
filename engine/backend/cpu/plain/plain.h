/* plain.h - kernels of plain loops over host memory: all operators that need nothing faster.
 *
 * compile functions are those of struct hrf_backend_ops; each asks for what its comment says.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_PLAIN_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_PLAIN_H

#include "engine/backend/compute.h"

/* hrf_op_is_move() operators; exact. hrf_moves_as_is(): all inputs have the output's type and
 * scale, so that bytes are moved. */
bool hrf_moves_as_is(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_move_compile(const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err);
/* RESIZE in float32. */
HRF_CHECKED enum hrf_status hrf_resize_compile(const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err);
/* HRF_FORM_INTEGER, exact: moves are not here, but CONCAT of different scales is. */
bool hrf_integer_supports(const struct hrf_graph *graph, const struct hrf_node *node,
                          struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_integer_compile(const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err);
/* hrf_is_partial() operators, for any type. */
HRF_CHECKED enum hrf_status hrf_partial_compile(const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err);
/* HRF_FORM_HALF, made of the back end's float32 kernel: inputs are widened into the workspace, the
 * result is narrowed. CAST is a kernel of its own. */
HRF_CHECKED enum hrf_status hrf_half_compile(const struct hrf_backend_ops *ops,
                                             struct hrf_backend *backend,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err);

/* hrf_op_is_unary() and hrf_op_is_binary() operators, in double. */
double hrf_unary_value(enum hrf_op op, const struct hrf_attributes *attributes, double x);
double hrf_binary_value(enum hrf_op op, double a, double b);

#endif
