/* parts.h - computes the output of a node in parts: the interior first, the edges later.
 *
 * A window that waits for rows and columns of other ranks has an interior that needs none of them
 * (partition.h). A part is the same node over a box of its output; region.h gives its inputs and
 * padding. It runs image by image. A box of whole rows is contiguous in memory, so such a part
 * reads and writes directly in the node's tensors. The left and right edges are computed from a
 * copy of their input into a copy of their output. The interior is computed in whole rows; the
 * numbers in its side columns are meaningless until the edges overwrite them. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PARTS_H
#define HRF_ENGINE_PLAN_PARTS_H

#include "engine/ir/graph.h"
#include "engine/plan/region.h"

enum hrf_part {
    HRF_PART_WHOLE,
    HRF_PART_INTERIOR, /* whole rows; needs no other rank */
    HRF_PART_FIRST,    /* the rows above it */
    HRF_PART_LAST,     /* the rows below it */
    HRF_PART_LEFT,     /* in the rows of the interior, the columns before it */
    HRF_PART_RIGHT,    /* the columns after it */
    HRF_N_PARTS
};

/* True if the interior does not span whole rows of the output. */
bool hrf_part_has_sides(const struct hrf_box *whole, const struct hrf_box *interior);
/* True if the part is computed from copies into a copy. */
static inline bool hrf_part_is_copied(enum hrf_part part)
{
    return part == HRF_PART_LEFT || part == HRF_PART_RIGHT;
}
/* The box of a part of the output `whole`; may be empty. */
struct hrf_box hrf_part_box(const struct hrf_box *whole, const struct hrf_box *interior,
                            enum hrf_part part);
/* How often the part runs: once for each image; WHOLE once for all images. */
int64_t hrf_part_runs(const struct hrf_graph *graph, const struct hrf_node *node,
                      enum hrf_part part);
/* Bytes of one image of a value, of one row, and of `box`. */
int64_t hrf_part_image_bytes(const struct hrf_value *value);
int64_t hrf_part_row_bytes(const struct hrf_value *value);
int64_t hrf_part_bytes(const struct hrf_value *value, const struct hrf_box *box);
/* Memory that the copies of part `box` need, each aligned; 0 if it needs none. *copied (may be
 * NULL): the bytes that are copied, over all images. */
int64_t hrf_part_copies(const struct hrf_graph *graph, const struct hrf_node *node,
                        enum hrf_part part, const struct hrf_box *box, int64_t *copied);

/* A graph of only that node over `box` of its output, for n_images, to compile it or to estimate
 * its cost. Constants are borrowed. */
HRF_CHECKED enum hrf_status hrf_part_graph(const struct hrf_graph *graph,
                                           const struct hrf_node *node, const struct hrf_box *box,
                                           int64_t n_images, struct hrf_graph **out,
                                           struct hrf_error *err);
/* True if one kernel can compute both parts of the node's output. */
bool hrf_part_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_box *a, const struct hrf_box *b);

#endif
