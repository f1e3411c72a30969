/* budget.c - chooses the layers that leave INT8 (budget.h). */
#include "calibrate/fit/budget.h"

#include "base/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INT8, FP32, BF16 }; /* of the times */
#define CLEARLY 1.05       /* times differ by less from run to run */

static bool is_kept(const struct hrf_calibration *c, const char *tensor)
{
    for (size_t i = 0; i < c->n_keep; i++)
        if (strcmp(c->keep[i].name, tensor) == 0)
            return true;
    return false;
}

static double loss_of(const struct hrf_observed_layer *layer)
{
    return layer->n_images > 0 ? layer->loss / (double)layer->n_images : 0;
}

/* Seconds of an image that INT8 saves over float32. */
static double gain_of(const struct hrf_observed_layer *layer)
{
    const double n = layer->n_timed > 0 ? (double)layer->n_timed : 1;
    return (layer->seconds[FP32] - layer->seconds[INT8]) / n;
}

/* The layers' losses, added: what is measured one at a time adds up while it is small. */
static double loss_of_all(const struct hrf_observations *o, const struct hrf_calibration *c)
{
    double sum = 0;
    for (int32_t i = 0; i < o->n_layers; i++)
        if (!is_kept(c, o->layers[i].tensor))
            sum += loss_of(&o->layers[i]);
    return sum;
}

static enum hrf_status keep(const struct hrf_observed_layer *layer, const char *why,
                            struct hrf_calibration *c, struct hrf_error *err)
{
    char reason[160];
    snprintf(reason, sizeof reason,
             "%s: alone in INT8 it turns the output by %.2e (1 - cosine) and saves %.3f ms an "
             "image",
             why, loss_of(layer), 1e3 * gain_of(layer));
    return hrf_calibration_keep(c, layer->tensor, reason, err);
}

/* The layer with the most loss for each second that it saves. */
static const struct hrf_observed_layer *worst_of(const struct hrf_observations *o,
                                                 const struct hrf_calibration *c)
{
    const struct hrf_observed_layer *worst = NULL;
    double most = 0;
    for (int32_t i = 0; i < o->n_layers; i++) {
        const struct hrf_observed_layer *layer = &o->layers[i];
        const double rate = loss_of(layer) / fmax(gain_of(layer), 1e-9);
        if (is_kept(c, layer->tensor) || !(rate > most))
            continue;
        most = rate;
        worst = layer;
    }
    return worst;
}

enum hrf_status hrf_fit_budget(const struct hrf_observations *o, double budget,
                               struct hrf_calibration *c, struct hrf_error *err)
{
    for (int32_t i = 0; i < o->n_layers; i++)
        if (o->layers[i].n_timed > 0 &&
            o->layers[i].seconds[INT8] > CLEARLY * o->layers[i].seconds[FP32] &&
            !is_kept(c, o->layers[i].tensor))
            HRF_TRY(keep(&o->layers[i], "INT8 is not faster here", c, err));
    while (loss_of_all(o, c) > budget) {
        const struct hrf_observed_layer *worst = worst_of(o, c);
        if (worst == NULL)
            break;
        HRF_TRY(keep(worst, "over calibrate.budget", c, err));
    }
    return HRF_OK;
}

char *hrf_fit_budget_words(const struct hrf_observations *o, const struct hrf_calibration *c,
                           double budget)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    const double n = o->n_timed > 0 ? 1e-3 * (double)o->n_timed : 1;
    double back = 0;
    for (int32_t i = 0; i < o->n_layers; i++)
        if (is_kept(c, o->layers[i].tensor))
            back += 1e3 * gain_of(&o->layers[i]);
    if (o->n_timed == 0)
        return hrf_strbuf_detach(&text);
    const double int8 = o->seconds[INT8] / n + back, fp32 = o->seconds[FP32] / n;
    const double bf16 = o->seconds[BF16] / n, other = fmin(fp32, bf16);
    hrf_strbuf_addf(&text,
                    "of the budget of %g, the layers in INT8 take %.2e (1 - cosine, added up); an "
                    "image takes about %.2f ms so on one core, %.2f ms in fp32, %.2f ms in bf16",
                    budget, loss_of_all(o, c), int8, fp32, bf16);
    if (int8 >= other)
        hrf_strbuf_addf(&text, ": INT8 is not faster than %s on this machine",
                        bf16 < fp32 ? "bf16" : "fp32");
    return hrf_strbuf_detach(&text);
}
