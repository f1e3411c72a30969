/* pixel_stride.h - pixel strides that avoid cache conflicts or copies.
 *
 * If the channels of a pixel take a multiple of 4 KiB, neighbouring pixels map to the same few
 * cache sets, and a kernel that reads many pixels at once evicts its own data. One unused cache
 * line of 64 bytes between pixels (at most 1.6 % more memory) spreads them over the cache.
 * An input of a channel concatenation that has the output's pixel stride is computed inside of the
 * output (joins.h).
 *
 * hrf_value.pixel_stride holds the stride. It is set for a whole network; a graph that is cut out
 * of another inherits it and must call hrf_pixel_stride_settle(). Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PIXEL_STRIDE_H
#define HRF_ENGINE_PLAN_PIXEL_STRIDE_H

#include "engine/backend/kernel_rows.h"
#include "engine/ir/graph.h"

/* Sets the stride of every image between nodes that gains by one and whose producer and readers
 * have kernels that take it (hrf_kernels_take_pixel_stride()): float32 images of 4 KiB, and inputs
 * of concatenations, unless the plan would take more memory. Call it on the graph that will be
 * computed. */
HRF_CHECKED enum hrf_status hrf_pixel_stride_set(struct hrf_graph *graph,
                                                 const struct hrf_kernel_table *kernels,
                                                 struct hrf_error *err);
/* Makes those values dense again that must be: inputs and outputs of the graph and of nodes that
 * want it; a residual or an output of which the other is dense, because they may share a buffer;
 * and inputs of concatenations that can no longer lie in the output. */
void hrf_pixel_stride_settle(struct hrf_graph *graph);
/* True if the node's inputs and output must be dense: ranks put it in, or compute it part by part
 * (parts.h). */
bool hrf_pixel_stride_wants_dense(const struct hrf_graph *graph, const struct hrf_node *node);

#endif
