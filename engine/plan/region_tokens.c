/* region_tokens.c - needed tokens, operator by operator (region_tokens.h). */
#include "engine/plan/region_tokens.h"

#include "base/min_max.h"
#include "engine/plan/region.h"

#include <assert.h>

static const struct hrf_value *value_at(const struct hrf_graph *graph, const struct hrf_node *node,
                                        int32_t k)
{
    return k < node->n_inputs && node->inputs[k] >= 0 ? &graph->values[node->inputs[k]] : NULL;
}

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
    return node->op == HRF_OP_RESHAPE && node->attributes.of_pixels && image->rank == 4 &&
           tokens->rank == 3 && tokens->dims[0] == image->dims[0] &&
           tokens->dims[1] == image->dims[2] * image->dims[3] && tokens->dims[2] == image->dims[1];
}

/* Where along the tokens a SLICE begins, and its step. */
static void slice_of(const struct hrf_attributes *a, int64_t *start, int64_t *step)
{
    *start = 0;
    *step = 1;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] == 1) {
            *start = a->starts[i];
            *step = a->steps[i];
        }
}

static int64_t index_at(const struct hrf_value *indices, int64_t i)
{
    return indices->dtype == HRF_S32 ? ((const int32_t *)indices->data)[i]
                                     : ((const int64_t *)indices->data)[i];
}

/* A GATHER of some tokens by constant indices. */
static bool gathers_tokens(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = value_at(graph, node, 0), *indices = value_at(graph, node, 1);
    return node->op == HRF_OP_GATHER && node->attributes.axis == 1 && !node->attributes.of_pixels &&
           comes_at_run_time(x) && x->shape.rank == 3 && indices != NULL && indices->data != NULL &&
           (indices->dtype == HRF_S32 || indices->dtype == HRF_S64) &&
           hrf_shape_count(&indices->shape) > 0;
}

/* ---- which operators ---- */

/* An input that is the same for all tokens, or has one row for each. */
static bool fits_tokens(const struct hrf_value *x, int64_t n_tokens)
{
    const struct hrf_shape *s = &x->shape;
    if (x->data == NULL && s->rank != 3)
        return s->rank < 2 || s->dims[s->rank - 2] == 1;
    return s->rank < 2 || s->dims[s->rank - 2] == n_tokens || s->dims[s->rank - 2] == 1;
}

static bool all_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const int64_t n_tokens = output_of(graph, node)->dims[1];
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && !fits_tokens(&graph->values[node->inputs[k]], n_tokens))
            return false;
    return true;
}

/* A mask that comes at run time would have to be divided by another axis than its second. Behind a
 * causal mask a query's place counts. */
static bool can_split_attention(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *mask = value_at(graph, node, HRF_ATTENTION_MASK);
    const bool is_cut = mask != NULL && mask->shape.rank >= 2 &&
                        mask->shape.dims[mask->shape.rank - 2] > 1;
    return value_at(graph, node, HRF_ATTENTION_Q)->shape.rank == 3 && !node->attributes.causal &&
           (!is_cut || mask->data != NULL);
}

static bool can_split_concat(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] < 0 || graph->values[node->inputs[k]].shape.rank != 3)
            return false;
    return true;
}

/* The scale may differ along any axis but the tokens. */
static bool can_split_quantize(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *scale = value_at(graph, node, HRF_QUANTIZE_SCALE);
    return scale == NULL || hrf_shape_count(&scale->shape) == 1 || node->attributes.axis != 1;
}

static bool can_split_product(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *bias = value_at(graph, node, HRF_CONV_BIAS);
    const struct hrf_value *residual = value_at(graph, node, HRF_CONV_RESIDUAL);
    const bool is_gemm = node->op == HRF_OP_GEMM;
    if (!comes_at_run_time(value_at(graph, node, 0)) || value_at(graph, node, 0)->shape.rank != 3)
        return false;
    if (is_gemm && (node->attributes.transpose_a ||
                    (residual != NULL && (residual->data != NULL || residual->shape.rank != 3))))
        return false;
    return !is_gemm || bias == NULL || bias->shape.rank < 2 ||
           bias->shape.dims[bias->shape.rank - 2] == 1;
}

