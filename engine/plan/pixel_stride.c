/* pixel_stride.c - which values get a pixel stride, and which must be dense (pixel_stride.h). */
#include "engine/plan/pixel_stride.h"

#include "engine/plan/joins.h"
#include "engine/plan/plan.h"

enum {
    BAD_BYTES = 4096, /* pixels at this distance map to the same set of an L1 cache of 64 sets */
    SLACK = 16,       /* floats: one cache line */
    MAX_PLANS = 64,   /* the most plans that are made to find concatenations that take no memory */
};

static bool would_gain(const struct hrf_value *value)
{
    return value->dtype == HRF_F32 && value->data == NULL && value->producer >= 0 &&
           value->shape.rank == 4 && hrf_shape_count(&value->shape) > 0 &&
           value->shape.dims[1] * (int64_t)sizeof(float) % BAD_BYTES == 0;
}

/* Takes the pixel stride from every value that a node which writes or reads it does not accept. */
static void drop_refused(struct hrf_graph *graph, const struct hrf_node *node,
                         const struct hrf_kernel_table *kernels)
{
    for (int32_t k = -1; k < node->n_inputs; k++) {
        const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
        if (value >= 0 && graph->values[value].pixel_stride > 0 &&
            !hrf_kernels_take_pixel_stride(kernels, graph, node, k))
            graph->values[value].pixel_stride = 0;
    }
}

static void make_dense(struct hrf_graph *graph, const int32_t *values, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (values[i] >= 0)
            graph->values[values[i]].pixel_stride = 0;
}

bool hrf_pixel_stride_wants_dense(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op >= HRF_OP_EXCHANGE)
        return true;
    const int32_t x = node->n_inputs > 0 ? node->inputs[0] : HRF_NO_VALUE;
    const int32_t producer = x >= 0 ? graph->values[x].producer : -1;
    return producer >= 0 && graph->nodes[producer].op == HRF_OP_EXCHANGE;
}

/* Makes a residual and the output that it is added to have the same stride; true if they all had.
 * */
static bool match_residuals(struct hrf_graph *graph)
{
    bool matched = true;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        if (node->op != HRF_OP_CONV || hrf_node_residual(node) < 0)
            continue;
        struct hrf_value *residual = &graph->values[node->inputs[HRF_CONV_RESIDUAL]];
        struct hrf_value *y = &graph->values[node->outputs[0]];
        if (residual->pixel_stride == y->pixel_stride)
            continue;
        residual->pixel_stride = y->pixel_stride = 0;
        matched = false;
    }
    return matched;
}

/* Takes away strides for concatenations whose inputs do not all have them; true if there were
 * none. */
static bool match_joins(struct hrf_graph *graph, struct hrf_join *joins)
{
    bool matched = true;
    hrf_joins_of_strides(graph, joins);
    for (int32_t v = 0; v < graph->n_values; v++) {
        struct hrf_value *value = &graph->values[v];
        if (value->pixel_stride == 0 || joins[v].host >= 0 ||
            value->pixel_stride == value->shape.dims[1] + SLACK)
            continue;
        value->pixel_stride = 0;
        matched = false;
    }
    return matched;
}

void hrf_pixel_stride_settle(struct hrf_graph *graph)
{
    HRF_AUTO_FREE struct hrf_join *joins = hrf_alloc_array((size_t)graph->n_values + 1,
                                                           sizeof joins[0]);
    make_dense(graph, graph->inputs, graph->n_inputs);
    make_dense(graph, graph->outputs, graph->n_outputs);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (hrf_pixel_stride_wants_dense(graph, &graph->nodes[n])) {
            make_dense(graph, graph->nodes[n].inputs, graph->nodes[n].n_inputs);
            make_dense(graph, graph->nodes[n].outputs, graph->nodes[n].n_outputs);
        }
    while (!match_residuals(graph) || !match_joins(graph, joins))
        ;
}

/* ---- concatenations ---- */

