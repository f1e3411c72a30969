/* infer_shapes.c - shape inference: the walk over the nodes, the rules of simple operators, and the
 * helpers that all rules share. */
#include "engine/ir/infer_shapes_private.h"

#include "base/strbuf.h"
#include "engine/ir/integer_weights.h"
#include "engine/ir/op.h"

#include <math.h>
#include <stdio.h>

const struct hrf_value *hrf_infer_input(const struct hrf_inference *in, int32_t k)
{
    if (k >= in->node->n_inputs || in->node->inputs[k] == HRF_NO_VALUE)
        return NULL;
    return &in->graph->values[in->node->inputs[k]];
}

static enum hrf_status report(struct hrf_inference *in, enum hrf_status status, const char *format,
                              va_list args)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_strbuf_vaddf(&text, format, args);
    for (int32_t k = 0; k < in->node->n_inputs && k < 4; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        char shape[128] = "none";
        if (value != NULL)
            hrf_shape_text(&value->shape, shape);
        hrf_strbuf_addf(&text, "%s%s", k == 0 ? "; inputs: " : ", ", shape);
    }
    const char *usual = status == HRF_E_USER
                            ? "the file is no valid ONNX: export the model again"
                            : "write it as other operators in the model and export again; "
                              "docs/models.md lists those that are computed";
    return hrf_error_set(in->err, status, "node '%s' (%s): %s: %s", in->node->name,
                         hrf_op_name(in->node->op), text.text,
                         in->remedy != NULL ? in->remedy : usual);
}

struct hrf_infer_called hrf_infer_call(const struct hrf_inference *in,
                                       const struct hrf_value *value)
{
    struct hrf_infer_called called = { "an input" };
    for (int32_t k = in->node->n_inputs - 1; k >= 0; k--) {
        if (hrf_infer_input(in, k) != value)
            continue;
        const struct hrf_node *from = value->producer >= 0 ? &in->graph->nodes[value->producer]
                                                           : NULL;
        const char *what = value->data != NULL ? ", a constant" : ", an input of the model";
        if (from != NULL)
            snprintf(called.text, sizeof called.text, "input %d, of node '%.80s' (%s),", (int)k,
                     from->name, hrf_op_name(from->op));
        else
            snprintf(called.text, sizeof called.text, "input %d%s,", (int)k, what);
        break;
    }
    return called;
}

enum hrf_status hrf_infer_fail(struct hrf_inference *in, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum hrf_status status = report(in, HRF_E_USER, format, args);
    va_end(args);
    return status;
}

enum hrf_status hrf_infer_refuse(struct hrf_inference *in, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum hrf_status status = report(in, HRF_E_UNSUPPORTED, format, args);
    va_end(args);
    return status;
}

enum hrf_status hrf_infer_axis(struct hrf_inference *in, int64_t *axis, int32_t rank)
{
    if (*axis < -(int64_t)rank || *axis >= rank)
        return hrf_infer_fail(in, "axis %lld is outside the %d axes", (long long)*axis, (int)rank);
    if (*axis < 0)
        *axis += rank;
    return HRF_OK;
}

enum hrf_status hrf_infer_axes(struct hrf_inference *in, int32_t rank)
{
    struct hrf_attributes *a = &in->node->attributes;
    if (a->n_axes < 0 || a->n_axes > HRF_MAX_RANK)
        return hrf_infer_fail(in, "%d axes are too many", (int)a->n_axes);
    for (int32_t i = 0; i < a->n_axes; i++) {
        HRF_TRY(hrf_infer_axis(in, &a->axes[i], rank));
        for (int32_t k = 0; k < i; k++)
            if (a->axes[k] == a->axes[i])
                return hrf_infer_fail(in, "axis %lld is named twice", (long long)a->axes[i]);
    }
    return HRF_OK;
}

static enum hrf_status infer_same(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    return HRF_OK;
}

/* A rank of a partition may have nothing to add; of a graph that is not divided every group has. */
static enum hrf_status infer_all_reduce(struct hrf_inference *in)
{
    if (in->node->n_inputs == 0)
        return hrf_infer_refuse(in, "has nothing to add up");
    return infer_same(in);
}

