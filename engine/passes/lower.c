/* lower.c - lowering: builds the lowered graph (lower.h). lower_choose.c decides which nodes
 * compute in fewer bits. */
#include "engine/passes/lower_private.h"

#include "engine/ir/op.h"

#include <assert.h>
#include <stdlib.h>

/* ---- nodes ---- */

static enum hrf_status add_weights(struct lowering *l, const struct hrf_node *node, int32_t *inputs,
                                   struct hrf_error *err)
{
    const struct hrf_range *range = l->how->type == HRF_S8
                                        ? hrf_lower_range(l, node->inputs[HRF_CONV_X])
                                        : NULL;
    if (l->how->type == HRF_S8)
        return hrf_lower_integer_weights(l->from, node, range, NULL, l->to, inputs, err);
    HRF_TRY(hrf_lower_rounded_weights(l->from, node, l->how->type, l->to, inputs, err));
    if (hrf_node_has_input(node, HRF_CONV_BIAS) &&
        !hrf_node_has_constant(l->from, node, HRF_CONV_BIAS))
        HRF_TRY(hrf_lower_get_full(l, node->inputs[HRF_CONV_BIAS], &inputs[HRF_CONV_BIAS], err));
    const int32_t weights = node->inputs[HRF_CONV_WEIGHTS];
    if (l->how->spent != NULL && hrf_readers_is_one(&l->readers, weights))
        hrf_value_release_data(&l->how->spent->values[weights]);
    return HRF_OK;
}

static enum hrf_status low_inputs(struct lowering *l, const struct hrf_node *node, int32_t *inputs,
                                  struct hrf_error *err)
{
    const bool is_product = hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0)
            continue;
        const bool is_data = hrf_op_role(node->op, i) == HRF_INPUT_DATA;
        if (is_product && !is_data && hrf_node_has_constant(l->from, node, HRF_CONV_WEIGHTS))
            continue;
        /* When lowering to 8 bits, constant operands next to lowered values are lowered, too. */
        const bool is_operand = is_data && !is_product && l->how->type == HRF_S8;
        const int32_t variable = l->variables[node->inputs[i]];
        if (is_product && variable > 0 && i <= HRF_CONV_WEIGHTS)
            inputs[i] = l->rounded[variable - 1];
        else if ((hrf_node_has_constant(l->from, node, i) && !is_operand) ||
                 hrf_lower_reads_full(l, node, i))
            HRF_TRY(hrf_lower_get_full(l, node->inputs[i], &inputs[i], err));
        else
            HRF_TRY(hrf_lower_get_low(l, node->inputs[i], &inputs[i], err));
    }
    if (is_product && hrf_node_has_constant(l->from, node, HRF_CONV_WEIGHTS))
        return add_weights(l, node, inputs, err);
    return HRF_OK;
}

static enum hrf_status add_low_node(struct lowering *l, const struct hrf_node *node,
                                    struct hrf_error *err)
{
    const int32_t value = node->outputs[0];
    const bool is_product = hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT;
    const int32_t room = is_product ? HRF_CONV_SCALES + 1 : node->n_inputs;
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)room + 1, sizeof *inputs);
    for (int32_t i = 0; i < room; i++)
        inputs[i] = HRF_NO_VALUE;
    HRF_TRY(low_inputs(l, node, inputs, err));
    enum hrf_dtype type = HRF_F32;
    struct hrf_quantization q = { .scale = 0 };
    int32_t output;
    const bool is_full = hrf_lower_gives_full(l, node);
    if (hrf_lower_keeps_scale(node->op)) {
        type = l->to->values[inputs[0]].dtype;
        q = l->to->values[inputs[0]].quantization;
    } else if (!is_full) {
        HRF_TRY(hrf_lower_form(l, value, &type, &q, err));
    }
    HRF_TRY(hrf_lower_add_value(l, value, "", type, q, &output, err));
    struct hrf_attributes attributes = node->attributes;
    if (node->op == HRF_OP_GEMM && l->how->type == HRF_S8) {
        attributes.gemm.transpose_b =
            true; /* hrf_lower_integer_weights() transposes the weights ... */
        attributes.gemm.alpha = attributes.gemm.beta = 1.0f; /* ... and applies alpha and beta */
    }
    const int32_t n = is_product && l->how->type == HRF_S8 ? room : node->n_inputs;
    HRF_TRY(hrf_lower_add_node(l, node->op, node->name, inputs, n, output, &attributes, err));
    *(is_full ? &l->full[value] : &l->low[value]) = output;
    return HRF_OK;
}

/* True for a product with the integer weights of a quantised model whose input has not been
 * lowered. */
static bool has_integer_weights(const struct lowering *l, const struct hrf_node *node)
{
    return !l->only_kept && hrf_lower_kind_of(l->how, node->op) == HRF_LOWER_PRODUCT &&
           l->from->values[node->inputs[HRF_CONV_WEIGHTS]].dtype == HRF_S8;
}

