/* parts.h - a node's output computed in parts of rows: the interior first, the edges later.
 *
 * A window that waits for rows of other ranks has an interior that does not (partition.h says
 * which rows). A part is the same node over some rows of the same values, so it is made of the
 * formulas of region.h; with one image, rows lie in memory in one piece, so a part's inputs and
 * output are places in the node's own. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PARTS_H
#define HRF_ENGINE_PLAN_PARTS_H

#include "engine/ir/graph.h"
#include "engine/plan/region.h"

enum hrf_part {
    HRF_PART_WHOLE,
    HRF_PART_INTERIOR, /* needs nothing of other ranks */
    HRF_PART_FIRST,    /* the rows above it */
    HRF_PART_LAST      /* the rows below it */
};

static inline bool hrf_part_has_interior(const struct hrf_node *node)
{
    return node->attributes.interior[1] > node->attributes.interior[0];
}
/* Of the node's output; may be empty. */
struct hrf_box hrf_part_box(const struct hrf_graph *graph, const struct hrf_node *node,
                            enum hrf_part part);
/* What the part reads of run-time input k. */
struct hrf_box hrf_part_needs(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                              enum hrf_part part);
/* Bytes into a value of one image at which `row` begins. */
int64_t hrf_part_offset(const struct hrf_value *value, int64_t row);

/* A graph of that one node over `rows` of its output, to be compiled or to be asked for its cost;
 * constants are borrowed. */
HRF_CHECKED enum hrf_status hrf_part_graph(const struct hrf_graph *graph,
                                           const struct hrf_node *node, const struct hrf_box *rows,
                                           struct hrf_graph **out, struct hrf_error *err);
/* Whether the kernel of FIRST, a row of edge like any other, serves LAST too. */
bool hrf_part_edges_are_alike(const struct hrf_graph *graph, const struct hrf_node *node);

#endif