static bool can_split_operator(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    int64_t start, step;
    switch (node->op) {
    case HRF_OP_LAYER_NORM:
    case HRF_OP_RMS_NORM:
    case HRF_OP_SOFTMAX:
    case HRF_OP_LOG_SOFTMAX:
        return a->axis == 2 && !a->of_pixels;
    case HRF_OP_IDENTITY:
    case HRF_OP_CAST:
    case HRF_OP_SWIGLU:
        return true;
    case HRF_OP_QUANTIZE:
    case HRF_OP_DEQUANTIZE:
        return can_split_quantize(graph, node);
    case HRF_OP_CONCAT:
        return can_split_concat(graph, node);
    case HRF_OP_SLICE:
        slice_of(a, &start, &step);
        return step > 0;
    case HRF_OP_GEMM:
    case HRF_OP_MATMUL:
        return can_split_product(graph, node);
    case HRF_OP_ATTENTION:
        return can_split_attention(graph, node);
    default:
        return (hrf_op_is_unary(node->op) || hrf_op_is_binary(node->op)) && all_fit(graph, node);
    }
}

bool hrf_tokens_can_split(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = output_of(graph, node);
    const struct hrf_value *x = value_at(graph, node, 0);
    if (node->n_outputs != 1 || x == NULL)
        return false;
    if (comes_at_run_time(x) &&
        (is_image_as_tokens(node, y, &x->shape) || is_image_as_tokens(node, &x->shape, y)))
        return true;
    if (y->rank != 3 || y->dims[1] <= 1)
        return false;
    const bool takes_any = hrf_op_is_binary(node->op) || node->op == HRF_OP_CONCAT;
    return (takes_any || (comes_at_run_time(x) && x->shape.rank == 3)) &&
           can_split_operator(graph, node);
}

bool hrf_tokens_are_picked(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = value_at(graph, node, 0);
    int64_t start, step;
    slice_of(&node->attributes, &start, &step);
    return gathers_tokens(graph, node) ||
           (node->op == HRF_OP_SLICE && comes_at_run_time(x) && x->shape.rank == 3 && step > 0);
}

bool hrf_tokens_concern(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = value_at(graph, node, 0);
    return output_of(graph, node)->rank == 3 ||
           (x != NULL && is_image_as_tokens(node, output_of(graph, node), &x->shape)) ||
           hrf_tokens_are_picked(graph, node);
}

/* ---- which tokens ---- */

static struct hrf_box rows_of(int64_t lo, int64_t hi)
{
    return (struct hrf_box){ { lo, 0 }, { hi, 1 } };
}

static struct hrf_box gathered(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *indices = value_at(graph, node, 1);
    const int64_t n_tokens = value_at(graph, node, 0)->shape.dims[1];
    int64_t lo = n_tokens, hi = 0;
    for (int64_t i = 0; i < hrf_shape_count(&indices->shape); i++) {
        const int64_t index = index_at(indices, i);
        const int64_t at = index < 0 ? index + n_tokens : index;
        lo = hrf_min(lo, at);
        hi = hrf_max(hi, at + 1);
    }
    return rows_of(lo, hi);
}

/* Of input k of a CONCAT along the tokens: what lies within `out`, counted from its own begin. */
static struct hrf_box of_piece(const struct hrf_graph *graph, const struct hrf_node *node,
                               int32_t k, const struct hrf_box *out)
{
    int64_t begin = 0;
    for (int32_t i = 0; i < k; i++)
        begin += graph->values[node->inputs[i]].shape.dims[1];
    const int64_t n = graph->values[node->inputs[k]].shape.dims[1];
    return rows_of(hrf_max(out->lo[0] - begin, 0), hrf_min(out->hi[0] - begin, n));
}

/* Of an attention in windows: the whole windows of the tokens. */
static struct hrf_box windows_of(const struct hrf_box *out, int64_t grain)
{
    return rows_of(out->lo[0] / grain * grain, (out->hi[0] + grain - 1) / grain * grain);
}

/* True if every token of the output reads all tokens of input k. */
static bool is_read_whole(const struct hrf_node *node, int32_t k)
{
    return (node->op == HRF_OP_ATTENTION || node->op == HRF_OP_MATMUL) && k > 0;
}

