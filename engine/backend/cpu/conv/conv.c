/* conv.c - convolution (and its transpose) through oneDNN 2.x, in float32, in bfloat16 (summed in
 * float32) and in 8-bit integers (a GEMM of those is a 1x1 convolution): NHWC activations, weights
 * packed as oneDNN likes, bias, residual sum and requantisation fused as post-ops, and activations
 * that keep a NaN. The residual is summed in place: when the plan did not put it into the output's
 * buffer already, it is copied there first; an 8-bit residual of a float32 result is written there
 * as floats, in its quantisation steps. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"

#include <omp.h>
#include <string.h>

/* Weights smaller than this are reordered by one thread. If other threads wait meanwhile, every
 * page that a kernel is generated in makes the processors synchronise their page tables, which
 * takes longer than the other threads would save. */
enum { LEAST_SHARED_BYTES = 256 * 1024 };

struct conv_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    struct hrf_backend *backend;       /* borrowed: outlives its kernels */
    struct hrf_requantize *requantize; /* NULL for float32 */
    dnnl_primitive_t primitive;
    dnnl_memory_t src, weights, bias, dst, scratchpad;
    void *packed; /* the weights as the primitive wants them */
    char implementation[96];
};

struct conv_shapes {
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_dims_t stride, dilation, pad_begin, pad_end;
    dnnl_memory_desc_t plain_weights; /* ONNX order, grouped where there are groups */
};

static dnnl_data_type_t type_of(enum hrf_dtype dtype)
{
    switch (dtype) {
    case HRF_S8:
        return dnnl_s8;
    case HRF_U8:
        return dnnl_u8;
    case HRF_B16:
        return dnnl_bf16;
    default:
        return dnnl_f32;
    }
}

/* The type of the weights that the primitive reads. The graph has weights of bfloat16 in float32,
 * already rounded. */
static dnnl_data_type_t packed_type(const struct hrf_spec *spec)
{
    return type_of(
        spec->inputs[HRF_CONV_X].dtype == HRF_B16 ? HRF_B16 : spec->inputs[HRF_CONV_WEIGHTS].dtype);
}

/* Describes a GEMM as a convolution: the rows of the matrix are pixels. */
static void view_as_convolution(struct hrf_spec *spec)
{
    struct hrf_operand *operands[] = { &spec->inputs[HRF_CONV_X], &spec->inputs[HRF_CONV_WEIGHTS],
                                       &spec->output };
    for (int i = 0; i < 3; i++) {
        struct hrf_shape *shape = &operands[i]->shape;
        const int64_t columns = hrf_shape_last(shape), rows = hrf_shape_count(shape) / columns;
        const bool is_weights = operands[i] == &spec->inputs[HRF_CONV_WEIGHTS];
        /* The rows are the pixels of one image: of images of one pixel each, oneDNN multiplies one
         * row at a time. */
        *shape = is_weights ? (struct hrf_shape){ .rank = 4, .dims = { rows, columns, 1, 1 } }
                            : (struct hrf_shape){ .rank = 4, .dims = { 1, columns, 1, rows } };
    }
    const struct hrf_attributes gemm = spec->attributes;
    spec->attributes = hrf_attributes_default();
    spec->attributes.window.kernel[0] = spec->attributes.window.kernel[1] = 1;
    spec->attributes.activation = gemm.activation;
    spec->attributes.activation_min = gemm.activation_min;
    spec->attributes.activation_max = gemm.activation_max;
}

