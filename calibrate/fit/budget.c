/* budget.c - chooses the layers that leave INT8 (budget.h). */
#include "calibrate/fit/budget.h"

#include "base/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INT8, FP32, BF16 }; /* of the times, and what a layer is in */
#define CLEARLY 1.05       /* times differ by less from run to run */
/* Of a layer that alone is in bfloat16 the input is converted in a step of its own, which the time
 * of the layer in a network of bfloat16 does not hold. */
#define WITH_CONVERSION 1.25
#define MIN_MS          1e-6 /* for ratios */

/* A layer, and what it is in. */
struct choice {
    const struct hrf_observed_layer *layer;
    int in;
};

static double measured_ms(const struct hrf_observed_layer *layer, int which)
{
    return 1e3 * layer->seconds[which] / (layer->n_timed > 0 ? (double)layer->n_timed : 1);
}

static double milliseconds(const struct hrf_observed_layer *layer, int which)
{
    return measured_ms(layer, which) * (which == BF16 ? WITH_CONVERSION : 1);
}

/* Mean over the images. */
static double loss_of(const struct hrf_observed_layer *layer, int which)
{
    if (which == INT8)
        return layer->n_images > 0 ? layer->loss / (double)layer->n_images : 0;
    return which == BF16 && layer->n_bf16_images > 0
               ? layer->bf16_loss / (double)layer->n_bf16_images
               : 0;
}

/* How much more all layers together lose than the sum of each alone: they round the same way, and
 * the few images of a layer's measurement may be easier than the many of the whole network's. */
static double together(const struct hrf_observations *o)
{
    double sum = 0;
    for (int32_t i = 0; i < o->n_layers; i++)
        sum += loss_of(&o->layers[i], INT8);
    return sum > 0 && o->n_whole > 0 ? fmax(1, o->whole_loss / (double)o->n_whole / sum) : 1;
}

/* The loss of the output for a sum of layers' losses. */
static double expected(const struct hrf_observations *o, double sum)
{
    sum *= together(o);
    if (o->loss == HRF_LOSS_COSINE || !(sum > 0))
        return sum > 0 ? sum : 0;
    double changed = 0;
    for (int64_t i = 0; i < o->n_margins; i++)
        changed += erfc(o->margins[i] / sqrt(2 * sum)) / 2;
    return o->n_margins > 0 ? changed / (double)o->n_margins : 0;
}

/* What a layer is in if it leaves what it is in for less loss. */
static int next_of(const struct choice *c)
{
    const struct hrf_observed_layer *layer = c->layer;
    const bool has_bf16 = layer->n_bf16_images > 0 &&
                          milliseconds(layer, BF16) < milliseconds(layer, FP32);
    return c->in == INT8 && has_bf16 && loss_of(layer, BF16) < loss_of(layer, INT8) ? BF16 : FP32;
}

static double sum_of(const struct choice *choices, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += loss_of(choices[i].layer, choices[i].in);
    return sum;
}

/* The choice that wins most loss for the time that it costs; NULL: none wins any. */
static struct choice *worst_of(struct choice *choices, int32_t n)
{
    struct choice *worst = NULL;
    double max = 0;
    for (int32_t i = 0; i < n; i++) {
        struct choice *c = &choices[i];
        const int next = next_of(c);
        const double loss = loss_of(c->layer, c->in) - loss_of(c->layer, next);
        const double ms = milliseconds(c->layer, next) - milliseconds(c->layer, c->in);
        const double rate = loss / fmax(ms, MIN_MS);
        if (c->in == FP32 || !(rate > max))
            continue;
        max = rate;
        worst = c;
    }
    return worst;
}

/* ---- the record ---- */

