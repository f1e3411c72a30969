/* lora.h - a network whose own weights stay, and whose products are trained by matrices of low rank
 * beside them.
 *
 * Each product and 1x1 convolution y = W x becomes y = W x + B A x, with A of `rank` rows drawn as
 * PyTorch draws Linear and B of zeros, so that it begins as the file's network. B A is added to W
 * in the end. Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (ICLR 2022),
 * with alpha = rank.
 */
#ifndef HRF_TRAINING_LOOP_LORA_H
#define HRF_TRAINING_LOOP_LORA_H

#include "base/text.h"
#include "engine/ir/graph.h"

/* Adds A and B to those of the last n_layers convolutions and products (0: all) but the last one,
 * and their names and those of the last layer's weights to `trained`. The shapes of the graph are
 * known; infer them anew. HRF_E_USER: no layer can have them. */
HRF_CHECKED enum hrf_status hrf_lora_add(struct hrf_graph *graph, int64_t rank, int64_t n_layers,
                                         int64_t seed, struct hrf_text_list *trained,
                                         struct hrf_error *err);
/* `graph`, to which hrf_lora_add() has not been applied, with the weights of `trained`, a copy to
 * which it has, and A and B added to its own. */
HRF_CHECKED enum hrf_status hrf_lora_merge(const struct hrf_graph *graph,
                                           const struct hrf_graph *trained, struct hrf_graph **out,
                                           struct hrf_error *err);

#endif
