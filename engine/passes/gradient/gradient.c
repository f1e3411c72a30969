/* gradient.c - the walk from the loss back to the weights, and what rules are written with
 * (gradient.h, gradient_private.h). */
#include "engine/passes/gradient/gradient.h"

#include "engine/ir/readers.h"
#include "engine/passes/gradient/gradient_private.h"
#include "engine/passes/passes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const hrf_loss_names[] = { "cross_entropy", "mse", "bce", "linear", NULL };

#define ENTRY(RULE, function) [HRF_GRADIENT_##RULE] = hrf_gradient_##function,
static hrf_gradient_function *const rules[HRF_N_GRADIENTS] = { HRF_GRADIENT_RULES(ENTRY) };
#undef ENTRY

void hrf_gradients_release(struct hrf_gradients *gradients)
{
    for (int32_t i = 0; i < gradients->n; i++)
        hrf_free(gradients->names[i]);
    hrf_free(gradients->names);
    *gradients = (struct hrf_gradients){ .n = 0 };
}

/* ---- what rules are written with ---- */

void hrf_backward_refuse(struct hrf_backward *b, const char *format, ...)
{
    char text[256];
    va_list args;
    if (b->status != HRF_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = hrf_error_set(b->err, HRF_E_UNSUPPORTED, "node '%s' (%s): %s", b->node.name,
                              hrf_op_name(b->node.op), text);
}

struct hrf_shape hrf_backward_shape(const struct hrf_backward *b, int32_t value)
{
    return value >= 0 ? b->graph->values[value].shape : (struct hrf_shape){ .rank = 0 };
}

bool hrf_backward_wants(const struct hrf_backward *b, int32_t k)
{
    return b->status == HRF_OK && hrf_node_has_input(&b->node, k) &&
           b->is_wanted[b->node.inputs[k]];
}

void hrf_backward_give(struct hrf_backward *b, int32_t k, int32_t gradient)
{
    if (b->status != HRF_OK || !hrf_backward_wants(b, k))
        return;
    int32_t *sum = &b->gradients[b->node.inputs[k]];
    *sum = *sum == HRF_NO_VALUE ? gradient : hrf_backward_binary(b, HRF_OP_ADD, *sum, gradient);
}

int32_t hrf_backward_apply(struct hrf_backward *b, enum hrf_op op,
                           const struct hrf_attributes *attributes, const struct hrf_shape *shape,
                           const int32_t *inputs, int32_t n_inputs)
{
    const struct hrf_attributes plain = hrf_attributes_of(op);
    int32_t y = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return y;
    HRF_AUTO_FREE char *name = hrf_format("%s.gradient_%d", b->node.name, (int)b->graph->n_nodes);
    b->status = hrf_graph_add_value(b->graph, name, HRF_F32, shape, NULL, &y, b->err);
    if (b->status == HRF_OK)
        b->status = hrf_graph_add_node(b->graph, op, name, inputs, n_inputs, &y, 1,
                                       attributes != NULL ? attributes : &plain, b->err);
    if (b->status == HRF_OK && b->origin > 0) {
        b->graph->nodes[b->graph->n_nodes - 1].origin = b->origin;
        b->graph->nodes[b->graph->n_nodes - 1].is_backward = true;
    }
    return y;
}

int32_t hrf_backward_unary(struct hrf_backward *b, enum hrf_op op, int32_t x)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    return HRF_APPLY(b, op, NULL, &shape, x);
}

int32_t hrf_backward_binary(struct hrf_backward *b, enum hrf_op op, int32_t x, int32_t z)
{
    const struct hrf_shape of_x = hrf_backward_shape(b, x), of_z = hrf_backward_shape(b, z);
    const bool is_x = hrf_shape_count(&of_x) > hrf_shape_count(&of_z) ||
                      (hrf_shape_count(&of_x) == hrf_shape_count(&of_z) && of_x.rank >= of_z.rank);
    return HRF_APPLY(b, op, NULL, is_x ? &of_x : &of_z, x, z);
}

int32_t hrf_backward_derivative(struct hrf_backward *b, enum hrf_op function,
                                const struct hrf_attributes *attributes, int32_t x, int32_t dy)
{
    struct hrf_attributes a = attributes != NULL ? *attributes : hrf_attributes_of(function);
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    a.function = function;
    return HRF_APPLY(b, HRF_OP_FUNCTION_GRADIENT, &a, &shape, x, dy);
}

int32_t hrf_backward_constant(struct hrf_backward *b, enum hrf_dtype dtype,
                              const struct hrf_shape *shape, const void *data)
{
    int32_t index = HRF_NO_VALUE;
    if (b->status == HRF_OK)
        b->status = hrf_graph_add_value(b->graph, "gradient.constant", dtype, shape, data, &index,
                                        b->err);
    return index;
}

