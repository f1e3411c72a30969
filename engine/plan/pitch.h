/* pitch.h - pixels that stand further apart than they are large.
 *
 * Where a pixel's channels take whole pages of 4 KiB, neighbours fall into the same few lines of
 * every cache, and a kernel that reads many of them at once finds none of them there any more. One
 * more line of 64 bytes between them (1.6 % of memory at most) spreads them out; hrf_value.pitch
 * says so. It is given to a whole network and carried into its parts; whoever cuts a graph out of
 * another settles it there. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PITCH_H
#define HRF_ENGINE_PLAN_PITCH_H

#include "engine/ir/graph.h"

/* Whether a back end's kernel of the node, and of every part of it, takes that input (-1: its
 * output) at any pitch of whole lines. */
typedef bool hrf_takes_pitch(const struct hrf_graph *graph, const struct hrf_node *node,
                             int32_t input);

/* Gives a pitch to the float32 images between nodes that would gain by one and are taken so by all
 * who touch them. For the graph as it will be computed. */
void hrf_pitch_set(struct hrf_graph *graph, hrf_takes_pitch *takes);
/* Dense again: what enters or leaves the graph, what ranks exchange or reduce, and an output whose
 * residual is dense, or the other way round: they may have to lie in one place. */
void hrf_pitch_settle(struct hrf_graph *graph);

#endif
