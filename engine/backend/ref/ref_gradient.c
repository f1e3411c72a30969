/* ref_gradient.c - the operators that only graphs of gradients have (engine/passes/gradient). */
#include "engine/backend/ref/ref_private.h"

#include <math.h>
#include <string.h>

/* ---- functions of one number ---- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal_density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

/* The derivative of x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). */
static double gelu_tanh_derivative(double x)
{
    const double k = sqrt(2 / acos(-1)), t = tanh(k * (x + 0.044715 * pow(x, 3)));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

static double mish_derivative(double x)
{
    const double t = tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
    return t + x * logistic(x) * (1 - t * t);
}

/* clang-format off */
/* At a corner they take the side that PyTorch takes. */
#define DERIVATIVES(F)                                                                             \
    F(RELU, x > 0)                                                                                 \
    F(LEAKY_RELU, x > 0 ? 1 : alpha)                                                               \
    F(CLIP, x >= (double)a->activation_min && x <= (double)a->activation_max)                      \
    F(SIGMOID, logistic(x) * (1 - logistic(x)))                                                    \
    F(TANH, 1 - tanh(x) * tanh(x))                                                                 \
    F(EXP, exp(x))                                                                                 \
    F(LOG, 1 / x)                                                                                  \
    F(SQRT, 1 / (2 * sqrt(x)))                                                                     \
    F(NEG, -1)                                                                                     \
    F(ABS, (double)(x > 0) - (double)(x < 0))                                                      \
    F(RECIPROCAL, -1 / (x * x))                                                                    \
    F(FLOOR, 0)                                                                                    \
    F(CEIL, 0)                                                                                     \
    F(ERF, 2 / sqrt(acos(-1)) * exp(-x * x))                                                       \
    F(ELU, x > 0 ? 1 : alpha * exp(x))                                                             \
    F(SELU, x > 0 ? beta : beta * alpha * exp(x))                                                  \
    F(HARD_SIGMOID, alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0)                      \
    F(HARD_SWISH, x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5)                                          \
    F(SOFTPLUS, logistic(x))                                                                       \
    F(SOFTSIGN, 1 / pow(1 + fabs(x), 2))                                                           \
    F(CELU, x > 0 ? 1 : exp(x / alpha))                                                            \
    F(THRESHOLDED_RELU, x > alpha)                                                                 \
    F(SIN, cos(x))                                                                                 \
    F(COS, -sin(x))                                                                                \
    F(ATAN, 1 / (1 + x * x))                                                                       \
    F(TAN, 1 / pow(cos(x), 2))                                                                     \
    F(SINH, cosh(x))                                                                               \
    F(COSH, sinh(x))                                                                               \
    F(ASIN, 1 / sqrt(1 - x * x))                                                                   \
    F(ACOS, -1 / sqrt(1 - x * x))                                                                  \
    F(ASINH, 1 / sqrt(x * x + 1))                                                                  \
    F(ACOSH, 1 / sqrt(x * x - 1))                                                                  \
    F(ATANH, 1 / (1 - x * x))                                                                      \
    F(SHRINK, x < -alpha || x > alpha)                                                             \
    F(GELU, (1 + erf(x / sqrt(2))) / 2 + x * normal_density(x))                                    \
    F(GELU_TANH, gelu_tanh_derivative(x))                                                          \
    F(SWISH, logistic(alpha * x) * (1 + alpha * x * (1 - logistic(alpha * x))))                    \
    F(MISH, mish_derivative(x))                                                                    \
    F(ROUND, 0)                                                                                    \
    F(SIGN, 0)
/* clang-format on */
#define COUNT(OP, FORMULA) +1
_Static_assert(DERIVATIVES(COUNT) == HRF_OP_CLIP + 1 - HRF_OP_RELU, "every function of one number");
#undef COUNT

#define FUNCTION_OF(OP, FORMULA)                                                                   \
    static double derivative_of_##OP(const struct hrf_attributes *a, double x)                     \
    {                                                                                              \
        const double alpha = (double)a->alpha, beta = (double)a->beta;                             \
        (void)alpha, (void)beta, (void)x;                                                          \
        return FORMULA;                                                                            \
    }
DERIVATIVES(FUNCTION_OF)
#undef FUNCTION_OF

static double (*const derivatives[])(const struct hrf_attributes *a, double x) = {
#define ENTRY(OP, FORMULA) [HRF_OP_##OP - HRF_OP_RELU] = derivative_of_##OP,
    DERIVATIVES(ENTRY)
#undef ENTRY
};

void hrf_ref_function_gradient(const struct hrf_ref_node *node)
{
    const double *x = node->inputs[0].numbers, *dy = node->inputs[1].numbers;
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++)
        hrf_ref_put(
            node, i,
            dy[i] * derivatives[node->attributes.function - HRF_OP_RELU](&node->attributes, x[i]));
}

