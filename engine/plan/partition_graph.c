/* partition_graph.c - builds the graph of one rank from the whole graph and the partition's tables
 * (partition.h). */
#include "engine/plan/line_cache.h"

#include "engine/ir/op.h"
#include "engine/plan/pixel_stride.h"
#include "engine/plan/region_rows.h"
#include "engine/plan/region_tokens.h"

#include <string.h>

struct building {
    const struct hrf_partition *p;
    const struct hrf_graph *from;
    struct hrf_graph *to;
    struct hrf_rank_map *map;
    int32_t rank;
    int32_t *values;    /* [values of from] in `to`, -1: not there */
    int32_t *exchanged; /* [exchanges] the output of the exchange, in `to`; -1: none (yet) */
    bool *is_done;      /* [exchanges] */
};

void hrf_rank_map_destroy(struct hrf_rank_map *map)
{
    if (map == NULL)
        return;
    hrf_free(map->nodes);
    hrf_free(map);
}

static const struct hrf_rank_node no_node = { .row = -1, .input_at = -1, .output_at = -1 };

const struct hrf_rank_node *hrf_rank_map_node(const struct hrf_rank_map *map, int32_t n)
{
    return map != NULL && n < map->n_nodes ? &map->nodes[n] : &no_node;
}

/* The facts of the node that was added last. */
static struct hrf_rank_node *about(struct building *b)
{
    b->map->n_nodes = b->to->n_nodes;
    return &b->map->nodes[b->to->n_nodes - 1];
}

static enum hrf_status add_value(struct building *b, int32_t value, const char *suffix,
                                 const struct hrf_box *box, int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = &b->from->values[value];
    const struct hrf_shape shape = hrf_box_shape(&v->shape, box);
    HRF_AUTO_FREE char *name = hrf_format("%s%s", v->name, suffix);
    HRF_TRY(hrf_graph_add_value(b->to, name, v->dtype, &shape, NULL, index, err));
    b->to->values[*index].quantization = v->quantization;
    b->to->values[*index].pixel_stride = v->pixel_stride;
    return HRF_OK;
}

static enum hrf_status get_constant(struct building *b, int32_t value, int32_t *index,
                                    struct hrf_error *err)
{
    const struct hrf_value *v = &b->from->values[value];
    if (b->values[value] < 0) {
        HRF_TRY(hrf_graph_borrow_value(b->to, v->name, v->dtype, &v->shape, v->data,
                                       &b->values[value], err));
        b->to->values[b->values[value]].quantization = v->quantization;
        b->to->values[b->values[value]].is_variable = v->is_variable;
    }
    *index = b->values[value];
    return HRF_OK;
}

/* Adds elements [lo, hi) of the constant along `axis` as a constant of this graph. Of one that is
 * trained it has to be a piece of its memory, in which the numbers change. */
static enum hrf_status cut_constant(struct building *b, const struct hrf_value *v, int32_t axis,
                                    int64_t lo, int64_t hi, int32_t *index, struct hrf_error *err)
{
    struct hrf_shape shape = v->shape;
    size_t outer = 1, inner = hrf_dtype_size(v->dtype);
    for (int32_t i = 0; i < shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)shape.dims[i];
    shape.dims[axis] = hi - lo;
    const size_t part = (size_t)(hi - lo) * inner, whole = (size_t)v->shape.dims[axis] * inner;
    char *first = (char *)v->data + (size_t)lo * inner;
    if (v->is_variable && outer > 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' is trained, and ranks that share an image's tokens would each "
                             "have parts of it that do not lie together: use data= or stages= "
                             "instead of spatial=",
                             v->name);
    if (v->is_variable) {
        HRF_TRY(hrf_graph_borrow_value(b->to, v->name, v->dtype, &shape, first, index, err));
    } else {
        HRF_AUTO_FREE char *data = hrf_try_alloc_array(outer * part + 1, 1);
        HRF_CHECK_MEMORY(data != NULL, err, "no memory for a part of '%s'", v->name);
        for (size_t i = 0; i < outer; i++)
            memcpy(data + i * part, first + i * whole, part);
        HRF_TRY(hrf_graph_add_value(b->to, v->name, v->dtype, &shape, data, index, err));
    }
    b->to->values[*index].is_variable = v->is_variable;
    b->to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

/* Gets what the node's part needs of constant input k; HRF_NO_VALUE: nothing. */
static enum hrf_status get_part_of_constant(struct building *b, const struct hrf_node *node,
                                            int32_t k, int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = &b->from->values[node->inputs[k]];
    const struct hrf_box *box = hrf_partition_box(b->p, node->outputs[0], b->rank);
    struct hrf_constant_part part = { .axis = -1 };
    if (b->p->is_split[node->outputs[0]])
        part = hrf_tokens_constant(b->from, node, k, box);
    if (part.axis < 0 || (part.lo == 0 && part.hi == v->shape.dims[part.axis]))
        return get_constant(b, node->inputs[k], index, err);
    *index = HRF_NO_VALUE;
    return part.hi > part.lo ? cut_constant(b, v, part.axis, part.lo, part.hi, index, err) : HRF_OK;
}

/* Adds the indices of a GATHER that reads its input from token `first` on. */
static enum hrf_status shift_indices(struct building *b, int32_t *index, int64_t n_tokens,
                                     int64_t first, struct hrf_error *err)
{
    const struct hrf_value *v = &b->to->values[*index];
    const int64_t n = hrf_shape_count(&v->shape);
    HRF_AUTO_FREE int64_t *shifted = hrf_alloc_array((size_t)n + 1, sizeof *shifted);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = v->dtype == HRF_S32 ? ((const int32_t *)v->data)[i]
                                               : ((const int64_t *)v->data)[i];
        shifted[i] = (at < 0 ? at + n_tokens : at) - first;
    }
    const struct hrf_shape shape = v->shape;
    return hrf_graph_add_value(b->to, v->name, HRF_S64, &shape, shifted, index, err);
}

