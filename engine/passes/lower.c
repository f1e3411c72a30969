/* lower.c - lowering: decides which nodes compute in fewer bits, and builds the lowered graph
 * (lower.h). */
#include "engine/passes/lower.h"

#include "base/args.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"
#include "engine/passes/lower_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When an operator is lowered. */
enum kind {
    KIND_PRODUCT, /* always, together with its inputs */
    KIND_FOLLOWS, /* if its inputs are lowered */
    KIND_NEVER
};

static enum kind kind_of(const struct hrf_lowering *how, enum hrf_op op)
{
    switch (op) {
    case HRF_OP_CONV:
    case HRF_OP_CONV_TRANSPOSE:
    case HRF_OP_GEMM:
        return KIND_PRODUCT;
    case HRF_OP_SOFTMAX:
    case HRF_OP_LOG_SOFTMAX:
    case HRF_OP_PERFORMER_MAX: /* sums over whole images need float32 */
    case HRF_OP_PERFORMER_STATE:
    case HRF_OP_PERFORMER_APPLY:
    case HRF_OP_CAST:
    case HRF_OP_QUANTIZE: /* S8 handles QUANTIZE and DEQUANTIZE separately */
    case HRF_OP_DEQUANTIZE:
        return KIND_NEVER;
    case HRF_OP_ADD:
    case HRF_OP_SUB:
    case HRF_OP_MUL:
    case HRF_OP_BATCH_NORM:
    case HRF_OP_MAX_POOL:
    case HRF_OP_AVERAGE_POOL:
    case HRF_OP_GLOBAL_AVERAGE_POOL:
    case HRF_OP_GLOBAL_MAX_POOL:
        return KIND_FOLLOWS;
    default:
        return how->type == HRF_S8 && !hrf_op_is_unary(op) && !hrf_op_is_move(op) ? KIND_NEVER
                                                                                  : KIND_FOLLOWS;
    }
}

/* True if the operator only selects or reorders elements of its input, so that the scale stays. */
static bool keeps_scale(enum hrf_op op)
{
    return op == HRF_OP_MAX_POOL || op == HRF_OP_GLOBAL_MAX_POOL ||
           (hrf_op_is_move(op) && op != HRF_OP_CONCAT);
}

struct lowering {
    const struct hrf_graph *from;
    const struct hrf_lowering *how;
    struct hrf_graph *to;
    int32_t *low,
        *full; /* [n_values of from]: lowered and float32 form of the value in `to`; -1: none */
    bool *is_useful; /* [n_values]: a lowered product will read it, maybe through other nodes */
    const struct hrf_range **ranges; /* how->ranges in the order of their names */
    int32_t *own_forms;              /* hrf_lower_own_forms(); NULL without brings_scales */
    bool brings_scales;              /* S8 with the scales of the model */
    float **smoothing;               /* [n_values]: hrf_lower_find_smoothing(); NULL: none */
    bool *is_smoothed;               /* [n_values]: the value's producer has divided it already */
    struct hrf_strbuf *notes;
    char why[160]; /* a reason with numbers, until it is noted */
};

/* ---- values ---- */

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

static int compare_ranges(const void *a, const void *b)
{
    const struct hrf_range *const *x = a, *const *y = b;
    return strcmp((*x)->value, (*y)->value);
}

static const struct hrf_range *find_range(const struct lowering *l, int32_t value)
{
    const struct hrf_range wanted = { .value = l->from->values[value].name };
    const struct hrf_range *key = &wanted, **found = NULL;
    if (l->how->n_ranges > 0)
        found = bsearch(&key, l->ranges, (size_t)l->how->n_ranges, sizeof key, compare_ranges);
    return found != NULL ? *found : NULL;
}

static const struct hrf_value *own_form(const struct lowering *l, int32_t value)
{
    return l->own_forms[value] >= 0 ? &l->from->values[l->own_forms[value]] : NULL;
}

