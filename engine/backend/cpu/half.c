/* half.c - operators on 16-bit floats by the kernel for float32: widen, run, narrow.
 *
 * Images are processed a few at a time if the operator allows it: float32 copies of a whole batch
 * would take more memory than 16-bit floats save, and would not stay in the caches. */
#include "engine/backend/cpu/narrow_floats.h"
#include "engine/backend/cpu/plain/plain.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"

#include <string.h>

struct half_kernel {
    struct hrf_kernel base;
    struct hrf_kernel *inner; /* the same node in float32; NULL for CAST */
    char implementation[64];
    int64_t n_groups; /* of images, run one after the other */
    int32_t n_inputs;
    enum hrf_dtype *types; /* [n_inputs]: NONE for inputs that do not come at run time */
    int64_t *counts;       /* [n_inputs] elements of a group */
    enum hrf_dtype out_type;
    int64_t out_count;     /* of a group */
    const void **pointers; /* [n_inputs], for the inner call */
};

enum { PIECE = 1 << 14 };

/* The most bytes of a group's float32 copies: about one or two L2 caches. */
enum { GROUP_BYTES = 4 << 20 };

static void convert(enum hrf_dtype from_type, const void *from, enum hrf_dtype to_type, void *to,
                    int64_t n)
{
    const int64_t from_size = (int64_t)hrf_dtype_size(from_type);
    const int64_t to_size = (int64_t)hrf_dtype_size(to_type);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t count = n - first < PIECE ? n - first : PIECE;
        const void *in = (const char *)from + first * from_size;
        void *out = (char *)to + first * to_size;
        if (to_type == HRF_F32)
            hrf_cpu_widen(from_type, in, out, count);
        else if (from_type == HRF_F32)
            hrf_cpu_narrow(to_type, in, out, count);
    }
}

static size_t padded(int64_t n_floats)
{
    return hrf_buffer_aligned((size_t)n_floats * sizeof(float));
}

static enum hrf_status run_group(struct half_kernel *k, const struct hrf_kernel_call *call,
                                 int64_t group, struct hrf_error *err)
{
    char *at = (char *)call->workspace + hrf_buffer_aligned(k->inner->workspace_bytes);
    char *out = (char *)call->output + group * k->out_count * (int64_t)hrf_dtype_size(k->out_type);
    struct hrf_kernel_call inner = { .inputs = k->pointers,
                                     .output = out,
                                     .workspace = call->workspace };
    for (int32_t i = 0; i < k->n_inputs; i++) {
        k->pointers[i] = call->inputs[i];
        if (k->types[i] == HRF_DTYPE_NONE)
            continue;
        const char *in = (const char *)call->inputs[i] +
                         group * k->counts[i] * (int64_t)hrf_dtype_size(k->types[i]);
        k->pointers[i] = in;
        if (!hrf_dtype_is_half(k->types[i]))
            continue;
        convert(k->types[i], in, HRF_F32, at, k->counts[i]);
        k->pointers[i] = at;
        at += padded(k->counts[i]);
    }
    if (k->out_type != HRF_F32)
        inner.output = at;
    HRF_TRY(k->inner->run(k->inner, &inner, err));
    if (k->out_type != HRF_F32)
        convert(HRF_F32, at, k->out_type, out, k->out_count);
    return HRF_OK;
}

static enum hrf_status half_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    struct half_kernel *k = (struct half_kernel *)base;
    for (int64_t group = 0; group < k->n_groups; group++)
        HRF_TRY(run_group(k, call, group, err));
    return HRF_OK;
}

static enum hrf_status run_cast(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    (void)err;
    const struct half_kernel *k = (const struct half_kernel *)base;
    convert(k->types[0], call->inputs[0], k->out_type, call->output, k->out_count);
    return HRF_OK;
}

static void half_destroy(struct hrf_kernel *base)
{
    struct half_kernel *k = (struct half_kernel *)base;
    hrf_kernel_destroy(k->inner);
    hrf_free(k->types);
    hrf_free(k->counts);
    hrf_free(k->pointers);
    hrf_free(k);
}

/* True if each image's result depends on that image and constants alone. */
static bool works_by_image(enum hrf_op op)
{
    const enum hrf_region region = hrf_op_info(op)->region;
    return (region == HRF_REGION_POINT && op != HRF_OP_CAST) || region == HRF_REGION_WINDOW ||
           region == HRF_REGION_WINDOW_BACK || region == HRF_REGION_SPREAD ||
           region == HRF_REGION_SUM;
}

/* What is float32 beside halves is divided where that changes no sum of a kernel's. */
static bool is_image(enum hrf_op op, const struct hrf_value *value, int64_t n_images)
{
    const enum hrf_region region = hrf_op_info(op)->region;
    const bool adds = region != HRF_REGION_POINT && region != HRF_REGION_WINDOW_BACK;
    return (hrf_dtype_is_half(value->dtype) || !adds) && value->shape.rank == 4 &&
           value->shape.dims[0] == n_images;
}

