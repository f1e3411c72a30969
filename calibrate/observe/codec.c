/* codec.c - writes and reads observations as JSON. */
#include "calibrate/observe/observations.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

enum { VERSION = 6 };

static const char *const losses[] = { "cosine", "margin" };

/* Pairs of index and count: most bins of most tensors are empty. */
static json_t *bins_json(const struct hrf_observation *o)
{
    json_t *list = json_array();
    for (int i = 0; i < HRF_OBSERVE_BINS; i++)
        if (o->bins[i] != 0) {
            hrf_json_add(list, json_integer(i));
            hrf_json_add(list, json_integer((json_int_t)o->bins[i]));
        }
    return list;
}

static json_t *observation_json(const struct hrf_observation *o)
{
    json_t *object = json_object(), *peaks = json_array();
    for (int64_t c = 0; c < o->n_channels; c++)
        hrf_json_add(peaks, hrf_json_number((double)o->peaks[c]));
    hrf_json_put_text(object, "value", o->value);
    hrf_json_put_int(object, "n", o->n);
    hrf_json_put_int(object, "broken", o->n_broken);
    hrf_json_put_number(object, "low", (double)o->low);
    hrf_json_put_number(object, "high", (double)o->high);
    hrf_json_put_int(object, "exponent", o->exponent);
    hrf_json_put(object, "bins", bins_json(o));
    hrf_json_put(object, "sums", hrf_json_numbers(o->sums, (size_t)o->n_channels));
    hrf_json_put(object, "peaks", peaks);
    hrf_json_put(object, "errors", hrf_json_numbers(o->errors, HRF_OBSERVE_STRENGTHS));
    hrf_json_put_int(object, "tries", o->n_tries);
    return object;
}

/* Only what was measured: most calibrations have no budget. */
static json_t *layers_json(const struct hrf_observations *all)
{
    json_t *object = json_object(), *list = json_array();
    for (int32_t i = 0; i < all->n_layers; i++) {
        const struct hrf_observed_layer *layer = &all->layers[i];
        json_t *item = json_object();
        hrf_json_put_text(item, "tensor", layer->tensor);
        hrf_json_put_number(item, "loss", layer->loss);
        hrf_json_put_int(item, "images", layer->n_images);
        hrf_json_put_number(item, "bf16_loss", layer->bf16_loss);
        hrf_json_put_int(item, "bf16_images", layer->n_bf16_images);
        hrf_json_put(item, "seconds", hrf_json_numbers(layer->seconds, HRF_OBSERVE_TIMES));
        hrf_json_put_int(item, "timed", layer->n_timed);
        hrf_json_add(list, item);
    }
    hrf_json_put_text(object, "loss", losses[all->loss]);
    hrf_json_put_number(object, "whole_loss", all->whole_loss);
    hrf_json_put_int(object, "whole", all->n_whole);
    hrf_json_put(object, "list", list);
    hrf_json_put(object, "seconds", hrf_json_numbers(all->seconds, HRF_OBSERVE_TIMES));
    hrf_json_put_int(object, "timed", all->n_timed);
    hrf_json_put(object, "margins", hrf_json_numbers(all->margins, (size_t)all->n_margins));
    return object;
}

static json_t *lost_json(const struct hrf_observed_loss *l)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "images", l->n_images);
    hrf_json_put_number(object, "signal", l->signal);
    hrf_json_put_number(object, "noise", l->noise);
    hrf_json_put_number(object, "cosine", l->cosine);
    hrf_json_put_int(object, "labels", l->n_labels);
    hrf_json_put_int(object, "changed", l->n_changed);
    return object;
}

char *hrf_observations_encode(const struct hrf_observations *observations)
{
    HRF_AUTO_JSON root = json_object();
    json_t *list = json_array();
    for (int32_t i = 0; i < observations->n_items; i++)
        hrf_json_add(list, observation_json(&observations->items[i]));
    hrf_json_put_int(root, "version", VERSION);
    hrf_json_put_text(root, "kind", "observations");
    hrf_json_put(root, "tensors", list);
    hrf_json_put(root, "layers", layers_json(observations));
    hrf_json_put(root, "lost", lost_json(&observations->lost));
    return hrf_json_text(root);
}

static enum hrf_status wrong(const char *where, const char *what, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s: %s of the observations is not as it should be",
                         where, what);
}

static enum hrf_status read_bins(const json_t *list, const char *where, struct hrf_observation *o,
                                 struct hrf_error *err)
{
    int64_t total = 0;
    if (json_array_size(list) > 2 * HRF_OBSERVE_BINS) /* the sum of more might run over */
        return wrong(where, "the number of bins", err);
    for (size_t i = 0; i + 1 < json_array_size(list); i += 2) {
        const json_int_t bin = json_integer_value(json_array_get(list, i));
        const json_int_t count = json_integer_value(json_array_get(list, i + 1));
        if (bin < 0 || bin >= HRF_OBSERVE_BINS || count < 1 || count > INT64_MAX / 8192)
            return wrong(where, "a bin", err);
        o->bins[bin] += count;
        total += count;
    }
    return total == o->n ? HRF_OK : wrong(where, "the count", err);
}