static enum hrf_status choose_form(const struct lowering *l, int32_t value, enum hrf_dtype *type,
                                   struct hrf_quantization *q, struct hrf_error *err)
{
    const char *name = l->from->values[value].name;
    *type = l->how->type;
    *q = (struct hrf_quantization){ .scale = 0 };
    if (l->how->type != HRF_S8)
        return HRF_OK;
    if (l->brings_scales) {
        const struct hrf_value *own = own_form(l, value);
        *type = own->dtype;
        *q = own->quantization;
        return HRF_OK;
    }
    const struct hrf_range *range = find_range(l, value);
    if (range == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "the INT8 scales have no range for tensor '%s'; they belong to "
                             "another model, so calibrate again",
                             name);
    if (!isfinite(range->low) || !isfinite(range->high) || range->low > range->high)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' was seen to reach from %g to %g: the model or the "
                             "calibration sample gives numbers that are not finite",
                             name, (double)range->low, (double)range->high);
    hrf_lower_quantization(range->low, range->high, l->how->signed_only, type, q);
    return HRF_OK;
}

static enum hrf_status add_value(struct lowering *l, int32_t value, const char *suffix,
                                 enum hrf_dtype type, struct hrf_quantization q, int32_t *index,
                                 struct hrf_error *err)
{
    const struct hrf_value *from = &l->from->values[value];
    HRF_AUTO_FREE char *name = hrf_format("%s%s", from->name, suffix);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory to lower a graph");
    HRF_TRY(hrf_graph_add_value(l->to, name, type, &from->shape, NULL, index, err));
    l->to->values[*index].quantization = q;
    return HRF_OK;
}

static enum hrf_status add_conversion(struct lowering *l, int32_t value, bool down, int32_t input,
                                      int32_t output, struct hrf_error *err)
{
    struct hrf_attributes attributes = hrf_attributes_default();
    enum hrf_op op = down ? HRF_OP_QUANTIZE : HRF_OP_DEQUANTIZE;
    attributes.to = l->to->values[output].dtype;
    if (l->how->type != HRF_S8)
        op = HRF_OP_CAST;
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", l->from->values[value].name,
                                          down ? "narrow" : "widen");
    HRF_CHECK_MEMORY(name != NULL, err, "no memory to lower a graph");
    return hrf_graph_add_node(l->to, op, name, &input, 1, &output, 1, &attributes, err);
}

static enum hrf_status get_full(struct lowering *l, int32_t value, int32_t *index,
                                struct hrf_error *err)
{
    const struct hrf_value *from = &l->from->values[value];
    if (l->full[value] < 0 && from->data != NULL)
        HRF_TRY(hrf_graph_share_value(l->to, from, from->name, &l->full[value], err));
    if (l->full[value] < 0) {
        HRF_TRY(add_value(l, value, ".f32", HRF_F32, (struct hrf_quantization){ .scale = 0 }, index,
                          err));
        HRF_TRY(add_conversion(l, value, false, l->low[value], *index, err));
        l->full[value] = *index;
    }
    *index = l->full[value];
    return HRF_OK;
}

static enum hrf_status get_low(struct lowering *l, int32_t value, int32_t *index,
                               struct hrf_error *err)
{
    if (l->low[value] < 0) {
        enum hrf_dtype type;
        struct hrf_quantization q;
        HRF_TRY(choose_form(l, value, &type, &q, err));
        HRF_TRY(add_value(l, value, ".low", type, q, index, err));
        HRF_TRY(add_conversion(l, value, true, l->full[value], *index, err));
        l->low[value] = *index;
    }
    *index = l->low[value];
    return HRF_OK;
}

/* ---- decisions ---- */

static bool is_constant(const struct hrf_graph *graph, const struct hrf_node *node, int32_t i)
{
    return i < node->n_inputs && node->inputs[i] >= 0 &&
           graph->values[node->inputs[i]].data != NULL;
}

static bool has(const struct hrf_node *node, int32_t i)
{
    return i < node->n_inputs && node->inputs[i] >= 0;
}