static enum hrf_status conv_describe(const struct hrf_spec *spec, struct conv_shapes *s,
                                     struct hrf_error *err)
{
    const struct hrf_shape *x = &spec->inputs[HRF_CONV_X].shape, *y = &spec->output.shape;
    const struct hrf_shape *w = &spec->inputs[HRF_CONV_WEIGHTS].shape;
    const struct hrf_window *window = &spec->attributes.window;
    int64_t g = spec->attributes.group;
    dnnl_dims_t src = { x->dims[0], x->dims[1], x->dims[2], x->dims[3] };
    dnnl_dims_t dst = { y->dims[0], y->dims[1], y->dims[2], y->dims[3] };
    const bool transpose = spec->op == HRF_OP_CONV_TRANSPOSE;
    /* Input channels before outputs. */
    const bool inputs_first = transpose && spec->inputs[HRF_CONV_WEIGHTS].dtype == HRF_F32;
    const int64_t n_out = inputs_first ? w->dims[1] : w->dims[0] / g;
    const int64_t n_in = inputs_first ? w->dims[0] / g : w->dims[1];
    dnnl_dims_t plain = { n_out, n_in, w->dims[2], w->dims[3] };
    dnnl_dims_t grouped = { g, n_out, n_in, w->dims[2], w->dims[3] };
    dnnl_dims_t bias = { y->dims[1] };
    for (int i = 0; i < 2; i++) {
        int64_t span = (w->dims[2 + i] - 1) * window->dilation[i] + 1;
        s->stride[i] = window->stride[i];
        s->dilation[i] = window->dilation[i] - 1;
        s->pad_begin[i] = window->pad_begin[i];
        /* The padding at the end that gives the output this size; negative if the last rows of the
         * input are not read. */
        const struct hrf_shape *few = transpose ? x : y, *many = transpose ? y : x;
        s->pad_end[i] = (few->dims[2 + i] - 1) * window->stride[i] + span - many->dims[2 + i] -
                        window->pad_begin[i];
    }
    const dnnl_data_type_t weights = type_of(spec->inputs[HRF_CONV_WEIGHTS].dtype);
    const char *name = spec->name;
    HRF_CHECK_DNNL(
        dnnl_memory_desc_init_by_tag(&s->src, 4, src, type_of(spec->inputs[0].dtype), dnnl_nhwc),
        name, "input");
    HRF_CHECK_DNNL(
        dnnl_memory_desc_init_by_tag(&s->dst, 4, dst, type_of(spec->output.dtype), dnnl_nhwc), name,
        "output");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->bias, 1, bias, dnnl_f32, dnnl_a), name, "bias");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->weights, g > 1 ? 5 : 4, g > 1 ? grouped : plain,
                                                packed_type(spec), dnnl_format_tag_any),
                   name, "weights");
    HRF_CHECK_DNNL(dnnl_memory_desc_init_by_tag(&s->plain_weights, g > 1 ? 5 : 4,
                                                g > 1 ? grouped : plain, weights,
                                                inputs_first ? (g > 1 ? dnnl_giohw : dnnl_iohw)
                                                             : (g > 1 ? dnnl_goihw : dnnl_oihw)),
                   name, "weights");
    return HRF_OK;
}

/* True if the activation is computed by a loop of our own after the primitive. oneDNN's RELU and
 * CLIP turn a NaN into a number, and some activations it computes differently. Integers have no
 * NaN. */
static bool activates_apart(const struct conv_kernel *kernel)
{
    const enum hrf_activation activation = kernel->spec->attributes.activation;
    return kernel->requantize == NULL && activation != HRF_ACT_NONE &&
           activation != HRF_ACT_LEAKY_RELU;
}

/* `r`: for integers, the activation's constants in steps of the output; NULL for float32. */
static dnnl_status_t append_activation(dnnl_post_ops_t ops, const struct hrf_attributes *a,
                                       const struct hrf_requantize *r)
{
    switch (a->activation) {
    case HRF_ACT_RELU:
        return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    case HRF_ACT_LEAKY_RELU:
        return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, a->alpha, 0.0f);
    case HRF_ACT_CLIP:
        return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_clip,
                                            r != NULL ? r->low : a->activation_min,
                                            r != NULL ? r->high : a->activation_max);
    default: /* none, or one that 8-bit outputs do not have */
        break;
    }
    return dnnl_success;
}