/* ---- windows ---- */

/* Number k of dW[m][c] at tap (ky, kx): over all images and outputs, dy times the x that it was
 * multiplied by. */
void hrf_ref_conv_weight_gradient(const struct hrf_ref_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const int64_t *in = node->inputs[0].shape.dims, *out = node->inputs[1].shape.dims;
    const int64_t *weights = node->output.shape.dims;
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(&node->output.shape, i, at);
        const int64_t group = at[0] / (weights[0] / node->attributes.group);
        const int64_t channel = group * weights[1] + at[1];
        double sum = 0;
        for (int64_t n = 0; n < in[0]; n++)
            for (int64_t oy = 0; oy < out[2]; oy++)
                for (int64_t ox = 0; ox < out[3]; ox++) {
                    const int64_t y = oy * w->stride[0] - w->pad_begin[0] + at[2] * w->dilation[0];
                    const int64_t u = ox * w->stride[1] - w->pad_begin[1] + at[3] * w->dilation[1];
                    if (y < 0 || y >= in[2] || u < 0 || u >= in[3])
                        continue;
                    sum +=
                        node->inputs[0].numbers[((n * in[1] + channel) * in[2] + y) * in[3] + u] *
                        node->inputs[1].numbers[((n * out[1] + at[0]) * out[2] + oy) * out[3] + ox];
                }
        hrf_ref_put(node, i, sum);
    }
}

/* The element of the plane x that the window of output (oy, ox) has its maximum at. */
static int64_t greatest_of(const struct hrf_ref_node *node, const double *x, int64_t oy, int64_t ox)
{
    const struct hrf_window *w = &node->attributes.window;
    const int64_t *in = node->inputs[0].shape.dims;
    int64_t best = -1;
    for (int64_t ky = 0; ky < w->kernel[0]; ky++)
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            const int64_t y = oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0];
            const int64_t u = ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1];
            if (y < 0 || y >= in[2] || u < 0 || u >= in[3])
                continue;
            const double value = x[y * in[3] + u];
            if (best < 0 || value > x[best] || (isnan(value) && !isnan(x[best])))
                best = y * in[3] + u;
        }
    return best;
}

void hrf_ref_max_pool_gradient(const struct hrf_ref_node *node)
{
    const int64_t *in = node->inputs[0].shape.dims, *out = node->inputs[1].shape.dims;
    const int64_t area = in[2] * in[3];
    for (int64_t plane = 0; plane < in[0] * in[1]; plane++) {
        const double *x = node->inputs[0].numbers + plane * area;
        memset(node->scratch, 0, (size_t)area * sizeof(double));
        for (int64_t i = 0; i < out[2] * out[3]; i++) {
            const int64_t at = greatest_of(node, x, i / out[3], i % out[3]);
            if (at >= 0)
                node->scratch[at] += node->inputs[1].numbers[plane * out[2] * out[3] + i];
        }
        for (int64_t i = 0; i < area; i++)
            hrf_ref_put(node, plane * area + i, node->scratch[i]);
    }
}

/* ---- moves ---- */

void hrf_ref_gather_gradient(const struct hrf_ref_node *node)
{
    const struct hrf_ref_tensor *dy = &node->inputs[0], *indices = &node->inputs[1];
    const int64_t axis = node->attributes.axis;
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++) {
        int64_t at[HRF_MAX_RANK];
        double sum = 0;
        hrf_ref_position(&node->output.shape, i, at);
        const int64_t wanted = at[axis];
        for (int64_t k = 0; k < dy->shape.dims[axis]; k++) {
            at[axis] = k;
            if ((int64_t)indices->numbers[k] == wanted)
                sum += dy->numbers[hrf_ref_index(&dy->shape, at)];
        }
        hrf_ref_put(node, i, sum);
    }
}

