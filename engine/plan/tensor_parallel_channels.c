/* tensor_parallel_channels.c - which nodes can be divided, and which channels a rank has
 * (tensor_parallel.h). */
#include "engine/plan/tensor_parallel_private.h"

#include <string.h>

/* Ranges of channels begin at multiples of this number, if each has that many. */
enum { GRAIN = 16 };

int64_t hrf_tensor_bound(int64_t n, int32_t rank, int32_t n_ranks)
{
    const int64_t at = n * rank / n_ranks;
    return rank < n_ranks && n >= (int64_t)GRAIN * n_ranks ? at / GRAIN * GRAIN : at;
}

static bool has_input(const struct hrf_node *node, int32_t k)
{
    return k < node->n_inputs && node->inputs[k] >= 0;
}

static bool is_constant(const struct tensor_split *s, int32_t value)
{
    return value >= 0 && hrf_tensor_value(s, value)->data != NULL;
}

/* ---- what can be divided ---- */

/* The axis of the weights along which the output channels lie; -1: the node is no product whose
 * channels can be divided. */
int32_t hrf_tensor_columns_axis(const struct tensor_split *s, const struct hrf_node *node)
{
    const bool is_conv = node->op == HRF_OP_CONV, is_matmul = node->op == HRF_OP_MATMUL;
    if ((!is_conv && !is_matmul && node->op != HRF_OP_GEMM) || is_constant(s, node->inputs[0]) ||
        !is_constant(s, node->inputs[HRF_CONV_WEIGHTS]) ||
        (has_input(node, HRF_CONV_BIAS) && !is_constant(s, node->inputs[HRF_CONV_BIAS])))
        return -1;
    const struct hrf_shape *y = &hrf_tensor_value(s, node->outputs[0])->shape;
    const struct hrf_shape *w = &hrf_tensor_value(s, node->inputs[HRF_CONV_WEIGHTS])->shape;
    const int32_t axis = is_conv || (!is_matmul && node->attributes.transpose_b) ? 0 : 1;
    const bool fits = is_conv ? node->attributes.group == 1 && y->rank == 4
                              : w->rank == 2 && (y->rank == 2 || y->rank == 3);
    if (!fits || w->dims[axis] != y->dims[hrf_tensor_axis(y)] || w->dims[axis] < s->n_ranks ||
        (has_input(node, HRF_CONV_RESIDUAL) &&
         !hrf_shape_equal(&hrf_tensor_value(s, node->inputs[HRF_CONV_RESIDUAL])->shape, y)))
        return -1;
    return axis;
}

/* Element by element, from one value that comes at run time. */
bool hrf_tensor_is_elementwise(const struct tensor_split *s, const struct hrf_node *node)
{
    switch (node->op) {
    case HRF_OP_IDENTITY:
    case HRF_OP_CAST:
    case HRF_OP_QUANTIZE:
    case HRF_OP_DEQUANTIZE:
        break;
    default:
        if (!hrf_op_is_unary(node->op))
            return false;
    }
    return node->n_inputs == 1 && node->n_outputs == 1 &&
           hrf_shape_equal(&hrf_tensor_value(s, node->inputs[0])->shape,
                           &hrf_tensor_value(s, node->outputs[0])->shape);
}

/* A mask that comes at run time and differs from head to head would have to be divided. */
bool hrf_tensor_has_heads(const struct tensor_split *s, const struct hrf_node *node)
{
    if (node->op != HRF_OP_ATTENTION || !hrf_attention_is_of_tokens(&node->attributes) ||
        node->attributes.group < 2)
        return false;
    if (!has_input(node, HRF_ATTENTION_MASK) || is_constant(s, node->inputs[HRF_ATTENTION_MASK]))
        return true;
    const struct hrf_shape *mask = &hrf_tensor_value(s, node->inputs[HRF_ATTENTION_MASK])->shape;
    return mask->rank < 3 || mask->dims[mask->rank - 3] == 1;
}

int64_t hrf_tensor_first_head(const struct tensor_split *s, const struct hrf_node *attention,
                              int32_t rank)
{
    return attention->attributes.group * rank / s->n_ranks;
}

/* The value that the last of the elementwise nodes behind `value` computes, each the only reader of
 * what the one before it computes, and the only reader of that, or NULL. */
