/* cuda.c - the CUDA back end: operators on one GPU; its memory and queue are in device_queue.c. */
#define _GNU_SOURCE /* dladdr */
#include "engine/backend/cuda/cuda.h"

#include "base/cache.h"
#include "base/own_process.h"
#include "base/path.h"
#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/ir/op.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hrf_k_array hrf_cuda_array(const struct hrf_operand *operand, const void *data)
{
    static const enum hrf_k_type types[] = {
        [HRF_F32] = HRF_K_F32, [HRF_F16] = HRF_K_F16, [HRF_B16] = HRF_K_B16,
        [HRF_S8] = HRF_K_S8,   [HRF_U8] = HRF_K_U8,   [HRF_S32] = HRF_K_S32,
        [HRF_BOOL] = HRF_K_U8, [HRF_F64] = HRF_K_F32, /* sums of a pool:
                                  their kernels know
                                */
    };
    struct hrf_k_array array = { .type = types[operand->dtype],
                                 .scale = operand->quantization.scale > 0
                                              ? operand->quantization.scale
                                              : 1.0f,
                                 .zero_point = operand->quantization.zero_point };
    memcpy(&array.data, &data, sizeof data); /* kernels take one kind of array: const goes */
    return array;
}

struct hrf_k_array hrf_cuda_input(const struct hrf_cuda_kernel *kernel,
                                  const struct hrf_kernel_call *call, int32_t i)
{
    static const struct hrf_operand nothing = { .dtype = HRF_F32 };
    if (!hrf_spec_has(kernel->spec, i))
        return hrf_cuda_array(&nothing, NULL);
    const void *constant = kernel->constants[i];
    return hrf_cuda_array(&kernel->spec->inputs[i], constant != NULL ? constant : call->inputs[i]);
}

struct hrf_k_epilogue hrf_cuda_epilogue(const struct hrf_attributes *attributes)
{
    static const enum hrf_k_activation activations[] = { [HRF_ACT_NONE] = HRF_K_NONE,
                                                         [HRF_ACT_RELU] = HRF_K_RELU,
                                                         [HRF_ACT_CLIP] = HRF_K_CLIP,
                                                         [HRF_ACT_LEAKY_RELU] = HRF_K_LEAKY_RELU,
                                                         /* conv.c runs those of the rows below
                                                            that no epilogue has. */
                                                         [HRF_ACT_GELU_TANH] = HRF_K_NONE };
    return (struct hrf_k_epilogue){ .activation = activations[attributes->activation],
                                    .low = attributes->activation_min,
                                    .high = attributes->activation_max,
                                    .slope = attributes->alpha };
}

/* ---- kernels ---- */

static enum hrf_status run_product(const struct hrf_cuda_kernel *kernel,
                                   const struct hrf_kernel_call *call, struct hrf_error *err)
{
    const void *inputs[HRF_CONV_N_INPUTS] = { NULL };
    for (int32_t i = 0; i < HRF_CONV_N_INPUTS; i++)
        if (hrf_spec_has(kernel->spec, i))
            inputs[i] = kernel->constants[i] != NULL ? kernel->constants[i] : call->inputs[i];
    const enum hrf_status status = hrf_cuda_product_run(kernel->product, inputs, call->output,
                                                        call->workspace, err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "node '%s'", kernel->spec->name);
    return HRF_OK;
}

static enum hrf_status cuda_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    const struct hrf_cuda_kernel *kernel = (const struct hrf_cuda_kernel *)base;
    if (kernel->product != NULL)
        return run_product(kernel, call, err);
    if (kernel->attention != NULL)
        return hrf_cuda_run_attention(kernel, call, err);
    if (kernel->gradient.plan != NULL)
        return hrf_cuda_run_weight_gradient(kernel, call, err);
    const cudaError_t status = kernel->launch(kernel, call);
    if (status != cudaSuccess) {
        (void)hrf_cuda_error(err, status, "starting a kernel");
        return hrf_error_wrap(err, HRF_E_EXTERNAL, "node '%s'", kernel->spec->name);
    }
    return HRF_OK;
}

const struct hrf_cuda_kernel *hrf_cuda_as_batch_norm(const struct hrf_kernel *kernel)
{
    const struct hrf_cuda_kernel *k = (const struct hrf_cuda_kernel *)kernel;
    return kernel->run == cuda_run && k->spec->op == HRF_OP_BATCH_NORM ? k : NULL;
}