/* Adds the indices of the rank's part of a copy of rows. */
static enum hrf_status cut_indices(struct building *b, const struct hrf_node *node, int32_t *index,
                                   struct hrf_error *err)
{
    const struct hrf_box *box = hrf_partition_box(b->p, node->outputs[0], b->rank);
    struct hrf_shape shape = { .rank = 1 };
    int32_t *cut = NULL;
    hrf_rows_cut(b->from, node, box, &cut, &shape.dims[0]);
    void *data = cut;
    const enum hrf_status status = hrf_graph_take_value(
        b->to, b->from->values[node->inputs[1]].name, HRF_S32, &shape, &data, index, err);
    if (status != HRF_OK)
        hrf_free(cut);
    return status;
}

static bool gives(const struct hrf_exchange *x, int32_t rank, int32_t n_ranks)
{
    for (int32_t to = 0; to < n_ranks; to++) {
        const struct hrf_box part = hrf_exchange_sent(x, rank, to);
        if (!hrf_box_is_empty(&part))
            return true;
    }
    return false;
}

/* The value that the exchange reads on this rank. */
static int32_t input_of(const struct building *b, const struct hrf_exchange *x)
{
    const bool reads_source = hrf_line_cache_reads_source(b->p, x, b->rank);
    return reads_source && b->exchanged[x->source] >= 0 ? b->exchanged[x->source]
                                                        : b->values[x->value];
}

static enum hrf_status add_exchange(struct building *b, int32_t e, struct hrf_error *err)
{
    const struct hrf_exchange *x = &b->p->exchanges[e];
    const struct hrf_box nothing = { .lo = { 0 } };
    const bool takes = hrf_exchange_takes(x, b->rank);
    const struct hrf_attributes attributes = hrf_attributes_default();
    const int32_t input = input_of(b, x);
    int32_t output;
    b->is_done[e] = true;
    if (!takes && !hrf_box_is_empty(&x->need[b->rank]))
        b->exchanged[e] = input;
    if (!takes && !gives(x, b->rank, b->p->n_ranks) && !hrf_line_cache_is_used(b->p, e, b->rank))
        return HRF_OK;
    const bool has_input = !hrf_box_is_empty(&x->local[b->rank]);
    HRF_AUTO_FREE char *suffix = hrf_format(".x%d", e);
    HRF_AUTO_FREE char *name = hrf_format("exchange %d of %s", e, b->from->values[x->value].name);
    HRF_TRY(add_value(b, x->value, suffix, takes ? &x->need[b->rank] : &nothing, &output, err));
    if (takes && x->channels != x->all_channels)
        b->to->values[output].shape.dims[2] = x->channels;
    HRF_TRY(hrf_graph_add_node(b->to, HRF_OP_EXCHANGE, name, &input, has_input ? 1 : 0, &output, 1,
                               &attributes, err));
    about(b)->row = e;
    if (!takes)
        return HRF_OK;
    b->exchanged[e] = output;
    const struct hrf_box own = hrf_box_intersect(&x->local[b->rank], &x->need[b->rank]);
    if (!hrf_box_is_empty(&own))
        about(b)->own = hrf_box_within(&own, &x->need[b->rank]);
    about(b)->input_at = hrf_exchange_offset(x, &x->need[b->rank], &x->local[b->rank]);
    about(b)->output_at = hrf_exchange_offset(x, &x->local[b->rank], &x->need[b->rank]);
    return HRF_OK;
}

