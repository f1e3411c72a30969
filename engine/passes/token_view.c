#include "engine/passes/token_view.h"

enum { MAX_ATOMS = 16 };

/* Numbers at equal distances in memory: what an axis is made of, outermost first. */
struct atom {
    int64_t size, stride;
};

/* A value as part of another one, of rank 3: where its elements lie there. Axis i is the n[i] atoms
 * from its first one on, none if its size is 1. */
struct view {
    int32_t source, rank;
    int32_t first[HRF_MAX_RANK], n[HRF_MAX_RANK];
    struct atom atoms[MAX_ATOMS];
    int64_t offset;
};

const struct hrf_node *hrf_token_view_move(const struct hrf_match *m, int32_t value)
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
    out->rank = shape->rank;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        out->first[i] = i;
        out->n[i] = shape->dims[i] == 1 ? 0 : 1;
        out->atoms[i] = (struct atom){ shape->dims[i], stride };
        stride *= shape->dims[i];
    }
}

/* Lists all atoms in the order of the elements; returns their number. */
static int32_t list_atoms(const struct view *v, struct atom *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < v->rank; i++)
        for (int32_t k = 0; k < v->n[i]; k++)
            out[n++] = v->atoms[v->first[i] + k];
    return n;
}

/* Views the same elements in another shape: from the last axis on, each axis takes atoms, or the
 * inner part of one, until it has its size. */
static bool view_reshape(struct view *v, const struct hrf_shape *to)
{
    struct atom left[MAX_ATOMS];
    struct view out = { .source = v->source, .rank = to->rank, .offset = v->offset };
    int32_t n = list_atoms(v, left), at = MAX_ATOMS;
    for (int32_t k = to->rank - 1; k >= 0; k--) {
        int64_t want = to->dims[k];
        while (want > 1) {
            if (n == 0 || at == 0)
                return false;
            struct atom *last = &left[n - 1];
            const int64_t size = last->size <= want ? last->size : want;
            if (want % size != 0 || last->size % size != 0)
                return false;
            out.atoms[--at] = (struct atom){ size, last->stride };
            out.n[k]++;
            want /= size;
            *last = (struct atom){ last->size / size, last->stride * size };
            n -= last->size == 1;
        }
        out.first[k] = at;
    }
    *v = out;
    return n == 0;
}

/* Keeps element `element` of axis i, whose size becomes 1. */
static void pick(struct view *v, int32_t i, int64_t element)
{
    for (int32_t k = v->first[i] + v->n[i] - 1; k >= v->first[i]; k--) {
        v->offset += element % v->atoms[k].size * v->atoms[k].stride;
        element /= v->atoms[k].size;
    }
    v->n[i] = 0;
}

/* A GATHER of one element of an axis, which goes away if the index has no axis. */
static bool view_gathered(const struct hrf_match *m, const struct hrf_node *node, struct view *v)
{
    const struct hrf_value *index = &m->graph->values[node->inputs[1]];
    const int32_t axis = (int32_t)node->attributes.axis;
    if (index->data == NULL || hrf_shape_count(&index->shape) != 1 || index->shape.rank > 1 ||
        node->attributes.channels_last)
        return false;
    const int64_t element = index->dtype == HRF_S32 ? *(const int32_t *)index->data
                                                    : *(const int64_t *)index->data;
    pick(v, axis,
         element < 0 ? element + hrf_match_value(m, node->inputs[0])->shape.dims[axis] : element);
    if (index->shape.rank == 1)
        return true;
    for (int32_t i = axis; i + 1 < v->rank; i++) {
        v->first[i] = v->first[i + 1];
        v->n[i] = v->n[i + 1];
    }
    v->rank--;
    return true;
}

static bool view_sliced(const struct hrf_match *m, const struct hrf_node *node, struct view *v)
{
    const struct hrf_attributes *a = &node->attributes;
    for (int32_t i = 0; i < a->n_axes; i++) {
        const int32_t axis = (int32_t)a->axes[i];
        const int64_t size = hrf_match_value(m, node->outputs[0])->shape.dims[axis];
        if (size == hrf_match_value(m, node->inputs[0])->shape.dims[axis] && a->slice.steps[i] == 1)
            continue;
        if (a->slice.steps[i] != 1 || (size > 1 && v->n[axis] != 1))
            return false;
        if (size > 1) {
            v->offset += a->slice.starts[i] * v->atoms[v->first[axis]].stride;
            v->atoms[v->first[axis]].size = size;
        } else {
            pick(v, axis, a->slice.starts[i]);
        }
    }
    return true;
}

static bool view_through(const struct hrf_match *m, const struct hrf_node *node, struct view *v)
{
    const struct view from = *v;
    switch (node->op) {
    case HRF_OP_TRANSPOSE:
        for (int32_t i = 0; i < v->rank; i++) {
            v->first[i] = from.first[node->attributes.axes[i]];
            v->n[i] = from.n[node->attributes.axes[i]];
        }
        return true;
    case HRF_OP_SLICE:
        return view_sliced(m, node, v);
    case HRF_OP_GATHER:
        return view_gathered(m, node, v);
    default: /* the same elements in the same order */
        return view_reshape(v, &hrf_match_value(m, node->outputs[0])->shape);
    }
}

/* Joins the atoms of each axis. False: one is not at equal distances. */
static bool find_strides(const struct view *v, struct hrf_token_view *out)
{
    out->shape.rank = v->rank;
    for (int32_t i = 0; i < v->rank; i++) {
        const struct atom *atoms = &v->atoms[v->first[i]];
        const int32_t last = v->n[i] - 1;
        out->shape.dims[i] = 1;
        out->strides[i] = last >= 0 ? atoms[last].stride : 0;
        for (int32_t k = last; k >= 0; k--) {
            if (atoms[k].stride != out->strides[i] * out->shape.dims[i])
                return false;
            out->shape.dims[i] *= atoms[k].size;
        }
    }
    return true;
}

bool hrf_token_view_make(const struct hrf_match *m, int32_t source,
                         const struct hrf_node *const *moves, int n, struct hrf_token_view *out)
{
    struct view v = { .source = source };
    if (n == 0 || hrf_match_value(m, source)->shape.rank != 3)
        return false;
    dense(&hrf_match_value(m, source)->shape, &v);
    while (n > 0)
        if (!view_through(m, moves[--n], &v))
            return false;
    *out = (struct hrf_token_view){ .source = source, .offset = v.offset };
    return find_strides(&v, out);
}

bool hrf_token_view_is_of_tokens(const struct hrf_match *m, const struct hrf_token_view *v)
{
    const struct hrf_shape *source = &hrf_match_value(m, v->source)->shape, *s = &v->shape;
    const int64_t channels = source->dims[2];
    return s->rank == 4 && s->dims[0] == source->dims[0] && s->dims[2] == source->dims[1] &&
           (s->dims[0] == 1 || v->strides[0] == source->dims[1] * channels) &&
           (s->dims[2] == 1 || v->strides[2] == channels) &&
           (s->dims[3] == 1 || v->strides[3] == 1) && v->offset + s->dims[3] <= channels &&
           (s->dims[1] == 1 || v->strides[1] >= s->dims[3]);
}
