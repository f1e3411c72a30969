/* passes.c - the list of passes, and those that fold or fuse a node into its producer
 * (passes.h). */
#include "engine/passes/passes.h"

#include "engine/ir/op.h"
#include "engine/ir/readers.h"

#include <math.h>
#include <stdio.h>

enum hrf_status hrf_passes_run(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_TRY(hrf_pass_take_weight_scales(graph, err));
    HRF_TRY(hrf_pass_fold_constants(graph, err));
    HRF_TRY(hrf_pass_pool_means(graph, err));
    HRF_TRY(hrf_pass_fuse_functions(graph, err));
    HRF_TRY(hrf_pass_fold_batch_norm(graph, err));
    /* Activations before residuals: conv + relu + add must not become conv + add + relu. */
    HRF_TRY(hrf_pass_fuse_activation(graph, err));
    HRF_TRY(hrf_pass_fuse_residual(graph, err));
    HRF_TRY(hrf_pass_fuse_activation(graph, err));
    HRF_TRY(hrf_pass_split_conv_transpose(graph, err));
    HRF_TRY(hrf_pass_split_attention(graph, err));
    HRF_TRY(hrf_graph_compact(graph, err));
    return hrf_graph_check(graph, err);
}

/* True for a CAST to the type that its input already has; exporters write it around operators that
 * other runtimes compute in fewer bits. */
static bool is_cast_to_itself(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->op == HRF_OP_CAST &&
           graph->values[node->inputs[0]].dtype == graph->values[node->outputs[0]].dtype;
}

/* Moves that move nothing, as exporters write them for sizes that need no padding or cutting. */
static bool moves_nothing(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_value *x = node->n_inputs > 0 && node->inputs[0] >= 0
                                    ? &graph->values[node->inputs[0]]
                                    : NULL;
    if (x == NULL || x->shape.rank < 0 ||
        !hrf_shape_equal(&x->shape, &graph->values[node->outputs[0]].shape))
        return false;
    bool nothing = true;
    switch (node->op) {
    case HRF_OP_RESHAPE:
    case HRF_OP_FLATTEN:
    case HRF_OP_EXPAND:
    case HRF_OP_TILE:
        return true;
    case HRF_OP_CONCAT:
        return node->n_inputs == 1;
    case HRF_OP_TRANSPOSE:
        for (int32_t i = 0; i < a->n_axes; i++)
            nothing = nothing && a->axes[i] == i;
        return nothing;
    case HRF_OP_SLICE:
        for (int32_t i = 0; i < a->n_axes; i++)
            nothing = nothing && a->slice.steps[i] == 1;
        return nothing;
    case HRF_OP_PAD:
        for (int32_t i = 0; i < 2 * a->n_axes; i++)
            nothing = nothing && a->pad.sizes[i] == 0;
        return nothing;
    default:
        return false;
    }
}

enum hrf_status hrf_pass_fold_constants(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    HRF_AUTO_FREE int32_t *same_as = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *same_as);
    hrf_readers_init(graph, &readers);
    for (int32_t v = 0; v < graph->n_values; v++)
        same_as[v] = v;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0)
                node->inputs[k] = same_as[node->inputs[k]];
        if (is_cast_to_itself(graph, node) || moves_nothing(graph, node)) {
            node->op = HRF_OP_IDENTITY;
            node->n_inputs = 1;
        }
        if (node->op == HRF_OP_IDENTITY && !readers.is_output[node->outputs[0]])
            same_as[node->outputs[0]] = node->inputs[0];
    }
    return hrf_graph_compact(graph, err);
}

/* The node that computes `value`, if it has that operator and the value has one reader; else
 * NULL. */
static struct hrf_node *sole_producer(const struct hrf_graph *graph,
                                      const struct hrf_readers *readers, int32_t value,
                                      enum hrf_op op)
{
    if (value < 0 || graph->values[value].producer < 0 || graph->values[value].data != NULL)
        return NULL;
    struct hrf_node *node = &graph->nodes[graph->values[value].producer];
    return node->op == op && hrf_readers_is_one(readers, value) ? node : NULL;
}

/* Turns `consumer` into a copy of `producer` with n_inputs inputs; the consumer keeps its output.
 * The producer is then unused, and the next compaction removes it. */
static void take_over(struct hrf_node *consumer, const struct hrf_node *producer, int32_t n_inputs)
{
    int32_t *inputs = hrf_alloc_array((size_t)n_inputs, sizeof *inputs);
    for (int32_t i = 0; i < n_inputs; i++)
        inputs[i] = i < producer->n_inputs ? producer->inputs[i] : HRF_NO_VALUE;
    hrf_free(consumer->inputs);
    consumer->inputs = inputs;
    consumer->n_inputs = n_inputs;
    consumer->op = producer->op;
    consumer->attributes = producer->attributes;
}