/* Adds the exchanges of a value whose rows bands keep, once these are made: first those that read
 * kept rows only, then the one that keeps. The others read from the output of that one. */
static enum hrf_status add_kept(struct building *b, int32_t value, struct hrf_error *err)
{
    for (int keeps = 0; keeps < 2 && b->p->fronts != NULL; keeps++)
        for (int32_t e = 0; e < b->p->n_exchanges; e++) {
            const struct hrf_exchange *x = &b->p->exchanges[e];
            if (x->value == value && x->keeps == keeps &&
                (keeps ||
                 (x->source != HRF_NO_EXCHANGE && !hrf_line_cache_reads_source(b->p, x, b->rank))))
                HRF_TRY(add_exchange(b, e, err));
        }
    return HRF_OK;
}

static int32_t brought(const struct building *b, int32_t value, int32_t feed)
{
    return feed != HRF_NO_EXCHANGE && b->exchanged[feed] >= 0 ? b->exchanged[feed]
                                                              : b->values[value];
}

/* Adds a value of the reduction: one number for each image and channel. */
static enum hrf_status add_sums(struct building *b, const struct hrf_node *node, const char *suffix,
                                enum hrf_dtype dtype, int32_t *index, struct hrf_error *err)
{
    const struct hrf_box pixel = { { 0, 0 }, { 1, 1 } };
    HRF_TRY(add_value(b, node->outputs[0], suffix, &pixel, index, err));
    b->to->values[*index].dtype = dtype;
    b->to->values[*index].quantization = b->from->values[node->inputs[0]].quantization;
    return HRF_OK;
}

static enum hrf_status add_named(struct building *b, enum hrf_op op, const char *of,
                                 const char *what, const int32_t *input, int32_t output,
                                 const struct hrf_attributes *attributes, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", of, what);
    return hrf_graph_add_node(b->to, op, name, input, input != NULL ? 1 : 0, &output, 1, attributes,
                              err);
}

/* Adds the reduction over the ranks' parts; `part` -1: this rank has none. */
static enum hrf_status add_reduce(struct building *b, int32_t n, int32_t part, int32_t all,
                                  struct hrf_error *err)
{
    const struct hrf_attributes attributes = hrf_attributes_default();
    HRF_TRY(add_named(b, HRF_OP_ALL_REDUCE, b->from->nodes[n].name, "reduce",
                      part >= 0 ? &part : NULL, all, &attributes, err));
    about(b)->row = b->p->reduce_of[n];
    return HRF_OK;
}

static bool gets_sum(const struct building *b, const struct hrf_reduce *reduce)
{
    return reduce->owner == HRF_ALL_RANKS || reduce->owner == b->rank;
}

/* True if the rank adds its share to a sum that another one owns. */
static bool only_adds(const struct building *b, int32_t n)
{
    if (b->p->reduce_of[n] < 0)
        return false;
    const struct hrf_reduce *reduce = &b->p->reduces[b->p->reduce_of[n]];
    return !gets_sum(b, reduce) && reduce->gives[b->rank];
}

static enum hrf_status add_reduce_over_groups(struct building *b, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const int32_t value = node->outputs[0];
    const int32_t part = brought(b, node->inputs[0], b->p->feeds[b->p->first_feed[n]]);
    HRF_TRY(
        add_value(b, value, "", hrf_partition_box(b->p, value, b->rank), &b->values[value], err));
    return add_reduce(b, n, part, b->values[value], err);
}