/* True for an attention whose products may be of 16-bit integers: in a network whose own products
 * are of 8 bits, unless it is kept or its keys may be added in parts. */
static bool is_fixed_point(const struct lowering *l, const struct hrf_node *node)
{
    return hrf_op_is_attention(node->op) && l->how->type == HRF_S8 && l->how->rounds_rows &&
           !l->brings_scales && !hrf_attention_is_long(l->from, node) &&
           hrf_lower_why_kept(l, node) == NULL;
}

static enum hrf_status add_full_node(struct lowering *l, const struct hrf_node *node,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    int32_t output;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        inputs[i] = HRF_NO_VALUE;
        if (i == HRF_CONV_WEIGHTS && has_integer_weights(l, node))
            HRF_TRY(hrf_lower_float_weights(l->from, node, l->to, &inputs[i], err));
        else if (node->inputs[i] >= 0)
            HRF_TRY(hrf_lower_get_full(l, node->inputs[i], &inputs[i], err));
    }
    HRF_TRY(hrf_lower_divide_norm(l, node, inputs, err));
    const struct hrf_value *result = &l->from->values[node->outputs[0]];
    HRF_TRY(hrf_lower_add_value(l, node->outputs[0], "", result->dtype, result->quantization,
                                &output, err));
    struct hrf_attributes attributes = node->attributes;
    attributes.attention.fixed_point |= is_fixed_point(l, node);
    HRF_TRY(hrf_lower_add_node(l, node->op, node->name, inputs, node->n_inputs, output, &attributes,
                               err));
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
    HRF_TRY(hrf_lower_get_full(l, x, &full, err));
    HRF_TRY(hrf_lower_add_value(l, y, "", form->dtype, form->quantization, &l->low[y], err));
    return hrf_lower_convert(l, y, true, full, l->low[y], err);
}

/* True for a TOKEN_ATTENTION that becomes a BYTE_ATTENTION. */
static bool is_own_attention(const struct lowering *l, const struct hrf_node *node)
{
    return l->brings_scales && node->op == HRF_OP_TOKEN_ATTENTION &&
           node->attributes.attention.scores.scale > 0 && hrf_lower_why_kept(l, node) == NULL;
}

static enum hrf_status add_own_attention(struct lowering *l, const struct hrf_node *node,
                                         struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    enum hrf_dtype type;
    struct hrf_quantization q;
    int32_t inputs[3];
    for (int32_t k = 0; k < 3; k++)
        HRF_TRY(hrf_lower_get_low(l, node->inputs[k], &inputs[k], err));
    HRF_TRY(hrf_lower_form(l, y, &type, &q, err));
    HRF_TRY(hrf_lower_add_value(l, y, "", type, q, &l->low[y], err));
    return hrf_lower_add_node(l, HRF_OP_BYTE_ATTENTION, node->name, inputs, 3, l->low[y],
                              &node->attributes, err);
}

/* Adds a LOOKUP between two 8-bit values of the model. */
static enum hrf_status add_lookup(struct lowering *l, const struct hrf_node *node,
                                  struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    const struct hrf_value *form = &l->from->values[y];
    int32_t inputs[2] = { l->low[node->inputs[0]] };
    HRF_TRY(hrf_lower_get_full(l, node->inputs[1], &inputs[1], err));
    HRF_TRY(hrf_lower_add_value(l, y, "", form->dtype, form->quantization, &l->low[y], err));
    return hrf_lower_add_node(l, node->op, node->name, inputs, 2, l->low[y], &node->attributes,
                              err);
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
    const int32_t n_inputs = from->n_inputs + l->how->n_variables;
    HRF_AUTO_FREE int32_t *ends = hrf_alloc_array((size_t)(n_inputs + from->n_outputs) + 1,
                                                  sizeof *ends);
    for (int32_t i = 0; i < from->n_inputs; i++)
        ends[i] = l->full[from->inputs[i]];
    for (int32_t i = 0; i < l->how->n_variables; i++)
        ends[from->n_inputs + i] = l->rounded[i];
    int32_t *outputs = ends + n_inputs;
    l->node = NULL;
    for (int32_t i = 0; i < from->n_outputs; i++)
        HRF_TRY(hrf_lower_get_full(l, from->outputs[i], &outputs[i], err));
    return hrf_graph_set_io(l->to, ends, n_inputs, outputs, from->n_outputs, err);
}

