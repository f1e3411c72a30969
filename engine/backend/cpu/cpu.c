#include "engine/backend/cpu/cpu.h"

#include "engine/backend/cpu/cpu_private.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>

struct loop_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    hrf_cpu_function *function;
};

enum hrf_status hrf_dnnl_error(struct hrf_error *err, dnnl_status_t status, const char *node,
                               const char *what)
{
    enum hrf_status ours = status == dnnl_out_of_memory   ? HRF_E_NOMEM
                           : status == dnnl_unimplemented ? HRF_E_UNSUPPORTED
                                                          : HRF_E_EXTERNAL;
    return hrf_error_set_foreign(err, ours, "onednn", (int)status,
                                 "node '%s': oneDNN refused it (%s, status %d)", node, what,
                                 (int)status);
}

const float *hrf_cpu_constant(const struct hrf_graph *graph, const struct hrf_node *node, int32_t i)
{
    if (i >= node->n_inputs || node->inputs[i] < 0)
        return NULL;
    return graph->values[node->inputs[i]].data;
}

bool hrf_cpu_comes_at_run_time(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_constant(graph, node, HRF_CONV_X) == NULL &&
           hrf_cpu_constant(graph, node, HRF_CONV_RESIDUAL) == NULL;
}

struct hrf_epilogue hrf_cpu_epilogue(const struct hrf_attributes *attributes, enum hrf_dtype type,
                                     const float *bias, bool accumulate)
{
    return (struct hrf_epilogue){ .bias = bias,
                                  .type = type,
                                  .accumulate = accumulate,
                                  .activation = attributes->activation,
                                  .low = attributes->activation_min,
                                  .high = attributes->activation_max,
                                  .slope = attributes->alpha,
                                  .offset = attributes->beta };
}

static bool is_floating(enum hrf_dtype dtype)
{
    return dtype == HRF_F32 || dtype == HRF_F16 || dtype == HRF_B16;
}

bool hrf_cpu_types_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_dtype y = graph->values[node->outputs[0]].dtype;
    const bool adds = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    return is_floating(graph->values[node->inputs[HRF_CONV_X]].dtype) && is_floating(y) &&
           (!adds || graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype == y);
}

bool hrf_cpu_avx512_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_has_avx512() && hrf_cpu_comes_at_run_time(graph, node) &&
           hrf_cpu_constant(graph, node, HRF_CONV_WEIGHTS) != NULL &&
           hrf_cpu_types_fit(graph, node) &&
           hrf_shape_count(&graph->values[node->outputs[0]].shape) > 0;
}

bool hrf_cpu_is_as_fast(const struct hrf_graph *graph, const struct hrf_node *node, bool pairs)
{
    const double native = hrf_cpu_native_speed(graph, node);
    return native <= 1 || (pairs && native < HRF_CPU_AMX_SPEED);
}

static hrf_cpu_function *find_function(enum hrf_op op)
{
    if (hrf_op_is_unary(op))
        return hrf_cpu_unary;
    if (hrf_op_is_binary(op))
        return hrf_cpu_binary;
    if (hrf_op_is_reduction(op))
        return hrf_cpu_reduction;
    switch (op) {
    case HRF_OP_GEMM:
        return hrf_cpu_gemm;
    case HRF_OP_MATMUL:
        return hrf_cpu_matmul;
    case HRF_OP_BATCH_NORM:
        return hrf_cpu_batch_norm;
    case HRF_OP_SOFTMAX:
    case HRF_OP_LOG_SOFTMAX:
        return hrf_cpu_softmax;
    case HRF_OP_MAX_POOL:
        return hrf_cpu_max_pool;
    case HRF_OP_AVERAGE_POOL:
        return hrf_cpu_average_pool;
    case HRF_OP_GLOBAL_AVERAGE_POOL:
    case HRF_OP_GLOBAL_MAX_POOL:
        return hrf_cpu_global_pool;
    case HRF_OP_LRN:
        return hrf_cpu_lrn;
    case HRF_OP_LAYER_NORM:
    case HRF_OP_RMS_NORM:
        return hrf_cpu_layer_norm;
    case HRF_OP_GROUP_NORM:
        return hrf_cpu_group_norm;
    case HRF_OP_ATTENTION:
        return hrf_cpu_softmax_attention;
    case HRF_OP_SWIGLU:
        return hrf_cpu_swiglu;
    case HRF_OP_WHERE:
        return hrf_cpu_where;
    case HRF_OP_SELECT_MAX:
        return hrf_cpu_select_max;
    case HRF_OP_PERFORMER_MAX:
        return hrf_cpu_performer_max;
    case HRF_OP_PERFORMER_STATE:
        return hrf_cpu_performer_state;
    case HRF_OP_PERFORMER_APPLY:
        return hrf_cpu_performer_apply;
    default:
        return NULL;
    }
}

