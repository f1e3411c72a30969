/* calibration.c - the record of a calibration: ranges, and what stays in float32 (calibration.h).
 */
#include "schema/record/calibration.h"

#include "base/fields.h"
#include "base/file.h"

#include <math.h>
#include <string.h>

enum { MAX_BYTES = 256 << 20 };

static const struct hrf_field tensor_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_calibration_tensor, #name, name, HRF_FIELD_##type)
#define FLOATS(name)                                                                               \
    HRF_FIELD_COUNTED(struct hrf_calibration_tensor, #name, name, n_means, HRF_FIELD_FLOATS)
    FIELD(name, NEEDED),
    FIELD(method, NEEDED),
    FIELD(low, FLOAT),
    FIELD(high, FLOAT),
    FIELD(sqnr_db, NUMBER),
    FIELD(is_observed, BOOL),
    FIELD(observed_low, FLOAT),
    FIELD(observed_high, FLOAT),
    FLOATS(means),
    FIELD(strength, FLOAT),
    FLOATS(peaks),
#undef FLOATS
#undef FIELD
};

static const struct hrf_field times_fields[] = {
#define FIELD(name) HRF_FIELD(struct hrf_calibration_times, #name, name, HRF_FIELD_NUMBER)
    FIELD(int8_ms), FIELD(fp32_ms), FIELD(bf16_ms)
#undef FIELD
};

static const struct hrf_field keep_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_calibration_keep, #name, name, HRF_FIELD_##type)
    FIELD(name, NEEDED),
    FIELD(reason, NEEDED),
    FIELD(loss, REAL),
#undef FIELD
    HRF_FIELD_ENUM_OR_NULL(struct hrf_calibration_keep, "precision", precision,
                           hrf_precision_names),
    HRF_FIELD_STRUCT(struct hrf_calibration_keep, "times", times, times_fields),
};

static const struct hrf_field budget_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_calibration_budget, #name, name, HRF_FIELD_##type)
    FIELD(measure, TEXT),
    HRF_FIELD(struct hrf_calibration_budget, "least", min, HRF_FIELD_REAL),
    FIELD(loss, REAL),
#undef FIELD
    HRF_FIELD_STRUCT(struct hrf_calibration_budget, "times", times, times_fields),
};

static const struct hrf_field loss_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_calibration_loss, #name, name, HRF_FIELD_##type)
    FIELD(reason, TEXT),
    FIELD(n_images, INT),
    FIELD(sqnr_db, NUMBER),
    FIELD(cosine, REAL),
    FIELD(n_labels, INT),
    FIELD(n_changed, INT),
    FIELD(n_left, INT),
#undef FIELD
    HRF_FIELD_STRUCT(struct hrf_calibration_loss, "with_budget", with_budget, budget_fields),
};

static const struct hrf_field fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_calibration, #name, name, HRF_FIELD_##type)
    FIELD(key, NEEDED),
    FIELD(method, NEEDED),
    FIELD(graph, NEEDED),
    FIELD(sample, NEEDED),
    FIELD(engine, NEEDED),
    FIELD(created, NEEDED),
    FIELD(seconds, REAL),
    FIELD(n_samples, INT),
#undef FIELD
    HRF_FIELD_STRUCTS(struct hrf_calibration, "tensors", tensors, n_tensors, HRF_FIELD_LIST,
                      tensor_fields),
    HRF_FIELD_STRUCTS(struct hrf_calibration, "keep", keep, n_keep, HRF_FIELD_LIST, keep_fields),
    HRF_FIELD_STRUCT(struct hrf_calibration, "budget", budget, budget_fields),
    HRF_FIELD_STRUCT(struct hrf_calibration, "lost", lost, loss_fields),
};

void hrf_calibration_destroy(struct hrf_calibration *c)
{
    if (c == NULL)
        return;
    hrf_fields_release(HRF_FIELDS(fields), c);
    hrf_free(c);
}

void hrf_calibration_keep_release(struct hrf_calibration_keep *keep)
{
    hrf_fields_release(HRF_FIELDS(keep_fields), keep);
}

void hrf_calibration_keep(struct hrf_calibration *c, const char *name, const char *reason)
{
    c->keep = hrf_realloc_array(c->keep, c->n_keep + 1, sizeof *c->keep);
    c->keep[c->n_keep++] = (struct hrf_calibration_keep){ .name = hrf_strdup(name),
                                                          .reason = hrf_strdup(reason),
                                                          .precision = HRF_N_PRECISIONS };
}

/* LARGEST: its square still fits a float32. SMALLEST: so does the inverse of the square of its
 * scale. CLIPS: no method clips to less than one of the histogram's 4096 bins, and the largest
 * number lies in the upper half of them (calibrate/observe). ROUNDING: of numbers written as text.
 */
#define LARGEST_RANGE  1e18f
#define SMALLEST_RANGE 1e-18f
#define MAX_CLIPPED    4096.0f
#define ROUNDING       1.0001f

const char *hrf_calibration_doubt(const struct hrf_calibration_tensor *t)
{
    const float max = fmaxf(-t->low, t->high);
    const float seen = fmaxf(fabsf(t->observed_low), fabsf(t->observed_high));
    if (!isfinite(t->low) || !isfinite(t->high) || t->low > t->high)
        return "its range is not one";
    if (max == 0)
        return "it held nothing but zeros";
    if (!(max <= LARGEST_RANGE))
        return "its range is larger than 1e18";
    if (!(max >= SMALLEST_RANGE))
        return "its range is smaller than 1e-18";
    if (!t->is_observed)
        return NULL;
    if (!(max <= seen * ROUNDING))
        return "its range is larger than what was observed";
    if (!(max * MAX_CLIPPED * ROUNDING >= seen) || (t->low >= 0 && t->observed_low < 0))
        return "its range leaves out most of what was observed";
    return NULL;
}

