/* ref_norm.c - normalisations and attention. Source: ONNX, and Vaswani et al., "Attention is all
 * you need" (2017). */
#include "engine/backend/ref/ref_private.h"

#include "base/min_max.h"

#include <math.h>

/* Of n numbers, `stride` apart: mean and mean of the squared differences from it. */
struct moments {
    double mean, variance;
};

static struct moments moments_of(const double *x, int64_t n)
{
    struct moments m = { 0, 0 };
    for (int64_t i = 0; i < n; i++)
        m.mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        m.variance += (x[i] - m.mean) * (x[i] - m.mean) / (double)n;
    return m;
}

/* The same over the channels of each pixel. */
static void norm_pixels(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const double *scale = hrf_ref_numbers(node, 1), *bias = hrf_ref_numbers(node, 2);
    const int64_t n = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    for (int64_t pixel = 0; pixel < shape->dims[0] * area; pixel++) {
        const double *x = node->inputs[0].numbers;
        const int64_t first = pixel / area * n * area + pixel % area;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < n && node->op == HRF_OP_LAYER_NORM; c++)
            mean += x[first + c * area] / (double)n;
        for (int64_t c = 0; c < n; c++)
            variance += (x[first + c * area] - mean) * (x[first + c * area] - mean) / (double)n;
        for (int64_t c = 0; c < n; c++)
            hrf_ref_put(node, first + c * area,
                        (x[first + c * area] - mean) /
                                sqrt(variance + (double)node->attributes.epsilon) *
                                (scale != NULL ? scale[c] : 1) +
                            (bias != NULL ? bias[c] : 0));
    }
}

/* LAYER_NORM and RMS_NORM: the axes from `axis` on lie one after the other. */
void hrf_ref_layer_norm(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const double *scale = hrf_ref_numbers(node, 1), *bias = hrf_ref_numbers(node, 2);
    const double epsilon = (double)node->attributes.epsilon;
    if (node->attributes.of_each_pixel) {
        norm_pixels(node);
        return;
    }
    int64_t n = 1;
    for (int32_t i = (int32_t)node->attributes.axis; i < shape->rank; i++)
        n *= shape->dims[i];
    for (int64_t first = 0; first < hrf_shape_count(shape); first += n) {
        const double *x = node->inputs[0].numbers + first;
        struct moments m = moments_of(x, n);
        if (node->op == HRF_OP_RMS_NORM) {
            m.variance += m.mean * m.mean; /* the mean of the squares */
            m.mean = 0;
        }
        for (int64_t i = 0; i < n; i++)
            hrf_ref_put(node, first + i,
                        (x[i] - m.mean) / sqrt(m.variance + epsilon) *
                                (scale != NULL ? scale[i] : 1) +
                            (bias != NULL ? bias[i] : 0));
    }
}

void hrf_ref_group_norm(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const double *scale = hrf_ref_numbers(node, 1), *bias = hrf_ref_numbers(node, 2);
    const int64_t channels = shape->dims[1];
    const int64_t groups = node->attributes.n_groups > 0 ? node->attributes.n_groups : channels;
    const int64_t pixels = hrf_shape_count(shape) / (shape->dims[0] * channels);
    const int64_t n = channels / groups * pixels;
    for (int64_t first = 0; first < hrf_shape_count(shape); first += n) {
        const double *x = node->inputs[0].numbers + first;
        const struct moments m = moments_of(x, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = (first + i) / pixels % channels;
            hrf_ref_put(node, first + i,
                        (x[i] - m.mean) / sqrt(m.variance + (double)node->attributes.epsilon) *
                                scale[c] +
                            bias[c]);
        }
    }
}

/* The score of query t and key s; `q` and `k` are the first numbers of their heads. */
static double ref_norm_score(const struct hrf_ref_node *node, const double *q, const double *k,
                             int64_t s, int64_t n_keys, int64_t channels)
{
    const bool transposes_k = node->attributes.attention.transpose_k;
    double sum = 0;
    for (int64_t i = 0; i < channels; i++)
        sum += q[i] * k[transposes_k ? i * n_keys + s : s * channels + i];
    return sum * (double)node->attributes.attention.scale;
}

/* Of a head of `x` that belongs to the head at position `at` of q: k and v may have fewer. */
static const double *head_of(const struct hrf_ref_node *node, int32_t input, const int64_t *at)
{
    const struct hrf_shape *x = &node->inputs[input].shape, *y = &node->output.shape;
    int64_t from[HRF_MAX_RANK] = { 0 };
    for (int32_t i = 0; i + 2 < y->rank; i++)
        from[i] = at[i] / (y->dims[i] / x->dims[i]);
    return node->inputs[input].numbers + hrf_ref_index(x, from);
}

