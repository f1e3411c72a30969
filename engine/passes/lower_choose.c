/* lower_choose.c - which nodes compute in fewer bits (lower_private.h). */
#include "engine/passes/lower_private.h"

#include "base/args.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum hrf_lower_kind hrf_lower_kind_of(const struct hrf_lowering *how, enum hrf_op op)
{
    static const enum hrf_lower_kind kinds[HRF_N_PRECISION_RULES] = {
        [HRF_PRECISION_FLOAT] = HRF_LOWER_NEVER,     [HRF_PRECISION_HALF] = HRF_LOWER_FOLLOWS,
        [HRF_PRECISION_FOLLOWS] = HRF_LOWER_FOLLOWS, [HRF_PRECISION_SELECTS] = HRF_LOWER_FOLLOWS,
        [HRF_PRECISION_SUM] = HRF_LOWER_FOLLOWS,     [HRF_PRECISION_MATRICES] = HRF_LOWER_FOLLOWS,
        [HRF_PRECISION_PRODUCT] = HRF_LOWER_PRODUCT,
    };
    const enum hrf_precision_rule rule = hrf_op_precision(op);
    if (how->type == HRF_S8 &&
        (rule == HRF_PRECISION_HALF || rule == HRF_PRECISION_SUM || rule == HRF_PRECISION_MATRICES))
        return HRF_LOWER_NEVER;
    return rule == HRF_PRECISION_MATRICES && how->n_variables > 0 ? HRF_LOWER_PRODUCT : kinds[rule];
}

bool hrf_lower_keeps_scale(enum hrf_op op)
{
    return hrf_op_precision(op) == HRF_PRECISION_SELECTS;
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

const char *hrf_lower_refuse_product(struct lowering *l, const struct hrf_node *node)
{
    enum { MAX_TERMS = 65000 }; /* terms of at most 255 * 128: the sum fits into 32 bits */
    const struct hrf_graph *graph = l->from;
    const struct hrf_attributes *a = &node->attributes;
    if (!hrf_node_has_constant(graph, node, HRF_CONV_WEIGHTS))
        return l->how->type == HRF_S8 ? "its weights are computed" : NULL;
    if (hrf_node_has_input(node, HRF_CONV_BIAS) &&
        !hrf_node_has_constant(graph, node, HRF_CONV_BIAS) &&
        !l->of_weights[node->inputs[HRF_CONV_BIAS]])
        return "its bias is computed";
    if (l->how->type != HRF_S8)
        return refuse_weights(l, &graph->values[node->inputs[HRF_CONV_WEIGHTS]]);
    if (hrf_node_has_constant(graph, node, HRF_CONV_X))
        return "its input is a constant";
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const int64_t n = node->op == HRF_OP_GEMM ? w->dims[a->gemm.transpose_b ? 0 : 1]
                                              : graph->values[node->outputs[0]].shape.dims[1];
    if (hrf_shape_count(w) / n > MAX_TERMS)
        return "its sums are too long for 32 bits";
    if (node->op != HRF_OP_GEMM)
        return NULL;
    if (a->gemm.transpose_a)
        return "its first matrix is transposed";
    if (hrf_node_has_input(node, HRF_CONV_BIAS) &&
        hrf_shape_count(&graph->values[node->inputs[HRF_CONV_BIAS]].shape) != n)
        return "its bias is a matrix";
    return NULL;
}

/* True for an input that is broadcast to the result. */
static bool is_broadcast(const struct lowering *l, const struct hrf_node *node, int32_t k)
{
    const struct hrf_value *values = l->from->values;
    return hrf_op_is_binary(node->op) && hrf_shape_count(&values[node->inputs[k]].shape) <
                                             hrf_shape_count(&values[node->outputs[0]].shape);
}

static bool inputs_are_low(const struct lowering *l, const struct hrf_node *node)
{
    bool any = false;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        const int32_t value = node->inputs[i];
        if (value < 0 || l->from->values[value].data != NULL || l->of_weights[value] ||
            (l->how->n_variables > 0 && is_broadcast(l, node, i)))
            continue;
        if (l->low[value] < 0 && !l->is_unrounded[value])
            return false;
        any = true;
    }
    return any;
}

