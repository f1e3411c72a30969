/* conv_weight_gradient.c - CONV_WEIGHT_GRADIENT through oneDNN. Each image is one task of one
 * thread, and their results are added in the order of the images, so that the bits do not depend on
 * the number of threads: oneDNN itself divides the sum by threads. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/window_span.h"

#include <omp.h>
#include <string.h>

/* The buffers with which one thread computes one image. */
struct lane {
    dnnl_memory_t x, dy, weights, scratchpad;
};

struct weight_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    struct hrf_backend *backend; /* borrowed: outlives its kernels */
    dnnl_primitive_t primitive, reorder;
    dnnl_memory_t sum, plain; /* the reorder's ends */
    struct lane *lanes;
    int32_t n_lanes;
    size_t weight_bytes, scratch_bytes; /* as the primitive wants them, in whole cache lines */
};

struct weight_shapes {
    dnnl_memory_desc_t x, dy, weights, plain;
    dnnl_dims_t stride, dilation, pad_begin, pad_end;
};

/* Of one image. The output lies in memory as images do: channels of the input innermost. */
static enum hrf_status describe(const struct hrf_spec *spec, struct weight_shapes *s,
                                struct hrf_error *err)
{
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const int64_t *w = spec->output.shape.dims, g = spec->attributes.group;
    const struct hrf_window *window = &spec->attributes.window;
    const int n_axes = g > 1 ? 5 : 4;
    dnnl_dims_t x = { 1, in[1], in[2], in[3] }, dy = { 1, out[1], out[2], out[3] };
    dnnl_dims_t plain = { w[0], w[1], w[2], w[3] }, grouped = { g, w[0] / g, w[1], w[2], w[3] };
    const char *name = spec->name;
    for (int i = 0; i < 2; i++) {
        s->stride[i] = window->stride[i];
        s->dilation[i] = window->dilation[i] - 1;
        s->pad_begin[i] = window->pad_begin[i];
        s->pad_end[i] = hrf_window_span(window, i, out[2 + i]) - in[2 + i] - window->pad_begin[i];
    }
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->x, 4, x, dnnl_f32, dnnl_nhwc), name, "input");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->dy, 4, dy, dnnl_f32, dnnl_nhwc), name,
                   "gradient");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->weights, n_axes, g > 1 ? grouped : plain,
                                                dnnl_f32, dnnl_format_tag_any),
                   name, "weights");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->plain, n_axes, g > 1 ? grouped : plain,
                                                dnnl_f32, g > 1 ? dnnl_gohwi : dnnl_ohwi),
                   name, "weights");
    return HRF_OK;
}

/* Of 1x1 windows with a stride, oneDNN 2.6 copies the pixels that are seen into scratch memory, and
 * writes behind its end (seen: 3 channels, stride 2, AVX2). */
static bool is_sound(const char *name, const struct hrf_spec *spec)
{
    const struct hrf_window *w = &spec->attributes.window;
    const bool has_stride = w->stride[0] > 1 || w->stride[1] > 1;
    return !has_stride || strncmp(name, "jit_1x1", strlen("jit_1x1")) != 0;
}

/* Made for one thread, with scratch that the caller provides. */
static dnnl_status_t make_descriptor(const struct weight_kernel *kernel,
                                     const struct weight_shapes *s, dnnl_primitive_desc_t *out)
{
    dnnl_engine_t engine = kernel->backend->engine;
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &forward, dnnl_forward_training, dnnl_convolution_direct, &s->x, &s->weights, NULL, &s->dy,
        s->stride, s->dilation, s->pad_begin, s->pad_end);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&hint, &forward, NULL, engine, NULL);
    if (status == dnnl_success)
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &backward, dnnl_convolution_direct, &s->x, &s->weights, NULL, &s->dy, s->stride,
            s->dilation, s->pad_begin, s->pad_end);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&iterator, &backward, attributes, engine,
                                                     hint);
    if (status == dnnl_success)
        status = hrf_dnnl_choose(iterator, is_sound, kernel->spec, out);
    if (iterator != NULL)
        dnnl_primitive_desc_iterator_destroy(iterator);
    if (attributes != NULL)
        dnnl_primitive_attr_destroy(attributes);
    if (hint != NULL)
        dnnl_primitive_desc_destroy(hint);
    return status;
}

