/* own_scales.c - reads the scales of a model that was quantised elsewhere: those of values from
 * pairs of QUANTIZE and DEQUANTIZE, those of weights from the DEQUANTIZE of a constant. */
#include "engine/ir/integer_weights.h"
#include "engine/passes/lower_private.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool hrf_lower_brings_scales(const struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_nodes;
         i++) /* a DEQUANTIZE of a constant, which means weights, does not count */
        if (graph->nodes[i].op == HRF_OP_QUANTIZE &&
            graph->values[graph->nodes[i].inputs[HRF_QUANTIZE_X]].data == NULL)
            return true;
    return false;
}

/* ---- weights ---- */

/* Reads the scales of the node's weights, one for each of n_out outputs along their `axis`. False:
 * there are none that an 8-bit product can use. */
static bool read_scales(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_node *from, int32_t axis, float *scales, int64_t n_out)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const struct hrf_value *given = &graph->values[from->inputs[HRF_QUANTIZE_SCALE]];
    const int64_t n = hrf_shape_count(&given->shape), count = hrf_shape_count(&w->shape);
    if (n > 1 && from->attributes.axis != axis)
        return false;
    for (int64_t m = 0; m < n_out; m++)
        scales[m] = ((const float *)given->data)[n > 1 ? m : 0];
    const int64_t inner = axis == 1 ? 1 : count / n_out;
    if (w->data == NULL) /* they fit, or shape inference would have computed them */
        return true;
    for (int64_t i = 0; i < count; i++) { /* with a zero point a weight may need more than 8 bits */
        const float steps = rintf(((const float *)w->data)[i] / scales[i / inner % n_out]);
        if (!(steps >= -128.0f && steps <= 127.0f))
            return false;
    }
    return true;
}

/* Axis of the weights along which the outputs lie. */
static int32_t axis_of_outputs(const struct hrf_node *node)
{
    const bool is_transposed = node->op == HRF_OP_GEMM && !node->attributes.gemm.transpose_b;
    return is_transposed || node->op == HRF_OP_MATMUL ? 1 : 0;
}

static enum hrf_status add_scales(struct hrf_graph *graph, int32_t index,
                                  const struct hrf_node *from, int32_t axis, struct hrf_error *err)
{
    struct hrf_node *node = &graph->nodes[index];
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape shape = { .rank = 1, .dims = { w->dims[axis] } };
    HRF_AUTO_FREE float *scales = hrf_try_alloc_array((size_t)shape.dims[0], sizeof *scales);
    HRF_AUTO_FREE char *name = hrf_format("%s.weights.scales", node->name);
    int32_t *inputs = hrf_alloc_array(HRF_CONV_SCALES + 1, sizeof *inputs), added;
    if (scales == NULL) {
        hrf_free(inputs);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the scales of '%s'", node->name);
    }
    if (!read_scales(graph, node, from, axis, scales, shape.dims[0])) {
        hrf_free(inputs);
        return HRF_OK;
    }
    const enum hrf_status status = hrf_graph_add_value(graph, name, HRF_F32, &shape, scales, &added,
                                                       err);
    if (status != HRF_OK) {
        hrf_free(inputs);
        return status;
    }
    for (int32_t i = 0; i < HRF_CONV_SCALES; i++)
        inputs[i] = i < node->n_inputs ? node->inputs[i] : HRF_NO_VALUE;
    inputs[HRF_CONV_SCALES] = added;
    hrf_free(node->inputs);
    node->inputs = inputs;
    node->n_inputs = HRF_CONV_SCALES + 1;
    return HRF_OK;
}

static bool takes_scales(const struct hrf_node *node)
{
    return node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM;
}

/* The DEQUANTIZE of a constant that computes the weights of a CONV, GEMM or MATMUL; NULL: another
 * node, or other weights. */
static const struct hrf_node *find_dequantize(const struct hrf_graph *graph,
                                              const struct hrf_node *node)
{
    if ((!takes_scales(node) && node->op != HRF_OP_MATMUL) || node->n_inputs > HRF_CONV_SCALES)
        return NULL;
    const int32_t producer = graph->values[node->inputs[HRF_CONV_WEIGHTS]].producer;
    if (producer < 0 || graph->nodes[producer].op != HRF_OP_DEQUANTIZE)
        return NULL;
    const struct hrf_node *from = &graph->nodes[producer];
    return graph->values[from->inputs[HRF_QUANTIZE_X]].data != NULL ? from : NULL;
}

enum hrf_status hrf_pass_take_weight_scales(struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i], *from = find_dequantize(graph, node);
        if (from == NULL)
            continue;
        struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
        if (w->data == NULL) /* shape inference has left it */
            w->data = hrf_dequantize_constant(graph, from);
        HRF_CHECK_MEMORY(w->data != NULL, err, "no memory for the weights '%s'", w->name);
        if (takes_scales(node))
            HRF_TRY(add_scales(graph, i, from, axis_of_outputs(node), err));
    }
    return HRF_OK;
}