/* Source: ONNX Clip: where min is above max, everything becomes max. */
static enum hrf_status infer_clip(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    if (isnan(a->activation_min) || isnan(a->activation_max))
        return hrf_infer_fail(in, "min is %g and max %g: they must be numbers",
                              (double)a->activation_min, (double)a->activation_max);
    if (a->activation_min > a->activation_max)
        a->activation_min = a->activation_max;
    return infer_same(in);
}

static enum hrf_status infer_softmax(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    HRF_TRY(infer_same(in));
    HRF_TRY(hrf_infer_axis(in, &a->axis, in->shape.rank));
    if (!a->legacy_axis)
        return HRF_OK;
    /* The softmax over axes [axis, rank) together equals that over one axis if at most one of them
     * is longer than 1. */
    int64_t long_axis = a->axis;
    int n_long = 0;
    for (int32_t i = (int32_t)a->axis; i < in->shape.rank; i++)
        if (in->shape.dims[i] > 1) {
            long_axis = i;
            n_long++;
        }
    if (n_long > 1) {
        in->remedy = "export the model with opset 13 or newer";
        return hrf_infer_refuse(
            in,
            "before opset 13 this works on axes %lld and after as one, which is "
            "not supported",
            (long long)a->axis);
    }
    a->axis = long_axis;
    return HRF_OK;
}

bool hrf_infer_broadcast(const struct hrf_shape *a, const struct hrf_shape *b,
                         struct hrf_shape *out)
{
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t i = 1; i <= out->rank; i++) {
        int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out->dims[out->rank - i] = x == 1 ? y : x;
    }
    return true;
}

static enum hrf_status infer_binary(struct hrf_inference *in)
{
    const struct hrf_value *a = hrf_infer_input(in, 0), *b = hrf_infer_input(in, 1);
    /* The power's type is the base's, and a constant exponent may have any. */
    const bool is_power = in->node->op == HRF_OP_POW && b->data != NULL;
    if (a->dtype != b->dtype && in->node->op == HRF_OP_POW && !is_power)
        return hrf_infer_refuse(in, "numbers of one type to a power of another are not supported");
    if (a->dtype != b->dtype && !is_power)
        return hrf_infer_fail(in, "the inputs' types differ: %s and %s", hrf_dtype_name(a->dtype),
                              hrf_dtype_name(b->dtype));
    if (!hrf_infer_broadcast(&a->shape, &b->shape, &in->shape))
        return hrf_infer_fail(in, "the shapes do not broadcast");
    return HRF_OK;
}

static enum hrf_status infer_function_gradient(struct hrf_inference *in)
{
    const int64_t function = in->node->attributes.function;
    HRF_TRY(infer_same(in));
    if (function < 0 || function >= HRF_N_OPS ||
        hrf_op_gradient((enum hrf_op)function) != HRF_GRADIENT_FUNCTION)
        return hrf_infer_fail(in, "%lld is no function of one number", (long long)function);
    if (!hrf_shape_equal(&in->shape, &hrf_infer_input(in, 1)->shape))
        return hrf_infer_fail(in, "the gradient does not have the input's shape");
    return HRF_OK;
}

static enum hrf_status infer_batch_norm(struct hrf_inference *in)
{
    HRF_TRY(infer_same(in));
    if (in->shape.rank < 2)
        return hrf_infer_fail(in, "there is no channel axis");
    for (int32_t k = 1; k < 5; k++) {
        const struct hrf_shape *s = &hrf_infer_input(in, k)->shape;
        if (s->rank != 1 || s->dims[0] != in->shape.dims[1])
            return hrf_infer_fail(in, "input %d does not hold one number for each of %lld channels",
                                  (int)k, (long long)in->shape.dims[1]);
    }
    return HRF_OK;
}