static void destroy(struct hrf_backend *backend)
{
    if (backend == NULL)
        return;
    if (backend->stream != NULL)
        dnnl_stream_destroy(backend->stream);
    if (backend->engine != NULL)
        dnnl_engine_destroy(backend->engine);
    hrf_free(backend);
}

static enum hrf_status create(const struct hrf_backend_config *config, struct hrf_backend **out,
                              struct hrf_error *err)
{
    /* oneDNN 2.6's depthwise convolutions jump into nowhere with SSE4.1 and AVX alone. */
    if ((dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx2) != dnnl_cpu_isa_avx2)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "device cpu needs AVX2, which this processor does not have (or "
                             "ONEDNN_MAX_CPU_ISA forbids); device ref computes on any, slowly");
    struct hrf_backend *backend = hrf_calloc(1, sizeof *backend);
    if (backend == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a back end");
    backend->n_threads = config->n_threads;
    dnnl_status_t status = dnnl_engine_create(&backend->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&backend->stream, backend->engine, dnnl_stream_in_order);
    if (status != dnnl_success) {
        destroy(backend);
        return hrf_dnnl_error(err, status, "(none)", "starting the CPU engine");
    }
    *out = backend;
    return HRF_OK;
}

/* OpenMP's thread count belongs to the calling thread, and oneDNN compiles for it. */
static void enter(struct hrf_backend *backend)
{
    omp_set_num_threads(backend->n_threads);
}

static bool supports_op(const struct hrf_graph *graph, const struct hrf_node *node,
                        struct hrf_error *err)
{
    if (hrf_is_partial(node->op))
        return true;
    if (hrf_node_check_common(graph, node, err) != HRF_OK)
        return false;
    if (node->op == HRF_OP_CONV_TRANSPOSE && !hrf_cpu_conv_transpose_fits(graph, node)) {
        hrf_error_set(err, HRF_E_UNSUPPORTED,
                      "node '%s' (ConvTranspose): the output is padded by a stride or more beyond "
                      "the last window, for which there is no CPU kernel (device ref has one)",
                      node->name);
        return false;
    }
    if (hrf_cpu_byte_attention_fits(graph, node))
        return true;
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        return hrf_integer_supports(graph, node, err);
    if (hrf_node_form(graph, node) == HRF_FORM_HALF && node->op == HRF_OP_CAST)
        return true;
    if (hrf_cpu_attention_long_fits(graph, node))
        return true;
    if (hrf_op_is_move(node->op) || node->op == HRF_OP_RESIZE || node->op == HRF_OP_CONV ||
        node->op == HRF_OP_CONV_TRANSPOSE || find_function(node->op) != NULL)
        return true;
    hrf_error_set(err, HRF_E_UNSUPPORTED, "node '%s': the operator %s has no CPU kernel",
                  node->name, hrf_op_name(node->op));
    return false;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    struct loop_kernel *kernel = (struct loop_kernel *)base;
    return kernel->function(kernel->spec, call, err);
}

static void destroy_kernel(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct loop_kernel *)base)->spec);
    hrf_free(base);
}