static enum hrf_status read_sums(const json_t *list, const char *where, struct hrf_observation *o,
                                 struct hrf_error *err)
{
    o->n_channels = (int64_t)json_array_size(list);
    o->sums = hrf_calloc((size_t)o->n_channels, sizeof *o->sums);
    for (int64_t c = 0; c < o->n_channels; c++) {
        const json_t *sum = json_array_get(list, (size_t)c);
        if (!json_is_number(sum))
            return wrong(where, "a sum", err);
        o->sums[c] = json_number_value(sum);
    }
    return HRF_OK;
}

static enum hrf_status read_peaks(const json_t *list, const char *where, struct hrf_observation *o,
                                  struct hrf_error *err)
{
    o->peaks = hrf_calloc((size_t)o->n_channels, sizeof *o->peaks);
    if (json_array_size(list) != (size_t)o->n_channels)
        return wrong(where, "the number of peaks", err);
    for (int64_t c = 0; c < o->n_channels; c++) {
        o->peaks[c] = (float)json_number_value(json_array_get(list, (size_t)c));
        if (!json_is_number(json_array_get(list, (size_t)c)) || !isfinite(o->peaks[c]) ||
            o->peaks[c] < 0)
            return wrong(where, "a peak", err);
    }
    return HRF_OK;
}

static enum hrf_status read_errors(const json_t *list, const char *where, struct hrf_observation *o,
                                   struct hrf_error *err)
{
    if (json_array_size(list) != HRF_OBSERVE_STRENGTHS)
        return wrong(where, "the number of errors", err);
    for (size_t i = 0; i < HRF_OBSERVE_STRENGTHS; i++) {
        o->errors[i] = json_number_value(json_array_get(list, i));
        if (!json_is_number(json_array_get(list, i)) || !isfinite(o->errors[i]) || o->errors[i] < 0)
            return wrong(where, "an error", err);
    }
    return HRF_OK;
}

static enum hrf_status read_one(const json_t *object, const char *where, struct hrf_observation *o,
                                struct hrf_error *err)
{
    const char *value;
    json_t *bins, *sums, *peaks, *errors;
    double low, high;
    int64_t exponent;
    HRF_TRY(hrf_json_get_text(object, "value", where, &value, err));
    HRF_TRY(hrf_json_get_int(object, "n", where, &o->n, err));
    HRF_TRY(hrf_json_get_int(object, "broken", where, &o->n_broken, err));
    HRF_TRY(hrf_json_get_number(object, "low", where, &low, err));
    HRF_TRY(hrf_json_get_number(object, "high", where, &high, err));
    HRF_TRY(hrf_json_get_int(object, "exponent", where, &exponent, err));
    HRF_TRY(hrf_json_get_array(object, "bins", where, &bins, err));
    HRF_TRY(hrf_json_get_array(object, "sums", where, &sums, err));
    HRF_TRY(hrf_json_get_array(object, "peaks", where, &peaks, err));
    HRF_TRY(hrf_json_get_array(object, "errors", where, &errors, err));
    HRF_TRY(hrf_json_get_int(object, "tries", where, &o->n_tries, err));
    if (o->n < 0 || o->n_broken < 0 || o->n_tries < 0 || o->n_tries > INT32_MAX ||
        exponent < -200 || exponent > 200 || !(low <= high))
        return wrong(where, "a number", err);
    o->low = (float)low;
    o->high = (float)high;
    o->exponent = (int)exponent;
    o->value = hrf_strdup(value);
    HRF_TRY(read_bins(bins, where, o, err));
    HRF_TRY(read_sums(sums, where, o, err));
    HRF_TRY(read_peaks(peaks, where, o, err));
    return read_errors(errors, where, o, err);
}

static enum hrf_status read_times(const json_t *object, const char *where,
                                  double seconds[HRF_OBSERVE_TIMES], int64_t *n,
                                  struct hrf_error *err)
{
    json_t *list;
    HRF_TRY(hrf_json_get_array(object, "seconds", where, &list, err));
    HRF_TRY(hrf_json_get_int(object, "timed", where, n, err));
    if (json_array_size(list) != HRF_OBSERVE_TIMES || *n < 0 || *n > INT32_MAX)
        return wrong(where, "the times", err);
    for (size_t i = 0; i < HRF_OBSERVE_TIMES; i++) {
        seconds[i] = json_number_value(json_array_get(list, i));
        if (!json_is_number(json_array_get(list, i)) || !(seconds[i] >= 0))
            return wrong(where, "a time", err);
    }
    return HRF_OK;
}