static void keep(const struct hrf_observations *o, const struct choice *choice,
                 struct hrf_calibration *c)
{
    const struct hrf_observed_layer *layer = choice->layer;
    char reason[192];
    const double loss = expected(o, loss_of(layer, INT8));
    const double moved = sqrt(loss_of(layer, INT8) * together(o));
    const double saved = milliseconds(layer, choice->in) - milliseconds(layer, INT8);
    const char *why = saved < 0 ? "INT8 is not faster here" : "over calibrate.budget";
    if (o->loss == HRF_LOSS_COSINE)
        snprintf(reason, sizeof reason,
                 "%s: alone in INT8 it turns the output by %.2e (1 - cosine) and saves %.3f ms an "
                 "image",
                 why, loss, saved);
    else
        snprintf(reason, sizeof reason,
                 "%s: alone in INT8 it moves margins between classes by %.2e, changes about %.2e "
                 "of the classes and saves %.3f ms an image",
                 why, moved, loss, saved);
    hrf_calibration_keep(c, layer->tensor, reason);
    struct hrf_calibration_keep *kept = &c->keep[c->n_keep - 1];
    kept->loss = loss;
    kept->times = (struct hrf_calibration_times){ measured_ms(layer, INT8),
                                                  measured_ms(layer, FP32),
                                                  measured_ms(layer, BF16) };
    kept->precision = choice->in == BF16 ? HRF_BF16 : HRF_FP32;
}

static void budget_record(const struct hrf_observations *o, double min,
                          const struct choice *choices, int32_t n, struct hrf_calibration *c)
{
    struct hrf_calibration_budget *b = &c->budget;
    const double runs = 1e-3 * (double)o->n_timed;
    b->min = min;
    b->loss = expected(o, sum_of(choices, n));
    b->times = (struct hrf_calibration_times){ o->seconds[INT8] / runs, o->seconds[FP32] / runs,
                                               o->seconds[BF16] / runs };
    for (int32_t i = 0; i < n; i++) {
        b->times.int8_ms += milliseconds(choices[i].layer, choices[i].in) -
                            milliseconds(choices[i].layer, INT8);
        if (choices[i].in != INT8)
            keep(o, &choices[i], c);
    }
    hrf_free(b->measure);
    b->measure = hrf_strdup(o->loss == HRF_LOSS_COSINE ? "cosine" : "agreement");
}

enum hrf_status hrf_fit_budget(const struct hrf_observations *o, double min,
                               struct hrf_calibration *c, struct hrf_error *err)
{
    HRF_AUTO_FREE struct choice *choices = hrf_calloc((size_t)o->n_layers + 1, sizeof *choices);
    int32_t n = 0;
    if (o->n_timed == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "calibrate.budget: no layer was measured; layers are measured on "
                             "processors, {engine.device} cpu");
    for (int32_t i = 0; i < o->n_layers; i++) {
        struct choice one = { &o->layers[i], INT8 };
        if (hrf_calibration_is_kept(c, one.layer->tensor))
            continue;
        const int other = next_of(&one);
        if (milliseconds(one.layer, INT8) > CLEARLY * milliseconds(one.layer, other))
            one.in = other;
        choices[n++] = one;
    }
    while (expected(o, sum_of(choices, n)) > 1 - min) {
        struct choice *worst = worst_of(choices, n);
        if (worst == NULL)
            break;
        worst->in = next_of(worst);
    }
    budget_record(o, min, choices, n, c);
    return HRF_OK;
}

static int64_t count_left(const struct hrf_calibration *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->n_keep; i++)
        n += c->keep[i].precision != HRF_N_PRECISIONS;
    return n;
}

static void add_budget(struct hrf_strbuf *text, const struct hrf_calibration_budget *b,
                       int64_t n_left)
{
    const struct hrf_calibration_times *t = &b->times;
    hrf_strbuf_addf(text,
                    "of the loss of %.3g that %s of %.9g allows, the layers in INT8 take about "
                    "%.2e; %lld left INT8; an image takes about %.2f ms so on one core, %.2f ms in "
                    "fp32, %.2f ms in bf16",
                    1 - b->min, strcmp(b->measure, "cosine") == 0 ? "a cosine" : "an agreement",
                    b->min, b->loss, (long long)n_left, t->int8_ms, t->fp32_ms, t->bf16_ms);
    if (t->int8_ms >= fmin(t->fp32_ms, t->bf16_ms))
        hrf_strbuf_addf(text, ": INT8 is not faster than %s on this machine",
                        t->bf16_ms < t->fp32_ms ? "bf16" : "fp32");
}

