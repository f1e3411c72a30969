/* input_entry.h - the preprocessing that a model's file states: the JSON entry of its metadata that
 * `model make ENCODER --weights` writes, and what follows from it for patches. */
#ifndef HRF_SCHEMA_RECORD_INPUT_ENTRY_H
#define HRF_SCHEMA_RECORD_INPUT_ENTRY_H

#include "base/error.h"
#include "image/preparation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_MODEL_INPUT_KEY "hires_flow.input"

struct hrf_model_input {
    bool is_known; /* false: the file has no such entry */
    /* Rows and columns in px; without an entry, those that the input's shape fixes, or 0. */
    int64_t size;
    /* The size in px to which a patch of another size is resized before its middle is cropped; 0:
     * not stated. */
    int64_t resize;
    enum hrf_interpolation interpolation; /* AUTO: not stated */
    double mean[3], std[3];
    double mpp; /* um/px of the images that the network was trained on; 0: not stated */
};
/* HRF_E_USER: the entry is malformed; `path` names the model. */
HRF_CHECKED enum hrf_status hrf_model_input_parse(const char *text, size_t n, const char *path,
                                                  struct hrf_model_input *out,
                                                  struct hrf_error *err);

/* Decides how patches of `patch` px are resized and cropped: as `asked` (zeros: not asked for),
 * otherwise as the file states. A patch of the size of the network's input is not changed
 * (out->size 0) unless that is asked for. HRF_E_USER: that is impossible; the text refers to the
 * workflow's model.input, and `file` names the model. */
HRF_CHECKED enum hrf_status hrf_model_input_prepare(const struct hrf_model_input *input,
                                                    const char *file,
                                                    const struct hrf_preparation *asked,
                                                    int64_t patch, struct hrf_preparation *out,
                                                    struct hrf_error *err);

#endif
