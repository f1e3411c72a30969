/* calibration.c - the record of a calibration: ranges, and what stays in float32 (calibration.h).
 */
#include "schema/record/calibration.h"

#include "base/file.h"
#include "base/hash.h"
#include "schema/record/fields.h"

#include <math.h>
#include <string.h>

enum { VERSION = 1, MOST_BYTES = 256 << 20 };

static const struct hrf_field fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_calibration, #key, key, HRF_FIELD_##type)
    FIELD(key, NEEDED),    FIELD(method, NEEDED),
    FIELD(graph, NEEDED),  FIELD(sample, NEEDED),
    FIELD(engine, NEEDED), FIELD(created, NEEDED),
    FIELD(seconds, REAL),  HRF_FIELD(struct hrf_calibration, "samples", n_samples, HRF_FIELD_INT),
#undef FIELD
};

static const struct hrf_field tensor_fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_calibration_tensor, #key, key, HRF_FIELD_##type)
    FIELD(name, NEEDED), FIELD(method, NEEDED),  FIELD(low, FLOAT),
    FIELD(high, FLOAT),  FIELD(sqnr_db, NUMBER),
#undef FIELD
};

static const struct hrf_field keep_fields[] = {
    HRF_FIELD(struct hrf_calibration_keep, "name", name, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_calibration_keep, "reason", reason, HRF_FIELD_NEEDED),
};

/* Only of a layer that a budget takes out. */
static const struct hrf_field layer_fields[] = {
#define FIELD(key, member, type) HRF_FIELD(struct hrf_calibration_keep, key, member, type)
    FIELD("precision", precision, HRF_FIELD_NEEDED),
    FIELD("loss", loss, HRF_FIELD_REAL),
    FIELD("int8_ms", times.int8_ms, HRF_FIELD_REAL),
    FIELD("fp32_ms", times.fp32_ms, HRF_FIELD_REAL),
    FIELD("bf16_ms", times.bf16_ms, HRF_FIELD_REAL),
#undef FIELD
};

static const struct hrf_field budget_fields[] = {
#define FIELD(key, member, type) HRF_FIELD(struct hrf_calibration_budget, key, member, type)
    FIELD("measure", measure, HRF_FIELD_NEEDED),
    FIELD("least", least, HRF_FIELD_REAL),
    FIELD("loss", loss, HRF_FIELD_REAL),
    FIELD("int8_ms", times.int8_ms, HRF_FIELD_REAL),
    FIELD("fp32_ms", times.fp32_ms, HRF_FIELD_REAL),
    FIELD("bf16_ms", times.bf16_ms, HRF_FIELD_REAL),
#undef FIELD
};

void hrf_calibration_destroy(struct hrf_calibration *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n_tensors; i++) {
        hrf_fields_release(HRF_FIELDS(tensor_fields), &c->tensors[i]);
        hrf_free(c->tensors[i].means);
        hrf_free(c->tensors[i].peaks);
    }
    for (size_t i = 0; i < c->n_keep; i++)
        hrf_calibration_keep_release(&c->keep[i]);
    hrf_fields_release(HRF_FIELDS(budget_fields), &c->budget);
    hrf_fields_release(HRF_FIELDS(fields), c);
    hrf_free(c->tensors);
    hrf_free(c->keep);
    hrf_free(c);
}

bool hrf_calibration_is_in_bf16(const struct hrf_calibration_keep *keep)
{
    return keep->precision != NULL && strcmp(keep->precision, "bf16") == 0;
}

void hrf_calibration_keep_release(struct hrf_calibration_keep *keep)
{
    hrf_fields_release(HRF_FIELDS(keep_fields), keep);
    hrf_free(keep->precision);
}

enum hrf_status hrf_calibration_keep(struct hrf_calibration *c, const char *name,
                                     const char *reason, struct hrf_error *err)
{
    struct hrf_calibration_keep *grown = hrf_realloc_array(c->keep, c->n_keep + 1, sizeof *grown);
    if (grown != NULL)
        c->keep = grown;
    const struct hrf_calibration_keep one = { .name = hrf_strdup(name),
                                              .reason = hrf_strdup(reason) };
    if (grown == NULL || one.name == NULL || one.reason == NULL) {
        hrf_free(one.name);
        hrf_free(one.reason);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
    }
    c->keep[c->n_keep++] = one;
    return HRF_OK;
}

