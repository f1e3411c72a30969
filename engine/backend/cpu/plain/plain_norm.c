/* plain_norm.c - normalisations, attention, SwiGLU and Where as loops: for any shape, wherever its
 * elements lie. Sums are in double, so that the result does not depend on the number of threads. */
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <string.h>

/* The axes from `axis` on as a list of offsets in memory, in ONNX order. */
static int64_t list_offsets(const struct hrf_shape *shape, int64_t axis, int64_t *offsets)
{
    int64_t strides[HRF_MAX_RANK], n = 1;
    hrf_layout_strides(shape, strides);
    for (int32_t i = (int32_t)axis; i < shape->rank; i++)
        n *= shape->dims[i];
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at = 0;
        for (int32_t i = shape->rank - 1; i >= axis; i--) {
            at += rest % shape->dims[i] * strides[i];
            rest /= shape->dims[i];
        }
        offsets[k] = at;
    }
    return n;
}

/* The offset of element `i` of the axes before `axis`. */
static int64_t lead_offset(const struct hrf_shape *shape, int64_t axis, int64_t i)
{
    int64_t strides[HRF_MAX_RANK], at = 0;
    hrf_layout_strides(shape, strides);
    for (int64_t k = axis - 1; k >= 0; k--) {
        at += i % shape->dims[k] * strides[k];
        i /= shape->dims[k];
    }
    return at;
}

static int64_t inner_count(const struct hrf_shape *shape, int64_t axis)
{
    int64_t n = 1;
    for (int32_t i = (int32_t)axis; i < shape->rank; i++)
        n *= shape->dims[i];
    return n;
}

/* Mean and 1 / sqrt(variance + epsilon); for RMS the mean is 0. */
static void find_moments(const float *x, const int64_t *offsets, bool is_dense, int64_t n,
                         bool is_rms, double epsilon, double *mean, double *factor)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n && !is_rms; i++)
        sum += (double)x[is_dense ? i : offsets[i]];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[is_dense ? i : offsets[i]] - *mean;
        squares += d * d;
    }
    *factor = 1 / sqrt(squares / (double)n + epsilon);
}

size_t hrf_cpu_layer_norm_workspace(const struct hrf_spec *spec)
{
    return 3 * (size_t)inner_count(&spec->output.shape, spec->attributes.axis) * sizeof(int64_t);
}

/* Where the numbers of scale and bias lie, in the order of the elements. */
static void list_parameter_offsets(const struct hrf_spec *spec, int32_t k, int64_t *offsets)
{
    if (hrf_spec_has(spec, k))
        list_offsets(&spec->inputs[k].shape, 0, offsets);
}

enum hrf_status hrf_cpu_layer_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                   struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t axis = spec->attributes.axis, n = inner_count(shape, axis);
    const int64_t lines = hrf_shape_count(shape) / n;
    const float *x = hrf_spec_data(spec, call, 0), *scale = hrf_spec_data(spec, call, 1);
    const float *bias = hrf_spec_data(spec, call, 2);
    int64_t *offsets = call->workspace, *of_scale = offsets + n, *of_bias = of_scale + n;
    list_offsets(shape, axis, offsets);
    list_parameter_offsets(spec, 1, of_scale);
    list_parameter_offsets(spec, 2, of_bias);
    bool is_dense = true;
    for (int64_t i = 0; i < n; i++)
        is_dense = is_dense && offsets[i] == i;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = lead_offset(shape, axis, line);
        float *y = hrf_floats(call) + first;
        double mean, factor;
        find_moments(x + first, offsets, is_dense, n, spec->op == HRF_OP_RMS_NORM,
                     (double)spec->attributes.epsilon, &mean, &factor);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = is_dense ? i : offsets[i];
            double v = ((double)x[first + at] - mean) * factor;
            v *= scale != NULL ? (double)scale[of_scale[i]] : 1;
            y[at] = (float)(v + (bias != NULL ? (double)bias[of_bias[i]] : 0));
        }
    }
    return HRF_OK;
}