static int64_t mask_index(const struct hrf_ref_node *node, const struct hrf_shape *scores,
                          const int64_t *at)
{
    const struct hrf_shape *mask = &node->inputs[HRF_ATTENTION_MASK].shape;
    struct hrf_shape part = *scores;
    int64_t position[HRF_MAX_RANK];
    for (int32_t i = 0; i < scores->rank; i++)
        position[i] = at[i];
    if (node->attributes.attention.mask_repeats && mask->rank == 4 && scores->rank == 4) {
        part.dims[0] = mask->dims[0];
        position[0] %= mask->dims[0];
    }
    return hrf_ref_broadcast(mask, &part, position);
}

/* How many channels of a head share one pass over the keys: each score and its exponential once. */
enum { CHANNELS_AT_ONCE = 64 };

/* The same sums where the heads stand in the channels: n channels of one head from number `at` of
 * the output on. */
static void attend_tokens(const struct hrf_ref_node *node, const int64_t *at, int64_t n, double *y)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_ref_tensor *x = node->inputs;
    const int64_t n_keys = x[HRF_ATTENTION_K].shape.dims[1], h = at[2] / a->attention.head_size;
    const double *row[3], *mask = hrf_ref_numbers(node, HRF_ATTENTION_MASK);
    int64_t width[3];
    for (int k = 0; k < 3; k++) {
        width[k] = x[k].shape.dims[2];
        const int64_t token = at[0] * x[k].shape.dims[1] + (k == HRF_ATTENTION_Q ? at[1] : 0);
        row[k] = x[k].numbers + token * width[k] + a->attention.first[k] +
                 h * a->attention.stride[k];
    }
    row[2] += at[2] % a->attention.head_size;
    const struct hrf_shape scores = {
        4, { node->output.shape.dims[0], a->attention.heads, node->output.shape.dims[1], n_keys }
    };
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n; c++)
        y[c] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t s = 0; s < n_keys; s++) {
            const int64_t position[] = { at[0], h, at[1], s };
            double v = 0;
            for (int64_t c = 0; c < a->attention.head_size; c++)
                v += row[0][c] * row[1][s * width[1] + c];
            v *= (double)a->attention.scale;
            if (mask != NULL)
                v += mask[mask_index(node, &scores, position)];
            if (a->attention.causal && s > at[1])
                v = -INFINITY;
            if (pass == 0) {
                most = v <= most ? most : v; /* a NaN, too, which fmax() would leave out */
            } else if (most != -INFINITY) {
                const double weight = exp(v - most);
                sum += weight;
                for (int64_t c = 0; c < n; c++)
                    y[c] += weight * row[2][s * width[2] + c];
            }
        }
    for (int64_t c = 0; c < n; c++)
        y[c] = most != -INFINITY ? y[c] / sum : 0;
}

/* n numbers of the output from number `at` on: query at[rank - 2], channels at[rank - 1] ... of v.
 */
static void attend(const struct hrf_ref_node *node, const int64_t *at, int64_t n, double *y)
{
    const struct hrf_shape *q = &node->inputs[HRF_ATTENTION_Q].shape;
    const struct hrf_ref_tensor *v = &node->inputs[HRF_ATTENTION_V];
    const int32_t last = q->rank - 1;
    const int64_t n_keys = v->shape.dims[last - 1], channels = q->dims[last];
    const double *query = head_of(node, HRF_ATTENTION_Q, at) + at[last - 1] * channels;
    const double *keys = head_of(node, HRF_ATTENTION_K, at);
    const double *values = head_of(node, HRF_ATTENTION_V, at);
    const double *mask = hrf_ref_numbers(node, HRF_ATTENTION_MASK);
    struct hrf_shape scores = node->output.shape;
    scores.dims[last] = n_keys;
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n; c++)
        y[c] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t s = 0; s < n_keys; s++) {
            int64_t position[HRF_MAX_RANK];
            for (int32_t i = 0; i < last; i++)
                position[i] = at[i];
            position[last] = s;
            double x = ref_norm_score(node, query, keys, s, n_keys, channels);
            if (mask != NULL)
                x += mask[mask_index(node, &scores, position)];
            if (node->attributes.attention.causal && s > at[last - 1])
                x = -INFINITY;
            if (pass == 0) {
                most = x <= most ? most : x;
                continue;
            }
            if (most == -INFINITY)
                continue;
            const double weight = exp(x - most);
            sum += weight;
            for (int64_t c = 0; c < n; c++)
                y[c] += weight * values[s * v->shape.dims[last] + at[last] + c];
        }
    for (int64_t c = 0; c < n; c++)
        y[c] = most != -INFINITY ? y[c] / sum : 0; /* 0: a query that sees no key */
}

