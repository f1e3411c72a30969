/* class_map.h - class activation maps: a second output that shows how much each position of the
 * image contributes to each class.
 *
 * For a network that ends in global average pooling and one linear layer, the contribution of a
 * position to a class is the last feature map there times the weights of the class (Zhou et al.,
 * "Learning deep features for discriminative localization", CVPR 2016). That is a 1x1 convolution
 * with the weights of the linear layer, so it is added to the graph as one and runs on every device
 * and layout. The mean over the map plus the bias of the layer is the logit of the class.
 */
#ifndef HRF_ENGINE_RUN_CLASS_MAP_H
#define HRF_ENGINE_RUN_CLASS_MAP_H

#include "engine/ir/graph.h"

/* Adds the maps of all classes ([1][classes][rows][columns]) as output 1 of a graph with one output
 * and known shapes. HRF_E_UNSUPPORTED, naming the node that does not fit, if the network does not
 * end in this way; the graph is then unchanged. */
HRF_CHECKED enum hrf_status hrf_class_map_add(struct hrf_graph *graph, struct hrf_error *err);

#endif
