/* predict.h - what a layout will take: time, memory and traffic of every rank, without running it.
 *
 * The lists that the executor runs - a rank's steps and transfers (plan.h, transfers.h), its
 * micro-batches and outputs (schedule.h) - become programs, with kernels at their costs, which are
 * then played on the machine. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PREDICT_H
#define HRF_ENGINE_PLAN_PREDICT_H

#include "engine/plan/partition.h"
#include "engine/plan/simulate.h"

struct hrf_predicted_rank {
    int32_t stage;
    struct hrf_box input;          /* what it is fed of the first input; empty: nothing */
    int32_t first_node, last_node; /* of the whole graph; -1: none */
    int64_t activation_bytes;      /* arena and message scratch */
    int64_t weight_bytes, workspace_bytes;
};

/* How the ranks of an image come by each other's rows (halos.h). */
struct hrf_predicted_halos {
    int32_t n_exchanges;  /* with a message, in a micro-batch; stage boundaries too */
    int32_t n_overlapped; /* of them with an interior to compute meanwhile */
    int32_t n_fused;      /* values of which ranks compute more than their share instead */
};

struct hrf_prediction {
    struct hrf_layout_plan layout;
    int64_t n_images; /* of a batch */
    int32_t n_ranks;
    struct hrf_predicted_rank *ranks;
    struct hrf_simulation *simulation;
    double seconds; /* of a batch */
    struct hrf_predicted_halos halos;
    double computing[HRF_COST_N_ORIGINS]; /* s over all ranks, by where the cost is from */
};

/* `partition`: of one micro-batch of n_images / (data x microbatches) images, rounded up.
 * HRF_E_USER when the machine has fewer nodes than the ranks need, lacks a link, or a cost is not
 * known. */
HRF_CHECKED enum hrf_status hrf_predict(const struct hrf_partition *partition, int64_t n_images,
                                        const struct hrf_cost_table *costs,
                                        const struct hrf_machine *machine,
                                        struct hrf_prediction **out, struct hrf_error *err);
void hrf_prediction_destroy(struct hrf_prediction *prediction);
HRF_DEFINE_AUTO(hrf_prediction)

/* Of the rank that holds most. */
int64_t hrf_prediction_peak_bytes(const struct hrf_prediction *prediction);

#endif
