/* ref_window.c - what slides over rows and columns: convolutions and pools. Source: ONNX. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

/* The input row (axis 0) or column (1) that position k of the window sees for output `at`: it may
 * lie outside of the image; -1 also where a transposed convolution sees none. */
static int64_t seen(const struct hrf_ref_node *node, int axis, int64_t at, int64_t k)
{
    const struct hrf_window *w = &node->attributes.window;
    if (node->op == HRF_OP_GLOBAL_AVERAGE_POOL || node->op == HRF_OP_GLOBAL_MAX_POOL)
        return k;
    if (node->op != HRF_OP_CONV_TRANSPOSE)
        return at * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis];
    const int64_t spread = at + w->pad_begin[axis] - k * w->dilation[axis];
    return spread >= 0 && spread % w->stride[axis] == 0 ? spread / w->stride[axis] : -1;
}

/* ---- convolution ---- */

static double activate_prologue(const struct hrf_prologue *p, double x)
{
    const struct hrf_attributes a = { .activation = p->activation,
                                      .activation_min = p->low,
                                      .activation_max = p->high,
                                      .alpha = p->slope };
    return hrf_ref_activate(&a, x);
}

/* The products of one tap of the window, summed over the channels of a group; x and w are the first
 * of them. All that a product needs is a local here: whole networks are judged by this loop, and a
 * sanitizer checks every number that is read through a pointer. */
static double tap_sum(const struct hrf_prologue *prologue, int64_t channels, const double *x,
                      int64_t x_step, const double *w, int64_t w_step, const double *factors,
                      const double *shifts)
{
    double sum = 0;
    if (factors == NULL) {
        for (int64_t k = 0; k < channels; k++)
            sum += w[k * w_step] * x[k * x_step];
        return sum;
    }
    for (int64_t k = 0; k < channels; k++)
        sum += w[k * w_step] * activate_prologue(prologue, x[k * x_step] * factors[k] + shifts[k]);
    return sum;
}

/* Of the weights [M][C / group][kh][kw], those of output channel m and the group's input channel k:
 * a transposed convolution in floats has them as [C][M / group][kh][kw]. */
static int64_t weights_of(const struct hrf_ref_node *node, int64_t m, int64_t k)
{
    const struct hrf_ref_tensor *w = &node->inputs[HRF_CONV_WEIGHTS];
    const int64_t *d = w->shape.dims, group = node->attributes.group;
    if (node->op != HRF_OP_CONV_TRANSPOSE || w->dtype == HRF_S8)
        return (m * d[1] + k) * d[2] * d[3];
    return ((m / d[1] * (d[0] / group) + k) * d[1] + m % d[1]) * d[2] * d[3];
}

static double conv_sum(const struct hrf_ref_node *node, const int64_t *at)
{
    const double *x = node->inputs[HRF_CONV_X].numbers;
    const double *w = node->inputs[HRF_CONV_WEIGHTS].numbers;
    const double *factors = hrf_ref_numbers(node, HRF_CONV_FACTORS);
    const double *shifts = hrf_ref_numbers(node, HRF_CONV_SHIFTS);
    const int64_t *in = node->inputs[HRF_CONV_X].shape.dims;
    const int64_t *kernel = node->inputs[HRF_CONV_WEIGHTS].shape.dims + 2;
    const int64_t per_group = in[1] / node->attributes.group;
    const int64_t first = at[1] / (node->output.shape.dims[1] / node->attributes.group) * per_group;
    const int64_t w_first = weights_of(node, at[1], 0);
    const int64_t w_step = weights_of(node, at[1], 1) - w_first;
    double sum = 0;
    for (int64_t tap = 0; tap < kernel[0] * kernel[1]; tap++) {
        const int64_t v = seen(node, 0, at[2], tap / kernel[1]);
        const int64_t u = seen(node, 1, at[3], tap % kernel[1]);
        if (v >= 0 && v < in[2] && u >= 0 && u < in[3])
            sum += tap_sum(&node->attributes.prologue, per_group,
                           x + ((at[0] * in[1] + first) * in[2] + v) * in[3] + u, in[2] * in[3],
                           w + w_first + tap, w_step, factors != NULL ? &factors[first] : NULL,
                           factors != NULL ? &shifts[first] : NULL);
    }
    return sum;
}

