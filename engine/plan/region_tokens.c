/* region_tokens.c - which tokens a part needs, a rule for each kind in the operator table
 * (region_tokens.h). */
#include "engine/plan/region_tokens.h"

#include "base/min_max.h"
#include "engine/ir/op.h"
#include "engine/plan/region.h"

#include <assert.h>

static const struct hrf_shape *output_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return &graph->values[node->outputs[0]].shape;
}

static bool comes_at_run_time(const struct hrf_value *v)
{
    return v != NULL && v->data == NULL;
}

/* [N][C][H][W] <-> [N][H * W][C]: nothing moves in memory. */
static bool is_image_as_tokens(const struct hrf_node *node, const struct hrf_shape *image,
                               const struct hrf_shape *tokens)
{
    return hrf_op_info(node->op)->tokens == HRF_TOKENS_RESHAPE && node->attributes.channels_last &&
           image->rank == 4 && tokens->rank == 3 && tokens->dims[0] == image->dims[0] &&
           tokens->dims[1] == image->dims[2] * image->dims[3] && tokens->dims[2] == image->dims[1];
}

static struct hrf_box rows_of(int64_t lo, int64_t hi)
{
    return (struct hrf_box){ { lo, 0 }, { hi, 1 } };
}

/* How operators of one kind use tokens, beyond "output token t needs input token t". */
struct token_rule {
    /* True if parts of an output of tokens can be computed; NULL: no. */
    bool (*fits)(const struct hrf_graph *graph, const struct hrf_node *node);
    /* Sets *need to what part `out` needs of input k and returns true if that is neither the same
     * tokens nor, of an input that has one token for all or is of another rank, the whole; NULL:
     * it always is. */
    bool (*needed)(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                   const struct hrf_box *out, struct hrf_box *need);
    /* True if the output is computed whole of some tokens alone, which `needed` says. */
    bool (*picks)(const struct hrf_graph *graph, const struct hrf_node *node);
    /* The part of constant input k that output part `out`, of tokens, needs; NULL: the whole. */
    struct hrf_constant_part (*constant)(const struct hrf_graph *graph, const struct hrf_node *node,
                                         int32_t k, const struct hrf_box *out);
    bool may_be_constant; /* the first input */
};
static const struct hrf_constant_part whole_constant = { .axis = -1 };

/* ---- pointwise operators ---- */

static bool fits_always(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    (void)node;
    return true;
}

static bool channels_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    return node->attributes.axis == 2 && !node->attributes.of_each_pixel;
}

/* True if every input is the same for all tokens, or has one row for each. */
static bool point_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const int64_t n_tokens = output_of(graph, node)->dims[1];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const struct hrf_value *x = hrf_node_value(graph, node, k);
        if (x == NULL || x->shape.rank < 2)
            continue;
        const int64_t rows = x->shape.dims[x->shape.rank - 2];
        const bool may_have_rows = x->data != NULL || x->shape.rank == 3;
        if (rows != 1 && (!may_have_rows || rows != n_tokens))
            return false;
    }
    return true;
}

/* The part of a constant that has a row for each token. */
static struct hrf_constant_part rows_of_constant(const struct hrf_graph *graph,
                                                 const struct hrf_node *node, int32_t k,
                                                 const struct hrf_box *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    if (x->rank < 2 || x->dims[x->rank - 2] == 1)
        return whole_constant;
    return (struct hrf_constant_part){ x->rank - 2, out->lo[0], out->hi[0] };
}

/* The scale may differ along any axis but the tokens. */
static bool scale_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *scale = hrf_node_value(graph, node, HRF_QUANTIZE_SCALE);
    return scale == NULL || hrf_shape_count(&scale->shape) == 1 || node->attributes.axis != 1;
}

/* ---- products ---- */

static bool product_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *bias = hrf_node_value(graph, node, HRF_CONV_BIAS);
    const struct hrf_value *residual = hrf_node_value(graph, node, HRF_CONV_RESIDUAL);
    return !node->attributes.gemm.transpose_a &&
           (residual == NULL || (residual->data == NULL && residual->shape.rank == 3)) &&
           (bias == NULL || bias->shape.rank < 2 || bias->shape.dims[bias->shape.rank - 2] == 1);
}

