/* pointwise.c - operators that read each element once: activations, sums, scale and shift. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/narrow_floats.h"
#include "engine/backend/cpu/plain/binary.h"
#include "engine/backend/cpu/plain/functions.h"

#include <math.h>

/* Elements per piece of work: large enough to hide the scheduling, small enough to balance. */
enum { PIECE = 1 << 14 };

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define FUNCTIONS(what) hrf_functions_##what##_avx2
#else
#define FUNCTIONS(what) hrf_functions_##what##_plain
#endif

bool hrf_cpu_derive(enum hrf_op op, const struct hrf_attributes *a, const float *x, const float *dy,
                    float *to, int64_t n)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_functions_derives_avx512(op) && hrf_cpu_has_avx512()) {
        hrf_functions_derive_avx512(op, a, x, dy, to, n);
        return true;
    }
#endif
    if (!FUNCTIONS(derives)(op))
        return false;
    FUNCTIONS(derive)(op, a, x, dy, to, n);
    return true;
}

static void unary_piece(enum hrf_op op, const struct hrf_attributes *a, const float *x, float *y,
                        int64_t n)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_functions_have_avx512(op) && hrf_cpu_has_avx512()) {
        hrf_functions_run_avx512(op, a, HRF_F32, x, HRF_F32, y, n);
        return;
    }
#endif
    if (FUNCTIONS(have)(op)) {
        FUNCTIONS(run)(op, a, HRF_F32, x, HRF_F32, y, n);
        return;
    }
    switch (op) {
    case HRF_OP_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] <= 0 ? 0 : x[i];
        break;
    case HRF_OP_LEAKY_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] >= 0 ? x[i] : a->alpha * x[i];
        break;
    case HRF_OP_CLIP:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < a->activation_min   ? a->activation_min
                   : x[i] > a->activation_max ? a->activation_max
                                              : x[i];
        break;
    case HRF_OP_HARD_SIGMOID:
    case HRF_OP_HARD_SWISH:
        for (int64_t i = 0; i < n; i++) {
            const float swish = op == HRF_OP_HARD_SWISH ? x[i] / 6.0f + 0.5f
                                                        : a->alpha * x[i] + a->beta;
            const float gate = swish < 0 ? 0 : swish > 1 ? 1 : swish;
            y[i] = op == HRF_OP_HARD_SWISH ? x[i] * gate : gate;
        }
        break;
    default: /* rare operators, in double */
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)hrf_unary_value(op, a, (double)x[i]);
        break;
    }
}

/* Applies activations that also exist as operators. */
static void activate_by_operator(const struct hrf_attributes *attributes, float *x, int64_t n)
{
    static const enum hrf_op ops[] = {
        [HRF_ACT_SIGMOID] = HRF_OP_SIGMOID, [HRF_ACT_HARD_SIGMOID] = HRF_OP_HARD_SIGMOID,
        [HRF_ACT_SWISH] = HRF_OP_SWISH,     [HRF_ACT_HARD_SWISH] = HRF_OP_HARD_SWISH,
        [HRF_ACT_GELU] = HRF_OP_GELU,       [HRF_ACT_GELU_TANH] = HRF_OP_GELU_TANH,
    };
    struct hrf_attributes a = *attributes;
    if (attributes->activation == HRF_ACT_SWISH)
        a.alpha = 1;
    unary_piece(ops[attributes->activation], &a, x, x, n);
}

/* A NaN stays a NaN: every comparison with it is false. */
void hrf_cpu_activate(const struct hrf_attributes *attributes, float *x, int64_t n)
{
    float low = attributes->activation_min, high = attributes->activation_max;
    float slope = attributes->alpha;
    switch (attributes->activation) {
    case HRF_ACT_RELU:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] <= 0 ? 0 : x[i];
        break;
    case HRF_ACT_CLIP:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
        break;
    case HRF_ACT_LEAKY_RELU:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] >= 0 ? x[i] : slope * x[i];
        break;
    case HRF_ACT_NONE:
        break;
    default:
        activate_by_operator(attributes, x, n);
        break;
    }
}

