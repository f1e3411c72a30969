/* lower_weights.c - the weights of lowered nodes: quantised to S8 with one scale per output
 * channel, or rounded to F16 or B16. */
#include "engine/ir/number.h"
#include "engine/passes/lower_private.h"

#include <math.h>

/* Weights seen as n_out rows of per_out elements, whatever their order in memory. */
struct rows {
    const float *data;      /* NULL: the weights are */
    const int8_t *integers; /* integers times own scales */
    const float *own;       /* [n_out]: the scales that the model brings; NULL: none */
    int64_t n_out, per_out, out_stride, in_stride;
    int64_t area, per_group;   /* of a CONV_TRANSPOSE; area 0: another operator */
    float factor, bias_factor; /* alpha and beta of GEMM */
    const float *smoothing;    /* of a GEMM: a factor for each output channel; NULL: 1 */
};

static struct rows rows_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const bool has_own = hrf_node_has_input(node, HRF_CONV_SCALES);
    struct rows r = { .data = w->dtype == HRF_F32 ? w->data : NULL,
                      .integers = w->dtype == HRF_S8 ? w->data : NULL,
                      .own = has_own ? graph->values[node->inputs[HRF_CONV_SCALES]].data : NULL,
                      .factor = is_gemm ? node->attributes.gemm.alpha : 1.0f,
                      .bias_factor = is_gemm ? node->attributes.gemm.beta : 1.0f };
    const bool transposed = is_gemm && !node->attributes.gemm.transpose_b;
    if (node->op == HRF_OP_CONV_TRANSPOSE) {
        r.per_group = w->shape.dims[1];
        r.n_out = r.per_group * node->attributes.group;
        r.per_out = hrf_shape_count(&w->shape) / r.n_out;
        r.area = w->shape.dims[2] * w->shape.dims[3];
        return r;
    }
    r.n_out = w->shape.dims[transposed ? 1 : 0];
    r.per_out = hrf_shape_count(&w->shape) / r.n_out;
    r.out_stride = transposed ? 1 : r.per_out;
    r.in_stride = transposed ? r.n_out : 1;
    return r;
}

static float weight(const struct rows *r, int64_t m, int64_t k)
{
    if (r->area > 0) { /* [C][M/group][kh][kw] */
        const int64_t c = m / r->per_group * (r->per_out / r->area) + k / r->area;
        return r->data[(c * r->per_group + m % r->per_group) * r->area + k % r->area];
    }
    const int64_t i = m * r->out_stride + k * r->in_stride;
    const float w = (r->data != NULL ? r->data[i] : (float)r->integers[i] * r->own[m]) * r->factor;
    return r->smoothing != NULL ? w * r->smoothing[k] : w;
}

static float scale_of(const struct rows *r, int64_t m)
{
    float most = 0;
    for (int64_t k = 0; k < r->per_out; k++)
        most = fmaxf(most, fabsf(weight(r, m, k)));
    return most >= 0x1p-100f ? most / 127.0f : 1.0f;
}

/* The shift of the mean of output m that rounding the weights causes; it is subtracted from the
 * bias. */
static double drift(const struct hrf_node *node, const struct rows *r, const int8_t *q, float scale,
                    int64_t m, const struct hrf_range *range)
{
    const int64_t channels = range->n_means / node->attributes.group;
    const int64_t area = r->per_out / channels;
    const int64_t first = m / (r->n_out / node->attributes.group) * channels;
    double sum = 0;
    for (int64_t k = 0; k < r->per_out; k++) {
        const double mean = (double)range->means[first + k / area];
        sum += ((double)q[m * r->per_out + k] * (double)scale - (double)weight(r, m, k)) *
               (r->smoothing != NULL ? mean / (double)r->smoothing[k] : mean);
    }
    return sum;
}

/* *data is the graph's from here on. */
static enum hrf_status take_constant(struct hrf_graph *to, const struct hrf_node *node,
                                     const char *suffix, enum hrf_dtype type,
                                     const struct hrf_shape *shape, void **data, int32_t *index,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", node->name, suffix);
    return hrf_graph_take_value(to, name, type, shape, data, index, err);
}

