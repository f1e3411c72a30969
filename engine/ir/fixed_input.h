/* fixed_input.h - models whose file fixes the batch, the rows or the columns of the input, as every
 * export without open ("dynamic") axes does: for which other shapes they compute what they were
 * made for.
 *
 * A network may be run with another batch, rows or columns only if nothing in it is seen to stand
 * for those of the file: a Reshape to a constant shape, a position for each token, a window that is
 * as large as the whole image. What follows is a proof by the operators' rules of sizes (op.h).
 */
#ifndef HRF_ENGINE_IR_FIXED_INPUT_H
#define HRF_ENGINE_IR_FIXED_INPUT_H

#include "engine/ir/graph.h"

/* HRF_OK if the network treats an input of `shape`, whose rank is the model's, as one of the shape
 * that its file fixes; otherwise HRF_E_USER with the node that prevents it and a remedy. */
HRF_CHECKED enum hrf_status hrf_fixed_input_check(const struct hrf_graph *graph,
                                                  const struct hrf_shape *shape,
                                                  struct hrf_error *err);
/* The same for rows and columns alone; the error is the reason, without a remedy. */
HRF_CHECKED enum hrf_status hrf_fixed_input_check_size(const struct hrf_graph *graph,
                                                       const struct hrf_shape *shape,
                                                       struct hrf_error *err);

#endif