/* True for a MATMUL that a product in 8 bits can compute: the model gives its input a scale, and
 * its weights one for each column or for all. */
static bool is_own_product(const struct hrf_graph *graph, const struct hrf_node *node,
                           const struct hrf_node *from)
{
    if (node->op != HRF_OP_MATMUL)
        return false;
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_node *pair = x->producer >= 0 ? &graph->nodes[x->producer] : NULL;
    const int64_t n = hrf_shape_count(&graph->values[from->inputs[HRF_QUANTIZE_SCALE]].shape);
    return pair != NULL && pair->op == HRF_OP_DEQUANTIZE && x->data == NULL && x->shape.rank >= 2 &&
           graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.rank == 2 &&
           (n == 1 || from->attributes.axis == 1);
}

static void make_gemm(struct hrf_node *node)
{
    const int32_t inputs[] = { node->inputs[HRF_CONV_X], node->inputs[HRF_CONV_WEIGHTS] };
    struct hrf_attributes plain = hrf_attributes_default();
    plain.gemm.alpha = plain.gemm.beta = 1;
    hrf_match_become(node, HRF_OP_GEMM, inputs, 2, &plain);
}

/* Adds, in front of node `index`, the TRANSPOSE that makes one of `from` and `to` of the other;
 * `value` is the one that is no image. */
static enum hrf_status add_transpose(struct hrf_graph *graph, int32_t index, int32_t value,
                                     int32_t from, int32_t to, const int64_t axes[4],
                                     struct hrf_error *err)
{
    struct hrf_attributes a = hrf_attributes_default();
    HRF_AUTO_FREE char *name = hrf_format("%s.transpose", graph->values[value].name);
    a.n_axes = 4;
    memcpy(a.axes, axes, 4 * sizeof axes[0]);
    return hrf_graph_insert_node(graph, index, HRF_OP_TRANSPOSE, name, &from, 1, &to, 1, &a, err);
}

static enum hrf_status add_image(struct hrf_graph *graph, int32_t value, int32_t *image,
                                 struct hrf_error *err)
{
    const struct hrf_shape s = graph->values[value].shape;
    const struct hrf_shape shape = { .rank = 4,
                                     .dims = { s.dims[0], s.dims[3], s.dims[1], s.dims[2] } };
    HRF_AUTO_FREE char *name = hrf_format("%s.image", graph->values[value].name);
    return hrf_graph_add_value(graph, name, HRF_F32, &shape, NULL, image, err);
}

/* x [N][H][W][K] times [K][M] as a 1x1 convolution between two TRANSPOSEs, because values of rank 4
 * lie in memory as images. hrf_pass_channels_first() removes the TRANSPOSEs where it can. */
static enum hrf_status make_conv(struct hrf_graph *graph, int32_t index, struct hrf_error *err)
{
    static const int64_t to_image[4] = { 0, 3, 1, 2 }, from_image[4] = { 0, 2, 3, 1 };
    const int32_t x = graph->nodes[index].inputs[HRF_CONV_X], y = graph->nodes[index].outputs[0];
    int32_t images[2];
    struct hrf_attributes a = hrf_attributes_default();
    a.window.kernel[0] = a.window.kernel[1] = 1;
    HRF_TRY(add_image(graph, x, &images[0], err));
    HRF_TRY(add_image(graph, y, &images[1], err));
    HRF_TRY(add_transpose(graph, index, x, x, images[0], to_image, err));
    HRF_TRY(add_transpose(graph, index + 1, y, images[1], y, from_image, err));
    struct hrf_node *node = &graph->nodes[index];
    const int32_t inputs[] = { images[0], node->inputs[HRF_CONV_WEIGHTS] };
    node->outputs[0] = images[1];
    graph->values[images[1]].producer = index;
    hrf_match_become(node, HRF_OP_CONV, inputs, 2, &a);
    return HRF_OK;
}

/* Integers [K][M] as [M][K][1][1]. */
static enum hrf_status transpose_integers(struct hrf_graph *graph, const struct hrf_node *node,
                                          int32_t *index, struct hrf_error *err)
{
    const struct hrf_shape from = graph->values[*index].shape;
    const int64_t depth = from.dims[0], columns = from.dims[1];
    const struct hrf_shape shape = { .rank = 4, .dims = { columns, depth, 1, 1 } };
    const int8_t *w = graph->values[*index].data;
    HRF_AUTO_FREE char *name = hrf_format("%s.weights", node->name);
    HRF_AUTO_FREE void *transposed = hrf_alloc_aligned((size_t)(depth * columns), sizeof(void *));
    HRF_CHECK_MEMORY(transposed != NULL, err, "no memory for the weights of '%s'", node->name);
    for (int64_t k = 0; k < depth; k++)
        for (int64_t m = 0; m < columns; m++)
            ((int8_t *)transposed)[m * depth + k] = w[k * columns + m];
    return hrf_graph_take_value(graph, name, HRF_S8, &shape, &transposed, index, err);
}

