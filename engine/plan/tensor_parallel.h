/* tensor_parallel.h - tensor parallelism: the output channels of products and the heads of
 * attention, divided over ranks.
 *
 * A rewrite of the prepared graph, before it is partitioned. A product with constant weights (GEMM,
 * MATMUL, CONV of one group) becomes as many products as there are ranks, each with its part of
 * the output channels; an ATTENTION over the heads of tokens becomes one node for each rank's
 * heads. What is computed element by element stays in parts. A CONCAT joins the parts where all
 * channels are needed. The node of a part has an owner (graph.h) and the partition does the rest:
 * only the owner has the node and its weights, and an exchange takes the part to the other ranks.
 *
 * Every sum is computed on one rank, over all of its terms and in the order of one rank, so that
 * nothing has to be added up between ranks, and INT8 rounds the rows that one rank rounds. Pure
 * arithmetic over shapes; the weights are cut.
 */
#ifndef HRF_ENGINE_PLAN_TENSOR_PARALLEL_H
#define HRF_ENGINE_PLAN_TENSOR_PARALLEL_H

#include "engine/ir/graph.h"

/* *out: the same function in nodes of which some have one of the owners 0 .. n_ranks - 1. Constants
 * are shared with `graph` or cut out of it. HRF_E_UNSUPPORTED if there is nothing to divide. */
HRF_CHECKED enum hrf_status hrf_tensor_split(const struct hrf_graph *graph, int32_t n_ranks,
                                             struct hrf_graph **out, struct hrf_error *err);
/* stage_of[nodes]: moves a cut between the parts of one node, which would leave ranks of both
 * stages idle, to after the last part. */
void hrf_tensor_keep_together(const struct hrf_graph *graph, int32_t *stage_of);
/* True if the graph has attention over the heads of tokens, so that dividing it may pay. */
bool hrf_tensor_finds_heads(const struct hrf_graph *graph);

#endif