/* Why constant weights stay in float32 rather than F16 or B16; NULL: the type holds them. Weights
 * that are all too small would lose their digits, or become 0. */
static const char *refuse_weights(struct lowering *l, const struct hrf_value *weights)
{
    const enum hrf_dtype type = l->how->type;
    const int64_t n = hrf_shape_count(&weights->shape);
    const float *w = weights->data;
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(w[i]));
    if (isinf(hrf_round_to(type, most)))
        snprintf(l->why, sizeof l->why, "its weights go up to %g, %s to %g", (double)most,
                 hrf_dtype_name(type), (double)hrf_dtype_most(type));
    else if (most > 0 && most < hrf_dtype_least(type))
        snprintf(l->why, sizeof l->why,
                 "its weights are at most %g, and %s has all of its digits only from %g on",
                 (double)most, hrf_dtype_name(type), (double)hrf_dtype_least(type));
    else
        return NULL;
    return l->why;
}

/* The reason why a product must stay in float32; NULL: it can be lowered. */
static const char *refuse_product(struct lowering *l, const struct hrf_node *node)
{
    enum { MOST_TERMS = 65000 }; /* terms of at most 255 * 128: the sum fits into 32 bits */
    const struct hrf_graph *graph = l->from;
    const struct hrf_attributes *a = &node->attributes;
    if (!is_constant(graph, node, HRF_CONV_WEIGHTS))
        return l->how->type == HRF_S8 ? "its weights are computed" : NULL;
    if (has(node, HRF_CONV_BIAS) && !is_constant(graph, node, HRF_CONV_BIAS))
        return "its bias is computed";
    if (l->how->type != HRF_S8)
        return refuse_weights(l, &graph->values[node->inputs[HRF_CONV_WEIGHTS]]);
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const int64_t n = node->op == HRF_OP_GEMM ? w->dims[a->transpose_b ? 0 : 1]
                                              : graph->values[node->outputs[0]].shape.dims[1];
    if (hrf_shape_count(w) / n > MOST_TERMS)
        return "its sums are too long for 32 bits";
    if (node->op != HRF_OP_GEMM)
        return NULL;
    if (a->transpose_a)
        return "its first matrix is transposed";
    if (has(node, HRF_CONV_BIAS) &&
        hrf_shape_count(&graph->values[node->inputs[HRF_CONV_BIAS]].shape) != n)
        return "its bias is a matrix";
    return NULL;
}

static bool inputs_are_low(const struct lowering *l, const struct hrf_node *node)
{
    bool any = false;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0 || l->from->values[node->inputs[i]].data != NULL)
            continue;
        if (l->low[node->inputs[i]] < 0)
            return false;
        any = true;
    }
    return any;
}

/* The same for a model that was quantised elsewhere. */
static const char *refuse_own(const struct lowering *l, const struct hrf_node *node)
{
    const bool is_product = kind_of(l->how, node->op) == KIND_PRODUCT;
    if (!inputs_are_low(l, node))
        return "the model gives its input no scale";
    if (is_product && !has(node, HRF_CONV_SCALES))
        return "the model gives its weights no scales that 8 bits can use";
    if (is_product && node->op == HRF_OP_GEMM && node->attributes.alpha <= 0)
        return "its factor is not above 0";
    if (!is_product && !keeps_scale(node->op) && own_form(l, node->outputs[0]) == NULL)
        return "the model gives its result no scale";
    return NULL;
}

static bool names_value(const struct hrf_graph *graph, const char *name, int32_t value)
{
    return value >= 0 && strcmp(graph->values[value].name, name) == 0;
}

/* True if `keep` names the node, a value that it reads, or, if its result would be lowered too, a
 * value that it computes. */
static bool is_kept_as(const struct lowering *l, const struct hrf_node *node, const char *name)
{
    if (strcmp(name, node->name) == 0)
        return true;
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (names_value(l->from, name, node->inputs[i]))
            return true;
    return kind_of(l->how, node->op) != KIND_PRODUCT &&
           names_value(l->from, name, node->outputs[0]);
}

