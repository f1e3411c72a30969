/* token_rows.c - operators on each token by itself, with AVX-512: normalisation, SwiGLU and
 * elementwise functions, which read and write floats of 32 or 16 bits directly. */
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/plain/functions.h"

/* Elements per piece of work: enough to hide the scheduling. */
enum { PIECE = 1 << 14 };

struct rows_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    int64_t n_rows, n; /* elements of a row of the output */
};

static const char *row_of(const void *x, enum hrf_dtype type, int64_t first)
{
    return (const char *)x + first * (int64_t)hrf_dtype_size(type);
}

static bool is_norm(const struct hrf_spec *spec)
{
    return spec->op == HRF_OP_LAYER_NORM || spec->op == HRF_OP_RMS_NORM;
}

static struct hrf_row_norm norm_of(const struct rows_kernel *k, const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = k->spec;
    return (struct hrf_row_norm){ .x_type = spec->inputs[0].dtype,
                                  .y_type = spec->output.dtype,
                                  .n = k->n,
                                  .is_rms = spec->op == HRF_OP_RMS_NORM,
                                  .epsilon = spec->attributes.epsilon,
                                  .scale = hrf_spec_data(spec, call, 1),
                                  .bias = hrf_spec_data(spec, call, 2) };
}

static void run_norm(const struct rows_kernel *k, const struct hrf_kernel_call *call, int64_t row)
{
    const struct hrf_spec *spec = k->spec;
    const struct hrf_row_norm norm = norm_of(k, call);
    hrf_row_norm_avx512(&norm, row_of(hrf_spec_data(spec, call, 0), norm.x_type, row * k->n),
                        (char *)call->output + row * k->n * (int64_t)hrf_dtype_size(norm.y_type));
}

static void run_swiglu(const struct rows_kernel *k, const struct hrf_kernel_call *call, int64_t row)
{
    const enum hrf_dtype x = k->spec->inputs[0].dtype, y = k->spec->output.dtype;
    hrf_row_swiglu_avx512(x, row_of(hrf_spec_data(k->spec, call, 0), x, row * 2 * k->n), y,
                          (char *)call->output + row * k->n * (int64_t)hrf_dtype_size(y), k->n);
}

static enum hrf_status token_rows_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                      struct hrf_error *err)
{
    (void)err;
    const struct rows_kernel *k = (const struct rows_kernel *)base;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < k->n_rows; row++) {
        if (k->spec->op == HRF_OP_SWIGLU)
            run_swiglu(k, call, row);
        else
            run_norm(k, call, row);
    }
    return HRF_OK;
}

/* A product that rounds its rows can normalise each row just before, so that the norm's result is
 * not stored. */
static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct rows_kernel *k = (const struct rows_kernel *)base;
    return is_norm(k->spec) && k->spec->inputs[0].dtype == HRF_F32 &&
           k->spec->output.dtype == HRF_F32 && pair->is_sole_reader && !pair->overlaps &&
           !pair->is_residual && !pair->reads_residual &&
           hrf_cpu_token_product_takes_norm(next, k->n_rows, k->n);
}

static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct rows_kernel *k = (const struct rows_kernel *)base;
    const struct hrf_row_norm norm = norm_of(k, call);
    hrf_cpu_token_product_run_normed(next, &norm, hrf_spec_data(k->spec, call, 0), next_call);
    return HRF_OK;
}

static enum hrf_status run_function(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                    struct hrf_error *err)
{
    (void)err;
    const struct rows_kernel *k = (const struct rows_kernel *)base;
    const enum hrf_dtype x = k->spec->inputs[0].dtype, y = k->spec->output.dtype;
    const int64_t n = k->n_rows * k->n;
    const void *from = hrf_spec_data(k->spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE)
        hrf_functions_run_avx512(k->spec->op, &k->spec->attributes, x, row_of(from, x, first), y,
                                 (char *)call->output + first * (int64_t)hrf_dtype_size(y),
                                 hrf_min(PIECE, n - first));
    return HRF_OK;
}

static void token_rows_destroy(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct rows_kernel *)base)->spec);
    hrf_free(base);
}

/* The number of elements in the axes from `axis` on. */
static int64_t count_from(const struct hrf_shape *shape, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = axis; i < shape->rank; i++)
        n *= shape->dims[i];
    return n;
}

/* The number of elements that are normalised together. */
static int64_t norm_count(const struct hrf_shape *shape, const struct hrf_attributes *attributes)
{
    return attributes->of_each_pixel ? shape->dims[1] : count_from(shape, attributes->axis);
}

/* True if scale and bias are floats, one for each element of a row. */
static bool parameters_fit(const struct hrf_graph *graph, const struct hrf_node *node, int64_t n)
{
    for (int32_t i = 1; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        if (value->dtype != HRF_F32 || value->shape.rank == 4 ||
            hrf_shape_count(&value->shape) != n)
            return false;
    }
    return true;
}

/* Rows of a tensor of rank 4 are not contiguous in memory, but the channels of a pixel are. */
static const char *token_rows_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const bool is_norm = node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM;
    if (hrf_shape_count(y) <= 0 || y->rank < 1)
        return "its output is empty or of rank 0";
    if ((is_norm || node->op == HRF_OP_SWIGLU) && y->rank == 4 &&
        !(is_norm && node->attributes.of_each_pixel))
        return "its rows do not lie side by side";
    return !is_norm || parameters_fit(graph, node, norm_count(y, &node->attributes))
               ? NULL
               : "its scale or bias are not a float for each number";
}

static enum hrf_status token_rows_compile(const struct hrf_kernel_row *row,
                                          struct hrf_backend *backend,
                                          const struct hrf_graph *graph,
                                          const struct hrf_node *node, struct hrf_kernel **out,
                                          struct hrf_error *err)
{
    (void)row, (void)backend;
    struct rows_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = token_rows_run,
                                   .destroy = token_rows_destroy,
                                   .can_fuse = can_fuse,
                                   .run_fused = run_fused };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    const struct hrf_shape *y = &k->spec->output.shape;
    k->n = is_norm(k->spec) ? norm_count(y, &node->attributes) : hrf_shape_last(y);
    k->n_rows = hrf_shape_count(y) / k->n;
    if (!is_norm(k->spec) && node->op != HRF_OP_SWIGLU)
        k->base.run = run_function;
    k->base.weight_bytes = hrf_spec_constant_bytes(k->spec);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

const struct hrf_kernel_row hrf_cpu_token_rows = {
    .name = "rows:avx512",
    HRF_ROW_OPS(HRF_OP_LAYER_NORM, HRF_OP_RMS_NORM, HRF_OP_SWIGLU),
    .is_op = hrf_functions_have_avx512,
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .isa = HRF_ISA_AVX512,
    .misfit = token_rows_misfit,
    .compile = token_rows_compile,
};
