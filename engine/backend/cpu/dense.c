/* dense.c - products of matrices (float_product.h), LRN, softmax, means. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/float_product.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Where row i, counted over all axes but the last, begins in an operand of these strides. */
static int64_t row_offset(const struct hrf_shape *shape, const int64_t *strides, int64_t i)
{
    int64_t at = 0;
    for (int32_t axis = shape->rank - 2; axis >= 0; axis--) {
        at += i % shape->dims[axis] * strides[axis];
        i /= shape->dims[axis];
    }
    return at;
}

/* ---- products ---- */

enum {
    BLOCK_BYTES = 320 * 1024, /* of rows: leaves the second level of the cache room for weights */
    MIN_ROWS = 24,            /* of a block */
    MAX_ROWS = 192,
};

/* A product shared out over threads: rows x panels of columns, cut into blocks x slices. */
struct shares {
    int64_t block, n_blocks, n_slices;
};

/* Rounds the number of blocks up to a multiple of the number of threads. Where there are too few
 * rows for that, the columns are cut into slices, too. */
static struct shares share_out(const struct hrf_float_product *p)
{
    const int64_t n_threads = omp_get_max_threads(), n_rows = hrf_max(p->n_rows, 1);
    const int64_t row_bytes = hrf_max(p->depth, 1) * (int64_t)sizeof(float);
    const int64_t most = hrf_clamp(BLOCK_BYTES / row_bytes, MIN_ROWS, MAX_ROWS);
    struct shares s = { .n_blocks = hrf_ceil_div(n_rows, most), .n_slices = 1 };
    if (n_rows < n_threads * MIN_ROWS)
        s.n_slices = hrf_clamp(hrf_float_product_count_panels(p->columns), 1, n_threads);
    else
        s.n_blocks = hrf_ceil_div(s.n_blocks, n_threads) * n_threads;
    s.block = hrf_ceil_div(n_rows, s.n_blocks);
    return s;
}

/* Share i of the product; its first row in *first_row. */
static struct hrf_float_product share_of(const struct hrf_float_product *p, const struct shares *s,
                                         int64_t i, int64_t *first_row)
{
    const int64_t slice = i / s->n_blocks;
    const int64_t n_panels = hrf_float_product_count_panels(p->columns);
    struct hrf_float_product share = *p;
    *first_row = hrf_min(i % s->n_blocks * s->block, p->n_rows);
    share.a += *first_row * p->a_stride;
    share.y += *first_row * p->y_stride;
    share.n_rows = hrf_min(s->block, p->n_rows - *first_row);
    share.first_panel = n_panels * slice / s->n_slices;
    share.end_panel = n_panels * (slice + 1) / s->n_slices;
    return share;
}

/* This and pack() are the work of all threads. */
static void copy_matrix(const float *from, const int64_t strides[2], int64_t rows, int64_t columns,
                        float *to)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[i * columns + j] = from[i * strides[0] + j * strides[1]];
}

static void pack(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                 int64_t columns, float *packed)
{
#pragma omp parallel for schedule(static)
    for (int64_t panel = 0; panel < hrf_float_product_count_panels(columns); panel++)
        hrf_float_product_pack(w, depth_stride, column_stride, depth, columns, panel, panel + 1,
                               packed);
}

/* ---- GEMM ---- */

/* y's numbers before the product is added, where C is more than a row: residual + beta C. */
static void fill(const struct hrf_spec *spec, const float *c, const float *residual,
                 int64_t first_row, int64_t n_rows, int64_t begin, int64_t end, float *y)
{
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t columns = hrf_shape_last(shape);
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_broadcast_strides(&spec->inputs[2].shape, shape, strides);
    const int64_t step = strides[shape->rank - 1];
    for (int64_t i = first_row; i < first_row + n_rows; i++) {
        const float *row = c + row_offset(shape, strides, i);
        for (int64_t j = begin; j < end; j++)
            y[i * columns + j] = (residual != NULL ? residual[i * columns + j] : 0) +
                                 spec->attributes.gemm.beta * row[j * step];
    }
}

