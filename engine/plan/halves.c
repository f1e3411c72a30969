/* halves.c - builds the two graphs before and after a cut (halves.h). */
#include "engine/plan/halves.h"

#include "engine/plan/pixel_stride.h"
#include "engine/plan/region.h"

void hrf_halves_release(struct hrf_halves *halves)
{
    hrf_graph_destroy(halves->head);
    hrf_graph_destroy(halves->tail);
    hrf_free(halves->crossings);
    *halves = (struct hrf_halves){ .head = NULL };
}

struct cutting {
    const struct hrf_graph *from;
    int32_t cut;
    bool borrows;
    struct hrf_halves *to;
    int32_t *in_head, *in_tail; /* [values of from]; -1: not there */
};

/* The only reader of the value if it is a global mean; else -1. */
static int32_t find_mean(const struct hrf_graph *graph, int32_t value)
{
    int32_t reader = -1, n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (graph->nodes[i].inputs[k] == value) {
                reader = i;
                n++;
            }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        n += graph->outputs[i] == value;
    return n == 1 && graph->nodes[reader].op == HRF_OP_GLOBAL_AVERAGE_POOL ? reader : -1;
}

static enum hrf_status copy_value(const struct cutting *c, struct hrf_graph *to, int32_t value,
                                  int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = &c->from->values[value];
    if (*index >= 0)
        return HRF_OK;
    if (v->data != NULL && c->borrows)
        HRF_TRY(hrf_graph_borrow_value(to, v->name, v->dtype, &v->shape, v->data, index, err));
    else
        HRF_TRY(hrf_graph_share_value(to, v, v->name, index, err));
    to->values[*index].quantization = v->quantization;
    to->values[*index].pixel_stride = v->pixel_stride;
    return HRF_OK;
}

static enum hrf_status copy_node(const struct cutting *c, struct hrf_graph *to, int32_t *map,
                                 const struct hrf_node *node, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        inputs[k] = HRF_NO_VALUE;
        if (node->inputs[k] < 0)
            continue;
        HRF_TRY(copy_value(c, to, node->inputs[k], &map[node->inputs[k]], err));
        inputs[k] = map[node->inputs[k]];
    }
    HRF_TRY(copy_value(c, to, node->outputs[0], &map[node->outputs[0]], err));
    return hrf_graph_add_node(to, node->op, node->name, inputs, node->n_inputs,
                              &map[node->outputs[0]], 1, &node->attributes, err);
}

/* ---- what crosses ---- */

static bool is_made_before(const struct cutting *c, int32_t value)
{
    return hrf_graph_is_variable(c->from, value) && c->from->values[value].producer < c->cut;
}

/* Adds to the tail the sums that stand for an image, and their division in place of its mean. */
static enum hrf_status add_summed(struct cutting *c, int32_t value, int32_t mean, int32_t *sums,
                                  struct hrf_error *err)
{
    const struct hrf_value *v = &c->from->values[value];
    const struct hrf_node *node = &c->from->nodes[mean];
    const struct hrf_shape shape = { .rank = 4,
                                     .dims = { v->shape.dims[0], v->shape.dims[1], 1, 1 } };
    struct hrf_attributes attributes = node->attributes;
    int32_t *output = &c->in_tail[node->outputs[0]];
    HRF_TRY(hrf_graph_add_value(c->to->tail, v->name, hrf_region_sum_type(v->dtype), &shape, NULL,
                                sums, err));
    c->to->tail->values[*sums].quantization = v->quantization;
    HRF_TRY(copy_value(c, c->to->tail, node->outputs[0], output, err));
    attributes.n_pixels = v->shape.dims[2] * v->shape.dims[3];
    return hrf_graph_add_node(c->to->tail, HRF_OP_POOL_FINISH, node->name, sums, 1, output, 1,
                              &attributes, err);
}

static enum hrf_status add_crossing(struct cutting *c, int32_t value, struct hrf_error *err)
{
    const int32_t mean = find_mean(c->from, value);
    struct hrf_crossing *x = &c->to->crossings[c->to->n_crossings++];
    *x = (struct hrf_crossing){ .in_head = c->in_head[value], .in_tail = -1 };
    x->is_summed = mean >= c->cut;
    if (x->is_summed)
        return add_summed(c, value, mean, &x->in_tail, err);
    HRF_TRY(copy_value(c, c->to->tail, value, &c->in_tail[value], err));
    x->in_tail = c->in_tail[value];
    return HRF_OK;
}