/* The reason why the node is kept in float32; NULL: it is not. */
static const char *why_kept(const struct lowering *l, const struct hrf_node *node)
{
    for (int32_t i = 0; i < l->how->n_keep; i++)
        if (is_kept_as(l, node, l->how->keep[i]))
            return l->how->keep_reasons != NULL ? l->how->keep_reasons[i] : "asked for";
    return NULL;
}

/* The name of a node or computed value that is nearest to the given one; NULL: none is near, or no
 * memory. */
static const char *nearest_name(const struct hrf_graph *graph, const char *name)
{
    const size_t n = (size_t)graph->n_nodes + (size_t)graph->n_values;
    HRF_AUTO_FREE const char **names = hrf_calloc(n + 1, sizeof *names);
    size_t k = 0;
    if (names == NULL)
        return NULL;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        names[k++] = graph->nodes[i].name;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].data == NULL)
            names[k++] = graph->values[v].name;
    return hrf_nearest_word(name, names);
}

enum hrf_status hrf_lower_check_keep(const struct hrf_graph *graph, const char *const *keep,
                                     int32_t n_keep, struct hrf_error *err)
{
    for (int32_t i = 0; i < n_keep; i++) {
        bool found = false;
        for (int32_t n = 0; n < graph->n_nodes && !found; n++)
            found = strcmp(graph->nodes[n].name, keep[i]) == 0;
        for (int32_t v = 0; v < graph->n_values && !found; v++)
            found = names_value(graph, keep[i], v);
        if (found)
            continue;
        const char *near = nearest_name(graph, keep[i]);
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is to stay in float32, but no node or tensor of '%s' as it runs "
                             "(fused) has that name%s%s%s",
                             keep[i], graph->name, near != NULL ? "; did you mean '" : "",
                             near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    return HRF_OK;
}

/* True if one operand is a constant, which has no scale. */
static bool has_constant_side(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool is_binary = node->op == HRF_OP_ADD || node->op == HRF_OP_SUB ||
                           node->op == HRF_OP_MUL || node->op == HRF_OP_CONCAT;
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (is_binary && is_constant(graph, node, i))
            return true;
    return false;
}

static void note(const struct lowering *l, const struct hrf_node *node, const char *why)
{
    if (l->notes != NULL && why != NULL)
        hrf_strbuf_addf(l->notes, "node '%s' (%s) stays in float32: %s\n", node->name,
                        hrf_op_name(node->op), why);
}

static bool goes_low(struct lowering *l, const struct hrf_node *node)
{
    const enum kind kind = kind_of(l->how, node->op);
    const char *why = kind != KIND_NEVER ? why_kept(l, node) : NULL;
    bool low = false;
    if (why != NULL) {
        low = false;
    } else if (kind == KIND_PRODUCT) {
        why = refuse_product(l, node);
        if (why == NULL && l->brings_scales)
            why = refuse_own(l, node);
        low = why == NULL;
    } else if (kind == KIND_FOLLOWS && inputs_are_low(l, node)) {
        if (l->how->type == HRF_S8 && has_constant_side(l->from, node))
            why = "one side is a constant";
        else if (l->brings_scales)
            why = refuse_own(l, node);
        low = why == NULL;
    } else if (kind == KIND_NEVER && l->how->type == HRF_S8 && inputs_are_low(l, node)) {
        why = "the operator has no INT8 form";
    }
    note(l, node, why);
    return low;
}

/* Lowering a value is useful if a product reads it, directly or through other nodes. Walks from the
 * end of the graph. */
static void find_useful(const struct lowering *l)
{
    for (int32_t n = l->from->n_nodes - 1; n >= 0; n--) {
        const struct hrf_node *node = &l->from->nodes[n];
        const enum kind kind = kind_of(l->how, node->op);
        const bool useful = why_kept(l, node) == NULL &&
                            (kind == KIND_PRODUCT ||
                             (kind == KIND_FOLLOWS && l->is_useful[node->outputs[0]]));
        for (int32_t i = 0; i < node->n_inputs && useful; i++)
            if (node->inputs[i] >= 0)
                l->is_useful[node->inputs[i]] = true;
    }
}

/* ---- nodes ---- */

static enum hrf_status add_weights(struct lowering *l, const struct hrf_node *node, int32_t *inputs,
                                   struct hrf_error *err)
{
    const struct hrf_range *range = l->how->type == HRF_S8 ? find_range(l, node->inputs[HRF_CONV_X])
                                                           : NULL;
    if (l->how->type == HRF_S8)
        return hrf_lower_integer_weights(l->from, node, range, NULL, l->to, inputs, err);
    return hrf_lower_rounded_weights(l->from, node, l->how->type, l->to, inputs, err);
}

static enum hrf_status low_inputs(struct lowering *l, const struct hrf_node *node, int32_t *inputs,
                                  struct hrf_error *err)
{
    const bool is_product = kind_of(l->how, node->op) == KIND_PRODUCT;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0)
            continue;
        const bool is_weights = is_product && i != HRF_CONV_X && i != HRF_CONV_RESIDUAL;
        if (is_weights && is_constant(l->from, node, HRF_CONV_WEIGHTS))
            continue;
        if (is_constant(l->from, node, i))
            HRF_TRY(get_full(l, node->inputs[i], &inputs[i], err));
        else
            HRF_TRY(get_low(l, node->inputs[i], &inputs[i], err));
    }
    if (is_product && is_constant(l->from, node, HRF_CONV_WEIGHTS))
        return add_weights(l, node, inputs, err);
    return HRF_OK;
}

