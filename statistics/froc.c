/* froc.c - hits and false positives to the curve, the score and its interval. */
#include "statistics/froc.h"

#include "base/alloc.h"
#include "base/random.h"
#include "base/sort.h"
#include "statistics/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double hrf_froc_rates[HRF_FROC_RATES] = { 0.25, 0.5, 1, 2, 4, 8 };

const char *const hrf_froc_rule_names[] = { "official", "jama", "strict", NULL };

void hrf_froc_slide_release(struct hrf_froc_slide *slide)
{
    hrf_free(slide->confidence);
    hrf_free(slide->is_itc);
    hrf_free(slide->false_positives);
    *slide = (struct hrf_froc_slide){ .n_lesions = 0 };
}

void hrf_froc_release(struct hrf_froc *froc)
{
    hrf_free(froc->curve);
    *froc = (struct hrf_froc){ .score = 0 };
}

/* ---- the curve ---- */

/* A confidence, and the slide that has it. */
struct entry {
    double value;
    size_t slide;
};

/* A threshold, and where the sorted entries reach it. */
struct threshold {
    double value;
    size_t false_positives, hits;         /* the first entry that is >= value */
    size_t false_positives_end, hits_end; /* behind the entries that equal value: who has it */
    size_t hits_equal;
};

struct curve {
    enum hrf_froc_rule rule;
    const struct hrf_froc_slide *slides;
    size_t n_slides;
    struct entry *false_positives,
        *hits; /* rising; by the script a lesion missed, or an ITC, is a hit of 0 */
    size_t n_false_positives, n_hits;
    struct threshold *thresholds; /* rising */
    size_t n_thresholds;
    /* Scratch: how often entries [i..] are in the sample. */
    int64_t *false_positives_from, *hits_from;
    struct hrf_froc_point *points;
};

static void curve_release(struct curve *c)
{
    hrf_free(c->false_positives);
    hrf_free(c->hits);
    hrf_free(c->thresholds);
    hrf_free(c->false_positives_from);
    hrf_free(c->hits_from);
    hrf_free(c->points);
}

static int by_value(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->slide > y->slide) - (x->slide < y->slide);
}

/* NumPy keeps a lesion's confidence as float32. */
static double hit_value(enum hrf_froc_rule rule, double confidence)
{
    return rule == HRF_FROC_STRICT ? confidence : (double)(float)confidence;
}

static bool counts_false_positives(enum hrf_froc_rule rule, const struct hrf_froc_slide *slide)
{
    return rule != HRF_FROC_JAMA || !slide->is_positive;
}

static void gather(struct curve *c)
{
    size_t n_false = 0, n_hits = 0;
    for (size_t i = 0; i < c->n_slides; i++) {
        n_false += c->slides[i].n_false_positives;
        n_hits += c->slides[i].n_lesions;
    }
    const size_t n = n_false + n_hits;
    c->false_positives = hrf_alloc_array(n_false + 1, sizeof *c->false_positives);
    c->hits = hrf_alloc_array(n_hits + 1, sizeof *c->hits);
    c->thresholds = hrf_alloc_array(n + 1, sizeof *c->thresholds);
    c->false_positives_from = hrf_alloc_array(n_false + 1, sizeof *c->false_positives_from);
    c->hits_from = hrf_alloc_array(n_hits + 1, sizeof *c->hits_from);
    c->points = hrf_alloc_array(n + 1, sizeof *c->points);
    for (size_t i = 0; i < c->n_slides; i++) {
        const struct hrf_froc_slide *s = &c->slides[i];
        for (size_t k = 0; counts_false_positives(c->rule, s) && k < s->n_false_positives; k++)
            c->false_positives[c->n_false_positives++] = (struct entry){ s->false_positives[k], i };
        for (size_t k = 0; k < s->n_lesions; k++)
            if (c->rule != HRF_FROC_STRICT || s->confidence[k] > 0.0)
                c->hits[c->n_hits++] = (struct entry){ hit_value(c->rule, s->confidence[k]), i };
    }
    qsort(c->false_positives, c->n_false_positives, sizeof *c->false_positives, by_value);
    qsort(c->hits, c->n_hits, sizeof *c->hits, by_value);
}

