/* region.h - which part of an input a part of an output needs, operator by operator.
 *
 * The one formula that spatial parallelism, bands and fused halos stand on: rows [y0, y1) of a
 * window's output need input rows s*y0 - p up to s*(y1-1) - p + d*(k-1), clipped to the image; what
 * was clipped is the part's padding. Columns likewise. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_REGION_H
#define HRF_ENGINE_PLAN_REGION_H

#include "engine/ir/graph.h"

static inline bool hrf_box_is_empty(const struct hrf_box *b)
{
    return b->hi[0] <= b->lo[0] || b->hi[1] <= b->lo[1];
}
bool hrf_box_equal(const struct hrf_box *a, const struct hrf_box *b); /* empty ones are equal */
bool hrf_box_contains(const struct hrf_box *outer, const struct hrf_box *inner);
struct hrf_box hrf_box_intersect(const struct hrf_box *a, const struct hrf_box *b);
struct hrf_box hrf_box_hull(const struct hrf_box *a, const struct hrf_box *b);
/* All of a value. */
struct hrf_box hrf_box_whole(const struct hrf_shape *shape);
/* The value's shape with only `box` of it. */
struct hrf_shape hrf_box_shape(const struct hrf_shape *shape, const struct hrf_box *box);

/* What the sum over an image's pixels is kept in: 32-bit integers for 8-bit values, which is exact,
 * else double. */
enum hrf_dtype hrf_region_sum_type(enum hrf_dtype dtype);

/* Whether parts of the node's output can be computed from parts of its inputs. */
bool hrf_region_can_split(const struct hrf_graph *graph, const struct hrf_node *node);
/* What part `out` of the output needs of run-time input k; for a node that can be split. */
struct hrf_box hrf_region_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out);
/* Whether `have` serves where `need` (of hrf_region_needed()) is asked for: the same, or with rows
 * and columns after it that the window's stride steps over. */
bool hrf_region_suits(const struct hrf_node *node, int32_t k, const struct hrf_box *have,
                      const struct hrf_box *need);
/* The node's attributes for computing `out`: padding only where the image really ends. */
struct hrf_attributes hrf_region_attributes(const struct hrf_graph *graph,
                                            const struct hrf_node *node, const struct hrf_box *out);
/* Whether both parts of the node's output, of the same size, come of their inputs alike: with the
 * same padding, and a resize from the same places between rows. */
bool hrf_region_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                          const struct hrf_box *a, const struct hrf_box *b);

#endif
