/* ref.c - the table of the reference's operators, and their way from memory to numbers. */
#include "engine/backend/ref/ref.h"

#include "engine/backend/ref/ref_private.h"

#include <stdio.h>

struct hrf_backend {
    int unused; /* the reference has no state */
};

#define ENTRY(OP, function) [HRF_OP_##OP] = hrf_ref_##function,
static hrf_ref_function *const of_any_type[HRF_N_OPS] = { HRF_REF_OPS_OF_ANY_TYPE(ENTRY) };
static hrf_ref_function *const of_floats[HRF_N_OPS] = { HRF_REF_OPS_OF_FLOATS(ENTRY) };

/* `is_integer`: some of the node's values are of 8 bits. */
static hrf_ref_function *find_function(enum hrf_op op, bool is_integer)
{
    if (hrf_op_is_unary(op))
        return hrf_ref_unary;
    if (hrf_op_is_move(op))
        return hrf_ref_move;
    if (of_any_type[op] != NULL || is_integer)
        return of_any_type[op];
    if (hrf_op_is_binary(op))
        return hrf_ref_binary;
    return hrf_op_is_reduction(op) ? hrf_ref_reduction : of_floats[op];
}

static enum hrf_status ref_create(const struct hrf_backend_config *config, struct hrf_backend **out,
                                  struct hrf_error *err)
{
    (void)err;
    (void)config;
    *out = hrf_calloc(1, sizeof **out);
    return HRF_OK;
}

static void ref_destroy(struct hrf_backend *backend)
{
    hrf_free(backend);
}

static bool has_bytes(enum hrf_op op)
{
    return find_function(op, true) != NULL;
}

static bool has_floats(enum hrf_op op)
{
    return find_function(op, false) != NULL;
}

static enum hrf_status ref_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                               struct hrf_error *err)
{
    (void)err;
    struct hrf_ref_node *node = (struct hrf_ref_node *)base;
    double *numbers = call->workspace;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        struct hrf_ref_tensor *x = &node->inputs[i];
        if (x->constant != NULL || x->dtype == HRF_DTYPE_NONE)
            continue;
        hrf_ref_load(x, call->inputs[i], false, numbers);
        x->numbers = numbers;
        numbers += hrf_shape_count(&x->shape);
    }
    node->result = call->output;
    node->scratch = numbers;
    node->compute(node);
    return HRF_OK;
}

static void destroy_kernel(struct hrf_kernel *base)
{
    struct hrf_ref_node *node = (struct hrf_ref_node *)base;
    for (int32_t i = 0; i < node->n_inputs && node->inputs != NULL; i++)
        hrf_free(node->inputs[i].constant);
    hrf_free(node->inputs);
    hrf_free(node);
}

static struct hrf_ref_tensor tensor_of(const struct hrf_value *value)
{
    return (struct hrf_ref_tensor){ .dtype = value->dtype,
                                    .shape = value->shape,
                                    .quantization = value->quantization };
}

static void add_input(struct hrf_ref_node *node, struct hrf_ref_tensor *x,
                      const struct hrf_value *value)
{
    const size_t n = (size_t)hrf_shape_count(&value->shape);
    *x = tensor_of(value);
    if (value->data == NULL) {
        node->base.workspace_bytes += n * sizeof(double);
        return;
    }
    x->constant = hrf_alloc_array(n > 0 ? n : 1, sizeof *x->constant);
    hrf_ref_load(x, value->data, true, x->constant);
    x->numbers = x->constant;
    node->base.weight_bytes += n * sizeof *x->constant;
}

static enum hrf_status ref_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                   const struct hrf_graph *graph, const struct hrf_node *from,
                                   struct hrf_kernel **out, struct hrf_error *err)
{
    (void)err;
    (void)row, (void)backend;
    struct hrf_ref_node *node = hrf_calloc(1, sizeof *node);
    node->base = (struct hrf_kernel){ .run = ref_run, .destroy = destroy_kernel };
    HRF_AUTO(hrf_kernel) owned = &node->base;
    node->op = from->op;
    node->attributes = from->attributes;
    node->compute = find_function(from->op, hrf_node_form(graph, from) == HRF_FORM_INTEGER);
    node->output = tensor_of(&graph->values[from->outputs[0]]);
    node->base.workspace_bytes = (size_t)hrf_shape_count(&node->output.shape) * sizeof(double);
    node->inputs = hrf_calloc((size_t)from->n_inputs + 1, sizeof *node->inputs);
    node->n_inputs = from->n_inputs;
    for (int32_t i = 0; i < from->n_inputs; i++)
        if (from->inputs[i] != HRF_NO_VALUE)
            add_input(node, &node->inputs[i], &graph->values[from->inputs[i]]);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

static enum hrf_status ref_identify(struct hrf_device_identity *out, struct hrf_error *err)
{
    (void)err;
    hrf_device_identity_host(out);
    snprintf(out->path, sizeof out->path, "plain loops in double");
    return HRF_OK;
}

static const struct hrf_kernel_row bytes = {
    .name = "ref",
    .is_op = has_bytes,
    .forms = HRF_FORM_INTEGER,
    .compile = ref_compile,
};

static const struct hrf_kernel_row floats = {
    .name = "ref",
    .is_op = has_floats,
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .compile = ref_compile,
};

static const struct hrf_kernel_table kernels = {
    .device = "ref",
    .rows = (const struct hrf_kernel_row *const[]){ &bytes, &floats, NULL },
};

const struct hrf_backend_ops hrf_backend_ref = {
    .name = "ref",
    .identify = ref_identify,
    .create = ref_create,
    .destroy = ref_destroy,
    .kernels = &kernels,
};