/* The number of images to widen at a time, a divisor of the batch. */
static int64_t images_at_once(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const int64_t n_images = y->shape.rank > 0 ? y->shape.dims[0] : 1;
    int64_t n_floats = hrf_shape_count(&y->shape);
    if (!works_by_image(node->op) || !is_image(node->op, y, n_images))
        return n_images;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0)
            continue;
        const struct hrf_value *x = &graph->values[node->inputs[i]];
        const bool is_constant = x->data != NULL;
        /* A constant image belongs to the batch as a whole. */
        if (is_constant && hrf_op_role(node->op, i) == HRF_INPUT_DATA)
            return n_images;
        if (!is_constant && !is_image(node->op, x, n_images))
            return n_images;
        n_floats += is_constant ? 0 : hrf_shape_count(&x->shape);
    }
    int64_t most = n_images * GROUP_BYTES / (n_floats * (int64_t)sizeof(float) + 1);
    most = most < 1 ? 1 : most > n_images ? n_images : most;
    while (n_images % most != 0)
        most--;
    return most;
}

/* Makes a graph of the node alone, with run-time values of float32 and n_images images. */
static enum hrf_status half_widen(const struct hrf_graph *graph, const struct hrf_node *node,
                                  int64_t n_images, struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) wide = NULL;
    HRF_TRY(hrf_graph_create(node->name, &wide, err));
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    for (int32_t i = 0; i <= node->n_inputs; i++) {
        const int32_t index = i < node->n_inputs ? node->inputs[i] : node->outputs[0];
        inputs[i] = index;
        if (index < 0)
            continue;
        const struct hrf_value *value = &graph->values[index];
        struct hrf_shape shape = value->shape;
        if (value->data == NULL && n_images > 0)
            shape.dims[0] = n_images;
        HRF_TRY(hrf_graph_add_value(wide, value->name, value->data != NULL ? value->dtype : HRF_F32,
                                    &shape, value->data, &inputs[i], err));
    }
    HRF_TRY(hrf_graph_add_node(wide, node->op, node->name, inputs, node->n_inputs,
                               &inputs[node->n_inputs], 1, &node->attributes, err));
    HRF_MOVE(*out, wide);
    return HRF_OK;
}

static void note_inputs(const struct hrf_graph *graph, const struct hrf_node *node,
                        struct half_kernel *k)
{
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0 || graph->values[node->inputs[i]].data != NULL)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        k->types[i] = value->dtype;
        k->counts[i] = hrf_shape_count(&value->shape) / k->n_groups;
        if (value->dtype != HRF_F32)
            k->base.workspace_bytes += padded(k->counts[i]);
    }
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    k->out_type = y->dtype;
    k->out_count = hrf_shape_count(&y->shape) / k->n_groups;
    if (y->dtype != HRF_F32)
        k->base.workspace_bytes += padded(k->out_count);
}

static enum hrf_status compile_inner(struct hrf_backend *backend, const struct hrf_graph *graph,
                                     const struct hrf_node *node, struct half_kernel *k,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) wide = NULL;
    /* 0: whole tensors, whatever their first dimension is. */
    const int64_t n_images = k->n_groups > 1 ? images_at_once(graph, node) : 0;
    HRF_TRY(half_widen(graph, node, n_images, &wide, err));
    HRF_TRY(hrf_kernel_compile(&hrf_cpu_kernels, backend, wide, &wide->nodes[0], &k->inner, err));
    k->base.workspace_bytes += hrf_buffer_aligned(k->inner->workspace_bytes);
    k->base.weight_bytes = k->inner->weight_bytes;
    const char *prefix = k->out_type == HRF_F16 ? "f16 in " : "bf16 in ";
    size_t n = strlen(prefix), m = strlen(k->inner->implementation);
    m = n + m < sizeof k->implementation ? m : sizeof k->implementation - 1 - n;
    memcpy(k->implementation, prefix, n);
    memcpy(k->implementation + n, k->inner->implementation, m);
    k->base.implementation = k->implementation;
    return HRF_OK;
}

enum hrf_status hrf_half_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                 const struct hrf_graph *graph, const struct hrf_node *node,
                                 struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    struct half_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = half_run, .destroy = half_destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->n_inputs = node->n_inputs;
    k->types = hrf_calloc((size_t)node->n_inputs, sizeof *k->types);
    k->counts = hrf_calloc((size_t)node->n_inputs, sizeof *k->counts);
    k->pointers = hrf_calloc((size_t)node->n_inputs, sizeof *k->pointers);
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->n_groups = y->rank > 0 && y->dims[0] > 0 ? y->dims[0] / images_at_once(graph, node) : 1;
    note_inputs(graph, node, k);
    if (node->op == HRF_OP_CAST) {
        k->base.run = run_cast;
        k->base.workspace_bytes = 0;
    } else {
        HRF_TRY(compile_inner(backend, graph, node, k, err));
    }
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
