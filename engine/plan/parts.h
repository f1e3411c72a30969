/* parts.h - a node's output computed in parts: the interior first, the edges later.
 *
 * A window that waits for rows and columns of other ranks has an interior that does not
 * (partition.h says which). A part is the same node over a box of the same values, so it is made of
 * the formulas of region.h, for one image: it is run image by image. Boxes of whole rows lie in
 * memory in one piece, so such a part's inputs and output are places in the node's own. Edges at
 * the sides are computed from a copy of what they need into a copy of what they are; the interior
 * is computed in whole rows, beyond whose own columns its numbers stand for nothing until those
 * edges are put over them. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PARTS_H
#define HRF_ENGINE_PLAN_PARTS_H

#include "engine/ir/graph.h"
#include "engine/plan/region.h"

enum hrf_part {
    HRF_PART_WHOLE,
    HRF_PART_INTERIOR, /* needs nothing of other ranks; whole rows */
    HRF_PART_FIRST,    /* the rows above it */
    HRF_PART_LAST,     /* the rows below it */
    HRF_PART_LEFT,     /* of its own rows, the columns before it */
    HRF_PART_RIGHT,    /* the columns behind it */
    HRF_N_PARTS
};

/* Whether the interior is less than whole rows of the output. */
bool hrf_part_has_sides(const struct hrf_box *whole, const struct hrf_box *interior);
/* Its inputs and output are copies. */
static inline bool hrf_part_is_copied(enum hrf_part part)
{
    return part == HRF_PART_LEFT || part == HRF_PART_RIGHT;
}
/* Of an output that is `whole`; may be empty. */
struct hrf_box hrf_part_box(const struct hrf_box *whole, const struct hrf_box *interior,
                            enum hrf_part part);
/* How often it is run: once for each image, WHOLE once for all. */
int64_t hrf_part_runs(const struct hrf_graph *graph, const struct hrf_node *node,
                      enum hrf_part part);
/* Bytes of an image of a value, of one row of it, and of `box` of it. */
int64_t hrf_part_image_bytes(const struct hrf_value *value);
int64_t hrf_part_row_bytes(const struct hrf_value *value);
int64_t hrf_part_bytes(const struct hrf_value *value, const struct hrf_box *box);
/* Bytes that the copies of part `box` take, each aligned; 0 when it needs none. *copied, if not
 * NULL: bytes that are copied for all images. */
int64_t hrf_part_copies(const struct hrf_graph *graph, const struct hrf_node *node,
                        enum hrf_part part, const struct hrf_box *box, int64_t *copied);

/* A graph of that one node over `box` of its output, for n_images, to be compiled or to be asked
 * for its cost; constants are borrowed. */
HRF_CHECKED enum hrf_status hrf_part_graph(const struct hrf_graph *graph,
                                           const struct hrf_node *node, const struct hrf_box *box,
                                           int64_t n_images, struct hrf_graph **out,
                                           struct hrf_error *err);
/* Whether one kernel serves both parts of the node's output. */
bool hrf_part_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_box *a, const struct hrf_box *b);

#endif
