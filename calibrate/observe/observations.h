/* observations.h - statistics of a network's tensors over a sample: range, histogram, channel
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
    double *sums; /* [n_channels], of the finite numbers */
    float *peaks; /* [n_channels], the largest finite magnitudes */
    int64_t n_channels;
    /* For the input of a product: the squared error of the product's output relative to the
     * output's square, for each strength of smoothing, summed over n_tries batches (0: not
     * measured). */
    double errors[HRF_OBSERVE_STRENGTHS];
    int64_t n_tries;
};

/* The measure of a layer's loss in the network's output for an image: 1 - cosine, or the square of
 * the change of its margin (`margins` below). */
enum hrf_layer_loss { HRF_LOSS_COSINE, HRF_LOSS_MARGIN };

/* What INT8 loses in the network's output, summed over images outside of the sample. */
struct hrf_observed_loss {
    int64_t n_images;
    double signal, noise;        /* squares of float32's numbers, and of INT8's differences */
    double cosine;               /* between the two outputs of an image */
    int64_t n_labels, n_changed; /* labels of images or pixels; 0: the output has no classes */
};
/* True if the loss is worth a warning: less than 20 dB (a cosine of 0.995), or more than 1 % of the
 * labels changed. */
#define HRF_LOSS_MIN_SQNR_DB 20.0
#define HRF_LOSS_MAX_CHANGED 0.01
bool hrf_loss_is_large(double sqnr_db, int64_t n_labels, int64_t n_changed);
double hrf_observed_loss_sqnr_db(const struct hrf_observed_loss *loss); /* HUGE_VAL: none lost */

enum { HRF_OBSERVE_TIMES = 3 }; /* in INT8, float32, bfloat16 */
/* A layer, the products that read one tensor: what INT8 costs and gains there, summed over
 * measurements. */
struct hrf_observed_layer {
    char *tensor;
    double loss; /* loss of the network's output with this layer alone in INT8, over n_images */
    int64_t n_images;
    double bf16_loss; /* the same in bfloat16; measured only where that is faster than float32 */
    int64_t n_bf16_images;
    double seconds[HRF_OBSERVE_TIMES]; /* for an image, over n_timed measurements */
    int64_t n_timed;
    bool is_measured; /* used while the layer is measured */
};

struct hrf_observations {
    struct hrf_observation *items; /* in the order of their first appearance */
    int32_t n_items;
    size_t capacity; /* private */
    struct hrf_observed_layer *layers;
    int32_t n_layers;
    size_t layers_capacity; /* private */
    enum hrf_layer_loss loss;
    /* The loss of the network with every layer in INT8, over n_whole images. */
    double whole_loss;
    int64_t n_whole;
    /* With HRF_LOSS_MARGIN: the margin of each image of the sample, which is the logarithm of the
     * ratio of its two largest probabilities. */
    double *margins;
    int64_t n_margins;
    size_t margins_capacity;           /* private */
    double seconds[HRF_OBSERVE_TIMES]; /* for an image in the whole network, over n_timed runs */
    int64_t n_timed;
    struct hrf_observed_loss lost;
};
/* Finds the layer of a tensor, or adds it. The pointer is valid until the next call. */
struct hrf_observed_layer *hrf_observations_layer(struct hrf_observations *observations,
                                                  const char *tensor);
void hrf_observations_margin(struct hrf_observations *observations, double margin);
void hrf_observations_release(struct hrf_observations *observations);

/* Adds n numbers of the tensor `value`, channels innermost: number i belongs to channel i %
 * n_channels. A tensor has the same n_channels in every call. */
HRF_CHECKED enum hrf_status hrf_observe(struct hrf_observations *observations, const char *value,
                                        const float *numbers, int64_t n, int64_t n_channels,
                                        struct hrf_error *err);
/* Adds `from` to `into`, as if `into` had observed all of it. */
HRF_CHECKED enum hrf_status hrf_observations_merge(struct hrf_observations *into,
                                                   const struct hrf_observations *from,
                                                   struct hrf_error *err);

/* Encodes the observations as the JSON record that a calibrate job writes. Lossless; heap text. */
char *hrf_observations_encode(const struct hrf_observations *observations);
/* `where` names the text in messages. HRF_E_USER: the text is not such a record. */
HRF_CHECKED enum hrf_status hrf_observations_decode(const char *text, size_t n_bytes,
                                                    const char *where, struct hrf_observations *out,
                                                    struct hrf_error *err);

#endif
