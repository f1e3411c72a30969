/* rank.h - one network on several ranks: the data that all ranks have, and the work of one rank.
 *
 * Images go in order to groups (data parallelism) and within a group to micro-batches; the last
 * micro-batches are filled up with zeros. Rank 0 gets every output; if some are sums over the
 * batch, every rank gets all.
 */
#ifndef HRF_ENGINE_RUN_RANK_H
#define HRF_ENGINE_RUN_RANK_H

#include "engine/plan/machine.h"
#include "engine/run/session.h"

/* The data for cutting a network into stages: measured or modelled costs of nodes, and the links
 * between ranks. It must be the same on every rank, so that all get the same stages. */
struct hrf_cutting {
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
};
/* Partitions a prepared graph. `cutting` NULL: rough estimates of costs. */
HRF_CHECKED enum hrf_status hrf_work_partition(const struct hrf_graph *prepared,
                                               const struct hrf_layout_plan *layout,
                                               const struct hrf_cutting *cutting,
                                               struct hrf_partition **out, struct hrf_error *err);

/* HRF_E_UNSUPPORTED: the graph has a backward pass, and the layout cannot divide one. */
HRF_CHECKED enum hrf_status hrf_work_check(const struct hrf_graph *graph,
                                           const struct hrf_layout_plan *layout,
                                           struct hrf_error *err);

/* Prepares `graph`, which has the shapes of the whole batch, for one micro-batch
 * (hrf_session_prepare()), and divides it over the layout's `tensor` ranks. */
HRF_CHECKED enum hrf_status hrf_work_prepare(const struct hrf_layout_plan *layout,
                                             const struct hrf_batch_split *shares,
                                             const struct hrf_graph *graph,
                                             const struct hrf_session_config *config,
                                             struct hrf_graph **out, double *operations,
                                             struct hrf_strbuf *notes, struct hrf_error *err);

/* The data that is the same on every rank. */
struct hrf_work {
    struct hrf_graph *graph; /* prepared, for a micro-batch */
    struct hrf_layout_plan layout;
    struct hrf_partition *partition;
    struct hrf_batch_split shares;
    double operations; /* 2 x multiply-adds, of the batch */
    struct hrf_strbuf notes;
};

/* `graph` has the shapes of the whole batch. HRF_E_USER if the layout does not fit it. */
HRF_CHECKED enum hrf_status hrf_work_create(const struct hrf_graph *graph,
                                            const struct hrf_session_config *config,
                                            const struct hrf_layout_plan *layout,
                                            struct hrf_work **out, struct hrf_error *err);
void hrf_work_destroy(struct hrf_work *work);
HRF_DEFINE_AUTO(hrf_work)

/* Writes rows and columns `box` of images [first, first + n) of graph input `input` to `out`, as
 * dense float32 N, H, W, C. Several ranks may call it at the same time. */
typedef enum hrf_status hrf_source(void *context, int32_t input, int64_t first, int64_t n,
                                   const struct hrf_box *box, float *out, struct hrf_error *err);

struct hrf_rank; /* opaque; used by one thread */

/* `work` and `comm` are borrowed for life. config->n_threads is for this rank. */
HRF_CHECKED enum hrf_status hrf_rank_create(const struct hrf_work *work,
                                            const struct hrf_session_config *config,
                                            struct hrf_comm *comm, struct hrf_rank **out,
                                            struct hrf_error *err);
void hrf_rank_destroy(struct hrf_rank *rank);
HRF_DEFINE_AUTO(hrf_rank)
/* See hrf_session_refresh(): the rank's kernels follow its variable constants. */
HRF_CHECKED enum hrf_status hrf_rank_refresh(struct hrf_rank *rank, struct hrf_error *err);
/* True if this rank is fed any part of the inputs. */
bool hrf_rank_is_fed(const struct hrf_rank *rank);
/* The smallest box of graph input `input` that contains everything this rank is fed; may be
 * empty. */
struct hrf_box hrf_rank_fed(const struct hrf_rank *rank, int32_t input);
/* Reads the first inputs of the next run, so that the ranks can agree that all of them have their
 * inputs before any of them waits for another. A failure here concerns this rank only and does not
 * abort the group. */
HRF_CHECKED enum hrf_status hrf_rank_fill(struct hrf_rank *rank, hrf_source *source, void *context,
                                          struct hrf_error *err);
/* Computes the rank's part of one batch. outputs[i] gets output i of all images, on rank 0, or on
 * every rank if hrf_batch_is_shared(); on others `outputs` may be NULL. Ranks that are threads have
 * the same outputs, which are whole once all ranks are done. After a failure the group has been
 * aborted. */
HRF_CHECKED enum hrf_status hrf_rank_run(struct hrf_rank *rank, hrf_source *source, void *context,
                                         float *const *outputs, struct hrf_error *err);
/* Notes of the device about how this rank was made ready. */
const char *hrf_rank_notes(const struct hrf_rank *rank);
/* The transports of this rank's messages: the name of the comm, or on devices "ipc" and the like;
 * static. */
const char *hrf_rank_transports(const struct hrf_rank *rank);

/* Memory, messages and times of a rank, over all its runs so far. */
struct hrf_rank_facts {
    struct hrf_session_memory memory;
    int64_t n_messages, sent_bytes;
    double waited, busy; /* s: waiting in receives, and total time in runs */
    struct hrf_comm_count counts[HRF_N_COMM_USES];
    double processor; /* s of processor time of the rank's own thread in runs; other programs do not
                       * lengthen it */
};
struct hrf_rank_facts hrf_rank_facts(const struct hrf_rank *rank);
struct hrf_device_use hrf_rank_device_use(const struct hrf_rank *rank);

/* Allocates memory for the outputs of the whole batch, [graph outputs]. NULL: no memory. */
float **hrf_work_create_outputs(const struct hrf_work *work);
void hrf_work_destroy_outputs(const struct hrf_work *work, float **outputs); /* NULL is fine */
/* The shape of output i for the whole batch. */
struct hrf_shape hrf_work_output_shape(const struct hrf_work *work, int32_t i);

#endif
