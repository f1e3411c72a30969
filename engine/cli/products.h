/* products.h - the matrix products of a network alone, by oneDNN's matmul: the limit beside what
 * `bench` measures. */
#ifndef HRF_ENGINE_CLI_PRODUCTS_H
#define HRF_ENGINE_CLI_PRODUCTS_H

#include "engine/run/bench.h"

struct hrf_products {
    int32_t n;         /* layers that are products with constant weights */
    double seconds;    /* of all of them, one after the other: the median of the runs */
    double operations; /* of all of them */
};

/* Multiplies noise of the shapes and types of the bench's layers, without bias or activation, in
 * their order, as often as the bench ran, with as many threads. Each has weights of its own, in the
 * form that oneDNN likes best. In 8 bits the rows are unsigned, which is its fastest. n is 0 where
 * the network has none. */
HRF_CHECKED enum hrf_status hrf_products_time(const struct hrf_bench *bench,
                                              struct hrf_products *out, struct hrf_error *err);

#endif