/* True if C is a number for each column. */
static bool has_bias_row(const struct hrf_spec *spec)
{
    const struct hrf_shape *c = &spec->inputs[2].shape;
    const int64_t columns = hrf_shape_last(&spec->output.shape);
    return spec->attributes.gemm.beta == 1 && hrf_shape_count(c) == columns &&
           hrf_shape_last(c) == columns;
}

static int64_t gemm_depth(const struct hrf_spec *spec)
{
    const struct hrf_shape *a = &spec->inputs[0].shape;
    return spec->attributes.gemm.transpose_a ? a->dims[0] : hrf_shape_last(a);
}

static size_t count_packed(const struct hrf_spec *spec)
{
    return hrf_product_packed_count(gemm_depth(spec), hrf_shape_last(&spec->output.shape));
}

/* B times alpha, packed. */
static void pack_gemm(const struct hrf_spec *spec, const float *b, float *packed)
{
    const struct hrf_attributes *t = &spec->attributes;
    const int64_t columns = hrf_shape_last(&spec->output.shape), depth = gemm_depth(spec);
    pack(b, t->gemm.transpose_b ? 1 : columns, t->gemm.transpose_b ? depth : 1, depth, columns,
         packed);
    for (size_t i = 0; i < count_packed(spec) && t->gemm.alpha != 1; i++)
        packed[i] *= t->gemm.alpha;
}

enum hrf_status hrf_cpu_prepare_gemm(struct hrf_spec *spec, struct hrf_error *err)
{
    struct hrf_operand *b = &spec->inputs[1];
    if (b->constant == NULL)
        return HRF_OK;
    float *packed = hrf_alloc_aligned(count_packed(spec) * sizeof *packed, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(packed != NULL, err, "weights of node '%s'", spec->name);
    pack_gemm(spec, b->constant, packed);
    hrf_free(b->constant);
    b->constant = packed;
    return HRF_OK;
}

/* B packed, unless it is a constant, and then A's rows, if they stand as columns. */
size_t hrf_cpu_gemm_workspace(const struct hrf_spec *spec)
{
    const size_t packed = spec->inputs[1].constant == NULL ? count_packed(spec) : 0;
    const size_t rows = spec->attributes.gemm.transpose_a
                            ? (size_t)hrf_shape_count(&spec->inputs[0].shape)
                            : 0;
    return (packed + rows) * sizeof(float);
}

void hrf_cpu_gemm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *t = &spec->attributes;
    const float *a = hrf_spec_data(spec, call, 0), *packed = spec->inputs[1].constant;
    const float *c = hrf_spec_data(spec, call, 2), *residual = hrf_spec_data(spec, call, 3);
    const int64_t columns = hrf_shape_last(&spec->output.shape), depth = gemm_depth(spec);
    const int64_t rows = hrf_shape_count(&spec->output.shape) / columns;
    float *y = call->output, *memory = call->workspace;
    if (packed == NULL) {
        pack_gemm(spec, hrf_spec_data(spec, call, 1), memory);
        packed = memory;
        memory += count_packed(spec);
    }
    if (t->gemm.transpose_a) {
        copy_matrix(a, (const int64_t[]){ 1, rows }, rows, depth, memory);
        a = memory;
    }
    const bool fills = c != NULL && !has_bias_row(spec);
    const bool copies = residual != NULL && residual != y && !fills;
    const struct hrf_float_product whole = { .a = a,
                                             .a_stride = depth,
                                             .packed = packed,
                                             .y = y,
                                             .y_stride = columns,
                                             .n_rows = rows,
                                             .depth = depth,
                                             .columns = columns,
                                             .bias = fills ? NULL : c,
                                             .accumulate = fills || residual != NULL };
    const struct shares shares = share_out(&whole);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < shares.n_blocks * shares.n_slices; i++) {
        int64_t first;
        const struct hrf_float_product p = share_of(&whole, &shares, i, &first);
        const int64_t begin = hrf_float_product_panel_begin(columns, p.first_panel);
        const int64_t end = hrf_min(hrf_float_product_panel_begin(columns, p.end_panel), columns);
        if (fills)
            fill(spec, c, residual, first, p.n_rows, begin, end, y);
        for (int64_t r = first; r < first + p.n_rows && copies; r++)
            memcpy(y + r * columns + begin, residual + r * columns + begin,
                   (size_t)(end - begin) * sizeof *y);
        hrf_float_product(&p);
        for (int64_t r = first; r < first + p.n_rows; r++)
            hrf_cpu_activate(t, y + r * columns + begin, end - begin);
    }
}