/* Adds a global pool as the pool of this rank's part, a reduction and, for the mean, a division. */
static enum hrf_status add_global_pool(struct building *b, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const struct hrf_shape *x = &b->from->values[node->inputs[0]].shape;
    const struct hrf_reduce *reduce = &b->p->reduces[b->p->reduce_of[n]];
    struct hrf_attributes attributes = node->attributes;
    int32_t part = -1, all;
    if (reduce->gives[b->rank]) {
        const int32_t input = brought(b, node->inputs[0], b->p->feeds[b->p->first_feed[n]]);
        HRF_TRY(add_sums(b, node, ".part", reduce->dtype, &part, err));
        HRF_TRY(add_named(b, reduce->is_max ? HRF_OP_GLOBAL_MAX_POOL : HRF_OP_POOL_SUM, node->name,
                          "part", &input, part, &attributes, err));
    }
    HRF_TRY(add_sums(b, node, reduce->is_max ? "" : ".sum", reduce->dtype, &all, err));
    HRF_TRY(add_reduce(b, n, part, all, err));
    if (!gets_sum(b, reduce))
        return HRF_OK;
    b->values[node->outputs[0]] = all;
    if (reduce->is_max)
        return HRF_OK;
    const struct hrf_box pixel = { { 0, 0 }, { 1, 1 } };
    HRF_TRY(add_value(b, node->outputs[0], "", &pixel, &b->values[node->outputs[0]], err));
    attributes.n_pixels = x->dims[2] * x->dims[3];
    return add_named(b, HRF_OP_POOL_FINISH, node->name, "finish", &all, b->values[node->outputs[0]],
                     &attributes, err);
}

/* Finds the values that the node reads on this rank. */
static enum hrf_status find_inputs(struct building *b, int32_t n, int32_t *inputs,
                                   struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        inputs[k] = HRF_NO_VALUE;
        if (node->inputs[k] < 0)
            continue;
        if (b->from->values[node->inputs[k]].data != NULL)
            HRF_TRY(get_part_of_constant(b, node, k, &inputs[k], err));
        else
            inputs[k] = brought(b, node->inputs[k], b->p->feeds[b->p->first_feed[n] + k]);
    }
    return HRF_OK;
}

/* Adds the division of a sum over all pixels, of which a REDUCE_MEAN is made. */
static enum hrf_status add_division(struct building *b, const struct hrf_node *node, int32_t sum,
                                    struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    const int64_t n = hrf_shape_count(&b->from->values[node->inputs[0]].shape) /
                      hrf_shape_count(&b->from->values[y].shape);
    const struct hrf_box whole = hrf_box_whole(&b->from->values[y].shape);
    const struct hrf_shape scalar = { .rank = 0 };
    const struct hrf_attributes attributes = hrf_attributes_default();
    const float share = (float)(1 / (double)n);
    int32_t inputs[2] = { sum, HRF_NO_VALUE };
    HRF_AUTO_FREE char *name = hrf_format("%s.finish", node->name);
    HRF_TRY(hrf_graph_add_value(b->to, name, HRF_F32, &scalar, &share, &inputs[1], err));
    HRF_TRY(add_value(b, y, "", &whole, &b->values[y], err));
    return hrf_graph_add_node(b->to, HRF_OP_MUL, name, inputs, 2, &b->values[y], 1, &attributes,
                              err);
}

/* Adds a sum as that over the rank's own pixels, and a reduction. */
static enum hrf_status add_sum(struct building *b, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const struct hrf_box whole = hrf_box_whole(&b->from->values[node->outputs[0]].shape);
    const struct hrf_box nothing = { .lo = { 0 } };
    const bool is_mean = node->op == HRF_OP_REDUCE_MEAN;
    int32_t inputs[HRF_STATE_MAX + 1], part = -1, all;
    if (b->p->reduces[b->p->reduce_of[n]].gives[b->rank]) {
        const int32_t k = hrf_region_summed(node);
        const struct hrf_box of = hrf_partition_needed(b->p, node, k, b->rank);
        const struct hrf_attributes attributes = k > 0 ? hrf_region_attributes(b->from, node, &of)
                                                       : node->attributes;
        HRF_AUTO_FREE char *name = hrf_format("%s.part", node->name);
        HRF_TRY(find_inputs(b, n, inputs, err));
        HRF_TRY(add_value(b, node->outputs[0], ".part", &whole, &part, err));
        HRF_TRY(hrf_graph_add_node(b->to, is_mean ? HRF_OP_REDUCE_SUM : node->op, name, inputs,
                                   node->n_inputs, &part, 1, &attributes, err));
    }
    const bool gets = gets_sum(b, &b->p->reduces[b->p->reduce_of[n]]);
    HRF_TRY(
        add_value(b, node->outputs[0], is_mean ? ".sum" : "", gets ? &whole : &nothing, &all, err));
    HRF_TRY(add_reduce(b, n, part, all, err));
    if (!gets)
        return HRF_OK;
    b->values[node->outputs[0]] = all;
    return is_mean ? add_division(b, node, all, err) : HRF_OK;
}

