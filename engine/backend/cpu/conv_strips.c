/* conv_strips.c - a convolution with a prologue by kernels that have none: a few rows of the image
 * (or a few small images) at a time go through the prologue into the workspace, where they stay in
 * the caches, and the convolution of a strip of that size runs on them.
 *
 * All strips are of one size, so that one kernel with one copy of the weights does them all: where
 * they do not divide the rows, the last one reaches back over rows that are done, and its result is
 * made aside. Pixels of 16 bits are widened on the way unless the kernel multiplies them as they
 * are.
 */
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/prologue.h"
#include "engine/ir/number.h"

#include <omp.h>
#include <string.h>

enum {
    STRIP_BYTES = 1 << 20, /* of input, for each thread: what a second-level cache holds */
    STRIP_ROWS = 2,        /* of output at least, for each thread */
};

struct strips_kernel {
    struct hrf_kernel base;
    struct hrf_kernel *inner; /* of one strip */
    struct hrf_cpu_prologue prologue;
    int64_t n, rows, columns, channels, out_rows;
    int64_t stride, pad;   /* of rows */
    bool by_images;        /* a strip is whole images, pads as they are; else rows of one */
    int64_t size, n_units; /* images or output rows: of a strip, of all (by rows: of an image) */
    int64_t in_rows;       /* of a strip (by rows), those above and below the image included */
    enum hrf_dtype type, strip_type;
    size_t out_unit, residual_unit; /* bytes of an image or a row */
    size_t lines_at, output_at;     /* into the workspace: beyond the strip and the kernel's own */
    bool has_residual;
    char implementation[96];
};

static size_t padded(size_t n_bytes)
{
    return (n_bytes + HRF_BUFFER_ALIGNMENT - 1) / HRF_BUFFER_ALIGNMENT * HRF_BUFFER_ALIGNMENT;
}

static size_t strip_bytes(const struct strips_kernel *k)
{
    const int64_t rows = k->by_images ? k->size * k->rows : k->in_rows;
    return (size_t)(rows * k->columns * k->channels) * hrf_dtype_size(k->strip_type);
}

/* ---- running ---- */

/* One row of the image, or NULL for one outside of it, through the prologue. */
static void fill_row(const struct strips_kernel *k, const char *row, char *to, float *line)
{
    const int64_t n = k->columns * k->channels;
    const bool stays_narrow = k->strip_type != HRF_F32;
    float *floats = stays_narrow ? line : (float *)(void *)to;
    const float *x = (const float *)(const void *)row;
    if (row == NULL) {
        memset(to, 0, (size_t)n * hrf_dtype_size(k->strip_type));
        return;
    }
    if (k->type != HRF_F32) {
        hrf_floats_from(k->type, row, floats, n);
        x = floats;
    }
    hrf_cpu_prologue_lines(&k->prologue, x, floats, k->channels, k->channels, k->columns);
    if (stays_narrow)
        hrf_floats_to(k->strip_type, floats, to, n);
}

/* The strip whose first row would be `begin` of `image`; rows outside of it are zeros. */
static void fill_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                       int64_t image, int64_t begin)
{
    const int64_t per_row = k->columns * k->channels;
    const size_t row_bytes = (size_t)per_row * hrf_dtype_size(k->type);
    const size_t to_bytes = (size_t)per_row * hrf_dtype_size(k->strip_type);
    const char *x = (const char *)call->inputs[HRF_CONV_X] + (size_t)(image * k->rows) * row_bytes;
    char *to = call->workspace;
    const int64_t n = k->by_images ? k->size * k->rows : k->in_rows;
    const int64_t most = k->by_images ? n : k->rows;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = begin + i;
        float *line = (float *)(void *)(to + k->lines_at) + omp_get_thread_num() * per_row;
        fill_row(k, y >= 0 && y < most ? x + (size_t)y * row_bytes : NULL,
                 to + (size_t)i * to_bytes, line);
    }
}

