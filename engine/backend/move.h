/* move.h - operators that only move numbers: every back end's memory is host memory laid out
 * the same way, so ref and cpu share them. Exact by construction. */
#ifndef HRF_ENGINE_BACKEND_MOVE_H
#define HRF_ENGINE_BACKEND_MOVE_H

#include "engine/backend/backend.h"

/* CONCAT, FLATTEN, RESHAPE, TRANSPOSE, SQUEEZE, UNSQUEEZE, IDENTITY, PAD, GATHER, SLICE. */
bool hrf_is_move(enum hrf_op op);
HRF_CHECKED enum hrf_status hrf_move_compile(const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err);

#endif
