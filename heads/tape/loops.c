/* loops.c - loops over one row, written so that the compiler turns them into vector instructions.
 *
 * Sums run in 16 lanes that are added in a fixed order. Functions are those with which the engine
 * computes the trained head, because the library's are a call for each number. */
#include "base/elementary.h"
#include "heads/tape/tape_private.h"

enum { LANES = 16 };

void hrf_loop_activate(float *y, int64_t n, enum hrf_tape_activation activation)
{
    switch (activation) {
    case HRF_TAPE_PLAIN:
        break;
    case HRF_TAPE_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = y[i] < 0.0F ? 0.0F : y[i];
        break;
    case HRF_TAPE_TANH:
        for (int64_t i = 0; i < n; i++)
            y[i] = hrf_v_tanh(y[i]);
        break;
    case HRF_TAPE_SIGMOID:
        for (int64_t i = 0; i < n; i++)
            y[i] = hrf_v_sigmoid(y[i]);
        break;
    }
}

void hrf_loop_slope(float *dy, const float *y, int64_t n, enum hrf_tape_activation activation)
{
    switch (activation) {
    case HRF_TAPE_PLAIN:
        break;
    case HRF_TAPE_RELU:
        for (int64_t i = 0; i < n; i++)
            dy[i] = y[i] > 0.0F ? dy[i] : 0.0F;
        break;
    case HRF_TAPE_TANH:
        for (int64_t i = 0; i < n; i++)
            dy[i] *= 1.0F - y[i] * y[i];
        break;
    case HRF_TAPE_SIGMOID:
        for (int64_t i = 0; i < n; i++)
            dy[i] *= y[i] * (1.0F - y[i]);
        break;
    }
}

void hrf_loop_add(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void hrf_loop_scaled(float *y, const float *x, float a, float beta, int64_t n)
{
    if (beta == 0.0F)
        for (int64_t i = 0; i < n; i++)
            y[i] = a * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = a * x[i] + beta * y[i];
}

void hrf_loop_product(float *y, const float *a, const float *b, float beta, int64_t n)
{
    if (beta == 0.0F)
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] * b[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] += a[i] * b[i];
}

static float add_lanes(const float lanes[LANES])
{
    float sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

float hrf_loop_sum(const float *x, int64_t n)
{
    float lanes[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += x[i + l];
    for (; i < n; i++)
        lanes[i % LANES] += x[i];
    return add_lanes(lanes);
}

float hrf_loop_dot(const float *a, const float *b, int64_t n)
{
    float lanes[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        lanes[i % LANES] += a[i] * b[i];
    return add_lanes(lanes);
}

float hrf_loop_largest(const float *x, int64_t n)
{
    float lanes[LANES];
    for (int l = 0; l < LANES; l++)
        lanes[l] = x[0];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (; i < n; i++)
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    for (int l = 1; l < LANES; l++)
        lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}

float hrf_loop_exp(float *y, const float *x, float largest, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = hrf_v_exp(x[i] - largest);
    return hrf_loop_sum(y, n);
}

/* Source: "lowbias32", C. Wellons, Prospecting for Hash Functions. */
static inline uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}

void hrf_loop_drop(float *y, const float *x, float p, uint64_t key, int64_t row, int64_t n)
{
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    const uint32_t of_row = mix(low ^ mix((uint32_t)row ^ mix(high ^ (uint32_t)(row >> 32))));
    const uint32_t limit = (uint32_t)(p * 0x1p24F);
    const float keep = 1.0F / (1.0F - p);
    for (int64_t i = 0; i < n; i++)
        y[i] = mix(of_row + (uint32_t)i * 0x9E3779B9U) >> 8 < limit ? 0.0F : x[i] * keep;
}
