/* output_loss.c - cosine and margins of two outputs (output_loss.h). */
#include "engine/run/output_loss.h"

#include "statistics/cosine.h"
#include "statistics/most_likely.h"

#include <math.h>

/* Below the smallest normal float32: a probability of 0 is as good as this. */
#define MIN_PROBABILITY 1e-38
#define MAX_MARGIN      175.0 /* of two probabilities, log(1 / MIN_PROBABILITY) twice */

static double cosine_distance(const float *exact, const float *got, int64_t n)
{
    const double cosine = hrf_cosine(exact, got, n);
    return isnan(cosine) ? 2 : 1 - cosine;
}

static double log_of(double probability)
{
    return isnan(probability) ? NAN : log(fmax(probability, MIN_PROBABILITY));
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
        return cosine_distance(exact, got, n);
    if (n > 1)
        find_two(exact, n, two);
    const double moved = lead(got, n, two) - lead(exact, n, two);
    return isnan(moved) ? MAX_MARGIN * MAX_MARGIN : moved * moved;
}

void hrf_output_loss_add(struct hrf_observed_loss *sum, const float *exact, const float *got,
                         int64_t n, int64_t n_classes)
{
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = (double)got[i] - (double)exact[i];
        signal += (double)exact[i] * (double)exact[i];
        noise += difference * difference;
    }
    const bool is_finite = isfinite(noise);
    sum->n_images++;
    sum->signal += isfinite(signal) ? signal : 0;
    sum->noise += is_finite ? noise : isfinite(signal) ? signal : 0;
    sum->cosine += noise == 0 ? 1 : is_finite ? 1 - cosine_distance(exact, got, n) : 0;
    for (int64_t at = 0; n_classes > 0 && at + n_classes <= n; at += n_classes) {
        sum->n_labels++;
        sum->n_changed += !is_finite || hrf_most_probable(exact + at, n_classes) !=
                                            hrf_most_probable(got + at, n_classes);
    }
}