void hrf_cpu_unary(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const void *x = hrf_spec_data(spec, call, 0);
    const enum hrf_dtype x_type = spec->inputs[0].dtype, y_type = spec->output.dtype;
    const int64_t n = hrf_shape_count(&spec->output.shape);
    const int64_t piece = x_type == HRF_F32 && y_type == HRF_F32 ? PIECE : HRF_HALVES_PIECE;
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += piece) {
        const int64_t count = hrf_min(n - first, piece);
        float own[HRF_HALVES_PIECE];
        unary_piece(spec->op, &spec->attributes, hrf_cpu_read(x_type, x, first, count, own),
                    hrf_cpu_place(y_type, call->output, first, own), count);
        hrf_cpu_finish(y_type, call->output, first, count, own);
    }
}

static float binary_one(enum hrf_op op, float a, float b)
{
    switch (op) {
    case HRF_OP_ADD:
        return a + b;
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    default:
        return (float)hrf_binary_value(op, (double)a, (double)b);
    }
}

typedef void binary_function(const struct hrf_binary_run *run, const void *a, const void *b,
                             void *y);

static binary_function *best_binary(void)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512())
        return hrf_binary_run_avx512;
#endif
#ifdef HRF_BUILD_AVX2
    return hrf_binary_run_avx2;
#else
    return hrf_binary_run_plain;
#endif
}

static bool is_arithmetic(enum hrf_op op)
{
    return op == HRF_OP_ADD || op == HRF_OP_SUB || op == HRF_OP_MUL || op == HRF_OP_DIV;
}

/* Initialises a walk over y, a and b; returns its last axis. */
static int32_t init_walk(const struct hrf_shape *a, const struct hrf_shape *b,
                         const struct hrf_shape *y, struct hrf_walk *walk)
{
    int64_t strides[3][HRF_MAX_RANK];
    hrf_layout_strides(y, strides[0]);
    hrf_layout_broadcast_strides(a, y, strides[1]);
    hrf_layout_broadcast_strides(b, y, strides[2]);
    hrf_walk_init(walk, y, 3, (const int64_t(*)[HRF_MAX_RANK])strides);
    return walk->rank - 1;
}

bool hrf_cpu_binary_takes_halves(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *a = &graph->values[node->inputs[0]];
    const struct hrf_value *b = &graph->values[node->inputs[1]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!is_arithmetic(node->op))
        return false;
    struct hrf_walk walk;
    const int32_t last = init_walk(&a->shape, &b->shape, &y->shape, &walk);
    return walk.strides[0][last] == 1 && walk.strides[1][last] <= 1 && walk.strides[2][last] <= 1;
}

struct binary {
    struct hrf_walk walk;
    struct hrf_binary_run run;
    binary_function *function; /* NULL: element by element */
    const char *a, *b;
    char *y;
    int64_t size[3]; /* bytes of an element of y, a, b */
};