/* The first of the sorted entries that is >= value. */
static size_t reach(const struct entry *entries, size_t n, double value)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (entries[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Every value once. The script compares hits, an array of float32, with a threshold in float32. */
static void find_thresholds(struct curve *c)
{
    size_t f = 0, h = 0;
    while (f < c->n_false_positives || h < c->n_hits) {
        const double next_false = f < c->n_false_positives ? c->false_positives[f].value : INFINITY;
        const double next_hit = h < c->n_hits ? c->hits[h].value : INFINITY;
        struct threshold t = { .value = fmin(next_false, next_hit),
                               .false_positives = f,
                               .hits_equal = h };
        while (f < c->n_false_positives && c->false_positives[f].value == t.value)
            f++;
        while (h < c->n_hits && c->hits[h].value == t.value)
            h++;
        t.false_positives_end = f;
        t.hits_end = h;
        t.hits = reach(c->hits, c->n_hits, hit_value(c->rule, t.value));
        c->thresholds[c->n_thresholds++] = t;
    }
}

static void sum_from(const struct entry *entries, size_t n, const uint32_t *counts, int64_t *from)
{
    from[n] = 0;
    for (size_t i = n; i > 0; i--)
        from[i - 1] = from[i] + (counts != NULL ? counts[entries[i - 1].slide] : 1);
}

/* The denominators: lesions that count, and slides to average over. */
static void count_all(const struct curve *c, const uint32_t *counts, double *n_lesions,
                      double *n_averaged)
{
    *n_lesions = *n_averaged = 0.0;
    for (size_t i = 0; i < c->n_slides; i++) {
        const double times = counts != NULL ? counts[i] : 1;
        for (size_t k = 0; k < c->slides[i].n_lesions; k++)
            *n_lesions += c->slides[i].is_itc[k] ? 0.0 : times;
        *n_averaged += counts_false_positives(c->rule, &c->slides[i]) ? times : 0.0;
    }
}

/* Fills c->points for a sample of the slides; counts NULL: each once. Returns their number; 0: no
 * lesion, or no slide to average over. */
static size_t draw_curve(struct curve *c, const uint32_t *counts)
{
    double n_lesions, n_averaged;
    count_all(c, counts, &n_lesions, &n_averaged);
    if (n_lesions <= 0.0 || n_averaged <= 0.0)
        return 0;
    sum_from(c->false_positives, c->n_false_positives, counts, c->false_positives_from);
    sum_from(c->hits, c->n_hits, counts, c->hits_from);
    size_t first = 0; /* the smallest threshold of the sample */
    const int64_t *f = c->false_positives_from, *h = c->hits_from;
    for (; first < c->n_thresholds; first++) {
        const struct threshold *t = &c->thresholds[first];
        if (f[t->false_positives] > f[t->false_positives_end] || h[t->hits_equal] > h[t->hits_end])
            break;
    }
    first += c->rule != HRF_FROC_STRICT; /* it is dropped: all_probs[1:] */
    size_t n = 0;
    c->points[n++] = (struct hrf_froc_point){ 0.0, 0.0, INFINITY };
    for (size_t i = c->n_thresholds; i > first; i--) {
        const struct threshold *t = &c->thresholds[i - 1];
        if (f[t->false_positives] == f[t->false_positives_end] &&
            h[t->hits_equal] == h[t->hits_end])
            continue; /* not of this sample */
        c->points[n++] = (struct hrf_froc_point){ (double)f[t->false_positives] / n_averaged,
                                                  (double)h[t->hits] / n_lesions, t->value };
    }
    return n;
}

/* numpy.interp: of points at one place the last; beyond the last point its value. */
static double sensitivity_at(const struct hrf_froc_point *points, size_t n, double rate)
{
    size_t low = 0, high = n; /* the last point at or before `rate` is in [low, high) */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (points[middle].false_positives <= rate)
            low = middle;
        else
            high = middle;
    }
    const struct hrf_froc_point *a = &points[low];
    if (low + 1 == n || a->false_positives == rate)
        return a->sensitivity;
    const struct hrf_froc_point *b = a + 1;
    const double slope = (b->sensitivity - a->sensitivity) /
                         (b->false_positives - a->false_positives);
    return slope * (rate - a->false_positives) + a->sensitivity;
}

static double score_of(const struct hrf_froc_point *points, size_t n, double *sensitivity)
{
    double sum = 0.0;
    for (int i = 0; i < HRF_FROC_RATES; i++) {
        sensitivity[i] = sensitivity_at(points, n, hrf_froc_rates[i]);
        sum += sensitivity[i];
    }
    return sum / HRF_FROC_RATES;
}

/* ---- the interval ---- */

static void bootstrap(struct curve *c, int64_t n_resamples, uint64_t seed, struct hrf_froc *out)
{
    HRF_AUTO_FREE size_t *order = hrf_alloc_array(c->n_slides + 1, sizeof *order);
    HRF_AUTO_FREE uint32_t *counts = hrf_alloc_array(c->n_slides + 1, sizeof *counts);
    HRF_AUTO_FREE double *scores = hrf_alloc_array((size_t)n_resamples + 1, sizeof *scores);
    size_t n_positive = 0, n_negative = c->n_slides;
    for (size_t i = 0; i < c->n_slides; i++)
        order[c->slides[i].is_positive ? n_positive++ : --n_negative] = i;
    struct hrf_random random = hrf_random_init(seed);
    size_t n = 0;
    for (int64_t i = 0; i < n_resamples; i++) {
        double ignored[HRF_FROC_RATES];
        hrf_resample(&random, order, c->n_slides, n_positive, counts);
        const size_t n_points = draw_curve(c, counts);
        if (n_points > 0)
            scores[n++] = score_of(c->points, n_points, ignored);
    }
    qsort(scores, n, sizeof *scores, hrf_compare_doubles);
    out->interval = (struct hrf_interval){ hrf_quantile(scores, n, 0.025),
                                           hrf_quantile(scores, n, 0.975) };
    out->n_resamples = (int64_t)n;
}

static void find_interval(struct curve *c, int64_t n_resamples, uint64_t seed, struct hrf_froc *out)
{
    size_t n_with_lesion = 0;
    for (size_t i = 0; i < c->n_slides; i++) {
        size_t n = 0;
        for (size_t k = 0; k < c->slides[i].n_lesions; k++)
            n += !c->slides[i].is_itc[k];
        n_with_lesion += n > 0;
    }
    if (n_with_lesion < HRF_FROC_MIN_SLIDES)
        snprintf(out->no_interval, sizeof out->no_interval,
                 "%zu lesion%s on %zu slide%s are too few: a bootstrap over slides needs %d slides "
                 "with lesions",
                 out->n_lesions, out->n_lesions == 1 ? "" : "s", n_with_lesion,
                 n_with_lesion == 1 ? "" : "s", HRF_FROC_MIN_SLIDES);
    else
        bootstrap(c, n_resamples, seed, out);
    if (out->n_resamples > 0 && out->interval.low == out->interval.high)
        snprintf(out->no_interval, sizeof out->no_interval,
                 "a bootstrap over %zu slides with lesions has no width: all give the same score",
                 n_with_lesion);
    if (out->no_interval[0] == '\0')
        return;
    out->interval = (struct hrf_interval){ NAN, NAN };
    out->n_resamples = 0;
}

/* ---- all of it ---- */

static void count_facts(const struct curve *c, struct hrf_froc *out)
{
    out->n_slides = c->n_slides;
    out->n_false_positives = c->n_false_positives;
    for (size_t i = 0; i < c->n_slides; i++) {
        const struct hrf_froc_slide *s = &c->slides[i];
        out->n_averaged += counts_false_positives(c->rule, s);
        for (size_t k = 0; k < s->n_lesions; k++) {
            *(s->is_itc[k] ? &out->n_itc : &out->n_lesions) += 1;
            out->n_hits += s->confidence[k] > 0.0;
        }
    }
}

static enum hrf_status compute(struct curve *c, int64_t n_resamples, uint64_t seed,
                               struct hrf_froc *out, struct hrf_error *err)
{
    struct hrf_froc froc = { .score = 0.0 };
    gather(c);
    find_thresholds(c);
    count_facts(c, &froc);
    if (froc.n_lesions == 0)
        return hrf_error_set(err, HRF_E_USER, "no lesion that counts on the %zu slides (%zu ITC)",
                             c->n_slides, froc.n_itc);
    if (froc.n_averaged == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "no slide without metastases to average false positives over");
    find_interval(c, n_resamples, seed, &froc);
    froc.n_points = draw_curve(c, NULL);
    froc.score = score_of(c->points, froc.n_points, froc.sensitivity);
    froc.curve = c->points;
    c->points = NULL;
    *out = froc;
    return HRF_OK;
}

enum hrf_status hrf_froc_compute(const struct hrf_froc_slide *slides, size_t n_slides,
                                 enum hrf_froc_rule rule, int64_t n_resamples, uint64_t seed,
                                 struct hrf_froc *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(curve) c = { .rule = rule, .slides = slides, .n_slides = n_slides };
    return compute(&c, n_resamples, seed, out, err);
}