/* What becomes of an exact integer sum: struct hrf_requantize (compute.h) has the contract. */
static void put_integer_sum(const struct hrf_ref_node *node, int64_t i, int64_t m, double sum)
{
    const float unit = hrf_ref_output_scale(node);
    const double *bias = hrf_ref_numbers(node, HRF_CONV_BIAS);
    const double *residual = hrf_ref_numbers(node, HRF_CONV_RESIDUAL);
    const float scale = node->inputs[HRF_CONV_X].quantization.scale *
                        (float)node->inputs[HRF_CONV_SCALES].numbers[m];
    float steps = (float)sum + (bias != NULL ? (float)bias[m] / scale : 0.0f);
    steps *= scale / unit;
    if (residual != NULL)
        steps = fmaf((float)residual[i], node->inputs[HRF_CONV_RESIDUAL].quantization.scale / unit,
                     steps);
    hrf_ref_put_steps(node, i, hrf_ref_activate_steps(node, steps));
}

/* A token: numbers k * step of x, for k below depth. The sums are numbers first + c * step of the
 * output. In float, step by step, as engine/backend/cpu/transformer/byte_product.h says. */
struct rounded_row {
    const double *x;
    int64_t first, step, depth, columns;
};

static void put_rounded_row(const struct hrf_ref_node *node, const struct rounded_row *row)
{
    const struct hrf_ref_tensor *in = node->inputs;
    const double *x = row->x, *w = in[HRF_CONV_WEIGHTS].numbers;
    const double *factors = hrf_ref_numbers(node, HRF_CONV_FACTORS);
    const double *bias = hrf_ref_numbers(node, HRF_CONV_BIAS);
    const double *residual = hrf_ref_numbers(node, HRF_CONV_RESIDUAL);
    double most = 0;
    for (int64_t k = 0; k < row->depth; k++) {
        const double v = fabs(
            (double)(float)(x[k * row->step] * (factors != NULL ? factors[k] : 1)));
        most = isnan(v) || v > most ? v : most;
        if (isnan(most))
            break;
    }
    const bool is_whole = isfinite(most) && most >= 0x1p-100;
    const float inverse = is_whole ? 127.0f / (float)most : 0.0f;
    const float scale = is_whole ? (float)most / 127.0f : isfinite(most) ? 0.0f : NAN;
    for (int64_t c = 0; c < row->columns; c++) {
        const int64_t at = row->first + c * row->step;
        double sum = 0;
        for (int64_t k = 0; k < row->depth && is_whole; k++) {
            const float v = (float)(x[k * row->step] * (factors != NULL ? factors[k] : 1));
            sum += (double)rintf(v * inverse) * w[c * row->depth + k];
        }
        float y = (float)sum * (float)in[HRF_CONV_SCALES].numbers[c];
        y = y * scale;
        y = y + (bias != NULL ? (float)bias[c] : 0.0f);
        if (residual != NULL)
            y = y + (float)residual[at];
        hrf_ref_put(node, at, hrf_ref_activate(&node->attributes, (double)y));
    }
}

void hrf_ref_token_product(const struct hrf_ref_node *node)
{
    const struct hrf_shape *in = &node->inputs[HRF_CONV_X].shape, *out = &node->output.shape;
    const int64_t depth = hrf_shape_innermost(in), columns = hrf_shape_innermost(out);
    const int64_t area = in->rank == 4 ? in->dims[2] * in->dims[3] : 1;
    for (int64_t i = 0; i < hrf_shape_count(in) / depth; i++) {
        const int64_t image = i / area, pixel = i % area;
        put_rounded_row(node, &(struct rounded_row){
                                  node->inputs[HRF_CONV_X].numbers + image * depth * area + pixel,
                                  image * columns * area + pixel, area, depth, columns });
    }
}

void hrf_ref_conv(const struct hrf_ref_node *node)
{
    const double *bias = hrf_ref_numbers(node, HRF_CONV_BIAS);
    const double *residual = hrf_ref_numbers(node, HRF_CONV_RESIDUAL);
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(&node->output.shape, i, at);
        const double sum = conv_sum(node, at);
        if (hrf_ref_is_8_bit(&node->inputs[HRF_CONV_X]))
            put_integer_sum(node, i, at[1], sum);
        else
            hrf_ref_put(
                node, i,
                hrf_ref_activate(&node->attributes, sum + (bias != NULL ? bias[at[1]] : 0) +
                                                        (residual != NULL ? residual[i] : 0)));
    }
}

