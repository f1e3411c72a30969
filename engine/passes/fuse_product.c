/* fuse_product.c - makes one GEMM of a product with a constant matrix and the nodes that exporters
 * write after it: bias, LayerScale, residual. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

/* x [..][K] times a constant matrix [K][N]. Values of rank 4 lie in memory as images, whose last
 * axis is not the innermost. */
static bool is_product(const struct hrf_match *m, const struct hrf_node *node)
{
    if (node->op != HRF_OP_MATMUL)
        return false;
    const struct hrf_value *x = hrf_match_value(m, node->inputs[0]),
                           *w = hrf_match_value(m, node->inputs[1]);
    return x->data == NULL && x->shape.rank >= 2 && x->shape.rank != 4 && w->data != NULL &&
           w->dtype == HRF_F32 && w->shape.rank == 2;
}

/* The product that computes `value` for this reader alone, if nothing follows its product but,
 * maybe, a bias; NULL. */
static const struct hrf_node *find_open(const struct hrf_match *m, int32_t value, enum hrf_op op)
{
    const struct hrf_node *gemm = hrf_match_sole(m, value, op);
    if (gemm == NULL || gemm->attributes.activation != HRF_ACT_NONE ||
        (gemm->n_inputs > HRF_CONV_RESIDUAL && gemm->inputs[HRF_CONV_RESIDUAL] >= 0))
        return NULL;
    return gemm;
}

static int32_t bias_of(const struct hrf_node *gemm)
{
    return gemm->n_inputs > HRF_CONV_BIAS ? gemm->inputs[HRF_CONV_BIAS] : HRF_NO_VALUE;
}

/* A constant number for each column of a product. */
static const float *find_row(const struct hrf_match *m, int32_t value, int64_t columns)
{
    const struct hrf_value *v = hrf_match_value(m, value);
    return v->data != NULL && v->dtype == HRF_F32 && hrf_shape_count(&v->shape) == columns &&
                   hrf_shape_last(&v->shape) == columns
               ? v->data
               : NULL;
}

static void take_bias(const struct hrf_match *m, struct hrf_node *add)
{
    const struct hrf_shape *y = &hrf_match_value(m, add->outputs[0])->shape;
    for (int k = 0; k < 2; k++) {
        const struct hrf_node *gemm = find_open(m, add->inputs[k], HRF_OP_GEMM);
        const int32_t bias = add->inputs[1 - k];
        if (gemm == NULL || bias_of(gemm) >= 0 || find_row(m, bias, hrf_shape_last(y)) == NULL ||
            !hrf_shape_equal(&hrf_match_value(m, add->inputs[k])->shape, y))
            continue;
        const bool has_scales = gemm->n_inputs > HRF_CONV_SCALES;
        const int32_t inputs[] = { gemm->inputs[0], gemm->inputs[1], bias, HRF_NO_VALUE,
                                   has_scales ? gemm->inputs[HRF_CONV_SCALES] : HRF_NO_VALUE };
        struct hrf_attributes a = gemm->attributes;
        a.gemm.beta = 1;
        hrf_match_become(add, HRF_OP_GEMM, inputs, has_scales ? 5 : 3, &a);
        return;
    }
}

