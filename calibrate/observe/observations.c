/* observations.c - collects ranges, histograms and channel means of tensors. */
#include "calibrate/observe/observations.h"

#include "base/array.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MIN_EXPONENT = -160 }; /* below the smallest subnormal: all numbers were zero so far */

void hrf_observations_release(struct hrf_observations *observations)
{
    for (int32_t i = 0; i < observations->n_items; i++) {
        hrf_free(observations->items[i].value);
        hrf_free(observations->items[i].sums);
        hrf_free(observations->items[i].peaks);
    }
    for (int32_t i = 0; i < observations->n_layers; i++)
        hrf_free(observations->layers[i].tensor);
    hrf_free(observations->layers);
    hrf_free(observations->margins);
    hrf_free(observations->items);
    *observations = (struct hrf_observations){ .items = NULL };
}

float hrf_observe_strength(int i)
{
    static const float strengths[HRF_OBSERVE_STRENGTHS] = { 0, 0.35f, 0.5f, 0.65f, 0.8f, 1 };
    return strengths[i];
}

static struct hrf_observation *observations_find(const struct hrf_observations *observations,
                                                 const char *value)
{
    for (int32_t i = 0; i < observations->n_items; i++)
        if (strcmp(observations->items[i].value, value) == 0)
            return &observations->items[i];
    return NULL;
}

static enum hrf_status find_or_add(struct hrf_observations *observations, const char *value,
                                   int64_t n_channels, struct hrf_observation **out,
                                   struct hrf_error *err)
{
    *out = observations_find(observations, value);
    if (*out != NULL && (*out)->n_channels != n_channels)
        return hrf_error_set(err, HRF_E_BUG, "tensor '%s' had %lld channels and has %lld", value,
                             (long long)(*out)->n_channels, (long long)n_channels);
    if (*out != NULL)
        return HRF_OK;
    HRF_RESERVE(observations->items, observations->capacity, (size_t)observations->n_items + 1);
    struct hrf_observation *o = &observations->items[observations->n_items];
    memset(o, 0, sizeof *o);
    o->exponent = MIN_EXPONENT;
    o->n_channels = n_channels;
    o->value = hrf_strdup(value);
    o->sums = hrf_calloc((size_t)n_channels, sizeof *o->sums);
    o->peaks = hrf_calloc((size_t)n_channels, sizeof *o->peaks);
    observations->n_items++;
    *out = o;
    return HRF_OK;
}

/* Joins pairs of bins until each is 2^exponent wide. */
static void observations_widen(struct hrf_observation *o, int exponent)
{
    for (; o->exponent < exponent; o->exponent++) {
        if (o->bins[0] == o->n) { /* all are in the first bin, however wide it is */
            o->exponent = exponent;
            return;
        }
        for (int i = 0; i < HRF_OBSERVE_BINS / 2; i++)
            o->bins[i] = o->bins[2 * i] + o->bins[2 * i + 1];
        memset(o->bins + HRF_OBSERVE_BINS / 2, 0, sizeof o->bins / 2);
    }
}

/* The smallest exponent whose bins reach beyond `magnitude`. */
static int exponent_for(float magnitude)
{
    int e;
    if (magnitude == 0)
        return MIN_EXPONENT;
    (void)frexpf(magnitude, &e); /* magnitude < 2^e */
    return e - 12;               /* 2^12 bins */
}

static void find_range(struct hrf_observation *o, const float *numbers, int64_t n, float *max)
{
    float low = INFINITY, high = -INFINITY;
    int64_t n_broken = 0;
    for (int64_t i = 0; i < n; i++) {
        const float v = numbers[i];
        if (!isfinite(v)) {
            n_broken++;
            continue;
        }
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if (n > n_broken) {
        o->low = o->n == 0 || low < o->low ? low : o->low;
        o->high = o->n == 0 || high > o->high ? high : o->high;
    }
    o->n_broken += n_broken;
    *max = n == n_broken ? 0 : fmaxf(fabsf(low), fabsf(high));
}

enum hrf_status hrf_observe(struct hrf_observations *observations, const char *value,
                            const float *numbers, int64_t n, int64_t n_channels,
                            struct hrf_error *err)
{
    struct hrf_observation *o;
    float max;
    HRF_TRY(find_or_add(observations, value, n_channels, &o, err));
    find_range(o, numbers, n, &max);
    if (exponent_for(max) > o->exponent)
        observations_widen(o, exponent_for(max));
    const double inverse = ldexp(1, -o->exponent);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(numbers[i]))
            continue;
        o->bins[(int)((double)fabsf(numbers[i]) * inverse)]++;
        o->sums[i % n_channels] += (double)numbers[i];
        o->peaks[i % n_channels] = fmaxf(o->peaks[i % n_channels], fabsf(numbers[i]));
        o->n++;
    }
    return HRF_OK;
}

