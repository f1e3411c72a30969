#include "engine/backend/cpu/cpu.h"

#include "engine/backend/cpu/cpu_private.h"

#include <omp.h>
#include <stdio.h>

/* The functions of a row that is computed by loops over a spec. */
struct loop {
    hrf_cpu_function *function;
    hrf_cpu_workspace *workspace;                                             /* NULL: none */
    enum hrf_status (*prepare)(struct hrf_spec *spec, struct hrf_error *err); /* NULL: nothing */
};

struct loop_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    const struct loop *loop;
};

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

bool hrf_cpu_types_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_dtype y = graph->values[node->outputs[0]].dtype;
    const bool adds = hrf_node_has_input(node, HRF_CONV_RESIDUAL);
    return hrf_dtype_is_float(graph->values[node->inputs[HRF_CONV_X]].dtype) &&
           hrf_dtype_is_float(y) &&
           (!adds || graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype == y);
}

const char *hrf_cpu_avx512_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    if (!hrf_cpu_comes_at_run_time(graph, node) || w->data == NULL || w->dtype == HRF_S8)
        return "its image or residual is a constant, or its weights are no constant floats";
    if (!hrf_cpu_types_fit(graph, node))
        return "its residual is of another type than its output";
    return hrf_shape_count(&graph->values[node->outputs[0]].shape) > 0 ? NULL
                                                                       : "its output is empty";
}

bool hrf_cpu_is_as_fast(const struct hrf_graph *graph, const struct hrf_node *node, bool pairs)
{
    const double native = hrf_cpu_native_speed(graph, node);
    return native <= 1 || (pairs && native < HRF_CPU_AMX_SPEED);
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
    /* With SSE4.1 or AVX alone, oneDNN 2.6's depth-wise convolutions jump to a wrong address. */
    if (!hrf_cpu_has_avx2())
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "device cpu needs AVX2, which this processor does not have (or "
                             "ONEDNN_MAX_CPU_ISA forbids); device ref computes on any, slowly");
    struct hrf_backend *backend = hrf_calloc(1, sizeof *backend);
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

/* Sets OpenMP's thread count, which belongs to the calling thread; oneDNN compiles for it. */
static void enter(struct hrf_backend *backend)
{
    omp_set_num_threads(backend->n_threads);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    const struct loop_kernel *kernel = (const struct loop_kernel *)base;
    (void)err;
    kernel->loop->function(kernel->spec, call);
    return HRF_OK;
}

static void destroy_kernel(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct loop_kernel *)base)->spec);
    hrf_free(base);
}

static enum hrf_status compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                               const struct hrf_graph *graph, const struct hrf_node *node,
                               struct hrf_kernel **out, struct hrf_error *err)
{
    (void)backend;
    struct loop_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = run, .destroy = destroy_kernel };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    kernel->loop = row->own;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    if (kernel->loop->prepare != NULL)
        HRF_TRY(kernel->loop->prepare(kernel->spec, err));
    if (kernel->loop->workspace != NULL)
        kernel->base.workspace_bytes = kernel->loop->workspace(kernel->spec);
    kernel->base.weight_bytes = hrf_spec_constant_bytes(kernel->spec);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

/* ---- the table ---- */

static const char *move_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_moves_as_is(graph, node) ? NULL : "its inputs have other types or scales";
}

static const char *join_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->op != HRF_OP_CONCAT || node->attributes.axis == 1 ? move_misfit(graph, node)
                                                                   : "it does not join channels";
}

static const char *wide_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->op == HRF_OP_CONV_TRANSPOSE ? hrf_cpu_conv_transpose_misfit(graph, node) : NULL;
}

#ifdef HRF_BUILD_AVX512
static const char *binary_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_binary_takes_halves(graph, node) ? NULL : "its numbers do not lie side by side";
}
#endif

static bool has_floats(enum hrf_op op)
{
    return hrf_kernels_have(&hrf_cpu_kernels, op, HRF_FORM_FLOAT);
}

static bool has_isa(enum hrf_isa isa)
{
    switch (isa) {
    case HRF_ISA_ANY:
        return true;
    case HRF_ISA_AVX512:
        return hrf_cpu_has_avx512();
    case HRF_ISA_AVX512_VNNI:
        return hrf_cpu_has_avx512_vnni();
    case HRF_ISA_AVX512_BF16:
        return hrf_cpu_has_avx512_bf16();
    case HRF_ISA_AMX:
        return hrf_cpu_has_amx();
    }
    return false;
}