static dnnl_status_t append_residual(dnnl_post_ops_t ops, const struct hrf_spec *spec,
                                     const struct hrf_requantize *r)
{
    if (!hrf_spec_has(spec, HRF_CONV_RESIDUAL))
        return dnnl_success;
    if (r == NULL)
        return dnnl_post_ops_append_sum(ops, 1.0f);
    if (spec->output.dtype == HRF_F32)
        return dnnl_post_ops_append_sum(ops, r->residual_scale); /* of steps: place_residual() */
    return dnnl_post_ops_append_sum_v3(ops, r->residual_scale, r->residual_zero_point,
                                       type_of(spec->inputs[HRF_CONV_RESIDUAL].dtype));
}

static dnnl_status_t set_scales(dnnl_primitive_attr_t attributes, const struct hrf_spec *spec,
                                const struct hrf_requantize *r)
{
    const int32_t x = spec->inputs[HRF_CONV_X].quantization.zero_point;
    const int32_t y = spec->output.quantization.zero_point;
    dnnl_status_t status = dnnl_primitive_attr_set_output_scales(attributes, r->n_channels, 2,
                                                                 r->multiplier);
    if (status == dnnl_success && x != 0)
        status = dnnl_primitive_attr_set_zero_points(attributes, DNNL_ARG_SRC, 1, 0, &x);
    if (status == dnnl_success && y != 0)
        status = dnnl_primitive_attr_set_zero_points(attributes, DNNL_ARG_DST, 1, 0, &y);
    return status;
}

static dnnl_status_t make_attributes(const struct conv_kernel *kernel, dnnl_primitive_attr_t *out)
{
    const struct hrf_spec *spec = kernel->spec;
    const struct hrf_requantize *r = kernel->requantize;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = append_residual(ops, spec, r);
    if (status == dnnl_success && !activates_apart(kernel))
        status = append_activation(ops, &spec->attributes, r);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (status == dnnl_success && r != NULL)
        status = set_scales(*out, spec, r);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (ops != NULL)
        dnnl_post_ops_destroy(ops);
    return status;
}

static bool is_of_bytes(const struct hrf_spec *spec)
{
    return spec->inputs[HRF_CONV_X].dtype != HRF_B16;
}

static bool pads_zero_points(const struct hrf_spec *spec)
{
    const struct hrf_window *w = &spec->attributes.window;
    return spec->inputs[HRF_CONV_X].quantization.zero_point != 0 &&
           (w->pad_begin[0] > 0 || w->pad_begin[1] > 0 || w->pad_end[0] > 0 || w->pad_end[1] > 0);
}

/* Implementations that oneDNN 2.6 offers but that compute wrong results, by the beginning of their
 * names. */
static const struct {
    const char *name;
    bool (*is_unsound)(const struct hrf_spec *spec);
} unsound[] = {
    /* While it generates code, it reads one row beyond the last one of a block. It does not use the
     * value, but the read faults if the array ends at an unmapped page, as under AddressSanitizer.
     * `brgconv_1x1` has no such rows. In bfloat16 it does the same, but the next implementation
     * multiplies uninitialised memory by 0. */
    { "brgconv:avx512_core_amx", is_of_bytes },
    /* Wrong results (seen with windows of one column and padded rows). */
    { "jit:avx512_core_amx", pads_zero_points },
};

static bool is_sound(const char *name, const struct hrf_spec *spec)
{
    for (size_t i = 0; i < sizeof unsound / sizeof unsound[0]; i++)
        if (strncmp(name, unsound[i].name, strlen(unsound[i].name)) == 0 &&
            unsound[i].is_unsound(spec))
            return false;
    return true;
}

