/* output_loss.c - cosine and margins of two outputs (output_loss.h). */
#include "engine/run/output_loss.h"

#include "base/cosine.h"

#include <math.h>

/* Below the smallest normal float32: a probability of 0 is as good as this. */
#define LEAST_PROBABILITY 1e-38
#define MOST_MARGIN       175.0 /* of two probabilities, log(1 / LEAST_PROBABILITY) twice */

static double turned(const float *exact, const float *got, int64_t n)
{
    const double cosine = hrf_cosine(exact, got, n);
    return isnan(cosine) ? 2 : 1 - cosine;
}

static double log_of(double probability)
{
    return isnan(probability) ? NAN : log(fmax(probability, LEAST_PROBABILITY));
}

/* The two most likely classes. */
static void find_two(const float *p, int64_t n, int64_t two[2])
{
    two[0] = n > 1 && p[1] > p[0];
    two[1] = 1 - two[0];
    for (int64_t k = 2; k < n; k++) {
        if (p[k] > p[two[0]]) {
            two[1] = two[0];
            two[0] = k;
        } else if (p[k] > p[two[1]]) {
            two[1] = k;
        }
    }
}

static double lead(const float *p, int64_t n, const int64_t two[2])
{
    return n > 1 ? log_of((double)p[two[0]]) - log_of((double)p[two[1]])
                 : log_of((double)p[0]) - log_of(1 - (double)p[0]);
}

double hrf_output_margin(const float *probabilities, int64_t n)
{
    int64_t two[2] = { 0, 0 };
    if (n > 1)
        find_two(probabilities, n, two);
    for (int64_t k = 0; k < n; k++)
        if (isnan(probabilities[k]))
            return NAN;
    return fabs(lead(probabilities, n, two));
}

double hrf_output_loss(enum hrf_layer_loss loss, const float *exact, const float *got, int64_t n)
{
    int64_t two[2] = { 0, 0 };
    if (loss == HRF_LOSS_COSINE)
        return turned(exact, got, n);
    if (n > 1)
        find_two(exact, n, two);
    const double moved = lead(got, n, two) - lead(exact, n, two);
    return isnan(moved) ? MOST_MARGIN * MOST_MARGIN : moved * moved;
}
