/* ref_attention.c - PERFORMER's three parts (graph.h has the formulas), token by token. The order
 * of its sums is part of what is agreed: a back end that keeps it has the same bits. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

/* The graph's shapes, and the numbers that do not depend on a token. */
struct attention {
    const struct hrf_attributes *attributes;
    const double *projection;                 /* [m][d] */
    int64_t m, d, n_heads, n_tokens, n_pairs; /* pairs: an image and a head */
};

static struct attention attention_of(const struct hrf_ref_node *node, int32_t projection)
{
    const int64_t *x = node->inputs[0].shape.dims, *p = node->inputs[projection].shape.dims;
    return (struct attention){ .attributes = &node->attributes,
                               .projection = node->inputs[projection].numbers,
                               .m = p[0],
                               .d = p[1],
                               .n_heads = node->attributes.performer.heads,
                               .n_tokens = x[2] * x[3],
                               .n_pairs = x[0] * node->attributes.performer.heads };
}

/* Channel 0 of token t of pair i; its other channels are n_tokens apart. */
static int64_t token(const struct attention *a, int64_t i, int64_t t)
{
    return i * a->d * a->n_tokens + t;
}

/* Row f of the projection times token u. */
static double project(const struct attention *a, int64_t f, const double *u)
{
    const double scale = 1 / sqrt(sqrt((double)a->d));
    double sum = 0;
    for (int64_t c = 0; c < a->d; c++)
        sum += u[c * a->n_tokens] * (a->projection[f * a->d + c] * scale);
    return sum;
}

static double ref_attention_largest(const struct attention *a, const double *u)
{
    double most = -INFINITY;
    for (int64_t f = 0; f < a->m; f++)
        most = fmax(most, project(a, f, u));
    return most;
}

static double feature(const struct attention *a, int64_t f, const double *u, double most)
{
    const double l = project(a, f, u), epsilon = (double)a->attributes->performer.epsilon;
    double square = 0;
    if (!a->attributes->performer.exponential)
        return (l < 0 ? 0 : l) + epsilon;
    for (int64_t c = 0; c < a->d; c++)
        square += u[c * a->n_tokens] * u[c * a->n_tokens];
    return exp(l - square / (2 * sqrt((double)a->d)) - most) + epsilon;
}

static double on_grid(double x)
{
    return rint(x / HRF_PERFORMER_GRID) * HRF_PERFORMER_GRID;
}

void hrf_ref_performer_max(const struct hrf_ref_node *node)
{
    const struct attention a = attention_of(node, 1);
    for (int64_t i = 0; i < a.n_pairs; i++) {
        double most = -INFINITY;
        for (int64_t t = 0; t < a.n_tokens; t++)
            most = fmax(most, ref_attention_largest(&a, node->inputs[0].numbers + token(&a, i, t)));
        hrf_ref_put(node, i, most);
    }
}

void hrf_ref_performer_state(const struct hrf_ref_node *node)
{
    const struct attention a = attention_of(node, HRF_STATE_PROJECTION);
    const double *most = hrf_ref_numbers(node, HRF_STATE_MAX);
    for (int64_t i = 0; i < a.n_pairs * (a.d + 1) * a.m; i++)
        node->scratch[i] = 0;
    for (int64_t i = 0; i < a.n_pairs; i++)
        for (int64_t t = 0; t < a.n_tokens; t++)
            for (int64_t f = 0; f < a.m; f++) {
                const double *k = node->inputs[HRF_STATE_K].numbers + token(&a, i, t);
                const double *v = node->inputs[HRF_STATE_V].numbers + token(&a, i, t);
                const double phi = feature(&a, f, k, most != NULL ? most[i] : 0);
                double *sums = node->scratch + i * (a.d + 1) * a.m + f;
                for (int64_t c = 0; c < a.d; c++)
                    sums[c * a.m] += on_grid(phi * v[c * a.n_tokens]);
                sums[a.d * a.m] += on_grid(phi);
            }
    for (int64_t i = 0; i < a.n_pairs * (a.d + 1) * a.m; i++)
        hrf_ref_put(node, i, node->scratch[i]);
}

void hrf_ref_performer_apply(const struct hrf_ref_node *node)
{
    const struct attention a = attention_of(node, HRF_STATE_PROJECTION);
    const double *state = node->inputs[1].numbers;
    for (int64_t i = 0; i < a.n_pairs; i++, state += (a.d + 1) * a.m)
        for (int64_t t = 0; t < a.n_tokens; t++) {
            const double *q = node->inputs[0].numbers + token(&a, i, t);
            const double most = a.attributes->performer.exponential ? ref_attention_largest(&a, q)
                                                                    : 0;
            double sums[HRF_PERFORMER_MAX_HEAD + 1] = { 0 };
            for (int64_t f = 0; f < a.m; f++) {
                const double phi = feature(&a, f, q, most);
                for (int64_t c = 0; c <= a.d; c++)
                    sums[c] += phi * state[c * a.m + f];
            }
            for (int64_t c = 0; c < a.d; c++)
                hrf_ref_put(node, token(&a, i, t) + c * a.n_tokens, sums[c] / sums[a.d]);
        }
}
