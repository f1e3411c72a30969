/* network_tissue.h - finds tissue on a whole slide by a network (tissue method `onnx`). */
#ifndef HRF_TILER_PLAN_NETWORK_TISSUE_H
#define HRF_TILER_PLAN_NETWORK_TISSUE_H

#include "tiler/plan/overview.h"
#include "tiler/tissue/tissue_network.h"

/* Reads the whole slide once, at `reduction` level-0 px (at least 1) per px of the network's
 * images. The images lie side by side from the upper left corner and do not overlap; beyond the
 * slide's right and lower edge they are white.
 *
 * A pixel of the overview stands for k x k px of the network: its colour is their mean, and its
 * *probability (heap, [height][width]) is the mean of the network's outputs for them. k is the
 * largest number for which the overview's pixels are at most `coarsest` level-0 px and its longer
 * side has at least 1024 px, at least 1, and large enough that no side has more than 8192 px.
 *
 * The call takes the memory of the overview, of a strip of the slide one image high, and of one
 * batch. HRF_E_USER: the slide is damaged. */
HRF_CHECKED enum hrf_status hrf_network_tissue_find(struct hrf_slide *slide, double reduction,
                                                    double coarsest,
                                                    const struct hrf_tissue_network *network,
                                                    struct hrf_overview *overview,
                                                    float **probability, struct hrf_error *err);

#endif