/* The exchange that the node was just given is begun before its interior and ended after it. Parts
 * are looked up in dense images. */
static void note_interior(struct building *b, int32_t n)
{
    const struct hrf_node *added = &b->to->nodes[b->to->n_nodes - 1];
    const struct hrf_box *box = hrf_partition_box(b->p, b->from->nodes[n].outputs[0], b->rank);
    struct hrf_box interior;
    if (!b->p->is_overlapped[n] || !hrf_partition_interior(b->p, n, b->rank, &interior))
        return;
    for (int32_t k = 0; k < added->n_inputs; k++)
        if (added->inputs[k] >= 0)
            b->to->values[added->inputs[k]].pixel_stride = 0;
    b->to->values[added->outputs[0]].pixel_stride = 0;
    about(b)->own = hrf_box_within(&interior, box);
}

/* Sets where the heads of keys and values begin in the channels that an exchange brought. */
static void shift_heads(const struct building *b, int32_t n, const int32_t *inputs,
                        struct hrf_attributes *a)
{
    const struct hrf_node *node = &b->from->nodes[n];
    for (int32_t k = HRF_ATTENTION_K; k <= HRF_ATTENTION_V; k++) {
        int64_t first, n_channels;
        if (b->from->values[node->inputs[k]].shape.rank != 3 || inputs[k] < 0)
            continue;
        hrf_tokens_channels(b->from, node, k, &first, &n_channels);
        if (b->to->values[inputs[k]].shape.dims[2] !=
            b->from->values[node->inputs[k]].shape.dims[2])
            a->attention.first[k] -= first;
    }
}

/* Adds the value for what the rank's queries have seen after part `part` of the keys: the result,
 * if it is the last. */
static enum hrf_status add_seen(struct building *b, int32_t n, int32_t part, int32_t *index,
                                struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_box *box = hrf_partition_box(b->p, node->outputs[0], b->rank);
    HRF_AUTO_FREE char *suffix = hrf_format(".seen%d", part);
    if (part == b->p->rings[n].n_parts - 1)
        return add_value(b, node->outputs[0], "", box, index, err);
    HRF_TRY(add_value(b, node->outputs[0], suffix, box, index, err));
    b->to->values[*index].shape.dims[2] = a->attention.heads *
                                          (a->attention.head_size + HRF_ATTENTION_STATE);
    b->to->values[*index].dtype = HRF_F32;
    b->to->values[*index].quantization = (struct hrf_quantization){ .scale = 0 };
    return HRF_OK;
}

/* Adds an attention over keys and values that come part by part. */
static enum hrf_status add_ring(struct building *b, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const struct hrf_ring *ring = &b->p->rings[n];
    const int32_t q = brought(b, node->inputs[0], b->p->feeds[b->p->first_feed[n]]);
    int32_t seen = HRF_NO_VALUE;
    for (int32_t part = 0; part < ring->n_parts; part++) {
        int32_t inputs[] = { q, -1, -1, HRF_NO_VALUE, seen };
        struct hrf_attributes attributes = node->attributes;
        for (int32_t i = 0; i < 2; i++) {
            const int32_t e = ring->feeds[2 * part + i];
            if (e != HRF_NO_EXCHANGE && !b->is_done[e])
                HRF_TRY(add_exchange(b, e, err));
            inputs[HRF_ATTENTION_K + i] = brought(b, node->inputs[HRF_ATTENTION_K + i], e);
        }
        if (hrf_box_is_empty(hrf_partition_box(b->p, node->outputs[0], b->rank)))
            continue; /* this rank only sends */
        HRF_AUTO_FREE char *name = hrf_format("%s.part%d", node->name, part);
        shift_heads(b, n, inputs, &attributes);
        HRF_TRY(add_seen(b, n, part, &seen, err));
        HRF_TRY(hrf_graph_add_node(b->to, HRF_OP_ATTENTION_PART, name, inputs, part > 0 ? 5 : 3,
                                   &seen, 1, &attributes, err));
    }
    b->values[node->outputs[0]] = seen;
    return HRF_OK;
}

/* Keeps the inputs of a CONCAT of tokens that have tokens in the rank's part, and returns their
 * number. */
static int32_t keep_pieces(const struct building *b, const struct hrf_node *node, int32_t *inputs)
{
    const struct hrf_box *box = hrf_partition_box(b->p, node->outputs[0], b->rank);
    int32_t n = 0;
    if (node->op != HRF_OP_CONCAT || node->attributes.axis != 1 ||
        !hrf_tokens_concern(b->from, node) || !b->p->is_split[node->outputs[0]])
        return node->n_inputs;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const struct hrf_box need = hrf_region_needed(b->from, node, k, box);
        if (!hrf_box_is_empty(&need))
            inputs[n++] = inputs[k];
    }
    return n;
}

