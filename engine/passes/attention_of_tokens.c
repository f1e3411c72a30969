/* attention_of_tokens.c - makes attention read its heads where the product before it wrote them,
 * and write them where the product behind it reads them: the RESHAPE, TRANSPOSE, SLICE and SQUEEZE
 * that exporters put around it move the same numbers twice more. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

/* A value as part of another one, of rank 3: where its elements lie there. */
struct view {
    int32_t source;
    struct hrf_shape shape;
    int64_t strides[HRF_MAX_RANK], offset;
};

enum { MOST_MOVES = 8 };

static const struct hrf_shape *shape_of(const struct hrf_match *m, int32_t value)
{
    return &m->graph->values[value].shape;
}

static const struct hrf_node *find_move(const struct hrf_match *m, int32_t value)
{
    static const enum hrf_op moves[] = { HRF_OP_RESHAPE, HRF_OP_TRANSPOSE, HRF_OP_SLICE,
                                         HRF_OP_SQUEEZE, HRF_OP_UNSQUEEZE, HRF_OP_GATHER };
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        const struct hrf_node *node = hrf_match_any(m, value, moves[i]);
        if (node != NULL)
            return node;
    }
    return NULL;
}

static void dense(const struct hrf_shape *shape, struct view *out)
{
    int64_t stride = 1;
    out->shape = *shape;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        out->strides[i] = stride;
        stride *= shape->dims[i];
    }
}

/* The same elements in the order of another shape, if strides can say where they lie: axes of both
 * shapes are taken from the last one on, in groups of the same number of elements. */
static bool view_reshape(struct view *v, const struct hrf_shape *to)
{
    struct view out = { .source = v->source, .shape = *to, .offset = v->offset };
    int32_t i = v->shape.rank - 1, k = to->rank - 1;
    while (k >= 0) {
        while (i >= 0 && v->shape.dims[i] == 1)
            i--;
        if (to->dims[k] == 1) {
            out.strides[k--] = 0;
            continue;
        }
        if (i < 0)
            return false;
        /* Axis i, joined with those before it as far as they are needed and dense, is cut. */
        int64_t have = v->shape.dims[i], stride = v->strides[i], want = 1;
        const int64_t innermost = stride;
        while (k >= 0 && want < have) {
            out.strides[k] = innermost * want;
            want *= to->dims[k--];
            while (want > have) {
                const int64_t joined = stride * v->shape.dims[i];
                do
                    i--;
                while (i >= 0 && v->shape.dims[i] == 1);
                if (i < 0 || v->strides[i] != joined)
                    return false;
                stride = v->strides[i];
                have *= v->shape.dims[i];
            }
        }
        if (want != have)
            return false;
        i--;
    }
    *v = out;
    return true;
}

/* A GATHER of one place of an axis, which goes away if the index has no axis. */
static bool view_gathered(const struct hrf_match *m, const struct hrf_node *node, struct view *v)
{
    const struct hrf_value *index = &m->graph->values[node->inputs[1]];
    const int32_t axis = (int32_t)node->attributes.axis;
    if (index->data == NULL || hrf_shape_count(&index->shape) != 1 || index->shape.rank > 1 ||
        node->attributes.of_pixels)
        return false;
    const int64_t place = index->dtype == HRF_S32 ? *(const int32_t *)index->data
                                                  : *(const int64_t *)index->data;
    v->offset += (place < 0 ? place + v->shape.dims[axis] : place) * v->strides[axis];
    v->shape.dims[axis] = 1;
    if (index->shape.rank == 1)
        return true;
    for (int32_t i = axis; i + 1 < v->shape.rank; i++) {
        v->shape.dims[i] = v->shape.dims[i + 1];
        v->strides[i] = v->strides[i + 1];
    }
    v->shape.rank--;
    return true;
}

static bool view_through(const struct hrf_match *m, const struct hrf_node *node, struct view *v)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_shape *to = shape_of(m, node->outputs[0]);
    const struct view from = *v;
    switch (node->op) {
    case HRF_OP_TRANSPOSE:
        for (int32_t i = 0; i < to->rank; i++)
            v->strides[i] = from.strides[a->axes[i]];
        v->shape = *to;
        return true;
    case HRF_OP_SLICE:
        for (int32_t i = 0; i < a->n_axes; i++) {
            if (a->steps[i] != 1)
                return false;
            v->offset += a->starts[i] * from.strides[a->axes[i]];
        }
        v->shape = *to;
        return true;
    case HRF_OP_GATHER:
        return view_gathered(m, node, v);
    default: /* the same elements in the same order */
        return view_reshape(v, to);
    }
}

