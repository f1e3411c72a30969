/* class_map.h - class activation maps: a second output that shows how much each position of the
 * image contributes to a class.
 *
 * For a network that ends in global average pooling and one linear layer, the contribution of a
 * position to a class is the last feature map there times the weights of the class (Zhou et al.,
 * "Learning deep features for discriminative localization", CVPR 2016). That is a 1x1 convolution
 * with the weights of the linear layer, so it is added to the graph as one and runs on every device
 * and layout. The mean over the map plus the bias of the layer is the logit of the class.
 *
 * For other networks it is the map of Selvaraju et al., "Grad-CAM: visual explanations from deep
 * networks via gradient-based localization", ICCV 2017: each feature is weighted by the mean over
 * the image of the gradient of the predicted class's logit to it, and only what is positive is
 * kept. The gradient's nodes are added to the graph. For a network of the first kind this is the
 * positive part of its map, divided by the number of positions.
 */
#ifndef HRF_ENGINE_RUN_CLASS_MAP_H
#define HRF_ENGINE_RUN_CLASS_MAP_H

#include "engine/ir/graph.h"

/* Adds the maps of all classes ([1][classes][rows][columns]) as output 1 of a graph with one output
 * and known shapes. HRF_E_UNSUPPORTED, naming the node that does not fit, if the network does not
 * end in this way; the graph is then unchanged. */
HRF_CHECKED enum hrf_status hrf_class_map_add(struct hrf_graph *graph, struct hrf_error *err);

/* Adds the map of the class with the largest output ([1][1][rows][columns]) as output 1, by the
 * gradient to the last features that the whole output depends on: an image of them, or tokens of
 * the image's patches. Only for float32, on the host. *graph, as it was read, has one output of a
 * number for each class, for one image, and is replaced. HRF_E_UNSUPPORTED, with the graph
 * unchanged: there are no such features, or an operator has no gradient. */
HRF_CHECKED enum hrf_status hrf_class_map_add_gradient(struct hrf_graph **graph,
                                                       struct hrf_error *err);

#endif