static enum hrf_status infer_lrn(struct hrf_inference *in)
{
    HRF_TRY(infer_same(in));
    if (in->node->attributes.lrn.size < 1 || in->node->attributes.lrn.size > HRF_MAX_SIDE)
        return hrf_infer_fail(in, "needs a size of 1 to %lld, got %lld", (long long)HRF_MAX_SIDE,
                              (long long)in->node->attributes.lrn.size);
    return HRF_OK;
}

static enum hrf_status infer_gemm(struct hrf_inference *in)
{
    const struct hrf_attributes *attr = &in->node->attributes;
    const struct hrf_value *a = hrf_infer_input(in, 0), *b = hrf_infer_input(in, 1);
    const int32_t last = a->shape.rank - 1;
    if (last < 1 || last == 3 || (last > 1 && attr->gemm.transpose_a) || b->shape.rank != 2)
        return hrf_infer_fail(in, "needs two matrices");
    int64_t m = a->shape.dims[attr->gemm.transpose_a ? 1 : 0];
    int64_t ka = a->shape.dims[attr->gemm.transpose_a ? 0 : last];
    int64_t kb = b->shape.dims[attr->gemm.transpose_b ? 1 : 0];
    int64_t n = b->shape.dims[attr->gemm.transpose_b ? 0 : 1];
    if (ka != kb)
        return hrf_infer_fail(in, "the inner sizes %lld and %lld differ", (long long)ka,
                              (long long)kb);
    in->shape = a->shape;
    in->shape.dims[0] = m;
    in->shape.dims[last] = n;
    for (int32_t k = HRF_CONV_BIAS; k < in->node->n_inputs; k++) {
        const struct hrf_value *c = hrf_infer_input(in, k);
        struct hrf_shape sum;
        if (c != NULL && (!hrf_infer_broadcast(&in->shape, &c->shape, &sum) ||
                          !hrf_shape_equal(&sum, &in->shape)))
            return hrf_infer_fail(in, "input %d does not broadcast to %lldx%lld", (int)k,
                                  (long long)m, (long long)n);
    }
    return HRF_OK;
}

/* numpy's matmul: the last two axes are matrices, the others broadcast, vectors grow an axis. */
static enum hrf_status infer_matmul(struct hrf_inference *in)
{
    struct hrf_shape a = hrf_infer_input(in, 0)->shape, b = hrf_infer_input(in, 1)->shape;
    if (a.rank < 1 || b.rank < 1)
        return hrf_infer_fail(in, "a scalar is not a matrix");
    bool row = a.rank == 1, column = b.rank == 1;
    if (row)
        a = (struct hrf_shape){ .rank = 2, .dims = { 1, a.dims[0] } };
    if (column)
        b = (struct hrf_shape){ .rank = 2, .dims = { b.dims[0], 1 } };
    int64_t m = a.dims[a.rank - 2], ka = a.dims[a.rank - 1];
    int64_t kb = b.dims[b.rank - 2], n = b.dims[b.rank - 1];
    a.rank -= 2;
    b.rank -= 2;
    if (ka != kb || !hrf_infer_broadcast(&a, &b, &in->shape))
        return hrf_infer_fail(in, "the matrices do not fit: inner sizes %lld and %lld",
                              (long long)ka, (long long)kb);
    if (!row)
        in->shape.dims[in->shape.rank++] = m;
    if (!column)
        in->shape.dims[in->shape.rank++] = n;
    return HRF_OK;
}

static enum hrf_status infer_constant(struct hrf_inference *in)
{
    return hrf_infer_fail(in, "has no value");
}

static enum hrf_status infer_shape(struct hrf_inference *in)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const int64_t rank = hrf_infer_input(in, 0)->shape.rank;
    int64_t begin = a->range.start < 0 ? a->range.start + rank : a->range.start;
    int64_t end = a->range.end < 0 ? a->range.end + rank : a->range.end;
    begin = begin < 0 ? 0 : begin > rank ? rank : begin;
    end = end < begin ? begin : end > rank ? rank : end;
    in->dtype = HRF_S64;
    in->shape = (struct hrf_shape){ .rank = 1, .dims = { end - begin } };
    return HRF_OK;
}

