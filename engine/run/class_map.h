/* class_map.h - which places of an image speak for a class: a second output of the network.
 *
 * For a network that ends in global average pooling and one linear layer, what a place adds to a
 * class is the last feature map there times the class's weights (Zhou et al., "Learning deep
 * features for discriminative localization", CVPR 2016). That is a 1x1 convolution with the
 * linear layer's weights, so it is added to the graph as one, and every placement and device can
 * run it. The mean over the map plus the layer's bias is the class's logit.
 */
#ifndef HRF_ENGINE_RUN_CLASS_MAP_H
#define HRF_ENGINE_RUN_CLASS_MAP_H

#include "engine/ir/graph.h"

/* Adds the map of all classes ([1][classes][rows][columns]) as output 1 of a graph with one
 * output and shapes inferred. HRF_E_UNSUPPORTED when the network does not end so, naming the
 * node that is not as it must be; the graph is then as it was. */
HRF_CHECKED enum hrf_status hrf_class_map_add(struct hrf_graph *graph, struct hrf_error *err);

#endif