/* What `value` is made of by moves alone: the first value before them that has rank 3. */
static bool find_view(const struct hrf_match *m, int32_t value, struct view *out)
{
    const struct hrf_node *moves[MOST_MOVES];
    int n = 0;
    for (int32_t at = value;; n++) {
        const struct hrf_node *move = find_move(m, at);
        if (move == NULL) {
            *out = (struct view){ .source = at };
            break;
        }
        if (n == MOST_MOVES)
            return false;
        moves[n] = move;
        at = move->inputs[0];
    }
    if (n == 0 || shape_of(m, out->source)->rank != 3)
        return false;
    dense(shape_of(m, out->source), out);
    while (n > 0)
        if (!view_through(m, moves[--n], out))
            return false;
    return true;
}

/* [N][heads][T][d] of [N][T][C], the d channels side by side. */
static bool is_of_tokens(const struct hrf_match *m, const struct view *v)
{
    const struct hrf_shape *source = shape_of(m, v->source), *s = &v->shape;
    const int64_t channels = source->dims[2];
    return s->rank == 4 && s->dims[0] == source->dims[0] && s->dims[2] == source->dims[1] &&
           (s->dims[0] == 1 || v->strides[0] == source->dims[1] * channels) &&
           (s->dims[2] == 1 || v->strides[2] == channels) &&
           (s->dims[3] == 1 || v->strides[3] == 1) && v->offset + s->dims[3] <= channels &&
           (s->dims[1] == 1 || v->strides[1] >= s->dims[3]);
}

/* y [N][heads][T][d] as [N][T][heads * d]: the RESHAPE of its transpose. */
static const struct hrf_node *find_attention(const struct hrf_match *m,
                                             const struct hrf_node *reshape)
{
    const struct hrf_node *turn = hrf_match_sole(m, reshape->inputs[0], HRF_OP_TRANSPOSE);
    const struct hrf_node *node = turn != NULL
                                      ? hrf_match_sole(m, turn->inputs[0], HRF_OP_ATTENTION)
                                      : NULL;
    if (node == NULL || hrf_attention_is_of_tokens(&node->attributes) ||
        turn->attributes.n_axes != 4)
        return NULL;
    static const int64_t axes[] = { 0, 2, 1, 3 };
    for (int i = 0; i < 4; i++)
        if (turn->attributes.axes[i] != axes[i])
            return NULL;
    const struct hrf_shape *y = shape_of(m, node->outputs[0]);
    const struct hrf_shape *to = shape_of(m, reshape->outputs[0]);
    return y->rank == 4 && to->rank == 3 && to->dims[0] == y->dims[0] && to->dims[1] == y->dims[2]
               ? node
               : NULL;
}

static enum hrf_status fuse(const struct hrf_match *m, struct hrf_node *reshape,
                            const struct hrf_node *attention, struct hrf_error *err)
{
    struct hrf_attributes a = attention->attributes;
    const struct hrf_shape *q = shape_of(m, attention->inputs[HRF_ATTENTION_Q]);
    int32_t inputs[4] = { HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE };
    a.group = q->dims[1];
    a.size = q->dims[3];
    a.n_axes = 3;
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++) {
        struct view v;
        if (!find_view(m, attention->inputs[k], &v))
            return HRF_OK;
        if (k == HRF_ATTENTION_K && a.transpose_b && v.shape.rank == 4) {
            const int64_t size = v.shape.dims[2], stride = v.strides[2];
            v.shape.dims[2] = v.shape.dims[3], v.strides[2] = v.strides[3];
            v.shape.dims[3] = size, v.strides[3] = stride;
        }
        if (!is_of_tokens(m, &v) || v.shape.dims[1] != a.group || v.shape.dims[3] != a.size)
            return HRF_OK;
        inputs[k] = v.source;
        a.starts[k] = v.offset;
        a.steps[k] = a.group > 1 ? v.strides[1] : a.size;
    }
    a.transpose_b = false;
    const bool has_mask = attention->n_inputs > HRF_ATTENTION_MASK &&
                          attention->inputs[HRF_ATTENTION_MASK] >= 0;
    if (has_mask)
        inputs[HRF_ATTENTION_MASK] = attention->inputs[HRF_ATTENTION_MASK];
    return hrf_match_become(reshape, HRF_OP_ATTENTION, inputs, has_mask ? 4 : 3, &a, err);
}

enum hrf_status hrf_pass_attention_of_tokens(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    HRF_TRY(hrf_match_init(graph, &match, err));
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        const struct hrf_node *attention = node->op == HRF_OP_RESHAPE ? find_attention(&match, node)
                                                                      : NULL;
        if (attention != NULL)
            HRF_TRY(fuse(&match, node, attention, err));
    }
    return hrf_graph_compact(graph, err);
}
