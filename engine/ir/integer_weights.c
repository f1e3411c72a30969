#include "engine/ir/integer_weights.h"

static int32_t integer_at(const struct hrf_value *value, int64_t i)
{
    switch (value->dtype) {
    case HRF_S8:
        return ((const int8_t *)value->data)[i];
    case HRF_U8:
        return ((const uint8_t *)value->data)[i];
    default:
        return ((const int32_t *)value->data)[i];
    }
}

/* Number of neighbouring elements that have the same index along the node's axis. */
static int64_t inside_of_axis(const struct hrf_node *node, const struct hrf_shape *shape)
{
    int64_t inner = 1;
    for (int32_t k = (int32_t)node->attributes.axis + 1; k < shape->rank; k++)
        inner *= shape->dims[k];
    return inner;
}

bool hrf_quantization_is_one(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_shape_count(&graph->values[node->inputs[HRF_QUANTIZE_SCALE]].shape) == 1;
}

struct hrf_quantization hrf_quantization_at(const struct hrf_graph *graph,
                                            const struct hrf_node *node,
                                            const struct hrf_shape *shape, int64_t i)
{
    const float *scales = graph->values[node->inputs[HRF_QUANTIZE_SCALE]].data;
    const struct hrf_value *zero = hrf_node_value(graph, node, HRF_QUANTIZE_ZERO_POINT);
    int64_t index = 0;
    if (!hrf_quantization_is_one(graph, node))
        index = i / inside_of_axis(node, shape) % shape->dims[node->attributes.axis];
    return (struct hrf_quantization){ .scale = scales[index],
                                      .zero_point = zero != NULL ? integer_at(zero, index) : 0 };
}

/* A constant of 8 or 32 bits as n_outer times a row of n_indices runs of `inner` integers, each run
 * with a scale and a zero point of its own. */
struct runs {
    const struct hrf_value *x, *zero; /* zero NULL: 0 */
    const float *scales;
    int64_t n_outer, n_indices, inner;
};

static struct runs runs_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    struct runs r = { .x = &graph->values[node->inputs[HRF_QUANTIZE_X]],
                      .zero = hrf_node_value(graph, node, HRF_QUANTIZE_ZERO_POINT),
                      .scales = graph->values[node->inputs[HRF_QUANTIZE_SCALE]].data,
                      .n_indices = 1 };
    const int64_t n = hrf_shape_count(&r.x->shape);
    r.inner = n;
    if (!hrf_quantization_is_one(graph, node)) {
        r.n_indices = r.x->shape.dims[node->attributes.axis];
        r.inner = inside_of_axis(node, &r.x->shape);
    }
    r.n_outer = n > 0 ? n / (r.n_indices * r.inner) : 0;
    return r;
}

static int32_t zero_at(const struct runs *r, int64_t index)
{
    return r->zero != NULL ? integer_at(r->zero, index) : 0;
}

float *hrf_dequantize_constant(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct runs r = runs_of(graph, node);
    const size_t n = (size_t)hrf_shape_count(&r.x->shape);
    float *out = hrf_alloc_aligned(n * sizeof *out, sizeof(void *));
    for (int64_t outer = 0, i = 0; out != NULL && outer < r.n_outer; outer++)
        for (int64_t index = 0; index < r.n_indices; index++) {
            const double zero = zero_at(&r, index);
            for (int64_t end = i + r.inner; i < end; i++)
                out[i] = (float)((double)integer_at(r.x, i) - zero) * r.scales[index];
        }
    return out;
}

/* True if the constant and its zero points are S8 and the zero points 0, as most tools write it. */
static bool is_symmetric(const struct runs *r)
{
    for (int64_t index = 0; index < r->n_indices; index++)
        if (zero_at(r, index) != 0)
            return false;
    return r->x->dtype == HRF_S8;
}

static bool differences_fit(const struct runs *r)
{
    for (int64_t outer = 0, i = 0; outer < r->n_outer; outer++)
        for (int64_t index = 0; index < r->n_indices; index++) {
            const int32_t zero = zero_at(r, index);
            for (int64_t end = i + r->inner; i < end; i++) {
                const int32_t difference = integer_at(r->x, i) - zero;
                if (difference < INT8_MIN || difference > INT8_MAX)
                    return false;
            }
        }
    return true;
}

/* With scales in this range the product of an integer and its scale, divided by the scale and
 * rounded, is the integer again. */
static bool scales_are_usable(const struct runs *r)
{
    for (int64_t index = 0; index < r->n_indices; index++)
        if (!(r->scales[index] >= 0x1p-100f && r->scales[index] <= 0x1p100f))
            return false;
    return true;
}

enum hrf_status hrf_take_integer_weights(struct hrf_graph *graph, const struct hrf_node *node,
                                         int32_t *value, struct hrf_error *err)
{
    const struct runs r = runs_of(graph, node);
    *value = node->inputs[HRF_QUANTIZE_X];
    if (is_symmetric(&r))
        return HRF_OK;
    HRF_AUTO_FREE void *data = hrf_try_alloc((size_t)hrf_shape_count(&r.x->shape));
    HRF_CHECK_MEMORY(data != NULL, err, "no memory for the weights of '%s'", node->name);
    for (int64_t outer = 0, i = 0; outer < r.n_outer; outer++)
        for (int64_t k = 0; k < r.n_indices; k++)
            for (int64_t end = i + r.inner; i < end; i++)
                ((int8_t *)data)[i] = (int8_t)(integer_at(r.x, i) - zero_at(&r, k));
    const struct hrf_shape shape = r.x->shape;
    return hrf_graph_take_value(graph, node->name, HRF_S8, &shape, &data, value, err);
}

/* True if the reader takes the node's result as its weights and as nothing else, and the scales of
 * a CONV or GEMM belong to its outputs. */
static bool reads_weights(const struct hrf_graph *graph, const struct hrf_node *node,
                          const struct hrf_node *reader)
{
    const bool is_matmul = reader->op == HRF_OP_MATMUL, is_gemm = reader->op == HRF_OP_GEMM;
    const int64_t axis = is_gemm && !reader->attributes.gemm.transpose_b ? 1 : 0;
    if ((!is_matmul && !is_gemm && reader->op != HRF_OP_CONV) ||
        reader->n_inputs > HRF_CONV_SCALES ||
        (!is_matmul && !hrf_quantization_is_one(graph, node) && node->attributes.axis != axis))
        return false;
    for (int32_t k = 0; k < reader->n_inputs; k++)
        if ((reader->inputs[k] == node->outputs[0]) != (k == HRF_CONV_WEIGHTS))
            return false;
    return true;
}

bool hrf_has_integer_weights(const struct hrf_graph *graph, const struct hrf_readers *readers,
                             const struct hrf_node *node)
{
    const int32_t y = node->outputs[0];
    if (node->op != HRF_OP_DEQUANTIZE || readers->is_output[y] ||
        hrf_readers_count(readers, y) == 0)
        return false;
    const struct hrf_value *x = &graph->values[node->inputs[HRF_QUANTIZE_X]];
    if (x->data == NULL || (x->dtype != HRF_S8 && x->dtype != HRF_U8))
        return false;
    for (int32_t i = readers->first[y]; i < readers->first[y + 1]; i++)
        if (!reads_weights(graph, node, &graph->nodes[readers->nodes[i]]))
            return false;
    const struct runs r = runs_of(graph, node);
    return scales_are_usable(&r) && (is_symmetric(&r) || differences_fit(&r));
}