/* ---- writing ---- */

enum hrf_status hrf_calibration_encode(const struct hrf_calibration *c, char **out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON body = hrf_fields_document(HRF_FIELDS(fields), c);
    hrf_json_put_text(body, "kind", "calibration");
    HRF_TRY(hrf_fields_seal(body, err));
    *out = hrf_json_text(body);
    return HRF_OK;
}

enum hrf_status hrf_calibration_write(const struct hrf_calibration *c, const char *path,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_TRY(hrf_calibration_encode(c, &text, err));
    return hrf_file_write_atomic(path, text, strlen(text), err);
}

/* ---- reading: what all users of a calibration rely on, checked once ---- */

static enum hrf_status check_tensor(struct hrf_calibration_tensor *t, const char *where,
                                    struct hrf_error *err)
{
    if (!isfinite(t->low) || !isfinite(t->high) || t->low > t->high)
        return hrf_error_set(err, HRF_E_USER, "%s: tensor '%s' has the range %g to %g", where,
                             t->name, (double)t->low, (double)t->high);
    if (isnan(t->sqnr_db))
        t->sqnr_db = HUGE_VAL;
    if (t->is_observed && !(t->observed_low <= t->observed_high && isfinite(t->observed_low) &&
                            isfinite(t->observed_high)))
        return hrf_error_set(err, HRF_E_USER, "%s: what was observed of tensor '%s' is not a range",
                             where, t->name);
    const bool is_smoothed = t->peaks != NULL;
    if (is_smoothed ? !(t->strength > 0 && t->strength <= 1) || t->means == NULL || t->n_means == 0
                    : t->strength != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: the smoothing of tensor '%s' is not as it should be", where,
                             t->name);
    const float seen = fmaxf(fabsf(t->observed_low), fabsf(t->observed_high));
    for (int64_t i = 0; t->means != NULL && i < t->n_means; i++) {
        if (is_smoothed && t->peaks[i] < 0)
            return hrf_error_set(err, HRF_E_USER, "%s: a peak of tensor '%s' is not a magnitude",
                                 where, t->name);
        if (t->is_observed && fabsf(t->means[i]) > seen * ROUNDING)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: tensor '%s' has the mean %g, and %g was the largest number "
                                 "observed",
                                 where, t->name, (double)t->means[i], (double)seen);
    }
    return HRF_OK;
}

bool hrf_calibration_is_kept(const struct hrf_calibration *c, const char *tensor)
{
    for (size_t i = 0; i < c->n_keep; i++)
        if (strcmp(c->keep[i].name, tensor) == 0)
            return true;
    return false;
}

static enum hrf_status check(struct hrf_calibration *c, const char *where, struct hrf_error *err)
{
    struct hrf_calibration_loss *lost = &c->lost;
    for (size_t i = 0; i < c->n_keep; i++) {
        const enum hrf_precision precision = c->keep[i].precision;
        if (precision != HRF_N_PRECISIONS && precision != HRF_FP32 && precision != HRF_BF16)
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' is kept in %s, not in fp32 or bf16",
                                 where, c->keep[i].name, hrf_precision_name(precision));
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        struct hrf_calibration_tensor *t = &c->tensors[i];
        HRF_TRY(check_tensor(t, where, err));
        const char *doubt = hrf_calibration_doubt(t);
        if (doubt != NULL && !hrf_calibration_is_kept(c, t->name))
            return hrf_error_set(
                err, HRF_E_USER,
                "%s: tensor '%s' has the range %g to %g, which cannot be a scale: %s", where,
                t->name, (double)t->low, (double)t->high, doubt);
    }
    if (isnan(lost->sqnr_db))
        lost->sqnr_db = HUGE_VAL;
    if (lost->n_images < 0 || lost->n_changed < 0 || lost->n_changed > lost->n_labels)
        return hrf_error_set(
            err, HRF_E_USER, "%s: %lld of %lld labels of %lld images cannot have changed", where,
            (long long)lost->n_changed, (long long)lost->n_labels, (long long)lost->n_images);
    return HRF_OK;
}

enum hrf_status hrf_calibration_decode(const char *text, size_t n_bytes, const char *where,
                                       struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_AUTO_JSON body = NULL;
    HRF_AUTO(hrf_calibration) c = hrf_calloc(1, sizeof *c);
    const char *kind;
    HRF_TRY(hrf_json_parse(text, n_bytes, where, &body, err));
    HRF_TRY(hrf_json_get_text(body, "kind", where, &kind, err));
    if (strcmp(kind, "calibration") != 0)
        return hrf_error_set(err, HRF_E_USER, "%s: a '%s' where a calibration is needed", where,
                             kind);
    HRF_TRY(hrf_fields_check_version(body, kind, where, err));
    HRF_TRY(hrf_fields_unseal(body, where, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), body, where, c, err));
    HRF_TRY(check(c, where, err));
    HRF_MOVE(*out, c);
    return HRF_OK;
}

enum hrf_status hrf_calibration_read(const char *path, struct hrf_calibration **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n = 0;
    HRF_TRY(hrf_file_read(path, MAX_BYTES, &text, &n, err));
    return hrf_calibration_decode(text, n, path, out, err);
}
