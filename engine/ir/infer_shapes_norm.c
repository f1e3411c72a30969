/* infer_shapes_norm.c - shape inference for normalisations and attention. */
#include "engine/ir/infer_shapes_private.h"

#include <math.h>

/* Input k holds a number for each element of the axes from `axis` on; leading axes of size 1 do not
 * count. */
static enum hrf_status check_inner(struct hrf_inference *in, int32_t k, int64_t axis)
{
    const struct hrf_value *value = hrf_infer_input(in, k);
    if (value == NULL)
        return HRF_OK;
    struct hrf_shape s = value->shape;
    const int32_t wanted = in->shape.rank - (int32_t)axis;
    int32_t extra = s.rank - wanted;
    bool fits = extra >= 0;
    for (int32_t i = 0; fits && i < s.rank; i++)
        fits = s.dims[i] == (i < extra ? 1 : in->shape.dims[axis + i - extra]);
    if (!fits)
        return hrf_infer_refuse(in,
                                "input %d does not hold one number for each of the normalised "
                                "elements",
                                (int)k);
    return HRF_OK;
}

static enum hrf_status check_epsilon(struct hrf_inference *in)
{
    const float epsilon = in->node->attributes.epsilon;
    return isfinite(epsilon) && epsilon >= 0
               ? HRF_OK
               : hrf_infer_fail(in, "epsilon is %g: it must be a number from 0", (double)epsilon);
}

/* Over the channels of each pixel: scale and bias are [C]. */
static enum hrf_status check_pixel_norm(struct hrf_inference *in)
{
    if (in->shape.rank != 4 || in->node->attributes.axis != 1)
        return hrf_infer_fail(in, "the channels of pixels are axis 1 of 4");
    for (int32_t k = 1; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value != NULL && (value->shape.rank != 1 || value->shape.dims[0] != in->shape.dims[1]))
            return hrf_infer_refuse(in, "input %d does not hold one number for each channel",
                                    (int)k);
    }
    return HRF_OK;
}

/* LAYER_NORM and RMS_NORM. */
enum hrf_status hrf_infer_layer_norm(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    if (in->shape.rank < 1)
        return hrf_infer_fail(in, "a single number cannot be normalised");
    HRF_TRY(hrf_infer_axis(in, &in->node->attributes.axis, in->shape.rank));
    HRF_TRY(check_epsilon(in));
    if (in->node->attributes.of_each_pixel)
        return check_pixel_norm(in);
    for (int32_t k = 1; k < in->node->n_inputs; k++)
        HRF_TRY(check_inner(in, k, in->node->attributes.axis));
    return HRF_OK;
}

enum hrf_status hrf_infer_group_norm(struct hrf_inference *in)
{
    const int64_t group = in->node->attributes.n_groups;
    in->shape = hrf_infer_input(in, 0)->shape;
    if (in->shape.rank < 3)
        return hrf_infer_fail(in, "needs channels and at least one axis behind them");
    const int64_t channels = in->shape.dims[1];
    HRF_TRY(check_epsilon(in));
    if (group < 0 || (group > 0 && channels % group != 0))
        return hrf_infer_fail(in, "%lld channels do not make %lld groups", (long long)channels,
                              (long long)group);
    for (int32_t k = 1; k < 3; k++) {
        const struct hrf_shape *s = &hrf_infer_input(in, k)->shape;
        if (s->rank != 1 || s->dims[0] != channels)
            return hrf_infer_refuse(in,
                                    "input %d does not hold one number for each of %lld channels",
                                    (int)k, (long long)channels);
    }
    return HRF_OK;
}

/* True if all leading axes are equal; on axis 1 of rank 4, q may have more heads than k and v. */
static bool leads_fit(const struct hrf_shape *q, const struct hrf_shape *k)
{
    for (int32_t i = 0; i + 2 < q->rank; i++) {
        const bool is_heads = i == 1 && q->rank == 4;
        if (k->dims[i] != q->dims[i] &&
            !(is_heads && k->dims[i] > 0 && q->dims[i] % k->dims[i] == 0))
            return false;
    }
    return true;
}

/* The heads of an input of tokens lie within its channels. */
static bool heads_fit(const struct hrf_attributes *a, int32_t k, const struct hrf_shape *x)
{
    const int64_t last = a->attention.first[k] + (a->attention.heads - 1) * a->attention.stride[k];
    return x->rank == 3 && a->attention.first[k] >= 0 &&
           a->attention.stride[k] >= a->attention.head_size &&
           last <= x->dims[2] - a->attention.head_size;
}

