/* attention.c - PERFORMER's three parts, token by token. Its order of sums is the truth's too: a
 * back end that keeps it has the same bits. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>
#include <string.h>

/* The graph's shapes, and the numbers that do not depend on a token. */
struct attention {
    const struct hrf_attributes *attributes;
    const float *projection;
    int64_t m, d, n_heads, n_tokens, n_channels, n_images;
};

static struct attention attention_of(const struct hrf_spec *spec,
                                     const struct hrf_kernel_call *call, int32_t projection)
{
    const struct hrf_shape *x = &spec->inputs[0].shape, *p = &spec->inputs[projection].shape;
    return (struct attention){ .attributes = &spec->attributes,
                               .projection = hrf_spec_data(spec, call, projection),
                               .m = p->dims[0],
                               .d = p->dims[1],
                               .n_heads = spec->attributes.group,
                               .n_tokens = x->dims[2] * x->dims[3],
                               .n_channels = x->dims[1],
                               .n_images = x->dims[0] };
}

/* Token t of head i, counted over all images. */
static const float *token(const struct attention *a, const float *x, int64_t i, int64_t t)
{
    return x + (i / a->n_heads * a->n_tokens + t) * a->n_channels + i % a->n_heads * a->d;
}

/* Row f of the projection times token u. */
static double project(const struct attention *a, int64_t f, const float *u)
{
    const double scale = 1 / sqrt(sqrt((double)a->d));
    double sum = 0;
    for (int64_t c = 0; c < a->d; c++)
        sum += (double)u[c] * ((double)a->projection[f * a->d + c] * scale);
    return sum;
}

static double largest(const struct attention *a, const float *u)
{
    double high = -INFINITY;
    for (int64_t f = 0; f < a->m; f++) {
        const double l = project(a, f, u);
        high = l > high ? l : high;
    }
    return high;
}

static double feature(const struct attention *a, int64_t f, const float *u, double high)
{
    const double l = project(a, f, u), epsilon = (double)a->attributes->epsilon;
    if (!a->attributes->exponential)
        return (l < 0 ? 0 : l) + epsilon;
    double square = 0;
    for (int64_t c = 0; c < a->d; c++)
        square += (double)u[c] * (double)u[c];
    return exp(l - square / (2 * sqrt((double)a->d)) - high) + epsilon;
}

/* With 1.5 * 2^52 steps of the grid there is no room for less than one. */
static double on_grid(double x)
{
    const double magic = 1.5 * 0x1p52 * HRF_PERFORMER_GRID;
    return (x + magic) - magic;
}

void hrf_ref_performer_max(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct attention a = attention_of(spec, call, 1);
    const float *k = hrf_spec_data(spec, call, 0);
    for (int64_t i = 0; i < a.n_images * a.n_heads; i++) {
        double high = -INFINITY;
        for (int64_t t = 0; t < a.n_tokens; t++)
            high = fmax(high, largest(&a, token(&a, k, i, t)));
        hrf_floats(call)[i] = (float)high;
    }
}

void hrf_ref_performer_state(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct attention a = attention_of(spec, call, HRF_STATE_PROJECTION);
    const float *k = hrf_spec_data(spec, call, HRF_STATE_K);
    const float *v = hrf_spec_data(spec, call, HRF_STATE_V);
    const float *high = hrf_spec_data(spec, call, HRF_STATE_MAX);
    double *sums = call->output;
    memset(sums, 0, (size_t)hrf_shape_count(&spec->output.shape) * sizeof *sums);
    for (int64_t i = 0; i < a.n_images * a.n_heads; i++, sums += (a.d + 1) * a.m)
        for (int64_t t = 0; t < a.n_tokens; t++)
            for (int64_t f = 0; f < a.m; f++) {
                const double phi = feature(&a, f, token(&a, k, i, t),
                                           high != NULL ? (double)high[i] : 0);
                for (int64_t c = 0; c < a.d; c++)
                    sums[c * a.m + f] += on_grid(phi * (double)token(&a, v, i, t)[c]);
                sums[a.d * a.m + f] += on_grid(phi);
            }
}

void hrf_ref_performer_apply(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct attention a = attention_of(spec, call, HRF_STATE_PROJECTION);
    const float *x = hrf_spec_data(spec, call, 0);
    const double *state = hrf_spec_data(spec, call, 1);
    for (int64_t i = 0; i < a.n_images * a.n_heads; i++, state += (a.d + 1) * a.m)
        for (int64_t t = 0; t < a.n_tokens; t++) {
            const float *q = token(&a, x, i, t);
            const double high = spec->attributes.exponential ? largest(&a, q) : 0;
            double sums[HRF_PERFORMER_MAX_HEAD + 1] = { 0 };
            for (int64_t f = 0; f < a.m; f++) {
                const double phi = feature(&a, f, q, high);
                for (int64_t c = 0; c <= a.d; c++)
                    sums[c] += phi * state[c * a.m + f];
            }
            for (int64_t c = 0; c < a.d; c++)
                hrf_floats(call)[q - x + c] = (float)(sums[c] / sums[a.d]);
        }
}
