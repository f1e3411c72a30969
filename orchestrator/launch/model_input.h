/* model_input.h - what a model's file says of the images that it wants. */
#ifndef HRF_ORCHESTRATOR_LAUNCH_MODEL_INPUT_H
#define HRF_ORCHESTRATOR_LAUNCH_MODEL_INPUT_H

#include "base/error.h"
#include "base/preparation.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_model_input {
    bool is_known; /* false: the file says nothing */
    int64_t size;  /* px, rows and columns */
    /* What a patch of another size is resized to, px, before its middle is used; 0: not said. */
    int64_t resize;
    enum hrf_interpolation interpolation; /* AUTO: not said */
    double mean[3], std[3];
};
/* Asks the engine for the metadata entry that `model make ENCODER --weights` writes; a file that
 * does not hold its key is not asked about. HRF_E_USER: the entry is not as it should be. */
HRF_CHECKED enum hrf_status hrf_model_input_read(const char *path, struct hrf_model_input *out,
                                                 struct hrf_error *err);

#endif
