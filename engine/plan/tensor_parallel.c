/* tensor_parallel.c - rewrites a graph for tensor parallelism (tensor_parallel.h). */
#include "engine/plan/tensor_parallel.h"

#include "engine/ir/op.h"
#include "engine/plan/pixel_stride.h"

#include <string.h>

/* Ranges of channels begin at multiples of this number, if each has that many. */
enum { GRAIN = 16 };

static int64_t first_channel(int64_t n, int32_t rank, int32_t n_ranks)
{
    const int64_t at = n * rank / n_ranks;
    return rank < n_ranks && n >= (int64_t)GRAIN * n_ranks ? at / GRAIN * GRAIN : at;
}

/* Which channels of a value a rank's part has. PLAIN: a range; the concatenated parts are the
 * value. HALVES: the same range of both halves, for a SWIGLU. HEADS: the channels of some heads,
 * for an ATTENTION. */
enum tensor_form { WHOLE, PLAIN, HALVES, HEADS };

/* Channels [begin, end) of a PLAIN value. */
struct tensor_part {
    int32_t value; /* in the new graph; -1: the rank has no part */
    int64_t begin, end;
};

struct tensor_split {
    const struct hrf_graph *from;
    struct hrf_graph *to;
    int32_t n_ranks;
    enum tensor_form *form; /* [values of from] */
    int32_t *whole;         /* [values of from] in `to`; -1: not there (yet) */
    int32_t *reader;        /* [values of from] the only node that reads it; -1: several, or none */
    struct tensor_part *parts; /* [values of from][n_ranks] */
    int32_t n_divided;         /* nodes */
};

static int32_t channel_axis(const struct hrf_shape *shape)
{
    return shape->rank == 4 ? 1 : shape->rank - 1;
}

static const struct hrf_value *value_of(const struct tensor_split *s, int32_t value)
{
    return &s->from->values[value];
}

static int64_t count_channels(const struct tensor_split *s, int32_t value)
{
    const struct hrf_shape *shape = &value_of(s, value)->shape;
    return shape->dims[channel_axis(shape)];
}

static struct tensor_part *part_of(const struct tensor_split *s, int32_t value, int32_t rank)
{
    return &s->parts[(int64_t)value * s->n_ranks + rank];
}

static bool is_constant(const struct tensor_split *s, int32_t value)
{
    return value >= 0 && value_of(s, value)->data != NULL;
}

/* ---- what can be divided ---- */

/* The axis of the weights along which the output channels lie; -1: the node is no product whose
 * channels can be divided. */
static int32_t find_columns_axis(const struct tensor_split *s, const struct hrf_node *node)
{
    const bool is_conv = node->op == HRF_OP_CONV, is_tokens = node->op == HRF_OP_TOKEN_PRODUCT;
    if (hrf_op_info(node->op)->op_class != HRF_CLASS_PRODUCT || node->op == HRF_OP_CONV_TRANSPOSE ||
        is_constant(s, node->inputs[0]) || !is_constant(s, node->inputs[HRF_CONV_WEIGHTS]) ||
        (hrf_node_has_input(node, HRF_CONV_BIAS) && !is_constant(s, node->inputs[HRF_CONV_BIAS])))
        return -1;
    const struct hrf_shape *y = &value_of(s, node->outputs[0])->shape;
    const struct hrf_shape *w = &value_of(s, node->inputs[HRF_CONV_WEIGHTS])->shape;
    const int32_t axis = is_conv || is_tokens || node->attributes.gemm.transpose_b ? 0 : 1;
    const bool fits = is_conv ? node->attributes.group == 1 && y->rank == 4
                              : w->rank == 2 && y->rank >= 2 && (y->rank < 4 || is_tokens);
    if (!fits || w->dims[axis] != y->dims[channel_axis(y)] || w->dims[axis] < s->n_ranks ||
        (hrf_node_has_input(node, HRF_CONV_RESIDUAL) &&
         !hrf_shape_equal(&value_of(s, node->inputs[HRF_CONV_RESIDUAL])->shape, y)))
        return -1;
    return axis;
}