static enum hrf_status infer_cast(struct hrf_inference *in)
{
    if (hrf_dtype_size(in->node->attributes.to) == 0)
        return hrf_infer_fail(in, "no type to cast to");
    HRF_TRY(infer_same(in));
    in->dtype = in->node->attributes.to;
    return HRF_OK;
}

static enum hrf_status infer_constant_of_shape(struct hrf_inference *in)
{
    const struct hrf_value *shape = hrf_infer_input(in, 0);
    HRF_TRY(hrf_infer_integers(in, shape, in->shape.dims, HRF_MAX_RANK, &in->shape.rank));
    for (int32_t i = 0; i < in->shape.rank; i++)
        if (in->shape.dims[i] < 0)
            return hrf_infer_fail(in, "the size %lld is negative", (long long)in->shape.dims[i]);
    in->dtype = in->node->attributes.to;
    return HRF_OK;
}

static enum hrf_status infer_part(struct hrf_inference *in)
{
    return hrf_infer_refuse(in, "belongs in the graph of one rank, not in a model");
}

static enum hrf_status infer_performer(struct hrf_inference *in)
{
    const struct hrf_shape *k = &hrf_infer_input(in, HRF_PERFORMER_K)->shape;
    const struct hrf_shape *v = &hrf_infer_input(in, HRF_PERFORMER_V)->shape;
    const struct hrf_shape *p = &hrf_infer_input(in, HRF_PERFORMER_PROJECTION)->shape;
    const int64_t heads = in->node->attributes.performer.heads;
    HRF_TRY(infer_same(in));
    if (in->shape.rank != 4 || k->rank != 4 || k->dims[0] != in->shape.dims[0] ||
        k->dims[1] != in->shape.dims[1] || !hrf_shape_equal(k, v))
        return hrf_infer_fail(in, "q, k and v must be images of the same channels, k and v of the "
                                  "same size");
    if (heads < 1 || in->shape.dims[1] % heads != 0)
        return hrf_infer_fail(in, "%lld channels do not make %lld heads",
                              (long long)in->shape.dims[1], (long long)heads);
    if (p->rank != 2 || p->dims[1] != in->shape.dims[1] / heads)
        return hrf_infer_fail(in, "the projection does not have %lld columns, a head's channels",
                              (long long)(in->shape.dims[1] / heads));
    if (p->dims[1] > HRF_PERFORMER_MAX_HEAD || p->dims[0] > HRF_PERFORMER_MAX_FEATURES)
        return hrf_infer_refuse(in,
                                "heads of more than %d channels or %d features are not "
                                "supported",
                                HRF_PERFORMER_MAX_HEAD, HRF_PERFORMER_MAX_FEATURES);
    return HRF_OK;
}

static enum hrf_status infer_top_k_mask(struct hrf_inference *in)
{
    const int64_t k = in->node->attributes.greatest;
    HRF_TRY(infer_same(in));
    if (in->shape.rank != 2 || k < 1 || k > in->shape.dims[1])
        return hrf_infer_fail(in, "marks %lld numbers of each row of a matrix", (long long)k);
    return HRF_OK;
}

static enum hrf_status infer_of_pass(struct hrf_inference *in)
{
    return hrf_infer_refuse(in, "shapes must be inferred before the passes");
}