/* ---- MATMUL ---- */

static bool is_dense(const int64_t strides[2], int64_t columns)
{
    return strides[1] == 1 || columns == 1;
}

/* b packed, and a and y where the columns of their rows are no neighbours. */
size_t hrf_cpu_matmul_workspace(const struct hrf_spec *spec)
{
    struct hrf_matmul v;
    hrf_matmul_view(spec, &v);
    return (hrf_product_packed_count(v.depth, v.columns) +
            (size_t)(v.rows * v.depth + v.rows * v.columns)) *
           sizeof(float);
}

void hrf_cpu_matmul(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    struct hrf_matmul v;
    hrf_matmul_view(spec, &v);
    float *packed = call->workspace;
    float *own_a = packed + hrf_product_packed_count(v.depth, v.columns);
    float *own_y = own_a + v.rows * v.depth;
    const bool dense_a = is_dense(v.a, v.depth), dense_y = is_dense(v.y, v.columns);
    const float *packed_b = NULL;
    for (int64_t m = 0; m < v.n; m++) {
        int64_t at[3];
        hrf_matmul_seek(&v, m, at);
        const float *a = (const float *)hrf_spec_data(spec, call, 0) + at[0];
        const float *b = (const float *)hrf_spec_data(spec, call, 1) + at[1];
        float *y = hrf_floats(call) + at[2];
        if (b != packed_b) /* several products may have the same */
            pack(b, v.b[0], v.b[1], v.depth, v.columns, packed);
        packed_b = b;
        if (!dense_a)
            copy_matrix(a, v.a, v.rows, v.depth, own_a);
        const struct hrf_float_product whole = { .a = dense_a ? a : own_a,
                                                 .a_stride = dense_a ? v.a[0] : v.depth,
                                                 .packed = packed,
                                                 .y = dense_y ? y : own_y,
                                                 .y_stride = dense_y ? v.y[0] : v.columns,
                                                 .n_rows = v.rows,
                                                 .depth = v.depth,
                                                 .columns = v.columns };
        const struct shares shares = share_out(&whole);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < shares.n_blocks * shares.n_slices; i++) {
            int64_t first;
            const struct hrf_float_product p = share_of(&whole, &shares, i, &first);
            hrf_float_product(&p);
        }
        for (int64_t i = 0; i < v.rows * v.columns && !dense_y; i++)
            y[i / v.columns * v.y[0] + i % v.columns * v.y[1]] = own_y[i];
    }
}

void hrf_cpu_lrn(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *a = &spec->attributes;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t channels = spec->output.shape.dims[1];
    int64_t pixels = hrf_shape_count(&spec->output.shape) / channels;
    float factor = a->lrn.alpha / (float)a->lrn.size;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pixels; p++) {
        const float *in = x + p * channels;
        for (int64_t c = 0; c < channels; c++) {
            int64_t low = c - (a->lrn.size - 1) / 2, high = c + a->lrn.size / 2;
            float sum = 0;
            for (int64_t k = low < 0 ? 0 : low; k <= high && k < channels; k++)
                sum += in[k] * in[k];
            hrf_floats(call)[p * channels + c] = in[c] /
                                                 powf(a->lrn.bias + factor * sum, a->lrn.beta);
        }
    }
}

/* In double and in ref's order: heads are small, and their bits then agree with ref's, so that
 * whole networks in INT8 can be held to equality. */
