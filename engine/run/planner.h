/* planner.h - predicts layouts of one network on one machine and chooses the best.
 *
 * Caches the prepared network for each micro-batch size, so that many layouts can be compared.
 * Nothing is run. Used by one thread at a time.
 */
#ifndef HRF_ENGINE_RUN_PLANNER_H
#define HRF_ENGINE_RUN_PLANNER_H

#include "engine/plan/bands.h"
#include "engine/plan/predict.h"
#include "schema/settings/precision.h"

struct hrf_planner_config {
    const struct hrf_graph *graph; /* input shapes of the whole batch set */
    /* A step of training, the squared error and its gradients to all weights, in place of the
     * network. */
    bool is_step;
    enum hrf_precision precision; /* INT8 needs no calibration */
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
    int64_t memory_bytes; /* per rank; 0: that of the machine; if that is 0, too: no limit */
    /* The back end that is asked for the packed size of weights that `costs` does not know; for
     * this one kernel of each kind is compiled for the whole image. NULL: use the size in the
     * graph. The workspace stays unknown (0), because one size does not determine it. */
    const char *device;
    /* The back end for which the network is fused and lowered; no session is made of it. NULL: the
     * CPU's. */
    const char *prepared_as;
};

/* The back end whose networks the machine would run: "cuda" where links join GPUs and that back end
 * can be loaded here, which needs no GPU; else "cpu". *note: a line where it cannot, or "". */
const char *hrf_planner_backend(const struct hrf_machine *machine, char note[512]);

struct hrf_planner; /* opaque */

/* Everything that `config` points to is borrowed for life. */
HRF_CHECKED enum hrf_status hrf_planner_create(const struct hrf_planner_config *config,
                                               struct hrf_planner **out, struct hrf_error *err);
void hrf_planner_destroy(struct hrf_planner *planner);
HRF_DEFINE_AUTO(hrf_planner)

/* Predicts a layout, whether or not it fits the memory. */
HRF_CHECKED enum hrf_status hrf_planner_predict(struct hrf_planner *planner,
                                                const struct hrf_layout_plan *layout,
                                                struct hrf_prediction **out, struct hrf_error *err);
bool hrf_planner_fits(const struct hrf_planner *planner, const struct hrf_prediction *prediction);
/* Chooses the fastest layout of exactly n_ranks that fits the memory. It tries every division of
 * the ranks into groups, stages and parts of images, with powers of two as numbers of
 * micro-batches, and pipelines in one or both directions. HRF_E_USER if none fits; the error names
 * the layout that needs the least. */
HRF_CHECKED enum hrf_status hrf_planner_choose(struct hrf_planner *planner, int32_t n_ranks,
                                               struct hrf_prediction **out, struct hrf_error *err);

/* Predicts a single rank with bands within the planner's memory, as the engine would choose
 * them. */
HRF_CHECKED enum hrf_status hrf_planner_predict_bands(struct hrf_planner *planner,
                                                      enum hrf_bands_rows rows,
                                                      struct hrf_bands_prediction *out,
                                                      struct hrf_error *err);

/* The prepared network for the micro-batch size of `layout`; NULL if no such layout was
 * predicted. */
const struct hrf_graph *hrf_planner_graph(const struct hrf_planner *planner,
                                          const struct hrf_layout_plan *layout);
/* 2 * multiply-adds of the whole batch; 0 before the first prediction. */
double hrf_planner_operations(const struct hrf_planner *planner);

#endif