static hrf_infer_rule *const rules_of_classes[HRF_N_CLASSES] = {
    [HRF_CLASS_UNARY] = infer_same,           [HRF_CLASS_BINARY] = infer_binary,
    [HRF_CLASS_REDUCE] = hrf_infer_reduction, [HRF_CLASS_KNOWN] = hrf_infer_comparison,
    [HRF_CLASS_MESSAGE] = infer_part,         [HRF_CLASS_POOL] = hrf_infer_pool,
};
/* The rules of operators whose class has no rule. */
static hrf_infer_rule *const rules[HRF_N_OPS] = {
    [HRF_OP_CONV] = hrf_infer_conv,
    [HRF_OP_CONV_TRANSPOSE] = hrf_infer_conv_transpose,
    [HRF_OP_GEMM] = infer_gemm,
    [HRF_OP_MATMUL] = infer_matmul,
    [HRF_OP_BATCH_NORM] = infer_batch_norm,
    [HRF_OP_CLIP] = infer_clip,
    [HRF_OP_SOFTMAX] = infer_softmax,
    [HRF_OP_LOG_SOFTMAX] = infer_softmax,
    [HRF_OP_LRN] = infer_lrn,
    [HRF_OP_CONCAT] = hrf_infer_concat,
    [HRF_OP_FLATTEN] = hrf_infer_flatten,
    [HRF_OP_RESHAPE] = hrf_infer_reshape,
    [HRF_OP_TRANSPOSE] = hrf_infer_transpose,
    [HRF_OP_SQUEEZE] = hrf_infer_squeeze,
    [HRF_OP_UNSQUEEZE] = hrf_infer_unsqueeze,
    [HRF_OP_IDENTITY] = infer_same,
    [HRF_OP_PAD] = hrf_infer_pad,
    [HRF_OP_GATHER] = hrf_infer_gather,
    [HRF_OP_SLICE] = hrf_infer_slice,
    [HRF_OP_DEPTH_TO_SPACE] = hrf_infer_depth_to_space,
    [HRF_OP_RESIZE] = hrf_infer_resize,
    [HRF_OP_SPACE_TO_DEPTH] = hrf_infer_space_to_depth,
    [HRF_OP_EXPAND] = hrf_infer_expand,
    [HRF_OP_TILE] = hrf_infer_tile,
    [HRF_OP_LAYER_NORM] = hrf_infer_layer_norm,
    [HRF_OP_RMS_NORM] = hrf_infer_layer_norm,
    [HRF_OP_GROUP_NORM] = hrf_infer_group_norm,
    [HRF_OP_ATTENTION] = hrf_infer_attention,
    [HRF_OP_TOKEN_ATTENTION] = hrf_infer_token_attention,
    [HRF_OP_SWIGLU] = hrf_infer_swiglu,
    [HRF_OP_WHERE] = hrf_infer_where,
    [HRF_OP_SELECT_MAX] = hrf_infer_select_max,
    [HRF_OP_TOP_K] = hrf_infer_top_k,
    [HRF_OP_TOP_K_MASK] = infer_top_k_mask,
    [HRF_OP_PERFORMER] = infer_performer,
    [HRF_OP_CONSTANT] = infer_constant,
    [HRF_OP_SHAPE] = infer_shape,
    [HRF_OP_CAST] = infer_cast,
    [HRF_OP_CONSTANT_OF_SHAPE] = infer_constant_of_shape,
    [HRF_OP_NOT] = hrf_infer_not,
    [HRF_OP_SIZE] = hrf_infer_size,
    [HRF_OP_RANGE] = hrf_infer_range,
    [HRF_OP_TRILU] = hrf_infer_trilu,
    [HRF_OP_CUM_SUM] = hrf_infer_cum_sum,
    [HRF_OP_SCATTER_ND] = hrf_infer_scatter_nd,
    [HRF_OP_GATHER_ND] = hrf_infer_gather_nd,
    [HRF_OP_EYE_LIKE] = hrf_infer_eye_like,
    [HRF_OP_NON_ZERO] = hrf_infer_non_zero,
    [HRF_OP_QUANTIZE] = hrf_infer_quantize,
    [HRF_OP_DEQUANTIZE] = hrf_infer_dequantize,
    [HRF_OP_LOOKUP] = infer_of_pass,
    [HRF_OP_TOKEN_PRODUCT] = infer_of_pass,
    [HRF_OP_BYTE_ATTENTION] = infer_of_pass,
    [HRF_OP_PERFORMER_MAX] = infer_of_pass,
    [HRF_OP_PERFORMER_STATE] = infer_of_pass,
    [HRF_OP_PERFORMER_APPLY] = infer_of_pass,
    [HRF_OP_ALL_REDUCE] = infer_all_reduce,
    [HRF_OP_POOL_SUM] = infer_part,
    [HRF_OP_POOL_FINISH] = infer_part,
    [HRF_OP_ATTENTION_PART] = infer_part,
    [HRF_OP_FUNCTION_GRADIENT] = infer_function_gradient,
    [HRF_OP_CONV_WEIGHT_GRADIENT] = hrf_infer_conv_weight_gradient,
    [HRF_OP_MAX_POOL_GRADIENT] = hrf_infer_pool_gradient,
    [HRF_OP_GATHER_GRADIENT] = hrf_infer_gather_gradient,
    [HRF_OP_ATTENTION_GRADIENT] = hrf_infer_attention_gradient,
};