/* LARGEST: its square still fits a float32. SMALLEST: so does the inverse of the square of its
 * scale. CLIPS: no method clips to less than one of the histogram's 4096 bins, and the largest
 * number lies in the upper half of them (calibrate/observe). ROUNDING: of numbers written as text.
 */
#define LARGEST_RANGE  1e18f
#define SMALLEST_RANGE 1e-18f
#define MOST_CLIPPED   4096.0f
#define ROUNDING       1.0001f

const char *hrf_calibration_doubt(const struct hrf_calibration_tensor *t)
{
    const float most = fmaxf(-t->low, t->high);
    const float seen = fmaxf(fabsf(t->observed_low), fabsf(t->observed_high));
    if (!isfinite(t->low) || !isfinite(t->high) || t->low > t->high)
        return "its range is not one";
    if (most == 0)
        return "it held nothing but zeros";
    if (!(most <= LARGEST_RANGE))
        return "its range is larger than 1e18";
    if (!(most >= SMALLEST_RANGE))
        return "its range is smaller than 1e-18";
    if (!t->is_observed)
        return NULL;
    if (!(most <= seen * ROUNDING))
        return "its range is larger than what was observed";
    if (!(most * MOST_CLIPPED * ROUNDING >= seen) || (t->low >= 0 && t->observed_low < 0))
        return "its range leaves out most of what was observed";
    return NULL;
}

/* ---- writing ---- */

static json_t *tensor_json(const struct hrf_calibration_tensor *t)
{
    json_t *object = hrf_fields_json(HRF_FIELDS(tensor_fields), t, 0);
    json_t *means = t->means != NULL ? json_array() : json_null();
    for (int64_t i = 0; t->means != NULL && i < t->n_means; i++)
        json_array_append_new(means, hrf_json_number((double)t->means[i]));
    json_object_set_new(object, "means", means);
    if (t->peaks != NULL) {
        json_t *peaks = json_array();
        for (int64_t i = 0; i < t->n_means; i++)
            json_array_append_new(peaks, hrf_json_number((double)t->peaks[i]));
        json_object_set_new(object, "strength", hrf_json_number((double)t->strength));
        json_object_set_new(object, "peaks", peaks);
    }
    json_object_set_new(object, "observed",
                        t->is_observed ? json_pack("[oo]", hrf_json_number((double)t->observed_low),
                                                   hrf_json_number((double)t->observed_high))
                                       : json_null());
    return object;
}

static json_t *keep_json(const struct hrf_calibration_keep *keep)
{
    json_t *object = hrf_fields_json(HRF_FIELDS(keep_fields), keep, 0);
    if (object == NULL || keep->precision == NULL ||
        hrf_fields_write(HRF_FIELDS(layer_fields), keep, object))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *body_json(const struct hrf_calibration *c)
{
    json_t *body = hrf_fields_json(HRF_FIELDS(fields), c, VERSION);
    json_t *tensors = json_array(), *keep = json_array();
    for (size_t i = 0; i < c->n_tensors; i++)
        json_array_append_new(tensors, tensor_json(&c->tensors[i]));
    for (size_t i = 0; i < c->n_keep; i++)
        json_array_append_new(keep, keep_json(&c->keep[i]));
    if (c->budget.measure != NULL)
        json_object_set_new(body, "budget",
                            hrf_fields_json(HRF_FIELDS(budget_fields), &c->budget, 0));
    json_object_set_new(body, "kind", json_string("calibration"));
    json_object_set_new(body, "tensors", tensors);
    json_object_set_new(body, "keep", keep);
    return body;
}

enum hrf_status hrf_calibration_encode(const struct hrf_calibration *c, char **out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON body = body_json(c);
    HRF_CHECK_MEMORY(body != NULL, err, "no memory for a calibration");
    HRF_TRY(hrf_fields_seal(body, "a calibration", err));
    *out = hrf_json_text(body);
    return *out != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
}

enum hrf_status hrf_calibration_write(const struct hrf_calibration *c, const char *path,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_TRY(hrf_calibration_encode(c, &text, err));
    return hrf_file_write_atomic(path, text, strlen(text), err);
}

/* ---- reading ---- */

static enum hrf_status read_means(const json_t *list, const char *where,
                                  struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    if (!json_is_array(list))
        return HRF_OK;
    t->n_means = (int64_t)json_array_size(list);
    t->means = hrf_calloc((size_t)t->n_means, sizeof *t->means);
    HRF_CHECK_MEMORY(t->means != NULL, err, "no memory for a calibration");
    for (int64_t i = 0; i < t->n_means; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        t->means[i] = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(t->means[i]))
            return hrf_error_set(err, HRF_E_USER, "%s: a mean of tensor '%s' is not a number",
                                 where, t->name);
    }
    return HRF_OK;
}