char *hrf_fit_budget_text(const struct hrf_calibration *c)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    if (c->budget.measure != NULL)
        add_budget(&text, &c->budget, count_left(c));
    return hrf_strbuf_detach(&text);
}

/* ---- what INT8 loses ---- */

/* A budget that would not be warned of. */
#define MIN_COSINE    0.995
#define MIN_AGREEMENT 0.99

/* What a budget makes of the calibration, in a copy of which it needs but the tensors' names. */
static enum hrf_status try_budget(const struct hrf_observations *o, struct hrf_calibration *c,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) trial = hrf_calloc(1, sizeof *trial);
    for (size_t i = 0; i < c->n_keep; i++)
        hrf_calibration_keep(trial, c->keep[i].name, c->keep[i].reason);
    HRF_TRY(hrf_fit_budget(o, o->loss == HRF_LOSS_COSINE ? MIN_COSINE : MIN_AGREEMENT, trial, err));
    c->lost.n_left = count_left(trial);
    c->lost.with_budget = trial->budget;
    trial->budget.measure = NULL; /* it has moved */
    return HRF_OK;
}

enum hrf_status hrf_fit_loss(const struct hrf_observations *o, struct hrf_calibration *c,
                             struct hrf_error *err)
{
    const struct hrf_observed_loss *lost = &o->lost;
    c->lost.n_images = lost->n_images;
    c->lost.sqnr_db = hrf_observed_loss_sqnr_db(lost);
    c->lost.cosine = lost->n_images > 0 ? lost->cosine / (double)lost->n_images : 0;
    c->lost.n_labels = lost->n_labels;
    c->lost.n_changed = lost->n_changed;
    return hrf_fit_loss_is_large(c) && o->n_timed > 0 && c->budget.measure == NULL
               ? try_budget(o, c, err)
               : HRF_OK;
}

bool hrf_fit_loss_is_large(const struct hrf_calibration *c)
{
    return c->lost.n_images > 0 &&
           hrf_loss_is_large(c->lost.sqnr_db, c->lost.n_labels, c->lost.n_changed);
}

char *hrf_fit_loss_text(const struct hrf_calibration *c)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    const struct hrf_calibration_loss *lost = &c->lost;
    if (lost->reason != NULL)
        hrf_strbuf_addf(&text, "what INT8 loses in the output was not measured: %s", lost->reason);
    if (lost->n_images == 0)
        return hrf_strbuf_detach(&text);
    hrf_strbuf_addf(&text, "on %lld patches that did not calibrate, ", (long long)lost->n_images);
    if (isfinite(lost->sqnr_db))
        hrf_strbuf_addf(&text, "INT8's output has %.1f dB of signal to noise", lost->sqnr_db);
    else
        hrf_strbuf_adds(&text, "INT8's output is FP32's");
    hrf_strbuf_addf(&text, " and a mean cosine of %.5f with FP32's", lost->cosine);
    if (lost->n_labels > 0)
        hrf_strbuf_addf(&text, "; %lld of %lld labels changed (%.3g %%)",
                        (long long)lost->n_changed, (long long)lost->n_labels,
                        100.0 * (double)lost->n_changed / (double)lost->n_labels);
    if (!hrf_fit_loss_is_large(c))
        return hrf_strbuf_detach(&text);
    hrf_strbuf_addf(&text, ". That is much (below %.0f dB, or over %.0f %% of labels)",
                    HRF_LOSS_MIN_SQNR_DB, 100 * HRF_LOSS_MAX_CHANGED);
    if (lost->with_budget.measure != NULL) {
        hrf_strbuf_addf(&text, "; estimated with calibrate.budget: {%s: %.9g}: ",
                        lost->with_budget.measure, lost->with_budget.min);
        add_budget(&text, &lost->with_budget, lost->n_left);
    } else if (c->budget.measure != NULL) {
        hrf_strbuf_addf(&text, "; calibrate.budget allows %.3g: allow less, or use bf16 or fp16",
                        1 - c->budget.min);
    } else {
        hrf_strbuf_adds(&text, "; set calibrate.budget (of patches, on a "
                               "processor), name layers in calibrate.keep, or use bf16 or fp16");
    }
    return hrf_strbuf_detach(&text);
}