int32_t hrf_backward_scalar(struct hrf_backward *b, double number)
{
    const struct hrf_shape shape = { .rank = 0 };
    const float value = (float)number;
    return hrf_backward_constant(b, HRF_F32, &shape, &value);
}

/* The second input of a RESHAPE or EXPAND. */
static int32_t sizes_of(struct hrf_backward *b, const struct hrf_shape *to)
{
    const struct hrf_shape shape = { 1, { to->rank } };
    return hrf_backward_constant(b, HRF_S64, &shape, to->dims);
}

int32_t hrf_backward_reshape(struct hrf_backward *b, int32_t x, const struct hrf_shape *to)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    if (hrf_shape_equal(&shape, to))
        return x;
    return HRF_APPLY(b, HRF_OP_RESHAPE, NULL, to, x, sizes_of(b, to));
}

int32_t hrf_backward_expand(struct hrf_backward *b, int32_t x, const struct hrf_shape *to)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    if (hrf_shape_equal(&shape, to))
        return x;
    return HRF_APPLY(b, HRF_OP_EXPAND, NULL, to, x, sizes_of(b, to));
}

int32_t hrf_backward_transpose(struct hrf_backward *b, int32_t x, const int64_t *axes)
{
    const struct hrf_shape from = hrf_backward_shape(b, x);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_TRANSPOSE);
    struct hrf_shape to = from;
    a.n_axes = from.rank;
    for (int32_t i = 0; i < from.rank; i++) {
        a.axes[i] = axes[i];
        to.dims[i] = from.dims[axes[i]];
    }
    return HRF_APPLY(b, HRF_OP_TRANSPOSE, &a, &to, x);
}

int32_t hrf_backward_swap_last(struct hrf_backward *b, int32_t x)
{
    const int32_t rank = hrf_backward_shape(b, x).rank;
    int64_t axes[HRF_MAX_RANK] = { 0, 1, 2, 3, 4, 5 };
    axes[rank - 2] = rank - 1;
    axes[rank - 1] = rank - 2;
    return hrf_backward_transpose(b, x, axes);
}

int32_t hrf_backward_reduce(struct hrf_backward *b, enum hrf_op op, int32_t x, uint32_t axes)
{
    struct hrf_attributes a = hrf_attributes_of(op);
    struct hrf_shape shape = hrf_backward_shape(b, x);
    a.keep_dims = true;
    for (int32_t i = 0; i < shape.rank; i++)
        if ((axes & (1u << i)) != 0) {
            a.axes[a.n_axes++] = i;
            shape.dims[i] = 1;
        }
    return a.n_axes == 0 ? x : HRF_APPLY(b, op, &a, &shape, x);
}

int32_t hrf_backward_sum_to(struct hrf_backward *b, int32_t x, const struct hrf_shape *to)
{
    const struct hrf_shape from = hrf_backward_shape(b, x);
    uint32_t axes = 0;
    for (int32_t i = 1; i <= from.rank; i++) {
        const int64_t wanted = i <= to->rank ? to->dims[to->rank - i] : 1;
        if (wanted == 1 && from.dims[from.rank - i] != 1)
            axes |= 1u << (from.rank - i);
    }
    return hrf_backward_reshape(b, hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, x, axes), to);
}

int32_t hrf_backward_scatter(struct hrf_backward *b, int32_t dy, int64_t axis,
                             const int64_t *indices, int64_t n, int64_t length)
{
    const struct hrf_shape list = { 1, { n } };
    struct hrf_shape shape = hrf_backward_shape(b, dy);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_GATHER_GRADIENT);
    shape.dims[axis] = length;
    a.axis = axis;
    a.length = length;
    return HRF_APPLY(b, HRF_OP_GATHER_GRADIENT, &a, &shape, dy,
                     hrf_backward_constant(b, HRF_S64, &list, indices));
}

/* ---- the loss ---- */

/* The inputs of the loss beside the network's output. */
struct compared {
    int32_t target;
    int32_t counts; /* 1 for an image, 0 for what fills up a micro-batch; HRF_NO_VALUE: all count */
};

/* The sum of `terms` over the images that count, divided by `count`. */
static int32_t mean_of(struct hrf_backward *b, const struct compared *with, int32_t terms,
                       double count)
{
    const struct hrf_shape scalar = { .rank = 0 };
    if (with->counts != HRF_NO_VALUE)
        terms = hrf_backward_binary(b, HRF_OP_MUL, terms, with->counts);
    const int32_t sum = hrf_backward_sum_to(b, terms, &scalar);
    return hrf_backward_binary(b, HRF_OP_MUL, sum, hrf_backward_scalar(b, 1 / count));
}

