/* codec.c - writes and reads observations as JSON. */
#include "calibrate/observe/observations.h"

#include "base/fields.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

enum { VERSION = 6 };

static const char *const losses[] = { "cosine", "margin", NULL };

/* ---- the fields of the record ---- */

#define FIELD(of, key, member, type) HRF_FIELD(struct of, key, member, HRF_FIELD_##type)
#define NUMBERS(of, key, member, n)  HRF_FIELD_COUNTED(struct of, key, member, n, HRF_FIELD_FLOATS)

static const struct hrf_field tensor_fields[] = {
    /* and "bins" */
    FIELD(hrf_observation, "value", value, NEEDED),
    FIELD(hrf_observation, "n", n, INT),
    FIELD(hrf_observation, "broken", n_broken, INT),
    FIELD(hrf_observation, "low", low, FLOAT),
    FIELD(hrf_observation, "high", high, FLOAT),
    FIELD(hrf_observation, "exponent", exponent, INT32),
    NUMBERS(hrf_observation, "sums", sums, n_channels),
    NUMBERS(hrf_observation, "peaks", peaks, n_channels),
    FIELD(hrf_observation, "errors", errors, REALS),
    FIELD(hrf_observation, "tries", n_tries, INT),
};
static const struct hrf_field layer_fields[] = {
    FIELD(hrf_observed_layer, "tensor", tensor, NEEDED),
    FIELD(hrf_observed_layer, "loss", loss, REAL),
    FIELD(hrf_observed_layer, "images", n_images, INT),
    FIELD(hrf_observed_layer, "bf16_loss", bf16_loss, REAL),
    FIELD(hrf_observed_layer, "bf16_images", n_bf16_images, INT),
    FIELD(hrf_observed_layer, "seconds", seconds, REALS),
    FIELD(hrf_observed_layer, "timed", n_timed, INT),
};
/* Only what was measured: most calibrations have no budget. */
static const struct hrf_field layers_fields[] = {
    HRF_FIELD_ENUM(struct hrf_observations, "loss", loss, losses),
    FIELD(hrf_observations, "whole_loss", whole_loss, REAL),
    FIELD(hrf_observations, "whole", n_whole, INT),
    HRF_FIELD_STRUCTS(struct hrf_observations, "list", layers, n_layers, HRF_FIELD_LIST,
                      layer_fields),
    FIELD(hrf_observations, "seconds", seconds, REALS),
    FIELD(hrf_observations, "timed", n_timed, INT),
    NUMBERS(hrf_observations, "margins", margins, n_margins),
};
static const struct hrf_field lost_fields[] = {
    FIELD(hrf_observed_loss, "images", n_images, INT),
    FIELD(hrf_observed_loss, "signal", signal, REAL),
    FIELD(hrf_observed_loss, "noise", noise, REAL),
    FIELD(hrf_observed_loss, "cosine", cosine, REAL),
    FIELD(hrf_observed_loss, "labels", n_labels, INT),
    FIELD(hrf_observed_loss, "changed", n_changed, INT),
};
static const struct hrf_field record_fields[] = {
    HRF_FIELD_STRUCTS(struct hrf_observations, "tensors", items, n_items, HRF_FIELD_LIST,
                      tensor_fields),
    /* Members of the record itself, in an object of their own. */
    { .key = "layers",
      .type = HRF_FIELD_OBJECT,
      .size = sizeof(struct hrf_observations),
      .fields = layers_fields,
      .n_fields = sizeof layers_fields / sizeof layers_fields[0] },
    HRF_FIELD_STRUCT(struct hrf_observations, "lost", lost, lost_fields),
};

/* ---- writing ---- */

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

char *hrf_observations_encode(const struct hrf_observations *observations)
{
    HRF_AUTO_JSON root = hrf_fields_json(HRF_FIELDS(record_fields), observations);
    const json_t *tensors = json_object_get(root, "tensors");
    for (int32_t i = 0; i < observations->n_items; i++)
        hrf_json_put(json_array_get(tensors, (size_t)i), "bins",
                     bins_json(&observations->items[i]));
    hrf_json_put_int(root, "version", VERSION);
    hrf_json_put_text(root, "kind", "observations");
    return hrf_json_text(root);
}

