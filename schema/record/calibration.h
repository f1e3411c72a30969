/* calibration.h - the record of one calibration: the range of each tensor, and its origin.
 *
 * The record is JSON. It is complete or refused: a checksum covers all of it. The key is the hash
 * of everything that the ranges depend on: graph and weights, preprocessing, sample, method, engine
 * version.
 */
#ifndef HRF_SCHEMA_RECORD_CALIBRATION_H
#define HRF_SCHEMA_RECORD_CALIBRATION_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/settings/precision.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_calibration_tensor {
    char *name; /* as in the graph after the passes */
    float low, high;
    bool is_observed;                  /* else the next two are 0 */
    float observed_low, observed_high; /* of all its numbers over the sample */
    /* The method that gave the range, e.g. "mse"; "rows": products round each row of the tensor
     * with a scale of its own. */
    char *method;
    /* Signal to quantisation noise of the tensor with this range, or, if products of tokens read
     * it, of their output; HUGE_VAL: nothing is lost. */
    double sqnr_db;
    float *means; /* of each channel; NULL: not known */
    int64_t n_means;
    /* The strength of smoothing, 0 to 1: how much of the channels' differences it moves to the
     * weights; and the largest magnitude of each channel, [n_means]. 0 and NULL: the tensor is not
     * smoothed. */
    float strength;
    float *peaks;
};

/* Milliseconds of processor time that an image takes; NaN: not measured. */
struct hrf_calibration_times {
    double int8_ms, fp32_ms, bf16_ms;
};

struct hrf_calibration_keep {
    char *name, *reason; /* a node or tensor that does not use INT8 */
    /* If calibrate.budget takes a layer out of INT8: HRF_FP32 or HRF_BF16, the estimated loss of
     * the output with this layer alone in INT8, and the layer's times. HRF_N_PRECISIONS: it is in
     * float32, and nothing was measured. */
    enum hrf_precision precision;
    double loss;
    struct hrf_calibration_times times;
};

/* What calibrate.budget allows, and the estimates for the layers that are in INT8. */
struct hrf_calibration_budget {
    char *measure; /* "cosine" of outputs or "agreement" of classes; NULL: there is no budget */
    double min;    /* the least value of the measure that is allowed */
    double loss;   /* the estimated loss, at most 1 - least */
    struct hrf_calibration_times times; /* of the network, INT8 without the layers that are kept */
};

/* What INT8 loses in the network's output, measured on patches outside of the sample. */
struct hrf_calibration_loss {
    char *reason;                /* why it was not measured; NULL: it was */
    int64_t n_images;            /* 0: not measured */
    double sqnr_db;              /* HUGE_VAL: none lost */
    double cosine;               /* with float32's output, mean over the images */
    int64_t n_labels, n_changed; /* labels of images or pixels; 0: the output has no classes */
    /* If the loss is large: an estimate of what calibrate.budget would give, and how many layers
     * would leave INT8. measure NULL: not estimated. */
    struct hrf_calibration_budget with_budget;
    int64_t n_left;
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
    struct hrf_calibration_loss lost;
};
void hrf_calibration_destroy(struct hrf_calibration *calibration);
HRF_DEFINE_AUTO(hrf_calibration)

void hrf_calibration_keep_release(struct hrf_calibration_keep *keep);
/* Adds a node or tensor to `keep`, in float32. */
void hrf_calibration_keep(struct hrf_calibration *calibration, const char *name,
                          const char *reason);
bool hrf_calibration_is_kept(const struct hrf_calibration *calibration, const char *name);

/* Returns why the tensor's range gives no usable scale, for users ("held nothing but zeros"), or
 * NULL if it does. Unusable are ranges for which no arithmetic works (only zeros, over 1e18, below
 * 1e-18), and ranges that no method of fitting computes from the observed numbers. */
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