static void merge(struct hrf_observation *o, const struct hrf_observation *from)
{
    if (from->n > 0) {
        o->low = o->n == 0 || from->low < o->low ? from->low : o->low;
        o->high = o->n == 0 || from->high > o->high ? from->high : o->high;
    }
    if (from->exponent > o->exponent)
        observations_widen(o, from->exponent);
    const int shift = o->exponent - from->exponent;
    for (int i = 0; i < HRF_OBSERVE_BINS; i++)
        o->bins[shift < 31 ? i >> shift : 0] += from->bins[i];
    for (int64_t c = 0; c < o->n_channels; c++) {
        o->sums[c] += from->sums[c];
        o->peaks[c] = fmaxf(o->peaks[c], from->peaks[c]);
    }
    for (int i = 0; i < HRF_OBSERVE_STRENGTHS; i++)
        o->errors[i] += from->errors[i];
    o->n_tries += from->n_tries;
    o->n += from->n;
    o->n_broken += from->n_broken;
}

enum hrf_status hrf_observations_merge(struct hrf_observations *into,
                                       const struct hrf_observations *from, struct hrf_error *err)
{
    for (int32_t i = 0; i < from->n_items; i++) {
        struct hrf_observation *o;
        HRF_TRY(find_or_add(into, from->items[i].value, from->items[i].n_channels, &o, err));
        merge(o, &from->items[i]);
    }
    if (from->n_layers > 0 && into->n_layers > 0 && from->loss != into->loss)
        return hrf_error_set(err, HRF_E_BUG, "layers' losses of two kinds cannot be added");
    if (from->n_layers > 0)
        into->loss = from->loss;
    for (int32_t i = 0; i < from->n_layers; i++) {
        const struct hrf_observed_layer *one = &from->layers[i];
        struct hrf_observed_layer *layer = hrf_observations_layer(into, one->tensor);
        layer->loss += one->loss;
        layer->n_images += one->n_images;
        layer->bf16_loss += one->bf16_loss;
        layer->n_bf16_images += one->n_bf16_images;
        layer->n_timed += one->n_timed;
        for (int k = 0; k < HRF_OBSERVE_TIMES; k++)
            layer->seconds[k] += one->seconds[k];
    }
    for (int k = 0; k < HRF_OBSERVE_TIMES; k++)
        into->seconds[k] += from->seconds[k];
    into->n_timed += from->n_timed;
    into->whole_loss += from->whole_loss;
    into->n_whole += from->n_whole;
    into->lost.n_images += from->lost.n_images;
    into->lost.signal += from->lost.signal;
    into->lost.noise += from->lost.noise;
    into->lost.cosine += from->lost.cosine;
    into->lost.n_labels += from->lost.n_labels;
    into->lost.n_changed += from->lost.n_changed;
    for (int64_t i = 0; i < from->n_margins; i++)
        hrf_observations_margin(into, from->margins[i]);
    return HRF_OK;
}

void hrf_observations_margin(struct hrf_observations *observations, double margin)
{
    HRF_RESERVE(observations->margins, observations->margins_capacity,
                (size_t)observations->n_margins + 1);
    observations->margins[observations->n_margins++] = margin;
}

struct hrf_observed_layer *hrf_observations_layer(struct hrf_observations *observations,
                                                  const char *tensor)
{
    for (int32_t i = 0; i < observations->n_layers; i++)
        if (strcmp(observations->layers[i].tensor, tensor) == 0)
            return &observations->layers[i];
    HRF_RESERVE(observations->layers, observations->layers_capacity,
                (size_t)observations->n_layers + 1);
    struct hrf_observed_layer *layer = &observations->layers[observations->n_layers++];
    *layer = (struct hrf_observed_layer){ .tensor = hrf_strdup(tensor) };
    return layer;
}

bool hrf_loss_is_large(double sqnr_db, int64_t n_labels, int64_t n_changed)
{
    return sqnr_db < HRF_LOSS_MIN_SQNR_DB ||
           (double)n_changed > HRF_LOSS_MAX_CHANGED * (double)n_labels;
}

double hrf_observed_loss_sqnr_db(const struct hrf_observed_loss *loss)
{
    return loss->noise > 0 ? 10 * log10(fmax(loss->signal, DBL_MIN) / loss->noise) : HUGE_VAL;
}