/* Records of earlier versions have no smoothing, as have tensors that no product reads. */
static enum hrf_status read_smoothing(const json_t *object, const char *where,
                                      struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    const json_t *list = json_object_get(object, "peaks");
    const json_t *strength = json_object_get(object, "strength");
    if (list == NULL && strength == NULL)
        return HRF_OK;
    t->strength = (float)json_number_value(strength);
    if (!json_is_number(strength) || !(t->strength > 0) || t->strength > 1 ||
        json_array_size(list) != (size_t)t->n_means || t->n_means == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: the smoothing of tensor '%s' is not as it should be", where,
                             t->name);
    t->peaks = hrf_calloc((size_t)t->n_means, sizeof *t->peaks);
    HRF_CHECK_MEMORY(t->peaks != NULL, err, "no memory for a calibration");
    for (int64_t i = 0; i < t->n_means; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        t->peaks[i] = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(t->peaks[i]) || t->peaks[i] < 0)
            return hrf_error_set(err, HRF_E_USER, "%s: a peak of tensor '%s' is not a magnitude",
                                 where, t->name);
    }
    return HRF_OK;
}

static enum hrf_status read_observed(const json_t *pair, const char *where,
                                     struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    if (!json_is_array(pair))
        return HRF_OK;
    const json_t *low = json_array_get(pair, 0), *high = json_array_get(pair, 1);
    t->observed_low = (float)json_number_value(low);
    t->observed_high = (float)json_number_value(high);
    t->is_observed = true;
    if (!json_is_number(low) || !json_is_number(high) || !isfinite(t->observed_low) ||
        !isfinite(t->observed_high) || t->observed_low > t->observed_high)
        return hrf_error_set(err, HRF_E_USER, "%s: what was observed of tensor '%s' is not a range",
                             where, t->name);
    return HRF_OK;
}

static enum hrf_status read_tensor(const json_t *object, const char *where,
                                   struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    HRF_TRY(hrf_fields_read(HRF_FIELDS(tensor_fields), object, where, t, err));
    if (!isfinite(t->low) || !isfinite(t->high) || t->low > t->high)
        return hrf_error_set(err, HRF_E_USER, "%s: tensor '%s' has the range %g to %g", where,
                             t->name, (double)t->low, (double)t->high);
    if (isnan(t->sqnr_db))
        t->sqnr_db = HUGE_VAL;
    HRF_TRY(read_observed(json_object_get(object, "observed"), where, t, err));
    HRF_TRY(read_means(json_object_get(object, "means"), where, t, err));
    return read_smoothing(object, where, t, err);
}

static bool is_kept(const struct hrf_calibration *c, const char *tensor)
{
    for (size_t i = 0; i < c->n_keep; i++)
        if (strcmp(c->keep[i].name, tensor) == 0)
            return true;
    return false;
}

static enum hrf_status check_means(const struct hrf_calibration_tensor *t, const char *where,
                                   struct hrf_error *err)
{
    const float seen = fmaxf(fabsf(t->observed_low), fabsf(t->observed_high));
    for (int64_t i = 0; t->is_observed && t->means != NULL && i < t->n_means; i++)
        if (fabsf(t->means[i]) > seen * ROUNDING)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: tensor '%s' has the mean %g, and %g was the largest number "
                                 "observed",
                                 where, t->name, (double)t->means[i], (double)seen);
    return HRF_OK;
}