static enum hrf_status add_constant(struct hrf_graph *to, const struct hrf_node *node,
                                    const char *suffix, enum hrf_dtype type,
                                    const struct hrf_shape *shape, const void *data, int32_t *index,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", node->name, suffix);
    return hrf_graph_add_value(to, name, type, shape, data, index, err);
}

/* The means of the range belong to the channels of x only if there are as many. */
static bool can_correct(const struct hrf_graph *from, const struct hrf_node *node,
                        const struct hrf_range *range)
{
    const struct hrf_shape *x = &from->values[node->inputs[HRF_CONV_X]].shape;
    const int64_t channels = node->op == HRF_OP_GEMM ? hrf_shape_last(x) : x->dims[1];
    return range != NULL && range->means != NULL && x->rank >= 2 && range->n_means == channels;
}

void hrf_lower_largest_weights(const struct hrf_graph *graph, const struct hrf_node *node,
                               float *most)
{
    const struct rows r = rows_of(graph, node);
    for (int64_t m = 0; m < r.n_out; m++)
        for (int64_t k = 0; k < r.per_out; k++)
            most[k] = fmaxf(most[k], fabsf(weight(&r, m, k)));
}

/* True if the model's own integers are those of the lowered product. */
static bool keeps_integers(const struct rows *r)
{
    return r->integers != NULL && r->factor == 1 && r->smoothing == NULL;
}

/* The nearest integers to the weights of output m. */
static void round_row(const struct rows *r, int64_t m, float scale, int8_t *q)
{
    for (int64_t k = 0; k < r->per_out; k++)
        q[k] = keeps_integers(r) ? r->integers[m * r->out_stride + k * r->in_stride]
                                 : (int8_t)hrf_saturate(weight(r, m, k) / scale, HRF_S8, 0);
}

/* Fills rows of integers (unless `own` already has them), their scales, and the bias of n_out
 * channels. */
static void fill_integers(const struct hrf_graph *from, const struct hrf_node *node,
                          const struct rows *r, const struct hrf_range *range, const int8_t *own,
                          int8_t *made, float *scales, float *biases)
{
    const bool has_bias = hrf_node_has_input(node, HRF_CONV_BIAS);
    const float *bias = has_bias ? from->values[node->inputs[HRF_CONV_BIAS]].data : NULL;
    for (int64_t m = 0; m < r->n_out; m++) {
        scales[m] = r->own != NULL ? r->own[m] * r->factor : scale_of(r, m);
        if (own == NULL)
            round_row(r, m, scales[m], made + m * r->per_out);
        biases[m] = bias != NULL ? bias[m] * r->bias_factor : 0.0f;
        if (can_correct(from, node, range))
            biases[m] = (float)((double)biases[m] -
                                drift(node, r, own != NULL ? own : made, scales[m], m, range));
    }
}

static enum hrf_status share_weights(const struct hrf_graph *from, const struct hrf_node *node,
                                     struct hrf_graph *to, int32_t *index, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.weights.int8", node->name);
    return hrf_graph_share_value(to, &from->values[node->inputs[HRF_CONV_WEIGHTS]], name, index,
                                 err);
}

static struct hrf_shape shape_of_rows(const struct hrf_graph *from, const struct hrf_node *node,
                                      const struct rows *r)
{
    struct hrf_shape shape = from->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    if (r->area > 0) {
        shape.dims[0] = r->n_out;
        shape.dims[1] = r->per_out / r->area;
    }
    if (node->op == HRF_OP_GEMM)
        shape = (struct hrf_shape){ .rank = 2, .dims = { r->n_out, r->per_out } };
    return shape;
}

