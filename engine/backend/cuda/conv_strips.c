/* conv_strips.c - a convolution that no engine computes as a whole, because of its prologue or of
 * its size (2^31 numbers and more in fp32), in strips of the image (strips.h). With a prologue they
 * go through it into the workspace, so that the activated image is never there as a whole; without
 * one they are read where they are, but for those that reach over the image's border.
 */
#include "engine/backend/cuda/conv_strips.h"

#include "engine/backend/cuda/cuda_private.h"

#include <stdio.h>

enum { ALIGNMENT = 16 /* of cuDNN's tensors */ };

struct strips_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_kernel *inner;    /* of one strip */
    struct hrf_strips at;
    float *factors, *shifts; /* [channels], on the device; NULL: no prologue */
    struct hrf_k_epilogue activation;
    enum hrf_dtype type;
    size_t row_bytes;                        /* of the image */
    size_t out_unit, residual_unit;          /* bytes of an image or a row */
    size_t inner_at, output_at, residual_at; /* into the workspace: the strip stands first */
    bool is_output_aside, is_residual_aside; /* each time: units that cuDNN takes no pointer to */
    char *name;
    char implementation[64];
};

/* ---- running ---- */

static cudaError_t conv_strips_copy(const struct strips_kernel *k, void *to, const void *from,
                                    size_t n_bytes)
{
    return cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDeviceToDevice, k->backend->device->stream);
}

static cudaError_t clear(const struct strips_kernel *k, char *to, int64_t n_rows)
{
    return n_rows > 0
               ? cudaMemsetAsync(to, 0, (size_t)n_rows * k->row_bytes, k->backend->device->stream)
               : cudaSuccess;
}

/* Rows through the prologue, or as they are. */
static cudaError_t fill_rows(const struct strips_kernel *k, const char *x, int64_t n, char *to)
{
    const struct hrf_operand pixels = { .dtype = k->type };
    if (k->factors == NULL)
        return conv_strips_copy(k, to, x, (size_t)n * k->row_bytes);
    return hrf_k_affine(hrf_cuda_array(&pixels, to), hrf_cuda_array(&pixels, x), k->factors,
                        k->shifts, n * k->at.columns, k->at.channels, 1, &k->activation,
                        k->backend->device->stream);
}

/* Rows [begin, begin + n) of an image of `rows` at x; those outside of it are zeros. */
static cudaError_t conv_strips_fill(const struct strips_kernel *k, const char *x, int64_t rows,
                                    int64_t begin, int64_t n, char *to)
{
    const int64_t first = begin > 0 ? begin : 0;
    const int64_t end = begin + n < rows ? begin + n : rows;
    cudaError_t status = clear(k, to, first - begin);
    if (status == cudaSuccess)
        status = clear(k, to + (size_t)(end - begin) * k->row_bytes, begin + n - end);
    if (status != cudaSuccess)
        return status;
    return fill_rows(k, x + (size_t)first * k->row_bytes, end - first,
                     to + (size_t)(first - begin) * k->row_bytes);
}

/* Where the convolution reads the strip. */
static cudaError_t find_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                              int64_t image, int64_t first, const void **out)
{
    const struct hrf_strips *s = &k->at;
    const int64_t rows = s->by_images ? s->size * s->rows : s->rows;
    const int64_t begin = s->by_images ? 0 : first * s->stride - s->pad;
    const int64_t n = s->by_images ? rows : s->in_rows;
    const char *x = (const char *)call->inputs[HRF_CONV_X] +
                    (size_t)((s->by_images ? first : image) * s->rows) * k->row_bytes;
    const bool is_inside = begin >= 0 && begin + n <= rows;
    *out = call->workspace;
    if (k->factors != NULL || !is_inside || k->row_bytes % ALIGNMENT != 0)
        return conv_strips_fill(k, x, rows, begin, n, call->workspace);
    *out = x + (size_t)begin * k->row_bytes;
    return cudaSuccess;
}

/* The residual of a strip's units, where the convolution can read it. */
static cudaError_t find_residual(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                                 int64_t unit, const void **out)
{
    char *aside = (char *)call->workspace + k->residual_at;
    *out = NULL;
    if (k->residual_unit == 0)
        return cudaSuccess;
    *out = (const char *)call->inputs[HRF_CONV_RESIDUAL] + (size_t)unit * k->residual_unit;
    if (!k->is_residual_aside)
        return cudaSuccess;
    const void *from = *out;
    *out = aside;
    return conv_strips_copy(k, aside, from, (size_t)k->at.size * k->residual_unit);
}