static int32_t add_loss(struct hrf_backward *b, enum hrf_loss loss, int32_t y,
                        const struct compared *with)
{
    const int32_t target = with->target;
    const int64_t n_images = b->graph->n_images;
    const struct hrf_shape shape = hrf_backward_shape(b, y);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_LOG_SOFTMAX);
    const double per_batch = (double)hrf_shape_count(&shape);
    const double count = n_images == 0 ? per_batch
                                       : per_batch / (double)shape.dims[0] * (double)n_images;
    int32_t terms;
    switch (loss) {
    case HRF_LOSS_CROSS_ENTROPY:
        if (shape.rank < 2) {
            hrf_backward_refuse(b,
                                "cross entropy needs classes along axis 1 of the output, which "
                                "has %d axes",
                                (int)shape.rank);
            return HRF_NO_VALUE;
        }
        a.axis = 1;
        terms = HRF_APPLY(b, HRF_OP_LOG_SOFTMAX, &a, &shape, y);
        return mean_of(b, with, hrf_backward_binary(b, HRF_OP_MUL, terms, target),
                       -count / (double)shape.dims[1]);
    case HRF_LOSS_MSE:
        terms = hrf_backward_binary(b, HRF_OP_SUB, y, target);
        return mean_of(b, with, hrf_backward_binary(b, HRF_OP_MUL, terms, terms), count);
    case HRF_LOSS_LINEAR:
        return mean_of(b, with, hrf_backward_binary(b, HRF_OP_MUL, y, target), 1);
    default:
        terms = hrf_backward_unary(b, HRF_OP_SOFTPLUS, y);
        return mean_of(b, with,
                       hrf_backward_binary(b, HRF_OP_SUB, terms,
                                           hrf_backward_binary(b, HRF_OP_MUL, y, target)),
                       count);
    }
}

/* What the loss is a function of: a SOFTMAX or SIGMOID that it contains itself is left out, because
 * its logarithm would lose digits. */
static int32_t logits_of(const struct hrf_graph *graph, enum hrf_loss loss)
{
    const int32_t y = graph->outputs[0], n = graph->values[y].producer;
    if (n < 0)
        return y;
    const struct hrf_node *node = &graph->nodes[n];
    const bool is_contained = (loss == HRF_LOSS_CROSS_ENTROPY && node->op == HRF_OP_SOFTMAX &&
                               node->attributes.axis == 1) ||
                              (loss == HRF_LOSS_BCE && node->op == HRF_OP_SIGMOID);
    return is_contained ? node->inputs[0] : y;
}

/* ---- the walk ---- */

static enum hrf_gradient_rule rule_of(const struct hrf_node *node)
{
    return hrf_op_gradient(node->op);
}

/* True for input k of a node through which its output depends on weights that have gradients. What
 * is no float is arithmetic of shapes. */
static bool passes_gradient(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k)
{
    const enum hrf_input_role role = hrf_op_role(node->op, k);
    const bool is_statistic = node->op == HRF_OP_BATCH_NORM && k >= 3;
    return node->inputs[k] >= 0 && role <= HRF_INPUT_WEIGHTS && !is_statistic &&
           graph->values[node->inputs[k]].dtype == HRF_F32 &&
           graph->values[node->outputs[0]].dtype == HRF_F32 && rule_of(node) != HRF_GRADIENT_ZERO;
}

/* The values of the network that depend on weights; and the weights that the loss depends on. */
static void mark_wanted(struct hrf_backward *b, int32_t n_nodes, int32_t y, bool *is_weight)
{
    const struct hrf_graph *graph = b->graph;
    HRF_AUTO_FREE bool *is_needed = hrf_calloc((size_t)graph->n_values, sizeof *is_needed);
    is_needed[y] = true;
    for (int32_t n = n_nodes - 1; n >= 0; n--)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (is_needed[graph->nodes[n].outputs[0]] &&
                passes_gradient(graph, &graph->nodes[n], k))
                is_needed[graph->nodes[n].inputs[k]] = true;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        is_weight[v] = is_needed[v] && value->is_initializer && value->dtype == HRF_F32;
        b->is_wanted[v] = is_weight[v];
    }
    for (int32_t n = 0; n < n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (passes_gradient(graph, &graph->nodes[n], k) &&
                b->is_wanted[graph->nodes[n].inputs[k]] && is_needed[graph->nodes[n].outputs[0]])
                b->is_wanted[graph->nodes[n].outputs[0]] = true;
}