static enum hrf_status check_mask(struct hrf_inference *in, const struct hrf_value *mask,
                                  struct hrf_shape scores)
{
    struct hrf_shape sum;
    if (mask == NULL)
        return HRF_OK;
    if (in->node->attributes.attention.mask_repeats && scores.rank == 4 && mask->shape.rank == 4 &&
        mask->shape.dims[0] > 1 && scores.dims[0] % mask->shape.dims[0] == 0)
        scores.dims[0] = mask->shape.dims[0];
    if (!hrf_infer_broadcast(&scores, &mask->shape, &sum) || !hrf_shape_equal(&sum, &scores))
        return hrf_infer_fail(in, "the mask does not broadcast to the scores");
    return HRF_OK;
}

enum hrf_status hrf_infer_token_attention(struct hrf_inference *in)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x[3];
    const struct hrf_value *mask = hrf_infer_input(in, HRF_ATTENTION_MASK);
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++) {
        x[k] = &hrf_infer_input(in, k)->shape;
        if (a->attention.heads < 1 || a->attention.head_size < 1 || !heads_fit(a, k, x[k]) ||
            x[k]->dims[0] != x[0]->dims[0])
            return hrf_infer_fail(in, "the heads do not lie in the channels of q, k and v");
    }
    if (x[1]->dims[1] != x[2]->dims[1] || !isfinite(a->attention.scale) || a->attention.scale == 0)
        return hrf_infer_fail(in, "q, k and v do not fit together");
    const struct hrf_shape scores = {
        4, { x[0]->dims[0], a->attention.heads, x[0]->dims[1], x[1]->dims[1] }
    };
    HRF_TRY(check_mask(in, mask, scores));
    in->shape = *x[0];
    in->shape.dims[2] = a->attention.heads * a->attention.head_size;
    return HRF_OK;
}

enum hrf_status hrf_infer_attention(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *q = &hrf_infer_input(in, HRF_ATTENTION_Q)->shape;
    const struct hrf_shape *k = &hrf_infer_input(in, HRF_ATTENTION_K)->shape;
    const struct hrf_shape *v = &hrf_infer_input(in, HRF_ATTENTION_V)->shape;
    const struct hrf_value *mask = hrf_infer_input(in, HRF_ATTENTION_MASK);
    if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
        return hrf_infer_refuse(in, "q, k and v must have 3 or 4 axes each");
    const int32_t last = q->rank - 1;
    const int64_t channels = k->dims[a->attention.transpose_k ? last - 1 : last];
    const int64_t keys = k->dims[a->attention.transpose_k ? last : last - 1];
    if (channels != q->dims[last] || keys != v->dims[last - 1] || !leads_fit(q, k) ||
        !leads_fit(q, v))
        return hrf_infer_fail(in, "q, k and v do not fit together");
    if (a->attention.scale == 0) /* ONNX's default */
        a->attention.scale = (float)(1 / sqrt((double)channels));
    if (!isfinite(a->attention.scale))
        return hrf_infer_fail(in, "the scale is %g", (double)a->attention.scale);
    in->shape = *q;
    in->shape.dims[last] = keys;
    HRF_TRY(check_mask(in, mask, in->shape));
    in->shape.dims[last] = v->dims[last];
    return HRF_OK;
}

enum hrf_status hrf_infer_attention_gradient(struct hrf_inference *in)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *q = &hrf_infer_input(in, HRF_ATTENTION_Q)->shape;
    const struct hrf_shape *v = &hrf_infer_input(in, HRF_ATTENTION_V)->shape;
    const int32_t last = q->rank - 1;
    struct hrf_shape k = hrf_infer_input(in, HRF_ATTENTION_K)->shape;
    if (last < 1 || k.rank != q->rank)
        return hrf_infer_fail(in, "q and k do not fit together");
    if (a->attention.transpose_k) {
        const int64_t keys = k.dims[last];
        k.dims[last] = k.dims[last - 1];
        k.dims[last - 1] = keys;
    }
    in->shape = *q;
    in->shape.dims[last - 1] = k.dims[last - 1];
    if (!hrf_shape_equal(&k, &in->shape) || !hrf_shape_equal(v, &in->shape) ||
        !hrf_shape_equal(&hrf_infer_input(in, 3)->shape, q))
        return hrf_infer_fail(in, "q, k, v and the gradient do not fit together");
    in->shape.dims[last - 1] = q->dims[last - 1] + 2 * k.dims[last - 1];
    return HRF_OK;
}

enum hrf_status hrf_infer_swiglu(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    if (in->shape.rank < 1 || in->shape.dims[in->shape.rank - 1] % 2 != 0)
        return hrf_infer_fail(in, "the last axis does not have two halves");
    in->shape.dims[in->shape.rank - 1] /= 2;
    return HRF_OK;
}
