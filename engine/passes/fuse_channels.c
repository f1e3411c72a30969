/* fuse_channels.c - takes what follows a convolution with a constant for each channel into its bias
 * and its weights: the bias of a product that has become a convolution, and LayerScale. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

static bool is_float_constant(const struct hrf_match *m, int32_t value)
{
    return value >= 0 && hrf_match_value(m, value)->data != NULL &&
           hrf_match_value(m, value)->dtype == HRF_F32;
}

/* The CONV with constant weights that computes `value` for this reader alone and has nothing fused
 * but a bias; NULL: none. */
static const struct hrf_node *find_open(const struct hrf_match *m, int32_t value)
{
    const struct hrf_node *conv = hrf_match_sole(m, value, HRF_OP_CONV);
    if (conv == NULL || conv->attributes.activation != HRF_ACT_NONE ||
        conv->n_inputs > HRF_CONV_RESIDUAL ||
        !is_float_constant(m, conv->inputs[HRF_CONV_WEIGHTS]) ||
        (conv->n_inputs > HRF_CONV_BIAS && conv->inputs[HRF_CONV_BIAS] >= 0 &&
         !is_float_constant(m, conv->inputs[HRF_CONV_BIAS])))
        return NULL;
    return conv;
}

/* A constant of one number for each of n channels, [n][1][1] or [1][n][1][1]; NULL. */
static const float *find_channels(const struct hrf_match *m, int32_t value, int64_t n)
{
    if (!is_float_constant(m, value))
        return NULL;
    const struct hrf_shape *s = &hrf_match_value(m, value)->shape;
    const bool fits = (s->rank == 3 || s->rank == 4) && hrf_shape_count(s) == n &&
                      s->dims[s->rank - 3] == n;
    return fits ? hrf_match_value(m, value)->data : NULL;
}

/* Weights and bias of the fused node: y = conv(x) * factors + shifts, each of the two maybe NULL.
 */
static enum hrf_status add_constants(struct hrf_match *m, const struct hrf_node *conv,
                                     const char *name, const float *factors, const float *shifts,
                                     int32_t inputs[3], struct hrf_error *err)
{
    struct hrf_graph *graph = m->graph;
    const struct hrf_shape shape = hrf_match_value(m, conv->inputs[HRF_CONV_WEIGHTS])->shape;
    const int64_t n = hrf_shape_count(&shape), channels = shape.dims[0];
    const struct hrf_shape line = { .rank = 1, .dims = { channels } };
    const float *w = hrf_match_value(m, conv->inputs[HRF_CONV_WEIGHTS])->data, *old = NULL;
    if (conv->n_inputs > HRF_CONV_BIAS && conv->inputs[HRF_CONV_BIAS] >= 0)
        old = hrf_match_value(m, conv->inputs[HRF_CONV_BIAS])->data;
    HRF_AUTO_FREE void *weights = factors != NULL
                                      ? hrf_alloc_aligned((size_t)n * sizeof(float), sizeof(void *))
                                      : NULL;
    HRF_AUTO_FREE float *bias = hrf_try_alloc_array((size_t)channels, sizeof *bias);
    HRF_AUTO_FREE char *name_w = hrf_format("%s.weights", name);
    HRF_AUTO_FREE char *name_b = hrf_format("%s.bias", name);
    if ((factors != NULL && weights == NULL) || bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to fuse node '%s'", name);
    for (int64_t c = 0; c < channels && factors != NULL; c++)
        for (int64_t i = c * (n / channels); i < (c + 1) * (n / channels); i++)
            ((float *)weights)[i] = w[i] * factors[c];
    for (int64_t c = 0; c < channels; c++)
        bias[c] = (old != NULL ? old[c] : 0) * (factors != NULL ? factors[c] : 1) +
                  (shifts != NULL ? shifts[c] : 0);
    inputs[HRF_CONV_X] = conv->inputs[HRF_CONV_X];
    inputs[HRF_CONV_WEIGHTS] = conv->inputs[HRF_CONV_WEIGHTS];
    if (factors != NULL) {
        HRF_TRY(hrf_graph_take_value(graph, name_w, HRF_F32, &shape, &weights,
                                     &inputs[HRF_CONV_WEIGHTS], err));
        hrf_readers_drop_constant(&m->readers, graph, conv->inputs[HRF_CONV_WEIGHTS]);
    }
    return hrf_graph_add_value(graph, name_b, HRF_F32, &line, bias, &inputs[HRF_CONV_BIAS], err);
}

static enum hrf_status fuse_node(struct hrf_match *m, struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_shape y = hrf_match_value(m, node->outputs[0])->shape;
    for (int k = 0; k < 2 && y.rank == 4; k++) {
        const struct hrf_node *conv = find_open(m, node->inputs[k]);
        const float *own = conv != NULL ? find_channels(m, node->inputs[1 - k], y.dims[1]) : NULL;
        if (own == NULL || !hrf_shape_equal(&hrf_match_value(m, node->inputs[k])->shape, &y))
            continue;
        const bool is_sum = node->op == HRF_OP_ADD;
        const struct hrf_attributes a = conv->attributes;
        int32_t inputs[3];
        HRF_TRY(add_constants(m, conv, node->name, is_sum ? NULL : own, is_sum ? own : NULL, inputs,
                              err));
        hrf_match_become(node, HRF_OP_CONV, inputs, 3, &a);
        return HRF_OK;
    }
    return HRF_OK;
}

enum hrf_status hrf_pass_fuse_channels(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        if ((node->op == HRF_OP_ADD || node->op == HRF_OP_MUL) &&
            node->attributes.activation == HRF_ACT_NONE)
            HRF_TRY(fuse_node(&match, node, err));
    }
    return hrf_graph_compact(graph, err);
}