static enum hrf_status read_margins(const json_t *layers, const char *where,
                                    struct hrf_observations *all, struct hrf_error *err)
{
    json_t *list;
    const char *loss;
    HRF_TRY(hrf_json_get_text(layers, "loss", where, &loss, err));
    HRF_TRY(hrf_json_get_array(layers, "margins", where, &list, err));
    all->loss = strcmp(loss, losses[HRF_LOSS_MARGIN]) == 0 ? HRF_LOSS_MARGIN : HRF_LOSS_COSINE;
    HRF_TRY(hrf_json_get_number(layers, "whole_loss", where, &all->whole_loss, err));
    HRF_TRY(hrf_json_get_int(layers, "whole", where, &all->n_whole, err));
    if (strcmp(loss, losses[all->loss]) != 0 || !(all->whole_loss >= 0) || all->n_whole < 0)
        return wrong(where, "the loss", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *margin = json_array_get(list, i);
        if (!json_is_number(margin) || !(json_number_value(margin) >= 0))
            return wrong(where, "a margin", err);
        hrf_observations_margin(all, json_number_value(margin));
    }
    return HRF_OK;
}

static enum hrf_status read_layers(const json_t *root, const char *where,
                                   struct hrf_observations *all, struct hrf_error *err)
{
    json_t *layers, *list;
    HRF_TRY(hrf_json_get_object(root, "layers", where, &layers, err));
    HRF_TRY(hrf_json_get_array(layers, "list", where, &list, err));
    HRF_TRY(read_times(layers, where, all->seconds, &all->n_timed, err));
    HRF_TRY(read_margins(layers, where, all, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        const char *tensor;
        HRF_TRY(hrf_json_get_text(object, "tensor", where, &tensor, err));
        struct hrf_observed_layer *layer = hrf_observations_layer(all, tensor);
        HRF_TRY(hrf_json_get_number(object, "loss", where, &layer->loss, err));
        HRF_TRY(hrf_json_get_int(object, "images", where, &layer->n_images, err));
        HRF_TRY(read_times(object, where, layer->seconds, &layer->n_timed, err));
        HRF_TRY(hrf_json_get_number(object, "bf16_loss", where, &layer->bf16_loss, err));
        HRF_TRY(hrf_json_get_int(object, "bf16_images", where, &layer->n_bf16_images, err));
        if (!(layer->loss >= 0) || layer->n_images < 0 || !(layer->bf16_loss >= 0) ||
            layer->n_bf16_images < 0)
            return wrong(where, "a loss", err);
    }
    return HRF_OK;
}

static enum hrf_status read_lost(const json_t *root, const char *where, struct hrf_observed_loss *l,
                                 struct hrf_error *err)
{
    json_t *object;
    HRF_TRY(hrf_json_get_object(root, "lost", where, &object, err));
    HRF_TRY(hrf_json_get_int(object, "images", where, &l->n_images, err));
    HRF_TRY(hrf_json_get_number(object, "signal", where, &l->signal, err));
    HRF_TRY(hrf_json_get_number(object, "noise", where, &l->noise, err));
    HRF_TRY(hrf_json_get_number(object, "cosine", where, &l->cosine, err));
    HRF_TRY(hrf_json_get_int(object, "labels", where, &l->n_labels, err));
    HRF_TRY(hrf_json_get_int(object, "changed", where, &l->n_changed, err));
    const bool is_good = l->n_images >= 0 && l->signal >= 0 && l->noise >= 0 &&
                         fabs(l->cosine) <= 1.001 * (double)l->n_images && l->n_labels >= 0 &&
                         l->n_changed >= 0 && l->n_changed <= l->n_labels;
    return is_good ? HRF_OK : wrong(where, "what INT8 loses", err);
}

static enum hrf_status read_all(const json_t *root, const char *where, struct hrf_observations *all,
                                struct hrf_error *err)
{
    const char *kind;
    int64_t version;
    json_t *tensors;
    HRF_TRY(hrf_json_get_text(root, "kind", where, &kind, err));
    HRF_TRY(hrf_json_get_int(root, "version", where, &version, err));
    if (strcmp(kind, "observations") != 0 || version != VERSION)
        return hrf_error_set(err, HRF_E_USER, "%s is a '%s' of version %lld, not observations",
                             where, kind, (long long)version);
    HRF_TRY(hrf_json_get_array(root, "tensors", where, &tensors, err));
    all->items = hrf_calloc(json_array_size(tensors) + 1, sizeof *all->items);
    all->capacity = json_array_size(tensors) + 1;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        all->n_items++;
        HRF_TRY(read_one(json_array_get(tensors, i), where, &all->items[i], err));
    }
    HRF_TRY(read_lost(root, where, &all->lost, err));
    return read_layers(root, where, all, err);
}

enum hrf_status hrf_observations_decode(const char *text, size_t n_bytes, const char *where,
                                        struct hrf_observations *out, struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    struct hrf_observations all = { .items = NULL };
    HRF_TRY(hrf_json_parse(text, n_bytes, where, &root, err));
    enum hrf_status status = read_all(root, where, &all, err);
    if (status != HRF_OK)
        hrf_observations_release(&all);
    else
        *out = all;
    return status;
}
