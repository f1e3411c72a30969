/* lower_values.c - the two forms of a value in the lowered graph, and the conversions between
 * them (lower_private.h). */
#include "engine/ir/number.h"
#include "engine/passes/lower_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hrf_lower_quantization(float low, float high, bool signed_only, enum hrf_dtype *type,
                            struct hrf_quantization *out)
{
    const bool is_unsigned = low >= 0 && !signed_only;
    const float most = -low > high ? -low : high;
    const float scale = most / (is_unsigned ? 255.0f : 127.0f);
    *type = is_unsigned ? HRF_U8 : HRF_S8;
    /* If the range holds only zeros, any scale is exact. */
    *out = (struct hrf_quantization){ .scale = scale >= 0x1p-100f ? scale : 1.0f };
}

int hrf_lower_compare_ranges(const void *a, const void *b)
{
    const struct hrf_range *const *x = a, *const *y = b;
    return strcmp((*x)->value, (*y)->value);
}

const struct hrf_range *hrf_lower_range(const struct lowering *l, int32_t value)
{
    const struct hrf_range wanted = { .value = l->from->values[value].name };
    const struct hrf_range *key = &wanted, **found = NULL;
    if (l->how->n_ranges > 0)
        found = bsearch(&key, l->ranges, (size_t)l->how->n_ranges, sizeof key,
                        hrf_lower_compare_ranges);
    return found != NULL ? *found : NULL;
}

const struct hrf_value *hrf_lower_own_form(const struct lowering *l, int32_t value)
{
    return l->own_forms[value] >= 0 ? &l->from->values[l->own_forms[value]] : NULL;
}

/* What a message calls a value: its node, since an exporter's names of tensors mean nothing to its
 * user, and a pass's mean nothing to anybody. */
struct called {
    char text[192];
};
static struct called call(const struct hrf_graph *graph, int32_t value)
{
    struct called called;
    const int32_t n = graph->values[value].producer;
    if (n < 0)
        snprintf(called.text, sizeof called.text, "input '%.120s' of the model",
                 graph->values[value].name);
    else
        snprintf(called.text, sizeof called.text, "what node '%.120s' (%s) gives",
                 graph->nodes[n].name, hrf_op_name(graph->nodes[n].op));
    return called;
}

enum hrf_status hrf_lower_form(const struct lowering *l, int32_t value, enum hrf_dtype *type,
                               struct hrf_quantization *q, struct hrf_error *err)
{
    *type = l->how->type;
    *q = (struct hrf_quantization){ .scale = 0 };
    if (l->how->type != HRF_S8)
        return HRF_OK;
    if (l->brings_scales) {
        const struct hrf_value *own = hrf_lower_own_form(l, value);
        *type = own->dtype;
        *q = own->quantization;
        return HRF_OK;
    }
    const struct hrf_range *range = hrf_lower_range(l, value);
    if (range == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "the INT8 scales have no range for %s: they belong to another model, "
                             "so calibrate again",
                             call(l->from, value).text);
    if (!isfinite(range->low) || !isfinite(range->high) || range->low > range->high)
        return hrf_error_set(err, HRF_E_USER,
                             "%s was seen to reach from %g to %g: the model or the calibration "
                             "sample gives numbers that are not finite; calibrate on other images, "
                             "or use another precision than int8",
                             call(l->from, value).text, (double)range->low, (double)range->high);
    hrf_lower_quantization(range->low, range->high, l->how->signed_only, type, q);
    return HRF_OK;
}

enum hrf_status hrf_lower_add_value(struct lowering *l, int32_t value, const char *suffix,
                                    enum hrf_dtype type, struct hrf_quantization q, int32_t *index,
                                    struct hrf_error *err)
{
    const struct hrf_value *from = &l->from->values[value];
    HRF_AUTO_FREE char *name = hrf_format("%s%s", from->name, suffix);
    HRF_TRY(hrf_graph_add_value(l->to, name, type, &from->shape, NULL, index, err));
    l->to->values[*index].quantization = q;
    return HRF_OK;
}

enum hrf_status hrf_lower_convert(struct lowering *l, int32_t value, bool down, int32_t input,
                                  int32_t output, struct hrf_error *err)
{
    struct hrf_attributes attributes = hrf_attributes_default();
    enum hrf_op op = down ? HRF_OP_QUANTIZE : HRF_OP_DEQUANTIZE;
    attributes.to = l->to->values[output].dtype;
    if (l->how->type != HRF_S8)
        op = HRF_OP_CAST;
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", l->from->values[value].name,
                                          down ? "narrow" : "widen");
    return hrf_lower_add_node(l, op, name, &input, 1, output, &attributes, err);
}

