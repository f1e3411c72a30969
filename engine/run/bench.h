/* bench.h - measures how fast a network runs on a device, as a whole and layer by layer. */
#ifndef HRF_ENGINE_RUN_BENCH_H
#define HRF_ENGINE_RUN_BENCH_H

#include "engine/run/network.h"

/* One step of the plan, timed within the whole network and repeated alone with the same buffers and
 * fused operators. Times are medians in seconds. */
struct hrf_bench_layer {
    char *name, *implementation;
    enum hrf_op op;
    double in_network, alone;
    double operations;
    /* For a product of rows with a constant matrix (GEMM, 1x1 CONV): its size and the type of its
     * weights. For other steps rows is 0. */
    int64_t rows, depth, columns;
    enum hrf_dtype weights;
};

struct hrf_bench {
    double build_seconds;
    double median, min, max; /* seconds of one run */
    double processor;        /* mean processor seconds of a run, all threads of all ranks */
    double convolutions; /* seconds: sum of the medians of all CONV steps alone; NaN: not timed */
    double operations;   /* of one run */
    struct hrf_session_memory memory;
    int64_t n_runs;
    int64_t n_all_runs;           /* n_runs plus warm-up runs; the ranks' facts cover all of them */
    struct hrf_rank_facts *ranks; /* [n_ranks] heap; NULL: a single rank */
    int32_t n_ranks;
    const char *transport;       /* of messages, static; NULL: a single rank */
    struct hrf_bands_plan bands; /* n_bands 1: none */
    char device[16];             /* "cpu" or "cuda": the choice of "auto" */
    char device_in_words[256];
    int64_t resident_bytes;         /* resident set of this process after the runs; 0: not known */
    struct hrf_bench_layer *layers; /* in plan order; none with several ranks or bands */
    int32_t n_layers;
};

/* The input shapes of `graph` must be set. Its constants are dropped (hrf_graph_drop_constants()),
 * so that the resident memory is that of the network alone. Inputs are seeded noise. Two warm-up
 * runs come first unless n_runs is 1. If the session of `config` has variables, each run
 * rounds them and refreshes the kernels first, as a step of training does. `with_layers` also times
 * each layer, alone and within the network, which takes about twice as long again; only for one
 * rank without bands. `memory` is that of the rank that needs most. With a comm this is collective,
 * and all results except the ranks' own times are rank 0's. */
HRF_CHECKED enum hrf_status hrf_bench_run(struct hrf_graph *graph,
                                          const struct hrf_network_config *config, int64_t n_runs,
                                          bool with_layers, struct hrf_bench *out,
                                          struct hrf_error *err);
void hrf_bench_release(struct hrf_bench *bench);

#endif
