/* region.h - the part of an input that a part of an output needs, for each operator.
 *
 * Spatial parallelism, bands and fused halos all rest on it. The operator table (engine/ir/op.h)
 * says of which kind an operator's regions are; region.c has one rule for each kind, and one
 * driver, which alone clips to the image: what it clips is the padding of the part. A part whose
 * windows see padding alone needs the row nearest to it and reads padding in its place. Nothing
 * else computes ranges of rows from windows, strides or pads. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_REGION_H
#define HRF_ENGINE_PLAN_REGION_H

#include "engine/ir/graph.h"

static inline bool hrf_box_is_empty(const struct hrf_box *b)
{
    return b->hi[0] <= b->lo[0] || b->hi[1] <= b->lo[1];
}
bool hrf_box_equal(const struct hrf_box *a,
                   const struct hrf_box *b); /* all empty boxes are equal */
bool hrf_box_contains(const struct hrf_box *outer, const struct hrf_box *inner);
struct hrf_box hrf_box_intersect(const struct hrf_box *a, const struct hrf_box *b);
/* The coordinates of a box counted from the beginning of another one. */
struct hrf_box hrf_box_within(const struct hrf_box *box, const struct hrf_box *whole);
struct hrf_box hrf_box_hull(const struct hrf_box *a, const struct hrf_box *b);
/* The box of a whole value. The tokens of a value of rank 3, [N][T][C], are its rows, in one
 * column; a value of another rank than 3 and 4 is one pixel. */
struct hrf_box hrf_box_whole(const struct hrf_shape *shape);
/* The shape of `box` of a value. */
struct hrf_shape hrf_box_shape(const struct hrf_shape *shape, const struct hrf_box *box);

/* The type of a sum over the pixels of an image: 32-bit integers for 8-bit values, which is exact,
 * else double. */
enum hrf_dtype hrf_region_sum_type(enum hrf_dtype dtype);

/* True if parts of the node's output can be computed from parts of its inputs, on ranks and in
 * bands. Tokens (region_tokens.h) and copies of rows (region_rows.h) are for ranks alone. */
bool hrf_region_can_split(const struct hrf_graph *graph, const struct hrf_node *node);
/* The box of run-time input k that part `out` of the output needs. For a node that can be split. */
struct hrf_box hrf_region_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out);
/* True if what windows of output part `out` see is padding alone, along the rows (n[0] > 0) or the
 * columns (n[1] > 0) or both: they then read an image of n[i] positions of padding, made in place
 * of what hrf_region_needed() says. A node whose part has no such axis has n[i] 0. */
bool hrf_region_padding(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_box *out, int64_t n[2]);
/* True if what the node reads of input 0 for `out` is there, or is padding by its attributes. */
bool hrf_region_is_there(const struct hrf_graph *graph, const struct hrf_node *node,
                         const struct hrf_box *out);
/* True if the node, for a part of its output, computes as much as it needs of input 0. */
bool hrf_region_is_wider(const struct hrf_node *node);
/* True if a window slides over input 0, whose edges can be computed after the interior. */
bool hrf_region_is_window(const struct hrf_node *node);
/* True if partial results of parts of input hrf_region_summed() add up to the output. */
bool hrf_region_is_sum(const struct hrf_graph *graph, const struct hrf_node *node);
int32_t hrf_region_summed(const struct hrf_node *node);
/* The box of input k that the partial result of part `part` of the summed input needs, which is
 * computed with hrf_region_attributes(part). Empty: the part adds nothing. */
struct hrf_box hrf_region_for_sum(const struct hrf_graph *graph, const struct hrf_node *node,
                                  int32_t k, const struct hrf_box *part);
/* For every *down rows of its input the node's output has *up rows. */
void hrf_region_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                     int64_t *up);
/* True if box `have` can be used where `need` (of hrf_region_needed()) is asked for: it is the
 * same, or it has additional rows and columns at the end that the window's stride skips. */
bool hrf_region_suits(const struct hrf_node *node, int32_t k, const struct hrf_box *have,
                      const struct hrf_box *need);
/* The attributes of a SLICE of images that takes `box`. */
struct hrf_attributes hrf_region_slice(const struct hrf_box *box);
/* The node's attributes for computing only `out`: padding only at the true border of the image. */
struct hrf_attributes hrf_region_attributes(const struct hrf_graph *graph,
                                            const struct hrf_node *node, const struct hrf_box *out);
/* True if two parts of the node's output, of the same size, are computed in the same way: with the
 * same padding and, for a resize, the same positions between input rows. */
bool hrf_region_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                          const struct hrf_box *a, const struct hrf_box *b);

#endif
