#include "engine/passes/match.h"

#include <string.h>

void hrf_match_init(struct hrf_graph *graph, struct hrf_match *out)
{
    out->graph = graph;
    hrf_readers_init(graph, &out->readers);
}

void hrf_match_release(struct hrf_match *match)
{
    hrf_readers_release(&match->readers);
}

const struct hrf_node *hrf_match_any(const struct hrf_match *match, int32_t value, enum hrf_op op)
{
    if (value < 0 || match->graph->values[value].producer < 0 ||
        match->graph->values[value].data != NULL)
        return NULL;
    const struct hrf_node *node = &match->graph->nodes[match->graph->values[value].producer];
    return node->op == op ? node : NULL;
}

const struct hrf_node *hrf_match_sole(const struct hrf_match *match, int32_t value, enum hrf_op op)
{
    const struct hrf_node *node = hrf_match_any(match, value, op);
    return node != NULL && hrf_readers_is_one(&match->readers, value) ? node : NULL;
}

bool hrf_match_number(const struct hrf_match *match, int32_t value, double *number)
{
    if (value < 0)
        return false;
    const struct hrf_value *v = &match->graph->values[value];
    if (v->data == NULL || v->dtype != HRF_F32 || hrf_shape_count(&v->shape) != 1)
        return false;
    *number = (double)*(const float *)v->data;
    return true;
}

int32_t hrf_match_other(const struct hrf_match *match, const struct hrf_node *node, double *number)
{
    if (hrf_match_number(match, node->inputs[1], number))
        return node->inputs[0];
    return hrf_match_number(match, node->inputs[0], number) ? node->inputs[1] : -1;
}

bool hrf_match_factors(const struct hrf_match *match, int32_t value, struct hrf_match_product *out)
{
    enum { MOST_STEPS = 16 };
    int32_t open[MOST_STEPS], n_open = 0;
    *out = (struct hrf_match_product){ .number = 1 };
    open[n_open++] = value;
    for (int step = 0; n_open > 0; step++) {
        const int32_t at = open[--n_open];
        double number;
        /* The product itself may have several readers. */
        const struct hrf_node *mul = at == value ? hrf_match_any(match, at, HRF_OP_MUL)
                                                 : hrf_match_sole(match, at, HRF_OP_MUL);
        const struct hrf_node *div = at == value ? hrf_match_any(match, at, HRF_OP_DIV)
                                                 : hrf_match_sole(match, at, HRF_OP_DIV);
        if (step >= MOST_STEPS || n_open + 2 > MOST_STEPS)
            return false;
        if (hrf_match_number(match, at, &number)) {
            out->number *= number;
        } else if (mul != NULL) {
            open[n_open++] = mul->inputs[0];
            open[n_open++] = mul->inputs[1];
        } else if (div != NULL && hrf_match_number(match, div->inputs[1], &number) && number != 0) {
            out->number /= number;
            open[n_open++] = div->inputs[0];
        } else {
            if (out->n == HRF_MATCH_FACTORS)
                return false;
            out->factors[out->n++] = at;
        }
    }
    return true;
}

enum hrf_status hrf_match_insert(struct hrf_graph *graph, int32_t at, enum hrf_op op,
                                 const char *name, const int32_t *inputs, int32_t n_inputs,
                                 const struct hrf_shape *shape,
                                 const struct hrf_attributes *attributes, int32_t *out,
                                 struct hrf_error *err)
{
    const enum hrf_dtype type = graph->values[inputs[0]].dtype;
    HRF_TRY(hrf_graph_add_value(graph, name, type, shape, NULL, out, err));
    return hrf_graph_insert_node(graph, at, op, name, inputs, n_inputs, out, 1, attributes, err);
}

void hrf_match_become(struct hrf_node *node, enum hrf_op op, const int32_t *inputs,
                      int32_t n_inputs, const struct hrf_attributes *attributes)
{
    int32_t *own = hrf_alloc_array((size_t)n_inputs, sizeof *own);
    memcpy(own, inputs, (size_t)n_inputs * sizeof *own);
    hrf_free(node->inputs);
    node->inputs = own;
    node->n_inputs = n_inputs;
    node->op = op;
    node->attributes = *attributes;
}
