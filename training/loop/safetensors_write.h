/* safetensors_write.h - a network's weights as a safetensors file, by the names that they have. */
#ifndef HRF_TRAINING_LOOP_SAFETENSORS_WRITE_H
#define HRF_TRAINING_LOOP_SAFETENSORS_WRITE_H

#include "engine/ir/graph.h"

/* Writes all float weights, atomically, in the order of their names. Source:
 * huggingface/safetensors, its description of the format. */
HRF_CHECKED enum hrf_status hrf_safetensors_write(const struct hrf_graph *graph, const char *path,
                                                  struct hrf_error *err);

#endif