static enum hrf_status add_crossings(struct cutting *c, struct hrf_error *err)
{
    const struct hrf_graph *from = c->from;
    c->to->crossings = hrf_calloc((size_t)from->n_values + 1, sizeof *c->to->crossings);
    HRF_AUTO_FREE bool *is_done = hrf_calloc((size_t)from->n_values + 1, sizeof *is_done);
    for (int32_t n = c->cut; n < from->n_nodes; n++)
        for (int32_t k = 0; k < from->nodes[n].n_inputs; k++) {
            const int32_t value = from->nodes[n].inputs[k];
            if (value < 0 || !is_made_before(c, value) || is_done[value])
                continue;
            if (from->values[value].producer < 0)
                return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                     "input '%s' is read on both sides of the cut",
                                     from->values[value].name);
            is_done[value] = true;
            HRF_TRY(add_crossing(c, value, err));
        }
    return HRF_OK;
}

/* ---- ends ---- */

static enum hrf_status set_ends(struct cutting *c, struct hrf_error *err)
{
    const struct hrf_graph *from = c->from;
    const size_t n = (size_t)(from->n_values + from->n_outputs);
    HRF_AUTO_FREE int32_t *in = hrf_alloc_array(n + 1, sizeof *in);
    HRF_AUTO_FREE int32_t *out = hrf_alloc_array(n + 1, sizeof *out);
    int32_t n_in = 0;
    for (int32_t i = 0; i < from->n_inputs; i++)
        if (c->in_head[from->inputs[i]] >= 0)
            in[n_in++] = c->in_head[from->inputs[i]];
    for (int32_t i = 0; i < c->to->n_crossings; i++)
        out[i] = c->to->crossings[i].in_head;
    HRF_TRY(hrf_graph_set_io(c->to->head, in, n_in, out, c->to->n_crossings, err));
    for (int32_t i = 0; i < c->to->n_crossings; i++)
        in[i] = c->to->crossings[i].in_tail;
    for (int32_t i = 0; i < from->n_outputs; i++) {
        out[i] = c->in_tail[from->outputs[i]];
        if (out[i] < 0 || is_made_before(c, from->outputs[i]))
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "output '%s' is made before the cut",
                                 from->values[from->outputs[i]].name);
    }
    return hrf_graph_set_io(c->to->tail, in, c->to->n_crossings, out, from->n_outputs, err);
}

static enum hrf_status cut_graph(struct cutting *c, struct hrf_error *err)
{
    HRF_TRY(hrf_graph_create(c->from->name, &c->to->head, err));
    HRF_TRY(hrf_graph_create(c->from->name, &c->to->tail, err));
    for (int32_t n = 0; n < c->cut; n++)
        HRF_TRY(copy_node(c, c->to->head, c->in_head, &c->from->nodes[n], err));
    HRF_TRY(add_crossings(c, err));
    for (int32_t n = c->cut; n < c->from->n_nodes; n++)
        if (c->in_tail[c->from->nodes[n].outputs[0]] < 0) /* else a mean that is there already */
            HRF_TRY(copy_node(c, c->to->tail, c->in_tail, &c->from->nodes[n], err));
    HRF_TRY(set_ends(c, err));
    hrf_pixel_stride_settle(c->to->head);
    hrf_pixel_stride_settle(c->to->tail);
    return HRF_OK;
}

enum hrf_status hrf_halves_create(const struct hrf_graph *graph, int32_t cut, bool borrows,
                                  struct hrf_halves *out, struct hrf_error *err)
{
    const size_t n = (size_t)graph->n_values;
    struct hrf_halves halves = { .head = NULL };
    HRF_AUTO_FREE int32_t *in_head = hrf_alloc_array(2 * n + 1, sizeof *in_head);
    for (size_t i = 0; i < 2 * n; i++)
        in_head[i] = -1;
    struct cutting c = { graph, cut, borrows, &halves, in_head, in_head + n };
    const enum hrf_status status = cut_graph(&c, err);
    if (status != HRF_OK)
        hrf_halves_release(&halves);
    else
        *out = halves;
    return status;
}

bool hrf_halves_is_single(const struct hrf_graph *graph, const int32_t *last_readers, int32_t cut)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const int32_t producer = graph->values[v].producer;
        n += producer >= 0 && producer < cut && last_readers[v] >= cut;
    }
    return n == 1;
}