static enum hrf_status take_integers(struct hrf_graph *graph, int32_t i,
                                     const struct hrf_node *from, struct hrf_error *err)
{
    const int32_t x = graph->nodes[i].inputs[HRF_CONV_X];
    const struct hrf_node dequantize = *from; /* what is inserted moves the nodes */
    const bool is_product = is_own_product(graph, &graph->nodes[i], from);
    const bool is_of_images = is_product && graph->values[x].shape.rank == 4;
    const int32_t axis = axis_of_outputs(&graph->nodes[i]);
    int32_t integers;
    if (is_of_images)
        HRF_TRY(make_conv(graph, i, err));
    else if (is_product)
        make_gemm(&graph->nodes[i]);
    if (!takes_scales(&graph->nodes[i]))
        return HRF_OK;
    HRF_TRY(hrf_take_integer_weights(graph, &dequantize, &integers, err));
    HRF_TRY(add_scales(graph, i, &dequantize, axis, err));
    assert(graph->nodes[i].n_inputs > HRF_CONV_SCALES);
    if (is_of_images)
        HRF_TRY(transpose_integers(graph, &graph->nodes[i], &integers, err));
    graph->nodes[i].inputs[HRF_CONV_WEIGHTS] = integers;
    return HRF_OK;
}

/* Constants that shape inference has computed keep their scale, for lowering. */
static void keep_scale(struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_dtype type = graph->values[node->inputs[HRF_QUANTIZE_X]].dtype;
    struct hrf_value *y = &graph->values[node->outputs[0]];
    if (y->data != NULL && type != HRF_S32 && hrf_quantization_is_one(graph, node))
        y->quantization.scale =
            *(const float *)graph->values[node->inputs[HRF_QUANTIZE_SCALE]].data;
}

enum hrf_status hrf_pass_take_integer_weights(struct hrf_graph *graph, struct hrf_error *err)
{
    const int32_t n_nodes = graph->n_nodes;
    for (int32_t i = 0; i < n_nodes; i++) {
        if (graph->nodes[i].op == HRF_OP_DEQUANTIZE)
            keep_scale(graph, &graph->nodes[i]);
        const struct hrf_node *node = &graph->nodes[i], *from = find_dequantize(graph, node);
        if (from != NULL && graph->values[node->inputs[HRF_CONV_WEIGHTS]].data == NULL)
            HRF_TRY(take_integers(graph, i, from, err)); /* only products read it, and it fits */
    }
    hrf_graph_place_nodes(graph);
    return HRF_OK;
}

/* ---- values ---- */

enum { NOT_READ = -2, NO_FORM = -1 };

/* The 8-bit value to which a node that reads a value quantises it; negative: none. */
static int32_t form_for(const struct hrf_graph *graph, const int32_t *forms,
                        const struct hrf_node *reader)
{
    const int32_t y = reader->outputs[0];
    /* Quantising keeps the order of numbers and is exact for 0, so a RELU may as well come after
     * it. */
    if (reader->op == HRF_OP_RELU)
        return forms[y] >= 0 ? forms[y] : NO_FORM;
    return reader->op == HRF_OP_QUANTIZE && graph->values[y].quantization.scale > 0 ? y : NO_FORM;
}

int32_t *hrf_lower_own_forms(const struct hrf_graph *graph)
{
    int32_t *forms = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *forms);
    for (int32_t v = 0; v < graph->n_values; v++)
        forms[v] = NOT_READ;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        forms[graph->outputs[i]] = NO_FORM;
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) { /* readers come after what they read */
        const struct hrf_node *node = &graph->nodes[n];
        const int32_t one = form_for(graph, forms, node);
        for (int32_t k = 0; k < node->n_inputs; k++) {
            const int32_t v = node->inputs[k];
            if (v >= 0 && forms[v] == NOT_READ)
                forms[v] = one;
            else if (v >= 0 && forms[v] >= 0 &&
                     (one < 0 ||
                      !hrf_lower_same_form(&graph->values[forms[v]], &graph->values[one])))
                forms[v] = NO_FORM;
        }
    }
    return forms;
}

bool hrf_lower_same_form(const struct hrf_value *a, const struct hrf_value *b)
{
    return a->dtype == b->dtype && a->quantization.scale == b->quantization.scale &&
           a->quantization.zero_point == b->quantization.zero_point;
}
