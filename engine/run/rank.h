/* rank.h - one network over one batch, shared by ranks: what all ranks know, and one rank's work.
 *
 * Images go to groups (data parallelism) and in a group to micro-batches, in order, the last ones
 * filled up with zeros. The first rank of all (0) gets every output.
 */
#ifndef HRF_ENGINE_RUN_RANK_H
#define HRF_ENGINE_RUN_RANK_H

#include "engine/plan/machine.h"
#include "engine/run/session.h"

/* What a network is cut into stages by: measured or modelled costs of its nodes, and the links that
 * values would go over. The same on every rank, or they would not have the same stages. */
struct hrf_cutting {
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
};
/* A prepared graph in parts. `cutting` NULL: rough costs. */
HRF_CHECKED enum hrf_status hrf_work_partition(const struct hrf_graph *prepared,
                                               const struct hrf_layout_plan *layout,
                                               const struct hrf_cutting *cutting,
                                               struct hrf_partition **out, struct hrf_error *err);

/* `graph` (shapes of the whole batch) prepared (hrf_session_prepare) for one micro-batch. */
HRF_CHECKED enum hrf_status hrf_work_prepare(const struct hrf_shares *shares,
                                             const struct hrf_graph *graph,
                                             const struct hrf_session_config *config,
                                             struct hrf_graph **out, double *operations,
                                             struct hrf_strbuf *notes, struct hrf_error *err);

/* The same on every rank. */
struct hrf_work {
    struct hrf_graph *graph; /* prepared, for a micro-batch */
    struct hrf_layout_plan layout;
    struct hrf_partition *partition;
    struct hrf_shares shares;
    double operations; /* 2 x multiply-adds, of the batch */
    struct hrf_strbuf notes;
};

/* `graph` with the shapes of the whole batch. HRF_E_USER when the layout does not fit it. */
HRF_CHECKED enum hrf_status hrf_work_create(const struct hrf_graph *graph,
                                            const struct hrf_session_config *config,
                                            const struct hrf_layout_plan *layout,
                                            struct hrf_work **out, struct hrf_error *err);
void hrf_work_destroy(struct hrf_work *work);
HRF_DEFINE_AUTO(hrf_work)

/* Gives images [first, first + n) of graph input `input`, only rows and columns `box` of them, as
 * dense float32 N, H, W, C. Called by several ranks at once. */
typedef enum hrf_status hrf_source(void *context, int32_t input, int64_t first, int64_t n,
                                   const struct hrf_box *box, float *out, struct hrf_error *err);

struct hrf_rank; /* opaque; used by one thread */

/* `work` and `comm` are borrowed for life. config->n_threads is this rank's. */
HRF_CHECKED enum hrf_status hrf_rank_create(const struct hrf_work *work,
                                            const struct hrf_session_config *config,
                                            struct hrf_comm *comm, struct hrf_rank **out,
                                            struct hrf_error *err);
void hrf_rank_destroy(struct hrf_rank *rank);
HRF_DEFINE_AUTO(hrf_rank)
/* Whether this rank is fed any part of the inputs. */
bool hrf_rank_is_fed(const struct hrf_rank *rank);
/* The box of graph input `input` that holds all that it is fed of it; may be empty. */
struct hrf_box hrf_rank_fed(const struct hrf_rank *rank, int32_t input);
/* Reads what the next run begins with, so that ranks can agree that all of them have their inputs
 * before any of them waits for another: a failure here is this rank's alone and ends no group. */
HRF_CHECKED enum hrf_status hrf_rank_fill(struct hrf_rank *rank, hrf_source *source, void *context,
                                          struct hrf_error *err);
/* The rank's part of one batch. outputs[i]: output i of all images, on rank 0 (NULL elsewhere). On
 * failure the group has been aborted. */
HRF_CHECKED enum hrf_status hrf_rank_run(struct hrf_rank *rank, hrf_source *source, void *context,
                                         float *const *outputs, struct hrf_error *err);
/* What the device has to say of how this rank was made ready. */
const char *hrf_rank_notes(const struct hrf_rank *rank);
/* What carries this rank's messages: the comm's name, on devices "ipc" and the like; static. */
const char *hrf_rank_carriers(const struct hrf_rank *rank);

/* What a rank holds, and what its runs have sent and taken so far. */
struct hrf_rank_facts {
    struct hrf_session_memory memory;
    int64_t n_messages, sent_bytes;
    double waited, busy; /* s: in receives, and in runs altogether */
    struct hrf_comm_count counts[HRF_N_COMM_USES];
    double processor; /* s of the rank's own thread in runs: what a busy machine leaves as it is */
};
struct hrf_rank_facts hrf_rank_facts(const struct hrf_rank *rank);
struct hrf_device_use hrf_rank_device_use(const struct hrf_rank *rank);

/* Room for the outputs of the whole batch, [graph outputs]; heap. NULL: no memory. */
float **hrf_work_create_outputs(const struct hrf_work *work);
void hrf_work_destroy_outputs(const struct hrf_work *work, float **outputs); /* NULL is fine */
/* The shape of output i for the whole batch. */
struct hrf_shape hrf_work_output_shape(const struct hrf_work *work, int32_t i);

#endif