static dnnl_status_t make_descriptor(const struct conv_kernel *kernel, const struct conv_shapes *s,
                                     dnnl_primitive_desc_t *out)
{
    const struct hrf_spec *spec = kernel->spec;
    dnnl_convolution_desc_t conv;
    dnnl_deconvolution_desc_t transpose;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    const bool is_conv = spec->op != HRF_OP_CONV_TRANSPOSE;
    const dnnl_memory_desc_t *bias = hrf_spec_has(spec, HRF_CONV_BIAS) ? &s->bias : NULL;
    dnnl_status_t status = is_conv ? dnnl_dilated_convolution_forward_desc_init(
                                         &conv, dnnl_forward_inference, dnnl_convolution_direct,
                                         &s->src, &s->weights, bias, &s->dst, s->stride,
                                         s->dilation, s->pad_begin, s->pad_end)
                                   : dnnl_dilated_deconvolution_forward_desc_init(
                                         &transpose, dnnl_forward_inference,
                                         dnnl_deconvolution_direct, &s->src, &s->weights, bias,
                                         &s->dst, s->stride, s->dilation, s->pad_begin, s->pad_end);
    if (status == dnnl_success)
        status = make_attributes(kernel, &attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&iterator,
                                                     is_conv ? (void *)&conv : (void *)&transpose,
                                                     attributes, kernel->backend->engine, NULL);
    if (status == dnnl_success)
        status = hrf_dnnl_choose(iterator, is_sound, spec, out);
    if (iterator != NULL)
        dnnl_primitive_desc_iterator_destroy(iterator);
    if (attributes != NULL)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Reorders the constant weights once, at compile time. */
static dnnl_status_t reorder_weights(const struct conv_kernel *kernel, const struct conv_shapes *s,
                                     const dnnl_memory_desc_t *wanted)
{
    dnnl_engine_t engine = kernel->backend->engine;
    dnnl_memory_t plain = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_status_t status = dnnl_memory_create(&plain, &s->plain_weights, engine,
                                              kernel->spec->inputs[HRF_CONV_WEIGHTS].constant);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&desc, &s->plain_weights, engine, wanted,
                                                    engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&reorder, desc);
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, plain }, { DNNL_ARG_TO, kernel->weights } };
    if (status == dnnl_success)
        status = dnnl_primitive_execute(reorder, kernel->backend->stream, 2, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(kernel->backend->stream);
    if (reorder != NULL)
        dnnl_primitive_destroy(reorder);
    if (desc != NULL)
        dnnl_primitive_desc_destroy(desc);
    if (plain != NULL)
        dnnl_memory_destroy(plain);
    return status;
}

static enum hrf_status pack_weights(struct conv_kernel *kernel, const struct conv_shapes *s,
                                    const dnnl_memory_desc_t *wanted, struct hrf_error *err)
{
    struct hrf_operand *operand = &kernel->spec->inputs[HRF_CONV_WEIGHTS];
    const char *name = kernel->spec->name;
    const size_t n_bytes = dnnl_memory_desc_get_size(wanted);
    const int n_threads = omp_get_max_threads();
    kernel->packed = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    if (kernel->packed == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", name, n_bytes);
    dnnl_status_t status = dnnl_memory_create(&kernel->weights, wanted, kernel->backend->engine,
                                              kernel->packed);
    if (n_bytes < LEAST_SHARED_BYTES)
        omp_set_num_threads(1);
    if (status == dnnl_success)
        status = reorder_weights(kernel, s, wanted);
    omp_set_num_threads(n_threads);
    if (status != dnnl_success)
        return hrf_dnnl_error(err, status, name, "packing its weights");
    hrf_free(operand->constant); /* the packed copy is the one that is used */
    operand->constant = NULL;
    kernel->base.weight_bytes = n_bytes;
    return HRF_OK;
}

static enum hrf_status make_memories(struct conv_kernel *kernel, const struct conv_shapes *s,
                                     dnnl_primitive_desc_t desc, struct hrf_error *err)
{
    const char *name = kernel->spec->name, *implementation = "";
    dnnl_engine_t engine = kernel->backend->engine;
    const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(
        desc, dnnl_query_scratchpad_md, 0);
    HRF_CHECK_DNNL(
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&implementation), name,
        "query");
    size_t n = strlen(implementation);
    n = n < sizeof kernel->implementation - 1 ? n : sizeof kernel->implementation - 1;
    memcpy(kernel->implementation, implementation, n);
    kernel->base.implementation = kernel->implementation;
    kernel->base.workspace_bytes = dnnl_memory_desc_get_size(scratchpad);
    HRF_CHECK_DNNL(dnnl_memory_create(&kernel->src, &s->src, engine, DNNL_MEMORY_NONE), name,
                   "input");
    HRF_CHECK_DNNL(dnnl_memory_create(&kernel->dst, &s->dst, engine, DNNL_MEMORY_NONE), name,
                   "output");
    HRF_CHECK_DNNL(dnnl_memory_create(&kernel->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE),
                   name, "scratchpad");
    if (hrf_spec_has(kernel->spec, HRF_CONV_BIAS))
        HRF_CHECK_DNNL(dnnl_memory_create(&kernel->bias, &s->bias, engine,
                                          kernel->requantize != NULL
                                              ? kernel->requantize->bias
                                              : kernel->spec->inputs[HRF_CONV_BIAS].constant),
                       name, "bias");
    return HRF_OK;
}