bool hrf_lower_reads_full(const struct lowering *l, const struct hrf_node *node, int32_t k)
{
    const int32_t value = node->inputs[k];
    const bool is_product = hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT;
    if (l->how->n_variables == 0 || l->low[value] >= 0 || (is_product && k <= HRF_CONV_WEIGHTS))
        return false;
    return l->variables[value] > 0 || l->is_unrounded[value] ||
           hrf_op_role(node->op, k) != HRF_INPUT_DATA || is_broadcast(l, node, k) ||
           (l->of_weights[value] && hrf_op_is_binary(node->op));
}

/* True if one operator on elements reads the value, and nobody else. */
static bool goes_to_one(const struct lowering *l, int32_t value)
{
    if (!hrf_readers_is_one(&l->readers, value))
        return false;
    const int32_t reader = l->readers.nodes[l->readers.first[value]];
    const enum hrf_op op = l->from->nodes[reader].op;
    return hrf_op_is_unary(op) || hrf_op_is_binary(op) || op == HRF_OP_FUNCTION_GRADIENT;
}

bool hrf_lower_gives_full(struct lowering *l, const struct hrf_node *node)
{
    const int32_t value = node->outputs[0];
    if (hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT)
        return l->brings_scales ? hrf_lower_own_form(l, value) == NULL : !l->is_useful[value];
    if (l->how->n_variables == 0 || hrf_lower_keeps_scale(node->op))
        return false;
    if (!l->is_useful[value] || hrf_op_precision(node->op) == HRF_PRECISION_SUM)
        return true;
    return l->is_unrounded[value] = goes_to_one(l, value);
}

/* The same for a model that was quantised elsewhere. */
static const char *refuse_own(const struct lowering *l, const struct hrf_node *node)
{
    const bool is_product = hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT;
    if (!inputs_are_low(l, node))
        return "the model gives its input no scale";
    if (is_product && !hrf_node_has_input(node, HRF_CONV_SCALES))
        return "the model gives its weights no scales that 8 bits can use";
    if (is_product && node->op == HRF_OP_GEMM && node->attributes.gemm.alpha <= 0)
        return "its factor is not above 0";
    if (!is_product && !hrf_lower_keeps_scale(node->op) &&
        hrf_lower_own_form(l, node->outputs[0]) == NULL)
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
    return hrf_lower_kind_of(l->how, node->op) != HRF_LOWER_PRODUCT &&
           names_value(l->from, name, node->outputs[0]);
}

const char *hrf_lower_why_kept(const struct lowering *l, const struct hrf_node *node)
{
    for (int32_t i = 0; i < l->how->n_keep && !l->only_kept; i++)
        if (is_kept_as(l, node, l->how->keep[i]))
            return l->how->keep_reasons != NULL ? l->how->keep_reasons[i] : "asked for";
    if (!l->only_kept && hrf_lower_adds_to_tokens(l, node))
        return "it adds to tokens, whose sums are not rounded";
    return NULL;
}

/* True for a value that is, or was before it was lowered to 8 bits, the one of that name. */
static bool stands_for(const char *value, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(value, name, n) == 0 && (value[n] == '\0' || strcmp(value + n, ".f32") == 0);
}

/* True for a product that computes in bfloat16 because how->keep_precisions says so. */
static bool goes_to_bf16(const struct lowering *l, const struct hrf_node *node)
{
    const struct hrf_lowering *how = l->how;
    if (how->keep_precisions == NULL || hrf_lower_kind_of(how, node->op) != HRF_LOWER_PRODUCT ||
        !hrf_node_has_constant(l->from, node, HRF_CONV_WEIGHTS))
        return false;
    const struct hrf_value *x = &l->from->values[node->inputs[HRF_CONV_X]];
    for (int32_t i = 0; i < how->n_keep; i++)
        if (how->keep_precisions[i] == HRF_BF16 && x->dtype == HRF_F32 &&
            stands_for(x->name, how->keep[i]))
            return true;
    return false;
}