static enum hrf_status add_low_node(struct lowering *l, const struct hrf_node *node,
                                    struct hrf_error *err)
{
    const int32_t value = node->outputs[0];
    const bool is_product = kind_of(l->how, node->op) == KIND_PRODUCT;
    const int32_t room = is_product ? HRF_CONV_SCALES + 1 : node->n_inputs;
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)room + 1, sizeof *inputs);
    HRF_CHECK_MEMORY(inputs != NULL, err, "no memory to lower a graph");
    for (int32_t i = 0; i < room; i++)
        inputs[i] = HRF_NO_VALUE;
    HRF_TRY(low_inputs(l, node, inputs, err));
    enum hrf_dtype type = HRF_F32;
    struct hrf_quantization q = { .scale = 0 };
    int32_t output;
    const bool is_full = is_product &&
                         (l->brings_scales ? own_form(l, value) == NULL : !l->is_useful[value]);
    if (keeps_scale(node->op)) {
        type = l->to->values[inputs[0]].dtype;
        q = l->to->values[inputs[0]].quantization;
    } else if (!is_full) {
        HRF_TRY(choose_form(l, value, &type, &q, err));
    }
    HRF_TRY(add_value(l, value, "", type, q, &output, err));
    struct hrf_attributes attributes = node->attributes;
    if (node->op == HRF_OP_GEMM && l->how->type == HRF_S8) {
        attributes.transpose_b = true; /* hrf_lower_integer_weights() transposes the weights ... */
        attributes.alpha = attributes.beta = 1.0f; /* ... and applies alpha and beta */
    }
    const int32_t n = is_product && l->how->type == HRF_S8 ? room : node->n_inputs;
    HRF_TRY(
        hrf_graph_add_node(l->to, node->op, node->name, inputs, n, &output, 1, &attributes, err));
    *(is_full ? &l->full[value] : &l->low[value]) = output;
    return HRF_OK;
}

/* ---- products that round their rows ---- */

static bool is_dividable_norm(const struct lowering *l, const struct hrf_node *node)
{
    return (node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM) &&
           is_constant(l->from, node, 1) && (!has(node, 2) || is_constant(l->from, node, 2)) &&
           node->attributes.axis == l->from->values[node->outputs[0]].shape.rank - 1;
}

