/* region_tokens.h - sequence parallelism: ranks divide the tokens of a sequence.
 *
 * A value of rank 3, [N][T][C], is an image of one column whose rows are the tokens; its channels
 * lie side by side, as those of an image do. Almost every operator of a transformer works on each
 * token by itself. Attention needs all keys and values, that is, its window is everything. Private
 * to engine/plan/region.c and the partition. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_REGION_TOKENS_H
#define HRF_ENGINE_PLAN_REGION_TOKENS_H

#include "engine/ir/graph.h"

/* True if the output is tokens, or an image that is made of tokens, and its parts can be computed
 * from parts of the inputs. */
bool hrf_tokens_can_split(const struct hrf_graph *graph, const struct hrf_node *node);
/* True if hrf_tokens_needed() answers for this node: a value of tokens comes in or goes out. */
bool hrf_tokens_concern(const struct hrf_graph *graph, const struct hrf_node *node);
/* Like hrf_region_needed(). */
struct hrf_box hrf_tokens_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out);
/* True if the node reads only some tokens of its input although its output is computed whole, like
 * the one that takes the class token; hrf_tokens_needed() then says which. */
bool hrf_tokens_are_picked(const struct hrf_graph *graph, const struct hrf_node *node);
/* Changes the attributes to those for computing a part from what it needs. */
void hrf_tokens_cut(const struct hrf_node *node, struct hrf_attributes *a);
/* A part of the value, which the node computes, begins and ends at multiples of this number of
 * tokens: a window, or a row of the image, if it is made of one. */
int64_t hrf_tokens_grain(const struct hrf_graph *graph, int32_t value);

/* The channels of input k that the node reads: only those of the heads, if it is an attention. */
void hrf_tokens_channels(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                         int64_t *first, int64_t *n);

/* Elements [lo, hi) along an axis of a constant. */
struct hrf_constant_part {
    int32_t axis; /* -1: the whole constant */
    int64_t lo, hi;
};
/* The part of constant input k that output part `out` needs. */
struct hrf_constant_part hrf_tokens_constant(const struct hrf_graph *graph,
                                             const struct hrf_node *node, int32_t k,
                                             const struct hrf_box *out);

#endif