/* True if the node computes element by element from one value that comes at run time. */
static bool is_elementwise(const struct tensor_split *s, const struct hrf_node *node)
{
    const enum hrf_op_class op_class = hrf_op_info(node->op)->op_class;
    if (op_class != HRF_CLASS_UNARY && op_class != HRF_CLASS_CONVERT && op_class != HRF_CLASS_VIEW)
        return false;
    return node->n_inputs == 1 && node->n_outputs == 1 &&
           hrf_shape_equal(&value_of(s, node->inputs[0])->shape,
                           &value_of(s, node->outputs[0])->shape);
}

/* A mask that comes at run time and differs from head to head would have to be divided. */
static bool has_heads(const struct tensor_split *s, const struct hrf_node *node)
{
    if (!HRF_OP_HAS(node->op, attention.heads) || node->attributes.attention.heads < 2)
        return false;
    if (!hrf_node_has_input(node, HRF_ATTENTION_MASK) ||
        is_constant(s, node->inputs[HRF_ATTENTION_MASK]))
        return true;
    const struct hrf_shape *mask = &value_of(s, node->inputs[HRF_ATTENTION_MASK])->shape;
    return mask->rank < 3 || mask->dims[mask->rank - 3] == 1;
}

static int64_t first_head(const struct tensor_split *s, const struct hrf_node *attention,
                          int32_t rank)
{
    return attention->attributes.attention.heads * rank / s->n_ranks;
}

/* Follows the elementwise nodes after `value`, each the only reader of the one before it: *value
 * becomes the output of the last. Returns the only reader of that, or NULL. */
static const struct hrf_node *last_reader(const struct tensor_split *s, int32_t *value)
{
    const int32_t n = s->reader[*value];
    const struct hrf_node *node = n >= 0 ? &s->from->nodes[n] : NULL;
    if (node == NULL || !is_elementwise(s, node))
        return node;
    *value = node->outputs[0];
    return last_reader(s, value);
}

/* ---- which channels ---- */

/* Marks the channels of `value`, which an attention reads, of the rank's heads. */
static void mark_heads(const struct tensor_split *s, const struct hrf_node *attention,
                       int32_t value, int32_t rank, bool *mine)
{
    const struct hrf_attributes *a = &attention->attributes;
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++)
        for (int64_t h = first_head(s, attention, rank);
             attention->inputs[k] == value && h < first_head(s, attention, rank + 1); h++)
            memset(mine + a->attention.first[k] + h * a->attention.stride[k], true,
                   (size_t)a->attention.head_size);
}

/* Sets mine[channels]: which channels the rank's part of a product's output has. */
static void mark_channels(const struct tensor_split *s, int32_t value, enum tensor_form form,
                          int32_t rank, bool *mine)
{
    const int64_t n = count_channels(s, value), half = n / 2;
    int32_t last = value;
    memset(mine, false, (size_t)n);
    if (form == HEADS) {
        const struct hrf_node *reader = last_reader(s, &last);
        mark_heads(s, reader, last, rank, mine);
        return;
    }
    const int64_t all = form == HALVES ? half : n;
    const int64_t lo = first_channel(all, rank, s->n_ranks),
                  hi = first_channel(all, rank + 1, s->n_ranks);
    memset(mine + lo, true, (size_t)(hi - lo));
    if (form == HALVES)
        memset(mine + half + lo, true, (size_t)(hi - lo));
}

static int64_t count_marked(const bool *mine, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += mine[i];
    return count;
}

/* The channel at which head `head` of the attention's input k begins in the rank's part. */
static int64_t channel_of_head(const struct hrf_node *attention, int32_t k, int64_t head,
                               const bool *mine)
{
    const struct hrf_attributes *a = &attention->attributes;
    return count_marked(mine, a->attention.first[k] + head * a->attention.stride[k]);
}

