/* gate.c - see gate.h. */
#include "engine/backend/cpu/conv/gate.h"

#include "engine/backend/cpu/conv/prologue.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"

enum { PART_BYTES = 64 * 1024 };

struct gate_kernel {
    struct hrf_kernel base;
    int64_t n_threads;
    int32_t image, factors; /* indices of the inputs */
    int64_t n_pixels;       /* of all images */
    int64_t part;           /* pixels */
    struct hrf_cpu_gate gate;
};

void hrf_cpu_gate_pixels(const struct hrf_cpu_gate *g, int64_t first, int64_t n, void *to,
                         int64_t to_stride)
{
    const int64_t size = (int64_t)hrf_dtype_size(g->type);
    char *y = to;
    while (n > 0) {
        const int64_t image = first / g->image_pixels, at = first % g->image_pixels;
        const int64_t count = hrf_min(n, g->image_pixels - at);
        hrf_gate_lines_avx512(g->type, g->x + first * g->channels * size,
                              g->factors + image * g->channels * size, y, to_stride, g->channels,
                              count);
        y += count * to_stride * size;
        first += count;
        n -= count;
    }
}

static struct hrf_cpu_gate gate_of(const struct gate_kernel *k, const struct hrf_kernel_call *call)
{
    struct hrf_cpu_gate gate = k->gate;
    gate.x = call->inputs[k->image];
    gate.factors = call->inputs[k->factors];
    return gate;
}

/* The state of a run. */
struct work {
    const struct gate_kernel *kernel;
    struct hrf_cpu_gate gate;
    char *y;
};

static void run_part(const void *context, int64_t i, int64_t before, void *scratch)
{
    const struct work *w = context;
    const struct gate_kernel *k = w->kernel;
    const int64_t first = i * k->part;
    (void)before;
    (void)scratch;
    hrf_cpu_gate_pixels(&w->gate, first, hrf_min(k->part, k->n_pixels - first),
                        w->y + first * w->gate.channels * (int64_t)hrf_dtype_size(w->gate.type),
                        w->gate.channels);
}

static enum hrf_status gate_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    const struct gate_kernel *k = (const struct gate_kernel *)base;
    const struct work work = { k, gate_of(k, call), call->output };
    (void)err;
    hrf_parts_run(call->workspace, k->n_threads, hrf_ceil_div(k->n_pixels, k->part), 0, run_part,
                  &work);
    return HRF_OK;
}

static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct gate_kernel *k = (const struct gate_kernel *)base;
    return pair->is_sole_reader && !pair->overlaps && !pair->is_residual &&
           hrf_cpu_product_takes_gate(next, k->gate.type);
}

static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct hrf_cpu_gate gate = gate_of((const struct gate_kernel *)base, call);
    hrf_cpu_product_run_gate(next, next_call, &gate);
    return HRF_OK;
}

static void gate_destroy(struct hrf_kernel *base)
{
    hrf_free(base);
}

/* The index of the input that has an element for each pixel; -1 if the MUL is no gate. */
static int32_t image_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    for (int32_t i = 0; i < 2; i++) {
        const struct hrf_value *x = &graph->values[node->inputs[i]];
        const struct hrf_value *g = &graph->values[node->inputs[1 - i]];
        if (hrf_shape_equal(&x->shape, &y->shape) && g->shape.rank == 4 &&
            g->shape.dims[0] == y->shape.dims[0] && g->shape.dims[1] == y->shape.dims[1] &&
            g->shape.dims[2] == 1 && g->shape.dims[3] == 1)
            return i;
    }
    return -1;
}

static const char *gate_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (y->shape.rank != 4 || hrf_shape_count(&y->shape) == 0 || image_of(graph, node) < 0)
        return "it is no product of an image and a factor a channel";
    for (int32_t i = 0; i < 2; i++) {
        const struct hrf_value *x = &graph->values[node->inputs[i]];
        if (x->data != NULL || x->dtype != y->dtype)
            return "its inputs are constants or of another type";
    }
    return NULL;
}

static enum hrf_status gate_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                    const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    (void)err;
    (void)row;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const int64_t *dims = y->shape.dims;
    struct gate_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){
        .run = gate_run,
        .destroy = gate_destroy,
        .can_fuse = can_fuse,
        .run_fused = run_fused,
        .workspace_bytes = hrf_parts_workspace(backend->n_threads, 0),
    };
    k->n_threads = backend->n_threads;
    k->image = image_of(graph, node);
    k->factors = 1 - k->image;
    k->gate = (struct hrf_cpu_gate){ .type = y->dtype,
                                     .channels = dims[1],
                                     .image_pixels = dims[2] * dims[3] };
    k->n_pixels = dims[0] * k->gate.image_pixels;
    k->part = hrf_ceil_div(PART_BYTES, dims[1] * (int64_t)hrf_dtype_size(y->dtype));
    const int64_t n_parts = hrf_ceil_div(hrf_ceil_div(k->n_pixels, k->part), backend->n_threads) *
                            backend->n_threads;
    k->part = hrf_ceil_div(k->n_pixels, n_parts);
    *out = &k->base;
    return HRF_OK;
}

const struct hrf_kernel_row hrf_cpu_gate = {
    .name = "gate:avx512",
    HRF_ROW_OPS(HRF_OP_MUL),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .isa = HRF_ISA_AVX512,
    .misfit = gate_misfit,
    .compile = gate_compile,
};
