/* adam.h - Adam and AdamW with the arithmetic of PyTorch's torch.optim. */
#ifndef HRF_HEADS_TRAIN_ADAM_H
#define HRF_HEADS_TRAIN_ADAM_H

#include "heads/model/head.h"

struct hrf_adam {
    double learning_rate, weight_decay;
    bool is_decoupled; /* AdamW: the decay does not pass through the moments */
    /* State, [n_values] each, and the steps of each parameter: one without a gradient is left
     * alone, as in PyTorch. */
    float *first, *second;
    int64_t steps[HRF_HEAD_MAX_PARAMETERS];
};

/* Moments of 0. */
HRF_CHECKED enum hrf_status hrf_adam_init(struct hrf_adam *adam, const struct hrf_head *head,
                                          struct hrf_error *err);
void hrf_adam_release(struct hrf_adam *adam);
/* One step along the gradients of the head. */
void hrf_adam_step(struct hrf_adam *adam, struct hrf_head *head);

#endif