struct fold {
    const float *scale, *shift, *mean, *variance, *weights, *bias;
    int64_t n_out, n_weights;
    /* Weight i belongs to output i / area % per_group + i / (area * per_group) / n_in *
     * per_group. */
    int64_t area, per_group, n_in;
    double epsilon;
};

static struct fold shape_of_fold(const struct hrf_node *conv, const struct hrf_shape *w)
{
    const bool transposed = conv->op == HRF_OP_CONV_TRANSPOSE;
    struct fold f = { .n_weights = hrf_shape_count(w) };
    f.per_group = transposed ? w->dims[1] : w->dims[0];
    f.n_out = transposed ? w->dims[1] * conv->attributes.group : w->dims[0];
    f.n_in = transposed ? w->dims[0] / conv->attributes.group : 1;
    f.area = transposed ? w->dims[2] * w->dims[3] : f.n_weights / f.n_out;
    return f;
}

static void fold_numbers(const struct fold *f, float *weights, float *bias)
{
    for (int64_t m = 0; m < f->n_out; m++) {
        double s = (double)f->scale[m] / sqrt((double)f->variance[m] + f->epsilon);
        double b = f->bias != NULL ? (double)f->bias[m] : 0;
        bias[m] = (float)((b - (double)f->mean[m]) * s + (double)f->shift[m]);
    }
    for (int64_t i = 0; i < f->n_weights; i += f->area) {
        const int64_t row = i / f->area, block = row / f->per_group;
        const int64_t m = row % f->per_group + block / f->n_in * f->per_group;
        const double s = (double)f->scale[m] / sqrt((double)f->variance[m] + f->epsilon);
        for (int64_t k = i; k < i + f->area; k++)
            weights[k] = (float)((double)f->weights[k] * s);
    }
}

static const float *constant(const struct hrf_graph *graph, const struct hrf_node *node, int32_t i)
{
    if (i >= node->n_inputs || node->inputs[i] < 0)
        return NULL;
    const struct hrf_value *value = &graph->values[node->inputs[i]];
    return value->dtype == HRF_F32 ? value->data : NULL;
}

static bool can_fold(const struct hrf_graph *graph, const struct hrf_node *norm,
                     const struct hrf_node *conv)
{
    for (int32_t i = 1; i <= 4; i++)
        if (constant(graph, norm, i) == NULL)
            return false;
    bool has_bias = conv->n_inputs > HRF_CONV_BIAS && conv->inputs[HRF_CONV_BIAS] >= 0;
    bool has_residual = conv->n_inputs > HRF_CONV_RESIDUAL && conv->inputs[HRF_CONV_RESIDUAL] >= 0;
    return constant(graph, conv, HRF_CONV_WEIGHTS) != NULL && !has_residual &&
           (!has_bias || constant(graph, conv, HRF_CONV_BIAS) != NULL) &&
           conv->n_inputs <= HRF_CONV_SCALES && conv->attributes.activation == HRF_ACT_NONE &&
           norm->attributes.activation == HRF_ACT_NONE;
}

/* *data is the graph's from here on. */
static enum hrf_status take_constant(struct hrf_graph *graph, const char *name, const char *suffix,
                                     const struct hrf_shape *shape, void **data, int32_t *index,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *full = hrf_format("%s.%s", name, suffix);
    return hrf_graph_take_value(graph, full, HRF_F32, shape, data, index, err);
}

static enum hrf_status fold_one(struct hrf_graph *graph, const struct hrf_readers *readers,
                                int32_t norm_index, const struct hrf_node *conv,
                                struct hrf_error *err)
{
    struct hrf_node *norm = &graph->nodes[norm_index];
    struct hrf_shape shape = graph->values[conv->inputs[HRF_CONV_WEIGHTS]].shape;
    struct fold f = shape_of_fold(conv, &shape);
    struct hrf_shape bias_shape = { .rank = 1, .dims = { f.n_out } };
    f.scale = constant(graph, norm, 1);
    f.shift = constant(graph, norm, 2);
    f.mean = constant(graph, norm, 3);
    f.variance = constant(graph, norm, 4);
    f.weights = constant(graph, conv, HRF_CONV_WEIGHTS);
    f.bias = constant(graph, conv, HRF_CONV_BIAS);
    f.epsilon = (double)norm->attributes.epsilon;
    HRF_AUTO_FREE void *weights = hrf_alloc_aligned((size_t)f.n_weights * sizeof(float),
                                                    sizeof(void *));
    HRF_AUTO_FREE void *bias = hrf_try_alloc_array((size_t)f.n_out, sizeof(float));
    HRF_CHECK_MEMORY(weights != NULL && bias != NULL, err, "no memory to fold node '%s'",
                     norm->name);
    fold_numbers(&f, weights, bias);
    int32_t w, b;
    HRF_TRY(take_constant(graph, norm->name, "weights", &shape, &weights, &w, err));
    HRF_TRY(take_constant(graph, norm->name, "bias", &bias_shape, &bias, &b, err));
    take_over(norm, conv, HRF_CONV_BIAS + 1);
    hrf_readers_drop_constant(readers, graph, conv->inputs[HRF_CONV_WEIGHTS]);
    norm->inputs[HRF_CONV_WEIGHTS] = w;
    norm->inputs[HRF_CONV_BIAS] = b;
    return HRF_OK;
}