#define ROW &(const struct hrf_kernel_row)
#define LOOP(...)                                                                                  \
    .forms = HRF_FORM_FLOAT, .compile = compile, .own = &(const struct loop)                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
/* Loops for AVX-512, which read and write 16-bit floats directly. */
#define LOOP_AVX512(...)                                                                           \
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF, .isa = HRF_ISA_AVX512, .compile = compile,            \
    .own = &(const struct loop)                                                                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct hrf_kernel_row *const rows[] = {
#ifdef HRF_BUILD_AVX512
    &hrf_cpu_token_product_avx512,
#endif
    &hrf_cpu_token_product,
#ifdef HRF_BUILD_AVX512
    /* Convolutions and products */
    &hrf_cpu_integer_winograd,
    &hrf_cpu_depthwise_bytes,
#ifdef HRF_BUILD_AMX
    &hrf_cpu_amx_product,
#endif
    &hrf_cpu_product_of_pairs,
    &hrf_cpu_product,
    &hrf_cpu_groups_of_pairs,
    &hrf_cpu_groups,
    &hrf_cpu_windows_of_pairs,
    &hrf_cpu_windows,
#endif
    &hrf_cpu_strips,
#ifdef HRF_BUILD_AVX512
    &hrf_cpu_depthwise_avx512,
#endif
    &hrf_cpu_depthwise,
    &hrf_cpu_onednn_integer,
    &hrf_cpu_integer_product,
    &hrf_cpu_onednn,
    &hrf_cpu_onednn_transposed,
/* Transformers */
#ifdef HRF_BUILD_AVX512
    &hrf_cpu_byte_attention_avx512,
#endif
    &hrf_cpu_byte_attention,
#ifdef HRF_BUILD_AVX512
    &hrf_cpu_attention_long,
    &hrf_cpu_attention_fixed,
    &hrf_cpu_attention_of_pairs,
    &hrf_cpu_attention_heads,
    &hrf_cpu_token_rows,
    &hrf_cpu_gate,
    /* Loops */
    ROW{ .name = "pool:avx512",
         HRF_ROW_OPS(HRF_OP_MAX_POOL),
         .extras = HRF_STRIDED,
         LOOP_AVX512(.function = hrf_cpu_max_pool) },
    ROW{ .name = "pool:avx512",
         HRF_ROW_OPS(HRF_OP_AVERAGE_POOL),
         .extras = HRF_STRIDED,
         LOOP_AVX512(.function = hrf_cpu_average_pool) },
    ROW{ .name = "pool:avx512",
         HRF_ROW_OPS(HRF_OP_GLOBAL_AVERAGE_POOL),
         .extras = HRF_STRIDED_INPUT,
         LOOP_AVX512(.function = hrf_cpu_global_pool) },
    ROW{ .name = "arithmetic:avx512",
         .is_op = hrf_op_is_binary,
         .misfit = binary_misfit,
         LOOP_AVX512(.function = hrf_cpu_binary) },
#endif
#ifdef HRF_BUILD_AMX
    ROW{ .name = "weight gradient:amx_bf16",
         HRF_ROW_OPS(HRF_OP_CONV_WEIGHT_GRADIENT),
         .forms = HRF_FORM_HALF,
         .isa = HRF_ISA_AMX,
         .misfit = hrf_cpu_amx_weight_gradient_misfit,
         .compile = compile,
         .own = &(const struct loop){ .function = hrf_cpu_amx_weight_gradient,
                                      .workspace = hrf_cpu_amx_weight_gradient_workspace } },
#endif
    ROW{ .name = "pool",
         HRF_ROW_OPS(HRF_OP_MAX_POOL),
         .extras = HRF_STRIDED,
         LOOP(.function = hrf_cpu_max_pool) },
    ROW{ .name = "pool",
         HRF_ROW_OPS(HRF_OP_AVERAGE_POOL),
         .extras = HRF_STRIDED,
         LOOP(.function = hrf_cpu_average_pool) },
    ROW{ .name = "pool",
         HRF_ROW_OPS(HRF_OP_GLOBAL_AVERAGE_POOL, HRF_OP_GLOBAL_MAX_POOL),
         .extras = HRF_STRIDED_INPUT,
         LOOP(.function = hrf_cpu_global_pool) },
    ROW{ .name = "move",
         HRF_ROW_OPS(HRF_OP_CONCAT, HRF_OP_DEPTH_TO_SPACE, HRF_OP_SPACE_TO_DEPTH),
         .extras = HRF_STRIDED,
         .misfit = join_misfit,
         .compile = hrf_move_compile },
    ROW{ .name = "move",
         .is_op = hrf_op_is_move,
         .misfit = move_misfit,
         .compile = hrf_move_compile },
    ROW{ .name = "partial", .is_op = hrf_is_partial, .compile = hrf_partial_compile },
    ROW{ .name = "integer",
         .is_op = hrf_integer_has,
         .forms = HRF_FORM_INTEGER,
         .compile = hrf_integer_compile },
    ROW{ .name = "functions",
         .is_op = hrf_op_is_unary,
         .forms = HRF_FORM_HALF,
         .compile = compile,
         .own = &(const struct loop){ .function = hrf_cpu_unary } },
    ROW{ .name = "batch norm",
         HRF_ROW_OPS(HRF_OP_BATCH_NORM),
         .forms = HRF_FORM_HALF,
         .compile = compile,
         .own = &(const struct loop){ .function = hrf_cpu_batch_norm,
                                      .prepare = hrf_cpu_prepare_batch_norm } },
    ROW{ .name = "function gradient",
         HRF_ROW_OPS(HRF_OP_FUNCTION_GRADIENT),
         .forms = HRF_FORM_HALF,
         .compile = compile,
         .own = &(const struct loop){ .function = hrf_cpu_function_gradient } },
#ifdef HRF_BUILD_AMX
    ROW{ .name = "attention gradient:amx_bf16",
         HRF_ROW_OPS(HRF_OP_ATTENTION_GRADIENT),
         .forms = HRF_FORM_HALF,
         .isa = HRF_ISA_AMX,
         .misfit = hrf_cpu_amx_attention_gradient_misfit,
         .compile = compile,
         .own = &(const struct loop){ .function = hrf_cpu_amx_attention_gradient,
                                      .workspace = hrf_cpu_amx_attention_gradient_workspace } },
#endif
    ROW{ .name = "cast",
         HRF_ROW_OPS(HRF_OP_CAST),
         .forms = HRF_FORM_HALF,
         .compile = hrf_half_compile },
    ROW{ .name = "widened",
         .is_op = has_floats,
         .forms = HRF_FORM_HALF,
         .misfit = wide_misfit,
         .compile = hrf_half_compile },
    ROW{ .name = "resize",
         HRF_ROW_OPS(HRF_OP_RESIZE),
         .forms = HRF_FORM_FLOAT,
         .extras = HRF_STRIDED,
         .compile = hrf_resize_compile },
    ROW{ .name = "functions", .is_op = hrf_op_is_unary, LOOP(.function = hrf_cpu_unary) },
    ROW{ .name = "arithmetic", .is_op = hrf_op_is_binary, LOOP(.function = hrf_cpu_binary) },
    ROW{ .name = "reduction",
         .is_op = hrf_op_is_reduction,
         LOOP(.function = hrf_cpu_reduction, .workspace = hrf_cpu_reduction_workspace) },
    ROW{ .name = "product",
         HRF_ROW_OPS(HRF_OP_GEMM),
         LOOP(.function = hrf_cpu_gemm, .workspace = hrf_cpu_gemm_workspace,
              .prepare = hrf_cpu_prepare_gemm) },
    ROW{ .name = "product",
         HRF_ROW_OPS(HRF_OP_MATMUL),
         LOOP(.function = hrf_cpu_matmul, .workspace = hrf_cpu_matmul_workspace) },
    ROW{ .name = "batch norm",
         HRF_ROW_OPS(HRF_OP_BATCH_NORM),
         LOOP(.function = hrf_cpu_batch_norm, .prepare = hrf_cpu_prepare_batch_norm) },
    ROW{ .name = "layer norm",
         HRF_ROW_OPS(HRF_OP_LAYER_NORM, HRF_OP_RMS_NORM),
         LOOP(.function = hrf_cpu_layer_norm, .workspace = hrf_cpu_layer_norm_workspace) },
    ROW{ .name = "group norm",
         HRF_ROW_OPS(HRF_OP_GROUP_NORM),
         LOOP(.function = hrf_cpu_group_norm) },
    ROW{ .name = "softmax",
         HRF_ROW_OPS(HRF_OP_SOFTMAX, HRF_OP_LOG_SOFTMAX),
         LOOP(.function = hrf_cpu_softmax) },
    ROW{ .name = "lrn", HRF_ROW_OPS(HRF_OP_LRN), LOOP(.function = hrf_cpu_lrn) },
    &hrf_cpu_attention_long_plain,
    &hrf_cpu_attention_plain,
    ROW{ .name = "swiglu", HRF_ROW_OPS(HRF_OP_SWIGLU), LOOP(.function = hrf_cpu_swiglu) },
    ROW{ .name = "where", HRF_ROW_OPS(HRF_OP_WHERE), LOOP(.function = hrf_cpu_where) },
    ROW{ .name = "select max",
         HRF_ROW_OPS(HRF_OP_SELECT_MAX),
         LOOP(.function = hrf_cpu_select_max) },
    ROW{ .name = "top k mask",
         HRF_ROW_OPS(HRF_OP_TOP_K_MASK),
         LOOP(.function = hrf_cpu_top_k_mask) },
    ROW{ .name = "performer",
         HRF_ROW_OPS(HRF_OP_PERFORMER_MAX),
         LOOP(.function = hrf_cpu_performer_max, .workspace = hrf_cpu_performer_workspace,
              .prepare = hrf_cpu_prepare_performer) },
    ROW{ .name = "performer",
         HRF_ROW_OPS(HRF_OP_PERFORMER_STATE),
         LOOP(.function = hrf_cpu_performer_state, .workspace = hrf_cpu_performer_workspace,
              .prepare = hrf_cpu_prepare_performer) },
    ROW{ .name = "performer",
         HRF_ROW_OPS(HRF_OP_PERFORMER_APPLY),
         LOOP(.function = hrf_cpu_performer_apply, .workspace = hrf_cpu_performer_workspace,
              .prepare = hrf_cpu_prepare_performer) },
    /* Gradients */
    ROW{ .name = "depthwise weight gradient",
         HRF_ROW_OPS(HRF_OP_CONV_WEIGHT_GRADIENT),
         .misfit = hrf_cpu_depthwise_weight_gradient_misfit,
         LOOP(.function = hrf_cpu_depthwise_weight_gradient,
              .workspace = hrf_cpu_depthwise_weight_gradient_workspace) },
    &hrf_cpu_conv_weight_gradient_avx512, /* in wider registers than the next one's */
    ROW{ .name = "tiled weight gradient:avx2",
         HRF_ROW_OPS(HRF_OP_CONV_WEIGHT_GRADIENT),
         .misfit = hrf_cpu_tiled_weight_gradient_misfit,
         LOOP(.function = hrf_cpu_tiled_weight_gradient,
              .workspace = hrf_cpu_tiled_weight_gradient_workspace) },
    &hrf_cpu_conv_weight_gradient,
    ROW{ .name = "function gradient",
         HRF_ROW_OPS(HRF_OP_FUNCTION_GRADIENT),
         LOOP(.function = hrf_cpu_function_gradient) },
    ROW{ .name = "pool gradient",
         HRF_ROW_OPS(HRF_OP_MAX_POOL_GRADIENT),
         LOOP(.function = hrf_cpu_max_pool_gradient) },
    ROW{ .name = "attention gradient",
         HRF_ROW_OPS(HRF_OP_ATTENTION_GRADIENT),
         LOOP(.function = hrf_cpu_attention_gradient,
              .workspace = hrf_cpu_attention_gradient_workspace) },
    ROW{ .name = "gather gradient",
         HRF_ROW_OPS(HRF_OP_GATHER_GRADIENT),
         LOOP(.function = hrf_cpu_gather_gradient) },
    NULL,
};

const struct hrf_kernel_table hrf_cpu_kernels = {
    .device = "cpu",
    .rows = rows,
    .has_isa = has_isa,
};

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
    .kernels = &hrf_cpu_kernels,
    .enter = enter,
};
