/* layout.h - how ranks share the work: data=D,spatial=RxC,stages=S,microbatches=M,bidirectional,
 * halos=H,bands=B.
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

/* How the ranks of an image come by each other's rows. AUTO: what costs say is soonest (halos.h);
 * without costs PLAIN. PLAIN: one exchange before each window. OVERLAP: that, while the window's
 * interior is computed, wherever there is one. */
enum hrf_halos { HRF_HALOS_AUTO, HRF_HALOS_PLAIN, HRF_HALOS_OVERLAP, HRF_N_HALOS };

/* How bands of an image that is too large come by the rows of the ones before them (bands.h). AUTO:
 * what costs less. */
enum hrf_bands_rows { HRF_BANDS_AUTO, HRF_BANDS_KEEP, HRF_BANDS_RECOMPUTE, HRF_N_BANDS_ROWS };

struct hrf_layout_plan {
    int32_t data, rows, columns, stages, microbatches;
    bool bidirectional; /* two mirrored pipelines, half of the micro-batches each */
    enum hrf_halos halos;
    enum hrf_bands_rows bands; /* of one rank */
};
static inline struct hrf_layout_plan hrf_layout_single(void)
{
    return (struct hrf_layout_plan){
        .data = 1, .rows = 1, .columns = 1, .stages = 1, .microbatches = 1
    };
}

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
/* The place in the pipeline that runs the other way of a group's rank, and back. */
static inline int32_t hrf_layout_mirror(const struct hrf_layout_plan *l, int32_t rank)
{
    const int32_t n = hrf_layout_stage_ranks(l);
    return (l->stages - 1 - rank / n) * n + rank % n;
}
/* One rank works at a time: a single one, or stages through which the batch goes in one piece. */
static inline bool hrf_layout_takes_turns(const struct hrf_layout_plan *l)
{
    return l->data == 1 && l->rows * l->columns == 1 && (l->stages == 1 || l->microbatches == 1);
}

/* How a batch is shared out: images go to groups and in a group to micro-batches in order, the last
 * ones get what is left. */
struct hrf_shares {
    int64_t n_images, per_group, per_microbatch;
};
/* HRF_E_USER when there are fewer images than groups x micro-batches. */
HRF_CHECKED enum hrf_status hrf_layout_share(const struct hrf_layout_plan *layout, int64_t n_images,
                                             struct hrf_shares *out, struct hrf_error *err);
/* Images of a group's micro-batch that are really there, and the first of them. */
int64_t hrf_shares_images(const struct hrf_shares *shares, int32_t group, int32_t microbatch,
                          int64_t *first);
/* As hrf_layout_parse() reads it; out holds at least 96 bytes. */
void hrf_layout_text(const struct hrf_layout_plan *layout, char out[96]);

#endif