static dnnl_status_t make_lane(const struct weight_kernel *kernel, const struct weight_shapes *s,
                               const dnnl_memory_desc_t *wanted,
                               const dnnl_memory_desc_t *scratchpad, struct lane *lane)
{
    dnnl_engine_t engine = kernel->backend->engine;
    dnnl_status_t status = dnnl_memory_create(&lane->x, &s->x, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&lane->dy, &s->dy, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&lane->weights, wanted, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&lane->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE);
    return status;
}

static dnnl_status_t make_reorder(struct weight_kernel *kernel, const struct weight_shapes *s,
                                  const dnnl_memory_desc_t *wanted)
{
    dnnl_engine_t engine = kernel->backend->engine;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = dnnl_memory_create(&kernel->sum, wanted, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&kernel->plain, &s->plain, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&desc, wanted, engine, &s->plain, engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&kernel->reorder, desc);
    if (desc != NULL)
        dnnl_primitive_desc_destroy(desc);
    return status;
}

static dnnl_status_t make_primitives(struct weight_kernel *kernel, const struct weight_shapes *s)
{
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = make_descriptor(kernel, s, &desc);
    if (status != dnnl_success)
        return status;
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(desc,
                                                                    dnnl_query_diff_weights_md, 0);
    const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(
        desc, dnnl_query_scratchpad_md, 0);
    const size_t line = HRF_BUFFER_ALIGNMENT;
    kernel->weight_bytes = (dnnl_memory_desc_get_size(wanted) + line - 1) / line * line;
    kernel->scratch_bytes = (dnnl_memory_desc_get_size(scratchpad) + line - 1) / line * line;
    status = dnnl_primitive_create(&kernel->primitive, desc);
    for (int32_t i = 0; i < kernel->n_lanes && status == dnnl_success; i++)
        status = make_lane(kernel, s, wanted, scratchpad, &kernel->lanes[i]);
    if (status == dnnl_success)
        status = make_reorder(kernel, s, wanted);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* The workspace: the sum, then for each lane its image's share of it and scratch. */
static char *share_of(const struct weight_kernel *kernel, void *workspace, int32_t lane)
{
    return (char *)workspace + kernel->weight_bytes +
           (size_t)lane * (kernel->weight_bytes + kernel->scratch_bytes);
}

/* Computes one image's share. */
static dnnl_status_t run_image(struct weight_kernel *kernel, const struct hrf_kernel_call *call,
                               int32_t lane, int64_t image)
{
    const struct hrf_spec *spec = kernel->spec;
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const float *x = hrf_spec_data(spec, call, 0), *dy = hrf_spec_data(spec, call, 1);
    char *own = share_of(kernel, call->workspace, lane);
    struct lane *l = &kernel->lanes[lane];
    dnnl_status_t status = dnnl_memory_set_data_handle(
        l->x, (void *)(uintptr_t)(x + image * in[1] * in[2] * in[3])); /* it is only read */
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(
            l->dy, (void *)(uintptr_t)(dy + image * out[1] * out[2] * out[3]));
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(l->weights, own);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(l->scratchpad, own + kernel->weight_bytes);
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, l->x },
                                     { DNNL_ARG_DIFF_DST, l->dy },
                                     { DNNL_ARG_DIFF_WEIGHTS, l->weights },
                                     { DNNL_ARG_SCRATCHPAD, l->scratchpad } };
    if (status == dnnl_success)
        status = dnnl_primitive_execute(kernel->primitive, kernel->backend->stream, 4, args);
    return status;
}

