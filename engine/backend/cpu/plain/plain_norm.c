/* plain_norm.c - normalisations, SwiGLU and Where as loops, for any shape and memory layout. Sums
 * are in double, so that the result does not depend on the number of threads. */
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <string.h>

/* Lists the memory offsets of the elements in the axes from `axis` on, in ONNX order; returns their
 * number. */
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

/* Computes the mean and 1 / sqrt(variance + epsilon); for RMS norm the mean is 0. */
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

/* The shape to normalise over. A norm of each pixel sees the pixels as rows of a matrix, as they
 * lie in memory. */
static struct hrf_shape norm_shape(const struct hrf_spec *spec)
{
    const struct hrf_shape *y = &spec->output.shape;
    if (!spec->attributes.of_each_pixel)
        return *y;
    return (struct hrf_shape){ .rank = 2,
                               .dims = { y->dims[0] * y->dims[2] * y->dims[3], y->dims[1] } };
}

size_t hrf_cpu_layer_norm_workspace(const struct hrf_spec *spec)
{
    const struct hrf_shape shape = norm_shape(spec);
    return 3 * (size_t)inner_count(&shape, spec->attributes.axis) * sizeof(int64_t);
}

/* Lists the offsets of scale or bias in the order of the elements. */
static void list_parameter_offsets(const struct hrf_spec *spec, int32_t k, int64_t *offsets)
{
    if (hrf_spec_has(spec, k))
        list_offsets(&spec->inputs[k].shape, 0, offsets);
}

void hrf_cpu_layer_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape own = norm_shape(spec), *shape = &own;
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
}

void hrf_cpu_group_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t channels = shape->dims[1], pixels = inner_count(shape, 2);
    const int64_t groups = spec->attributes.n_groups > 0 ? spec->attributes.n_groups : channels;
    const int64_t each = channels / groups, n = each * pixels;
    /* With rank 4 the channels of a pixel are contiguous, otherwise the pixels of a channel. */
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
}

/* ---- SwiGLU and Where ---- */

void hrf_cpu_swiglu(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
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
}

/* There are few columns, with one row to copy for each, so threads would not pay. */
void hrf_cpu_select_max(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const int64_t n = spec->inputs[1].shape.dims[0], n_columns = spec->inputs[1].shape.dims[1];
    const int64_t width = spec->output.shape.dims[1];
    const float *x = hrf_spec_data(spec, call, 0), *scores = hrf_spec_data(spec, call, 1);
    for (int64_t column = 0; column < n_columns; column++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n && !isnan(scores[best * n_columns + column]); i++) {
            const float score = scores[i * n_columns + column];
            if (isnan(score) || score > scores[best * n_columns + column])
                best = i;
        }
        memcpy(hrf_floats(call) + column * width, x + best * width, (size_t)width * sizeof(float));
    }
}

/* As few rows, and few numbers of each. */
void hrf_cpu_top_k_mask(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const int64_t count = hrf_shape_count(&spec->output.shape);
    const int64_t n = hrf_shape_last(&spec->output.shape);
    const float *x = hrf_spec_data(spec, call, 0);
    float *y = hrf_floats(call);
    memset(y, 0, (size_t)count * sizeof *y);
    for (int64_t row = 0; row < count; row += n, x += n, y += n)
        for (int64_t k = 0; k < spec->attributes.greatest; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < n; i++)
                if (y[i] == 0.0f &&
                    (best < 0 || x[i] > x[best] || (isnan(x[i]) && !isnan(x[best]))))
                    best = i;
            y[best] = 1;
        }
}

void hrf_cpu_where(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
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
}
