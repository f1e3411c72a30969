/* windows.c - see windows.h. */
#include "engine/plan/windows.h"

#include "engine/ir/op.h"
#include "engine/plan/region_tokens.h"

struct windows {
    struct hrf_graph *graph;
    int64_t n_images, least; /* least: windows of an image */
    bool *can; /* [values]: the value consists of windows, and all nodes that read or write it can
                  be rewritten */
    bool *wanted; /* [values]: an attention reads or writes the value, or a value connected to it */
};

static const struct hrf_value *value_of(const struct windows *w, int32_t value)
{
    return &w->graph->values[value];
}

static bool is_of_windows(const struct windows *w, const struct hrf_value *v)
{
    return v->shape.rank == 3 && v->data == NULL && v->producer >= 0 && v->shape.dims[1] > 1 &&
           v->shape.dims[0] % w->n_images == 0 && v->shape.dims[0] / w->n_images >= w->least;
}

/* True for a constant that is the same for all tokens. */
static bool is_alike(const struct hrf_value *v)
{
    for (int32_t i = 0; i + 1 < v->shape.rank; i++)
        if (v->shape.dims[i] != 1)
            return false;
    return true;
}

/* True if the input is an ATTENTION's mask: a constant for each window of an image or for all of
 * them. */
static bool is_mask(const struct windows *w, const struct hrf_node *node,
                    const struct hrf_value *mask)
{
    const int64_t n = mask->shape.rank == 4 ? mask->shape.dims[0] : 1;
    const int64_t n_all = value_of(w, node->outputs[0])->shape.dims[0];
    return mask->data != NULL &&
           (n == 1 || (n == n_all / w->n_images &&
                       (w->n_images == 1 || node->attributes.attention.mask_repeats)));
}

static bool takes_constant(const struct windows *w, const struct hrf_node *node, int32_t k)
{
    const struct hrf_value *v = value_of(w, node->inputs[k]);
    if (hrf_op_is_attention(node->op))
        return k == HRF_ATTENTION_MASK && is_mask(w, node, v);
    if (hrf_op_info(node->op)->tokens == HRF_TOKENS_PRODUCT)
        return k == HRF_CONV_WEIGHTS ? v->shape.rank == 2 : is_alike(v);
    return is_alike(v);
}

/* True if the node has the same tokens as input and output. */
static bool keeps_tokens(const struct windows *w, const struct hrf_node *node)
{
    const struct hrf_shape *y = &value_of(w, node->outputs[0])->shape;
    if (node->op == HRF_OP_RESHAPE || !hrf_tokens_can_split(w->graph, node))
        return false;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const struct hrf_value *x = node->inputs[k] >= 0 ? value_of(w, node->inputs[k]) : NULL;
        if (x == NULL)
            continue;
        if (x->data != NULL ? !takes_constant(w, node, k)
                            : x->shape.rank != 3 || x->shape.dims[0] != y->dims[0] ||
                                  x->shape.dims[1] != y->dims[1])
            return false;
    }
    return true;
}

/* True if the node copies whole rows into windows or out of them, in memory order. */
static bool moves_rows(const struct hrf_node *node)
{
    return (node->op == HRF_OP_GATHER || node->op == HRF_OP_RESHAPE) &&
           node->attributes.channels_last;
}

/* The flag of input k of the node; k -1: of its output. */
static bool *flag_of(bool *flags, const struct hrf_node *node, int32_t k)
{
    const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
    return value >= 0 ? &flags[value] : NULL;
}

/* The node's values can only be rewritten together: clears the flags of all if the node or one of
 * them cannot be rewritten, unless the node moves rows. Returns true if a flag changed. */
static bool drop(struct windows *w, const struct hrf_node *node)
{
    bool all = keeps_tokens(w, node), changed = false;
    for (int32_t k = -1; k < node->n_inputs && all; k++) {
        const bool *can = flag_of(w->can, node, k);
        all = can == NULL || *can || (k >= 0 && value_of(w, node->inputs[k])->data != NULL);
    }
    for (int32_t k = -1; k < node->n_inputs && !all && !moves_rows(node); k++) {
        bool *can = flag_of(w->can, node, k);
        changed |= can != NULL && *can;
        if (can != NULL)
            *can = false;
    }
    return changed;
}

static bool want(struct windows *w, const struct hrf_node *node)
{
    bool any = hrf_op_is_attention(node->op), changed = false;
    for (int32_t k = -1; k < node->n_inputs && !any; k++) {
        const bool *wanted = flag_of(w->wanted, node, k);
        any = wanted != NULL && *wanted;
    }
    for (int32_t k = -1; k < node->n_inputs && any && !moves_rows(node); k++) {
        bool *wanted = flag_of(w->wanted, node, k);
        if (wanted == NULL || *wanted || !*flag_of(w->can, node, k))
            continue;
        *wanted = changed = true;
    }
    return changed;
}

static void find(struct windows *w)
{
    const struct hrf_graph *graph = w->graph;
    for (int32_t v = 0; v < graph->n_values; v++)
        w->can[v] = is_of_windows(w, &graph->values[v]);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        w->can[graph->outputs[i]] = false;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t n = 0; n < graph->n_nodes; n++)
            changed |= drop(w, &graph->nodes[n]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t n = 0; n < graph->n_nodes; n++)
            changed |= want(w, &graph->nodes[n]);
    }
}

void hrf_windows_join(struct hrf_graph *graph, int32_t n_ranks)
{
    const struct hrf_shape *in = &graph->values[graph->inputs[0]].shape;
    HRF_AUTO_FREE bool *flags = hrf_calloc(2 * (size_t)graph->n_values + 1, sizeof *flags);
    struct windows w = { .graph = graph,
                         .n_images = in->rank > 0 && in->dims[0] > 0 ? in->dims[0] : 1,
                         .least = n_ranks > 2 ? n_ranks : 2,
                         .can = flags,
                         .wanted = flags + graph->n_values };
    find(&w);
    for (int32_t v = 0; v < graph->n_values; v++) {
        struct hrf_value *value = &graph->values[v];
        if (!w.wanted[v])
            continue;
        value->grain = value->shape.dims[1];
        value->shape.dims[1] *= value->shape.dims[0] / w.n_images;
        value->shape.dims[0] = w.n_images;
    }
}