/* True for a product that goes low and has rows in float32. */
static bool rounds_rows(const struct lowering *l, const struct hrf_node *node)
{
    return l->how->rounds_rows && l->how->type == HRF_S8 && !l->brings_scales &&
           node->op == HRF_OP_GEMM && l->low[node->inputs[HRF_CONV_X]] < 0;
}

/* True if nothing but such products reads the value, so that its producer may divide it. */
static bool is_for_products(struct lowering *l, int32_t value)
{
    for (int32_t i = 0; i < l->from->n_outputs; i++)
        if (l->from->outputs[i] == value)
            return false;
    for (int32_t n = 0; n < l->from->n_nodes; n++) {
        const struct hrf_node *node = &l->from->nodes[n];
        for (int32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] == value &&
                (i != HRF_CONV_X || node->op != HRF_OP_GEMM || why_kept(l, node) != NULL ||
                 refuse_product(l, node) != NULL))
                return false;
    }
    return true;
}

static enum hrf_status add_row(struct lowering *l, const char *name, const char *suffix,
                               const float *row, int64_t n, int32_t *index, struct hrf_error *err)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    HRF_AUTO_FREE char *own = hrf_format("%s.%s", name, suffix);
    HRF_CHECK_MEMORY(own != NULL, err, "no memory to lower a graph");
    return hrf_graph_add_value(l->to, own, HRF_F32, &shape, row, index, err);
}

/* Scale and bias of a norm, divided: `inputs` of the node in the lowered graph. */
static enum hrf_status divide_norm(struct lowering *l, const struct hrf_node *node, int32_t *inputs,
                                   struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    const int64_t n = hrf_shape_last(&l->from->values[y].shape);
    if (!l->how->rounds_rows || l->how->type != HRF_S8 || !is_dividable_norm(l, node) ||
        hrf_shape_count(&l->from->values[node->inputs[1]].shape) != n || !is_for_products(l, y))
        return HRF_OK;
    HRF_TRY(hrf_lower_find_smoothing(l->from, y, find_range(l, y), &l->smoothing[y], err));
    const float *smoothing = l->smoothing[y];
    HRF_AUTO_FREE float *row = hrf_alloc_array((size_t)n, sizeof *row);
    HRF_CHECK_MEMORY(row != NULL, err, "no memory to lower a graph");
    for (int32_t i = 1; i <= 2 && smoothing != NULL; i++) {
        if (!has(node, i))
            continue;
        const float *from = l->from->values[node->inputs[i]].data;
        for (int64_t k = 0; k < n; k++)
            row[k] = from[k] / smoothing[k];
        HRF_TRY(add_row(l, node->name, i == 1 ? "scale.smoothed" : "bias.smoothed", row, n,
                        &inputs[i], err));
    }
    l->is_smoothed[y] = smoothing != NULL;
    return HRF_OK;
}