/* Every token is multiplied by all of the weights, which may come at run time. */
static bool product_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                           const struct hrf_box *out, struct hrf_box *need)
{
    (void)out;
    *need = hrf_box_whole(&graph->values[node->inputs[k]].shape);
    return k == HRF_CONV_WEIGHTS;
}

/* ---- moves ---- */

static bool concat_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] < 0 || graph->values[node->inputs[k]].shape.rank != 3)
            return false;
    return true;
}

/* The part of input k that lies within `out`, in coordinates of the input. */
static bool concat_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                          const struct hrf_box *out, struct hrf_box *need)
{
    int64_t begin = 0;
    for (int32_t i = 0; i < k; i++)
        begin += graph->values[node->inputs[i]].shape.dims[1];
    const int64_t n = graph->values[node->inputs[k]].shape.dims[1];
    *need = rows_of(hrf_max(out->lo[0] - begin, 0), hrf_min(out->hi[0] - begin, n));
    return node->attributes.axis == 1;
}

static struct hrf_constant_part concat_constant(const struct hrf_graph *graph,
                                                const struct hrf_node *node, int32_t k,
                                                const struct hrf_box *out)
{
    struct hrf_box piece;
    if (!concat_needed(graph, node, k, out, &piece))
        return rows_of_constant(graph, node, k, out);
    return (struct hrf_constant_part){ 1, piece.lo[0], piece.hi[0] };
}

/* Where along the tokens a SLICE begins, and its step. */
static void slice_of(const struct hrf_attributes *a, int64_t *start, int64_t *step)
{
    *start = 0;
    *step = 1;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] == 1) {
            *start = a->slice.starts[i];
            *step = a->slice.steps[i];
        }
}

static bool slice_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    int64_t start, step;
    (void)graph;
    slice_of(&node->attributes, &start, &step);
    return step > 0;
}

static bool slice_picks(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = hrf_node_value(graph, node, 0);
    return comes_at_run_time(x) && x->shape.rank == 3 && slice_fits(graph, node);
}

static bool slice_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                         const struct hrf_box *out, struct hrf_box *need)
{
    int64_t start, step;
    slice_of(&node->attributes, &start, &step);
    *need = rows_of(start + out->lo[0] * step, start + (out->hi[0] - 1) * step + 1);
    return graph->values[node->inputs[k]].shape.rank == 3;
}

/* True if the GATHER picks tokens by constant indices. */
static bool gather_picks(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = hrf_node_value(graph, node, 0),
                           *indices = hrf_node_value(graph, node, 1);
    return node->attributes.axis == 1 && !node->attributes.channels_last && comes_at_run_time(x) &&
           x->shape.rank == 3 && indices != NULL && indices->data != NULL &&
           (indices->dtype == HRF_S32 || indices->dtype == HRF_S64) &&
           hrf_shape_count(&indices->shape) > 0;
}

static bool gather_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                          const struct hrf_box *out, struct hrf_box *need)
{
    (void)out;
    if (k != 0 || !gather_picks(graph, node))
        return false;
    const struct hrf_value *indices = hrf_node_value(graph, node, 1);
    const int64_t n_tokens = hrf_node_value(graph, node, 0)->shape.dims[1];
    int64_t lo = n_tokens, hi = 0;
    for (int64_t i = 0; i < hrf_shape_count(&indices->shape); i++) {
        const int64_t index = indices->dtype == HRF_S32 ? ((const int32_t *)indices->data)[i]
                                                        : ((const int64_t *)indices->data)[i];
        const int64_t at = index < 0 ? index + n_tokens : index;
        lo = hrf_min(lo, at);
        hi = hrf_max(hi, at + 1);
    }
    *need = rows_of(lo, hi);
    return true;
}