/* Copies the residual to the buffer that the primitive adds to. */
static void place_residual(const struct conv_kernel *kernel, const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    const void *residual = hrf_spec_data(spec, call, HRF_CONV_RESIDUAL);
    const int64_t n = hrf_shape_count(&spec->output.shape);
    if (residual == NULL || residual == call->output)
        return;
    const enum hrf_dtype type = spec->inputs[HRF_CONV_RESIDUAL].dtype;
    if (kernel->requantize == NULL || spec->output.dtype != HRF_F32) {
        memcpy(call->output, residual, (size_t)n * hrf_dtype_size(spec->output.dtype));
        return;
    }
    /* The scale is not applied here: the primitive multiplies and adds with one rounding, as the
     * reference does. */
    const int32_t zero = kernel->requantize->residual_zero_point;
    float *out = hrf_floats(call);
    if (type == HRF_S8) {
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(((const int8_t *)residual)[i] - zero);
    } else {
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(((const uint8_t *)residual)[i] - zero);
    }
}

/* Activates in place; y is F32 or B16. */
static void conv_activate(const struct hrf_spec *spec, void *y)
{
    enum { PIECE = 4096 };
    const enum hrf_dtype type = spec->output.dtype;
    const int64_t n = hrf_shape_count(&spec->output.shape);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t count = hrf_min(n - first, PIECE);
        float floats[PIECE];
        if (type == HRF_F32) {
            hrf_cpu_activate(&spec->attributes, (float *)y + first, count);
            continue;
        }
        hrf_floats_from(type, (uint16_t *)y + first, floats, count);
        hrf_cpu_activate(&spec->attributes, floats, count);
        hrf_floats_to(type, floats, (uint16_t *)y + first, count);
    }
}

static enum hrf_status conv_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    struct conv_kernel *kernel = (struct conv_kernel *)base;
    const struct hrf_spec *spec = kernel->spec;
    const char *name = spec->name;
    place_residual(kernel, call);
    void *input = (void *)(uintptr_t)hrf_spec_data(spec, call, HRF_CONV_X); /* it is only read */
    HRF_CHECK_DNNL(dnnl_memory_set_data_handle(kernel->src, input), name, "input");
    HRF_CHECK_DNNL(dnnl_memory_set_data_handle(kernel->dst, call->output), name, "output");
    HRF_CHECK_DNNL(dnnl_memory_set_data_handle(kernel->scratchpad, call->workspace), name,
                   "scratch");
    dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, kernel->src },
                               { DNNL_ARG_WEIGHTS, kernel->weights },
                               { DNNL_ARG_DST, kernel->dst },
                               { DNNL_ARG_SCRATCHPAD, kernel->scratchpad },
                               { DNNL_ARG_BIAS, kernel->bias } };
    int n_args = kernel->bias != NULL ? 5 : 4;
    HRF_CHECK_DNNL(dnnl_primitive_execute(kernel->primitive, kernel->backend->stream, n_args, args),
                   name, "running it");
    HRF_CHECK_DNNL(dnnl_stream_wait(kernel->backend->stream), name, "running it");
    if (activates_apart(kernel))
        conv_activate(spec, call->output);
    return HRF_OK;
}