static enum hrf_status add_row_product(struct lowering *l, const struct hrf_node *node,
                                       struct hrf_error *err)
{
    const int32_t x = node->inputs[HRF_CONV_X], value = node->outputs[0];
    const int64_t depth = hrf_shape_last(&l->from->values[x].shape);
    const struct hrf_range *range = find_range(l, x);
    int32_t inputs[HRF_CONV_FACTORS + 1], output;
    for (int32_t i = 0; i <= HRF_CONV_FACTORS; i++)
        inputs[i] = HRF_NO_VALUE;
    HRF_TRY(get_full(l, x, &inputs[HRF_CONV_X], err));
    if (has(node, HRF_CONV_RESIDUAL))
        HRF_TRY(get_full(l, node->inputs[HRF_CONV_RESIDUAL], &inputs[HRF_CONV_RESIDUAL], err));
    if (l->smoothing[x] == NULL)
        HRF_TRY(hrf_lower_find_smoothing(l->from, x, range, &l->smoothing[x], err));
    HRF_TRY(hrf_lower_integer_weights(l->from, node, range, l->smoothing[x], l->to, inputs, err));
    if (l->smoothing[x] != NULL && !l->is_smoothed[x]) {
        HRF_AUTO_FREE float *factors = hrf_alloc_array((size_t)depth, sizeof *factors);
        HRF_CHECK_MEMORY(factors != NULL, err, "no memory to lower a graph");
        for (int64_t k = 0; k < depth; k++)
            factors[k] = 1 / l->smoothing[x][k];
        HRF_TRY(add_row(l, node->name, "factors", factors, depth, &inputs[HRF_CONV_FACTORS], err));
    }
    struct hrf_attributes attributes = node->attributes;
    attributes.transpose_b = true; /* hrf_lower_integer_weights() transposes the weights ... */
    attributes.alpha = attributes.beta = 1.0f; /* ... and applies alpha and beta */
    HRF_TRY(
        add_value(l, value, "", HRF_F32, (struct hrf_quantization){ .scale = 0 }, &output, err));
    HRF_TRY(hrf_graph_add_node(l->to, node->op, node->name, inputs, HRF_CONV_FACTORS + 1, &output,
                               1, &attributes, err));
    l->full[value] = output;
    return HRF_OK;
}

static enum hrf_status add_full_node(struct lowering *l, const struct hrf_node *node,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    int32_t output;
    HRF_CHECK_MEMORY(inputs != NULL, err, "no memory to lower a graph");
    for (int32_t i = 0; i < node->n_inputs; i++) {
        inputs[i] = HRF_NO_VALUE;
        if (node->inputs[i] >= 0)
            HRF_TRY(get_full(l, node->inputs[i], &inputs[i], err));
    }
    HRF_TRY(divide_norm(l, node, inputs, err));
    const struct hrf_value *result = &l->from->values[node->outputs[0]];
    HRF_TRY(add_value(l, node->outputs[0], "", result->dtype, result->quantization, &output, err));
    HRF_TRY(hrf_graph_add_node(l->to, node->op, node->name, inputs, node->n_inputs, &output, 1,
                               &node->attributes, err));
    l->full[node->outputs[0]] = output;
    return HRF_OK;
}

/* A QUANTIZE and DEQUANTIZE pair of the model marks a lowered value. If its producer writes the
 * value in that form already, both nodes of the pair disappear. */
static enum hrf_status add_own_pair(struct lowering *l, const struct hrf_node *node,
                                    struct hrf_error *err)
{
    const int32_t x = node->inputs[HRF_QUANTIZE_X], y = node->outputs[0];
    const struct hrf_value *form = &l->from->values[y];
    int32_t full;
    if (node->op == HRF_OP_DEQUANTIZE ||
        (l->low[x] >= 0 && hrf_lower_same_form(&l->to->values[l->low[x]], form))) {
        l->low[y] = l->low[x];
        return HRF_OK;
    }
    HRF_TRY(get_full(l, x, &full, err));
    HRF_TRY(add_value(l, y, "", form->dtype, form->quantization, &l->low[y], err));
    return add_conversion(l, y, true, full, l->low[y], err);
}

static bool is_own_pair(const struct lowering *l, const struct hrf_node *node)
{
    if (!l->brings_scales)
        return false;
    if (node->op == HRF_OP_QUANTIZE)
        return l->from->values[node->outputs[0]].quantization.scale > 0;
    return node->op == HRF_OP_DEQUANTIZE && l->low[node->inputs[HRF_QUANTIZE_X]] >= 0;
}

