/* attribute_inputs.c - newer opsets pass former attributes as constant inputs; this reads those
 * inputs into the attributes. Which input an attribute is, the operator table says (op.h). */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/op.h"

#include <math.h>

enum hrf_status hrf_infer_integers(struct hrf_inference *in, const struct hrf_value *value,
                                   int64_t *out, int32_t max, int32_t *n)
{
    int64_t count = hrf_shape_count(&value->shape);
    if (value->dtype != HRF_S64 && value->dtype != HRF_S32)
        return hrf_infer_fail(in, "%s holds %s, not integers", hrf_infer_call(in, value).text,
                              hrf_dtype_name(value->dtype));
    if (value->shape.rank > 1 || count < 0 || count > max)
        return hrf_infer_fail(in, "%s is not a list of at most %d numbers",
                              hrf_infer_call(in, value).text, (int)max);
    for (int64_t i = 0; i < count; i++)
        out[i] = value->dtype == HRF_S64 ? ((const int64_t *)value->data)[i]
                                         : ((const int32_t *)value->data)[i];
    *n = (int32_t)count;
    return HRF_OK;
}

/* The input that carries that member of struct hrf_attributes; NULL: the node has none. */
#define INPUT_OF(in, member) input_at(in, offsetof(struct hrf_attributes, member))
static const struct hrf_value *input_at(const struct hrf_inference *in, size_t offset)
{
    const struct hrf_op_info *info = hrf_op_info(in->node->op);
    for (int32_t i = 0; i < info->n_attributes; i++)
        if (info->attributes[i].offset == offset && info->attributes[i].input > 0)
            return hrf_infer_input(in, info->attributes[i].input);
    return NULL;
}

static enum hrf_status read_axes(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *value = INPUT_OF(in, axes);
    if (value == NULL)
        return HRF_OK;
    return hrf_infer_integers(in, value, a->axes, HRF_MAX_RANK, &a->n_axes);
}

/* Axes, and numbers: CLIP's bounds, PAD's value. */
static enum hrf_status read_plain(struct hrf_inference *in)
{
    const struct hrf_op_info *info = hrf_op_info(in->node->op);
    for (int32_t i = 0; i < info->n_attributes; i++) {
        const struct hrf_attribute *row = &info->attributes[i];
        const bool is_number = row->type == HRF_ATTRIBUTE_FLOAT && row->n == 1;
        const struct hrf_value *value = is_number ? input_at(in, row->offset) : NULL;
        if (value == NULL)
            continue;
        if (hrf_shape_count(&value->shape) != 1)
            return hrf_infer_fail(in, "%s is not one number", hrf_infer_call(in, value).text);
        *(float *)hrf_attribute_at(&in->node->attributes, row) = (float)hrf_infer_number(value, 0);
    }
    return read_axes(in);
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
    const struct hrf_value *pads = INPUT_OF(in, pad.sizes[0]);
    if (pads == NULL)
        return HRF_OK;
    int32_t n;
    HRF_TRY(hrf_infer_integers(in, pads, a->pad.sizes, 2 * HRF_MAX_RANK, &n));
    name_first_axes(a, n / 2);
    HRF_TRY(read_plain(in));
    if (n != 2 * a->n_axes)
        return hrf_infer_fail(in, "%d pads do not fit %d axes", (int)n, (int)a->n_axes);
    return HRF_OK;
}

static enum hrf_status read_slice(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *starts = INPUT_OF(in, slice.starts[0]);
    const struct hrf_value *ends = INPUT_OF(in, slice.ends[0]);
    const struct hrf_value *steps = INPUT_OF(in, slice.steps[0]);
    if (starts == NULL || ends == NULL)
        return hrf_infer_fail(in, "needs both starts and ends");
    int32_t n, n_ends, n_steps;
    HRF_TRY(hrf_infer_integers(in, starts, a->slice.starts, HRF_MAX_RANK, &n));
    HRF_TRY(hrf_infer_integers(in, ends, a->slice.ends, HRF_MAX_RANK, &n_ends));
    name_first_axes(a, n);
    HRF_TRY(read_axes(in));
    n_steps = n;
    for (int32_t i = 0; i < n; i++)
        a->slice.steps[i] = 1;
    if (steps != NULL)
        HRF_TRY(hrf_infer_integers(in, steps, a->slice.steps, HRF_MAX_RANK, &n_steps));
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
    const struct hrf_value *scales = INPUT_OF(in, resize.scales[0]);
    const struct hrf_value *sizes = INPUT_OF(in, resize.sizes[0]);
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

/* The operator's row says which inputs shape inference reads. */
static enum hrf_status check_known(struct hrf_inference *in)
{
    for (int32_t k = 0; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (hrf_op_role(in->node->op, k) != HRF_INPUT_KNOWN || value == NULL || value->data != NULL)
            continue;
        in->remedy = "export the model for one image size, or take the image's numbers out of it";
        return hrf_infer_refuse(in, "%s must be known when the model is loaded",
                                hrf_infer_call(in, value).text);
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_read_inputs(struct hrf_inference *in)
{
    const int32_t first = hrf_op_info(in->node->op)->first_attribute_input;
    HRF_TRY(check_known(in));
    if (first == 0 || in->node->n_inputs <= first)
        return HRF_OK;
    static hrf_infer_rule *const rules[HRF_N_OPS] = {
        [HRF_OP_PAD] = read_pad,
        [HRF_OP_SLICE] = read_slice,
        [HRF_OP_RESIZE] = read_resize,
    };
    hrf_infer_rule *const rule = rules[in->node->op];
    return rule != NULL ? rule(in) : read_plain(in);
}

enum hrf_status hrf_node_read_attribute_inputs(struct hrf_graph *graph, int32_t node,
                                               struct hrf_error *err)
{
    struct hrf_inference in = { .graph = graph, .node = &graph->nodes[node], .err = err };
    return hrf_infer_read_inputs(&in);
}
