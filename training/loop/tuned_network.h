/* tuned_network.h - the network that a training begins with: read, checked against the recipe and
 * the pictures, and given the last layer that these ask for.
 */
#ifndef HRF_TRAINING_LOOP_TUNED_NETWORK_H
#define HRF_TRAINING_LOOP_TUNED_NETWORK_H

#include "training/loop/fine_tuning.h"

/* Reads the model of tuning->recipe, finds how pictures become its images, and what its last layer
 * has to be. HRF_E_USER: it does not fit the recipe or the pictures. */
HRF_CHECKED enum hrf_status hrf_tuned_network_open(struct hrf_fine_tuning *tuning,
                                                   struct hrf_error *err);
/* A copy of the graph as read, with the classes of the recipe: weights of a fresh last layer are
 * drawn by `seed`. With a slide head, which reads the output as it is, nothing is changed. */
HRF_CHECKED enum hrf_status hrf_tuned_network_with_classes(const struct hrf_fine_tuning *tuning,
                                                           int64_t seed, struct hrf_graph **out,
                                                           struct hrf_error *err);
/* A copy of a graph with the shape of a batch and all shapes. */
HRF_CHECKED enum hrf_status hrf_tuned_network_shape(const struct hrf_fine_tuning *tuning,
                                                    const struct hrf_graph *graph,
                                                    struct hrf_graph **out, struct hrf_error *err);

#endif
