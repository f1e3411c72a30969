/* bench.h - how fast a network runs on a device: the whole, and its convolutions alone. */
#ifndef HRF_ENGINE_RUN_BENCH_H
#define HRF_ENGINE_RUN_BENCH_H

#include "engine/run/network.h"

/* A step of the plan: within the whole network, and by itself again and again, with the buffers and
 * the epilogue that it has. Medians, seconds. */
struct hrf_bench_layer {
    char *name, *implementation;
    enum hrf_op op;
    double in_network, alone;
    double operations;
};

struct hrf_bench {
    double build_seconds;
    double median, min, max; /* seconds of one run */
    double processor;        /* seconds of all threads of all ranks, a run, on average */
    double
        convolutions;  /* seconds: sum over CONV steps of each one's median alone; NaN: not timed */
    double operations; /* of one run */
    struct hrf_session_memory memory;
    int64_t n_runs;
    int64_t n_turns; /* n_runs and those that warmed up: what the ranks' facts are of */
    struct hrf_rank_facts *ranks; /* [n_ranks] heap; NULL: one rank, alone */
    int32_t n_ranks;
    const char *carrier;         /* of their messages: static; NULL: one rank */
    struct hrf_bands_plan bands; /* n_bands 1: none */
    char device[16];             /* "cpu", "cuda": what "auto" came to */
    char device_in_words[256];
    int64_t resident_bytes;         /* of this process after the runs; 0: not known */
    struct hrf_bench_layer *layers; /* in the order of the plan; none by ranks or in bands */
    int32_t n_layers;
};

/* `graph` with its input shapes set; its constants are gone afterwards
 * (hrf_graph_drop_constants()), so that what is resident is the network alone. Inputs are seeded
 * noise. Two runs warm up, unless only one is asked for. `with_layers`: each layer is timed, too,
 * alone and in the network, which takes twice the runs' time again; on one rank without bands only.
 * `memory` is that of the rank which holds most. With a comm every rank of it calls this, and what
 * is not a rank's own time is rank 0's. */
HRF_CHECKED enum hrf_status hrf_bench_run(struct hrf_graph *graph,
                                          const struct hrf_network_config *config, int64_t n_runs,
                                          bool with_layers, struct hrf_bench *out,
                                          struct hrf_error *err);
void hrf_bench_release(struct hrf_bench *bench);

#endif