/* True if the heads are also evenly spaced in each rank's part of input k. */
static bool heads_stay_even(const struct tensor_split *s, const struct hrf_node *attention,
                            int32_t k, bool *mine)
{
    for (int32_t r = 0; r < s->n_ranks; r++) {
        const int64_t lo = first_head(s, attention, r), hi = first_head(s, attention, r + 1);
        memset(mine, false, (size_t)count_channels(s, attention->inputs[k]));
        mark_heads(s, attention, attention->inputs[k], r, mine);
        for (int64_t h = lo + 2; h < hi; h++)
            if (channel_of_head(attention, k, h, mine) -
                    channel_of_head(attention, k, h - 1, mine) !=
                channel_of_head(attention, k, lo + 1, mine) -
                    channel_of_head(attention, k, lo, mine))
                return false;
    }
    return true;
}

static void find_form(const struct tensor_split *s, const struct hrf_node *product,
                      enum tensor_form *form)
{
    int32_t last = product->outputs[0];
    const struct hrf_node *reader = last_reader(s, &last);
    *form = PLAIN;
    if (hrf_node_has_input(product, HRF_CONV_RESIDUAL) || reader == NULL)
        return;
    const int64_t n = count_channels(s, last);
    if (reader->op == HRF_OP_SWIGLU && value_of(s, last)->shape.rank != 4 && n / 2 >= s->n_ranks)
        *form = HALVES;
    if (!has_heads(s, reader))
        return;
    HRF_AUTO_FREE bool *mine = hrf_calloc((size_t)n + 1, sizeof *mine);
    *form = HEADS;
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++)
        if (reader->inputs[k] == last && !heads_stay_even(s, reader, k, mine))
            *form = PLAIN;
}

/* ---- values of the new graph ---- */

static enum hrf_status add_value(struct tensor_split *s, int32_t value, int32_t rank,
                                 const struct hrf_shape *shape, int32_t *index,
                                 struct hrf_error *err)
{
    const struct hrf_value *v = value_of(s, value);
    HRF_AUTO_FREE char *name = hrf_format("%s.part%d", v->name, rank);
    HRF_TRY(
        hrf_graph_add_value(s->to, rank >= 0 ? name : v->name, v->dtype, shape, NULL, index, err));
    s->to->values[*index].quantization = v->quantization;
    s->to->values[*index].grain = v->grain;
    return HRF_OK;
}

static enum hrf_status add_node(struct tensor_split *s, enum hrf_op op, const char *name,
                                int32_t rank, const int32_t *inputs, int32_t n_inputs,
                                int32_t output, const struct hrf_attributes *attributes,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *own = hrf_format("%s.part%d", name, rank);
    HRF_TRY(hrf_graph_add_node(s->to, op, rank >= 0 ? own : name, inputs, n_inputs, &output, 1,
                               attributes, err));
    s->to->nodes[s->to->n_nodes - 1].owner = rank;
    return HRF_OK;
}

/* Gets the whole value, joining its parts if it is in parts. */
static enum hrf_status get_whole(struct tensor_split *s, int32_t value, int32_t *index,
                                 struct hrf_error *err)
{
    const struct hrf_value *v = value_of(s, value);
    HRF_AUTO_FREE int32_t *parts = hrf_alloc_array((size_t)s->n_ranks, sizeof *parts);
    struct hrf_attributes attributes = hrf_attributes_default();
    int32_t n = 0;
    if (s->whole[value] < 0 && v->data != NULL) {
        HRF_TRY(hrf_graph_share_value(s->to, v, v->name, &s->whole[value], err));
        s->to->values[s->whole[value]].quantization = v->quantization;
    }
    for (int32_t r = 0; r < s->n_ranks && s->whole[value] < 0; r++)
        if (part_of(s, value, r)->value >= 0)
            parts[n++] = part_of(s, value, r)->value;
    if (n > 0) {
        HRF_AUTO_FREE char *name = hrf_format("join of %s", v->name);
        attributes.axis = channel_axis(&v->shape);
        HRF_TRY(add_value(s, value, -1, &v->shape, &s->whole[value], err));
        HRF_TRY(add_node(s, HRF_OP_CONCAT, name, -1, parts, n, s->whole[value], &attributes, err));
    }
    *index = s->whole[value];
    return HRF_OK;
}