static void destroy_kernel(struct hrf_kernel *base)
{
    struct hrf_cuda_kernel *kernel = (struct hrf_cuda_kernel *)base;
    if (kernel->constants != NULL)
        for (int32_t i = 0; i < kernel->spec->n_inputs; i++)
            hrf_cuda_release(kernel->constants[i]);
    hrf_product_plan_destroy(kernel->product);
    hrf_cuda_release(kernel->tables[0]);
    hrf_cuda_release(kernel->tables[1]);
    hrf_free(kernel->constants);
    hrf_spec_destroy(kernel->spec);
    hrf_free(kernel);
}

static bool is_uploaded(const struct hrf_spec *spec, int32_t i)
{
    return hrf_spec_has(spec, i) && spec->inputs[i].constant != NULL &&
           (spec->inputs[i].dtype == HRF_F32 || spec->inputs[i].dtype == HRF_S8 ||
            spec->inputs[i].dtype == HRF_U8 || spec->inputs[i].dtype == HRF_BOOL);
}

/* Make the tables of kernels that have some. */
static enum hrf_status (*const prepares[HRF_N_OPS])(struct hrf_cuda_kernel *,
                                                    struct hrf_error *) = {
    [HRF_OP_BATCH_NORM] = hrf_cuda_prepare_batch_norm,
    [HRF_OP_RESIZE] = hrf_cuda_prepare_resize,
    [HRF_OP_GATHER] = hrf_cuda_prepare_gather,
    [HRF_OP_BYTE_ATTENTION] = hrf_cuda_prepare_byte_attention,
    [HRF_OP_GATHER_GRADIENT] = hrf_cuda_prepare_gather_gradient,
};

/* What the kernel reads at run time; indices and the like are read while compiling. */
static enum hrf_status upload_constants(struct hrf_cuda_kernel *kernel, struct hrf_error *err)
{
    const struct hrf_spec *spec = kernel->spec;
    for (int32_t i = 0; i < spec->n_inputs && spec->op != HRF_OP_BATCH_NORM; i++) {
        if (!is_uploaded(spec, i))
            continue;
        const size_t n_bytes = (size_t)hrf_shape_count(&spec->inputs[i].shape) *
                               hrf_dtype_size(spec->inputs[i].dtype);
        const bool is_new = kernel->constants[i] == NULL;
        HRF_TRY(hrf_cuda_upload(kernel->backend->device, spec->inputs[i].constant, n_bytes,
                                &kernel->constants[i], err));
        kernel->constant_bytes += is_new ? n_bytes : 0;
    }
    return prepares[spec->op] != NULL ? prepares[spec->op](kernel, err) : HRF_OK;
}

static hrf_cuda_launch *find_launch(enum hrf_op op)
{
    if (hrf_cuda_is_performer(op))
        return hrf_cuda_launch_performer;
    if (hrf_cuda_gradient(op) != NULL)
        return hrf_cuda_gradient(op);
    return hrf_op_is_move(op) ? hrf_cuda_move(op) : hrf_cuda_simple(op);
}

/* Attention's features; sums of parts of an image; shape changes between two images go through
 * ONNX's order. */
static size_t workspace_of(const struct hrf_spec *spec)
{
    if (hrf_cuda_is_performer(spec->op))
        return hrf_cuda_performer_workspace(spec);
    if (hrf_cuda_gradient(spec->op) != NULL)
        return hrf_cuda_gradient_workspace(spec);
    const struct hrf_shape *x = &spec->inputs[0].shape;
    if (spec->op == HRF_OP_GLOBAL_AVERAGE_POOL || spec->op == HRF_OP_GLOBAL_MAX_POOL ||
        spec->op == HRF_OP_POOL_SUM)
        return hrf_k_pool_workspace(x->dims[0], x->dims[2] * x->dims[3], x->dims[1]);
    const bool through = hrf_op_is_move(spec->op) && spec->op != HRF_OP_CONCAT &&
                         !hrf_layout_is_onnx(x) && !hrf_layout_is_onnx(&spec->output.shape);
    return through
               ? (size_t)hrf_shape_count(&spec->output.shape) * hrf_dtype_size(spec->output.dtype)
               : 0;
}