static void binary_piece(const struct binary *p, int64_t row, int64_t first, int64_t n)
{
    const int32_t last = p->walk.rank - 1;
    const int64_t sy = p->walk.strides[0][last], sa = p->walk.strides[1][last];
    const int64_t sb = p->walk.strides[2][last];
    int64_t at[HRF_WALK_MAX_OPERANDS];
    hrf_walk_seek(&p->walk, row, at);
    char *y = p->y + (at[0] + first * sy) * p->size[0];
    const char *a = p->a + (at[1] + first * sa) * p->size[1];
    const char *b = p->b + (at[2] + first * sb) * p->size[2];
    if (p->function != NULL) {
        struct hrf_binary_run run = p->run;
        run.n = n;
        p->function(&run, a, b, y);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((float *)(void *)y)[i * sy] = binary_one(p->run.op,
                                                  ((const float *)(const void *)a)[i * sa],
                                                  ((const float *)(const void *)b)[i * sb]);
}

void hrf_cpu_binary(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    struct binary p = { .a = hrf_spec_data(spec, call, 0),
                        .b = hrf_spec_data(spec, call, 1),
                        .y = call->output };
    const int32_t last = init_walk(&spec->inputs[0].shape, &spec->inputs[1].shape,
                                   &spec->output.shape, &p.walk);
    p.run = (struct hrf_binary_run){ .op = spec->op,
                                     .a_type = spec->inputs[0].dtype,
                                     .b_type = spec->inputs[1].dtype,
                                     .y_type = spec->output.dtype,
                                     .a_step = p.walk.strides[1][last],
                                     .b_step = p.walk.strides[2][last] };
    p.size[0] = (int64_t)hrf_dtype_size(p.run.y_type);
    p.size[1] = (int64_t)hrf_dtype_size(p.run.a_type);
    p.size[2] = (int64_t)hrf_dtype_size(p.run.b_type);
    const bool is_dense = p.walk.strides[0][last] == 1 && p.run.a_step <= 1 && p.run.b_step <= 1;
    p.function = is_arithmetic(spec->op) && is_dense ? best_binary() : NULL;
    const int64_t n = p.walk.dims[last], pieces = (n + PIECE - 1) / PIECE;
    const int64_t total = hrf_walk_rows(&p.walk) * pieces;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < total; i++) {
        const int64_t first = i % pieces * PIECE;
        binary_piece(&p, i / pieces, first, n - first < PIECE ? n - first : PIECE);
    }
}

/* scale and bias become the s and t of y = x * s + t. */
enum hrf_status hrf_cpu_prepare_batch_norm(struct hrf_spec *spec, struct hrf_error *err)
{
    (void)err;
    float *p[4]; /* scale, bias, mean, variance */
    for (int32_t i = 0; i < 4; i++)
        p[i] = spec->inputs[i + 1].constant;
    const double epsilon = (double)spec->attributes.epsilon;
    for (int64_t c = 0; c < spec->output.shape.dims[1]; c++) {
        const double s = (double)p[0][c] / sqrt((double)p[3][c] + epsilon);
        p[1][c] = (float)((double)p[1][c] - (double)p[2][c] * s);
        p[0][c] = (float)s;
    }
    return HRF_OK;
}

/* The usual case, in one pass: batch norm and ReLU before a convolution, as in pre-activation
 * networks. */
static void scale_shift_relu(const float *x, const float *s, const float *t, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] * s[i] + t[i];
        y[i] = v <= 0 ? 0 : v;
    }
}

/* y = act(x * s + t) with s and t per channel: a line is a pixel's channels, or (other ranks
 * than 4) a channel's elements. */
void hrf_cpu_batch_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t channels = shape->dims[1], n = hrf_shape_count(shape), inner = 1;
    for (int32_t i = 2; i < shape->rank && shape->rank != 4; i++)
        inner *= shape->dims[i];
    const void *from = hrf_spec_data(spec, call, 0);
    const float *scales = hrf_spec_data(spec, call, 1), *shifts = hrf_spec_data(spec, call, 2);
    const enum hrf_dtype x_type = spec->inputs[0].dtype, y_type = spec->output.dtype;
    const int64_t length = inner > 1 ? inner : channels;
    const int64_t piece = x_type == HRF_F32 && y_type == HRF_F32 ? length : HRF_HALVES_PIECE;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < n / length; line++)
        for (int64_t begin = 0; begin < length; begin += piece) {
            const int64_t first = line * length + begin, count = hrf_min(length - begin, piece);
            const float one_s = scales[line % channels], one_t = shifts[line % channels];
            const float *s = scales + begin, *t = shifts + begin;
            float own[HRF_HALVES_PIECE];
            const float *x = hrf_cpu_read(x_type, from, first, count, own);
            float *y = hrf_cpu_place(y_type, call->output, first, own);
            if (inner == 1 && spec->attributes.activation == HRF_ACT_RELU) {
                scale_shift_relu(x, s, t, y, count);
            } else {
                for (int64_t i = 0; i < count; i++)
                    y[i] = inner > 1 ? x[i] * one_s + one_t : x[i] * s[i] + t[i];
                hrf_cpu_activate(&spec->attributes, y, count);
            }
            hrf_cpu_finish(y_type, call->output, first, count, own);
        }
}