/* Adds the marked elements of a constant along `axis` as a constant of the new graph. */
static enum hrf_status cut_constant(struct tensor_split *s, int32_t value, int32_t axis,
                                    const bool *mine, int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = value_of(s, value);
    struct hrf_shape shape = v->shape;
    const int64_t n = shape.dims[axis];
    size_t inner = hrf_dtype_size(v->dtype), outer = 1;
    for (int32_t i = 0; i < shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)shape.dims[i];
    shape.dims[axis] = count_marked(mine, n);
    void *data = hrf_try_alloc_array(outer * (size_t)shape.dims[axis] * inner + 1, 1);
    HRF_CHECK_MEMORY(data != NULL, err, "no memory for a part of '%s'", v->name);
    char *to = data;
    const char *from = v->data;
    for (size_t i = 0; i < outer * (size_t)n; i++, from += inner)
        if (mine[i % (size_t)n]) {
            memcpy(to, from, inner);
            to += inner;
        }
    const enum hrf_status status = hrf_graph_take_value(s->to, v->name, v->dtype, &shape, &data,
                                                        index, err);
    hrf_free(data);
    HRF_TRY(status);
    s->to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

/* ---- products ---- */

/* Gets channels [begin, end) of the residual. */
static enum hrf_status get_residual(struct tensor_split *s, int32_t value, int32_t rank,
                                    int64_t begin, int64_t end, int32_t *index,
                                    struct hrf_error *err)
{
    const struct tensor_part *part = part_of(s, value, rank);
    struct hrf_shape shape = value_of(s, value)->shape;
    const int32_t axis = channel_axis(&shape);
    const struct hrf_attributes a = hrf_attributes_slice(axis, begin, end);
    int32_t all;
    if (s->form[value] == PLAIN && part->begin == begin && part->end == end) {
        *index = part->value;
        return HRF_OK;
    }
    HRF_TRY(get_whole(s, value, &all, err));
    HRF_AUTO_FREE char *name = hrf_format("slice of %s", value_of(s, value)->name);
    s->to->values[all].pixel_stride = 0;
    shape.dims[axis] = end - begin;
    HRF_TRY(add_value(s, value, rank, &shape, index, err));
    return add_node(s, HRF_OP_SLICE, name, rank, &all, 1, *index, &a, err);
}

/* Gets input k of a rank's part of a product. */
static enum hrf_status get_input(struct tensor_split *s, const struct hrf_node *node, int32_t k,
                                 int32_t axis, int32_t rank, const bool *mine, int32_t *index,
                                 struct hrf_error *err)
{
    const int32_t value = node->inputs[k], y = node->outputs[0];
    const int64_t n = count_channels(s, y);
    const bool is_row = k == HRF_CONV_BIAS || k == HRF_CONV_SCALES;
    *index = HRF_NO_VALUE;
    if (value < 0)
        return HRF_OK;
    if (k == HRF_CONV_WEIGHTS)
        return cut_constant(s, value, axis, mine, index, err);
    const struct hrf_shape *shape = &value_of(s, value)->shape;
    if (is_row && shape->rank > 0 && hrf_shape_last(shape) == n)
        return cut_constant(s, value, shape->rank - 1, mine, index, err);
    if (k != HRF_CONV_RESIDUAL)
        return get_whole(s, value, index, err);
    if (is_constant(s, value))
        return cut_constant(s, value, channel_axis(shape), mine, index, err);
    return get_residual(s, value, rank, part_of(s, y, rank)->begin, part_of(s, y, rank)->end, index,
                        err);
}

static enum hrf_status add_product_part(struct tensor_split *s, const struct hrf_node *node,
                                        int32_t axis, int32_t rank, bool *mine,
                                        struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    struct hrf_shape shape = value_of(s, y)->shape;
    const int64_t n = count_channels(s, y);
    struct tensor_part *part = part_of(s, y, rank);
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs, sizeof *inputs);
    mark_channels(s, y, s->form[y], rank, mine);
    const int64_t count = count_marked(mine, n);
    if (count == 0)
        return HRF_OK; /* fewer heads than ranks */
    if (s->form[y] == PLAIN) {
        part->begin = first_channel(n, rank, s->n_ranks);
        part->end = part->begin + count;
    }
    for (int32_t k = 0; k < node->n_inputs; k++)
        HRF_TRY(get_input(s, node, k, axis, rank, mine, &inputs[k], err));
    shape.dims[channel_axis(&shape)] = count;
    HRF_TRY(add_value(s, y, rank, &shape, &part->value, err));
    return add_node(s, node->op, node->name, rank, inputs, node->n_inputs, part->value,
                    &node->attributes, err);
}

