/* last_layer.h - the layers of a network that is trained on: the last one made anew for other
 * classes, and those that are trained. */
#ifndef HRF_TRAINING_LOOP_LAST_LAYER_H
#define HRF_TRAINING_LOOP_LAST_LAYER_H

#include "engine/ir/graph.h"
#include "training/recipe/train_recipe.h"

/* Gives the last layer, a Gemm, a MatMul or a 1x1 convolution, fresh weights for n_classes outputs,
 * drawn by the seed as PyTorch draws Linear: uniform within 1 / sqrt(inputs), the bias, too. Shapes
 * have to be inferred anew. HRF_E_USER: what the network ends in has no such layer. */
HRF_CHECKED enum hrf_status hrf_last_layer_renew(struct hrf_graph *graph, int64_t n_classes,
                                                 int64_t seed, struct hrf_error *err);

/* Puts a layer with such weights behind the output, an embedding of `width` numbers. Before shapes
 * are inferred. */
HRF_CHECKED enum hrf_status hrf_last_layer_add(struct hrf_graph *graph, int64_t width,
                                               int64_t n_classes, int64_t seed,
                                               struct hrf_error *err);

/* Fits a Softmax or Sigmoid that gives the output to what labels are: classes exclude each other, a
 * Softmax, also of each pixel; several labels do not, the raw numbers, which their loss and a run
 * with model.output sigmoid take; nor do numbers, whose layer is made anew. */
void hrf_last_layer_fit(struct hrf_graph *graph, enum hrf_label_kind kind);

/* Gives the layer that was added these weights, [n_classes][width + 1] with the bias last. */
HRF_CHECKED enum hrf_status hrf_last_layer_set(struct hrf_graph *graph, const double *weights,
                                               struct hrf_error *err);

/* Whether the last layer has a bias, so that its outputs can be moved. */
bool hrf_last_layer_has_bias(const struct hrf_graph *graph);
/* Changes the last layer, which has been renewed or added, so that output k is what it was times
 * factors[k], plus offsets[k]; offsets count only if there is a bias. */
HRF_CHECKED enum hrf_status hrf_last_layer_scale(struct hrf_graph *graph, const double *factors,
                                                 const double *offsets, struct hrf_error *err);

/* True if the node is a convolution or product with weights of the file. */
bool hrf_last_layers_has(const struct hrf_graph *graph, const struct hrf_node *node);
/* The first node of the last n_layers of them (0: all); HRF_E_USER: there are fewer. */
HRF_CHECKED enum hrf_status hrf_last_layers_begin(const struct hrf_graph *graph, int64_t n_layers,
                                                  int32_t *first, struct hrf_error *err);
/* The names of the weights of the last n_layers convolutions and products and of what follows the
 * first of them (0: all) are added to `out`. HRF_E_USER: there are fewer layers. */
HRF_CHECKED enum hrf_status hrf_last_layers_list(const struct hrf_graph *graph, int64_t n_layers,
                                                 struct hrf_text_list *out, struct hrf_error *err);

#endif