static hrf_infer_rule *rule_of(enum hrf_op op)
{
    return rules[op] != NULL ? rules[op] : rules_of_classes[hrf_op_info(op)->op_class];
}

/* Checks that a value which a back end must compute is float32 and not empty. */
static enum hrf_status check_result(struct hrf_inference *in)
{
    int64_t count = hrf_shape_count(&in->shape);
    char text[128];
    hrf_shape_text(&in->shape, text);
    if (in->shape.rank > HRF_MAX_RANK || count < 0)
        return hrf_infer_fail(in, "the result %s is too large", text);
    if (in->graph->values[in->node->outputs[0]].data != NULL)
        return HRF_OK;
    if (count == 0)
        return hrf_infer_refuse(in, "the result %s is empty", text);
    if (in->dtype != HRF_F32 && in->node->op != HRF_OP_QUANTIZE)
        return hrf_infer_refuse(in,
                                "the result is %s, which depends on the input: only float32 is "
                                "computed there",
                                hrf_dtype_name(in->dtype));
    if (hrf_op_is_foldable_only(in->node->op))
        return hrf_infer_refuse(in, "it is computed of constants and shapes only, not of what "
                                    "depends on the input");
    for (int32_t k = 0; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value != NULL && hrf_op_role(in->node->op, k) <= HRF_INPUT_WEIGHTS &&
            value->dtype != HRF_F32)
            return hrf_infer_refuse(in,
                                    "%s is %s; what depends on the input is computed in float32",
                                    hrf_infer_call(in, value).text, hrf_dtype_name(value->dtype));
    }
    return HRF_OK;
}

/* Memory and operations that the nodes so far need, for all images of the batch. */
struct demand {
    double images, operations;
    double constant_bytes; /* counted for each node that reads them: each kernel has its own packed
                            * copy */
    double folded;         /* elements computed at load: dequantised weights; one that is copied or
                            * computed one by one counts as 8, an element of a shape as 64 */
};

/* Twice as many weights as a file can hold; computing them takes some seconds. */
static const double max_folded = 0x1p31;

static struct demand no_demand(const struct hrf_graph *graph)
{
    const struct hrf_shape *first = graph->n_inputs > 0 ? &graph->values[graph->inputs[0]].shape
                                                        : NULL;
    const bool has_batch = first != NULL && first->rank > 0 && first->dims[0] > 0;
    return (struct demand){ .images = has_batch ? (double)first->dims[0] : 1 };
}

static double bytes_of(const struct hrf_value *value)
{
    return (double)hrf_shape_count(&value->shape) * (double)hrf_dtype_size(value->dtype);
}

static enum hrf_status refuse_bytes(const struct hrf_graph *graph, const struct hrf_node *node,
                                    const char *what, double bytes, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "node '%s' (%s): %s %.4g GiB and {model.max_memory} allows %.4g GiB",
                         node->name, hrf_op_name(node->op), what, bytes / 0x1p30,
                         (double)graph->bounds.memory_bytes / 0x1p30);
}