void hrf_cpu_softmax(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    enum { MOST_KEPT = 8192 }; /* exponentials of a line that are not computed twice */
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    int64_t axis = spec->attributes.axis, n = shape->dims[axis], stride = strides[axis];
    int64_t lines = hrf_shape_count(shape) / n;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; line++) {
        int64_t first = line / stride * stride * n + line % stride;
        double high = -INFINITY, sum = 0, powers[MOST_KEPT];
        for (int64_t i = 0; i < n; i++) { /* as fmax(), which passes a NaN by */
            const double v = (double)x[first + i * stride];
            high = v > high ? v : high;
        }
        for (int64_t i = 0; i < n; i++) {
            const double e = exp((double)x[first + i * stride] - high);
            powers[i % MOST_KEPT] = e;
            sum += e;
        }
        const double log_sum = log(sum);
        for (int64_t i = 0; i < n; i++) {
            const double v = (double)x[first + i * stride] - high;
            hrf_floats(call)[first + i * stride] = (float)(spec->op != HRF_OP_SOFTMAX ? v - log_sum
                                                           : n <= MOST_KEPT ? powers[i] / sum
                                                                            : exp(v) / sum);
        }
    }
}

static double term_of(enum hrf_op op, double x, double high)
{
    switch (op) {
    case HRF_OP_REDUCE_L1:
        return fabs(x);
    case HRF_OP_REDUCE_L2:
    case HRF_OP_REDUCE_SUM_SQUARE:
        return x * x;
    case HRF_OP_REDUCE_LOG_SUM_EXP:
        return exp(x - high);
    default:
        return x;
    }
}

static void join(enum hrf_op op, double *sum, double x)
{
    if (op == HRF_OP_REDUCE_MAX)
        *sum = x > *sum || x != x ? x : *sum; /* a NaN stays */
    else if (op == HRF_OP_REDUCE_MIN)
        *sum = x < *sum || x != x ? x : *sum;
    else if (op == HRF_OP_REDUCE_PROD)
        *sum *= x;
    else
        *sum += x;
}

static double start_of(enum hrf_op op)
{
    return op == HRF_OP_REDUCE_MAX    ? -INFINITY
           : op == HRF_OP_REDUCE_MIN  ? INFINITY
           : op == HRF_OP_REDUCE_PROD ? 1
                                      : 0;
}

/* Joins n terms, of which each goes `to_step` numbers further. A sum of neighbours is made in
 * lanes, so that one addition does not wait for the one before. */
static void reduce_run(enum hrf_op op, const float *x, int64_t step, const double *high, double *to,
                       int64_t to_step, int64_t n)
{
    enum { LANES = 8 };
    const bool is_sum = op == HRF_OP_REDUCE_SUM || op == HRF_OP_REDUCE_MEAN;
    double lanes[LANES] = { 0 };
    int64_t i = 0;
    if (is_sum && step == 1 && to_step == 1) {
        for (; i < n; i++)
            to[i] += (double)x[i];
        return;
    }
    if (is_sum && step == 1 && to_step == 0) {
        for (; i + LANES <= n; i += LANES)
            for (int k = 0; k < LANES; k++)
                lanes[k] += (double)x[i + k];
        for (int k = 0; k < LANES; k++)
            *to += lanes[k];
    }
    for (; i < n; i++)
        join(op, &to[i * to_step],
             term_of(op, (double)x[i * step], high != NULL ? high[i * to_step] : 0));
}

/* A reduction's input and output, and how it is shared out: pieces of the first reduced axis, each
 * with results of its own, which are joined in their order. The pieces depend on the shape alone,
 * and not on the axes that stay: neither on the number of threads nor on that of images. */
struct reduction {
    struct hrf_walk walk;
    int64_t n_outer; /* positions along the axes before the first reduced one */
    int64_t length;  /* of that axis; 1 if it is the last, which is reduced whole */
    int64_t n_rows;  /* of the walk for each position of it */
    int64_t n_pieces, n_out;
};