/* An image whose pixels become tokens, or the other way round, is divided by its rows. */
static bool reshape_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                           const struct hrf_box *out, struct hrf_box *need)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const struct hrf_shape *y = output_of(graph, node);
    if (k == 0 && is_image_as_tokens(node, x, y)) {
        const int64_t columns = x->dims[3];
        assert(out->lo[0] % columns == 0 && out->hi[0] % columns == 0);
        *need = (struct hrf_box){ { out->lo[0] / columns, 0 }, { out->hi[0] / columns, columns } };
        return true;
    }
    if (k == 0 && is_image_as_tokens(node, y, x)) {
        *need = rows_of(out->lo[0] * y->dims[3], out->hi[0] * y->dims[3]);
        return true;
    }
    return false;
}

/* ---- attention ---- */

/* A mask that comes at run time would have to be divided along another axis than its second. With a
 * causal mask the position of a query matters. */
static bool attention_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *mask = hrf_node_value(graph, node, HRF_ATTENTION_MASK);
    const bool is_cut = mask != NULL && mask->shape.rank >= 2 &&
                        mask->shape.dims[mask->shape.rank - 2] > 1;
    return hrf_node_value(graph, node, HRF_ATTENTION_Q)->shape.rank == 3 &&
           !node->attributes.attention.causal && (!is_cut || mask->data != NULL);
}

/* Attention in windows needs whole windows of tokens; other attention needs all keys and values. */
static bool attention_needed(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                             const struct hrf_box *out, struct hrf_box *need)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const int64_t grain = graph->values[node->outputs[0]].grain;
    *need = hrf_box_whole(x);
    if (x->rank != 3 || grain <= 0)
        return k != HRF_ATTENTION_Q;
    *need = rows_of(out->lo[0] / grain * grain, (out->hi[0] + grain - 1) / grain * grain);
    return true;
}

/* The part of the mask: of a mask per window those of the windows, of another one the rows of the
 * queries. */
static struct hrf_constant_part attention_constant(const struct hrf_graph *graph,
                                                   const struct hrf_node *node, int32_t k,
                                                   const struct hrf_box *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const int64_t grain = graph->values[node->outputs[0]].grain;
    if (k != HRF_ATTENTION_MASK || (grain > 0 && (x->rank != 4 || x->dims[0] == 1)))
        return whole_constant;
    if (grain > 0)
        return (struct hrf_constant_part){ 0, out->lo[0] / grain, out->hi[0] / grain };
    return rows_of_constant(graph, node, k, out);
}

/* ---- the table ---- */

static const struct token_rule rules[HRF_N_TOKEN_RULES] = {
    [HRF_TOKENS_WHOLE] = { .fits = NULL },
    [HRF_TOKENS_EACH] = { .fits = fits_always },
    [HRF_TOKENS_POINT] = { .fits = point_fits,
                           .constant = rows_of_constant,
                           .may_be_constant = true },
    [HRF_TOKENS_CHANNELS] = { .fits = channels_fit },
    [HRF_TOKENS_SCALE] = { .fits = scale_fits },
    [HRF_TOKENS_PRODUCT] = { .fits = product_fits, .needed = product_needed },
    [HRF_TOKENS_CONCAT] = { .fits = concat_fits,
                            .needed = concat_needed,
                            .constant = concat_constant,
                            .may_be_constant = true },
    [HRF_TOKENS_SLICE] = { .fits = slice_fits, .needed = slice_needed, .picks = slice_picks },
    [HRF_TOKENS_GATHER] = { .needed = gather_needed, .picks = gather_picks },
    [HRF_TOKENS_RESHAPE] = { .needed = reshape_needed },
    [HRF_TOKENS_ATTENTION] = { .fits = attention_fits,
                               .needed = attention_needed,
                               .constant = attention_constant },
};

static const struct token_rule *rule_of(const struct hrf_node *node)
{
    return &rules[hrf_op_info(node->op)->tokens];
}

