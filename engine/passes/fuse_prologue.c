/* fuse_prologue.c - fuses the BatchNormalization and activation before a convolution
 * (pre-activation networks) into that convolution. Their result is then never stored. The tensor
 * before them is often the residual stream, which must be stored in any case. */
#include "engine/passes/passes.h"

#include "engine/ir/op.h"
#include "engine/ir/readers.h"

#include <math.h>

/* True if the four parameters of a BATCH_NORM are float32 constants. */
static bool has_constants(const struct hrf_graph *graph, const struct hrf_node *norm)
{
    for (int32_t i = 1; i <= 4; i++) {
        const struct hrf_value *value = &graph->values[norm->inputs[i]];
        if (value->data == NULL || value->dtype != HRF_F32)
            return false;
    }
    return true;
}

static bool describe(const struct hrf_graph *graph, const struct hrf_node *node,
                     struct hrf_prologue *out)
{
    const struct hrf_attributes *a = &node->attributes;
    *out = (struct hrf_prologue){ .activation = a->activation,
                                  .low = a->activation_min,
                                  .high = a->activation_max,
                                  .slope = a->alpha };
    if (node->op == HRF_OP_BATCH_NORM)
        return has_constants(graph, node);
    out->activation = hrf_op_info(node->op)->activation;
    return out->activation != HRF_ACT_NONE && out->activation < HRF_ACT_SIGMOID;
}

static bool reads_as_image_only(const struct hrf_node *node, int32_t value)
{
    if (node->op != HRF_OP_CONV || node->inputs[HRF_CONV_X] != value)
        return false;
    for (int32_t k = 1; k < node->n_inputs; k++)
        if (node->inputs[k] == value)
            return false;
    return !hrf_node_has_prologue(node);
}

/* True if every reader of the value is a convolution that can compute it in its prologue. If one of
 * them needed the tensor, it would have to be stored in any case. */
static bool all_take(const struct hrf_graph *graph, const struct hrf_readers *readers,
                     int32_t value, const struct hrf_kernel_table *kernels)
{
    if (readers->is_output[value])
        return false;
    for (int32_t r = readers->first[value]; r < readers->first[value + 1]; r++) {
        const struct hrf_node *reader = &graph->nodes[readers->nodes[r]];
        if (!reads_as_image_only(reader, value) ||
            !hrf_kernels_take_prologue(kernels, graph, reader))
            return false;
    }
    return hrf_readers_count(readers, value) > 0;
}

/* Computes factor and shift of x * factor + shift. As in the CPU's BATCH_NORM all steps but the
 * last are in double. An activation alone gets 1 and 0, which change nothing. */
static void find_numbers(const struct hrf_graph *graph, const struct hrf_node *node, int64_t n,
                         float *factors, float *shifts)
{
    const float *p[5] = { NULL };
    for (int32_t i = 1; i <= 4 && node->op == HRF_OP_BATCH_NORM; i++)
        p[i] = graph->values[node->inputs[i]].data;
    for (int64_t c = 0; c < n; c++) {
        const double factor = p[1] != NULL
                                  ? (double)p[1][c] /
                                        sqrt((double)p[4][c] + (double)node->attributes.epsilon)
                                  : 1;
        factors[c] = (float)factor;
        shifts[c] = p[1] != NULL ? (float)((double)p[2][c] - (double)p[3][c] * factor) : 0.0f;
    }
}

static enum hrf_status add_numbers(struct hrf_graph *graph, int32_t n, int32_t added[2],
                                   struct hrf_error *err)
{
    const struct hrf_node *node = &graph->nodes[n];
    const struct hrf_shape shape = { .rank = 1,
                                     .dims = { graph->values[node->inputs[0]].shape.dims[1] } };
    const size_t count = (size_t)shape.dims[0];
    HRF_AUTO_FREE float *factors = hrf_try_alloc_array(count + 1, sizeof *factors);
    HRF_AUTO_FREE float *shifts = hrf_try_alloc_array(count + 1, sizeof *shifts);
    HRF_AUTO_FREE char *factor_name = hrf_format("%s.factors", node->name);
    HRF_AUTO_FREE char *shift_name = hrf_format("%s.shifts", node->name);
    HRF_CHECK_MEMORY(factors != NULL && shifts != NULL, err, "no memory to fuse node '%s'",
                     node->name);
    find_numbers(graph, node, shape.dims[0], factors, shifts);
    HRF_TRY(hrf_graph_add_value(graph, factor_name, HRF_F32, &shape, factors, &added[0], err));
    return hrf_graph_add_value(graph, shift_name, HRF_F32, &shape, shifts, &added[1], err);
}

static void take_in(struct hrf_node *conv, int32_t image, const struct hrf_prologue *prologue,
                    const int32_t numbers[2])
{
    int32_t *inputs = hrf_alloc_array(HRF_CONV_MAX_INPUTS, sizeof *inputs);
    for (int32_t i = 0; i < HRF_CONV_MAX_INPUTS; i++)
        inputs[i] = i < conv->n_inputs ? conv->inputs[i] : HRF_NO_VALUE;
    inputs[HRF_CONV_X] = image;
    inputs[HRF_CONV_FACTORS] = numbers[0];
    inputs[HRF_CONV_SHIFTS] = numbers[1];
    hrf_free(conv->inputs);
    conv->inputs = inputs;
    conv->n_inputs = HRF_CONV_MAX_INPUTS;
    conv->attributes.prologue = *prologue;
}

enum hrf_status hrf_pass_fuse_prologue(struct hrf_graph *graph,
                                       const struct hrf_kernel_table *kernels,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    hrf_readers_init(graph, &readers);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_prologue prologue;
        const struct hrf_node *node = &graph->nodes[n];
        const int32_t image = node->n_inputs > 0 ? node->inputs[0] : HRF_NO_VALUE;
        const int32_t value = node->outputs[0];
        int32_t numbers[2];
        if (!describe(graph, node, &prologue) || graph->values[image].data != NULL ||
            graph->values[image].dtype != graph->values[value].dtype ||
            graph->values[image].shape.rank != 4 || !all_take(graph, &readers, value, kernels))
            continue;
        HRF_TRY(add_numbers(graph, n, numbers, err));
        for (int32_t r = readers.first[value]; r < readers.first[value + 1]; r++)
            take_in(&graph->nodes[readers.nodes[r]], image, &prologue, numbers);
    }
    return hrf_graph_compact(graph, err);
}
