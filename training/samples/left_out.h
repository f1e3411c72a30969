/* left_out.h - slides that a training leaves out, each with the reason: they are counted and named,
 * as a run does with slides that fail. */
#ifndef HRF_TRAINING_SAMPLES_LEFT_OUT_H
#define HRF_TRAINING_SAMPLES_LEFT_OUT_H

#include "base/json.h"

struct hrf_left_out_slide {
    char *name, *reason;
};
struct hrf_left_outs {
    struct hrf_left_out_slide *items; /* heap */
    size_t n_items, capacity;
};
void hrf_left_outs_release(struct hrf_left_outs *left_out);
/* Says it on stderr, too. */
void hrf_left_outs_add(struct hrf_left_outs *left_out, const char *name, const char *reason);
/* [{"slide", "reason"}] */
json_t *hrf_left_outs_json(const struct hrf_left_outs *left_out);

#endif
