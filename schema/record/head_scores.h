/* head_scores.h - the result of a head task: a slide's scores and the attention of its patches. */
#ifndef HRF_SCHEMA_RECORD_HEAD_SCORES_H
#define HRF_SCHEMA_RECORD_HEAD_SCORES_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/container.h"

#include <stdint.h>

#define HRF_HEAD_SCORES_KIND "head-scores" /* in its record's header */
enum { HRF_HEAD_SHOWN = 8 };               /* patches in a record's picture, at most */

struct hrf_head_scores {
    struct hrf_record_identity identity;
    char head_sha256[HRF_HASH_HEX];
    int32_t n_classes;
    double *scores; /* [n_classes], heap */
    int64_t n_patches;
    int32_t n_branches; /* of attention; 0: the head has none */
    float *attention;   /* [n_branches][n_patches], heap; NULL: the head has none */
    /* The patches of highest attention, the highest first, and one RGB picture, n_shown times as
     * wide as high, that shows them side by side as the model sees them, but smaller. */
    int64_t shown[HRF_HEAD_SHOWN]; /* indices into the tile plan */
    int32_t n_shown;
    struct hrf_bytes shown_png; /* no bytes: n_shown is 0 */
};
void hrf_head_scores_destroy(struct hrf_head_scores *scores);
HRF_DEFINE_AUTO(hrf_head_scores)

/* Equal scores give equal bytes. */
HRF_CHECKED enum hrf_status hrf_head_scores_encode(const struct hrf_head_scores *scores,
                                                   struct hrf_bytes *out, struct hrf_error *err);
/* `expected`: see hrf_container_decode. */
HRF_CHECKED enum hrf_status hrf_head_scores_decode(const void *bytes, size_t n_bytes,
                                                   const struct hrf_record_identity *expected,
                                                   const char *where, struct hrf_head_scores **out,
                                                   struct hrf_error *err);
/* Returns the attention of a patch, of the class's branch if there is one for each class; NaN if
 * the head has none. */
double hrf_head_scores_attention(const struct hrf_head_scores *scores, int64_t patch,
                                 size_t class_index);
/* Writes the rank of every patch's attention to out[n_patches] as a share, 0 the lowest and 1 the
 * highest, equal for equal attention. Ranks are shown because attention sums to 1 over a slide, so
 * its values have no common scale. HRF_E_USER: the head has no attention. */
HRF_CHECKED enum hrf_status hrf_head_scores_rank(const struct hrf_head_scores *scores,
                                                 size_t class_index, float *out,
                                                 struct hrf_error *err);

#endif