/* The name of a node or computed value that is nearest to the given one; NULL: none is near. */
static const char *nearest_name(const struct hrf_graph *graph, const char *name)
{
    const size_t n = (size_t)graph->n_nodes + (size_t)graph->n_values;
    HRF_AUTO_FREE const char **names = hrf_calloc(n + 1, sizeof *names);
    size_t k = 0;
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
                             keep[i], graph->name,
                             near != NULL ? "; did you mean '"
                                          : "; take it out of {calibrate.keep}",
                             near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    return HRF_OK;
}

/* True if one operand is a constant that the model gives no scale of 8 bits. */
static bool has_constant_side(const struct lowering *l, const struct hrf_node *node)
{
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (hrf_op_role(node->op, i) == HRF_INPUT_DATA && hrf_node_has_constant(l->from, node, i) &&
            !(l->brings_scales && hrf_lower_is_integers(&l->from->values[node->inputs[i]])))
            return true;
    return false;
}

static void note(const struct lowering *l, const struct hrf_node *node, const char *why)
{
    if (l->notes != NULL && why != NULL)
        hrf_strbuf_addf(l->notes, "node '%s' (%s) stays in %s: %s\n", node->name,
                        hrf_op_name(node->op), goes_to_bf16(l, node) ? "bfloat16" : "float32", why);
}

bool hrf_lower_goes_low(struct lowering *l, const struct hrf_node *node)
{
    const enum hrf_lower_kind kind = hrf_lower_kind_of(l->how, node->op);
    const char *why = kind != HRF_LOWER_NEVER ? hrf_lower_why_kept(l, node) : NULL;
    bool low = false;
    if (l->of_weights[node->outputs[0]] || (l->only_kept && !goes_to_bf16(l, node)))
        return false;
    if (why != NULL) {
        low = false;
    } else if (kind == HRF_LOWER_PRODUCT) {
        why = hrf_lower_refuse_product(l, node);
        if (why == NULL && l->brings_scales)
            why = refuse_own(l, node);
        low = why == NULL;
    } else if (kind == HRF_LOWER_FOLLOWS && inputs_are_low(l, node)) {
        if (l->how->type == HRF_S8 && has_constant_side(l, node))
            why = "one side is a constant";
        else if (l->brings_scales)
            why = refuse_own(l, node);
        low = why == NULL;
    } else if (kind == HRF_LOWER_NEVER && l->how->type == HRF_S8 && inputs_are_low(l, node)) {
        why = "the operator has no INT8 form";
    }
    note(l, node, why);
    return low;
}

static void find_of_weights(const struct lowering *l)
{
    const struct hrf_graph *from = l->from;
    for (int32_t i = 0; i < l->how->n_variables; i++) {
        const int32_t value = from->inputs[from->n_inputs - l->how->n_variables + i];
        l->variables[value] = 1 + i;
        l->of_weights[value] = true;
    }
    for (int32_t n = 0; n < from->n_nodes && l->how->n_variables > 0; n++) {
        const struct hrf_node *node = &from->nodes[n];
        bool any = false, all = true;
        for (int32_t i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i] < 0 || from->values[node->inputs[i]].data != NULL)
                continue;
            any |= l->of_weights[node->inputs[i]];
            all &= l->of_weights[node->inputs[i]];
        }
        l->of_weights[node->outputs[0]] = any && all;
    }
}

/* Lowering a value is useful if a product reads it, directly or through other nodes than the sums
 * of a step of training. Walks from the end of the graph. */
void hrf_lower_find_useful(const struct lowering *l)
{
    find_of_weights(l);
    for (int32_t n = l->from->n_nodes - 1; n >= 0; n--) {
        const struct hrf_node *node = &l->from->nodes[n];
        const enum hrf_lower_kind kind = hrf_lower_kind_of(l->how, node->op);
        const bool ends = l->how->n_variables > 0 &&
                          hrf_op_precision(node->op) == HRF_PRECISION_SUM;
        const bool useful = hrf_lower_why_kept(l, node) == NULL &&
                            (!l->only_kept || goes_to_bf16(l, node)) &&
                            (kind == HRF_LOWER_PRODUCT || (kind == HRF_LOWER_FOLLOWS && !ends &&
                                                           l->is_useful[node->outputs[0]]));
        for (int32_t i = 0; i < node->n_inputs && useful; i++)
            if (node->inputs[i] >= 0)
                l->is_useful[node->inputs[i]] = true;
    }
}