enum hrf_status hrf_cpu_group_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                   struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t channels = shape->dims[1], pixels = inner_count(shape, 2);
    const int64_t groups = spec->attributes.group > 0 ? spec->attributes.group : channels;
    const int64_t each = channels / groups, n = each * pixels;
    /* Of rank 4 the channels of a pixel lie side by side, otherwise the pixels of a channel. */
    const int64_t pixel_step = shape->rank == 4 ? channels : 1;
    const int64_t channel_step = shape->rank == 4 ? 1 : pixels;
    const float *x = hrf_spec_data(spec, call, 0), *scale = hrf_spec_data(spec, call, 1);
    const float *bias = hrf_spec_data(spec, call, 2);
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < shape->dims[0] * groups; g++) {
        const int64_t channel = g % groups * each;
        const int64_t first = g / groups * channels * pixels + channel * channel_step;
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)x[first + i / each * pixel_step + i % each * channel_step];
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = first + i / each * pixel_step + i % each * channel_step;
            squares += ((double)x[at] - mean) * ((double)x[at] - mean);
        }
        const double factor = 1 / sqrt(squares / (double)n + (double)spec->attributes.epsilon);
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = channel + i % each;
            const int64_t at = first + i / each * pixel_step + i % each * channel_step;
            hrf_floats(call)[at] = (float)(((double)x[at] - mean) * factor * (double)scale[c] +
                                           (double)bias[c]);
        }
    }
    return HRF_OK;
}

/* ---- attention ---- */

/* Strides of the last two axes. */
struct matrix {
    int64_t rows, columns, row, column;
};

static struct matrix matrix_of(const struct hrf_shape *shape)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    return (struct matrix){ shape->dims[shape->rank - 2], shape->dims[shape->rank - 1],
                            strides[shape->rank - 2], strides[shape->rank - 1] };
}

/* Where the head of `x` begins that serves head `head` of y: leading axes may be shorter, or 1. */
static int64_t head_offset(const struct hrf_shape *x, const struct hrf_shape *y, int64_t head)
{
    int64_t strides[HRF_MAX_RANK], at = 0;
    const int32_t missing = y->rank - x->rank;
    hrf_layout_strides(x, strides);
    for (int32_t i = y->rank - 3; i >= 0; i--) {
        const int64_t place = head % y->dims[i];
        head /= y->dims[i];
        if (i >= missing)
            at += place / (y->dims[i] / x->dims[i - missing]) * strides[i - missing];
    }
    return at;
}

static void gather_matrix(const float *from, struct matrix m, float *to)
{
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t k = 0; k < m.columns; k++)
            to[i * m.columns + k] = from[i * m.row + k * m.column];
}

/* One head: its q, k, v, scores and result, dense. */
static size_t floats_of_head(const struct hrf_spec *spec)
{
    const struct matrix q = matrix_of(&spec->inputs[HRF_ATTENTION_Q].shape);
    const struct matrix v = matrix_of(&spec->inputs[HRF_ATTENTION_V].shape);
    return (size_t)(q.rows * q.columns + v.rows * q.columns + v.rows * v.columns + q.rows * v.rows +
                    q.rows * v.columns);
}

size_t hrf_cpu_softmax_attention_workspace(const struct hrf_spec *spec)
{
    return floats_of_head(spec) * sizeof(float);
}

/* Scores of one query: masked, then their softmax. */
static void finish_scores(const struct hrf_spec *spec, const float *mask, int64_t mask_step,
                          int64_t query, int64_t n, float *scores)
{
    double sum = 0;
    float most = -INFINITY;
    for (int64_t s = 0; s < n; s++) {
        if (mask != NULL)
            scores[s] += mask[s * mask_step];
        if (spec->attributes.causal && s > query)
            scores[s] = -INFINITY;
        most = scores[s] > most ? scores[s] : most;
    }
    for (int64_t s = 0; s < n; s++) {
        scores[s] = most > -INFINITY ? expf(scores[s] - most) : 0;
        sum += (double)scores[s];
    }
    const float factor = sum > 0 ? (float)(1 / sum) : 0; /* 0: a query that sees no key */
    for (int64_t s = 0; s < n; s++)
        scores[s] *= factor;
}

/* The mask's strides along queries and keys; 0 where it broadcasts. */
static void mask_steps(const struct hrf_spec *spec, int64_t *query_step, int64_t *key_step)
{
    const struct hrf_shape *mask = &spec->inputs[HRF_ATTENTION_MASK].shape;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(mask, strides);
    *key_step = mask->rank > 0 && mask->dims[mask->rank - 1] > 1 ? strides[mask->rank - 1] : 0;
    *query_step = mask->rank > 1 && mask->dims[mask->rank - 2] > 1 ? strides[mask->rank - 2] : 0;
}