/* alpha * A * B + beta * C + residual. In 8 bits B is [columns][depth] and the sums are exact. */
void hrf_ref_gemm(const struct hrf_ref_node *node)
{
    const struct hrf_attributes *t = &node->attributes;
    const double *a = node->inputs[0].numbers, *b = node->inputs[1].numbers;
    const double *c = hrf_ref_numbers(node, 2), *residual = hrf_ref_numbers(node, 3);
    const struct hrf_shape *shape = &node->output.shape;
    const struct hrf_shape *a_shape = &node->inputs[0].shape;
    const int64_t columns = hrf_shape_last(shape), rows = hrf_shape_count(shape) / columns;
    const int64_t depth = t->gemm.transpose_a ? a_shape->dims[0] : hrf_shape_last(a_shape);
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t at[] = { i / columns, i % columns };
        int64_t position[HRF_MAX_RANK];
        hrf_ref_position(shape, i, position);
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += a[t->gemm.transpose_a ? k * rows + at[0] : at[0] * depth + k] *
                   b[t->gemm.transpose_b ? at[1] * depth + k : k * columns + at[1]];
        if (hrf_ref_is_8_bit(&node->inputs[0])) {
            put_integer_sum(node, i, at[1], sum);
            continue;
        }
        sum *= (double)t->gemm.alpha;
        if (c != NULL)
            sum += (double)t->gemm.beta *
                   c[hrf_ref_broadcast(&node->inputs[2].shape, shape, position)];
        if (residual != NULL)
            sum += residual[i];
        hrf_ref_put(node, i, hrf_ref_activate(t, sum));
    }
}

/* ---- pools ---- */

struct pooled {
    double most, sum;
    int64_t count; /* what the sum is divided by: of the pads, those that the attributes count */
};

static struct pooled pool_at(const struct hrf_ref_node *node, const int64_t *at)
{
    const struct hrf_window *w = &node->attributes.window;
    const int64_t *in = node->inputs[0].shape.dims;
    const bool is_global = node->op == HRF_OP_GLOBAL_AVERAGE_POOL ||
                           node->op == HRF_OP_GLOBAL_MAX_POOL;
    const int64_t *kernel = is_global ? in + 2 : w->kernel;
    struct pooled p = { .most = -INFINITY };
    for (int64_t ky = 0; ky < kernel[0]; ky++)
        for (int64_t kx = 0; kx < kernel[1]; kx++) {
            const int64_t y = seen(node, 0, at[2], ky), u = seen(node, 1, at[3], kx);
            const bool inside = y >= 0 && y < in[2] && u >= 0 && u < in[3];
            const bool is_padded = y < in[2] + w->pad_end[0] && u < in[3] + w->pad_end[1];
            p.count += inside || (w->count_include_pad && is_padded);
            if (!inside)
                continue;
            const double v =
                node->inputs[0].numbers[((at[0] * in[1] + at[1]) * in[2] + y) * in[3] + u];
            p.most = v > p.most || isnan(v) ? v : p.most;
            p.sum += v;
        }
    return p;
}

/* A mean of 8-bit numbers, whose float steps are agreed as those of other operators. */
static float mean_steps(const struct hrf_ref_node *node, double sum, int64_t count)
{
    const float ratio = node->inputs[0].quantization.scale / node->output.quantization.scale;
    return count > 0 ? (float)sum * ratio / (float)count : 0.0f;
}

void hrf_ref_pool(const struct hrf_ref_node *node)
{
    const struct hrf_ref_tensor *x = &node->inputs[0];
    const bool is_max = node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_GLOBAL_MAX_POOL;
    const bool is_integer = hrf_ref_is_8_bit(x);
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(&node->output.shape, i, at);
        const struct pooled p = pool_at(node, at);
        if (is_max && is_integer)
            hrf_ref_put(node, i, (double)((float)p.most * x->quantization.scale));
        else if (is_max)
            hrf_ref_put(node, i, p.most);
        else if (is_integer)
            hrf_ref_put_steps(node, i, mean_steps(node, p.sum, p.count));
        else
            hrf_ref_put(node, i, p.count > 0 ? p.sum / (double)p.count : 0);
    }
}

/* The two halves of a GLOBAL_AVERAGE_POOL that ranks share. */
void hrf_ref_pool_sum(const struct hrf_ref_node *node)
{
    const struct hrf_ref_tensor *x = &node->inputs[0];
    const int64_t area = x->shape.dims[2] * x->shape.dims[3];
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        double sum = 0;
        for (int64_t k = 0; k < area; k++)
            sum += x->numbers[i * area + k];
        hrf_ref_put(node, i, sum);
    }
}

void hrf_ref_pool_finish(const struct hrf_ref_node *node)
{
    const struct hrf_ref_tensor *x = &node->inputs[0];
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        if (x->dtype == HRF_S32)
            hrf_ref_put_steps(node, i, mean_steps(node, x->numbers[i], node->attributes.n_pixels));
        else
            hrf_ref_put(node, i, x->numbers[i] / (double)node->attributes.n_pixels);
    }
}