/* ---- reading ---- */

static enum hrf_status wrong(const char *where, const char *what, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s: %s of the observations is not as it should be",
                         where, what);
}

static enum hrf_status read_bins(const json_t *tensor, const char *where, struct hrf_observation *o,
                                 struct hrf_error *err)
{
    int64_t total = 0;
    json_t *list;
    HRF_TRY(hrf_json_get_array(tensor, "bins", where, &list, err));
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

/* True if there are n numbers of at least 0, and none that is infinite. */
static bool are_sizes(const double *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(numbers[i] >= 0) || !isfinite(numbers[i]))
            return false;
    return true;
}

static bool is_count(int64_t n)
{
    return n >= 0 && n <= INT32_MAX;
}

static enum hrf_status check_tensor(const json_t *tensor, const char *where,
                                    const struct hrf_observation *o, struct hrf_error *err)
{
    if (json_array_size(json_object_get(tensor, "sums")) !=
        json_array_size(json_object_get(tensor, "peaks")))
        return wrong(where, "the number of peaks", err);
    if (o->n < 0 || o->n_broken < 0 || !is_count(o->n_tries) || o->exponent < -200 ||
        o->exponent > 200 || !(o->low <= o->high) || o->sums == NULL)
        return wrong(where, "a number", err);
    for (int64_t c = 0; c < o->n_channels; c++)
        if (!(o->peaks[c] >= 0))
            return wrong(where, "a peak", err);
    return are_sizes(o->errors, HRF_OBSERVE_STRENGTHS) ? HRF_OK : wrong(where, "an error", err);
}

static enum hrf_status check_layers(const char *where, const struct hrf_observations *all,
                                    struct hrf_error *err)
{
    if (!(all->whole_loss >= 0) || all->n_whole < 0)
        return wrong(where, "the loss", err);
    if (!are_sizes(all->margins, all->n_margins))
        return wrong(where, "a margin", err);
    if (!are_sizes(all->seconds, HRF_OBSERVE_TIMES) || !is_count(all->n_timed))
        return wrong(where, "the times", err);
    for (int32_t i = 0; i < all->n_layers; i++) {
        const struct hrf_observed_layer *l = &all->layers[i];
        if (!are_sizes(l->seconds, HRF_OBSERVE_TIMES) || !is_count(l->n_timed))
            return wrong(where, "the times", err);
        if (!(l->loss >= 0) || l->n_images < 0 || !(l->bf16_loss >= 0) || l->n_bf16_images < 0)
            return wrong(where, "a loss", err);
    }
    return HRF_OK;
}

static enum hrf_status check_lost(const char *where, const struct hrf_observed_loss *l,
                                  struct hrf_error *err)
{
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
    HRF_TRY(hrf_json_get_text(root, "kind", where, &kind, err));
    HRF_TRY(hrf_json_get_int(root, "version", where, &version, err));
    if (strcmp(kind, "observations") != 0 || version != VERSION)
        return hrf_error_set(err, HRF_E_USER, "%s is a '%s' of version %lld, not observations",
                             where, kind, (long long)version);
    const enum hrf_status status = hrf_fields_read(HRF_FIELDS(record_fields), root, where, all,
                                                   err);
    all->capacity = (size_t)all->n_items;
    all->layers_capacity = (size_t)all->n_layers;
    all->margins_capacity = (size_t)all->n_margins;
    HRF_TRY(status);
    const json_t *tensors = json_object_get(root, "tensors");
    for (int32_t i = 0; i < all->n_items; i++) {
        const json_t *tensor = json_array_get(tensors, (size_t)i);
        HRF_TRY(check_tensor(tensor, where, &all->items[i], err));
        HRF_TRY(read_bins(tensor, where, &all->items[i], err));
    }
    HRF_TRY(check_lost(where, &all->lost, err));
    return check_layers(where, all, err);
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