/* A constant of the graph, each column multiplied by its factor, in its place. */
static enum hrf_status add_scaled(struct hrf_match *m, int32_t from, const char *name,
                                  const float *factors, int64_t columns, int32_t *out,
                                  struct hrf_error *err)
{
    struct hrf_graph *graph = m->graph;
    const struct hrf_shape shape = graph->values[from].shape;
    const float *x = graph->values[from].data;
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE void *scaled = hrf_alloc_aligned((size_t)n * sizeof(float), sizeof(void *));
    HRF_AUTO_FREE char *own = hrf_format("%s.%s", name, graph->values[from].name);
    if (scaled == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to fuse node '%s'", name);
    for (int64_t i = 0; i < n; i++)
        ((float *)scaled)[i] = x[i] * factors[i % columns];
    HRF_TRY(hrf_graph_take_value(graph, own, HRF_F32, &shape, &scaled, out, err));
    hrf_readers_drop_constant(&m->readers, graph, from);
    return HRF_OK;
}

/* LayerScale: a factor for each column goes into the weights and the bias. */
static enum hrf_status take_factors(struct hrf_match *m, struct hrf_node *mul,
                                    struct hrf_error *err)
{
    const int64_t columns = hrf_shape_last(&hrf_match_value(m, mul->outputs[0])->shape);
    for (int k = 0; k < 2; k++) {
        const struct hrf_node *gemm = find_open(m, mul->inputs[k], HRF_OP_GEMM);
        const float *factors = gemm != NULL ? find_row(m, mul->inputs[1 - k], columns) : NULL;
        if (factors == NULL || gemm->attributes.gemm.transpose_b ||
            gemm->n_inputs > HRF_CONV_RESIDUAL ||
            hrf_match_value(m, gemm->inputs[1])->data == NULL ||
            (bias_of(gemm) >= 0 && find_row(m, bias_of(gemm), columns) == NULL) ||
            !hrf_shape_equal(&hrf_match_value(m, mul->inputs[k])->shape,
                             &hrf_match_value(m, mul->outputs[0])->shape))
            continue;
        int32_t inputs[] = { gemm->inputs[0], gemm->inputs[1], bias_of(gemm) };
        HRF_TRY(add_scaled(m, inputs[1], mul->name, factors, columns, &inputs[1], err));
        if (inputs[2] >= 0)
            HRF_TRY(add_scaled(m, inputs[2], mul->name, factors, columns, &inputs[2], err));
        hrf_match_become(mul, HRF_OP_GEMM, inputs, 3, &gemm->attributes);
        return HRF_OK;
    }
    return HRF_OK;
}

enum hrf_status hrf_pass_fuse_product(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    struct hrf_attributes plain = hrf_attributes_default();
    plain.gemm.alpha = plain.gemm.beta = 1;
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        if (is_product(&match, node))
            hrf_match_become(node, HRF_OP_GEMM,
                             (const int32_t[]){ node->inputs[0], node->inputs[1] }, 2, &plain);
        else if (node->op == HRF_OP_ADD)
            take_bias(&match, node);
        else if (node->op == HRF_OP_MUL)
            HRF_TRY(take_factors(&match, node, err));
    }
    return hrf_graph_compact(graph, err);
}

/* The product on input k of an ADD that may take the other input as its residual: all three in one
 * type of floats, and the weights no integers. */
static const struct hrf_node *find_summand(const struct hrf_match *m, const struct hrf_node *add,
                                           int k)
{
    static const enum hrf_op ops[] = { HRF_OP_GEMM, HRF_OP_CONV, HRF_OP_TOKEN_PRODUCT };
    const struct hrf_node *gemm = NULL;
    const struct hrf_value *y = hrf_match_value(m, add->outputs[0]);
    for (int i = 0; i < 3 && gemm == NULL; i++)
        gemm = find_open(m, add->inputs[k], ops[i]);
    const struct hrf_value *sides[] = { hrf_match_value(m, add->inputs[0]),
                                        hrf_match_value(m, add->inputs[1]) };
    if (gemm == NULL || add->inputs[0] == add->inputs[1] || !hrf_dtype_is_float(y->dtype) ||
        sides[1 - k]->data != NULL ||
        (gemm->n_inputs > HRF_CONV_SCALES && gemm->op != HRF_OP_TOKEN_PRODUCT) ||
        !hrf_dtype_is_float(hrf_match_value(m, gemm->inputs[0])->dtype) ||
        hrf_match_value(m, gemm->inputs[1])->data == NULL)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (sides[i]->dtype != y->dtype || !hrf_shape_equal(&sides[i]->shape, &y->shape))
            return NULL;
    return gemm;
}

enum hrf_status hrf_pass_fuse_product_residual(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *add = &graph->nodes[i];
        if (add->op != HRF_OP_ADD || add->attributes.activation != HRF_ACT_NONE)
            continue;
        /* The later one of two: its output is still in the cache. */
        const struct hrf_node *sides[] = { find_summand(&match, add, 0),
                                           find_summand(&match, add, 1) };
        const int k = sides[0] == NULL || (sides[1] != NULL && sides[1] > sides[0]) ? 1 : 0;
        if (sides[k] == NULL)
            continue;
        int32_t inputs[HRF_CONV_FACTORS + 1] = { sides[k]->inputs[0], sides[k]->inputs[1],
                                                 bias_of(sides[k]), add->inputs[1 - k] };
        const int32_t n = sides[k]->n_inputs > HRF_CONV_N_INPUTS ? sides[k]->n_inputs
                                                                 : HRF_CONV_N_INPUTS;
        for (int32_t j = HRF_CONV_N_INPUTS; j < n; j++)
            inputs[j] = sides[k]->inputs[j];
        const struct hrf_attributes a = sides[k]->attributes;
        hrf_match_become(add, sides[k]->op, inputs, n, &a);
    }
    return hrf_graph_compact(graph, err);
}