static enum hrf_status divide_product(struct tensor_split *s, const struct hrf_node *node,
                                      int32_t axis, struct hrf_error *err)
{
    const int64_t n = count_channels(s, node->outputs[0]);
    HRF_AUTO_FREE bool *mine = hrf_calloc((size_t)n + 1, sizeof *mine);
    find_form(s, node, &s->form[node->outputs[0]]);
    for (int32_t r = 0; r < s->n_ranks; r++)
        HRF_TRY(add_product_part(s, node, axis, r, mine, err));
    s->n_divided++;
    return HRF_OK;
}

/* ---- what follows products ---- */

/* Divides an elementwise node, or a SWIGLU, over the parts of its input. */
static enum hrf_status divide_elementwise(struct tensor_split *s, const struct hrf_node *node,
                                          struct hrf_error *err)
{
    const int32_t x = node->inputs[0], y = node->outputs[0];
    const bool is_gate = node->op == HRF_OP_SWIGLU;
    s->form[y] = is_gate ? PLAIN : s->form[x];
    for (int32_t r = 0; r < s->n_ranks; r++) {
        const struct tensor_part *in = part_of(s, x, r);
        struct tensor_part *out = part_of(s, y, r);
        if (in->value < 0)
            continue;
        struct hrf_shape shape = s->to->values[in->value].shape;
        const int32_t axis = channel_axis(&shape);
        out->begin = is_gate ? first_channel(count_channels(s, y), r, s->n_ranks) : in->begin;
        out->end = is_gate ? out->begin + shape.dims[axis] / 2 : in->end;
        shape.dims[axis] = is_gate ? shape.dims[axis] / 2 : shape.dims[axis];
        HRF_TRY(add_value(s, y, r, &shape, &out->value, err));
        HRF_TRY(add_node(s, node->op, node->name, r, &in->value, 1, out->value, &node->attributes,
                         err));
    }
    return HRF_OK;
}

/* Gets input k of a rank's part of an attention: its own part of the channels, or all of them. */
static enum hrf_status get_heads(struct tensor_split *s, const struct hrf_node *node, int32_t k,
                                 int32_t rank, struct hrf_attributes *a, int32_t *index,
                                 struct hrf_error *err)
{
    const int32_t value = node->inputs[k];
    const int64_t head = first_head(s, node, rank), n = count_channels(s, value);
    if (s->form[value] != HEADS) {
        a->attention.first[k] += head * a->attention.stride[k];
        return get_whole(s, value, index, err);
    }
    HRF_AUTO_FREE bool *mine = hrf_calloc((size_t)n + 1, sizeof *mine);
    mark_heads(s, node, value, rank, mine);
    a->attention.first[k] = channel_of_head(node, k, head, mine);
    if (a->attention.heads > 1)
        a->attention.stride[k] = channel_of_head(node, k, head + 1, mine) - a->attention.first[k];
    *index = part_of(s, value, rank)->value;
    return HRF_OK;
}

