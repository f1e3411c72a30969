/* layout.h - how ranks share the work: data=D,spatial=RxC,stages=S,microbatches=M,bidirectional.
 *
 * D groups each take a share of the batch; in a group S stages follow one another, and the ranks of
 * a stage, R x C of them, each own a part of every image. Ranks: D * S * R * C.
 */
#ifndef HRF_ENGINE_PLAN_LAYOUT_H
#define HRF_ENGINE_PLAN_LAYOUT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_MAX_RANKS = 1024 };

struct hrf_layout_plan {
    int32_t data, rows, columns, stages, microbatches;
    bool bidirectional; /* two mirrored pipelines, half of the micro-batches each */
};

/* "single" or NULL: one rank. HRF_E_USER names what is wrong and what would be right. */
HRF_CHECKED enum hrf_status hrf_layout_parse(const char *text, struct hrf_layout_plan *out,
                                             struct hrf_error *err);
static inline int32_t hrf_layout_stage_ranks(const struct hrf_layout_plan *l)
{
    return l->rows * l->columns;
}
static inline int32_t hrf_layout_group_ranks(const struct hrf_layout_plan *l)
{
    return l->stages * hrf_layout_stage_ranks(l);
}
static inline int32_t hrf_layout_ranks(const struct hrf_layout_plan *l)
{
    return l->data * hrf_layout_group_ranks(l);
}

#endif
