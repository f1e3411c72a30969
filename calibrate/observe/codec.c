/* codec.c - writes and reads observations as JSON. */
#include "calibrate/observe/codec.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

enum { VERSION = 5 };

static const char *const losses[] = { "cosine", "margin" };

/* Pairs of index and count: most bins of most tensors are empty. */
static json_t *bins_json(const struct hrf_observation *o)
{
    json_t *list = json_array();
    for (int i = 0; i < HRF_OBSERVE_BINS; i++)
        if (o->bins[i] != 0) {
            json_array_append_new(list, json_integer(i));
            json_array_append_new(list, json_integer((json_int_t)o->bins[i]));
        }
    return list;
}

static json_t *observation_json(const struct hrf_observation *o)
{
    json_t *sums = json_array(), *peaks = json_array(), *errors = json_array();
    for (int64_t c = 0; c < o->n_channels; c++) {
        json_array_append_new(sums, hrf_json_number(o->sums[c]));
        json_array_append_new(peaks, hrf_json_number((double)o->peaks[c]));
    }
    for (int i = 0; i < HRF_OBSERVE_STRENGTHS; i++)
        json_array_append_new(errors, hrf_json_number(o->errors[i]));
    return json_pack("{sosIsIsososisososososI}", "value", hrf_json_string(o->value), "n",
                     (json_int_t)o->n, "broken", (json_int_t)o->n_broken, "low",
                     hrf_json_number((double)o->low), "high", hrf_json_number((double)o->high),
                     "exponent", o->exponent, "bins", bins_json(o), "sums", sums, "peaks", peaks,
                     "errors", errors, "tries", (json_int_t)o->n_tries);
}

static json_t *times_json(const double seconds[HRF_OBSERVE_TIMES])
{
    json_t *list = json_array();
    for (int i = 0; i < HRF_OBSERVE_TIMES; i++)
        json_array_append_new(list, hrf_json_number(seconds[i]));
    return list;
}

/* Only what was measured: most calibrations have no budget. */
static json_t *layers_json(const struct hrf_observations *all)
{
    json_t *list = json_array(), *margins = json_array();
    for (int64_t i = 0; i < all->n_margins; i++)
        json_array_append_new(margins, hrf_json_number(all->margins[i]));
    for (int32_t i = 0; i < all->n_layers; i++) {
        const struct hrf_observed_layer *layer = &all->layers[i];
        json_array_append_new(
            list, json_pack("{sososIsosIsosI}", "tensor", hrf_json_string(layer->tensor), "loss",
                            hrf_json_number(layer->loss), "images", (json_int_t)layer->n_images,
                            "bf16_loss", hrf_json_number(layer->bf16_loss), "bf16_images",
                            (json_int_t)layer->n_bf16_images, "seconds", times_json(layer->seconds),
                            "timed", (json_int_t)layer->n_timed));
    }
    return json_pack("{sssosIsososIso}", "loss", losses[all->loss], "whole_loss",
                     hrf_json_number(all->whole_loss), "whole", (json_int_t)all->n_whole, "list",
                     list, "seconds", times_json(all->seconds), "timed", (json_int_t)all->n_timed,
                     "margins", margins);
}

enum hrf_status hrf_observations_encode(const struct hrf_observations *observations, char **out,
                                        struct hrf_error *err)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < observations->n_items; i++)
        json_array_append_new(list, observation_json(&observations->items[i]));
    HRF_AUTO_JSON root = json_pack("{sisssoso}", "version", VERSION, "kind", "observations",
                                   "tensors", list, "layers", layers_json(observations));
    *out = root != NULL ? hrf_json_text(root) : NULL;
    return *out != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for observations");
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
    HRF_CHECK_MEMORY(o->sums != NULL, err, "no memory for observations");
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
    HRF_CHECK_MEMORY(o->peaks != NULL, err, "no memory for observations");
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
    HRF_CHECK_MEMORY(o->value != NULL, err, "no memory for observations");
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
        HRF_TRY(hrf_observations_margin(all, json_number_value(margin), err));
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
        struct hrf_observed_layer *layer;
        HRF_TRY(hrf_json_get_text(object, "tensor", where, &tensor, err));
        HRF_TRY(hrf_observations_layer(all, tensor, &layer, err));
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
    HRF_CHECK_MEMORY(all->items != NULL, err, "no memory for observations");
    all->capacity = json_array_size(tensors) + 1;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        all->n_items++;
        HRF_TRY(read_one(json_array_get(tensors, i), where, &all->items[i], err));
    }
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