/* Constants as the loops want them, and scratch. */
static enum hrf_status prepare(struct loop_kernel *kernel, struct hrf_error *err)
{
    struct hrf_spec *spec = kernel->spec;
    if (hrf_op_is_reduction(spec->op)) /* a sum and, maybe, a maximum per output */
        kernel->base.workspace_bytes = 2 * (size_t)hrf_shape_count(&spec->output.shape) *
                                       sizeof(double);
    switch (spec->op) {
    case HRF_OP_MATMUL:
        kernel->base.workspace_bytes = hrf_cpu_matmul_workspace(spec);
        break;
    case HRF_OP_LAYER_NORM:
    case HRF_OP_RMS_NORM:
        kernel->base.workspace_bytes = hrf_cpu_layer_norm_workspace(spec);
        break;
    case HRF_OP_ATTENTION:
        kernel->base.workspace_bytes = hrf_cpu_softmax_attention_workspace(spec);
        break;
    case HRF_OP_BATCH_NORM:
        hrf_cpu_prepare_batch_norm(spec);
        break;
    case HRF_OP_PERFORMER_MAX:
    case HRF_OP_PERFORMER_STATE:
    case HRF_OP_PERFORMER_APPLY:
        HRF_TRY(hrf_cpu_prepare_attention(spec, err));
        kernel->base.workspace_bytes = hrf_cpu_attention_workspace(spec);
        break;
    default:
        break;
    }
    kernel->base.weight_bytes = hrf_spec_constant_bytes(spec);
    return HRF_OK;
}

/* What computes a CONV in floats, those of 16 bits included. */
enum way {
    BY_PRODUCT, /* windows of one pixel */
    BY_WINDOWS, /* larger ones */
    BY_GROUPS,  /* groups of few channels */
    BY_DEPTH,   /* as many groups as channels */
    BY_STRIPS,  /* the prologue first, then whatever computes the CONV without one */
    BY_ONEDNN,
    WIDENED, /* 16 bits as floats, then as those */
};

/* The one place where that is chosen, so that whoever asks beforehand and who compiles agree. Own
 * kernels widen and narrow by themselves. */
static enum way way_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (hrf_cpu_product_fits(graph, node))
        return BY_PRODUCT;
    if (hrf_cpu_groups_fit(graph, node))
        return BY_GROUPS;
    if (hrf_cpu_windows_fits(graph, node))
        return BY_WINDOWS;
    if (hrf_node_has_prologue(node))
        return BY_STRIPS;
    if (hrf_cpu_depthwise_fits(graph, node))
        return BY_DEPTH;
    if (hrf_cpu_native_speed(graph, node) <= 1 && hrf_node_form(graph, node) == HRF_FORM_HALF)
        return WIDENED;
    return BY_ONEDNN;
}

static enum hrf_status compile_conv(struct hrf_backend *backend, const struct hrf_graph *graph,
                                    const struct hrf_node *node, struct hrf_kernel **out,
                                    struct hrf_error *err)
{
    switch (way_of(graph, node)) {
    case BY_PRODUCT:
        return hrf_cpu_product_compile(backend, graph, node, out, err);
    case BY_WINDOWS:
        return hrf_cpu_windows_compile(backend, graph, node, out, err);
    case BY_GROUPS:
        return hrf_cpu_groups_compile(backend, graph, node, out, err);
    case BY_DEPTH:
        return hrf_cpu_depthwise_compile(backend, graph, node, out, err);
    case BY_STRIPS:
        return hrf_cpu_strips_compile(backend, graph, node, out, err);
    case WIDENED:
        return hrf_half_compile(&hrf_backend_cpu, backend, graph, node, out, err);
    case BY_ONEDNN:
        break;
    }
    return hrf_cpu_conv_compile(backend, graph, node, out, err);
}

static bool takes_prologue(const struct hrf_graph *graph, const struct hrf_node *conv)
{
    return hrf_node_form(graph, conv) != HRF_FORM_INTEGER &&
           hrf_cpu_comes_at_run_time(graph, conv) &&
           hrf_cpu_constant(graph, conv, HRF_CONV_WEIGHTS) != NULL;
}