enum hrf_status hrf_lower_integer_weights(const struct hrf_graph *from, const struct hrf_node *node,
                                          const struct hrf_range *range, const float *smoothing,
                                          struct hrf_graph *to, int32_t *inputs,
                                          struct hrf_error *err)
{
    struct rows r = rows_of(from, node);
    r.smoothing = smoothing;
    /* Integers that are already in the order of the lowered product are shared, not copied. */
    const int8_t *own = keeps_integers(&r) && r.in_stride == 1 ? r.integers : NULL;
    HRF_AUTO_FREE void *made = own == NULL ? hrf_alloc_aligned((size_t)(r.n_out * r.per_out),
                                                               sizeof(void *))
                                           : NULL;
    HRF_AUTO_FREE float *scales = hrf_try_alloc_array((size_t)r.n_out, sizeof *scales);
    HRF_AUTO_FREE float *biases = hrf_try_calloc((size_t)r.n_out, sizeof *biases);
    HRF_CHECK_MEMORY((own != NULL || made != NULL) && scales != NULL && biases != NULL, err,
                     "no memory for the weights of '%s'", node->name);
    fill_integers(from, node, &r, range, own, made, scales, biases);
    const struct hrf_shape shape = shape_of_rows(from, node, &r);
    const struct hrf_shape row = { .rank = 1, .dims = { r.n_out } };
    HRF_TRY(own != NULL ? share_weights(from, node, to, &inputs[HRF_CONV_WEIGHTS], err)
                        : take_constant(to, node, "weights.int8", HRF_S8, &shape, &made,
                                        &inputs[HRF_CONV_WEIGHTS], err));
    HRF_TRY(add_constant(to, node, "weights.scales", HRF_F32, &row, scales,
                         &inputs[HRF_CONV_SCALES], err));
    if (hrf_node_has_input(node, HRF_CONV_BIAS) || can_correct(from, node, range))
        HRF_TRY(add_constant(to, node, "bias", HRF_F32, &row, biases, &inputs[HRF_CONV_BIAS], err));
    return HRF_OK;
}

enum hrf_status hrf_lower_float_weights(const struct hrf_graph *from, const struct hrf_node *node,
                                        struct hrf_graph *to, int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *w = &from->values[node->inputs[HRF_CONV_WEIGHTS]];
    const struct rows r = rows_of(from, node);
    HRF_AUTO_FREE void *data = hrf_try_alloc_array((size_t)(r.n_out * r.per_out), sizeof(float));
    HRF_CHECK_MEMORY(data != NULL, err, "no memory for the weights of '%s'", node->name);
    for (int64_t m = 0; m < r.n_out; m++)
        for (int64_t k = 0; k < r.per_out; k++) {
            const int64_t i = m * r.out_stride + k * r.in_stride;
            ((float *)data)[i] = (float)r.integers[i] * r.own[m];
        }
    return take_constant(to, node, "weights", HRF_F32, &w->shape, &data, index, err);
}

enum hrf_status hrf_lower_rounded_weights(const struct hrf_graph *from, const struct hrf_node *node,
                                          enum hrf_dtype type, struct hrf_graph *to,
                                          int32_t *inputs, struct hrf_error *err)
{
    const struct hrf_value *w = &from->values[node->inputs[HRF_CONV_WEIGHTS]];
    const int64_t n = hrf_shape_count(&w->shape);
    HRF_AUTO_FREE void *rounded = hrf_alloc_aligned((size_t)n * sizeof(float), sizeof(void *));
    HRF_CHECK_MEMORY(rounded != NULL, err, "no memory for the weights of '%s'", node->name);
    for (int64_t i = 0; i < n; i++)
        ((float *)rounded)[i] = hrf_round_to(type, ((const float *)w->data)[i]);
    HRF_TRY(take_constant(to, node, "weights.rounded", HRF_F32, &w->shape, &rounded,
                          &inputs[HRF_CONV_WEIGHTS], err));
    if (node->n_inputs <= HRF_CONV_BIAS || node->inputs[HRF_CONV_BIAS] < 0)
        return HRF_OK;
    const struct hrf_value *b = &from->values[node->inputs[HRF_CONV_BIAS]];
    if (b->data == NULL)
        return HRF_OK;
    return add_constant(to, node, "bias", HRF_F32, &b->shape, b->data, &inputs[HRF_CONV_BIAS], err);
}