static void conv_destroy(struct hrf_kernel *base)
{
    struct conv_kernel *kernel = (struct conv_kernel *)base;
    hrf_dnnl_destroy_memory(kernel->src);
    hrf_dnnl_destroy_memory(kernel->weights);
    hrf_dnnl_destroy_memory(kernel->bias);
    hrf_dnnl_destroy_memory(kernel->dst);
    hrf_dnnl_destroy_memory(kernel->scratchpad);
    if (kernel->primitive != NULL)
        dnnl_primitive_destroy(kernel->primitive);
    hrf_free(kernel->packed);
    hrf_requantize_destroy(kernel->requantize);
    hrf_spec_destroy(kernel->spec);
    hrf_free(kernel);
}

static enum hrf_status conv_build(struct conv_kernel *kernel, struct hrf_error *err)
{
    struct conv_shapes shapes;
    dnnl_primitive_desc_t desc = NULL;
    HRF_TRY(conv_describe(kernel->spec, &shapes, err));
    HRF_CHECK_DNNL(make_descriptor(kernel, &shapes, &desc), kernel->spec->name, "convolution");
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    enum hrf_status status = make_memories(kernel, &shapes, desc, err);
    if (status == HRF_OK)
        status = pack_weights(kernel, &shapes, wanted, err);
    if (status == HRF_OK) {
        dnnl_status_t created = dnnl_primitive_create(&kernel->primitive, desc);
        if (created != dnnl_success)
            status = hrf_dnnl_error(err, created, kernel->spec->name, "convolution");
    }
    dnnl_primitive_desc_destroy(desc);
    return status;
}

static enum hrf_status conv_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    struct conv_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    kernel->base.run = conv_run;
    kernel->base.destroy = conv_destroy;
    HRF_AUTO(hrf_kernel) owned = &kernel->base;
    kernel->backend = backend;
    HRF_TRY(hrf_spec_create(graph, node, &kernel->spec, err));
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        kernel->requantize = hrf_requantize_create(kernel->spec);
    if (node->op == HRF_OP_GEMM)
        view_as_convolution(kernel->spec);
    HRF_TRY(conv_build(kernel, err));
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

const char *hrf_cpu_conv_transpose_misfit(const struct hrf_graph *graph,
                                          const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        const int64_t reach = (x->dims[2 + i] - 1) * w->stride[i] +
                              (w->kernel[i] - 1) * w->dilation[i] + 1 - w->pad_begin[i];
        if (y->dims[2 + i] - reach >= w->stride[i])
            return "the output is padded by a stride or more beyond the last window (device ref "
                   "computes that)";
    }
    return NULL;
}

bool hrf_cpu_conv_half_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const int isa = hrf_cpu_isa(), bf16 = (int)dnnl_cpu_isa_avx512_core_bf16;
    if ((node->op != HRF_OP_CONV && node->op != HRF_OP_CONV_TRANSPOSE) ||
        !hrf_cpu_comes_at_run_time(graph, node) || (isa & bf16) != bf16 ||
        graph->values[node->inputs[HRF_CONV_X]].dtype != HRF_B16)
        return false;
    if (!hrf_node_has_input(node, HRF_CONV_RESIDUAL))
        return true;
    return graph->values[node->outputs[0]].dtype == HRF_B16; /* it is summed in place */
}

double hrf_cpu_native_speed(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (!hrf_cpu_conv_half_fits(graph, node))
        return 1;
    return hrf_cpu_isa() == (int)dnnl_cpu_isa_avx512_core_amx ? HRF_CPU_AMX_SPEED : 2;
}

/* True if oneDNN's sums of products are exact: without VNNI it adds pairs of products in 16
 * bits. */
static bool sums_exactly(void)
{
    switch (hrf_cpu_isa()) {
    case dnnl_cpu_isa_avx2_vnni:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16:
    case dnnl_cpu_isa_avx512_core_amx:
        return true;
    default:
        return false;
    }
}