static enum hrf_status lower(struct lowering *l, struct hrf_error *err)
{
    const struct hrf_graph *from = l->from;
    for (int32_t v = 0; v < from->n_values; v++)
        l->low[v] = l->full[v] = -1;
    if (!l->only_kept)
        HRF_TRY(hrf_lower_check_keep(from, l->how->keep, l->how->n_keep, err));
    hrf_lower_find_useful(l);
    for (int32_t i = 0; i < from->n_inputs; i++) {
        const struct hrf_value *input = &from->values[from->inputs[i]];
        HRF_TRY(hrf_graph_add_value(l->to, input->name, input->dtype, &input->shape, NULL,
                                    &l->full[from->inputs[i]], err));
    }
    for (int32_t i = 0; i < l->how->n_variables; i++)
        HRF_TRY(hrf_lower_add_value(l, from->inputs[from->n_inputs - l->how->n_variables + i],
                                    ".rounded", HRF_F32, (struct hrf_quantization){ .scale = 0 },
                                    &l->rounded[i], err));
    for (int32_t n = 0; n < from->n_nodes; n++) {
        const struct hrf_node *node = &from->nodes[n];
        l->node = node;
        if (is_own_pair(l, node))
            HRF_TRY(add_own_pair(l, node, err));
        else if (node->op == HRF_OP_LOOKUP)
            HRF_TRY(add_lookup(l, node, err));
        else if (is_own_attention(l, node))
            HRF_TRY(add_own_attention(l, node, err));
        else if (hrf_lower_goes_low(l, node))
            HRF_TRY(hrf_lower_rounds_rows(l, node) ? hrf_lower_row_product(l, node, err)
                                                   : add_low_node(l, node, err));
        else
            HRF_TRY(add_full_node(l, node, err));
    }
    HRF_TRY(add_ends(l, err));
    return hrf_graph_check(l->to, err);
}

static enum hrf_status lower_to(const struct hrf_graph *graph, const struct hrf_lowering *how,
                                bool only_kept, struct hrf_graph **out, struct hrf_strbuf *notes,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) to = NULL;
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    const size_t n = (size_t)graph->n_values + 1;
    HRF_AUTO_FREE int32_t *forms = hrf_calloc(3 * n + (size_t)how->n_variables, sizeof *forms);
    HRF_AUTO_FREE bool *useful = hrf_calloc(5 * n, sizeof *useful);
    HRF_AUTO_FREE float **smoothing = hrf_calloc(n, sizeof *smoothing);
    HRF_AUTO_FREE int32_t *own_forms = NULL;
    HRF_AUTO_FREE const struct hrf_range **ranges = hrf_alloc_array((size_t)how->n_ranges + 1,
                                                                    sizeof *ranges);
    const bool brings_scales = how->type == HRF_S8 && hrf_lower_brings_scales(graph);
    if (brings_scales)
        own_forms = hrf_lower_own_forms(graph);
    for (int32_t i = 0; i < how->n_ranges; i++)
        ranges[i] = &how->ranges[i];
    qsort(ranges, (size_t)how->n_ranges, sizeof *ranges, hrf_lower_compare_ranges);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (hrf_node_has_prologue(&graph->nodes[i]))
            return hrf_error_set(err, HRF_E_BUG, "node '%s' has a prologue before it is lowered",
                                 graph->nodes[i].name);
    hrf_readers_init(graph, &readers);
    HRF_TRY(hrf_graph_create(graph->name, &to, err));
    to->n_images = graph->n_images;
    struct lowering l = { .from = graph,
                          .how = how,
                          .only_kept = only_kept,
                          .to = to,
                          .readers = readers,
                          .low = forms,
                          .full = forms + n,
                          .is_useful = useful,
                          .ranges = ranges,
                          .own_forms = own_forms,
                          .brings_scales = brings_scales,
                          .smoothing = smoothing,
                          .is_smoothed = useful + n,
                          .of_tokens = useful + 2 * n,
                          .of_weights = useful + 3 * n,
                          .is_unrounded = useful + 4 * n,
                          .variables = forms + 2 * n,
                          .rounded = forms + 3 * n,
                          .notes = notes };
    hrf_lower_find_tokens(graph, l.of_tokens);
    const enum hrf_status status = lower(&l, err);
    for (size_t i = 0; i < n; i++)
        hrf_free(smoothing[i]);
    HRF_TRY(status);
    HRF_MOVE(*out, to);
    return HRF_OK;
}

/* Layers that leave INT8 for bfloat16 are lowered in a second pass over the result of the first. */
enum hrf_status hrf_pass_lower(const struct hrf_graph *graph, const struct hrf_lowering *how,
                               struct hrf_graph **out, struct hrf_strbuf *notes,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) lowered = NULL;
    struct hrf_lowering narrow = *how;
    narrow.type = HRF_B16;
    narrow.spent = NULL;
    assert(how->n_variables == 0 || how->type != HRF_S8);
    HRF_TRY(lower_to(graph, how, false, &lowered, notes, err));
    for (int32_t i = 0; i < how->n_keep && how->keep_precisions != NULL; i++)
        if (how->type == HRF_S8 && how->keep_precisions[i] == HRF_BF16)
            return lower_to(lowered, &narrow, true, out, notes, err);
    HRF_MOVE(*out, lowered);
    return HRF_OK;
}