/* Adds a view of the same numbers with an image for each window, or back from windows. */
static enum hrf_status add_reshape(struct building *b, int32_t value, int64_t n_images,
                                   int64_t n_tokens, int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = &b->to->values[value];
    const struct hrf_shape shape = { .rank = 3, .dims = { n_images, n_tokens, v->shape.dims[2] } };
    const struct hrf_quantization quantization = v->quantization;
    struct hrf_attributes attributes = hrf_attributes_default();
    attributes.channels_last = true;
    HRF_TRY(hrf_graph_add_value(b->to, v->name, v->dtype, &shape, NULL, index, err));
    b->to->values[*index].quantization = quantization;
    return add_named(b, HRF_OP_RESHAPE, b->to->values[value].name, "windows", &value, *index,
                     &attributes, err);
}

/* Adds an attention in windows as one with an image for each window. */
static enum hrf_status add_windows(struct building *b, const struct hrf_node *node,
                                   const int32_t *inputs, const struct hrf_attributes *attributes,
                                   struct hrf_error *err)
{
    const int32_t value = node->outputs[0];
    const struct hrf_box *box = hrf_partition_box(b->p, value, b->rank);
    const int64_t grain = b->from->values[value].grain;
    const struct hrf_shape shape = hrf_box_shape(&b->from->values[value].shape, box);
    const int64_t n_windows = shape.dims[0] * shape.dims[1] / grain;
    int32_t ends[HRF_ATTENTION_MASK + 1], y;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        ends[k] = inputs[k];
        for (int32_t i = 0; i < k && k < HRF_ATTENTION_MASK; i++)
            if (inputs[i] == inputs[k])
                ends[k] = ends[i];
        if (k < HRF_ATTENTION_MASK && ends[k] == inputs[k])
            HRF_TRY(add_reshape(b, inputs[k], n_windows, grain, &ends[k], err));
    }
    HRF_TRY(add_value(b, value, ".in windows", box, &y, err));
    b->to->values[y].shape.dims[0] = n_windows;
    b->to->values[y].shape.dims[1] = grain;
    HRF_TRY(hrf_graph_add_node(b->to, node->op, node->name, ends, node->n_inputs, &y, 1, attributes,
                               err));
    return add_reshape(b, y, shape.dims[0], shape.dims[1], &b->values[value], err);
}

/* For a part whose windows see padding alone along an axis, *input becomes an image of padding with
 * as many rows or columns as the windows see. A prologue is applied to pixels, not to padding. */
static enum hrf_status add_padding(struct building *b, const struct hrf_node *node, int32_t *inputs,
                                   const int64_t *n, struct hrf_error *err)
{
    const struct hrf_value *x = &b->to->values[inputs[0]];
    const struct hrf_quantization quantization = x->quantization;
    const enum hrf_dtype dtype = x->dtype;
    struct hrf_shape shape = x->shape;
    struct hrf_attributes attributes = hrf_attributes_default();
    HRF_AUTO_FREE char *name = hrf_format("%s.padding", node->name);
    int32_t padding;
    attributes.n_axes = 4;
    for (int i = 0; i < 4; i++)
        attributes.axes[i] = i;
    for (int i = 0; i < 2; i++) {
        if (n[i] == 0)
            continue;
        attributes.pad.sizes[2 + i] = n[i];
        attributes.pad.sizes[6 + i] = -shape.dims[2 + i];
        shape.dims[2 + i] = n[i];
    }
    HRF_TRY(hrf_graph_add_value(b->to, name, dtype, &shape, NULL, &padding, err));
    b->to->values[padding].quantization = quantization;
    HRF_TRY(hrf_graph_add_node(b->to, HRF_OP_PAD, name, inputs, 1, &padding, 1, &attributes, err));
    inputs[0] = padding;
    for (int32_t k = HRF_CONV_FACTORS; k < node->n_inputs && hrf_node_has_prologue(node); k++)
        inputs[k] = HRF_NO_VALUE;
    return HRF_OK;
}

