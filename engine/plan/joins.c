/* joins.c - which values lie inside of a concatenation's output (joins.h).
 *
 * Concatenations are visited from the last to the first, so that the one that contains all others
 * is the host of them all.
 */
#include "engine/plan/joins.h"

#include "engine/plan/pixel_stride.h"

enum {
    NOWHERE = -1,
    NEVER = -2, /* the value must be dense */
    LINE = 64,  /* bytes of a cache line, which is read and written as a whole */
};

struct search {
    const struct hrf_graph *graph;
    hrf_may_join *may_join;
    const void *context;
    struct hrf_join *joins;
};

static const struct hrf_value *value_of(const struct search *s, int32_t value)
{
    return &s->graph->values[value];
}

static bool is_channel_concat(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    return node->op == HRF_OP_CONCAT && y->rank == 4 && node->attributes.axis == 1 &&
           hrf_shape_count(y) > 0;
}

static bool is_listed(const int32_t *values, int32_t n, int32_t value)
{
    for (int32_t i = 0; i < n; i++)
        if (values[i] == value)
            return true;
    return false;
}

/* The graph's inputs and outputs have memory of their own. */
static bool is_at_an_end(const struct hrf_graph *graph, int32_t value)
{
    return graph->values[value].producer < 0 || graph->values[value].data != NULL ||
           is_listed(graph->outputs, graph->n_outputs, value);
}

static bool fits(const struct search *s, int32_t value, int32_t host, int64_t channel)
{
    const struct hrf_value *v = value_of(s, value), *h = value_of(s, host);
    const int64_t size = (int64_t)hrf_dtype_size(v->dtype);
    const int64_t *a = v->shape.dims, *b = h->shape.dims;
    return s->joins[value].host == NOWHERE && !is_at_an_end(s->graph, value) &&
           s->graph->nodes[v->producer].outputs[0] == value && v->dtype == h->dtype &&
           v->shape.rank == 4 && a[0] == b[0] && a[1] < b[1] && a[2] == b[2] && a[3] == b[3] &&
           channel * size % LINE == 0 && a[1] * size % LINE == 0 &&
           hrf_value_pixel_stride(h) * size % LINE == 0 &&
           /* a residual is copied with all that lies between its pixels */
           hrf_node_residual(&s->graph->nodes[v->producer]) < 0 &&
           s->may_join(s->context, value, host);
}

static int64_t channels_of(const struct search *s, int32_t value)
{
    return value_of(s, value)->shape.dims[1];
}

/* True if all inputs of the node lie in the host side by side, from that channel on. */
static bool lies_there(const struct search *s, const struct hrf_node *node, int32_t host,
                       int64_t channel)
{
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const struct hrf_join *join = &s->joins[node->inputs[k]];
        if (join->host != host || join->channel != channel)
            return false;
        channel += channels_of(s, node->inputs[k]);
    }
    return true;
}

/* Adds the concatenations before node n whose inputs lie in the host, so that their outputs are
 * there already. */
static void add_parts(struct search *s, int32_t n, int32_t host)
{
    for (int32_t m = 0; m < n; m++) {
        const struct hrf_node *node = &s->graph->nodes[m];
        if (!is_channel_concat(s->graph, node) || s->joins[node->inputs[0]].host != host)
            continue;
        const int64_t channel = s->joins[node->inputs[0]].channel;
        if (lies_there(s, node, host, channel) && fits(s, node->outputs[0], host, channel))
            s->joins[node->outputs[0]] = (struct hrf_join){ host, channel };
    }
}

static void add_inputs(struct search *s, int32_t n)
{
    const struct hrf_node *node = &s->graph->nodes[n];
    const struct hrf_join *own = &s->joins[node->outputs[0]];
    const int32_t host = own->host >= 0 ? own->host : node->outputs[0];
    int64_t channel = own->host >= 0 ? own->channel : 0;
    if (own->host == NEVER || is_at_an_end(s->graph, host))
        return;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const int32_t value = node->inputs[k];
        if (fits(s, value, host, channel))
            s->joins[value] = (struct hrf_join){ host, channel };
        channel += channels_of(s, value);
    }
    add_parts(s, n, host);
}

static void rule_out(struct search *s, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs + node->n_outputs; k++) {
        const int32_t v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
        if (v >= 0)
            s->joins[v].host = NEVER;
    }
}

void hrf_joins_find(const struct hrf_graph *graph, hrf_may_join *may_join, const void *context,
                    struct hrf_join *joins)
{
    struct search search = { graph, may_join, context, joins };
    for (int32_t v = 0; v < graph->n_values; v++)
        joins[v] = (struct hrf_join){ .host = NOWHERE };
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (hrf_pixel_stride_wants_dense(graph, &graph->nodes[n]))
            rule_out(&search, &graph->nodes[n]);
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        if (is_channel_concat(graph, &graph->nodes[n]))
            add_inputs(&search, n);
    for (int32_t v = 0; v < graph->n_values; v++)
        if (joins[v].host == NEVER)
            joins[v].host = NOWHERE;
}

static bool have_equal_strides(const void *context, int32_t value, int32_t host)
{
    const struct hrf_graph *graph = context;
    return hrf_value_pixel_stride(&graph->values[value]) ==
           hrf_value_pixel_stride(&graph->values[host]);
}

void hrf_joins_of_strides(const struct hrf_graph *graph, struct hrf_join *joins)
{
    hrf_joins_find(graph, have_equal_strides, graph, joins);
}
