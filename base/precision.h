/* precision.h - the precisions that a network can be computed in, by name: the one list of the
 * workflow file, the command line and the engine. */
#ifndef HRF_BASE_PRECISION_H
#define HRF_BASE_PRECISION_H

enum hrf_precision {
    HRF_FP32,
    HRF_TF32, /* float32 in memory, products with 10 bits of mantissa */
    HRF_FP16,
    HRF_BF16,
    HRF_INT8,
    HRF_N_PRECISIONS /* also: not a precision */
};
/* By enum hrf_precision, with a NULL at the end. */
extern const char *const hrf_precision_names[HRF_N_PRECISIONS + 1];
/* What a run calls the patches that it scores once more with other stains (study.stain_jitter). It
 * stands wherever a precision's name does. */
#define HRF_JITTER "jitter"
/* HRF_N_PRECISIONS where the name is none. */
enum hrf_precision hrf_precision_find(const char *name);

#endif
