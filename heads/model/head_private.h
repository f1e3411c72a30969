/* head_private.h - what the files of heads/model share. */
#ifndef HRF_HEADS_MODEL_HEAD_PRIVATE_H
#define HRF_HEADS_MODEL_HEAD_PRIVATE_H

#include "heads/model/head.h"

/* How the parameters of a kind are drawn. */
enum hrf_head_start {
    HRF_START_UNIFORM, /* up to 1 / sqrt(fan-in) on both sides */
    HRF_START_NORMAL,
    HRF_START_ZERO,
    HRF_START_ONE
};
/* Adds a parameter [rows][columns]; its memory is made later. */
void hrf_head_add(struct hrf_head *head, const char *name, int64_t rows, int64_t columns,
                  enum hrf_head_start start, int64_t fan_in);
struct hrf_tensor *hrf_head_find(struct hrf_head *head, const char *name);

/* A calculation on its way. */
struct hrf_head_run {
    struct hrf_head *head;
    struct hrf_tape *tape;
    struct hrf_tensor *bag;
    int64_t label;
    float class_weight;
    struct hrf_head_result *out;
};
void hrf_transmil_declare(struct hrf_head *head);
void hrf_transmil_run(struct hrf_head_run *run);

#endif
