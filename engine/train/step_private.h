/* step_private.h - what a step in one piece and one in tiles share. */
#ifndef HRF_ENGINE_TRAIN_STEP_PRIVATE_H
#define HRF_ENGINE_TRAIN_STEP_PRIVATE_H

#include "engine/train/step.h"

/* The trained weights of a network; numbers are on the heap and keep their addresses. */
struct hrf_trained_list {
    struct hrf_trained_tensor *items;
    float **rounded; /* in BF16: the same numbers as products read them; else NULL */
    int32_t n;
};
/* Makes `rounded` again, after numbers have changed; without it, nothing. */
void hrf_trained_round(const struct hrf_trained_list *trained);

/* A graph, some of whose constants are trained weights, made ready to run. */
struct hrf_weighted_session {
    struct hrf_session *session;
    /* [n_gradients], heap: which one of the list each gradient is to; -1: to none of them. */
    int32_t *weights;
    int32_t n_gradients;
};
void hrf_weighted_session_release(struct hrf_weighted_session *weighted);
/* `graph` is changed: its trained weights become inputs. `gradients` NULL: it computes none.
 * is_lent, kept_bytes: struct hrf_session_config. */
HRF_CHECKED enum hrf_status hrf_weighted_session_create(
    struct hrf_graph *graph, const struct hrf_trained_list *trained,
    const struct hrf_gradients *gradients, const struct hrf_train_step_config *config, bool is_lent,
    int64_t kept_bytes, struct hrf_weighted_session *out, struct hrf_error *err);

/* The trained weights of `graph`, values[k], and their numbers; rounded[k] is NULL in FP32. Returns
 * how many. */
int32_t hrf_trained_find(const struct hrf_graph *graph, const struct hrf_trained_list *trained,
                         int32_t *values, float **numbers, float **rounded);

/* Marks the weights of `graph` that are trained, and no others, as its initializers. */
void hrf_trained_mark(const struct hrf_trained_list *trained, struct hrf_graph *graph);

#endif