static void add_share(const struct weight_kernel *kernel, void *workspace, int32_t lane)
{
    const float *share = (const float *)(const void *)share_of(kernel, workspace, lane);
    const int64_t n = (int64_t)(kernel->weight_bytes / sizeof *share);
    float *sum = workspace;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++)
        sum[i] += share[i];
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    struct weight_kernel *kernel = (struct weight_kernel *)base;
    const int64_t n_images = kernel->spec->inputs[0].shape.dims[0];
    const char *name = kernel->spec->name;
    dnnl_status_t failed = dnnl_success;
    memset(call->workspace, 0, kernel->weight_bytes);
    for (int64_t first = 0; first < n_images; first += kernel->n_lanes) {
        const int32_t n = (int32_t)hrf_min(n_images - first, kernel->n_lanes);
#pragma omp parallel for schedule(static, 1) num_threads(n)
        for (int32_t lane = 0; lane < n; lane++) {
            omp_set_num_threads(1); /* of this iteration's thread: oneDNN asks again as it runs */
            const dnnl_status_t status = run_image(kernel, call, lane, first + lane);
            if (status != dnnl_success)
#pragma omp atomic write
                failed = status;
        }
        HRF_CHECK_DNNL(failed, name, "running it");
        for (int32_t lane = 0; lane < n; lane++)
            add_share(kernel, call->workspace, lane);
    }
    HRF_CHECK_DNNL(dnnl_memory_set_data_handle(kernel->sum, call->workspace), name, "sum");
    HRF_CHECK_DNNL(dnnl_memory_set_data_handle(kernel->plain, call->output), name, "output");
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, kernel->sum },
                                     { DNNL_ARG_TO, kernel->plain } };
    HRF_CHECK_DNNL(dnnl_primitive_execute(kernel->reorder, kernel->backend->stream, 2, args), name,
                   "output");
    HRF_CHECK_DNNL(dnnl_stream_wait(kernel->backend->stream), name, "output");
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct weight_kernel *kernel = (struct weight_kernel *)base;
    for (int32_t i = 0; i < kernel->n_lanes; i++) {
        hrf_dnnl_destroy_memory(kernel->lanes[i].x);
        hrf_dnnl_destroy_memory(kernel->lanes[i].dy);
        hrf_dnnl_destroy_memory(kernel->lanes[i].weights);
        hrf_dnnl_destroy_memory(kernel->lanes[i].scratchpad);
    }
    hrf_dnnl_destroy_memory(kernel->sum);
    hrf_dnnl_destroy_memory(kernel->plain);
    if (kernel->primitive != NULL)
        dnnl_primitive_destroy(kernel->primitive);
    if (kernel->reorder != NULL)
        dnnl_primitive_destroy(kernel->reorder);
    hrf_free(kernel->lanes);
    hrf_spec_destroy(kernel->spec);
    hrf_free(kernel);
}

static enum hrf_status compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                               const struct hrf_graph *graph, const struct hrf_node *node,
                               struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    struct weight_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    struct weight_shapes shapes;
    kernel->backend = backend;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    HRF_TRY(describe(kernel->spec, &shapes, err));
    const int n_threads = omp_get_max_threads();
    kernel->n_lanes = (int32_t)hrf_min(n_threads, kernel->spec->inputs[0].shape.dims[0]);
    kernel->lanes = hrf_calloc((size_t)kernel->n_lanes, sizeof *kernel->lanes);
    omp_set_num_threads(1);
    const dnnl_status_t status = make_primitives(kernel, &shapes);
    omp_set_num_threads(n_threads);
    HRF_CHECK_DNNL(status, node->name, "gradient to weights");
    kernel->base.workspace_bytes = kernel->weight_bytes +
                                   (size_t)kernel->n_lanes *
                                       (kernel->weight_bytes + kernel->scratch_bytes);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}

const struct hrf_kernel_row hrf_cpu_conv_weight_gradient = {
    .name = "oneDNN weight gradient",
    HRF_ROW_OPS(HRF_OP_CONV_WEIGHT_GRADIENT),
    .forms = HRF_FORM_FLOAT,
    .compile = compile,
};

const struct hrf_kernel_row hrf_cpu_conv_weight_gradient_avx512 = {
    .name = "oneDNN weight gradient:avx512",
    HRF_ROW_OPS(HRF_OP_CONV_WEIGHT_GRADIENT),
    .forms = HRF_FORM_FLOAT,
    .isa = HRF_ISA_AVX512,
    .compile = compile,
};
