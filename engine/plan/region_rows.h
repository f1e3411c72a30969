/* region_rows.h - copies of rows that ranks divide: a GATHER that is of_pixels (graph.h), as for
 * the windows of Swin, also shifted ones, and for the pixels that its stages merge.
 *
 * Both sides are images or tokens. A part of the output needs the smallest box of the input that
 * has all rows that are copied. Private to engine/plan/region.c and the partition. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_REGION_ROWS_H
#define HRF_ENGINE_PLAN_REGION_ROWS_H

#include "engine/ir/graph.h"

/* True if the node copies rows between images or tokens of the same images. */
bool hrf_rows_concern(const struct hrf_graph *graph, const struct hrf_node *node);
/* True if, besides, each image of the output is made of the same rows of its own input. */
bool hrf_rows_can_split(const struct hrf_graph *graph, const struct hrf_node *node);
/* Like hrf_region_needed(). */
struct hrf_box hrf_rows_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                               const struct hrf_box *out);
/* The indices by which `out` is copied from what it needs: *count of them, on the heap. */
void hrf_rows_cut(const struct hrf_graph *graph, const struct hrf_node *node,
                  const struct hrf_box *out, int32_t **indices, int64_t *count);

#endif