enum hrf_status hrf_pass_fold_batch_norm(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    hrf_readers_init(graph, &readers);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *norm = &graph->nodes[i];
        if (norm->op != HRF_OP_BATCH_NORM)
            continue;
        const struct hrf_node *conv = sole_producer(graph, &readers, norm->inputs[0], HRF_OP_CONV);
        if (conv == NULL)
            conv = sole_producer(graph, &readers, norm->inputs[0], HRF_OP_CONV_TRANSPOSE);
        if (conv != NULL && can_fold(graph, norm, conv))
            HRF_TRY(fold_one(graph, &readers, i, conv, err));
    }
    return hrf_graph_compact(graph, err);
}

/* The CONV on input `side` of an Add that may take the other side as its residual. */
static struct hrf_node *residual_producer(const struct hrf_graph *graph,
                                          const struct hrf_readers *readers,
                                          const struct hrf_node *add, int32_t side)
{
    struct hrf_node *conv = sole_producer(graph, readers, add->inputs[side], HRF_OP_CONV);
    if (conv == NULL || conv->attributes.activation != HRF_ACT_NONE)
        return NULL;
    if (conv->n_inputs > HRF_CONV_RESIDUAL && conv->inputs[HRF_CONV_RESIDUAL] >= 0)
        return NULL;
    const struct hrf_value *other = &graph->values[add->inputs[1 - side]];
    const struct hrf_value *sum = &graph->values[add->outputs[0]];
    bool same = hrf_shape_equal(&other->shape, &sum->shape) && other->data == NULL &&
                hrf_shape_equal(&graph->values[add->inputs[side]].shape, &sum->shape);
    return same && add->inputs[0] != add->inputs[1] ? conv : NULL;
}

enum hrf_status hrf_pass_fuse_residual(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    hrf_readers_init(graph, &readers);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *add = &graph->nodes[i];
        if (add->op != HRF_OP_ADD)
            continue;
        struct hrf_node *sides[2] = { residual_producer(graph, &readers, add, 0),
                                      residual_producer(graph, &readers, add, 1) };
        /* If both operands qualify, fuse into the later one: its output is then still in the
         * cache. */
        int32_t side = sides[0] == NULL || (sides[1] != NULL && sides[1] > sides[0]) ? 1 : 0;
        if (sides[side] == NULL)
            continue;
        int32_t other = add->inputs[1 - side];
        const int32_t n = sides[side]->n_inputs;
        take_over(add, sides[side], n > HRF_CONV_N_INPUTS ? n : HRF_CONV_N_INPUTS);
        add->inputs[HRF_CONV_RESIDUAL] = other;
    }
    return hrf_graph_compact(graph, err);
}

/* The activation as which the node can be fused in any precision; NONE. */
static enum hrf_activation activation_of(const struct hrf_node *node)
{
    const enum hrf_activation activation = hrf_op_info(node->op)->activation;
    return activation < HRF_ACT_SIGMOID ? activation : HRF_ACT_NONE;
}

static struct hrf_node *activation_producer(const struct hrf_graph *graph,
                                            const struct hrf_readers *readers, int32_t value,
                                            enum hrf_activation activation)
{
    static const enum hrf_op ops[] = { HRF_OP_CONV, HRF_OP_CONV_TRANSPOSE, HRF_OP_BATCH_NORM,
                                       HRF_OP_GEMM };
    size_t n = activation == HRF_ACT_LEAKY_RELU ? 3 : 4; /* GEMM needs alpha as its factor */
    for (size_t i = 0; i < n; i++) {
        struct hrf_node *node = sole_producer(graph, readers, value, ops[i]);
        if (node != NULL && node->attributes.activation == HRF_ACT_NONE)
            return node;
    }
    return NULL;
}

enum hrf_status hrf_pass_fuse_activation(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    hrf_readers_init(graph, &readers);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        enum hrf_activation activation = activation_of(node);
        if (activation == HRF_ACT_NONE)
            continue;
        const struct hrf_node *producer = activation_producer(graph, &readers, node->inputs[0],
                                                              activation);
        if (producer == NULL)
            continue;
        struct hrf_attributes own = node->attributes;
        take_over(node, producer, producer->n_inputs);
        node->attributes.activation = activation;
        if (activation == HRF_ACT_CLIP) {
            node->attributes.activation_min = own.activation_min;
            node->attributes.activation_max = own.activation_max;
        } else if (activation == HRF_ACT_LEAKY_RELU) {
            node->attributes.alpha = own.alpha;
        }
    }
    return hrf_graph_compact(graph, err);
}
