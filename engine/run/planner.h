/* planner.h - predictions of layouts of one network on one machine, and the choice of the best.
 *
 * Keeps the network prepared for each size of micro-batch that was asked for, so that many layouts
 * can be compared. Nothing is run. Used by one thread at a time.
 */
#ifndef HRF_ENGINE_RUN_PLANNER_H
#define HRF_ENGINE_RUN_PLANNER_H

#include "engine/plan/bands.h"
#include "engine/plan/predict.h"

struct hrf_planner_config {
    const struct hrf_graph *graph; /* input shapes of the whole batch set */
    const char *precision;         /* INT8 needs no calibration */
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
    int64_t memory_bytes; /* of a rank; 0 = what the machine has, which 0 = any */
    /* Back end of this machine whose kernels are asked what they hold of weights where `costs` do
     * not say: one of each kind is made ready, for the whole image. NULL: as the graph has them.
     * Scratch stays unknown (0), for it does not follow from one size. */
    const char *device;
};

struct hrf_planner; /* opaque */

/* Everything that `config` points to is borrowed for life. */
HRF_CHECKED enum hrf_status hrf_planner_create(const struct hrf_planner_config *config,
                                               struct hrf_planner **out, struct hrf_error *err);
void hrf_planner_destroy(struct hrf_planner *planner);
HRF_DEFINE_AUTO(hrf_planner)

/* Whether or not it fits the memory. */
HRF_CHECKED enum hrf_status hrf_planner_predict(struct hrf_planner *planner,
                                                const struct hrf_layout_plan *layout,
                                                struct hrf_prediction **out, struct hrf_error *err);
bool hrf_planner_fits(const struct hrf_planner *planner, const struct hrf_prediction *prediction);
/* The layout of exactly n_ranks that takes the batch soonest and fits the memory: of every way to
 * share the ranks out to groups, stages and parts of images, with micro-batches by powers of two,
 * through the stages one way or both.
 * HRF_E_USER when none fits: names the one that needs least. */
HRF_CHECKED enum hrf_status hrf_planner_choose(struct hrf_planner *planner, int32_t n_ranks,
                                               struct hrf_prediction **out, struct hrf_error *err);

/* One rank, in bands that keep to the planner's memory: what the engine would choose. */
HRF_CHECKED enum hrf_status hrf_planner_predict_bands(struct hrf_planner *planner,
                                                      enum hrf_bands_rows rows,
                                                      struct hrf_bands_prediction *out,
                                                      struct hrf_error *err);

/* The prepared network that layouts with this micro-batch share; NULL before one was predicted. */
const struct hrf_graph *hrf_planner_graph(const struct hrf_planner *planner,
                                          const struct hrf_layout_plan *layout);
/* 2 x multiply-adds of the whole batch; 0 before anything was predicted. */
double hrf_planner_operations(const struct hrf_planner *planner);

#endif
