/* precision.h - the precisions that a network can be computed in.
 *
 * The engine passes the enum. Names are read and written where a text comes in or goes out: on the
 * command line, in the workflow file, in records and in messages.
 */
#ifndef HRF_SCHEMA_SETTINGS_PRECISION_H
#define HRF_SCHEMA_SETTINGS_PRECISION_H

#include <stdbool.h>

enum hrf_precision {
    HRF_FP32,
    HRF_TF32, /* float32 in memory, products with 10 bits of mantissa */
    HRF_FP16,
    HRF_BF16,
    HRF_INT8,
    HRF_N_PRECISIONS /* also: no precision */
};

struct hrf_precision_row {
    const char *name;
    bool needs_tf32;   /* of the device: products of numbers with 10 bits of mantissa */
    bool needs_scales; /* of a calibration, or of the model itself */
};
const struct hrf_precision_row *hrf_precision_row(enum hrf_precision precision);
const char *hrf_precision_name(enum hrf_precision precision); /* "fp32" */
/* Returns HRF_N_PRECISIONS if no precision has that name. */
enum hrf_precision hrf_precision_find(const char *name);
/* The names of all rows by value, and NULL. */
extern const char *const hrf_precision_names[HRF_N_PRECISIONS + 1];

/* The name of the row of patches that a run scores once more as if stained otherwise
 * (study.stain_jitter). It appears wherever a precision's name does. */
#define HRF_JITTER "jitter"

#endif