static enum hrf_status get_mask(struct tensor_split *s, const struct hrf_node *node, int32_t rank,
                                int32_t *index, struct hrf_error *err)
{
    const int32_t value = node->inputs[HRF_ATTENTION_MASK];
    const struct hrf_shape *shape = &value_of(s, value)->shape;
    const int32_t axis = shape->rank - 3;
    if (axis < 0 || shape->dims[axis] != node->attributes.attention.heads)
        return get_whole(s, value, index, err);
    HRF_AUTO_FREE bool *mine = hrf_calloc((size_t)shape->dims[axis] + 1, sizeof *mine);
    for (int64_t h = first_head(s, node, rank); h < first_head(s, node, rank + 1); h++)
        mine[h] = true;
    return cut_constant(s, value, axis, mine, index, err);
}

static enum hrf_status divide_heads(struct tensor_split *s, const struct hrf_node *node,
                                    struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    s->form[y] = PLAIN;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        struct tensor_part *part = part_of(s, y, r);
        struct hrf_attributes a = node->attributes;
        struct hrf_shape shape = value_of(s, y)->shape;
        int32_t inputs[HRF_ATTENTION_MASK + 1] = { -1, -1, -1, HRF_NO_VALUE };
        const int64_t first = first_head(s, node, r);
        a.attention.heads = first_head(s, node, r + 1) - first;
        if (a.attention.heads == 0)
            continue;
        part->begin = first * a.attention.head_size;
        part->end = part->begin + a.attention.heads * a.attention.head_size;
        for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++)
            HRF_TRY(get_heads(s, node, k, r, &a, &inputs[k], err));
        if (hrf_node_has_input(node, HRF_ATTENTION_MASK))
            HRF_TRY(get_mask(s, node, r, &inputs[HRF_ATTENTION_MASK], err));
        shape.dims[channel_axis(&shape)] = part->end - part->begin;
        HRF_TRY(add_value(s, y, r, &shape, &part->value, err));
        HRF_TRY(add_node(s, node->op, node->name, r, inputs, node->n_inputs, part->value, &a, err));
    }
    s->n_divided++;
    return HRF_OK;
}

/* ---- the graph ---- */

static enum hrf_status add_whole(struct tensor_split *s, const struct hrf_node *node,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *ends = hrf_alloc_array((size_t)(node->n_inputs + node->n_outputs) + 1,
                                                  sizeof *ends);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        ends[k] = HRF_NO_VALUE;
        if (node->inputs[k] >= 0)
            HRF_TRY(get_whole(s, node->inputs[k], &ends[k], err));
    }
    int32_t *outputs = ends + node->n_inputs;
    for (int32_t k = 0; k < node->n_outputs; k++) {
        const int32_t value = node->outputs[k];
        outputs[k] = HRF_NO_VALUE;
        if (value < 0)
            continue;
        HRF_TRY(add_value(s, value, -1, &value_of(s, value)->shape, &outputs[k], err));
        s->to->values[outputs[k]].pixel_stride = value_of(s, value)->pixel_stride;
        s->whole[value] = outputs[k];
    }
    return hrf_graph_add_node(s->to, node->op, node->name, ends, node->n_inputs, outputs,
                              node->n_outputs, &node->attributes, err);
}

static enum hrf_status divide(struct tensor_split *s, const struct hrf_node *node,
                              struct hrf_error *err)
{
    const int32_t axis = find_columns_axis(s, node);
    const enum tensor_form in = hrf_node_has_input(node, 0) ? s->form[node->inputs[0]] : WHOLE;
    if (axis >= 0)
        return divide_product(s, node, axis, err);
    if ((in != WHOLE && is_elementwise(s, node)) || (in == HALVES && node->op == HRF_OP_SWIGLU))
        return divide_elementwise(s, node, err);
    return has_heads(s, node) ? divide_heads(s, node, err) : add_whole(s, node, err);
}

