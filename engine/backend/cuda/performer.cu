/* performer.cu - PERFORMER's three parts: features of tokens, their sums, what queries make of
 * them.
 *
 * Sums are of multiples of a grid and so exact in double: their order does not show.
 */
#include "engine/backend/cuda/performer.h"

#include "engine/backend/cuda/kernel_launch.cuh"

#include <math.h>

/* Token t of head i, counted over all images. */
DEVICE const float *token(const hrf_k_performer &a, const float *x, int64_t i, int64_t t)
{
    return x + (i / a.heads * a.tokens + t) * a.channels + i % a.heads * a.d;
}

DEVICE double project(const hrf_k_performer &a, int64_t f, const float *u)
{
    double sum = 0;
    for (int64_t c = 0; c < a.d; c++)
        sum += (double)u[c] * ((double)a.projection[f * a.d + c] * a.scale);
    return sum;
}

/* most[i][t]: the largest of a token's products, for tokens [first, first + n). */
KERNEL token_max(hrf_k_performer a, const float *x, int64_t first, int64_t n, double *most,
                 int64_t all)
{
    FOR_EACH(at, all)
    {
        const float *u = token(a, x, at / n, first + at % n);
        double high = -INFINITY;
        for (int64_t f = 0; f < a.m; f++) {
            const double l = project(a, f, u);
            high = l > high ? l : high;
        }
        most[at] = high;
    }
}

/* y[i]: the largest over n tokens, and over what y has already. */
KERNEL head_max(const double *most, int64_t n, int32_t is_first, float *y, int64_t all)
{
    FOR_EACH(i, all)
    {
        float high = is_first != 0 ? -INFINITY : y[i];
        for (int64_t t = 0; t < n; t++)
            high = (float)most[i * n + t] > high ? (float)most[i * n + t] : high;
        y[i] = high;
    }
}

/* phi[i][t][f]; the exponent's largest is a token's own (most) or a head's (high), or nothing. */
KERNEL features(hrf_k_performer a, const float *x, int64_t first, int64_t n, const double *most,
                const float *high, double *phi, int64_t all)
{
    FOR_EACH(at, all)
    {
        const int64_t f = at % a.m, t = at / a.m % n, i = at / a.m / n;
        const float *u = token(a, x, i, first + t);
        const double l = project(a, f, u);
        if (a.exponential == 0) {
            phi[at] = (l < 0 ? 0 : l) + a.epsilon;
            continue;
        }
        double square = 0;
        for (int64_t c = 0; c < a.d; c++)
            square += (double)u[c] * (double)u[c];
        const double top = most != nullptr   ? most[i * n + t]
                           : high != nullptr ? (double)high[i]
                                             : 0;
        phi[at] = exp(l - square * a.half_inverse_root - top) + a.epsilon;
    }
}

DEVICE double on_grid(double x, double magic)
{
    return (x + magic) - magic;
}

/* sums[i][c][f] over n tokens: of phi v for c < d, of phi for c = d. */
KERNEL sum_state(hrf_k_performer a, const double *phi, const float *v, int64_t first, int64_t n,
                 int32_t is_first, double *sums, int64_t all)
{
    FOR_EACH(at, all)
    {
        const int64_t f = at % a.m, c = at / a.m % (a.d + 1), i = at / a.m / (a.d + 1);
        double sum = is_first != 0 ? 0 : sums[at];
        for (int64_t t = 0; t < n; t++) {
            const double p = phi[(i * n + t) * a.m + f];
            sum += on_grid(c < a.d ? p * (double)token(a, v, i, first + t)[c] : p, a.magic);
        }
        sums[at] = sum;
    }
}

KERNEL apply_state(hrf_k_performer a, const double *phi, const double *state, int64_t first,
                   int64_t n, float *y, int64_t all)
{
    FOR_EACH(at, all)
    {
        const int64_t c = at % a.d, t = at / a.d % n, i = at / a.d / n;
        const double *mine = state + i * (a.d + 1) * a.m, *p = phi + (i * n + t) * a.m;
        double over = 0, under = 0;
        for (int64_t f = 0; f < a.m; f++) {
            over += p[f] * mine[c * a.m + f];
            under += p[f] * mine[a.d * a.m + f];
        }
        y[(i / a.heads * a.tokens + first + t) * a.channels + i % a.heads * a.d + c] =
            (float)(over / under);
    }
}

cudaError_t hrf_k_token_max(const struct hrf_k_performer *a, const float *x, int64_t first,
                            int64_t n, double *most, cudaStream_t stream)
{
    const int64_t all = a->images * a->heads * n;
    return LAUNCH(token_max, all, stream, *a, x, first, n, most, all);
}

cudaError_t hrf_k_head_max(const struct hrf_k_performer *a, const double *most, int64_t n,
                           int32_t is_first, float *y, cudaStream_t stream)
{
    const int64_t all = a->images * a->heads;
    return LAUNCH(head_max, all, stream, most, n, is_first, y, all);
}

cudaError_t hrf_k_features(const struct hrf_k_performer *a, const float *x, int64_t first,
                           int64_t n, const double *most, const float *high, double *phi,
                           cudaStream_t stream)
{
    const int64_t all = a->images * a->heads * n * a->m;
    return LAUNCH(features, all, stream, *a, x, first, n, most, high, phi, all);
}

cudaError_t hrf_k_sum_state(const struct hrf_k_performer *a, const double *phi, const float *v,
                            int64_t first, int64_t n, int32_t is_first, double *sums,
                            cudaStream_t stream)
{
    const int64_t all = a->images * a->heads * (a->d + 1) * a->m;
    return LAUNCH(sum_state, all, stream, *a, phi, v, first, n, is_first, sums, all);
}

cudaError_t hrf_k_apply_state(const struct hrf_k_performer *a, const double *phi,
                              const double *state, int64_t first, int64_t n, float *y,
                              cudaStream_t stream)
{
    const int64_t all = a->images * a->heads * n * a->d;
    return LAUNCH(apply_state, all, stream, *a, phi, state, first, n, y, all);
}