/* accepts[value]: whether every node that writes or reads the value accepts any stride. */
static void find_accepting(const struct hrf_graph *graph, const struct hrf_kernel_table *kernels,
                           bool *accepts)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        accepts[v] = true;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        for (int32_t k = -1; k < node->n_inputs; k++) {
            const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
            if (value >= 0 && accepts[value] && graph->values[value].data == NULL)
                accepts[value] = hrf_kernels_take_pixel_stride(kernels, graph, node, k);
        }
    }
}

static bool is_accepted(const void *context, int32_t value, int32_t host)
{
    const bool *accepts = context;
    (void)host;
    return accepts[value];
}

static enum hrf_status measure(const struct hrf_graph *graph, int64_t *n_bytes,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_plan_create(graph, NULL, &plan, err));
    *n_bytes = plan->arena_bytes;
    return HRF_OK;
}

struct joining {
    struct hrf_graph *graph;
    const struct hrf_join *joins; /* all that are possible */
    const int64_t *strides;       /* without them */
    int64_t least;                /* bytes of the best plan so far */
    int32_t n_plans;              /* plans that may still be made */
};

/* Moves the values that can lie in the outputs of nodes [begin, end) there, or (`in` false) out of
 * them, with their former strides. False if there is no such value. */
static bool put(const struct joining *j, int32_t begin, int32_t end, bool in)
{
    const struct hrf_value *values = j->graph->values;
    bool any = false;
    for (int32_t v = 0; v < j->graph->n_values; v++) {
        const int32_t host = j->joins[v].host;
        if (host < 0 || values[host].producer < begin || values[host].producer >= end)
            continue;
        j->graph->values[v].pixel_stride = in ? hrf_value_pixel_stride(&values[host])
                                              : j->strides[v];
        any = true;
    }
    return any;
}

/* Joins values in the outputs of all nodes [begin, end). If that takes more memory, it tries each
 * half by itself, as long as plans may be made. */
static enum hrf_status join(struct joining *j, int32_t begin, int32_t end, struct hrf_error *err)
{
    int64_t n_bytes = 0;
    if (j->n_plans == 0 || !put(j, begin, end, true))
        return HRF_OK;
    j->n_plans--;
    HRF_TRY(measure(j->graph, &n_bytes, err));
    if (n_bytes <= j->least)
        return HRF_OK;
    put(j, begin, end, false);
    if (end - begin == 1)
        return HRF_OK;
    const int32_t middle = begin + (end - begin) / 2;
    HRF_TRY(join(j, begin, middle, err));
    return join(j, middle, end, err);
}

static enum hrf_status set_joins(struct hrf_graph *graph, const struct hrf_kernel_table *kernels,
                                 struct hrf_error *err)
{
    const size_t n = (size_t)graph->n_values + 1;
    HRF_AUTO_FREE bool *accepts = hrf_alloc_array(n, sizeof accepts[0]);
    HRF_AUTO_FREE struct hrf_join *joins = hrf_alloc_array(n, sizeof joins[0]);
    HRF_AUTO_FREE int64_t *strides = hrf_alloc_array(n, sizeof strides[0]);
    bool any = false;
    find_accepting(graph, kernels, accepts);
    hrf_joins_find(graph, is_accepted, accepts, joins);
    for (int32_t v = 0; v < graph->n_values; v++) {
        strides[v] = graph->values[v].pixel_stride;
        any |= joins[v].host >= 0;
    }
    if (!any)
        return HRF_OK;
    struct joining joining = { graph, joins, strides, 0, MAX_PLANS };
    HRF_TRY(measure(graph, &joining.least, err));
    return join(&joining, 0, graph->n_nodes, err);
}

enum hrf_status hrf_pixel_stride_set(struct hrf_graph *graph,
                                     const struct hrf_kernel_table *kernels, struct hrf_error *err)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        if (would_gain(&graph->values[v]))
            graph->values[v].pixel_stride = graph->values[v].shape.dims[1] + SLACK;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        drop_refused(graph, &graph->nodes[n], kernels);
    hrf_pixel_stride_settle(graph);
    HRF_TRY(set_joins(graph, kernels, err));
    hrf_pixel_stride_settle(graph);
    return HRF_OK;
}
