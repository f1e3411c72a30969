/* export_private.h - a graph that grows node by node; for this folder only. */
#ifndef HRF_HEADS_EXPORT_EXPORT_PRIVATE_H
#define HRF_HEADS_EXPORT_EXPORT_PRIVATE_H

#include "engine/ir/graph.h"
#include "heads/tape/tape.h"

/* Errors stick: after the first one, everything returns -1 and takes -1. */
struct hrf_export {
    struct hrf_graph *graph;
    const struct hrf_tensor **tensors; /* what is already a value ... */
    int32_t *values;                   /* ... and which */
    int32_t n_tensors, n_names;
    size_t tensors_capacity, values_capacity;
    int32_t side; /* value: the side of the square of patches, [1] */
    enum hrf_status status;
    struct hrf_error *err;
};

int32_t hrf_export_find(struct hrf_export *e, const struct hrf_tensor *t);
void hrf_export_bind(struct hrf_export *e, const struct hrf_tensor *t, int32_t value);
/* A node with default attributes, or those of `a`; its output. */
int32_t hrf_export_put(struct hrf_export *e, enum hrf_op op, const int32_t *inputs,
                       int32_t n_inputs, const struct hrf_attributes *a);
int32_t hrf_export_integers(struct hrf_export *e, const int64_t *values, int32_t n); /* [n] */
int32_t hrf_export_floats(struct hrf_export *e, const float *values, const int64_t *dims,
                          int32_t rank);
int32_t hrf_export_float(struct hrf_export *e, float value); /* rank 0 */
/* Short forms. */
int32_t hrf_export_unary(struct hrf_export *e, enum hrf_op op, int32_t x);
int32_t hrf_export_binary(struct hrf_export *e, enum hrf_op op, int32_t a, int32_t b);
int32_t hrf_export_permute(struct hrf_export *e, int32_t x, const int64_t *axes, int32_t n);
int32_t hrf_export_reshape(struct hrf_export *e, int32_t x, const int64_t *dims, int32_t n);
int32_t hrf_export_reduce(struct hrf_export *e, enum hrf_op op, int32_t x, const int64_t *axes,
                          int32_t n, bool keep);
int32_t hrf_export_rows_of(struct hrf_export *e, int32_t x, int64_t axis); /* its size there, [1] */
int32_t hrf_export_slice(struct hrf_export *e, int32_t x, int32_t starts, int32_t ends,
                         int64_t axis);
int32_t hrf_export_concat(struct hrf_export *e, const int32_t *inputs, int32_t n);
/* The nodes of one step of the tape. */
void hrf_export_step(struct hrf_export *e, const struct hrf_tape_node *node);

#endif