static void find_readers(struct tensor_split *s)
{
    const struct hrf_graph *from = s->from;
    for (int32_t v = 0; v < from->n_values; v++)
        s->reader[v] = s->whole[v] = -1;
    for (int64_t i = 0; i < (int64_t)from->n_values * s->n_ranks; i++)
        s->parts[i].value = -1;
    for (int32_t n = from->n_nodes - 1; n >= 0; n--)
        for (int32_t k = 0; k < from->nodes[n].n_inputs; k++) {
            const int32_t v = from->nodes[n].inputs[k];
            if (v >= 0)
                s->reader[v] = s->reader[v] == -1 || s->reader[v] == n ? n : -2;
        }
    for (int32_t i = 0; i < from->n_outputs; i++)
        s->reader[from->outputs[i]] = -2;
}

static enum hrf_status rewrite(struct tensor_split *s, struct hrf_error *err)
{
    const struct hrf_graph *from = s->from;
    const size_t n = (size_t)(from->n_inputs + from->n_outputs);
    HRF_AUTO_FREE int32_t *ends = hrf_alloc_array(n + 1, sizeof *ends);
    s->to->bounds = from->bounds;
    find_readers(s);
    for (int32_t i = 0; i < from->n_inputs; i++) {
        const int32_t v = from->inputs[i];
        HRF_TRY(add_value(s, v, -1, &value_of(s, v)->shape, &s->whole[v], err));
        ends[i] = s->whole[v];
    }
    for (int32_t i = 0; i < from->n_nodes; i++)
        HRF_TRY(divide(s, &from->nodes[i], err));
    if (s->n_divided == 0)
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "tensor=%d: no layer of this network can be divided over %d ranks, which takes a "
            "product with constant weights and at least as many output channels, or attention of "
            "several heads; use spatial=, stages= or data= instead",
            s->n_ranks, s->n_ranks);
    int32_t *outputs = ends + from->n_inputs;
    for (int32_t i = 0; i < from->n_outputs; i++)
        HRF_TRY(get_whole(s, from->outputs[i], &outputs[i], err));
    HRF_TRY(hrf_graph_set_io(s->to, ends, from->n_inputs, outputs, from->n_outputs, err));
    hrf_pixel_stride_settle(s->to);
    return hrf_graph_check(s->to, err);
}

void hrf_tensor_keep_together(const struct hrf_graph *graph, int32_t *stage_of)
{
    const struct hrf_node *nodes = graph->nodes;
    for (int32_t n = 1; n + 1 < graph->n_nodes; n++)
        if (nodes[n - 1].owner >= 0 && nodes[n].owner >= nodes[n - 1].owner &&
            stage_of[n + 1] == stage_of[n])
            stage_of[n] = stage_of[n - 1];
}

bool hrf_tensor_finds_heads(const struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (HRF_OP_HAS(graph->nodes[n].op, attention.heads))
            return true;
    return false;
}

enum hrf_status hrf_tensor_split(const struct hrf_graph *graph, int32_t n_ranks,
                                 struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) to = NULL;
    const size_t n = (size_t)graph->n_values + 1;
    HRF_AUTO_FREE enum tensor_form *form = hrf_calloc(n, sizeof *form);
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array(2 * n, sizeof *values);
    HRF_AUTO_FREE struct tensor_part *parts = hrf_calloc(n * (size_t)n_ranks, sizeof *parts);
    HRF_TRY(hrf_graph_create(graph->name, &to, err));
    struct tensor_split s = { .from = graph,
                              .to = to,
                              .n_ranks = n_ranks,
                              .form = form,
                              .whole = values,
                              .reader = values + n,
                              .parts = parts };
    HRF_TRY(rewrite(&s, err));
    HRF_MOVE(*out, to);
    return HRF_OK;
}