static enum hrf_status add_ends(struct lowering *l, struct hrf_error *err)
{
    const struct hrf_graph *from = l->from;
    const size_t n = (size_t)(from->n_inputs + from->n_outputs);
    HRF_AUTO_FREE int32_t *ends = hrf_alloc_array(n + 1, sizeof *ends);
    HRF_CHECK_MEMORY(ends != NULL, err, "no memory to lower a graph");
    for (int32_t i = 0; i < from->n_inputs; i++)
        ends[i] = l->full[from->inputs[i]];
    int32_t *outputs = ends + from->n_inputs;
    for (int32_t i = 0; i < from->n_outputs; i++)
        HRF_TRY(get_full(l, from->outputs[i], &outputs[i], err));
    return hrf_graph_set_io(l->to, ends, from->n_inputs, outputs, from->n_outputs, err);
}

static enum hrf_status lower(struct lowering *l, struct hrf_error *err)
{
    const struct hrf_graph *from = l->from;
    for (int32_t v = 0; v < from->n_values; v++)
        l->low[v] = l->full[v] = -1;
    HRF_TRY(hrf_lower_check_keep(from, l->how->keep, l->how->n_keep, err));
    find_useful(l);
    for (int32_t i = 0; i < from->n_inputs; i++) {
        const struct hrf_value *input = &from->values[from->inputs[i]];
        HRF_TRY(hrf_graph_add_value(l->to, input->name, input->dtype, &input->shape, NULL,
                                    &l->full[from->inputs[i]], err));
    }
    for (int32_t n = 0; n < from->n_nodes; n++) {
        const struct hrf_node *node = &from->nodes[n];
        if (is_own_pair(l, node))
            HRF_TRY(add_own_pair(l, node, err));
        else if (goes_low(l, node))
            HRF_TRY(rounds_rows(l, node) ? add_row_product(l, node, err)
                                         : add_low_node(l, node, err));
        else
            HRF_TRY(add_full_node(l, node, err));
    }
    HRF_TRY(add_ends(l, err));
    return hrf_graph_check(l->to, err);
}

enum hrf_status hrf_pass_lower(const struct hrf_graph *graph, const struct hrf_lowering *how,
                               struct hrf_graph **out, struct hrf_strbuf *notes,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) to = NULL;
    const size_t n = (size_t)graph->n_values + 1;
    HRF_AUTO_FREE int32_t *forms = hrf_alloc_array(2 * n, sizeof *forms);
    HRF_AUTO_FREE bool *useful = hrf_calloc(2 * n, sizeof *useful);
    HRF_AUTO_FREE float **smoothing = hrf_calloc(n, sizeof *smoothing);
    HRF_AUTO_FREE int32_t *own_forms = NULL;
    HRF_AUTO_FREE const struct hrf_range **ranges = hrf_alloc_array((size_t)how->n_ranges + 1,
                                                                    sizeof *ranges);
    const bool brings_scales = how->type == HRF_S8 && hrf_lower_brings_scales(graph);
    HRF_CHECK_MEMORY(forms != NULL && useful != NULL && smoothing != NULL && ranges != NULL, err,
                     "no memory to lower a graph");
    if (brings_scales)
        HRF_TRY(hrf_lower_own_forms(graph, &own_forms, err));
    for (int32_t i = 0; i < how->n_ranges; i++)
        ranges[i] = &how->ranges[i];
    qsort(ranges, (size_t)how->n_ranges, sizeof *ranges, compare_ranges);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (hrf_node_has_prologue(&graph->nodes[i]))
            return hrf_error_set(err, HRF_E_BUG, "node '%s' has a prologue before it is lowered",
                                 graph->nodes[i].name);
    HRF_TRY(hrf_graph_create(graph->name, &to, err));
    struct lowering l = { .from = graph,
                          .how = how,
                          .to = to,
                          .low = forms,
                          .full = forms + n,
                          .is_useful = useful,
                          .ranges = ranges,
                          .own_forms = own_forms,
                          .brings_scales = brings_scales,
                          .smoothing = smoothing,
                          .is_smoothed = useful + n,
                          .notes = notes };
    const enum hrf_status status = lower(&l, err);
    for (size_t i = 0; i < n; i++)
        hrf_free(smoothing[i]);
    HRF_TRY(status);
    *out = to;
    to = NULL;
    return HRF_OK;
}
