/* network.h - a network that is ready to run: on one device, in bands, or on several ranks.
 *
 * With a layout of several ranks, each rank is a thread of this process; with a comm, this process
 * is one of the ranks. A single rank over its memory limit runs in bands (row tiles). The caller
 * feeds images through a source and need not know which it is. Used by one thread at a time.
 */
#ifndef HRF_ENGINE_RUN_NETWORK_H
#define HRF_ENGINE_RUN_NETWORK_H

#include "engine/run/banded.h"
#include "engine/run/parallel.h"

struct hrf_network; /* opaque */

struct hrf_network_config {
    struct hrf_session_config session;
    const struct hrf_layout_plan *layout; /* NULL: one rank */
    struct hrf_comm
        *comm; /* borrowed for life; this process is rank comm->rank; NULL: ranks are threads */
    int32_t
        n_bands; /* > 0: exactly so many bands; 0: as many as the memory limit requires, or none */
    int64_t watchdog_ms; /* a rank without progress for so long counts as dead; 0: 10 minutes */
};

/* `graph` with its input shapes set. */
HRF_CHECKED enum hrf_status hrf_network_create(const struct hrf_graph *graph,
                                               const struct hrf_network_config *config,
                                               struct hrf_network **out, struct hrf_error *err);
void hrf_network_destroy(struct hrf_network *network);
HRF_DEFINE_AUTO(hrf_network)
/* For a network with a comm: like hrf_rank_fill(), for the hrf_network_run() that follows. */
HRF_CHECKED enum hrf_status hrf_network_fill(struct hrf_network *network, hrf_source *source,
                                             void *context, struct hrf_error *err);
/* True if this process is fed any part of the inputs. */
bool hrf_network_is_fed(const struct hrf_network *network);
/* The box of input 0, an image of size x size, that this process is fed. */
struct hrf_box hrf_network_fed(const struct hrf_network *network, int64_t size);
HRF_CHECKED enum hrf_status hrf_network_run(struct hrf_network *network, hrf_source *source,
                                            void *context, struct hrf_error *err);
/* After the numbers of session.variables have changed; between two runs. Each process has its own
 * numbers, which the caller keeps equal. */
HRF_CHECKED enum hrf_status hrf_network_refresh(struct hrf_network *network, struct hrf_error *err);
int32_t hrf_network_n_outputs(const struct hrf_network *network);
struct hrf_shape hrf_network_output_shape(const struct hrf_network *network, int32_t i);
/* Dense float32, N, H, W, C for rank 4; valid until the next run. With a comm: on rank 0 only, or
 * on every rank if hrf_batch_is_shared(). */
const float *hrf_network_output(const struct hrf_network *network, int32_t i);

/* Adds to `sum` [HRF_N_COMM_USES] the messages of all ranks since the last call. With a comm it is
 * collective, and only rank 0 gets the result. */
HRF_CHECKED enum hrf_status hrf_network_count(struct hrf_network *network,
                                              struct hrf_comm_count *sum, struct hrf_error *err);
/* For a network of several ranks: the facts of each rank of the layout, in `ranks` [n]. With a comm
 * it is collective, and `ranks` is NULL except on rank 0. */
HRF_CHECKED enum hrf_status hrf_network_facts(const struct hrf_network *network,
                                              struct hrf_rank_facts *ranks, struct hrf_error *err);
/* The transport of messages: "loop", "mpi" ...; NULL: a single rank, no messages. */
const char *hrf_network_transport(const struct hrf_network *network);
/* Memory of the rank that needs most. */
struct hrf_session_memory hrf_network_memory(const struct hrf_network *network);
double hrf_network_operations(const struct hrf_network *network); /* 2 * multiply-adds of one run */
const char *hrf_network_notes(const struct hrf_network *network);
/* The device of rank i of this process. */
struct hrf_device_use hrf_network_device_use(const struct hrf_network *network, int32_t i);
const char *hrf_network_device_name(const struct hrf_network *network); /* the choice of "auto" */
int32_t hrf_network_n_ranks(const struct hrf_network *network);         /* ranks in this process */
/* The object that runs the network; the others are NULL. */
struct hrf_session *hrf_network_session(struct hrf_network *network);
const struct hrf_banded *hrf_network_banded(const struct hrf_network *network);

#endif
