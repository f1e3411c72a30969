/* fit.c - chooses an 8-bit range for each tensor from its histogram. */
#include "calibrate/fit/fit.h"

#include "base/strbuf.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_CANDIDATES = 256 };
#define STRENGTH_SLACK 1.02 /* the same for less smoothing */
#define SLACK          1.15 /* 0.6 dB: what a wider clip may cost in squared error */

static double width_of(const struct hrf_observation *o)
{
    assert(o->n > 0);
    return ldexp(1, o->exponent);
}

static float max_of(const struct hrf_observation *o)
{
    return fmaxf(fabsf(o->low), fabsf(o->high));
}

/* The number of bins up to the last one that is not empty. */
static int used_bins(const struct hrf_observation *o)
{
    int n = HRF_OBSERVE_BINS;
    while (n > 0 && o->bins[n - 1] == 0)
        n--;
    return n;
}

/* Mean squared error of clipping at `clip`: step^2 / 12 inside (rounding is uniform; what lies in
 * a bin finer than a step by itself is taken at its centre), the distance outside. */
static double squared_error(const struct hrf_observation *o, int n_bins, double clip)
{
    const double width = width_of(o), step = clip / (o->low >= 0 ? 255 : 127);
    double sum = 0;
    for (int i = 0; i < n_bins; i++) {
        if (o->bins[i] == 0)
            continue;
        const double centre = (i + 0.5) * width;
        const double outside = centre - clip;
        double error = step * step / 12;
        if (outside > 0)
            error = outside * outside;
        else if (i == 0)
            error = fmin(error, width * width / 3); /* zeros are exact, and many */
        sum += (double)o->bins[i] * error;
    }
    return sum / (double)o->n;
}

static double fit_percentile(const struct hrf_observation *o, int n_bins)
{
    const int64_t outside = o->n / 10000;
    int64_t n = 0;
    int i = n_bins;
    while (i > 1 && n + o->bins[i - 1] <= outside)
        n += o->bins[--i];
    return fmin(i * width_of(o), (double)max_of(o));
}

/* The widest clip that costs at most SLACK times as much as the best one: the error hardly changes
 * around its minimum, while images outside the sample have larger values. */
static double fit_mse(const struct hrf_observation *o, int n_bins)
{
    const double max = max_of(o);
    double errors[N_CANDIDATES + 1], min = INFINITY;
    for (int i = N_CANDIDATES / 16; i <= N_CANDIDATES; i++) {
        errors[i] = squared_error(o, n_bins, max * i / N_CANDIDATES);
        min = fmin(min, errors[i]);
    }
    int widest = N_CANDIDATES;
    while (widest > N_CANDIDATES / 16 && errors[widest] > SLACK * min)
        widest--;
    return max * widest / N_CANDIDATES;
}

/* What lies in bin 0, after a RELU most of a tensor, costs nothing whatever the clip, yet would
 * outweigh the rest: it counts as its neighbour does. Without this a sparse tensor is clipped to
 * its first 256 bins. Source: NVIDIA's pytorch-quantization does so too. */
static int64_t count_of(const struct hrf_observation *o, int bin)
{
    return o->bins[bin == 0 ? 1 : bin];
}

/* Divergence of the first n bins, what lies beyond counted in the last, from the same in `levels`
 * levels, each spread evenly over its bins that are not empty. `all`: the sum of the counts. */
static double divergence(const struct hrf_observation *o, int n, int n_bins, int levels,
                         int64_t all)
{
    int64_t beyond = 0;
    double sum = 0;
    for (int i = n; i < n_bins; i++)
        beyond += count_of(o, i);
    for (int level = 0; level < levels; level++) {
        const int begin = (int)((int64_t)n * level / levels);
        const int end = (int)((int64_t)n * (level + 1) / levels);
        int64_t total = 0;
        int n_used = 0;
        for (int i = begin; i < end; i++) {
            total += count_of(o, i);
            n_used += count_of(o, i) != 0 || (i == n - 1 && beyond > 0);
        }
        for (int i = begin; i < end; i++) {
            const double p = (double)(count_of(o, i) + (i == n - 1 ? beyond : 0)) / (double)all;
            const double q = n_used > 0 ? (double)total / n_used / (double)(all - beyond) : 0;
            if (p > 0)
                sum += p * log(p / fmax(q, 1e-12));
        }
    }
    return sum;
}

static double fit_entropy(const struct hrf_observation *o, int n_bins)
{
    const int levels = o->low >= 0 ? 256 : 128;
    double best = max_of(o), min = INFINITY;
    int64_t all = 0;
    for (int i = 0; i < n_bins; i++)
        all += count_of(o, i);
    if (n_bins <= levels || all == 0)
        return best;
    for (int i = 0; i <= N_CANDIDATES; i++) {
        const int n = levels + (int)((int64_t)(n_bins - levels) * i / N_CANDIDATES);
        const double d = divergence(o, n, n_bins, levels, all);
        if (d < min) {
            min = d;
            best = fmin(n * width_of(o), (double)max_of(o));
        }
    }
    return best;
}

static double clip_of(const struct hrf_observation *o, enum hrf_fit_method kind, int n_bins)
{
    switch (kind) {
    case HRF_FIT_PERCENTILE:
        return fit_percentile(o, n_bins);
    case HRF_FIT_ENTROPY:
        return fit_entropy(o, n_bins);
    case HRF_FIT_MSE:
        return fit_mse(o, n_bins);
    default:
        return max_of(o);
    }
}