/* ---- attention ---- */

/* One head: the shapes, and its matrices. */
struct head {
    int64_t n_queries, n_keys, d;
    const double *q, *k, *v, *dy;
    int64_t key, channel; /* steps of k from one key, and from one channel, to the next */
    double scale;
};

static double dot(const double *x, int64_t x_step, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c * x_step] * y[c];
    return sum;
}

static double score(const struct head *h, int64_t query, int64_t key)
{
    return h->scale * dot(h->k + key * h->key, h->channel, h->q + query * h->d, h->d);
}

/* With the weights p = softmax of the scores, dp = dy v' and ds = p (dp - sum of p dp): adds
 * scale ds k to the query's gradient, scale ds q to the keys' and p dy to the values'. */
static void add_query(const struct head *h, int64_t query, int64_t n_seen, double *gradient)
{
    const double *q = h->q + query * h->d, *dy = h->dy + query * h->d;
    double *dq = gradient + query * h->d, *dk = gradient + h->n_queries * h->d;
    double *dv = dk + h->n_keys * h->d;
    double most = -INFINITY, sum = 0, mean = 0;
    for (int64_t s = 0; s < n_seen; s++)
        most = fmax(most, score(h, query, s));
    for (int64_t s = 0; s < n_seen; s++) {
        const double e = exp(score(h, query, s) - most);
        sum += e;
        mean += e * dot(h->v + s * h->d, 1, dy, h->d);
    }
    mean /= sum;
    for (int64_t s = 0; s < n_seen; s++) {
        const double p = exp(score(h, query, s) - most) / sum;
        const double ds = h->scale * p * (dot(h->v + s * h->d, 1, dy, h->d) - mean);
        for (int64_t c = 0; c < h->d; c++) {
            dq[c] += ds * h->k[s * h->key + c * h->channel];
            dk[s * h->d + c] += ds * q[c];
            dv[s * h->d + c] += p * dy[c];
        }
    }
}

void hrf_ref_attention_gradient(const struct hrf_ref_node *node)
{
    const struct hrf_shape *q = &node->inputs[HRF_ATTENTION_Q].shape;
    const struct hrf_shape *v = &node->inputs[HRF_ATTENTION_V].shape;
    const bool is_transposed = node->attributes.attention.transpose_k;
    const double given = (double)node->attributes.attention.scale;
    struct head h = { .n_queries = q->dims[q->rank - 2],
                      .n_keys = v->dims[v->rank - 2],
                      .d = q->dims[q->rank - 1] };
    const int64_t n_heads = hrf_shape_count(q) / (h.n_queries * h.d);
    const int64_t each = (h.n_queries + 2 * h.n_keys) * h.d;
    h.key = is_transposed ? 1 : h.d;
    h.channel = is_transposed ? h.n_keys : 1;
    h.scale = given != 0 ? given : 1 / sqrt((double)h.d);
    for (int64_t head = 0; head < n_heads; head++) {
        double *gradient = node->scratch + head * each;
        h.q = node->inputs[HRF_ATTENTION_Q].numbers + head * h.n_queries * h.d;
        h.k = node->inputs[HRF_ATTENTION_K].numbers + head * h.n_keys * h.d;
        h.v = node->inputs[HRF_ATTENTION_V].numbers + head * h.n_keys * h.d;
        h.dy = node->inputs[3].numbers + head * h.n_queries * h.d;
        memset(gradient, 0, (size_t)each * sizeof *gradient);
        for (int64_t i = 0; i < h.n_queries; i++)
            add_query(&h, i,
                      node->attributes.attention.causal ? hrf_min(i + 1, h.n_keys) : h.n_keys,
                      gradient);
        for (int64_t i = 0; i < each; i++)
            hrf_ref_put(node, head * each + i, gradient[i]);
    }
}
