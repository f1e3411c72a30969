/* layout.h - how the work is divided over ranks: data=D,spatial=RxC,tensor=T,stages=S,
 * microbatches=M,bidirectional,halos=H,bands=B,attention=A. layout.c has a row for each part, which
 * reading, messages and printing walk; the settings `engine.parallel.*` are the same parts.
 *
 * D groups each take a share of the batch. A group has S pipeline stages. A stage has R x C parts
 * of every image, each owned by T ranks that divide the channels of products and the heads of
 * attention (tensor_parallel.h); these are consecutive. There are D * S * R * C * T ranks. Example:
 * "data=2,spatial=2x1,stages=2,microbatches=4" is 8 ranks.
 */
#ifndef HRF_SCHEMA_SETTINGS_LAYOUT_H
#define HRF_SCHEMA_SETTINGS_LAYOUT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_MAX_RANKS = 1024 };

/* How the ranks of an image get each other's rows. PLAIN: an exchange before each window. OVERLAP:
 * the same, while the interior of the window is computed, if it has one. AUTO: the fastest by costs
 * (halos.h); PLAIN if there are no costs. */
enum hrf_halos { HRF_HALOS_AUTO, HRF_HALOS_PLAIN, HRF_HALOS_OVERLAP, HRF_N_HALOS };

/* How bands (row tiles) get rows of earlier bands (bands.h): kept in a line cache, or computed
 * again. AUTO: whichever takes less time. */
enum hrf_bands_rows { HRF_BANDS_AUTO, HRF_BANDS_KEEP, HRF_BANDS_RECOMPUTE, HRF_N_BANDS_ROWS };

/* How the ranks of a sequence get the keys and values of all tokens. GATHER: all at once, before
 * the attention. RING: part by part, so that a rank holds one part at a time. AUTO: the faster one
 * by costs (ring.h); GATHER if there are no costs. */
enum hrf_attention_keys {
    HRF_ATTENTION_AUTO,
    HRF_ATTENTION_GATHER,
    HRF_ATTENTION_RING,
    HRF_N_ATTENTION_KEYS
};

/* The words of these three enums, indexed by value; NULL ends each table. */
extern const char *const hrf_words_halos[];
extern const char *const hrf_words_bands[];
extern const char *const hrf_words_attention[];

struct hrf_layout_plan {
    int32_t data, rows, columns, tensor, stages, microbatches;
    bool bidirectional; /* two mirrored pipelines, half of the micro-batches each */
    enum hrf_halos halos;
    enum hrf_bands_rows bands; /* for a single rank */
    enum hrf_attention_keys attention;
};
static inline struct hrf_layout_plan hrf_layout_single(void)
{
    return (struct hrf_layout_plan){
        .data = 1, .rows = 1, .columns = 1, .tensor = 1, .stages = 1, .microbatches = 1
    };
}

/* "single" or NULL is one rank. HRF_E_USER says what is wrong and what would be right. */
HRF_CHECKED enum hrf_status hrf_layout_parse(const char *text, struct hrf_layout_plan *out,
                                             struct hrf_error *err);
/* The number of parts of an image. */
static inline int32_t hrf_layout_image_parts(const struct hrf_layout_plan *l)
{
    return l->rows * l->columns;
}
static inline int32_t hrf_layout_stage_ranks(const struct hrf_layout_plan *l)
{
    return hrf_layout_image_parts(l) * l->tensor;
}
static inline int32_t hrf_layout_group_ranks(const struct hrf_layout_plan *l)
{
    return l->stages * hrf_layout_stage_ranks(l);
}
static inline int32_t hrf_layout_ranks(const struct hrf_layout_plan *l)
{
    return l->data * hrf_layout_group_ranks(l);
}
/* Maps a rank of a group to its position in the mirrored pipeline, and back. */
static inline int32_t hrf_layout_mirror(const struct hrf_layout_plan *l, int32_t rank)
{
    const int32_t n = hrf_layout_stage_ranks(l);
    return (l->stages - 1 - rank / n) * n + rank % n;
}
/* True if only one rank computes at a time: a single rank, or stages without micro-batches. */
static inline bool hrf_layout_is_sequential(const struct hrf_layout_plan *l)
{
    return l->data == 1 && hrf_layout_stage_ranks(l) == 1 &&
           (l->stages == 1 || l->microbatches == 1);
}

/* How a batch is divided: images go in order to groups and within a group to micro-batches. The
 * last ones may get fewer. */
struct hrf_batch_split {
    int64_t n_images, per_group, per_microbatch;
};
/* HRF_E_USER if there are fewer images than groups times micro-batches. */
HRF_CHECKED enum hrf_status hrf_layout_share(const struct hrf_layout_plan *layout, int64_t n_images,
                                             struct hrf_batch_split *out, struct hrf_error *err);
/* HRF_E_USER if BatchNormalization cannot compute with the statistics of the batch: every layer
 * needs those of all images, which micro-batches pass at different times, and groups add up shares
 * of the same size. */
HRF_CHECKED enum hrf_status hrf_layout_check_batch_statistics(const struct hrf_layout_plan *layout,
                                                              int64_t n_images,
                                                              struct hrf_error *err);
/* The number of real images in a micro-batch of a group; *first: the first of them. */
int64_t hrf_batch_split_images(const struct hrf_batch_split *shares, int32_t group,
                               int32_t microbatch, int64_t *first);
/* Writes the text that hrf_layout_parse() reads; out holds at least 128 bytes. */
void hrf_layout_text(const struct hrf_layout_plan *layout, char out[128]);

#endif
