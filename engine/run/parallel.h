/* parallel.h - the ranks of a layout as threads of this process.
 *
 * Each rank is a thread with a back end and kernel threads of its own, built once and run many
 * times; messages go through memory (comm/loop.h).
 */
#ifndef HRF_ENGINE_RUN_PARALLEL_H
#define HRF_ENGINE_RUN_PARALLEL_H

#include "engine/run/rank.h"

struct hrf_parallel; /* opaque; used by one thread at a time */

/* `graph` has the shapes of the whole batch. config->n_threads are divided over the ranks, at least
 * one each. `deadline_ms`: how long a rank may show no progress before it counts as dead. */
HRF_CHECKED enum hrf_status hrf_parallel_create(const struct hrf_graph *graph,
                                                const struct hrf_session_config *config,
                                                const struct hrf_layout_plan *layout,
                                                int64_t deadline_ms, struct hrf_parallel **out,
                                                struct hrf_error *err);
void hrf_parallel_destroy(struct hrf_parallel *parallel);
HRF_DEFINE_AUTO(hrf_parallel)

/* Runs one batch. An error names the first rank that failed; after a failure every further run
 * fails. */
HRF_CHECKED enum hrf_status hrf_parallel_run(struct hrf_parallel *parallel, hrf_source *source,
                                             void *context, struct hrf_error *err);
/* The next run begins with hrf_rank_refresh() on every rank. */
void hrf_parallel_refresh(struct hrf_parallel *parallel);
/* Output i of the whole batch; N, H, W, C order for rank 4. Valid until the next run. */
const float *hrf_parallel_output(const struct hrf_parallel *parallel, int32_t i);
/* The transports of rank 0's messages, see hrf_rank_transports(). */
const char *hrf_parallel_transports(const struct hrf_parallel *parallel);
const struct hrf_work *hrf_parallel_work(const struct hrf_parallel *parallel);

/* Call these between two runs. */
struct hrf_rank_facts hrf_parallel_facts(const struct hrf_parallel *parallel, int32_t rank);
struct hrf_device_use hrf_parallel_device_use(const struct hrf_parallel *parallel, int32_t rank);

/* A source over one array of the whole batch in N, H, W, C order. */
struct hrf_array_source {
    const float *data;
    struct hrf_shape shape;
};
hrf_source hrf_read_array;

#endif