/* True if windows leave gaps. oneDNN 2.6's 8-bit transposed convolution then gives wrong results
 * (seen with kernel 1 x 2, stride 3). */
static bool has_gaps(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        const int64_t reach = (x->dims[2 + i] - 1) * w->stride[i] + w->kernel[i] - w->pad_begin[i];
        if (w->dilation[i] > 1 || w->kernel[i] < w->stride[i] || y->dims[2 + i] > reach)
            return true;
    }
    return false;
}

/* True if some windows lie entirely in the padding. oneDNN 2.6's 8-bit convolution for AMX then
 * reads outside its input (seen with kernel 1 x 1, stride 3, 2 rows of padding after 2 rows). */
static bool sees_padding_alone(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        if ((w->kernel[i] - 1) * w->dilation[i] < w->pad_begin[i] ||
            (y->dims[2 + i] - 1) * w->stride[i] - w->pad_begin[i] >= x->dims[2 + i])
            return true;
    return false;
}

/* True for groups whose channels do not fill a register, of an input with a zero point: oneDNN
 * computes them by gemm_s8u8s32, which gives wrong results (seen with 3 groups of 31 and of 35
 * channels). */
static bool has_odd_groups(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const int64_t n_groups = node->attributes.group;
    return n_groups > 1 && graph->values[node->inputs[HRF_CONV_X]].quantization.zero_point != 0 &&
           (w->dims[1] % 16 != 0 || w->dims[0] / n_groups % 16 != 0);
}

/* True for groups of one input channel whose weights have 8 taps and 8 output channels: oneDNN 2.6
 * packs them in a wrong order (seen with 4 groups of 2, windows of 2 x 4). */
static bool mixes_up_weights(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    return node->attributes.group > 1 && w->dims[0] == 8 && w->dims[1] == 1 &&
           w->dims[2] * w->dims[3] == 8;
}

static const char *integer_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (!sums_exactly())
        return "oneDNN adds pairs of products in 16 bits on this processor";
    if (!hrf_cpu_comes_at_run_time(graph, node))
        return "its image or residual is a constant";
    if (node->op == HRF_OP_CONV_TRANSPOSE && has_gaps(graph, node))
        return "oneDNN is wrong where windows leave gaps";
    if (node->op == HRF_OP_CONV && sees_padding_alone(graph, node))
        return "oneDNN is wrong where windows see padding alone";
    if (node->op == HRF_OP_CONV && (has_odd_groups(graph, node) || mixes_up_weights(graph, node)))
        return "oneDNN is wrong in groups of such sizes";
    return NULL;
}

static const char *conv_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_node_form(graph, node) == HRF_FORM_HALF && hrf_cpu_native_speed(graph, node) <= 1
               ? "this processor multiplies no such numbers"
               : NULL;
}

static const char *transposed_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const char *reason = hrf_cpu_conv_transpose_misfit(graph, node);
    if (reason == NULL && hrf_node_form(graph, node) == HRF_FORM_HALF &&
        !hrf_cpu_conv_half_fits(graph, node))
        return "this processor multiplies no such numbers";
    return reason;
}

const struct hrf_kernel_row hrf_cpu_onednn_integer = {
    .name = "oneDNN int8",
    HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_CONV_TRANSPOSE, HRF_OP_GEMM),
    .forms = HRF_FORM_INTEGER,
    .misfit = integer_misfit,
    .compile = conv_compile,
};

const struct hrf_kernel_row hrf_cpu_onednn = {
    .name = "oneDNN",
    HRF_ROW_OPS(HRF_OP_CONV),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .misfit = conv_misfit,
    .compile = conv_compile,
};

const struct hrf_kernel_row hrf_cpu_onednn_transposed = {
    .name = "oneDNN transposed",
    HRF_ROW_OPS(HRF_OP_CONV_TRANSPOSE),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .misfit = transposed_misfit,
    .compile = conv_compile,
};
