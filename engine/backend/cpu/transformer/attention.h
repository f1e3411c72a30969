/* attention.h - where the numbers of an ATTENTION lie: each head is a product of matrices whose
 * rows and columns may be anywhere in memory. */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H

#include "engine/backend/compute.h"

/* Element (i, c) stands at i * row + c * column from where the head begins, in elements. */
struct hrf_head_matrix {
    int64_t rows, columns, row, column;
};

/* Q, K (a row for each key, whatever transpose_b says), V, Y, and the mask, [queries][keys], whose
 * steps are 0 where it broadcasts. */
enum { HRF_HEAD_Q, HRF_HEAD_K, HRF_HEAD_V, HRF_HEAD_Y, HRF_HEAD_MASK, HRF_HEAD_MATRICES };

struct hrf_head_view {
    int64_t n_heads; /* of all images */
    struct hrf_head_matrix of[HRF_HEAD_MATRICES];
};
void hrf_head_view(const struct hrf_spec *spec, struct hrf_head_view *out);
/* Where head `head` of that matrix begins, in elements of its tensor. */
int64_t hrf_head_begin(const struct hrf_spec *spec, int which, int64_t head);

#endif
