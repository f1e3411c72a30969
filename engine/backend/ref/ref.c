#include "engine/backend/ref/ref.h"

#include "engine/backend/ref/ref_private.h"

#include <stdio.h>

struct hrf_backend {
    int unused; /* the reference has no state */
};

struct ref_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    hrf_ref_function *function;
};

static hrf_ref_function *find_function(enum hrf_op op)
{
    if (hrf_op_is_unary(op))
        return hrf_ref_unary;
    if (hrf_op_is_binary(op))
        return hrf_ref_binary;
    if (hrf_op_is_reduction(op))
        return hrf_ref_reduction;
    switch (op) {
    case HRF_OP_CONV:
        return hrf_ref_conv;
    case HRF_OP_CONV_TRANSPOSE:
        return hrf_ref_conv_transpose;
    case HRF_OP_GEMM:
        return hrf_ref_gemm;
    case HRF_OP_MATMUL:
        return hrf_ref_matmul;
    case HRF_OP_BATCH_NORM:
        return hrf_ref_batch_norm;
    case HRF_OP_SOFTMAX:
    case HRF_OP_LOG_SOFTMAX:
        return hrf_ref_softmax;
    case HRF_OP_MAX_POOL:
    case HRF_OP_AVERAGE_POOL:
        return hrf_ref_pool;
    case HRF_OP_GLOBAL_AVERAGE_POOL:
    case HRF_OP_GLOBAL_MAX_POOL:
        return hrf_ref_global_pool;
    case HRF_OP_LRN:
        return hrf_ref_lrn;
    case HRF_OP_PERFORMER_MAX:
        return hrf_ref_performer_max;
    case HRF_OP_PERFORMER_STATE:
        return hrf_ref_performer_state;
    case HRF_OP_PERFORMER_APPLY:
        return hrf_ref_performer_apply;
    default:
        return NULL;
    }
}

static enum hrf_status create(const struct hrf_backend_config *config, struct hrf_backend **out,
                              struct hrf_error *err)
{
    (void)config;
    *out = hrf_calloc(1, sizeof **out);
    return *out != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a back end");
}

static void destroy(struct hrf_backend *backend)
{
    hrf_free(backend);
}

static bool supports_op(const struct hrf_graph *graph, const struct hrf_node *node,
                        struct hrf_error *err)
{
    if (hrf_is_partial(node->op))
        return true;
    if (hrf_node_check_common(graph, node, err) != HRF_OK)
        return false;
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        return hrf_integer_supports(graph, node, err);
    if (hrf_node_form(graph, node) == HRF_FORM_HALF && node->op == HRF_OP_CAST)
        return true;
    if (hrf_op_is_move(node->op) || node->op == HRF_OP_RESIZE || find_function(node->op) != NULL)
        return true;
    hrf_error_set(err, HRF_E_UNSUPPORTED, "node '%s': the operator %s has no kernel", node->name,
                  hrf_op_name(node->op));
    return false;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    struct ref_kernel *kernel = (struct ref_kernel *)base;
    kernel->function(kernel->spec, call);
    return HRF_OK;
}

static void destroy_kernel(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct ref_kernel *)base)->spec);
    hrf_free(base);
}

static enum hrf_status compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_kernel **out,
                               struct hrf_error *err)
{
    const enum hrf_node_form form = hrf_node_form(graph, node);
    if (hrf_is_partial(node->op))
        return hrf_partial_compile(graph, node, out, err);
    if (form == HRF_FORM_INTEGER && !hrf_moves_as_is(graph, node))
        return hrf_integer_compile(graph, node, out, err);
    if (hrf_op_is_move(node->op))
        return hrf_move_compile(graph, node, out, err);
    if (form == HRF_FORM_HALF)
        return hrf_half_compile(&hrf_backend_ref, backend, graph, node, out, err);
    if (node->op == HRF_OP_RESIZE)
        return hrf_resize_compile(graph, node, out, err);
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    struct ref_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    kernel->base = (struct hrf_kernel){ .run = run,
                                        .destroy = destroy_kernel,
                                        .implementation = "ref",
                                        .weight_bytes = hrf_spec_constant_bytes(spec) };
    kernel->function = find_function(node->op);
    kernel->spec = spec;
    spec = NULL;
    *out = &kernel->base;
    return HRF_OK;
}

static enum hrf_status identify(struct hrf_device_identity *out, struct hrf_error *err)
{
    (void)err;
    hrf_device_identity_host(out);
    snprintf(out->path, sizeof out->path, "plain loops in double");
    return HRF_OK;
}

const struct hrf_backend_ops hrf_backend_ref = {
    .name = "ref",
    .identify = identify,
    .create = create,
    .destroy = destroy,
    .supports_op = supports_op,
    .compile = compile,
};