/* True for a node that a pass has changed into what the rules do not know: it computes more than
 * its operator, or on another order of axes. */
static bool is_fused(const struct hrf_node *node)
{
    return node->attributes.of_each_pixel || node->attributes.channels_last ||
           (HRF_OP_HAS(node->op, activation) && node->attributes.activation != HRF_ACT_NONE) ||
           hrf_node_residual(node) >= 0 || hrf_node_has_prologue(node);
}

/* Through nodes [first, end). */
static void walk_back(struct hrf_backward *b, int32_t first, int32_t end)
{
    for (int32_t n = end - 1; n >= first && b->status == HRF_OK; n--) {
        b->node = b->graph->nodes[n];
        b->origin = n + 1;
        b->y = b->node.outputs[0];
        b->dy = b->gradients[b->y];
        if (b->dy == HRF_NO_VALUE || !b->is_wanted[b->y])
            continue;
        const enum hrf_gradient_rule rule = rule_of(&b->node);
        if (is_fused(&b->node))
            hrf_backward_refuse(b, "gradients are made before any pass changes the network");
        else if (rules[rule] == NULL)
            hrf_backward_refuse(b, "training through this operator is not supported");
        else
            rules[rule](b);
    }
}

/* Outputs: the loss, and the gradients to the weights. */
static enum hrf_status set_outputs(struct hrf_backward *b, int32_t loss,
                                   const struct compared *with, const bool *is_weight,
                                   int32_t n_values, struct hrf_gradients *gradients)
{
    struct hrf_graph *graph = b->graph;
    int32_t n_inputs = graph->n_inputs;
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)n_inputs + 2, sizeof *inputs);
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array((size_t)n_values + 1, sizeof *outputs);
    for (int32_t i = 0; i < n_inputs; i++)
        inputs[i] = graph->inputs[i];
    inputs[n_inputs++] = with->target;
    if (with->counts != HRF_NO_VALUE)
        inputs[n_inputs++] = with->counts;
    outputs[0] = loss;
    for (int32_t v = 0; v < n_values; v++)
        gradients->n += is_weight[v] && b->gradients[v] != HRF_NO_VALUE;
    gradients->names = hrf_calloc((size_t)gradients->n + 1, sizeof *gradients->names);
    for (int32_t v = 0, n = 0; v < n_values; v++)
        if (is_weight[v] && b->gradients[v] != HRF_NO_VALUE) {
            gradients->names[n++] = hrf_strdup(graph->values[v].name);
            outputs[n] = b->gradients[v];
        }
    for (int32_t i = 0; i <= gradients->n; i++)
        graph->values[outputs[i]].is_batch_sum = true;
    return hrf_graph_set_io(graph, inputs, n_inputs, outputs, gradients->n + 1, b->err);
}

/* Adds what the network's output is compared with. */
static enum hrf_status add_compared(struct hrf_graph *graph, int32_t y, struct compared *with,
                                    struct hrf_error *err)
{
    const struct hrf_shape shape = graph->values[y].shape;
    const struct hrf_shape images = graph->values[graph->inputs[0]].shape;
    struct hrf_shape of_images = { .rank = shape.rank, .dims = { shape.dims[0] } };
    with->counts = HRF_NO_VALUE;
    HRF_TRY(hrf_graph_add_value(graph, "target", HRF_F32, &shape, NULL, &with->target, err));
    if (graph->n_images == 0)
        return HRF_OK;
    if (shape.rank == 0 || images.rank == 0 || shape.dims[0] != images.dims[0])
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network's output does not have the batch as its first dimension, "
                             "so data= and microbatches= cannot share it: use spatial= or stages= "
                             "alone");
    for (int32_t i = 1; i < shape.rank; i++)
        of_images.dims[i] = 1;
    return hrf_graph_add_value(graph, "counts", HRF_F32, &of_images, NULL, &with->counts, err);
}