bool hrf_tokens_can_split(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct token_rule *rule = rule_of(node);
    const struct hrf_shape *y = output_of(graph, node);
    const struct hrf_value *x = hrf_node_value(graph, node, 0);
    if (node->n_outputs != 1 || x == NULL)
        return false;
    if (comes_at_run_time(x) &&
        (is_image_as_tokens(node, y, &x->shape) || is_image_as_tokens(node, &x->shape, y)))
        return true;
    return y->rank == 3 && y->dims[1] > 1 && rule->fits != NULL &&
           (rule->may_be_constant || (comes_at_run_time(x) && x->shape.rank == 3)) &&
           rule->fits(graph, node);
}

bool hrf_tokens_are_picked(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct token_rule *rule = rule_of(node);
    return rule->picks != NULL && rule->picks(graph, node);
}

bool hrf_tokens_concern(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = hrf_node_value(graph, node, 0);
    return output_of(graph, node)->rank == 3 ||
           (x != NULL && is_image_as_tokens(node, output_of(graph, node), &x->shape)) ||
           hrf_tokens_are_picked(graph, node);
}

struct hrf_box hrf_tokens_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out)
{
    const struct token_rule *rule = rule_of(node);
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    struct hrf_box need;
    if (hrf_box_is_empty(out))
        return *out;
    if (rule->needed != NULL && rule->needed(graph, node, k, out, &need))
        return need;
    return x->rank == 3 && x->dims[1] > 1 ? *out : hrf_box_whole(x);
}

struct hrf_constant_part hrf_tokens_constant(const struct hrf_graph *graph,
                                             const struct hrf_node *node, int32_t k,
                                             const struct hrf_box *out)
{
    const struct token_rule *rule = rule_of(node);
    const bool is_of_tokens = output_of(graph, node)->rank == 3;
    return is_of_tokens && rule->constant != NULL ? rule->constant(graph, node, k, out)
                                                  : whole_constant;
}

void hrf_tokens_cut(const struct hrf_node *node, struct hrf_attributes *a)
{
    for (int32_t i = 0; i < a->n_axes && rule_of(node)->picks == slice_picks; i++)
        if (a->axes[i] == 1) { /* the input of a part begins where the slice does */
            a->slice.starts[i] = 0;
            a->slice.ends[i] = INT64_MAX;
        }
}

int64_t hrf_tokens_grain(const struct hrf_graph *graph, int32_t value)
{
    const int32_t n = graph->values[value].producer;
    const struct hrf_node *node = n >= 0 ? &graph->nodes[n] : NULL;
    const struct hrf_value *x = node != NULL ? hrf_node_value(graph, node, 0) : NULL;
    const bool is_of_image = x != NULL &&
                             is_image_as_tokens(node, &x->shape, &graph->values[value].shape);
    if (graph->values[value].grain > 0)
        return graph->values[value].grain;
    return is_of_image ? x->shape.dims[3] : 1;
}

/* ---- channels ---- */

/* The channels [*lo, *hi) of the heads of input k of an attention. */
static void find_heads(const struct hrf_attributes *a, int32_t k, int64_t *lo, int64_t *hi)
{
    const int64_t last = a->attention.first[k] + (a->attention.heads - 1) * a->attention.stride[k];
    *lo = hrf_min(*lo, hrf_min(a->attention.first[k], last));
    *hi = hrf_max(*hi, hrf_max(a->attention.first[k], last) + a->attention.head_size);
}

void hrf_tokens_channels(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                         int64_t *first, int64_t *n)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const bool is_kv = k == HRF_ATTENTION_K || k == HRF_ATTENTION_V;
    *first = 0;
    *n = x->dims[2];
    if (!HRF_OP_HAS(node->op, attention.heads) || !is_kv)
        return;
    int64_t lo = x->dims[2], hi = 0;
    for (int32_t i = HRF_ATTENTION_K; i <= HRF_ATTENTION_V; i++)
        if (node->inputs[i] == node->inputs[k])
            find_heads(&node->attributes, i, &lo, &hi);
    *first = lo;
    *n = hi - lo;
}
