/* network.h - a network made ready to run, however it has to be: alone, in bands, or by ranks.
 *
 * With a layout of several ranks each is a thread of this process, or, given a comm, this process
 * is one of them. Alone, and over its memory limit, it runs in bands of rows. The caller feeds
 * images through a source and need not know. Used by one thread at a time.
 */
#ifndef HRF_ENGINE_RUN_NETWORK_H
#define HRF_ENGINE_RUN_NETWORK_H

#include "engine/run/banded.h"
#include "engine/run/parallel.h"

struct hrf_network; /* opaque */

struct hrf_network_config {
    struct hrf_session_config session;
    const struct hrf_layout_plan *layout; /* NULL: one rank */
    struct hrf_comm *comm; /* borrowed for life: this process is rank comm->rank; NULL: threads */
    int32_t n_bands;       /* > 0: in so many bands; 0: none, or as many as the limit asks for */
    int64_t watchdog_ms;   /* a rank that stands still for so long counts as dead; 0: 10 minutes */
};

/* `graph` with its input shapes set. */
HRF_CHECKED enum hrf_status hrf_network_create(const struct hrf_graph *graph,
                                               const struct hrf_network_config *config,
                                               struct hrf_network **out, struct hrf_error *err);
void hrf_network_destroy(struct hrf_network *network);
HRF_DEFINE_AUTO(hrf_network)
/* Of a network with a comm: as hrf_rank_fill(), for the hrf_network_run() that follows. */
HRF_CHECKED enum hrf_status hrf_network_fill(struct hrf_network *network, hrf_source *source,
                                             void *context, struct hrf_error *err);
/* Whether this process is fed any part of the inputs. */
bool hrf_network_is_fed(const struct hrf_network *network);
/* What of input 0, an image of size x size, this process is fed. */
struct hrf_box hrf_network_fed(const struct hrf_network *network, int64_t size);
HRF_CHECKED enum hrf_status hrf_network_run(struct hrf_network *network, hrf_source *source,
                                            void *context, struct hrf_error *err);
int32_t hrf_network_n_outputs(const struct hrf_network *network);
struct hrf_shape hrf_network_output_shape(const struct hrf_network *network, int32_t i);
/* Dense float32, N, H, W, C for rank 4; valid until the next run. With a comm: on rank 0 only. */
const float *hrf_network_output(const struct hrf_network *network, int32_t i);

/* What messages its ranks have sent and received since the last time that this was asked, all ranks
 * together; adds to `sum` [HRF_N_COMM_USES]. With a comm every rank of it asks, and rank 0 gets it.
 */
HRF_CHECKED enum hrf_status hrf_network_count(struct hrf_network *network,
                                              struct hrf_comm_count *sum, struct hrf_error *err);
/* Of each rank of the layout; `ranks` [their number], NULL on all but rank 0 of a comm, all of
 * whose ranks ask. For a network of several ranks. */
HRF_CHECKED enum hrf_status hrf_network_facts(const struct hrf_network *network,
                                              struct hrf_rank_facts *ranks, struct hrf_error *err);
/* What carries them: "loop", "mpi"; NULL: one rank, no messages. */
const char *hrf_network_carrier(const struct hrf_network *network);
/* Of the rank that holds most. */
struct hrf_session_memory hrf_network_memory(const struct hrf_network *network);
double hrf_network_operations(const struct hrf_network *network); /* 2 x multiply-adds of a run */
const char *hrf_network_notes(const struct hrf_network *network);
/* Of rank i of this process. */
struct hrf_device_use hrf_network_device_use(const struct hrf_network *network, int32_t i);
const char *hrf_network_device_name(const struct hrf_network *network); /* what "auto" came to */
int32_t hrf_network_n_ranks(const struct hrf_network *network); /* that run in this process */
/* How it runs; NULL where it does not run so. */
struct hrf_session *hrf_network_session(struct hrf_network *network);
const struct hrf_banded *hrf_network_banded(const struct hrf_network *network);
const struct hrf_parallel *hrf_network_parallel(const struct hrf_network *network);

#endif
