/* evaluate_private.h - the parts of evaluate.c; for this folder only. */
#ifndef HRF_ENGINE_IR_EVALUATE_PRIVATE_H
#define HRF_ENGINE_IR_EVALUATE_PRIVATE_H

#include "engine/ir/infer_shapes_private.h"

/* Integers and truth values are computed in int64_t, everything else in double. */
bool hrf_evaluate_is_integer(enum hrf_dtype dtype);
int64_t hrf_evaluate_integer(const struct hrf_value *value, int64_t i);
/* Stores in the type of the data; integers wrap around, as the ONNX operators do. */
void hrf_evaluate_put_integer(enum hrf_dtype dtype, void *data, int64_t i, int64_t x);
void hrf_evaluate_put_real(enum hrf_dtype dtype, void *data, int64_t i, double x);

/* Position along each axis of element `i` of `shape`, and back. */
void hrf_evaluate_unravel(const struct hrf_shape *shape, int64_t i, int64_t position[HRF_MAX_RANK]);
int64_t hrf_evaluate_ravel(const struct hrf_shape *shape, const int64_t position[HRF_MAX_RANK]);
/* The element of `shape` that is broadcast to element `i` of `to`. */
int64_t hrf_evaluate_broadcast(const struct hrf_shape *shape, const struct hrf_shape *to,
                               int64_t i);

/* Computes output 0, of `count` elements, into `out`, which has its size. */
typedef enum hrf_status hrf_evaluate_rule(struct hrf_inference *in, int64_t count, void *out);
/* The rule by which evaluate_move.c or evaluate_number.c computes the operator of constants; NULL:
 * it does not. */
hrf_evaluate_rule *hrf_evaluate_move_rule(enum hrf_op op);
hrf_evaluate_rule *hrf_evaluate_number_rule(enum hrf_op op);

#endif
