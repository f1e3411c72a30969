/* model_input.h - reads the preprocessing that a model's file states. */
#ifndef HRF_ORCHESTRATOR_LAUNCH_MODEL_INPUT_H
#define HRF_ORCHESTRATOR_LAUNCH_MODEL_INPUT_H

#include "schema/record/input_entry.h"

/* Asks the engine for the metadata entry. If the file does not contain the entry's key, the engine
 * is asked only with `wants_size`; the size is then that of the input's shape, if the file fixes
 * it, and nothing else is known. HRF_E_USER: the entry is malformed. */
HRF_CHECKED enum hrf_status hrf_model_input_read(const char *path, bool wants_size,
                                                 struct hrf_model_input *out,
                                                 struct hrf_error *err);

#endif
