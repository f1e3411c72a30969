/* predict.h - predicts time, memory and traffic of every rank of a layout, without running it.
 *
 * The lists that the executor runs (steps and transfers of each rank from plan.h and transfers.h,
 * its micro-batches and outputs from schedule.h) become programs with the costs of their kernels.
 * The simulator plays these programs on the machine. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_PREDICT_H
#define HRF_ENGINE_PLAN_PREDICT_H

#include "engine/plan/partition.h"
#include "engine/plan/simulate.h"

struct hrf_predicted_rank {
    int32_t stage;
    struct hrf_box input;          /* the box of the first input that it is fed; may be empty */
    int32_t first_node, last_node; /* in the whole graph; -1: none */
    int64_t activation_bytes;      /* arena and message buffer */
    int64_t weight_bytes, workspace_bytes;
};

/* How the ranks of an image get each other's rows (halos.h). */
struct hrf_predicted_halos {
    int32_t n_exchanges;  /* exchanges with messages per micro-batch, including stage boundaries */
    int32_t n_overlapped; /* of these, exchanges during which an interior is computed */
    int32_t
        n_fused; /* values of which ranks compute more than their share in place of an exchange */
};

struct hrf_prediction {
    struct hrf_layout_plan layout;
    int64_t n_images; /* of a batch */
    int32_t n_ranks;
    struct hrf_predicted_rank *ranks;
    struct hrf_simulation *simulation;
    double seconds; /* of a batch */
    struct hrf_predicted_halos halos;
    double computing[HRF_COST_N_ORIGINS]; /* s, summed over all ranks, by origin of the cost */
};

/* `partition` is that of one micro-batch of n_images / (data * microbatches) images, rounded up.
 * HRF_E_USER if the machine has too few nodes for the ranks or lacks a link, or if a cost is not
 * known. */
HRF_CHECKED enum hrf_status hrf_predict(const struct hrf_partition *partition, int64_t n_images,
                                        const struct hrf_cost_table *costs,
                                        const struct hrf_machine *machine,
                                        struct hrf_prediction **out, struct hrf_error *err);
void hrf_prediction_destroy(struct hrf_prediction *prediction);
HRF_DEFINE_AUTO(hrf_prediction)

/* Memory of the rank that needs most. */
int64_t hrf_prediction_peak_bytes(const struct hrf_prediction *prediction);

#endif