enum hrf_status hrf_lower_add_node(struct lowering *l, enum hrf_op op, const char *name,
                                   const int32_t *inputs, int32_t n_inputs, int32_t output,
                                   const struct hrf_attributes *attributes, struct hrf_error *err)
{
    HRF_TRY(hrf_graph_add_node(l->to, op, name, inputs, n_inputs, &output, 1, attributes, err));
    if (l->node != NULL) {
        l->to->nodes[l->to->n_nodes - 1].origin = l->node->origin;
        l->to->nodes[l->to->n_nodes - 1].is_backward = l->node->is_backward;
    }
    return HRF_OK;
}

enum hrf_status hrf_lower_get_full(struct lowering *l, int32_t value, int32_t *index,
                                   struct hrf_error *err)
{
    const struct hrf_value *from = &l->from->values[value];
    if (l->full[value] < 0 && from->data != NULL)
        HRF_TRY(hrf_graph_share_value(l->to, from, from->name, &l->full[value], err));
    if (l->full[value] < 0) {
        HRF_TRY(hrf_lower_add_value(l, value, ".f32", HRF_F32,
                                    (struct hrf_quantization){ .scale = 0 }, index, err));
        HRF_TRY(hrf_lower_convert(l, value, false, l->low[value], *index, err));
        l->full[value] = *index;
    }
    *index = l->full[value];
    return HRF_OK;
}

/* The smallest and the largest of the integers. */
static void find_reach(const struct hrf_value *value, int64_t n, float *low, float *high)
{
    *low = *high = 0;
    for (int64_t i = 0; i < n; i++) {
        const float q = rintf(((const float *)value->data)[i] / value->quantization.scale);
        *low = fminf(*low, q);
        *high = fmaxf(*high, q);
    }
}

bool hrf_lower_is_integers(const struct hrf_value *value)
{
    const float scale = value->quantization.scale;
    float low, high;
    if (value->data == NULL || value->dtype != HRF_F32 || !(scale >= 0x1p-100f) ||
        !(scale <= 0x1p100f))
        return false;
    find_reach(value, hrf_shape_count(&value->shape), &low, &high);
    return high - low <= 255;
}

/* The integers of a constant: S8 if they fit, else U8 with a zero point. */
static enum hrf_status add_integers(struct lowering *l, int32_t value, int32_t *index,
                                    struct hrf_error *err)
{
    const struct hrf_value *from = &l->from->values[value];
    const int64_t n = hrf_shape_count(&from->shape);
    float low, high;
    find_reach(from, n, &low, &high);
    const bool is_signed = low >= -128 && high <= 127;
    const enum hrf_dtype type = is_signed ? HRF_S8 : HRF_U8;
    const struct hrf_quantization q = { .scale = from->quantization.scale,
                                        .zero_point = is_signed ? 0 : (int32_t)-low };
    HRF_AUTO_FREE char *name = hrf_format("%s.int8", from->name);
    HRF_AUTO_FREE void *integers = hrf_try_alloc((size_t)n + 1);
    HRF_CHECK_MEMORY(integers != NULL, err, "no memory to lower a graph");
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)integers)[i] =
            (uint8_t)(hrf_quantize(((const float *)from->data)[i], type, &q) & 0xff);
    HRF_TRY(hrf_graph_take_value(l->to, name, type, &from->shape, &integers, index, err));
    l->to->values[*index].quantization = q;
    return HRF_OK;
}

enum hrf_status hrf_lower_get_low(struct lowering *l, int32_t value, int32_t *index,
                                  struct hrf_error *err)
{
    if (l->low[value] < 0 && l->from->values[value].data != NULL)
        HRF_TRY(add_integers(l, value, &l->low[value], err));
    if (l->low[value] < 0) {
        enum hrf_dtype type;
        struct hrf_quantization q;
        HRF_TRY(hrf_lower_form(l, value, &type, &q, err));
        HRF_TRY(hrf_lower_add_value(l, value, ".low", type, q, index, err));
        HRF_TRY(hrf_lower_convert(l, value, true, l->full[value], *index, err));
        l->low[value] = *index;
    }
    *index = l->low[value];
    return HRF_OK;
}