static enum hrf_status check_ranges(const struct hrf_calibration *c, const char *where,
                                    struct hrf_error *err)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &c->tensors[i];
        const char *doubt = hrf_calibration_doubt(t);
        HRF_TRY(check_means(t, where, err));
        if (doubt == NULL || is_kept(c, t->name))
            continue;
        return hrf_error_set(err, HRF_E_USER,
                             "%s: tensor '%s' has the range %g to %g, which cannot be a scale: %s",
                             where, t->name, (double)t->low, (double)t->high, doubt);
    }
    return HRF_OK;
}

static enum hrf_status read_keep(const json_t *object, const char *where,
                                 struct hrf_calibration_keep *keep, struct hrf_error *err)
{
    HRF_TRY(hrf_fields_read(HRF_FIELDS(keep_fields), object, where, keep, err));
    if (json_object_get(object, "precision") == NULL)
        return HRF_OK;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(layer_fields), object, where, keep, err));
    if (strcmp(keep->precision, "fp32") != 0 && strcmp(keep->precision, "bf16") != 0)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' is kept in '%s', not in fp32 or bf16",
                             where, keep->name, keep->precision);
    return HRF_OK;
}

static enum hrf_status read_lists(const json_t *body, const char *where, struct hrf_calibration *c,
                                  struct hrf_error *err)
{
    json_t *tensors, *keep;
    HRF_TRY(hrf_json_get_array(body, "tensors", where, &tensors, err));
    HRF_TRY(hrf_json_get_array(body, "keep", where, &keep, err));
    c->tensors = hrf_calloc(json_array_size(tensors) + 1, sizeof *c->tensors);
    c->keep = hrf_calloc(json_array_size(keep) + 1, sizeof *c->keep);
    HRF_CHECK_MEMORY(c->tensors != NULL && c->keep != NULL, err, "no memory for a calibration");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        c->n_tensors++;
        HRF_TRY(read_tensor(json_array_get(tensors, i), where, &c->tensors[i], err));
    }
    for (size_t i = 0; i < json_array_size(keep); i++) {
        c->n_keep++;
        HRF_TRY(read_keep(json_array_get(keep, i), where, &c->keep[i], err));
    }
    return check_ranges(c, where, err);
}

static enum hrf_status check_sum(json_t *body, const char *where, struct hrf_error *err)
{
    const char *kind;
    int64_t version;
    HRF_TRY(hrf_json_get_text(body, "kind", where, &kind, err));
    HRF_TRY(hrf_json_get_int(body, "version", where, &version, err));
    if (strcmp(kind, "calibration") != 0 || version != VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "%s is a '%s' of version %lld; a calibration of version %d is needed",
                             where, kind, (long long)version, VERSION);
    return hrf_fields_unseal(body, where, err);
}

enum hrf_status hrf_calibration_decode(const char *text, size_t n_bytes, const char *where,
                                       struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_AUTO_JSON body = NULL;
    HRF_AUTO(hrf_calibration) c = hrf_calloc(1, sizeof *c);
    HRF_CHECK_MEMORY(c != NULL, err, "no memory for a calibration");
    HRF_TRY(hrf_json_parse(text, n_bytes, where, &body, err));
    HRF_TRY(check_sum(body, where, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), body, where, c, err));
    HRF_TRY(read_lists(body, where, c, err));
    if (json_object_get(body, "budget") != NULL)
        HRF_TRY(hrf_fields_read(HRF_FIELDS(budget_fields), json_object_get(body, "budget"), where,
                                &c->budget, err));
    HRF_MOVE(*out, c);
    return HRF_OK;
}

enum hrf_status hrf_calibration_read(const char *path, struct hrf_calibration **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n = 0;
    HRF_TRY(hrf_file_read(path, MOST_BYTES, &text, &n, err));
    return hrf_calibration_decode(text, n, path, out, err);
}
