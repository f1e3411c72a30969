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
#define LEAST_MS        1e-6 /* for ratios */

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
    double most = 0;
    for (int32_t i = 0; i < n; i++) {
        struct choice *c = &choices[i];
        const int next = next_of(c);
        const double loss = loss_of(c->layer, c->in) - loss_of(c->layer, next);
        const double ms = milliseconds(c->layer, next) - milliseconds(c->layer, c->in);
        const double rate = loss / fmax(ms, LEAST_MS);
        if (c->in == FP32 || !(rate > most))
            continue;
        most = rate;
        worst = c;
    }
    return worst;
}

/* ---- the record ---- */

static bool is_kept(const struct hrf_calibration *c, const char *tensor)
{
    for (size_t i = 0; i < c->n_keep; i++)
        if (strcmp(c->keep[i].name, tensor) == 0)
            return true;
    return false;
}

static enum hrf_status keep(const struct hrf_observations *o, const struct choice *choice,
                            struct hrf_calibration *c, struct hrf_error *err)
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
    HRF_TRY(hrf_calibration_keep(c, layer->tensor, reason, err));
    struct hrf_calibration_keep *kept = &c->keep[c->n_keep - 1];
    kept->loss = loss;
    kept->times = (struct hrf_calibration_times){ measured_ms(layer, INT8),
                                                  measured_ms(layer, FP32),
                                                  measured_ms(layer, BF16) };
    kept->precision = hrf_strdup(choice->in == BF16 ? "bf16" : "fp32");
    HRF_CHECK_MEMORY(kept->precision != NULL, err, "no memory for a calibration");
    return HRF_OK;
}

static enum hrf_status record(const struct hrf_observations *o, double least,
                              const struct choice *choices, int32_t n, struct hrf_calibration *c,
                              struct hrf_error *err)
{
    struct hrf_calibration_budget *b = &c->budget;
    const double runs = 1e-3 * (double)o->n_timed;
    b->least = least;
    b->loss = expected(o, sum_of(choices, n));
    b->times = (struct hrf_calibration_times){ o->seconds[INT8] / runs, o->seconds[FP32] / runs,
                                               o->seconds[BF16] / runs };
    for (int32_t i = 0; i < n; i++) {
        b->times.int8_ms += milliseconds(choices[i].layer, choices[i].in) -
                            milliseconds(choices[i].layer, INT8);
        if (choices[i].in != INT8)
            HRF_TRY(keep(o, &choices[i], c, err));
    }
    hrf_free(b->measure);
    b->measure = hrf_strdup(o->loss == HRF_LOSS_COSINE ? "cosine" : "agreement");
    HRF_CHECK_MEMORY(b->measure != NULL, err, "no memory for a calibration");
    return HRF_OK;
}

enum hrf_status hrf_fit_budget(const struct hrf_observations *o, double least,
                               struct hrf_calibration *c, struct hrf_error *err)
{
    HRF_AUTO_FREE struct choice *choices = hrf_calloc((size_t)o->n_layers + 1, sizeof *choices);
    int32_t n = 0;
    HRF_CHECK_MEMORY(choices != NULL, err, "no memory for a budget");
    if (o->n_timed == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "calibrate.budget: no layer was measured; layers are measured on "
                             "processors, engine.device cpu");
    for (int32_t i = 0; i < o->n_layers; i++) {
        struct choice one = { &o->layers[i], INT8 };
        if (is_kept(c, one.layer->tensor))
            continue;
        const int other = next_of(&one);
        if (milliseconds(one.layer, INT8) > CLEARLY * milliseconds(one.layer, other))
            one.in = other;
        choices[n++] = one;
    }
    while (expected(o, sum_of(choices, n)) > 1 - least) {
        struct choice *worst = worst_of(choices, n);
        if (worst == NULL)
            break;
        worst->in = next_of(worst);
    }
    return record(o, least, choices, n, c, err);
}

char *hrf_fit_budget_words(const struct hrf_calibration *c)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    const struct hrf_calibration_budget *b = &c->budget;
    const struct hrf_calibration_times *t = &b->times;
    size_t n = 0;
    if (b->measure == NULL)
        return hrf_strbuf_detach(&text);
    for (size_t i = 0; i < c->n_keep; i++)
        n += c->keep[i].precision != NULL;
    hrf_strbuf_addf(&text,
                    "of the loss of %.3g that %s of %.9g allows, the layers in INT8 take about "
                    "%.2e; %zu left INT8; an image takes about %.2f ms so on one core, %.2f ms in "
                    "fp32, %.2f ms in bf16",
                    1 - b->least, strcmp(b->measure, "cosine") == 0 ? "a cosine" : "an agreement",
                    b->least, b->loss, n, t->int8_ms, t->fp32_ms, t->bf16_ms);
    if (t->int8_ms >= fmin(t->fp32_ms, t->bf16_ms))
        hrf_strbuf_addf(&text, ": INT8 is not faster than %s on this machine",
                        t->bf16_ms < t->fp32_ms ? "bf16" : "fp32");
    return hrf_strbuf_detach(&text);
}