/* Units [first, first + size) of `image`, of which those before `fresh` are done. */
static enum hrf_status run_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                                 int64_t image, int64_t first, int64_t fresh, struct hrf_error *err)
{
    const int64_t unit = k->at.by_images ? first : image * k->at.n_units + first;
    const bool is_aside = k->is_output_aside || first != fresh;
    char *work = call->workspace, *out = (char *)call->output + (size_t)unit * k->out_unit;
    const void *inputs[HRF_CONV_N_INPUTS] = { NULL };
    const struct hrf_kernel_call inner = { .inputs = inputs,
                                           .output = is_aside ? work + k->output_at : out,
                                           .workspace = work + k->inner_at };
    HRF_TRY_CUDA(find_residual(k, call, unit, &inputs[HRF_CONV_RESIDUAL]), "a strip's residual");
    HRF_TRY_CUDA(find_strip(k, call, image, first, &inputs[HRF_CONV_X]), "a strip of an image");
    HRF_TRY(k->inner->run(k->inner, &inner, err));
    if (!is_aside)
        return HRF_OK;
    const size_t done = (size_t)(fresh - first) * k->out_unit;
    HRF_TRY_CUDA(conv_strips_copy(k, out + done, work + k->output_at + done,
                                  (size_t)k->at.size * k->out_unit - done),
                 "a strip's result");
    return HRF_OK;
}

static enum hrf_status conv_strips_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                       struct hrf_error *err)
{
    const struct strips_kernel *k = (const struct strips_kernel *)base;
    enum hrf_status status = HRF_OK;
    for (int64_t image = 0; image < (k->at.by_images ? 1 : k->at.n) && status == HRF_OK; image++)
        for (int64_t fresh = 0; fresh < k->at.n_units && status == HRF_OK; fresh += k->at.size) {
            const int64_t last = k->at.n_units - k->at.size;
            status = run_strip(k, call, image, fresh < last ? fresh : last, fresh, err);
        }
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "node '%s'", k->name);
}

static void conv_strips_destroy(struct hrf_kernel *base)
{
    struct strips_kernel *k = (struct strips_kernel *)base;
    hrf_kernel_destroy(k->inner);
    hrf_cuda_release(k->factors);
    hrf_cuda_release(k->shifts);
    hrf_free(k->name);
    hrf_free(k);
}

/* ---- making one ---- */

static enum hrf_status upload_prologue(struct strips_kernel *k, const struct hrf_graph *graph,
                                       const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_attributes as_epilogue = { .activation = node->attributes.prologue.activation,
                                                .activation_min = node->attributes.prologue.low,
                                                .activation_max = node->attributes.prologue.high,
                                                .alpha = node->attributes.prologue.slope };
    const size_t n_bytes = (size_t)k->at.channels * sizeof(float);
    void *factors = NULL, *shifts = NULL;
    if (!hrf_node_has_prologue(node))
        return HRF_OK;
    k->activation = hrf_cuda_epilogue(&as_epilogue);
    HRF_TRY(hrf_cuda_upload(k->backend->device, graph->values[node->inputs[HRF_CONV_FACTORS]].data,
                            n_bytes, &factors, err));
    k->factors = factors;
    HRF_TRY(hrf_cuda_upload(k->backend->device, graph->values[node->inputs[HRF_CONV_SHIFTS]].data,
                            n_bytes, &shifts, err));
    k->shifts = shifts;
    return HRF_OK;
}

static void take_sizes(struct strips_kernel *k, const struct hrf_graph *graph,
                       const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const size_t size = hrf_dtype_size(k->type);
    const int64_t per_row = y->shape.dims[1] * y->shape.dims[3];
    const size_t numbers = (size_t)(k->at.by_images ? per_row * k->at.out_rows : per_row);
    k->row_bytes = (size_t)(k->at.columns * k->at.channels) * size;
    k->out_unit = numbers * hrf_dtype_size(y->dtype);
    if (node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0)
        k->residual_unit = numbers *
                           hrf_dtype_size(graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype);
    k->inner_at = hrf_buffer_aligned((size_t)hrf_strips_elements(&k->at) * size);
    k->output_at = k->inner_at + hrf_buffer_aligned(k->inner->workspace_bytes);
    k->residual_at = k->output_at;
    k->is_output_aside = k->out_unit % ALIGNMENT != 0;
    k->is_residual_aside = k->residual_unit % ALIGNMENT != 0;
    if (k->is_output_aside || k->at.n_units % k->at.size != 0)
        k->residual_at += hrf_buffer_aligned((size_t)k->at.size * k->out_unit);
    k->base.workspace_bytes = k->residual_at;
    if (k->is_residual_aside)
        k->base.workspace_bytes += hrf_buffer_aligned((size_t)k->at.size * k->residual_unit);
    k->base.weight_bytes = k->inner->weight_bytes;
    if (k->factors != NULL)
        k->base.weight_bytes += 2 * (size_t)k->at.channels * sizeof(float);
}

enum hrf_status hrf_cuda_strips_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                        const struct hrf_node *node, struct hrf_kernel **out,
                                        struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) strip = NULL;
    struct strips_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = conv_strips_run, .destroy = conv_strips_destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    k->type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    k->name = hrf_strdup(node->name);
    HRF_TRY(hrf_cuda_strips_graph(graph, node, hrf_cuda_strip_bytes(backend->device->memory_bytes),
                                  &k->at, &strip, err));
    HRF_TRY(upload_prologue(k, graph, node, err));
    HRF_TRY(hrf_cuda_conv_compile(backend, strip, &strip->nodes[0], &k->inner, err));
    take_sizes(k, graph, node);
    snprintf(k->implementation, sizeof k->implementation, "strips of %.48s",
             k->inner->implementation);
    k->base.implementation = k->implementation;
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