static enum hrf_status attend_head(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                   int64_t head, struct hrf_error *err)
{
    const struct hrf_shape *y_shape = &spec->output.shape;
    const float *data[3], *mask = hrf_spec_data(spec, call, HRF_ATTENTION_MASK);
    struct matrix m[3], y = matrix_of(y_shape);
    int64_t query_step = 0, key_step = 0;
    for (int32_t i = 0; i < 3; i++) {
        const struct hrf_shape *shape = &spec->inputs[i].shape;
        m[i] = matrix_of(shape);
        data[i] = (const float *)hrf_spec_data(spec, call, i) + head_offset(shape, y_shape, head);
    }
    if (spec->attributes.transpose_b)
        m[1] = (struct matrix){ m[1].columns, m[1].rows, m[1].column, m[1].row };
    float *q = call->workspace, *k = q + m[0].rows * m[0].columns;
    float *v = k + m[1].rows * m[1].columns, *scores = v + m[2].rows * m[2].columns;
    float *result = scores + m[0].rows * m[1].rows;
    gather_matrix(data[0], m[0], q);
    gather_matrix(data[1], m[1], k);
    gather_matrix(data[2], m[2], v);
    const int64_t n = m[0].rows, n_keys = m[1].rows;
    dnnl_status_t status = dnnl_sgemm('N', 'T', n, n_keys, m[0].columns, spec->attributes.scale, q,
                                      m[0].columns, k, m[0].columns, 0.0f, scores, n_keys);
    if (mask != NULL) {
        mask_steps(spec, &query_step, &key_step);
        mask += head_offset(&spec->inputs[HRF_ATTENTION_MASK].shape, y_shape, head);
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        finish_scores(spec, mask != NULL ? mask + i * query_step : NULL, key_step, i, n_keys,
                      scores + i * n_keys);
    if (status == dnnl_success)
        status = dnnl_sgemm('N', 'N', n, y.columns, n_keys, 1.0f, scores, n_keys, v, y.columns,
                            0.0f, result, y.columns);
    if (status != dnnl_success)
        return hrf_dnnl_error(err, status, spec->name, "matrix product");
    float *out = hrf_floats(call) + head_offset(y_shape, y_shape, head);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < y.columns; e++)
            out[i * y.row + e * y.column] = result[i * y.columns + e];
    return HRF_OK;
}

enum hrf_status hrf_cpu_softmax_attention(const struct hrf_spec *spec,
                                          const struct hrf_kernel_call *call, struct hrf_error *err)
{
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t heads = 1;
    for (int32_t i = 0; i + 2 < shape->rank; i++)
        heads *= shape->dims[i];
    for (int64_t head = 0; head < heads; head++)
        HRF_TRY(attend_head(spec, call, head, err));
    return HRF_OK;
}

/* ---- SwiGLU and Where ---- */

enum hrf_status hrf_cpu_swiglu(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                               struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *shape = &spec->output.shape, *from = &spec->inputs[0].shape;
    const int64_t axis = shape->rank - 1, n = shape->dims[axis];
    const int64_t lines = hrf_shape_count(shape) / n;
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK];
    hrf_layout_strides(from, in);
    hrf_layout_strides(shape, out);
    const float *x = hrf_spec_data(spec, call, 0);
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; line++) {
        const float *gate = x + lead_offset(from, axis, line);
        float *y = hrf_floats(call) + lead_offset(shape, axis, line);
        for (int64_t i = 0; i < n; i++) {
            const float g = gate[i * in[axis]];
            y[i * out[axis]] = g / (1.0f + expf(-g)) * gate[(n + i) * in[axis]];
        }
    }
    return HRF_OK;
}

enum hrf_status hrf_cpu_where(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                              struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[4][HRF_MAX_RANK];
    hrf_layout_strides(shape, strides[0]);
    for (int k = 0; k < 3; k++)
        hrf_layout_broadcast_strides(&spec->inputs[k].shape, shape, strides[1 + k]);
    struct hrf_walk walk;
    hrf_walk_init(&walk, shape, 4, (const int64_t(*)[HRF_MAX_RANK])strides);
    const uint8_t *condition = hrf_spec_data(spec, call, 0);
    const float *a = hrf_spec_data(spec, call, 1), *b = hrf_spec_data(spec, call, 2);
    const int32_t last = walk.rank - 1;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < hrf_walk_rows(&walk); row++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(&walk, row, at);
        for (int64_t i = 0; i < walk.dims[last]; i++)
            hrf_floats(call)[at[0] + i * walk.strides[0][last]] =
                condition[at[1] + i * walk.strides[1][last]] != 0
                    ? a[at[2] + i * walk.strides[2][last]]
                    : b[at[3] + i * walk.strides[3][last]];
    }
    return HRF_OK;
}
