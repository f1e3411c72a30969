/* performer_loops.c - linear attention over the tokens of one head; compiled once for each
 * instruction set, whose name is HRF_INSTRUCTION_SET. Every sum is in double and in the order of
 * the reference, and nothing is contracted, so that every instruction set gives the same bits. */
#include "engine/backend/cpu/transformer/performer.h"

#include <math.h>
#include <string.h>

#define JOIN(what, set)     hrf_performer_##what##_##set
#define EXPAND(what, set)   JOIN(what, set)
#define HRF_PERFORMER(what) EXPAND(what, HRF_INSTRUCTION_SET)

/* Sets out[f] to row f of the projection times token u. */
static void project(const struct hrf_performer *a, const float *u, double *restrict out)
{
    memset(out, 0, (size_t)a->m * sizeof *out);
    for (int64_t c = 0; c < a->d; c++) {
        const double x = (double)u[c];
        const double *restrict row = a->projection + c * a->m;
        for (int64_t f = 0; f < a->m; f++)
            out[f] += x * row[f];
    }
}

static double performer_loops_largest(const struct hrf_performer *a, const double *l)
{
    double high = -INFINITY;
    for (int64_t f = 0; f < a->m; f++)
        high = l[f] > high ? l[f] : high;
    return high;
}

/* `high`: the largest feature of the keys; NULL for a query, which uses its own. */
static void features(const struct hrf_performer *a, const float *u, const float *high,
                     double *restrict out)
{
    project(a, u, out);
    if (!a->exponential) {
        for (int64_t f = 0; f < a->m; f++)
            out[f] = (out[f] < 0 ? 0 : out[f]) + a->epsilon;
        return;
    }
    const double most = high != NULL ? (double)*high : performer_loops_largest(a, out);
    double square = 0;
    for (int64_t c = 0; c < a->d; c++)
        square += (double)u[c] * (double)u[c];
    const double off = square / (2 * sqrt((double)a->d));
    for (int64_t f = 0; f < a->m; f++)
        out[f] = exp(out[f] - off - most) + a->epsilon;
}

float HRF_PERFORMER(max)(const struct hrf_performer *a, const float *k, int64_t n_tokens)
{
    double l[HRF_PERFORMER_MAX_FEATURES], high = -INFINITY;
    for (int64_t t = 0; t < n_tokens; t++) {
        project(a, k + t * a->token_stride, l);
        high = fmax(high, performer_loops_largest(a, l));
    }
    return (float)high;
}

void HRF_PERFORMER(state)(const struct hrf_performer *a, const float *k, const float *v,
                          const float *high, int64_t n_tokens, double *restrict sums)
{
    const double magic = 1.5 * 0x1p52 * HRF_PERFORMER_GRID;
    double phi[HRF_PERFORMER_MAX_FEATURES];
    memset(sums, 0, (size_t)((a->d + 1) * a->m) * sizeof *sums);
    for (int64_t t = 0; t < n_tokens; t++) {
        features(a, k + t * a->token_stride, high, phi);
        for (int64_t c = 0; c <= a->d; c++) {
            const double x = c < a->d ? (double)v[t * a->token_stride + c] : 1;
            double *restrict to = sums + c * a->m;
            for (int64_t f = 0; f < a->m; f++)
                to[f] += (phi[f] * x + magic) - magic;
        }
    }
}

void HRF_PERFORMER(apply)(const struct hrf_performer *a, const float *q, const double *transposed,
                          int64_t n_tokens, float *y)
{
    double phi[HRF_PERFORMER_MAX_FEATURES], sums[HRF_PERFORMER_MAX_HEAD + 1];
    const int64_t width = a->d + 1;
    for (int64_t t = 0; t < n_tokens; t++) {
        features(a, q + t * a->token_stride, NULL, phi);
        memset(sums, 0, (size_t)width * sizeof *sums);
        for (int64_t f = 0; f < a->m; f++) {
            const double x = phi[f];
            const double *restrict row = transposed + f * width;
            for (int64_t c = 0; c < width; c++)
                sums[c] += x * row[c];
        }
        for (int64_t c = 0; c < a->d; c++)
            y[t * a->token_stride + c] = (float)(sums[c] / sums[a->d]);
    }
}