static enum hrf_status cuda_refresh(struct hrf_kernel *base, const struct hrf_graph *graph,
                                    const struct hrf_node *node, struct hrf_error *err)
{
    struct hrf_cuda_kernel *kernel = (struct hrf_cuda_kernel *)base;
    HRF_TRY(hrf_cuda_device_enter(kernel->backend->device, err));
    HRF_TRY(hrf_spec_refresh(kernel->spec, graph, node, err));
    return upload_constants(kernel, err);
}

static enum hrf_status compile_conv(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    return hrf_cuda_conv_compile(backend, graph, node, out, err);
}

static enum hrf_status cuda_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    HRF_TRY(hrf_cuda_device_enter(backend->device, err));
    struct hrf_cuda_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = cuda_run,
                                        .destroy = destroy_kernel,
                                        .refresh = cuda_refresh };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    kernel->backend = backend;
    kernel->launch = find_launch(node->op);
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    kernel->constants = hrf_calloc((size_t)node->n_inputs + 1, sizeof *kernel->constants);
    HRF_TRY(upload_constants(kernel, err));
    kernel->base.weight_bytes = kernel->constant_bytes;
    kernel->base.workspace_bytes = workspace_of(kernel->spec);
    if (hrf_cuda_product_fits(graph, node))
        HRF_TRY(hrf_cuda_product_plan(backend, kernel->spec, &kernel->product, err));
    if (kernel->product != NULL) {
        kernel->base.implementation = "cublasLt";
        kernel->base.workspace_bytes = hrf_cuda_product_workspace(kernel->product);
    }
    if (node->op == HRF_OP_TOKEN_ATTENTION)
        hrf_cuda_plan_attention(kernel);
    if (node->op == HRF_OP_CONV_WEIGHT_GRADIENT)
        HRF_TRY(hrf_cuda_plan_weight_gradient(kernel, graph, node, err));
    hrf_cuda_rows_fuse(kernel);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

/* ---- the table ---- */

static const char *conv_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (!hrf_cuda_conv_fits(graph, node))
        return "a product of rows over several axes whose bias is no row";
    const bool takes_prologue = !hrf_node_has_constant(graph, node, HRF_CONV_X) &&
                                hrf_node_has_constant(graph, node, HRF_CONV_WEIGHTS) &&
                                !hrf_node_has_constant(graph, node, HRF_CONV_RESIDUAL);
    return hrf_node_has_prologue(node) && !takes_prologue
               ? "its prologue is not that of an image that is computed"
               : NULL;
}

/* cuDNN's engines have these in their epilogues, but those for convolutions in groups. */
static const char *fused_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    struct hrf_cudnn_conv conv;
    return hrf_cudnn_conv_describe(graph, node, false, &conv) && conv.w[1] == conv.x[1]
               ? conv_misfit(graph, node)
               : "no engine computes it with an activation";
}

static bool takes_norm(const struct hrf_graph *graph, const struct hrf_node *conv,
                       const struct hrf_node *norm)
{
    struct hrf_cudnn_conv both;
    return hrf_cudnn_conv_describe_both(graph, conv, norm, false, &both);
}

static const char *gemm_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return graph->values[node->inputs[0]].shape.rank == 2
               ? NULL
               : "a product of rows over several axes whose bias is no row";
}

static const char *pad_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    return node->attributes.pad.mode == HRF_PAD_CONSTANT ? NULL : "it pads by numbers of the image";
}

static const char *byte_attention_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    return node->attributes.attention.causal ? "it is causal" : NULL;
}

static bool has_launch(enum hrf_op op)
{
    return op != HRF_OP_GEMM && op != HRF_OP_PAD && op != HRF_OP_BYTE_ATTENTION &&
           find_launch(op) != NULL;
}

