/* token_view.h - a value that moves make of tokens [N][T][C], as strides; for this folder only. */
#ifndef HRF_ENGINE_PASSES_TOKEN_VIEW_H
#define HRF_ENGINE_PASSES_TOKEN_VIEW_H

#include "engine/passes/match.h"

/* A value as part of another one, of rank 3: where its elements lie there. */
struct hrf_token_view {
    int32_t source;
    struct hrf_shape shape;
    int64_t strides[HRF_MAX_RANK], offset;
};

enum { HRF_TOKEN_VIEW_MOVES = 12 };

/* The move that computes the value; NULL. */
const struct hrf_node *hrf_token_view_move(const struct hrf_match *m, int32_t value);
/* The view of `source` after n moves, given from the last to the first. False: the source is not
 * tokens, or strides cannot express the view. */
bool hrf_token_view_make(const struct hrf_match *m, int32_t source,
                         const struct hrf_node *const *moves, int n, struct hrf_token_view *out);
/* [N][heads][T][d] of [N][T][C], the d channels side by side. */
bool hrf_token_view_is_of_tokens(const struct hrf_match *m, const struct hrf_token_view *v);

#endif