/* Own kernels apply it to sums in registers; oneDNN's would need a pass of its own over the result,
 * as the operator does. */
static bool takes_activation(const struct hrf_graph *graph, const struct hrf_node *node,
                             enum hrf_activation activation)
{
    (void)activation;
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        return false;
    if (hrf_product_rounds_rows(graph, node))
        return true;
    if (node->op == HRF_OP_GEMM)
        return hrf_cpu_product_fits_gemm(graph, node);
    const enum way way = way_of(graph, node);
    return way == BY_PRODUCT || way == BY_WINDOWS || way == BY_GROUPS || way == BY_DEPTH;
}

/* Whether the loop for this node reads and writes 16 bits by itself. */
static bool takes_halves(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (hrf_op_is_binary(node->op))
        return hrf_cpu_binary_takes_halves(graph, node);
    return (node->op == HRF_OP_GLOBAL_AVERAGE_POOL || node->op == HRF_OP_MAX_POOL ||
            node->op == HRF_OP_AVERAGE_POOL) &&
           hrf_cpu_has_avx512();
}

static bool conv_accepts_pixel_stride(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER || hrf_product_rounds_rows(graph, node))
        return false;
    const enum way way = way_of(graph, node);
    return way == BY_PRODUCT || way == BY_WINDOWS || way == BY_GROUPS;
}

static bool accepts_pixel_stride(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k)
{
    const enum hrf_node_form form = hrf_node_form(graph, node);
    const bool by_loop = form == HRF_FORM_FLOAT ||
                         (form == HRF_FORM_HALF && takes_halves(graph, node));
    switch (node->op) {
    case HRF_OP_CONV:
        return conv_accepts_pixel_stride(graph, node);
    case HRF_OP_MAX_POOL:
    case HRF_OP_AVERAGE_POOL:
        return by_loop;
    case HRF_OP_GLOBAL_AVERAGE_POOL:
    case HRF_OP_GLOBAL_MAX_POOL:
        return by_loop && k == 0;
    case HRF_OP_RESIZE:
        return form == HRF_FORM_FLOAT;
    case HRF_OP_CONCAT:
        return node->attributes.axis == 1 && hrf_moves_as_is(graph, node);
    case HRF_OP_DEPTH_TO_SPACE:
    case HRF_OP_SPACE_TO_DEPTH:
        return hrf_moves_as_is(graph, node);
    default:
        return false;
    }
}

static inline bool pixel_strides_are_taken(const struct hrf_graph *graph,
                                           const struct hrf_node *node)
{
    for (int32_t k = -1; k < node->n_inputs; k++) {
        const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
        if (value >= 0 && graph->values[value].pixel_stride > 0 &&
            !accepts_pixel_stride(graph, node, k))
            return false;
    }
    return true;
}

/* Of what find_function() gives. */
static const char *loop_name(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool is_pool = node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_AVERAGE_POOL ||
                         node->op == HRF_OP_GLOBAL_AVERAGE_POOL ||
                         node->op == HRF_OP_GLOBAL_MAX_POOL;
    if (is_pool && hrf_cpu_has_avx512())
        return "pool:avx512";
    if (hrf_op_is_binary(node->op) && hrf_cpu_binary_takes_halves(graph, node))
        return "arithmetic:avx512";
    return "loop";
}

