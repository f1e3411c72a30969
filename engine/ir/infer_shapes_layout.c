/* infer_shapes_layout.c - shape inference for operators that only move elements, and for the
 * reductions.
 */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/resize.h"

#include <stdint.h>

enum hrf_status hrf_infer_concat(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    HRF_TRY(hrf_infer_axis(in, &in->node->attributes.axis, in->shape.rank));
    int64_t axis = in->node->attributes.axis;
    for (int32_t k = 1; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value == NULL)
            return hrf_infer_fail(in, "input %d is missing", (int)k);
        struct hrf_shape other = value->shape;
        bool fits = other.rank == in->shape.rank && value->dtype == in->dtype;
        if (fits) {
            int64_t more = other.dims[axis];
            other.dims[axis] = in->shape.dims[axis];
            fits = hrf_shape_equal(&other, &in->shape) && more < HRF_MAX_ELEMENTS &&
                   in->shape.dims[axis] < HRF_MAX_ELEMENTS;
            in->shape.dims[axis] += fits ? more : 0;
        }
        if (!fits)
            return hrf_infer_fail(in, "input %d does not fit along axis %lld", (int)k,
                                  (long long)axis);
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_flatten(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    int64_t *axis = &in->node->attributes.axis;
    if (*axis != x->rank) /* rank itself is legal: everything in the first dimension */
        HRF_TRY(hrf_infer_axis(in, axis, x->rank));
    in->shape = (struct hrf_shape){ .rank = 2, .dims = { 1, 1 } };
    for (int32_t i = 0; i < x->rank; i++)
        in->shape.dims[i < *axis ? 0 : 1] *= x->dims[i]; /* below count(x): no overflow */
    return HRF_OK;
}

/* A dim of 0 copies that of the input (unless allow_zero); a single -1 is computed from the
 * rest. */
enum hrf_status hrf_infer_reshape(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *target = hrf_infer_input(in, 1);
    HRF_TRY(hrf_infer_integers(in, target, in->shape.dims, HRF_MAX_RANK, &in->shape.rank));
    int32_t open = -1;
    for (int32_t i = 0; i < in->shape.rank; i++) {
        int64_t *dim = &in->shape.dims[i];
        if (*dim == 0 && !in->node->attributes.allow_zero) {
            if (i >= x->shape.rank)
                return hrf_infer_fail(in, "dimension %d copies one that the input lacks", (int)i);
            *dim = x->shape.dims[i];
        }
        if (*dim < -1 || (*dim == -1 && open >= 0))
            return hrf_infer_fail(in, "the wanted shape has the impossible size %lld at %d",
                                  (long long)*dim, (int)i);
        if (*dim == -1)
            open = i;
    }
    int64_t total = hrf_shape_count(&x->shape);
    if (open >= 0) {
        in->shape.dims[open] = 1;
        int64_t rest = hrf_shape_count(&in->shape);
        if (rest > 0 && total % rest == 0)
            in->shape.dims[open] = total / rest;
    }
    char text[128];
    hrf_shape_text(&in->shape, text);
    if (hrf_shape_count(&in->shape) != total)
        return hrf_infer_fail(in, "%lld elements do not make %s", (long long)total, text);
    return HRF_OK;
}

enum hrf_status hrf_infer_transpose(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    struct hrf_attributes *a = &in->node->attributes;
    if (a->n_axes == 0) {
        a->n_axes = x->rank;
        for (int32_t i = 0; i < x->rank; i++)
            a->axes[i] = x->rank - 1 - i;
    }
    if (a->n_axes != x->rank)
        return hrf_infer_fail(in, "perm has %d axes", (int)a->n_axes);
    HRF_TRY(hrf_infer_axes(in, x->rank));
    in->shape.rank = x->rank;
    for (int32_t i = 0; i < x->rank; i++)
        in->shape.dims[i] = x->dims[a->axes[i]];
    return HRF_OK;
}

enum hrf_status hrf_infer_squeeze(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_attributes *a = &in->node->attributes;
    HRF_TRY(hrf_infer_axes(in, x->rank));
    in->shape.rank = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        bool named = hrf_attributes_name_axis(a, i);
        if (named && x->dims[i] != 1)
            return hrf_infer_fail(in, "axis %d is %lld long, not 1", (int)i, (long long)x->dims[i]);
        if (!named && (a->n_axes > 0 || x->dims[i] != 1))
            in->shape.dims[in->shape.rank++] = x->dims[i];
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_unsqueeze(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_attributes *a = &in->node->attributes;
    if (a->n_axes < 1 || x->rank + a->n_axes > HRF_MAX_RANK)
        return hrf_infer_refuse(in, "adding %d axes to %d is not supported", (int)a->n_axes,
                                (int)x->rank);
    in->shape.rank = x->rank + a->n_axes;
    HRF_TRY(hrf_infer_axes(in, in->shape.rank));
    for (int32_t i = 0, from = 0; i < in->shape.rank; i++)
        in->shape.dims[i] = hrf_attributes_name_axis(a, i) ? 1 : x->dims[from++];
    return HRF_OK;
}

/* Spreads pads of some axes over all axes. */
static enum hrf_status complete_pads(struct hrf_inference *in, int32_t rank)
{
    struct hrf_attributes *a = &in->node->attributes;
    HRF_TRY(hrf_infer_axes(in, rank));
    int64_t pads[2 * HRF_MAX_RANK] = { 0 };
    for (int32_t i = 0; i < a->n_axes; i++) {
        pads[a->axes[i]] = a->pad.sizes[i];
        pads[rank + a->axes[i]] = a->pad.sizes[a->n_axes + i];
    }
    a->n_axes = rank;
    for (int32_t i = 0; i < rank; i++)
        a->axes[i] = i;
    for (int32_t i = 0; i < 2 * rank; i++)
        a->pad.sizes[i] = pads[i];
    return HRF_OK;
}

/* A copy of the input's own elements must find them. Source: numpy.pad. */
static bool pad_is_in_reach(enum hrf_pad_mode mode, int64_t size, int64_t pad)
{
    switch (mode) {
    case HRF_PAD_REFLECT:
        return pad < size || pad == 0;
    case HRF_PAD_WRAP:
        return pad <= size;
    default:
        return mode == HRF_PAD_CONSTANT || size > 0;
    }
}

enum hrf_status hrf_infer_pad(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    HRF_TRY(complete_pads(in, in->shape.rank));
    const int64_t *pads = in->node->attributes.pad.sizes;
    for (int32_t i = 0; i < in->shape.rank; i++) {
        int64_t begin = pads[i], end = pads[in->shape.rank + i];
        const int64_t size = in->shape.dims[i];
        const enum hrf_pad_mode mode = in->node->attributes.pad.mode;
        if (!pad_is_in_reach(mode, size, begin) || !pad_is_in_reach(mode, size, end))
            return hrf_infer_refuse(in, "pads of %lld and %lld reach beyond the %lld of axis %d",
                                    (long long)begin, (long long)end, (long long)size, (int)i);
        /* Negative pads cut off what is there. */
        const bool cuts = begin < 0 || end < 0;
        const bool may_cut = mode == HRF_PAD_CONSTANT && begin > -size && end > -size &&
                             -(begin < 0 ? begin : 0) - (end < 0 ? end : 0) < size;
        if ((cuts && !may_cut) || begin > HRF_MAX_ELEMENTS || end > HRF_MAX_ELEMENTS)
            return hrf_infer_refuse(in, "pads of %lld and %lld on axis %d are not supported",
                                    (long long)begin, (long long)end, (int)i);
        in->shape.dims[i] += begin + end;
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_gather(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    int64_t *axis = &in->node->attributes.axis;
    HRF_TRY(hrf_infer_axis(in, axis, x->shape.rank));
    if (indices->data == NULL || (indices->dtype != HRF_S64 && indices->dtype != HRF_S32))
        return hrf_infer_refuse(in, "the indices, %s must be integer constants",
                                hrf_infer_call(in, indices).text);
    int64_t dim = x->shape.dims[*axis], count = hrf_shape_count(&indices->shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = indices->dtype == HRF_S64 ? ((const int64_t *)indices->data)[i]
                                                  : ((const int32_t *)indices->data)[i];
        if (index < -dim || index >= dim)
            return hrf_infer_fail(in, "index %lld is outside the %lld of axis %lld",
                                  (long long)index, (long long)dim, (long long)*axis);
    }
    if (x->shape.rank - 1 + indices->shape.rank > HRF_MAX_RANK)
        return hrf_infer_fail(in, "the result has too many axes");
    in->shape.rank = 0;
    for (int32_t i = 0; i < x->shape.rank; i++) {
        if (i != *axis) {
            in->shape.dims[in->shape.rank++] = x->shape.dims[i];
            continue;
        }
        for (int32_t k = 0; k < indices->shape.rank; k++)
            in->shape.dims[in->shape.rank++] = indices->shape.dims[k];
    }
    return HRF_OK;
}

/* Of dy and indices, one for each of dy's along `axis`. */
enum hrf_status hrf_infer_gather_gradient(struct hrf_inference *in)
{
    const struct hrf_value *dy = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    const struct hrf_attributes *a = &in->node->attributes;
    in->shape = dy->shape;
    HRF_TRY(hrf_infer_axis(in, &in->node->attributes.axis, dy->shape.rank));
    if (indices->data == NULL || indices->dtype != HRF_S64 || indices->shape.rank != 1 ||
        indices->shape.dims[0] != dy->shape.dims[a->axis])
        return hrf_infer_fail(in, "the indices do not fit the gradient");
    for (int64_t i = 0; i < indices->shape.dims[0]; i++) {
        const int64_t index = ((const int64_t *)indices->data)[i];
        if (index < 0 || index >= a->length)
            return hrf_infer_fail(in, "index %lld is outside the %lld of axis %lld",
                                  (long long)index, (long long)a->length, (long long)a->axis);
    }
    in->shape.dims[a->axis] = a->length;
    return HRF_OK;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Brings one axis into its final form; returns the number of elements. Source: ONNX Slice. */
static int64_t slice_axis(int64_t dim, int64_t *start, int64_t *end, int64_t step)
{
    int64_t from = *start < 0 && *start >= -dim ? *start + dim : *start;
    int64_t to = *end < 0 && *end >= -dim ? *end + dim : *end;
    if (step > 0) {
        *start = clamp(from, 0, dim);
        *end = clamp(to, *start, dim);
        return *end - *start == 0 ? 0 : (*end - *start - 1) / step + 1;
    }
    *start = clamp(from, 0, dim - 1);
    to = clamp(to, -1, *start);
    int64_t span = *start - to;
    /* An end of -1 ("before the first element") would mean "the last element" if shapes were
     * inferred again. */
    *end = to < 0 ? INT64_MIN : to;
    return span == 0 ? 0 : (span - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1;
}

/* Equal parts, of which the last may be shorter. Source: ONNX Split, num_outputs. */
static enum hrf_status cut_parts(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    if (a->n_axes != 1 || a->slice.part < 0 || a->slice.part >= a->slice.n_parts)
        return hrf_infer_fail(in, "part %lld of %lld makes no sense", (long long)a->slice.part,
                              (long long)a->slice.n_parts);
    const int64_t size = in->shape.dims[a->axes[0]];
    const int64_t step = size / a->slice.n_parts + (size % a->slice.n_parts != 0);
    a->slice.starts[0] = clamp(a->slice.part * step, 0,
                               size); /* step is 1 where parts outnumber elements */
    a->slice.ends[0] = clamp(a->slice.starts[0] + step, 0, size);
    a->slice.steps[0] = 1;
    return HRF_OK;
}

enum hrf_status hrf_infer_slice(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    in->shape = hrf_infer_input(in, 0)->shape;
    HRF_TRY(hrf_infer_axes(in, in->shape.rank));
    if (a->slice.n_parts > 0)
        HRF_TRY(cut_parts(in));
    for (int32_t i = 0; i < a->n_axes; i++) {
        int64_t *dim = &in->shape.dims[a->axes[i]];
        if (a->slice.steps[i] == 0)
            return hrf_infer_fail(in, "the step of axis %lld is 0", (long long)a->axes[i]);
        const int64_t size = *dim;
        if (size == 0)
            continue;
        *dim = slice_axis(size, &a->slice.starts[i], &a->slice.ends[i], a->slice.steps[i]);
        a->slice.steps[i] = clamp(a->slice.steps[i], -size,
                                  size); /* a longer step selects one element, too */
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_resize(struct hrf_inference *in)
{
    const struct hrf_resize *r = &in->node->attributes.resize;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    in->shape = *x;
    for (int32_t i = 0; i < 4; i++) {
        const bool stays = r->scales[0] <= 0 && i < 2 && r->sizes[i] == 0;
        const double size = stays              ? (double)x->dims[i]
                            : r->scales[0] > 0 ? hrf_resize_size(r, x->dims[i], i)
                                               : (double)r->sizes[i];
        if (!(size >= 1 && size < 0x1p40))
            return hrf_infer_fail(in, "axis %d cannot be resized to %g", (int)i, size);
        in->shape.dims[i] = (int64_t)size;
        if (i >= 2)
            HRF_TRY(hrf_infer_check_side(in, i - 2, in->shape.dims[i]));
        if (r->antialias && in->shape.dims[i] < x->dims[i]) {
            in->remedy = "export with antialias=False";
            return hrf_infer_refuse(in, "antialias is not supported where the output is smaller");
        }
        if (i < 2 && in->shape.dims[i] != x->dims[i])
            return hrf_infer_refuse(in, "only rows and columns are resized, not axis %d", (int)i);
    }
    return HRF_OK;
}

static enum hrf_status check_block(struct hrf_inference *in)
{
    const int64_t block = in->node->attributes.block.size;
    in->shape = hrf_infer_input(in, 0)->shape;
    if (block < 1 || block > 1 << 15)
        return hrf_infer_fail(in, "a block of %lld makes no sense", (long long)block);
    return HRF_OK;
}

enum hrf_status hrf_infer_depth_to_space(struct hrf_inference *in)
{
    const int64_t block = in->node->attributes.block.size;
    HRF_TRY(check_block(in));
    if (in->shape.dims[1] % (block * block) != 0)
        return hrf_infer_fail(in, "%lld channels are no blocks of %lld x %lld",
                              (long long)in->shape.dims[1], (long long)block, (long long)block);
    in->shape.dims[1] /= block * block; /* as many elements as before: nothing overflows */
    in->shape.dims[2] *= block;
    in->shape.dims[3] *= block;
    return HRF_OK;
}

enum hrf_status hrf_infer_space_to_depth(struct hrf_inference *in)
{
    const int64_t block = in->node->attributes.block.size;
    HRF_TRY(check_block(in));
    if (in->shape.dims[2] % block != 0 || in->shape.dims[3] % block != 0)
        return hrf_infer_fail(in, "the rows and columns are no multiples of %lld",
                              (long long)block);
    in->shape.dims[1] *= block * block;
    in->shape.dims[2] /= block;
    in->shape.dims[3] /= block;
    return HRF_OK;
}

enum hrf_status hrf_infer_reduction(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    struct hrf_attributes *a = &in->node->attributes;
    HRF_TRY(hrf_infer_axes(in, x->rank));
    if (a->n_axes == 0) {
        a->n_axes = x->rank;
        for (int32_t i = 0; i < x->rank; i++)
            a->axes[i] = i;
    }
    in->shape.rank = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (!hrf_attributes_name_axis(a, i))
            in->shape.dims[in->shape.rank++] = x->dims[i];
        else if (a->keep_dims)
            in->shape.dims[in->shape.rank++] = 1;
    }
    return HRF_OK;
}
