/* bench.h - how fast a network runs on a device: the whole, and its convolutions alone. */
#ifndef HRF_ENGINE_RUN_BENCH_H
#define HRF_ENGINE_RUN_BENCH_H

#include "engine/run/session.h"

struct hrf_bench {
    double build_seconds;
    double median, min, max; /* seconds of one run */
    double convolutions;     /* seconds: sum over CONV steps of each one's median alone */
    double operations;       /* of one run */
    struct hrf_session_memory memory;
    int64_t n_runs;
};

/* `graph` with its input shapes set. Inputs are seeded noise. Two runs warm up. */
HRF_CHECKED enum hrf_status hrf_bench_run(const struct hrf_graph *graph,
                                          const struct hrf_session_config *config, int64_t n_runs,
                                          struct hrf_bench *out, struct hrf_error *err);

#endif
