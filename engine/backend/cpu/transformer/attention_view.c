/* attention_view.c - see attention.h. */
#include "engine/backend/cpu/transformer/attention.h"

static const struct hrf_shape *shape_of(const struct hrf_spec *spec, int which)
{
    return which == HRF_HEAD_Y      ? &spec->output.shape
           : which == HRF_HEAD_MASK ? &spec->inputs[HRF_ATTENTION_MASK].shape
                                    : &spec->inputs[which].shape;
}

/* The heads stand in the channels of [N][T][C]. */
static bool is_of_tokens(const struct hrf_spec *spec)
{
    return hrf_attention_is_of_tokens(&spec->attributes);
}

/* What the leading axes of the scores are. */
static struct hrf_shape leads_of(const struct hrf_spec *spec)
{
    struct hrf_shape leads = spec->output.shape;
    leads.rank -= 2;
    if (is_of_tokens(spec))
        leads = (struct hrf_shape){ .rank = 2, .dims = { leads.dims[0], spec->attributes.group } };
    return leads;
}

static struct hrf_head_matrix tokens_matrix(const struct hrf_spec *spec, int which)
{
    const struct hrf_shape *shape = shape_of(spec, which);
    return (struct hrf_head_matrix){ shape->dims[1], spec->attributes.size, shape->dims[2], 1 };
}

static struct hrf_head_matrix last_axes(const struct hrf_shape *shape)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    const int32_t last = shape->rank - 1;
    return (struct hrf_head_matrix){ shape->dims[last - 1], shape->dims[last], strides[last - 1],
                                     strides[last] };
}

static struct hrf_head_matrix mask_matrix(const struct hrf_spec *spec, int64_t queries,
                                          int64_t keys)
{
    const struct hrf_shape *mask = shape_of(spec, HRF_HEAD_MASK);
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(mask, strides);
    struct hrf_head_matrix m = { queries, keys, 0, 0 };
    if (mask->rank > 0 && mask->dims[mask->rank - 1] > 1)
        m.column = strides[mask->rank - 1];
    if (mask->rank > 1 && mask->dims[mask->rank - 2] > 1)
        m.row = strides[mask->rank - 2];
    return m;
}

void hrf_head_view(const struct hrf_spec *spec, struct hrf_head_view *out)
{
    const struct hrf_shape leads = leads_of(spec);
    *out = (struct hrf_head_view){ .n_heads = hrf_shape_count(&leads) };
    for (int i = HRF_HEAD_Q; i <= HRF_HEAD_Y; i++)
        out->of[i] = is_of_tokens(spec) ? tokens_matrix(spec, i) : last_axes(shape_of(spec, i));
    if (spec->attributes.transpose_b) {
        const struct hrf_head_matrix k = out->of[HRF_HEAD_K];
        out->of[HRF_HEAD_K] = (struct hrf_head_matrix){ k.columns, k.rows, k.column, k.row };
    }
    if (hrf_spec_has(spec, HRF_ATTENTION_MASK))
        out->of[HRF_HEAD_MASK] = mask_matrix(spec, out->of[HRF_HEAD_Q].rows,
                                             out->of[HRF_HEAD_K].rows);
}

int64_t hrf_head_begin(const struct hrf_spec *spec, int which, int64_t head)
{
    const struct hrf_attributes *a = &spec->attributes;
    const struct hrf_shape *x = shape_of(spec, which);
    if (is_of_tokens(spec) && which != HRF_HEAD_MASK) {
        const int64_t image = head / a->group * x->dims[1] * x->dims[2], place = head % a->group;
        return image +
               (which == HRF_HEAD_Y ? place * a->size : a->starts[which] + place * a->steps[which]);
    }
    const struct hrf_shape leads = leads_of(spec);
    int64_t strides[HRF_MAX_RANK], at = 0;
    const int32_t missing = leads.rank + 2 - x->rank;
    hrf_layout_strides(x, strides);
    /* Leading axes may be shorter, or 1: each head of x then serves as many. */
    for (int32_t i = leads.rank - 1; i >= 0; i--) {
        const int64_t place = head % leads.dims[i];
        head /= leads.dims[i];
        if (i < missing)
            continue;
        const int64_t size = x->dims[i - missing];
        /* The masks of windows repeat for each image. */
        const bool repeats = which == HRF_HEAD_MASK && i == 0 && a->mask_repeats;
        at += (repeats ? place % size : place / (leads.dims[i] / size)) * strides[i - missing];
    }
    return at;
}
