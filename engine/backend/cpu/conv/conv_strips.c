/* conv_strips.c - a convolution with a prologue, by kernels without one: strips (strips.h) of the
 * image pass through the prologue into the workspace and stay in the caches. 16-bit pixels are
 * widened on the way unless the kernel multiplies them directly.
 */
#include "engine/backend/cpu/conv/prologue.h"
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/strips.h"
#include "engine/ir/number.h"

#include <string.h>

enum {
    STRIP_BYTES = 1 << 20, /* of input per thread: the size of an L2 cache */
    STRIP_ROWS = 2,        /* of output at least, per thread */
};

struct strips_kernel {
    struct hrf_kernel base;
    struct hrf_kernel *inner; /* computes one strip */
    struct hrf_cpu_prologue prologue;
    struct hrf_strips at;
    enum hrf_dtype type, strip_type;
    size_t out_unit, residual_unit; /* bytes of an image or a row */
    size_t output_at; /* in the workspace: after the strip and the inner kernel's scratch */
    bool has_residual;
    char implementation[96];
};

static size_t strip_bytes(const struct strips_kernel *k)
{
    return (size_t)hrf_strips_elements(&k->at) * hrf_dtype_size(k->strip_type);
}

/* ---- running ---- */

/* Passes one row of the image through the prologue; NULL: a row outside the image, which becomes
 * zeros. */
static void fill_row(const struct strips_kernel *k, const char *row, char *to)
{
    const int64_t channels = k->at.channels, n = k->at.columns * channels;
    const float *x = (const float *)(const void *)row;
    float *floats = (float *)(void *)to;
    if (row == NULL) {
        memset(to, 0, (size_t)n * hrf_dtype_size(k->strip_type));
        return;
    }
#ifdef HRF_BUILD_AVX512 /* without it a strip is always float32 */
    if (k->strip_type == HRF_B16) {
        hrf_prologue_b16_lines_avx512(&k->prologue, (const uint16_t *)(const void *)row,
                                      (uint16_t *)(void *)to, channels, channels, k->at.columns);
        return;
    }
#endif
    if (k->type != HRF_F32) {
        hrf_floats_from(k->type, row, floats, n);
        x = floats;
    }
    hrf_cpu_prologue_lines(&k->prologue, x, floats, channels, channels, k->at.columns);
}

/* Fills the strip that begins at row `begin` of `image`; rows outside the image become zeros. */
static void fill_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                       int64_t image, int64_t begin)
{
    const int64_t per_row = k->at.columns * k->at.channels;
    const size_t row_bytes = (size_t)per_row * hrf_dtype_size(k->type);
    const size_t to_bytes = (size_t)per_row * hrf_dtype_size(k->strip_type);
    const char *x = (const char *)call->inputs[HRF_CONV_X] +
                    (size_t)(image * k->at.rows) * row_bytes;
    char *to = call->workspace;
    const int64_t n = k->at.by_images ? k->at.size * k->at.rows : k->at.in_rows;
    const int64_t most = k->at.by_images ? n : k->at.rows;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = begin + i;
        fill_row(k, y >= 0 && y < most ? x + (size_t)y * row_bytes : NULL,
                 to + (size_t)i * to_bytes);
    }
}

/* Computes units [first, first + size) of `image`, of which those before `fresh` are already
 * done. */
static enum hrf_status run_strip(const struct strips_kernel *k, const struct hrf_kernel_call *call,
                                 int64_t image, int64_t first, int64_t fresh, struct hrf_error *err)
{
    const int64_t unit = k->at.by_images ? first : image * k->at.n_units + first;
    char *work = call->workspace, *out = (char *)call->output + (size_t)unit * k->out_unit;
    const char *residual = k->has_residual ? call->inputs[HRF_CONV_RESIDUAL] : NULL;
    char *aside = work + k->output_at;
    const void *inputs[HRF_CONV_N_INPUTS] = { work };
    if (residual != NULL)
        inputs[HRF_CONV_RESIDUAL] = residual + (size_t)unit * k->residual_unit;
    fill_strip(k, call, k->at.by_images ? first : image,
               k->at.by_images ? 0 : first * k->at.stride - k->at.pad);
    const struct hrf_kernel_call inner = { .inputs = inputs,
                                           .output = first == fresh ? out : aside,
                                           .workspace = work + hrf_buffer_aligned(strip_bytes(k)) };
    HRF_TRY(k->inner->run(k->inner, &inner, err));
    if (first != fresh) {
        const size_t done = (size_t)(fresh - first) * k->out_unit;
        memcpy(out + done, aside + done, (size_t)k->at.size * k->out_unit - done);
    }
    return HRF_OK;
}