static enum hrf_status check_bytes(const struct hrf_graph *graph, const struct hrf_node *node,
                                   bool is_folded, struct demand *demand, struct hrf_error *err)
{
    const double most = (double)graph->bounds.memory_bytes;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    demand->constant_bytes += is_folded ? bytes_of(y) : 0;
    if (bytes_of(y) > most * demand->images)
        return refuse_bytes(graph, node, "its result takes for each image",
                            bytes_of(y) / demand->images, err);
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].data != NULL)
            demand->constant_bytes += bytes_of(&graph->values[node->inputs[k]]);
    if (demand->constant_bytes > most)
        return refuse_bytes(graph, node, "the constants up to it take", demand->constant_bytes,
                            err);
    return HRF_OK;
}

/* Called when the shapes of the node are known and before anything of it is computed. */
static enum hrf_status check_demand(const struct hrf_inference *in, struct demand *demand,
                                    struct hrf_error *err)
{
    const struct hrf_graph *graph = in->graph;
    const struct hrf_node *node = in->node;
    /* Integers may become float32 later. */
    const bool is_folded = in->is_integer_weights || hrf_infer_can_evaluate(in);
    const double work = hrf_node_work(graph, node);
    HRF_TRY(check_bytes(graph, node, is_folded, demand, err));
    const bool is_weights = node->op == HRF_OP_QUANTIZE || node->op == HRF_OP_DEQUANTIZE;
    demand->folded += is_folded ? work * (is_weights ? 1 : in->dtype == HRF_F32 ? 8 : 64) : 0;
    if (demand->folded > max_folded)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): what is computed when the model is loaded (shapes, "
                             "dequantised weights) is too much",
                             node->name, hrf_op_name(node->op));
    demand->operations += work;
    if (demand->operations > graph->bounds.operations * demand->images)
        return hrf_error_set(err, HRF_E_USER,
                             "node '%s' (%s): up to it the model takes %.4g operations for each "
                             "image and {model.max_operations} allows %.4g",
                             node->name, hrf_op_name(node->op), demand->operations / demand->images,
                             graph->bounds.operations);
    return HRF_OK;
}

static enum hrf_status infer_node(struct hrf_graph *graph, struct hrf_node *node,
                                  const struct hrf_readers *readers, struct demand *demand,
                                  struct hrf_error *err)
{
    /* A Constant that the importer filled. */
    if (node->op == HRF_OP_CONSTANT && graph->values[node->outputs[0]].data != NULL)
        return HRF_OK;
    struct hrf_inference in = { .graph = graph, .node = node, .err = err };
    if (node->n_inputs > 0)
        in.dtype = hrf_infer_input(&in, 0)->dtype;
    HRF_TRY(hrf_infer_read_inputs(&in));
    if (hrf_op_info(node->op)->rank == 4 && hrf_infer_input(&in, 0)->shape.rank != 4)
        return hrf_infer_refuse(&in, "works on N, C, H, W only");
    HRF_TRY(rule_of(node->op)(&in));
    if (in.shape.rank > HRF_MAX_RANK || hrf_shape_count(&in.shape) < 0)
        return check_result(&in);
    struct hrf_value *out = &graph->values[node->outputs[0]];
    out->shape = in.shape;
    out->dtype = in.dtype;
    in.is_integer_weights = hrf_has_integer_weights(graph, readers, node);
    HRF_TRY(check_demand(&in, demand, err));
    HRF_TRY(hrf_infer_evaluate(&in));
    return check_result(&in);
}

enum hrf_status hrf_graph_infer_shapes(struct hrf_graph *graph, struct hrf_error *err)
{
    struct demand demand = no_demand(graph);
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    HRF_TRY(hrf_graph_check(graph, err));
    hrf_readers_init(graph, &readers);
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct hrf_value *value = &graph->values[graph->inputs[i]];
        char text[128];
        hrf_shape_text(&value->shape, text);
        if (hrf_shape_count(&value->shape) <= 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "input '%s' of the model is %s: give it a full shape first",
                                 value->name, text);
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        struct hrf_value *out = &graph->values[node->outputs[0]];
        if (node->op != HRF_OP_CONSTANT) /* computed for earlier input shapes */
            hrf_value_release_data(out);
        HRF_TRY(infer_node(graph, node, &readers, &demand, err));
    }
    return HRF_OK;
}