#define ROW &(const struct hrf_kernel_row)
static const struct hrf_kernel_row *const rows[] = {
    ROW{ .name = "cudnn",
         HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_GEMM, HRF_OP_TOKEN_PRODUCT),
         .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
         .extras = HRF_TAKES_PROLOGUE,
         .epilogues = HRF_EPILOGUE(HRF_ACT_GELU) | HRF_EPILOGUE(HRF_ACT_GELU_TANH) |
                      HRF_EPILOGUE(HRF_ACT_SWISH),
         .misfit = fused_misfit,
         .takes_norm = takes_norm,
         .compile = compile_conv },
    ROW{ .name = "cudnn in groups, of bytes",
         HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_CONV_TRANSPOSE, HRF_OP_GEMM, HRF_OP_TOKEN_PRODUCT),
         .extras = HRF_TAKES_PROLOGUE,
         .misfit = conv_misfit,
         .takes_norm = takes_norm,
         .compile = compile_conv },
    ROW{ .name = "cuda", HRF_ROW_OPS(HRF_OP_GEMM), .misfit = gemm_misfit, .compile = cuda_compile },
    ROW{ .name = "cuda", HRF_ROW_OPS(HRF_OP_PAD), .misfit = pad_misfit, .compile = cuda_compile },
    ROW{ .name = "cuda",
         HRF_ROW_OPS(HRF_OP_BYTE_ATTENTION),
         .misfit = byte_attention_misfit,
         .compile = cuda_compile },
    ROW{ .name = "cuda", .is_op = has_launch, .compile = cuda_compile },
    NULL,
};

static const struct hrf_kernel_table kernels = {
    .device = "cuda",
    .rows = rows,
    .advice = ": run it with --device cpu",
};

/* ---- the back end ---- */

static void cuda_destroy(struct hrf_backend *backend)
{
    if (backend == NULL)
        return;
    if (backend->device != NULL) {
        (void)cudaStreamSynchronize(backend->device->stream);
        (void)cudaStreamSynchronize(backend->device->copies);
    }
    hrf_cuda_decoder_destroy(backend->decoder);
    for (int i = 0; i < 2; i++) {
        struct hrf_cuda_landing *landing = &backend->landings[i];
        const cudaEvent_t events[] = { landing->sent, landing->arrived, landing->used,
                                       backend->begins[i], backend->marks[i] };
        hrf_cuda_release(landing->pixels);
        for (size_t k = 0; k < sizeof events / sizeof events[0]; k++)
            if (events[k] != NULL)
                (void)cudaEventDestroy(events[k]);
    }
    hrf_attention_plans_destroy(backend->attentions);
    hrf_plan_cache_destroy(backend->plans);
    hrf_cudnn_device_destroy(backend->properties);
    if (backend->cublas != NULL)
        (void)cublasLtDestroy(backend->cublas);
    if (backend->cudnn != NULL)
        (void)cudnnDestroy(backend->cudnn);
    hrf_cuda_device_destroy(backend->device);
    hrf_strbuf_release(&backend->notes);
    hrf_strbuf_release(&backend->lines);
    hrf_free(backend);
}

static enum hrf_status make_events(struct hrf_backend *backend, struct hrf_error *err)
{
    for (int i = 0; i < 2; i++) {
        struct hrf_cuda_landing *landing = &backend->landings[i];
        cudaEvent_t *const timed[] = { &landing->sent, &landing->arrived, &backend->begins[i],
                                       &backend->marks[i] };
        for (size_t k = 0; k < sizeof timed / sizeof timed[0]; k++)
            HRF_TRY_CUDA(cudaEventCreate(timed[k]), "starting the GPU");
        HRF_TRY_CUDA(cudaEventCreateWithFlags(&landing->used, cudaEventDisableTiming),
                     "starting the GPU");
    }
    return HRF_OK;
}

/* cuda-plans/ in the folder of hrf_cuda.so; NULL: nobody says where that is. */
static char *plans_beside_the_module(void)
{
    Dl_info self;
    if (dladdr(&hrf_backend_cuda, &self) == 0 || self.dli_fname == NULL)
        return NULL;
    HRF_AUTO_FREE char *folder = hrf_path_directory(self.dli_fname);
    return hrf_path_join(folder, "cuda-plans");
}

static enum hrf_status start_cudnn(struct hrf_backend *backend, struct hrf_error *err)
{
    static const char what[] = "starting it";
    HRF_TRY_CUDNN(cudnnCreate(&backend->cudnn), what);
    HRF_TRY_CUDNN(cudnnSetStream(backend->cudnn, backend->device->stream), what);
    HRF_TRY(hrf_cudnn_device_of(backend->cudnn, &backend->properties, err));
    HRF_AUTO_FREE char *directory = NULL;
    HRF_TRY(hrf_cache_folder(NULL, "cuda-plans", &directory, err));
    backend->plans = hrf_plan_cache_create(directory, backend->device, backend->cudnn,
                                           backend->properties);
    HRF_AUTO_FREE char *sets = plans_beside_the_module();
    return sets != NULL ? hrf_plan_cache_use_sets(backend->plans, sets, err) : HRF_OK;
}