/* Adds a node that computes as much as it needs of input 0, and cuts its part out of that. */
static enum hrf_status add_wider(struct building *b, const struct hrf_node *node,
                                 const int32_t *inputs, const struct hrf_attributes *attributes,
                                 struct hrf_error *err)
{
    const int32_t value = node->outputs[0];
    const struct hrf_box *box = hrf_partition_box(b->p, value, b->rank);
    const struct hrf_box wide = hrf_region_needed(b->from, node, 0, box);
    const struct hrf_box cut = hrf_box_within(box, &wide);
    const struct hrf_attributes slice = hrf_region_slice(&cut);
    HRF_AUTO_FREE char *name = hrf_format("%s.cut", node->name);
    int32_t all;
    HRF_TRY(add_value(b, value, "", &wide, &all, err));
    b->values[value] = all;
    HRF_TRY(hrf_graph_add_node(b->to, node->op, node->name, inputs, node->n_inputs, &all, 1,
                               attributes, err));
    if (hrf_box_equal(box, &wide))
        return HRF_OK;
    HRF_TRY(add_value(b, value, ".cut", box, &b->values[value], err));
    return hrf_graph_add_node(b->to, HRF_OP_SLICE, name, &all, 1, &b->values[value], 1, &slice,
                              err);
}

static enum hrf_status add_node(struct building *b, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &b->from->nodes[n];
    const int32_t value = node->outputs[0];
    const struct hrf_box *box = hrf_partition_box(b->p, value, b->rank);
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    HRF_TRY(find_inputs(b, n, inputs, err));
    const bool is_picked = hrf_tokens_are_picked(b->from, node);
    struct hrf_attributes attributes = b->p->is_split[value] || is_picked
                                           ? hrf_region_attributes(b->from, node, box)
                                           : node->attributes;
    if (hrf_op_is_attention(node->op))
        shift_heads(b, n, inputs, &attributes);
    if (is_picked && node->op == HRF_OP_GATHER)
        HRF_TRY(shift_indices(b, &inputs[1], b->from->values[node->inputs[0]].shape.dims[1],
                              hrf_region_needed(b->from, node, 0, box).lo[0], err));
    if (b->p->is_split[value] && hrf_rows_concern(b->from, node))
        HRF_TRY(cut_indices(b, node, &inputs[1], err));
    if (hrf_op_is_attention(node->op) && b->from->values[value].grain > 0)
        return add_windows(b, node, inputs, &attributes, err);
    const int32_t n_inputs = keep_pieces(b, node, inputs);
    int64_t n_padding[2];
    if (b->p->is_split[value] && hrf_region_padding(b->from, node, box, n_padding))
        HRF_TRY(add_padding(b, node, inputs, n_padding, err));
    if (b->p->is_split[value] && hrf_region_is_wider(node))
        return add_wider(b, node, inputs, &attributes, err);
    HRF_TRY(add_value(b, value, "", box, &b->values[value], err));
    HRF_TRY(hrf_graph_add_node(b->to, node->op, node->name, inputs, n_inputs, &b->values[value], 1,
                               &attributes, err));
    note_interior(b, n);
    return HRF_OK;
}

/* The backward pass begins with what is computed or received for it. */
static void note_backward(struct building *b, int32_t n_before)
{
    for (int32_t n = n_before; n < b->to->n_nodes && b->map->first_backward < 0; n++) {
        const struct hrf_node *node = &b->to->nodes[n];
        const struct hrf_shape *y = &b->to->values[node->outputs[0]].shape;
        if (node->op != HRF_OP_EXCHANGE || hrf_shape_count(y) > 0)
            b->map->first_backward = n;
    }
}

static enum hrf_status add_nodes(struct building *b, struct hrf_error *err)
{
    bool is_backward = false;
    b->map->first_backward = -1;
    for (int32_t n = 0; n < b->from->n_nodes; n++) {
        const struct hrf_node *node = &b->from->nodes[n];
        const int32_t n_before = b->to->n_nodes;
        is_backward |= node->is_backward;
        for (int32_t k = node->n_inputs - 1; k >= 0;
             k--) { /* the exchange of input 0 comes last, as note_interior() expects */
            const int32_t e = b->p->feeds[b->p->first_feed[n] + k];
            if (e != HRF_NO_EXCHANGE && !b->is_done[e])
                HRF_TRY(add_exchange(b, e, err));
        }
        if (b->p->rings[n].n_parts > 0)
            HRF_TRY(add_ring(b, n, err));
        else if (hrf_box_is_empty(hrf_partition_box(b->p, node->outputs[0], b->rank)) &&
                 !only_adds(b, n))
            ; /* nothing to compute */
        else if (node->op == HRF_OP_ALL_REDUCE)
            HRF_TRY(add_reduce_over_groups(b, n, err));
        else if (b->p->reduce_of[n] >= 0 && hrf_op_info(node->op)->op_class == HRF_CLASS_POOL)
            HRF_TRY(add_global_pool(b, n, err));
        else if (b->p->reduce_of[n] >= 0)
            HRF_TRY(add_sum(b, n, err));
        else
            HRF_TRY(add_node(b, n, err));
        HRF_TRY(add_kept(b, node->outputs[0], err));
        if (is_backward)
            note_backward(b, n_before);
    }
    return HRF_OK;
}

