/* attribute_inputs.c - newer opsets pass former attributes as constant inputs; this reads those
 * inputs into the attributes. */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/op.h"

#include <float.h>
#include <math.h>

enum hrf_status hrf_infer_integers(struct hrf_inference *in, const struct hrf_value *value,
                                   int64_t *out, int32_t max, int32_t *n)
{
    int64_t count = hrf_shape_count(&value->shape);
    if (value->dtype != HRF_S64 && value->dtype != HRF_S32)
        return hrf_infer_fail(in, "'%s' holds %s, not integers", value->name,
                              hrf_dtype_name(value->dtype));
    if (value->shape.rank > 1 || count < 0 || count > max)
        return hrf_infer_fail(in, "'%s' is not a list of at most %d numbers", value->name,
                              (int)max);
    for (int64_t i = 0; i < count; i++)
        out[i] = value->dtype == HRF_S64 ? ((const int64_t *)value->data)[i]
                                         : ((const int32_t *)value->data)[i];
    *n = (int32_t)count;
    return HRF_OK;
}

static enum hrf_status read_float(struct hrf_inference *in, int32_t k, float *out)
{
    const struct hrf_value *value = hrf_infer_input(in, k);
    if (value == NULL)
        return HRF_OK;
    if (hrf_shape_count(&value->shape) != 1)
        return hrf_infer_fail(in, "'%s' is not one number", value->name);
    *out = (float)hrf_infer_number(value, 0);
    return HRF_OK;
}

static enum hrf_status read_axes(struct hrf_inference *in, int32_t k)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *value = hrf_infer_input(in, k);
    if (value == NULL)
        return HRF_OK;
    return hrf_infer_integers(in, value, a->axes, HRF_MAX_RANK, &a->n_axes);
}

static void name_first_axes(struct hrf_attributes *a, int32_t n)
{
    a->n_axes = n;
    for (int32_t i = 0; i < n; i++)
        a->axes[i] = i;
}

static enum hrf_status read_pad(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *pads = hrf_infer_input(in, 1);
    if (pads == NULL)
        return HRF_OK;
    int32_t n;
    HRF_TRY(hrf_infer_integers(in, pads, a->pads, 2 * HRF_MAX_RANK, &n));
    HRF_TRY(read_float(in, 2, &a->value));
    name_first_axes(a, n / 2);
    HRF_TRY(read_axes(in, 3));
    if (n != 2 * a->n_axes)
        return hrf_infer_fail(in, "%d pads do not fit %d axes", (int)n, (int)a->n_axes);
    return HRF_OK;
}

static enum hrf_status read_slice(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *starts = hrf_infer_input(in, 1), *ends = hrf_infer_input(in, 2);
    const struct hrf_value *steps = hrf_infer_input(in, 4);
    if (starts == NULL || ends == NULL)
        return hrf_infer_fail(in, "needs both starts and ends");
    int32_t n, n_ends, n_steps;
    HRF_TRY(hrf_infer_integers(in, starts, a->starts, HRF_MAX_RANK, &n));
    HRF_TRY(hrf_infer_integers(in, ends, a->ends, HRF_MAX_RANK, &n_ends));
    name_first_axes(a, n);
    HRF_TRY(read_axes(in, 3));
    n_steps = n;
    for (int32_t i = 0; i < n; i++)
        a->steps[i] = 1;
    if (steps != NULL)
        HRF_TRY(hrf_infer_integers(in, steps, a->steps, HRF_MAX_RANK, &n_steps));
    if (n_ends != n || a->n_axes != n || n_steps != n)
        return hrf_infer_fail(in, "%d starts, %d ends, %d axes and %d steps do not fit together",
                              (int)n, (int)n_ends, (int)a->n_axes, (int)n_steps);
    return HRF_OK;
}

/* Opset 18 may name the axes that scales or sizes belong to; the others stay. */
static enum hrf_status read_resize_of_axes(struct hrf_inference *in, const struct hrf_value *given,
                                           bool are_sizes)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    if (x->rank != 4 || hrf_shape_count(&given->shape) != a->n_axes)
        return hrf_infer_refuse(in, "needs a scale or size for each of the axes of N, C, H, W");
    HRF_TRY(hrf_infer_axes(in, 4));
    for (int32_t i = 0; i < 4; i++) {
        a->resize.scales[i] = are_sizes ? 0 : 1;
        a->resize.sizes[i] = x->dims[i];
    }
    for (int32_t i = 0; i < a->n_axes; i++) {
        const double number = hrf_infer_number(given, i);
        if (are_sizes && number >= 0 && number < 0x1p48)
            a->resize.sizes[a->axes[i]] = (int64_t)number;
        else if (are_sizes)
            return hrf_infer_fail(in, "the size %g makes no sense", number);
        else
            a->resize.scales[a->axes[i]] = (float)number;
    }
    return HRF_OK;
}