static void identity_of(const struct hrf_cuda_device *d, struct hrf_device_identity *out)
{
    const size_t cudnn = cudnnGetVersion();
    *out = (struct hrf_device_identity){ .memory_bytes = d->memory_bytes };
    snprintf(out->model, sizeof out->model, "%.*s", (int)sizeof out->model - 1, d->name);
    snprintf(out->path, sizeof out->path, "compute capability %d.%d", d->major, d->minor);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", d->driver / 1000,
             d->driver % 1000 / 10);
    snprintf(out->libraries, sizeof out->libraries, "cuDNN %zu.%zu.%zu, CUDA runtime %d.%d",
             cudnn / 10000, cudnn / 100 % 100, cudnn % 100, d->runtime / 1000,
             d->runtime % 1000 / 10);
    snprintf(out->address, sizeof out->address, "%s", d->address);
}

static void cuda_describe(struct hrf_backend *backend)
{
    struct hrf_device_identity identity;
    identity_of(backend->device, &identity);
    hrf_device_identity_text(&identity, backend->description, sizeof backend->description);
}

/* A rank that stands beside others keeps near its GPU, with a line for the log of every back end
 * that it makes: it is bound by the first. */
static void bind_rank(struct hrf_backend *backend)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char words[1024];
    const struct hrf_cuda_device *d = backend->device;
    if (d->binding.n_ranks == 1)
        return;
    pthread_mutex_lock(&mutex);
    if (words[0] == '\0')
        hrf_binding_apply(&d->binding, d->address, NULL, words, sizeof words);
    pthread_mutex_unlock(&mutex);
    hrf_strbuf_addf(&backend->lines, "%s\n", words);
}

/* Plans are built by all processors that this process may use, whatever --threads says: those are
 * the threads that feed the GPU, this is a start that takes minutes by one of them. Ranks of a node
 * that are not bound share its processors. */
static int32_t planning_threads(const struct hrf_binding *binding)
{
    const bool is_bound = hrf_process_cpu_count() < sysconf(_SC_NPROCESSORS_ONLN);
    const int32_t n_sharers = is_bound || binding->n_ranks < 1 ? 1 : binding->n_ranks;
    const int32_t n = hrf_process_cpu_count() / n_sharers;
    return n > 2 ? n : 2; /* with one, nothing is read or built ahead */
}

static enum hrf_status cuda_create(const struct hrf_backend_config *config,
                                   struct hrf_backend **out, struct hrf_error *err)
{
    struct hrf_backend *backend = hrf_calloc(1, sizeof *backend);
    backend->allow_tf32 = config->allow_tf32;
    backend->notes = backend->lines = (struct hrf_strbuf)HRF_STRBUF_INIT;
    enum hrf_status status = hrf_cuda_device_open(config->device_index, &backend->device, err);
    if (status == HRF_OK)
        status = make_events(backend, err);
    if (status == HRF_OK)
        status = start_cudnn(backend, err);
    if (status == HRF_OK)
        cuda_describe(backend);
    if (status == HRF_OK)
        backend->n_planning_threads = planning_threads(&backend->device->binding);
    if (status == HRF_OK && config->device_index < 0)
        bind_rank(backend);
    if (status != HRF_OK) {
        cuda_destroy(backend);
        return status;
    }
    *out = backend;
    return HRF_OK;
}

static void enter(struct hrf_backend *backend)
{
    (void)cudaSetDevice(
        backend->device->index); /* cuda_compile() and the queue tell what is wrong */
}

static enum hrf_status cuda_identify(struct hrf_device_identity *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_cuda_device) device = NULL;
    HRF_TRY(hrf_cuda_device_open(-1, &device, err));
    identity_of(device, out);
    return HRF_OK;
}

const struct hrf_backend_ops hrf_backend_cuda = {
    .name = "cuda",
    .device = &hrf_cuda_queue,
    .signed_only = true,
    .has_tf32 = true,
    .token_type = HRF_B16,
    .kernels = &kernels,
    .identify = cuda_identify,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .prepare = hrf_cuda_prepare_convs,
    .enter = enter,
};
