/* adam.h - Adam and AdamW with the arithmetic of PyTorch's torch.optim. */
#ifndef HRF_HEADS_TRAIN_ADAM_H
#define HRF_HEADS_TRAIN_ADAM_H

#include "heads/model/head.h"

struct hrf_adam {
    double learning_rate, weight_decay;
    bool is_decoupled; /* AdamW: the decay does not pass through the moments */
    /* The moments, [n_values] each, and the number of steps of each parameter. A parameter without
     * a gradient is not updated, as in PyTorch. */
    float *first, *second;
    int64_t steps[HRF_HEAD_MAX_PARAMETERS];
};

/* Initialises the moments with 0. */
void hrf_adam_init(struct hrf_adam *adam, const struct hrf_head *head);
void hrf_adam_release(struct hrf_adam *adam);
/* Updates the head's parameters by one step along their gradients. */
void hrf_adam_step(struct hrf_adam *adam, struct hrf_head *head);

#endif