static enum hrf_status add_inputs(struct building *b, struct hrf_error *err)
{
    for (int32_t i = 0; i < b->from->n_inputs; i++) {
        const int32_t value = b->from->inputs[i];
        const struct hrf_box *box = hrf_partition_box(b->p, value, b->rank);
        if (!hrf_box_is_empty(box))
            HRF_TRY(add_value(b, value, "", box, &b->values[value], err));
    }
    for (int32_t i = 0; i < b->from->n_inputs; i++)
        HRF_TRY(add_kept(b, b->from->inputs[i], err));
    return HRF_OK;
}

static enum hrf_status set_ends(struct building *b, struct hrf_error *err)
{
    const size_t n = (size_t)(b->from->n_inputs + b->from->n_outputs);
    HRF_AUTO_FREE int32_t *ends = hrf_alloc_array(n + 1, sizeof *ends);
    int32_t n_inputs = 0, n_outputs = 0;
    for (int32_t i = 0; i < b->from->n_inputs; i++)
        if (b->values[b->from->inputs[i]] >= 0)
            ends[n_inputs++] = b->values[b->from->inputs[i]];
    for (int32_t i = 0; i < b->from->n_outputs; i++) {
        const int32_t e = b->p->output_feeds[i];
        if (e != HRF_NO_EXCHANGE && !b->is_done[e])
            HRF_TRY(add_exchange(b, e, err));
        const bool gives = b->p->keeps_outputs ? b->values[b->from->outputs[i]] >= 0
                                               : b->rank == hrf_partition_output_rank(b->p, i);
        if (gives)
            ends[n_inputs + n_outputs++] = brought(b, b->from->outputs[i], e);
    }
    return hrf_graph_set_io(b->to, ends, n_inputs, ends + n_inputs, n_outputs, err);
}

enum hrf_status hrf_partition_graph(const struct hrf_partition *p, int32_t rank,
                                    struct hrf_graph **out, struct hrf_rank_map **map_out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_rank_map) map = hrf_calloc(1, sizeof *map);
    HRF_TRY(hrf_graph_create(p->graph->name, &graph, err));
    const size_t n_values = (size_t)p->graph->n_values, n_exchanges = (size_t)p->n_exchanges;
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array(n_values + 1, sizeof *values);
    HRF_AUTO_FREE int32_t *exchanged = hrf_alloc_array(n_exchanges + 1, sizeof *exchanged);
    HRF_AUTO_FREE bool *is_done = hrf_calloc(n_exchanges + 1, sizeof *is_done);
    /* A global pool becomes three nodes at most, a window two, an attention in windows five,
     * another one as many as the parts of its keys. */
    size_t most = 5 * (size_t)p->graph->n_nodes + n_exchanges;
    for (int32_t n = 0; n < p->graph->n_nodes; n++)
        most += (size_t)p->rings[n].n_parts;
    map->partition = p;
    map->rank = rank;
    map->nodes = hrf_alloc_array(most + 1, sizeof *map->nodes);
    for (size_t i = 0; i < most; i++)
        map->nodes[i] = no_node;
    for (size_t i = 0; i < n_values; i++)
        values[i] = -1;
    for (size_t i = 0; i < n_exchanges; i++)
        exchanged[i] = -1;
    struct building b = { .p = p,
                          .from = p->graph,
                          .to = graph,
                          .map = map,
                          .rank = rank,
                          .values = values,
                          .exchanged = exchanged,
                          .is_done = is_done };
    HRF_TRY(add_inputs(&b, err));
    HRF_TRY(add_nodes(&b, err));
    HRF_TRY(set_ends(&b, err));
    hrf_pixel_stride_settle(graph);
    if (map->first_backward < 0)
        map->first_backward = graph->n_nodes;
    *out = graph;
    *map_out = map;
    graph = NULL;
    map = NULL;
    return HRF_OK;
}