/* Units [first, first + size) of `image`, of which those before `fresh` are done. */
static enum hrf_status run_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                                 int64_t image, int64_t first, int64_t fresh, struct hrf_error *err)
{
    const int64_t unit = k->by_images ? first : image * k->n_units + first;
    char *work = call->workspace, *out = (char *)call->output + (size_t)unit * k->out_unit;
    const char *residual = k->has_residual ? call->inputs[HRF_CONV_RESIDUAL] : NULL;
    char *aside = work + k->output_at;
    const void *inputs[HRF_CONV_N_INPUTS] = { work };
    if (residual != NULL)
        inputs[HRF_CONV_RESIDUAL] = residual + (size_t)unit * k->residual_unit;
    fill_strip(k, call, k->by_images ? first : image,
               k->by_images ? 0 : first * k->stride - k->pad);
    const struct hrf_kernel_call inner = { .inputs = inputs,
                                           .output = first == fresh ? out : aside,
                                           .workspace = work + padded(strip_bytes(k)) };
    HRF_TRY(k->inner->run(k->inner, &inner, err));
    if (first != fresh) {
        const size_t done = (size_t)(fresh - first) * k->out_unit;
        memcpy(out + done, aside + done, (size_t)k->size * k->out_unit - done);
    }
    return HRF_OK;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    const struct strips_kernel *k = (const struct strips_kernel *)base;
    for (int64_t image = 0; image < (k->by_images ? 1 : k->n); image++)
        for (int64_t fresh = 0; fresh < k->n_units; fresh += k->size) {
            const int64_t last = k->n_units - k->size;
            HRF_TRY(run_strip(k, call, image, fresh < last ? fresh : last, fresh, err));
        }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct strips_kernel *k = (struct strips_kernel *)base;
    hrf_kernel_destroy(k->inner);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

/* ---- making one ---- */

static void choose_strips(struct strips_kernel *k, const struct hrf_node *node, int64_t kernel_rows,
                          int32_t n_threads)
{
    const int64_t row_bytes = k->columns * k->channels * (int64_t)sizeof(float);
    const int64_t most = (int64_t)STRIP_BYTES * n_threads;
    const int64_t span = (kernel_rows - 1) * node->attributes.window.dilation[0] + 1;
    k->by_images = k->rows * row_bytes <= most;
    k->n_units = k->by_images ? k->n : k->out_rows;
    int64_t size = k->by_images ? most / (k->rows * row_bytes)
                                : (most / row_bytes - span) / k->stride + 1;
    const int64_t least = k->by_images ? 1 : (int64_t)STRIP_ROWS * n_threads;
    size = size < least ? least : size;
    size = size < k->n_units ? size : k->n_units;
    const int64_t n_strips = (k->n_units + size - 1) / size; /* as even as can be */
    k->size = (k->n_units + n_strips - 1) / n_strips;
    k->in_rows = (k->size - 1) * k->stride + span;
}

static struct hrf_shape strip_of(const struct strips_kernel *k, const struct hrf_shape *whole,
                                 int64_t rows)
{
    struct hrf_shape shape = *whole;
    shape.dims[0] = k->by_images ? k->size : 1;
    shape.dims[2] = k->by_images ? whole->dims[2] : rows;
    return shape;
}

/* The convolution of one strip, without its prologue. */
static enum hrf_status strip_graph(const struct strips_kernel *k, const struct hrf_graph *graph,
                                   const struct hrf_node *node, struct hrf_graph **out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) strip = NULL;
    int32_t inputs[HRF_CONV_N_INPUTS + 1]; /* and the output */
    HRF_TRY(hrf_graph_create(node->name, &strip, err));
    for (int32_t i = 0; i <= HRF_CONV_N_INPUTS; i++) {
        const bool is_output = i == HRF_CONV_N_INPUTS;
        inputs[i] = is_output ? node->outputs[0] : node->inputs[i];
        if (inputs[i] < 0)
            continue;
        const struct hrf_value *v = &graph->values[inputs[i]];
        const struct hrf_shape shape = v->data != NULL   ? v->shape
                                       : i == HRF_CONV_X ? strip_of(k, &v->shape, k->in_rows)
                                                         : strip_of(k, &v->shape, k->size);
        HRF_TRY(hrf_graph_add_value(strip, v->name, i == HRF_CONV_X ? k->strip_type : v->dtype,
                                    &shape, v->data, &inputs[i], err));
    }
    struct hrf_attributes attributes = node->attributes;
    if (!k->by_images)
        attributes.window.pad_begin[0] = attributes.window.pad_end[0] = 0;
    HRF_TRY(hrf_graph_add_node(strip, HRF_OP_CONV, node->name, inputs, HRF_CONV_N_INPUTS,
                               &inputs[HRF_CONV_N_INPUTS], 1, &attributes, err));
    *out = strip;
    strip = NULL;
    return HRF_OK;
}

static void describe(struct strips_kernel *k, const struct hrf_graph *graph,
                     const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    k->n = x->shape.dims[0];
    k->channels = x->shape.dims[1];
    k->rows = x->shape.dims[2];
    k->columns = x->shape.dims[3];
    k->out_rows = y->shape.dims[2];
    k->stride = node->attributes.window.stride[0];
    k->pad = node->attributes.window.pad_begin[0];
    k->type = x->dtype;
    k->strip_type = hrf_cpu_conv_half_fits(graph, node) ? x->dtype : HRF_F32;
    k->has_residual = node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

static void take_sizes(struct strips_kernel *k, const struct hrf_graph *graph,
                       const struct hrf_node *node, int32_t n_threads)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const int64_t per_row = y->shape.dims[1] * y->shape.dims[3];
    const size_t numbers = (size_t)(k->by_images ? per_row * k->out_rows : per_row);
    const size_t line = (size_t)(k->columns * k->channels) * sizeof(float);
    k->out_unit = numbers * hrf_dtype_size(y->dtype);
    if (k->has_residual)
        k->residual_unit = numbers *
                           hrf_dtype_size(graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype);
    k->lines_at = padded(strip_bytes(k)) + padded(k->inner->workspace_bytes);
    k->output_at = k->lines_at;
    if (k->strip_type != HRF_F32)
        k->output_at += padded((size_t)n_threads * line);
    k->base.workspace_bytes = k->output_at;
    if (k->n_units % k->size != 0)
        k->base.workspace_bytes += padded((size_t)k->size * k->out_unit);
    k->base.weight_bytes = k->inner->weight_bytes + 2 * (size_t)k->channels * sizeof(float);
}

enum hrf_status hrf_cpu_strips_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                       const struct hrf_node *node, struct hrf_kernel **out,
                                       struct hrf_error *err)
{
    static const char prefix[] = "strips of ";
    HRF_AUTO(hrf_graph) strip = NULL;
    struct strips_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    describe(k, graph, node);
    choose_strips(k, node, graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.dims[2],
                  backend->n_threads);
    HRF_TRY(hrf_cpu_prologue_init(&k->prologue, graph, node, err));
    HRF_TRY(strip_graph(k, graph, node, &strip, err));
    HRF_TRY(hrf_backend_cpu.compile(backend, strip, &strip->nodes[0], &k->inner, err));
    take_sizes(k, graph, node, backend->n_threads);
    const size_t n = sizeof prefix - 1, room = sizeof k->implementation - 1 - n;
    const size_t m = strlen(k->inner->implementation);
    memcpy(k->implementation, prefix, n);
    memcpy(k->implementation + n, k->inner->implementation, m < room ? m : room);
    k->base.implementation = k->implementation;
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