struct hrf_box hrf_tokens_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const struct hrf_shape *y = output_of(graph, node);
    int64_t start, step;
    if (hrf_box_is_empty(out))
        return *out;
    if (k == 0 && is_image_as_tokens(node, x, y)) {
        const int64_t columns = x->dims[3];
        assert(out->lo[0] % columns == 0 && out->hi[0] % columns == 0);
        return (struct hrf_box){ { out->lo[0] / columns, 0 },
                                 { (out->hi[0] + columns - 1) / columns, columns } };
    }
    if (k == 0 && is_image_as_tokens(node, y, x))
        return rows_of(out->lo[0] * y->dims[3], out->hi[0] * y->dims[3]);
    if (gathers_tokens(graph, node) && k == 0)
        return gathered(graph, node);
    const int64_t grain = graph->values[node->outputs[0]].grain;
    if (node->op == HRF_OP_ATTENTION && x->rank == 3 && grain > 0)
        return windows_of(out, grain);
    if (x->rank != 3 || is_read_whole(node, k))
        return hrf_box_whole(x);
    if (node->op == HRF_OP_CONCAT && node->attributes.axis == 1)
        return of_piece(graph, node, k, out);
    if (node->op == HRF_OP_SLICE) {
        slice_of(&node->attributes, &start, &step);
        return rows_of(start + out->lo[0] * step, start + (out->hi[0] - 1) * step + 1);
    }
    return x->dims[1] > 1 ? *out : hrf_box_whole(x);
}

void hrf_tokens_cut(const struct hrf_node *node, struct hrf_attributes *a)
{
    for (int32_t i = 0; i < a->n_axes && node->op == HRF_OP_SLICE; i++)
        if (a->axes[i] == 1) { /* the input of a part begins where the slice does */
            a->starts[i] = 0;
            a->ends[i] = INT64_MAX;
        }
}

int64_t hrf_tokens_grain(const struct hrf_graph *graph, int32_t value)
{
    const int32_t n = graph->values[value].producer;
    const struct hrf_node *node = n >= 0 ? &graph->nodes[n] : NULL;
    const struct hrf_value *x = node != NULL ? value_at(graph, node, 0) : NULL;
    const bool is_of_image = x != NULL &&
                             is_image_as_tokens(node, &x->shape, &graph->values[value].shape);
    if (graph->values[value].grain > 0)
        return graph->values[value].grain;
    return is_of_image ? x->shape.dims[3] : 1;
}

/* ---- constants ---- */

struct hrf_constant_part hrf_tokens_constant(const struct hrf_graph *graph,
                                             const struct hrf_node *node, int32_t k,
                                             const struct hrf_box *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const struct hrf_constant_part whole = { .axis = -1 };
    const bool is_mask = node->op == HRF_OP_ATTENTION && k == HRF_ATTENTION_MASK;
    const int64_t grain = graph->values[node->outputs[0]].grain;
    if (is_mask && grain > 0 && (x->rank != 4 || x->dims[0] == 1))
        return whole;
    if (is_mask && grain > 0) /* one for each window */
        return (struct hrf_constant_part){ 0, out->lo[0] / grain, out->hi[0] / grain };
    if (output_of(graph, node)->rank != 3 || x->rank < 2)
        return whole;
    if (node->op == HRF_OP_CONCAT && node->attributes.axis == 1) {
        const struct hrf_box piece = of_piece(graph, node, k, out);
        return (struct hrf_constant_part){ 1, piece.lo[0], piece.hi[0] };
    }
    if ((!is_mask && !hrf_op_is_binary(node->op) && node->op != HRF_OP_CONCAT) ||
        x->dims[x->rank - 2] == 1)
        return whole;
    return (struct hrf_constant_part){ x->rank - 2, out->lo[0], out->hi[0] };
}

/* ---- channels ---- */

/* Where the heads of input k of an attention begin and end. */
static void find_heads(const struct hrf_attributes *a, int32_t k, int64_t *lo, int64_t *hi)
{
    const int64_t last = a->starts[k] + (a->group - 1) * a->steps[k];
    *lo = hrf_min(*lo, hrf_min(a->starts[k], last));
    *hi = hrf_max(*hi, hrf_max(a->starts[k], last) + a->size);
}

void hrf_tokens_channels(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                         int64_t *first, int64_t *n)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    const bool is_kv = k == HRF_ATTENTION_K || k == HRF_ATTENTION_V;
    *first = 0;
    *n = x->dims[2];
    if (node->op != HRF_OP_ATTENTION || !hrf_attention_is_of_tokens(&node->attributes) || !is_kv)
        return;
    int64_t lo = x->dims[2], hi = 0;
    for (int32_t i = HRF_ATTENTION_K; i <= HRF_ATTENTION_V; i++)
        if (node->inputs[i] == node->inputs[k])
            find_heads(&node->attributes, i, &lo, &hi);
    *first = lo;
    *n = hi - lo;
}
