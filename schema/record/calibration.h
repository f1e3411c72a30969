/* calibration.h - the record of one calibration: what range each tensor has, and where it is from.
 *
 * JSON, complete or refused: a checksum covers all of it. The key names everything that the ranges
 * depend on: graph and weights, preprocessing, sample, method, engine version.
 */
#ifndef HRF_SCHEMA_RECORD_CALIBRATION_H
#define HRF_SCHEMA_RECORD_CALIBRATION_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_calibration_tensor {
    char *name; /* as in the graph after the passes */
    float low, high;
    bool is_observed; /* false: records of earlier versions do not tell the next two */
    float observed_low, observed_high; /* of all its numbers over the sample */
    /* That gave the range: "mse" ...; "rows": products round each row of it by a scale of its own.
     */
    char *method;
    /* Signal to quantisation noise: of the tensor with this range, or, if products of tokens read
     * it, measured in their output; HUGE_VAL: none lost. */
    double sqnr_db;
    float *means; /* of each channel; NULL: not known */
    int64_t n_means;
    /* How much of the channels' differences smoothing gives to the weights, 0 to 1, and the largest
     * magnitude of each channel, [n_means]; 0 and NULL: the tensor is not smoothed. */
    float strength;
    float *peaks;
};

/* Milliseconds of processor time that an image takes; NaN: not measured. */
struct hrf_calibration_times {
    double int8_ms, fp32_ms, bf16_ms;
};

struct hrf_calibration_keep {
    char *name, *reason; /* a node or tensor that does not use INT8 */
    /* Of a layer that calibrate.budget takes out of INT8: "fp32" or "bf16", the estimated loss of
     * the output if this layer alone were in INT8, and its times. NULL: it is in float32, and
     * nothing was measured. */
    char *precision;
    double loss;
    struct hrf_calibration_times times;
};

/* What calibrate.budget allows, and what is estimated of the layers that are in INT8. */
struct hrf_calibration_budget {
    char *measure; /* "cosine" of outputs or "agreement" of classes; NULL: there is no budget */
    double least;  /* that is allowed */
    double loss;   /* estimated; 1 - least is the most there may be */
    struct hrf_calibration_times times; /* of the network, INT8 without the layers that are kept */
};

struct hrf_calibration {
    char *key;     /* hex */
    char *method;  /* as it was asked for: "mse", "auto" ... */
    char *graph;   /* hrf_graph_hash() of the model as it was read */
    char *sample;  /* identity of the sample, hex */
    char *engine;  /* version */
    char *created; /* ISO 8601 */
    int64_t n_samples;
    double seconds;
    struct hrf_calibration_tensor *tensors;
    size_t n_tensors;
    struct hrf_calibration_keep *keep;
    size_t n_keep;
    struct hrf_calibration_budget budget;
};
void hrf_calibration_destroy(struct hrf_calibration *calibration);
HRF_DEFINE_AUTO(hrf_calibration)

bool hrf_calibration_is_in_bf16(const struct hrf_calibration_keep *keep); /* else in float32 */
void hrf_calibration_keep_release(struct hrf_calibration_keep *keep);
/* Adds one to `keep`, in float32. */
HRF_CHECKED enum hrf_status hrf_calibration_keep(struct hrf_calibration *calibration,
                                                 const char *name, const char *reason,
                                                 struct hrf_error *err);

/* Why the tensor's range gives no scale that 8 bits can use, for people ("held nothing but zeros");
 * NULL: it does. Besides what no arithmetic can use (nothing but zeros, over 1e18, below 1e-18),
 * that is a range which no method of fitting makes of the numbers that were observed. */
const char *hrf_calibration_doubt(const struct hrf_calibration_tensor *tensor);

/* Heap text. */
HRF_CHECKED enum hrf_status hrf_calibration_encode(const struct hrf_calibration *calibration,
                                                   char **out, struct hrf_error *err);
/* `where` names the text in messages. HRF_E_USER: it is not a whole calibration, a byte of it
 * has changed, or a tensor whose range is in doubt is not among those that stay in float32. */
HRF_CHECKED enum hrf_status hrf_calibration_decode(const char *text, size_t n_bytes,
                                                   const char *where, struct hrf_calibration **out,
                                                   struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_calibration_read(const char *path, struct hrf_calibration **out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_calibration_write(const struct hrf_calibration *calibration,
                                                  const char *path, struct hrf_error *err);

#endif