static enum hrf_status compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_kernel **out,
                               struct hrf_error *err)
{
    const enum hrf_node_form form = hrf_node_form(graph, node);
    assert(pixel_strides_are_taken(graph, node));
    if (hrf_is_partial(node->op))
        return hrf_partial_compile(graph, node, out, err);
    if (form == HRF_FORM_INTEGER && hrf_cpu_integer_winograd_fits(graph, node))
        return hrf_cpu_integer_winograd_compile(backend, graph, node, out, err);
    if (form == HRF_FORM_INTEGER && hrf_cpu_depthwise_bytes_fit(graph, node))
        return hrf_cpu_depthwise_bytes_compile(backend, graph, node, out, err);
    if (form == HRF_FORM_INTEGER && hrf_cpu_depthwise_fits(graph, node))
        return hrf_cpu_depthwise_compile(backend, graph, node, out, err);
    if (form == HRF_FORM_INTEGER && hrf_cpu_conv_integer_fits(graph, node))
        return hrf_cpu_conv_compile(backend, graph, node, out, err);
    if (hrf_cpu_byte_attention_fits(graph, node))
        return hrf_cpu_byte_attention_compile(backend, graph, node, out, err);
    if (form == HRF_FORM_INTEGER && !hrf_moves_as_is(graph, node))
        return hrf_integer_compile(graph, node, out, err);
    if (hrf_op_is_move(node->op) && hrf_moves_as_is(graph, node))
        return hrf_move_compile(graph, node, out, err);
    if (hrf_product_rounds_rows(graph, node))
        return hrf_cpu_token_product_compile(backend, graph, node, out, err);
    if (node->op == HRF_OP_CONV)
        return compile_conv(backend, graph, node, out, err);
    if (node->op == HRF_OP_GEMM && hrf_cpu_product_fits_gemm(graph, node))
        return hrf_cpu_product_compile(backend, graph, node, out, err);
    if (hrf_cpu_gate_fits(graph, node))
        return hrf_cpu_gate_compile(backend, graph, node, out, err);
    if (hrf_cpu_token_rows_fit(graph, node))
        return hrf_cpu_token_rows_compile(graph, node, out, err);
    if (hrf_cpu_attention_long_fits(graph, node))
        return hrf_cpu_attention_long_compile(backend, graph, node, out, err);
    if (node->op == HRF_OP_ATTENTION && hrf_cpu_attention_heads_fit(graph, node))
        return hrf_cpu_attention_heads_compile(backend, graph, node, out, err);
    if (form == HRF_FORM_HALF && !takes_halves(graph, node))
        return hrf_half_compile(&hrf_backend_cpu, backend, graph, node, out, err);
    if (node->op == HRF_OP_RESIZE)
        return hrf_resize_compile(graph, node, out, err);
    if (node->op == HRF_OP_CONV_TRANSPOSE)
        return hrf_cpu_conv_compile(backend, graph, node, out, err);
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    struct loop_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    kernel->base = (struct hrf_kernel){ .run = run,
                                        .destroy = destroy_kernel,
                                        .implementation = loop_name(graph, node) };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    kernel->function = find_function(node->op);
    kernel->spec = spec;
    spec = NULL;
    HRF_TRY(prepare(kernel, err));
    *out = owned;
    owned = NULL;
    return HRF_OK;
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        { dnnl_cpu_isa_sse41, "SSE4.1" },
        { dnnl_cpu_isa_avx, "AVX" },
        { dnnl_cpu_isa_avx2, "AVX2" },
        { dnnl_cpu_isa_avx512_core, "AVX-512" },
        { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI" },
        { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
        { dnnl_cpu_isa_avx512_core_amx, "AMX" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "another instruction set";
}

static enum hrf_status identify(struct hrf_device_identity *out, struct hrf_error *err)
{
    const dnnl_version_t *dnnl = dnnl_version();
    (void)err;
    hrf_device_identity_host(out);
    snprintf(out->path, sizeof out->path, "%s", isa_name(dnnl_get_effective_cpu_isa()));
    snprintf(out->libraries, sizeof out->libraries, "oneDNN %d.%d.%d", dnnl->major, dnnl->minor,
             dnnl->patch);
    return HRF_OK;
}

const struct hrf_backend_ops hrf_backend_cpu = {
    .name = "cpu",
    .identify = identify,
    .create = create,
    .destroy = destroy,
    .fuses_transformers = true,
    .looks_up = true,
    .supports_op = supports_op,
    .compile = compile,
    .takes_activation = takes_activation,
    .takes_prologue = takes_prologue,
    .accepts_pixel_stride = accepts_pixel_stride,
    .enter = enter,
};