static enum hrf_status conv_strips_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                       struct hrf_error *err)
{
    const struct strips_kernel *k = (const struct strips_kernel *)base;
    for (int64_t image = 0; image < (k->at.by_images ? 1 : k->at.n); image++)
        for (int64_t fresh = 0; fresh < k->at.n_units; fresh += k->at.size) {
            const int64_t last = k->at.n_units - k->at.size;
            HRF_TRY(run_strip(k, call, image, fresh < last ? fresh : last, fresh, err));
        }
    return HRF_OK;
}

static void conv_strips_destroy(struct hrf_kernel *base)
{
    struct strips_kernel *k = (struct strips_kernel *)base;
    hrf_kernel_destroy(k->inner);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

/* ---- compiling ---- */

static void conv_strips_describe(struct strips_kernel *k, const struct hrf_graph *graph,
                                 const struct hrf_node *node, int32_t n_threads)
{
    hrf_strips_choose(graph, node, (int64_t)(STRIP_BYTES / sizeof(float)) * n_threads,
                      (int64_t)STRIP_ROWS * n_threads, &k->at);
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    k->type = x->dtype;
    k->strip_type = hrf_cpu_conv_half_fits(graph, node) && hrf_cpu_has_avx512_bf16() ? x->dtype
                                                                                     : HRF_F32;
    k->has_residual = node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

static void take_sizes(struct strips_kernel *k, const struct hrf_graph *graph,
                       const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const int64_t per_row = y->shape.dims[1] * y->shape.dims[3];
    const size_t numbers = (size_t)(k->at.by_images ? per_row * k->at.out_rows : per_row);
    k->out_unit = numbers * hrf_dtype_size(y->dtype);
    if (k->has_residual)
        k->residual_unit = numbers *
                           hrf_dtype_size(graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype);
    k->output_at = hrf_buffer_aligned(strip_bytes(k)) +
                   hrf_buffer_aligned(k->inner->workspace_bytes);
    k->base.workspace_bytes = k->output_at;
    if (k->at.n_units % k->at.size != 0)
        k->base.workspace_bytes += hrf_buffer_aligned((size_t)k->at.size * k->out_unit);
    k->base.weight_bytes = k->inner->weight_bytes + 2 * (size_t)k->at.channels * sizeof(float);
}

static const char *conv_strips_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (!hrf_node_has_prologue(node))
        return "it has no prologue";
    return hrf_cpu_comes_at_run_time(graph, node) &&
                   hrf_cpu_constant(graph, node, HRF_CONV_WEIGHTS) != NULL
               ? NULL
               : "its image or residual is a constant, or its weights are none";
}

static enum hrf_status conv_strips_compile(const struct hrf_kernel_row *row,
                                           struct hrf_backend *backend,
                                           const struct hrf_graph *graph,
                                           const struct hrf_node *node, struct hrf_kernel **out,
                                           struct hrf_error *err)
{
    (void)row;
    static const char prefix[] = "strips of ";
    HRF_AUTO(hrf_graph) strip = NULL;
    struct strips_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = conv_strips_run, .destroy = conv_strips_destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    conv_strips_describe(k, graph, node, backend->n_threads);
    hrf_cpu_prologue_init(&k->prologue, graph, node);
    HRF_TRY(hrf_strips_graph(&k->at, graph, node, k->strip_type, &strip, err));
    HRF_TRY(
        hrf_backend_compile(&hrf_backend_cpu, backend, strip, &strip->nodes[0], &k->inner, err));
    take_sizes(k, graph, node);
    const size_t n = sizeof prefix - 1, room = sizeof k->implementation - 1 - n;
    const size_t m = strlen(k->inner->implementation);
    memcpy(k->implementation, prefix, n);
    memcpy(k->implementation + n, k->inner->implementation, m < room ? m : room);
    k->base.implementation = k->implementation;
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

const struct hrf_kernel_row hrf_cpu_strips = {
    .name = "strips",
    HRF_ROW_OPS(HRF_OP_CONV),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .extras = HRF_TAKES_PROLOGUE,
    .misfit = conv_strips_misfit,
    .compile = conv_strips_compile,
};