enum hrf_status hrf_pass_gradient(struct hrf_graph *graph, enum hrf_loss loss,
                                  struct hrf_gradients *gradients, struct hrf_error *err)
{
    hrf_pass_recover_functions(graph);
    hrf_pass_recover_attention(graph);
    struct hrf_backward b = { .graph = graph, .err = err };
    const int32_t y = logits_of(graph, loss), producer = graph->values[y].producer;
    struct compared with;
    int32_t n_nodes = graph->n_nodes;
    *gradients = (struct hrf_gradients){ .n = 0 };
    if (graph->n_outputs != 1 || producer < 0 || graph->values[y].dtype != HRF_F32)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network has %d outputs: gradients are those of one output of "
                             "floats that is computed",
                             (int)graph->n_outputs);
    HRF_TRY(add_compared(graph, y, &with, err));
    b.node = graph->nodes[producer];
    const int32_t computed_loss = add_loss(&b, loss, y, &with);
    HRF_TRY(b.status);
    n_nodes = graph->n_nodes;
    for (int32_t n = 0; n < n_nodes; n++)
        graph->nodes[n].origin = n + 1;
    const int32_t n_values = graph->n_values;
    HRF_AUTO_FREE bool *is_weight = hrf_calloc((size_t)n_values, sizeof *is_weight);
    HRF_AUTO_FREE bool *is_wanted = hrf_calloc((size_t)n_values, sizeof *is_wanted);
    HRF_AUTO_FREE int32_t *given = hrf_alloc_array((size_t)n_values, sizeof *given);
    b.is_wanted = is_wanted;
    b.gradients = given;
    for (int32_t v = 0; v < n_values; v++)
        given[v] = HRF_NO_VALUE;
    mark_wanted(&b, n_nodes, computed_loss, is_weight);
    if (!is_wanted[computed_loss])
        return hrf_error_set(err, HRF_E_USER, "the loss depends on no weights of the model's file");
    given[computed_loss] = hrf_backward_scalar(&b, 1);
    walk_back(&b, 0, n_nodes);
    HRF_TRY(b.status);
    return set_outputs(&b, computed_loss, &with, is_weight, n_values, gradients);
}

enum hrf_status hrf_pass_gradient_of_largest(struct hrf_graph *graph, int32_t y, int32_t value,
                                             int32_t *gradient, struct hrf_error *err)
{
    struct hrf_backward b = { .graph = graph, .err = err };
    const int32_t n_nodes = graph->n_nodes, n_values = graph->n_values;
    const struct hrf_shape shape = graph->values[y].shape;
    const uint32_t axes = ((1u << shape.rank) - 1) & ~1u; /* all of an image */
    HRF_AUTO_FREE bool *is_wanted = hrf_calloc((size_t)n_values, sizeof *is_wanted);
    HRF_AUTO_FREE int32_t *given = hrf_alloc_array((size_t)n_values, sizeof *given);
    HRF_AUTO_FREE float *ones = hrf_alloc_array((size_t)shape.dims[0] + 1, sizeof *ones);
    b.is_wanted = is_wanted;
    b.gradients = given;
    for (int32_t v = 0; v < n_values; v++)
        given[v] = HRF_NO_VALUE;
    is_wanted[value] = true;
    for (int32_t n = 0; n < n_nodes; n++) {
        graph->nodes[n].origin = n + 1;
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (passes_gradient(graph, &graph->nodes[n], k) && is_wanted[graph->nodes[n].inputs[k]])
                is_wanted[graph->nodes[n].outputs[0]] = true;
    }
    if (!is_wanted[y] || y == value)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "no gradient passes from '%s' to '%s'",
                             graph->values[y].name, graph->values[value].name);
    b.origin = graph->values[y].producer + 1;
    b.node = graph->nodes[graph->values[y].producer];
    const int32_t largest = hrf_backward_reduce(&b, HRF_OP_REDUCE_MAX, y, axes);
    const struct hrf_shape of_ones = hrf_backward_shape(&b, largest);
    for (int64_t i = 0; i < shape.dims[0]; i++)
        ones[i] = 1;
    given[y] = hrf_backward_share_of_extreme(
        &b, y, largest, hrf_backward_constant(&b, HRF_F32, &of_ones, ones), axes);
    walk_back(&b, graph->values[value].producer + 1, n_nodes);
    HRF_TRY(b.status);
    *gradient = given[value];
    return HRF_OK;
}

void hrf_pass_mark_weights(struct hrf_graph *graph)
{
    bool has_weights = false;
    for (int32_t v = 0; v < graph->n_values; v++)
        has_weights |= graph->values[v].is_initializer;
    for (int32_t v = 0; v < graph->n_values && !has_weights; v++)
        graph->values[v].is_initializer = graph->values[v].data != NULL &&
                                          graph->values[v].producer < 0;
}

enum hrf_status hrf_pass_training_step(struct hrf_graph *graph, enum hrf_loss loss,
                                       struct hrf_batch_norms *norms,
                                       struct hrf_gradients *gradients, struct hrf_error *err)
{
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    if (norms != NULL) {
        HRF_TRY(hrf_pass_batch_statistics(graph, norms, err));
        HRF_TRY(hrf_graph_infer_shapes(graph, err));
    }
    return hrf_pass_gradient(graph, loss, gradients, err);
}