void hrf_ref_attention(const struct hrf_ref_node *node)
{
    const struct hrf_shape *y = &node->output.shape;
    const bool of_tokens = node->op == HRF_OP_TOKEN_ATTENTION;
    const int64_t width = of_tokens ? node->attributes.attention.head_size : y->dims[y->rank - 1];
    double numbers[CHANNELS_AT_ONCE];
    for (int64_t i = 0, n; i < hrf_shape_count(y); i += n) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(y, i, at);
        n = hrf_min(CHANNELS_AT_ONCE, width - at[y->rank - 1] % width);
        if (of_tokens)
            attend_tokens(node, at, n, numbers);
        else
            attend(node, at, n, numbers);
        for (int64_t c = 0; c < n; c++)
            hrf_ref_put(node, i + c, numbers[c]);
    }
}

/* The scaled score of a query and key s, whose heads begin at row[0] and row[1]. */
static double part_score(const struct hrf_ref_node *node, const double *const row[3], int64_t s)
{
    double sum = 0;
    for (int64_t c = 0; c < node->attributes.attention.head_size; c++)
        sum += row[0][c] * row[1][s * node->inputs[1].shape.dims[2] + c];
    return sum * (double)node->attributes.attention.scale;
}

/* A head of one query: what it has seen with these keys added, by the formulas of graph.h. */
static void see(const struct hrf_ref_node *node, int64_t image, int64_t query, int64_t h)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_ref_tensor *x = node->inputs;
    const int64_t n_queries = x[0].shape.dims[1], n_keys = x[1].shape.dims[1],
                  d = a->attention.head_size;
    const int64_t token = image * n_queries + query;
    const double *state = hrf_ref_numbers(node, HRF_ATTENTION_SEEN), *row[3];
    for (int k = 0; k < 3; k++)
        row[k] = x[k].numbers + (k == 0 ? token : image * n_keys) * x[k].shape.dims[2] +
                 a->attention.first[k] + h * a->attention.stride[k];
    if (state != NULL)
        state += (token * a->attention.heads + h) * (d + HRF_ATTENTION_STATE);
    double most = state != NULL ? state[d] : -INFINITY;
    for (int64_t s = 0; s < n_keys; s++)
        most = fmax(most, part_score(node, row, s));
    const double before = state != NULL && most > -INFINITY ? exp(state[d] - most) : 0;
    const bool is_last = !hrf_attention_gives_state(a, &node->output.shape);
    double sum = 0;
    for (int64_t first = 0, n; first < d; first += n) {
        double y[CHANNELS_AT_ONCE];
        n = hrf_min(CHANNELS_AT_ONCE, d - first);
        sum = state != NULL ? state[d + 1] * before : 0;
        for (int64_t c = 0; c < n; c++)
            y[c] = state != NULL ? state[first + c] * before : 0;
        for (int64_t s = 0; s < n_keys; s++) {
            const double weight = exp(part_score(node, row, s) - most);
            sum += weight;
            for (int64_t c = 0; c < n; c++)
                y[c] += weight * row[2][s * x[2].shape.dims[2] + first + c];
        }
        for (int64_t c = 0; c < n; c++)
            hrf_ref_put(node,
                        (token * a->attention.heads + h) * (is_last ? d : d + HRF_ATTENTION_STATE) +
                            first + c,
                        is_last ? (sum != 0 ? y[c] / sum : 0) : y[c]);
    }
    if (is_last)
        return;
    const int64_t end = (token * a->attention.heads + h) * (d + HRF_ATTENTION_STATE) + d;
    hrf_ref_put(node, end, most);
    hrf_ref_put(node, end + 1, sum);
}

void hrf_ref_attention_part(const struct hrf_ref_node *node)
{
    const struct hrf_shape *q = &node->inputs[0].shape;
    for (int64_t i = 0; i < q->dims[0] * q->dims[1] * node->attributes.attention.heads; i++)
        see(node, i / node->attributes.attention.heads / q->dims[1],
            i / node->attributes.attention.heads % q->dims[1],
            i % node->attributes.attention.heads);
}

void hrf_ref_swiglu(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const int64_t n = shape->dims[shape->rank - 1];
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        const double *line = node->inputs[0].numbers + i / n * 2 * n;
        const double gate = line[i % n];
        hrf_ref_put(node, i, gate / (1 + exp(-gate)) * line[n + i % n]);
    }
}