static double decibels(double signal, double noise)
{
    return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

static double signal_power(const struct hrf_observation *o, int n_bins)
{
    double sum = 0;
    for (int i = 0; i < n_bins; i++) {
        const double centre = (i + 0.5) * width_of(o);
        sum += (double)o->bins[i] * centre * centre;
    }
    return sum / (double)o->n;
}

enum hrf_status hrf_fit_range(const struct hrf_observation *o, enum hrf_fit_method kind,
                              struct hrf_fit *out, struct hrf_error *err)
{
    if (o->n_broken > 0)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' held %lld numbers that are NaN or infinite, of %lld: the "
                             "model breaks on this sample in float32 already",
                             o->value, (long long)o->n_broken, (long long)(o->n + o->n_broken));
    if (o->n == 0)
        return hrf_error_set(err, HRF_E_USER, "tensor '%s' was never seen: the sample is empty",
                             o->value);
    const int n_bins = used_bins(o);
    double clips[HRF_FIT_AUTO] = { 0 }, errors[HRF_FIT_AUTO], min = INFINITY;
    for (int k = 0; k < HRF_FIT_AUTO; k++) {
        errors[k] = INFINITY;
        if (kind != HRF_FIT_AUTO && (enum hrf_fit_method)k != kind)
            continue;
        clips[k] = clip_of(o, (enum hrf_fit_method)k, n_bins);
        errors[k] = squared_error(o, n_bins, clips[k]);
        min = fmin(min, errors[k]);
    }
    double clip = 0;
    for (int k = 0; k < HRF_FIT_AUTO; k++)
        if (errors[k] <= SLACK * min && clips[k] >= clip) {
            clip = clips[k];
            out->kind = (enum hrf_fit_method)k;
        }
    const double error = squared_error(o, n_bins, clip);
    out->high = (float)clip;
    out->low = o->low >= 0 ? 0.0f : -(float)clip;
    out->sqnr_db = decibels(signal_power(o, n_bins), error);
    return HRF_OK;
}

/* The weakest smoothing whose error is near the least: what is not needed is not changed. */
static int fit_strength(const struct hrf_observation *o)
{
    double min = INFINITY;
    for (int i = 0; i < HRF_OBSERVE_STRENGTHS; i++)
        min = fmin(min, o->errors[i]);
    int weakest = 0;
    while (weakest < HRF_OBSERVE_STRENGTHS - 1 && o->errors[weakest] > min * STRENGTH_SLACK)
        weakest++;
    return weakest;
}

/* What was measured of a product of tokens counts instead of the range's estimate. */
static void fit_tokens(const struct hrf_observation *o, struct hrf_calibration_tensor *t)
{
    const int i = fit_strength(o);
    if (o->n_tries == 0)
        return;
    char *rows = hrf_strdup("rows");
    hrf_free(t->method);
    t->method = rows;
    t->sqnr_db = decibels((double)o->n_tries, o->errors[i]);
    t->strength = hrf_observe_strength(i);
    if (t->strength <= 0)
        return;
    t->peaks = hrf_alloc_array((size_t)o->n_channels, sizeof *t->peaks);
    memcpy(t->peaks, o->peaks, (size_t)o->n_channels * sizeof *t->peaks);
}

static enum hrf_status fit_tensor(const struct hrf_observation *o, enum hrf_fit_method kind,
                                  struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    struct hrf_fit fit;
    HRF_TRY(hrf_fit_range(o, kind, &fit, err));
    *t = (struct hrf_calibration_tensor){ .name = hrf_strdup(o->value),
                                          .low = fit.low,
                                          .high = fit.high,
                                          .is_observed = true,
                                          .observed_low = o->low,
                                          .observed_high = o->high,
                                          .method = hrf_strdup(hrf_fit_method_name(fit.kind)),
                                          .sqnr_db = fit.sqnr_db,
                                          .n_means = o->n_channels };
    t->means = hrf_alloc_array((size_t)o->n_channels, sizeof *t->means);
    fit_tokens(o, t);
    for (int64_t c = 0; c < o->n_channels; c++)
        t->means[c] = (float)(o->sums[c] * (double)o->n_channels / (double)o->n);
    return HRF_OK;
}

enum hrf_status hrf_fit_all(const struct hrf_observations *observations, enum hrf_fit_method kind,
                            struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) c = hrf_calloc(1, sizeof *c);
    c->tensors = hrf_calloc((size_t)observations->n_items + 1, sizeof *c->tensors);
    c->method = hrf_strdup(hrf_fit_method_name(kind));
    if (observations->n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "the calibration sample is empty");
    for (int32_t i = 0; i < observations->n_items; i++) {
        c->n_tensors++;
        HRF_TRY(fit_tensor(&observations->items[i], kind, &c->tensors[i], err));
        const char *doubt = hrf_calibration_doubt(&c->tensors[i]);
        if (doubt != NULL)
            hrf_calibration_keep(c, c->tensors[i].name, doubt);
    }
    HRF_MOVE(*out, c);
    return HRF_OK;
}

void hrf_fit_keep_noisy(struct hrf_calibration *c, double min_sqnr_db)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &c->tensors[i];
        char reason[96];
        if (t->sqnr_db >= min_sqnr_db)
            continue;
        snprintf(reason, sizeof reason,
                 "8 bits hold it with %.1f dB of signal to noise; %g dB are wanted", t->sqnr_db,
                 min_sqnr_db);
        hrf_calibration_keep(c, t->name, reason);
    }
}

char *hrf_fit_warnings(const struct hrf_observations *observations)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    for (int32_t i = 0; i < observations->n_items; i++) {
        const struct hrf_observation *o = &observations->items[i];
        if (o->n > 1 && o->low == o->high)
            hrf_strbuf_addf(&text, "tensor '%s' was %g throughout the sample (%lld numbers)\n",
                            o->value, (double)o->low, (long long)o->n);
    }
    return hrf_strbuf_detach(&text);
}