static const struct hrf_node *last_reader(const struct tensor_split *s, int32_t *value)
{
    const int32_t n = s->reader[*value];
    const struct hrf_node *node = n >= 0 ? &s->from->nodes[n] : NULL;
    if (node == NULL || !hrf_tensor_is_elementwise(s, node))
        return node;
    *value = node->outputs[0];
    return last_reader(s, value);
}

/* ---- which channels ---- */

/* Marks the channels of `value`, which an attention reads, of the rank's heads. */
void hrf_tensor_mark_heads(const struct tensor_split *s, const struct hrf_node *attention,
                           int32_t value, int32_t rank, bool *mine)
{
    const struct hrf_attributes *a = &attention->attributes;
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++)
        for (int64_t h = hrf_tensor_first_head(s, attention, rank);
             attention->inputs[k] == value && h < hrf_tensor_first_head(s, attention, rank + 1);
             h++)
            memset(mine + a->starts[k] + h * a->steps[k], true, (size_t)a->size);
}

/* mine[channels]: which channels the rank's part of a product's output has. */
void hrf_tensor_mark_channels(const struct tensor_split *s, int32_t value, enum tensor_form form,
                              int32_t rank, bool *mine)
{
    const int64_t n = hrf_tensor_channels(s, value), half = n / 2;
    int32_t last = value;
    memset(mine, false, (size_t)n);
    if (form == HEADS) {
        const struct hrf_node *reader = last_reader(s, &last);
        hrf_tensor_mark_heads(s, reader, last, rank, mine);
        return;
    }
    const int64_t all = form == HALVES ? half : n;
    const int64_t lo = hrf_tensor_bound(all, rank, s->n_ranks),
                  hi = hrf_tensor_bound(all, rank + 1, s->n_ranks);
    memset(mine + lo, true, (size_t)(hi - lo));
    if (form == HALVES)
        memset(mine + half + lo, true, (size_t)(hi - lo));
}

int64_t hrf_tensor_count_marked(const bool *mine, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += mine[i];
    return count;
}

/* Where head `head` of the attention's input k begins in the rank's part of its channels. */
int64_t hrf_tensor_place_of_head(const struct hrf_node *attention, int32_t k, int64_t head,
                                 const bool *mine)
{
    const struct hrf_attributes *a = &attention->attributes;
    return hrf_tensor_count_marked(mine, a->starts[k] + head * a->steps[k]);
}

/* True if the heads stand at equal distances in each rank's part of input k, too. */
static bool heads_stay_even(const struct tensor_split *s, const struct hrf_node *attention,
                            int32_t k, bool *mine)
{
    for (int32_t r = 0; r < s->n_ranks; r++) {
        const int64_t lo = hrf_tensor_first_head(s, attention, r),
                      hi = hrf_tensor_first_head(s, attention, r + 1);
        memset(mine, false, (size_t)hrf_tensor_channels(s, attention->inputs[k]));
        hrf_tensor_mark_heads(s, attention, attention->inputs[k], r, mine);
        for (int64_t h = lo + 2; h < hi; h++)
            if (hrf_tensor_place_of_head(attention, k, h, mine) -
                    hrf_tensor_place_of_head(attention, k, h - 1, mine) !=
                hrf_tensor_place_of_head(attention, k, lo + 1, mine) -
                    hrf_tensor_place_of_head(attention, k, lo, mine))
                return false;
    }
    return true;
}

enum hrf_status hrf_tensor_find_form(const struct tensor_split *s, const struct hrf_node *product,
                                     enum tensor_form *form, struct hrf_error *err)
{
    int32_t last = product->outputs[0];
    const struct hrf_node *reader = last_reader(s, &last);
    *form = PLAIN;
    if (has_input(product, HRF_CONV_RESIDUAL) || reader == NULL)
        return HRF_OK;
    const int64_t n = hrf_tensor_channels(s, last);
    if (reader->op == HRF_OP_SWIGLU && hrf_tensor_value(s, last)->shape.rank != 4 &&
        n / 2 >= s->n_ranks)
        *form = HALVES;
    if (!hrf_tensor_has_heads(s, reader))
        return HRF_OK;
    HRF_AUTO_FREE bool *mine = hrf_calloc((size_t)n + 1, sizeof *mine);
    HRF_CHECK_MEMORY(mine != NULL, err, "no memory to divide heads");
    *form = HEADS;
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++)
        if (reader->inputs[k] == last && !heads_stay_even(s, reader, k, mine))
            *form = PLAIN;
    return HRF_OK;
}
