/* softmax_loops.c - see softmax.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. A row's largest score and its sum are computed in LANES independent chains,
 * assigned by the index of the key: in a single chain every operation would wait for the one before
 * it. */
#include "engine/backend/cpu/transformer/softmax.h"

#include "base/elementary.h"

#include <math.h>

#define JOIN(what, set)   hrf_softmax_##what##_##set
#define EXPAND(what, set) JOIN(what, set)
#define HRF_SOFTMAX(what) EXPAND(what, HRF_INSTRUCTION_SET)

enum { LANES = 8 };

HRF_ALWAYS_INLINE float larger(float a, float b)
{
    return b <= a ? a : b;
}

/* Adds the mask and finds the largest score. A NaN may be missed here: the sum becomes a NaN
 * anyway. */
static float find_largest(const struct hrf_score_row *row, float largest)
{
    float *x = row->scores, most[LANES];
    int64_t s = 0;
    for (int64_t i = 0; row->mask != NULL && i < row->n_seen; i++)
        x[i] += row->mask[i];
    for (int i = 0; i < LANES; i++)
        most[i] = largest;
    for (; s + LANES <= row->n_seen; s += LANES)
        for (int i = 0; i < LANES; i++)
            most[i] = larger(most[i], x[s + i]);
    for (; s < row->n_seen; s++)
        largest = larger(largest, x[s]);
    for (int i = 0; i < LANES; i++)
        largest = larger(largest, most[i]);
    return largest;
}

/* Sets x to exp(x - largest) and returns the sum. Values below exp(-87), 1.6e-38, become 0, because
 * products with subnormal numbers take many cycles. */
static double exponentials(float *x, int64_t n, float largest)
{
    double sums[LANES] = { 0 }, sum = 0;
    int64_t s = 0;
    for (int64_t i = 0; i < n; i++) {
        const float e = hrf_v_exp(hrf_v_max(x[i] - largest, -87.0f));
        x[i] = e <= 0x1p-125f ? 0 : e;
    }
    for (; s + LANES <= n; s += LANES)
        for (int i = 0; i < LANES; i++)
            sums[i] += (double)x[s + i];
    for (; s < n; s++)
        sum += (double)x[s];
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    return sum;
}

/* The same for a row, with 0 for keys that the query does not see. */
static double raise_row(const struct hrf_score_row *row, int64_t n_keys, float largest)
{
    const int64_t n = largest != -INFINITY ? row->n_seen : 0;
    float *x = row->scores;
    const double sum = exponentials(x, n, largest);
    for (int64_t i = n; i < n_keys; i++)
        x[i] = 0;
    return sum;
}

void HRF_SOFTMAX(rows)(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys)
{
    for (int64_t r = 0; r < n_rows; r++) {
        float *x = rows[r].scores;
        const double sum = raise_row(&rows[r], n_keys, find_largest(&rows[r], -INFINITY));
        const float factor = sum == 0 ? 0 : (float)(1 / sum);
        for (int64_t i = 0; i < rows[r].n_seen; i++)
            x[i] *= factor;
    }
}

void HRF_SOFTMAX(block)(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys)
{
    for (int64_t r = 0; r < n_rows; r++) {
        rows[r].largest = find_largest(&rows[r], rows[r].largest);
        rows[r].sum = (float)raise_row(&rows[r], n_keys, rows[r].largest);
    }
}

/* w (g - sum of w g) */
void HRF_SOFTMAX(back)(const float *weights, float *gradient, int64_t n_keys)
{
    double sums[LANES] = { 0 }, sum = 0;
    int64_t s = 0;
    for (; s + LANES <= n_keys; s += LANES)
        for (int i = 0; i < LANES; i++)
            sums[i] += (double)(weights[s + i] * gradient[s + i]);
    for (; s < n_keys; s++)
        sum += (double)(weights[s] * gradient[s]);
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    for (s = 0; s < n_keys; s++)
        gradient[s] = weights[s] * (gradient[s] - (float)sum);
}
