/* fuse_functions.c - recovers functions of one number that exporters write as several operators:
 * GELU in both of its forms, and Swish (SiLU). */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <math.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b); /* exporters write 1.4142, 0.7978845608 ... */
}

/* x * sigmoid(x): the other operand of a MUL. */
static int32_t find_swish(const struct hrf_match *m, const struct hrf_node *node)
{
    for (int k = 0; k < 2; k++) {
        const struct hrf_node *gate = hrf_match_sole(m, node->inputs[k], HRF_OP_SIGMOID);
        if (gate != NULL && gate->inputs[0] == node->inputs[1 - k])
            return node->inputs[1 - k];
    }
    return -1;
}

/* The a of a + 1. */
static int32_t before_one(const struct hrf_match *m, int32_t value)
{
    double one = 0;
    const struct hrf_node *add = hrf_match_sole(m, value, HRF_OP_ADD);
    const int32_t other = add != NULL ? hrf_match_other(m, add, &one) : -1;
    return one == 1 ? other : -1;
}

static bool is_scaled(const struct hrf_match *m, int32_t value, double number, int32_t of)
{
    struct hrf_match_product p;
    return hrf_match_factors(m, value, &p) && p.n == 1 && p.factors[0] == of &&
           is_near(p.number, number);
}

/* x^3, times a number. */
static bool is_cube(const struct hrf_match *m, int32_t value, double number, int32_t x)
{
    struct hrf_match_product p;
    double exponent;
    if (!hrf_match_factors(m, value, &p) || !is_near(p.number, number))
        return false;
    if (p.n == 3)
        return p.factors[0] == x && p.factors[1] == x && p.factors[2] == x;
    if (p.n != 1)
        return false;
    const struct hrf_node *power = hrf_match_sole(m, p.factors[0], HRF_OP_POW);
    return power != NULL && power->inputs[0] == x &&
           hrf_match_number(m, power->inputs[1], &exponent) && exponent == 3;
}

/* sqrt(2 / pi) * (x + 0.044715 x^3) */
static bool is_tanh_argument(const struct hrf_match *m, int32_t value, int32_t x)
{
    struct hrf_match_product p;
    if (!hrf_match_factors(m, value, &p) || p.n != 1 || !is_near(p.number, 0.7978845608028654))
        return false;
    const struct hrf_node *add = hrf_match_sole(m, p.factors[0], HRF_OP_ADD);
    if (add == NULL)
        return false;
    return (add->inputs[0] == x && is_cube(m, add->inputs[1], 0.044715, x)) ||
           (add->inputs[1] == x && is_cube(m, add->inputs[0], 0.044715, x));
}

/* 0.5 * x * (1 + erf(x / sqrt(2))), or with tanh, in any order; *op is which. */
static int32_t find_gelu(const struct hrf_match *m, const struct hrf_node *node, enum hrf_op *op)
{
    struct hrf_match_product p;
    if (!hrf_match_factors(m, node->outputs[0], &p) || p.n != 2 || !is_near(p.number, 0.5))
        return -1;
    for (int k = 0; k < 2; k++) {
        const int32_t x = p.factors[1 - k], inner = before_one(m, p.factors[k]);
        const struct hrf_node *erf = hrf_match_sole(m, inner, HRF_OP_ERF);
        const struct hrf_node *tanh = hrf_match_sole(m, inner, HRF_OP_TANH);
        *op = erf != NULL ? HRF_OP_GELU : HRF_OP_GELU_TANH;
        if (erf != NULL && is_scaled(m, erf->inputs[0], 0.7071067811865476, x))
            return x;
        if (tanh != NULL && is_tanh_argument(m, tanh->inputs[0], x))
            return x;
    }
    return -1;
}

void hrf_pass_recover_functions(struct hrf_graph *graph)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    const struct hrf_attributes plain = hrf_attributes_default();
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        enum hrf_op op = HRF_OP_SWISH;
        if (node->op != HRF_OP_MUL && node->op != HRF_OP_DIV)
            continue;
        int32_t x = node->op == HRF_OP_MUL ? find_swish(&match, node) : -1;
        if (x < 0)
            x = find_gelu(&match, node, &op);
        if (x >= 0)
            hrf_match_become(node, op, &x, 1, &plain);
    }
}

enum hrf_status hrf_pass_fuse_functions(struct hrf_graph *graph, struct hrf_error *err)
{
    hrf_pass_recover_functions(graph);
    return hrf_graph_compact(graph, err);
}
