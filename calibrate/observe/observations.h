/* observations.h - what the tensors of a network hold over a sample: range, histogram, channel
 * means.
 *
 * The histogram is of magnitudes, in bins whose width is always the smallest power of two that
 * holds the largest magnitude seen. Halving the number of bins by joining pairs is exact, so
 * counts do not depend on the order of the data nor on how it was shared out over batches,
 * threads or ranks. One thread at a time.
 */
#ifndef HRF_CALIBRATE_OBSERVE_OBSERVATIONS_H
#define HRF_CALIBRATE_OBSERVE_OBSERVATIONS_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_OBSERVE_BINS = 4096, HRF_OBSERVE_STRENGTHS = 6 };
/* Strength i of smoothing that is tried on the inputs of products: 0 (none) to 1. */
float hrf_observe_strength(int i);

struct hrf_observation {
    char *value;      /* the tensor's name */
    int64_t n;        /* finite numbers seen */
    int64_t n_broken; /* NaN and infinities, which count nowhere else */
    float low, high;  /* of the finite ones */
    int exponent;     /* a bin is 2^exponent wide; bin i holds magnitudes from i * 2^exponent */
    int64_t bins[HRF_OBSERVE_BINS];
    double *sums; /* [n_channels] */
    float *peaks; /* [n_channels]: largest finite magnitudes */
    int64_t n_channels;
    /* Of a product's input: squared error of its output relative to the output's square, with each
     * strength of smoothing, added up over n_tries batches; n_tries 0: not measured. */
    double errors[HRF_OBSERVE_STRENGTHS];
    int64_t n_tries;
};

/* What a layer's loss is measured by, in the network's output for an image: 1 - cosine, or the
 * square of how far its margin (`margins` below) moves. */
enum hrf_layer_loss { HRF_LOSS_COSINE, HRF_LOSS_MARGIN };

enum { HRF_OBSERVE_TIMES = 3 }; /* in INT8, float32, bfloat16 */
/* The products that read one tensor: what INT8 costs and gains there. Sums over measurements. */
struct hrf_observed_layer {
    char *tensor;
    double loss; /* of the network's output when they alone are in INT8, over n_images */
    int64_t n_images;
    double bf16_loss; /* the same in bfloat16; measured only where that is faster than float32 */
    int64_t n_bf16_images;
    double seconds[HRF_OBSERVE_TIMES]; /* of an image, over n_timed measurements */
    int64_t n_timed;
    bool is_measured; /* for the measurement that is going on */
};

struct hrf_observations {
    struct hrf_observation *items; /* in the order of their first appearance */
    int32_t n_items;
    size_t capacity; /* private */
    struct hrf_observed_layer *layers;
    int32_t n_layers;
    size_t layers_capacity; /* private */
    enum hrf_layer_loss loss;
    /* Of the network with every layer in INT8, over n_whole images. */
    double whole_loss;
    int64_t n_whole;
    /* HRF_LOSS_MARGIN: of each image of the sample by how much its most likely class leads, as the
     * logarithm of the ratio to the second's probability. */
    double *margins;
    int64_t n_margins;
    size_t margins_capacity;           /* private */
    double seconds[HRF_OBSERVE_TIMES]; /* of an image through all of the network, n_timed sums */
    int64_t n_timed;
};
/* The layer of that tensor; added if it is new. The pointer is valid until the next call. */
HRF_CHECKED enum hrf_status hrf_observations_layer(struct hrf_observations *observations,
                                                   const char *tensor,
                                                   struct hrf_observed_layer **out,
                                                   struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_observations_margin(struct hrf_observations *observations,
                                                    double margin, struct hrf_error *err);
void hrf_observations_release(struct hrf_observations *observations);

/* n numbers of tensor `value`, channels innermost: number i belongs to channel i % n_channels. The
 * same tensor has the same n_channels each time. */
HRF_CHECKED enum hrf_status hrf_observe(struct hrf_observations *observations, const char *value,
                                        const float *numbers, int64_t n, int64_t n_channels,
                                        struct hrf_error *err);
/* Adds `from` to `into`, as if `into` had seen all of it. */
HRF_CHECKED enum hrf_status hrf_observations_merge(struct hrf_observations *into,
                                                   const struct hrf_observations *from,
                                                   struct hrf_error *err);
/* NULL: not seen. */
const struct hrf_observation *hrf_observation_find(const struct hrf_observations *observations,
                                                   const char *value);

#endif