static struct reduction reduction_of(const struct hrf_spec *spec)
{
    enum { MOST_PIECES = 16, PIECE_ELEMENTS = 1 << 14 };
    const struct hrf_shape *in = &spec->inputs[0].shape;
    int64_t strides[2][HRF_MAX_RANK], own[HRF_MAX_RANK];
    struct reduction r = { .n_outer = 1, .length = 1, .n_rows = 1, .n_pieces = 1 };
    bool is_reduced[HRF_MAX_RANK] = { false };
    r.n_out = hrf_shape_count(&spec->output.shape);
    for (int32_t i = 0; i < spec->attributes.n_axes; i++)
        is_reduced[spec->attributes.axes[i]] = true;
    hrf_layout_strides(in, strides[0]);
    hrf_layout_strides(&spec->output.shape, own);
    for (int32_t i = 0, o = 0; i < in->rank; i++) {
        strides[1][i] = is_reduced[i] ? 0 : own[o];
        o += !is_reduced[i] || spec->attributes.keep_dims;
    }
    hrf_walk_init(&r.walk, in, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    const int32_t last = r.walk.rank - 1;
    int32_t first = 0;
    for (; first < last && (r.walk.strides[1][first] != 0 || r.walk.dims[first] == 1); first++)
        r.n_outer *= r.walk.dims[first];
    if (first == last)
        return r;
    r.length = r.walk.dims[first];
    for (int32_t i = first + 1; i < last; i++)
        r.n_rows *= r.walk.dims[i];
    const int64_t together = r.length * r.n_rows * r.walk.dims[last];
    const int64_t terms = hrf_shape_count(in) / hrf_max(r.n_out, 1);
    r.n_pieces = hrf_min(hrf_min(r.length, MOST_PIECES),
                         hrf_min(together / PIECE_ELEMENTS, terms / 2));
    r.n_pieces = hrf_max(r.n_pieces, 1);
    return r;
}

size_t hrf_cpu_reduction_workspace(const struct hrf_spec *spec)
{
    const struct reduction r = reduction_of(spec);
    return (size_t)((r.n_pieces + 1) * r.n_out) * sizeof(double);
}

/* results[n_pieces][n_out]; the first becomes the whole. */
static void reduce(const struct reduction *r, const float *x, enum hrf_op op, const double *high,
                   double *results)
{
    const int32_t last = r->walk.rank - 1;
    const int64_t step = r->walk.strides[0][last], to_step = r->walk.strides[1][last];
    for (int64_t i = 0; i < r->n_pieces * r->n_out; i++)
        results[i] = start_of(op);
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < r->n_outer * r->n_pieces; task++) {
        const int64_t outer = task / r->n_pieces, piece = task % r->n_pieces;
        const int64_t begin = outer * r->length + r->length * piece / r->n_pieces;
        const int64_t end = outer * r->length + r->length * (piece + 1) / r->n_pieces;
        double *to = results + piece * r->n_out;
        for (int64_t row = begin * r->n_rows; row < end * r->n_rows; row++) {
            int64_t at[HRF_WALK_MAX_OPERANDS];
            hrf_walk_seek(&r->walk, row, at);
            reduce_run(op, x + at[0], step, high != NULL ? high + at[1] : NULL, to + at[1], to_step,
                       r->walk.dims[last]);
        }
    }
    for (int64_t piece = 1; piece < r->n_pieces; piece++)
        for (int64_t i = 0; i < r->n_out; i++)
            join(op, &results[i], results[piece * r->n_out + i]);
}

/* Over any axes. */
void hrf_cpu_reduction(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct reduction r = reduction_of(spec);
    const int64_t n_out = r.n_out;
    double *high = call->workspace, *sums = high + n_out;
    const bool shifts = spec->op == HRF_OP_REDUCE_LOG_SUM_EXP;
    if (shifts) {
        reduce(&r, x, HRF_OP_REDUCE_MAX, NULL, sums);
        memcpy(high, sums, (size_t)n_out * sizeof *high);
    }
    reduce(&r, x, spec->op, shifts ? high : NULL, sums);
    const double scale = (double)n_out / (double)hrf_shape_count(in);
    for (int64_t i = 0; i < n_out; i++)
        hrf_floats(call)[i] = (float)(spec->op == HRF_OP_REDUCE_MEAN      ? sums[i] * scale
                                      : spec->op == HRF_OP_REDUCE_L2      ? sqrt(sums[i])
                                      : spec->op == HRF_OP_REDUCE_LOG_SUM ? log(sums[i])
                                      : shifts && isinf(high[i])          ? high[i]
                                      : shifts                            ? log(sums[i]) + high[i]
                                                                          : sums[i]);
}
