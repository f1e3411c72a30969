/* window_masks.c - see match.h. */
#include "engine/passes/match.h"

enum { MOST_NUMBERS = 1 << 26 }; /* of a mask */

/* [B * windows][heads][T][S] as [B][windows][heads][T][S] */
static bool splits_windows(const struct hrf_shape *scores, const struct hrf_shape *split)
{
    if (scores->rank != 4 || split->rank != 5 || split->dims[0] * split->dims[1] != scores->dims[0])
        return false;
    for (int i = 1; i < 4; i++)
        if (scores->dims[i] != split->dims[1 + i])
            return false;
    return true;
}

/* A constant of as many windows that is alike for all images. */
static bool is_mask(const struct hrf_value *mask, const struct hrf_shape *split)
{
    const int32_t missing = 5 - mask->shape.rank;
    if (mask->data == NULL || mask->dtype != HRF_F32 || missing < 0)
        return false;
    for (int32_t i = 0; i < mask->shape.rank; i++)
        if (mask->shape.dims[i] != 1 &&
            (i + missing == 0 || mask->shape.dims[i] != split->dims[i + missing]))
            return false;
    return true;
}

int32_t hrf_match_window_mask(const struct hrf_match *m, int32_t value, int32_t *mask)
{
    const struct hrf_node *back = hrf_match_sole(m, value, HRF_OP_RESHAPE);
    const struct hrf_node *add = back != NULL ? hrf_match_sole(m, back->inputs[0], HRF_OP_ADD)
                                              : NULL;
    for (int k = 0; k < 2 && add != NULL; k++) {
        const struct hrf_node *split = hrf_match_sole(m, add->inputs[k], HRF_OP_RESHAPE);
        const struct hrf_shape *shape = &hrf_match_value(m, add->outputs[0])->shape;
        if (split == NULL || !hrf_shape_equal(&hrf_match_value(m, add->inputs[k])->shape, shape) ||
            !splits_windows(&hrf_match_value(m, split->inputs[0])->shape, shape) ||
            !hrf_shape_equal(&hrf_match_value(m, split->inputs[0])->shape,
                             &hrf_match_value(m, value)->shape) ||
            !is_mask(hrf_match_value(m, add->inputs[1 - k]), shape))
            continue;
        *mask = add->inputs[1 - k];
        return split->inputs[0];
    }
    return -1;
}

/* The element at position `at` (5 axes) of a constant that broadcasts to the last axes. */
static double number_at(const struct hrf_value *v, const int64_t at[5])
{
    int64_t index = 0;
    for (int32_t i = 0; i < v->shape.rank; i++) {
        const int64_t element = v->shape.dims[i] == 1 ? 0 : at[5 - v->shape.rank + i];
        index = index * v->shape.dims[i] + element;
    }
    return (double)((const float *)v->data)[index];
}

enum hrf_status hrf_match_join_masks(struct hrf_match *m, const char *name, int32_t window_mask,
                                     const struct hrf_shape *scores, int32_t *mask,
                                     struct hrf_error *err)
{
    const struct hrf_value *windows = hrf_match_value(m, window_mask);
    const struct hrf_value *own = *mask >= 0 ? hrf_match_value(m, *mask) : NULL;
    const int64_t n_windows = windows->shape.rank >= 4
                                  ? windows->shape.dims[windows->shape.rank - 4]
                                  : 1;
    const struct hrf_shape shape = {
        .rank = 4, .dims = { n_windows, scores->dims[1], scores->dims[2], scores->dims[3] }
    };
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE float *sum = hrf_try_alloc_array((size_t)n, sizeof *sum);
    HRF_AUTO_FREE char *full = hrf_format("%s.mask", name);
    if (sum == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the mask of node '%s'", name);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at[5] = { 0 };
        for (int k = 3; k >= 0; k--) {
            at[1 + k] = rest % shape.dims[k];
            rest /= shape.dims[k];
        }
        double v = number_at(windows, at);
        at[1] = 0;
        sum[i] = (float)(v + (own != NULL ? number_at(own, at) : 0));
    }
    return hrf_graph_add_value(m->graph, full, HRF_F32, &shape, sum, mask, err);
}

bool hrf_match_masks_can_join(const struct hrf_match *m, int32_t window_mask, int32_t mask,
                              const struct hrf_shape *scores)
{
    const struct hrf_shape *s = mask >= 0 ? &hrf_match_value(m, mask)->shape : NULL;
    const struct hrf_shape *w = &hrf_match_value(m, window_mask)->shape;
    const int64_t n_windows = w->rank >= 4 ? w->dims[w->rank - 4] : 1;
    if (n_windows * scores->dims[1] * scores->dims[2] * scores->dims[3] > MOST_NUMBERS)
        return false;
    return s == NULL ||
           (hrf_match_value(m, mask)->data != NULL && hrf_match_value(m, mask)->dtype == HRF_F32 &&
            (s->rank < 4 || (s->rank == 4 && s->dims[0] == 1)));
}