/* Sizes that keep the aspect ratio: one scale for all axes that are resized, the smallest or the
 * largest of theirs. Source: ONNX Resize, keep_aspect_ratio_policy. */
static void keep_aspect_ratio(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    struct hrf_resize *r = &a->resize;
    const struct hrf_value *image = hrf_infer_input(in, 0); /* missing in a file that is wrong */
    const bool is_largest = r->policy == HRF_RESIZE_NOT_SMALLER;
    double scale = 0;
    if (r->policy == HRF_RESIZE_STRETCH || r->scales[0] > 0 || image == NULL ||
        image->shape.rank != 4)
        return;
    const struct hrf_shape *x = &image->shape;
    for (int32_t i = 2; i < 4; i++) {
        const double own = (double)r->sizes[i] / (double)x->dims[i];
        scale = i == 2 || (own > scale) == is_largest ? own : scale;
    }
    for (int32_t i = 2; i < 4; i++) {
        const double size = floor(scale * (double)x->dims[i] + 0.5);
        r->sizes[i] = size >= 1 && size < 0x1p48 ? (int64_t)size : -1; /* refused by the rule */
    }
}

/* Input 1, the region of interest, only matters in a mode that the importer refuses. */
static enum hrf_status read_resize(struct hrf_inference *in)
{
    struct hrf_resize *r = &in->node->attributes.resize;
    const struct hrf_value *scales = hrf_infer_input(in, 2), *sizes = hrf_infer_input(in, 3);
    const bool has_scales = scales != NULL && hrf_shape_count(&scales->shape) > 0;
    const bool has_sizes = sizes != NULL && hrf_shape_count(&sizes->shape) > 0;
    int32_t n = 4;
    if (has_scales == has_sizes)
        return hrf_infer_fail(in, "needs either scales or sizes");
    if (in->node->attributes.n_axes > 0) {
        HRF_TRY(read_resize_of_axes(in, has_sizes ? sizes : scales, has_sizes));
        keep_aspect_ratio(in);
        return HRF_OK;
    }
    if (has_sizes) {
        r->scales[0] = 0;
        HRF_TRY(hrf_infer_integers(in, sizes, r->sizes, 4, &n));
        if (n == 4)
            keep_aspect_ratio(in);
    } else if (scales->dtype != HRF_F32 || hrf_shape_count(&scales->shape) != 4) {
        n = 0;
    } else {
        for (int32_t i = 0; i < 4; i++)
            r->scales[i] = ((const float *)scales->data)[i];
        if (!(r->scales[0] > 0))
            return hrf_infer_fail(in, "the first scale is %g", (double)r->scales[0]);
    }
    if (n != 4)
        return hrf_infer_refuse(in, "needs a scale or size for each of N, C, H, W");
    return HRF_OK;
}

static enum hrf_status read_clip(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    HRF_TRY(read_float(in, 1, &a->activation_min));
    return read_float(in, 2, &a->activation_max);
}

enum hrf_status hrf_infer_attribute_inputs(struct hrf_inference *in)
{
    int32_t first = hrf_op_info(in->node->op)->first_attribute_input;
    if (first == 0 || in->node->n_inputs <= first)
        return HRF_OK;
    for (int32_t k = first; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value != NULL && value->data == NULL)
            return hrf_infer_refuse(in, "'%s' must be known when the model is loaded", value->name);
    }
    switch (in->node->op) {
    case HRF_OP_CLIP:
        return read_clip(in);
    case HRF_OP_PAD:
        return read_pad(in);
    case HRF_OP_SLICE:
        return read_slice(in);
    case HRF_OP_RESIZE:
        return read_resize(in);
    default: /* SQUEEZE, UNSQUEEZE, REDUCE_... */
        return read_axes(in, 1);
    }
}

enum hrf_status hrf_node_read_attribute_inputs(struct hrf_graph *graph, int32_t node,
                                               struct hrf_error *err)
{
    struct hrf_inference in = { .graph = graph, .node = &graph->nodes[node], .err = err };
    return hrf_infer_attribute_inputs(&in);
}
