/* figure.c - values, reasons, texts and JSON of figures by their rows (figure.h). */
#include "statistics/figure.h"

#include "base/alloc.h"
#include "base/quantity.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *hrf_unit_symbol(enum hrf_unit unit)
{
    static const char *const symbols[HRF_N_UNITS] = {
        [HRF_UNIT_TIMES] = "×",
        [HRF_UNIT_SECONDS] = "s",
        [HRF_UNIT_CLOCK_MS] = "ms since 1970",
        [HRF_UNIT_BYTES] = "bytes",
        [HRF_UNIT_PROCESSORS] = "processors",
        [HRF_UNIT_PATCHES_PER_SECOND] = "patches/s",
        [HRF_UNIT_SLIDES_PER_HOUR] = "slides/h",
        [HRF_UNIT_JOULES_PER_PATCH] = "J/patch",
        [HRF_UNIT_JOULES_PER_SLIDE] = "J/slide",
        [HRF_UNIT_SQUARE_MM] = "mm²",
        [HRF_UNIT_GB_PER_SECOND] = "GB/s",
        [HRF_UNIT_OF_SCORE] = "as the score",
    };
    return symbols[unit] != NULL ? symbols[unit] : "";
}

static const void *member(const struct hrf_figure_row *row, const void *base)
{
    return (const char *)base + row->at;
}

double hrf_figure_value(const struct hrf_figure_row *row, const void *base)
{
    switch (row->type) {
    case HRF_FIGURE_VALUE:
        return ((const struct hrf_figure *)member(row, base))->value;
    case HRF_FIGURE_DOUBLE:
        return *(const double *)member(row, base);
    case HRF_FIGURE_INT32:
        return *(const int32_t *)member(row, base);
    case HRF_FIGURE_INT64:
        return (double)*(const int64_t *)member(row, base);
    case HRF_FIGURE_SIZE:
        return (double)*(const size_t *)member(row, base);
    case HRF_FIGURE_COMPUTED:
        return row->compute != NULL ? row->compute(base) : (double)NAN;
    }
    return NAN;
}

const char *hrf_figure_reason(const struct hrf_figure_row *row, const void *base)
{
    if (row->reason_at > 0) {
        const char *reason = (const char *)base + row->reason_at;
        return reason[0] != '\0' ? reason : NULL;
    }
    return row->type == HRF_FIGURE_VALUE ? ((const struct hrf_figure *)member(row, base))->reason
                                         : row->unknown;
}

struct hrf_interval hrf_figure_interval(const struct hrf_figure_row *row, const void *base)
{
    if (row->interval_at == 0 || isnan(hrf_figure_value(row, base)))
        return (struct hrf_interval){ NAN, NAN };
    return *(const struct hrf_interval *)(const void *)((const char *)base + row->interval_at);
}

static int by_column(const void *a, const void *b)
{
    return (*(const struct hrf_figure_row *const *)a)->column -
           (*(const struct hrf_figure_row *const *)b)->column;
}

bool hrf_figure_is_of(const struct hrf_figure_row *row, int from, int to)
{
    return from == 0 || (row->part >= from && row->part <= to);
}

size_t hrf_figure_columns(const struct hrf_figure_row *rows, unsigned shown, int from, int to,
                          const struct hrf_figure_row *out[HRF_MAX_COLUMNS])
{
    size_t n = 0;
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++)
        if ((row->shown & shown) != 0 && hrf_figure_is_of(row, from, to)) {
            assert(n < HRF_MAX_COLUMNS);
            out[n++] = row;
        }
    qsort(out, n, sizeof *out, by_column);
    return n;
}

void hrf_figures_release(const struct hrf_figure_row *rows, void *base)
{
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++)
        if (row->type == HRF_FIGURE_VALUE)
            hrf_free(((struct hrf_figure *)(void *)((char *)base + row->at))->reason);
}

struct hrf_figure_text hrf_figure_text(const struct hrf_figure_row *row, double value)
{
    struct hrf_figure_text out;
    if (isnan(value))
        snprintf(out.text, sizeof out.text, "–");
    else if (row->unit == HRF_UNIT_COUNT)
        snprintf(out.text, sizeof out.text, "%s", hrf_count_text((int64_t)value).text);
    else if (row->unit == HRF_UNIT_BYTES)
        snprintf(out.text, sizeof out.text, "%s", hrf_bytes_text((int64_t)value).text);
    else if (row->unit == HRF_UNIT_SECONDS)
        snprintf(out.text, sizeof out.text, "%s", hrf_duration_text(value).text);
    else if (row->decimals == HRF_3_DIGITS)
        snprintf(out.text, sizeof out.text, "%.3g", value);
    else if (row->decimals == HRF_4_DIGITS)
        snprintf(out.text, sizeof out.text, "%.4g", value);
    else
        snprintf(out.text, sizeof out.text, "%.*f",
                 row->decimals == HRF_1_BELOW_100 ? value < 100 : row->decimals, value);
    return out;
}

const char *hrf_figure_csv_name(const struct hrf_figure_row *row)
{
    return row->csv != NULL ? row->csv : row->key;
}

/* ---- JSON ---- */

void hrf_json_put_reason(json_t *object, const char *key, const char *reason)
{
    HRF_AUTO_FREE char *name = hrf_format("%s_reason", key);
    hrf_json_put_text(object, name, reason);
}

void hrf_json_put_ratio(json_t *object, const char *key, double value, const char *reason)
{
    hrf_json_put_number(object, key, value);
    if (isnan(value))
        hrf_json_put_reason(object, key, reason);
}

static const char no_spread[] =
    "degenerate: all is ordered alike, so that there is no spread to make an interval of";

void hrf_json_put_interval(json_t *object, const char *key, double value, const char *reason,
                           const struct hrf_interval *interval)
{
    if (isnan(value) || isnan(interval->low)) {
        hrf_json_put(object, key, json_null());
        hrf_json_put_reason(object, key, isnan(value) ? reason : no_spread);
        return;
    }
    hrf_json_put(object, key,
                 hrf_json_numbers((const double[]){ interval->low, interval->high }, 2));
}

void hrf_figures_put(json_t *object, const struct hrf_figure_row *rows, int part, const void *base)
{
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++) {
        if ((row->shown & HRF_IN_JSON) == 0 || row->part != part)
            continue;
        const double value = hrf_figure_value(row, base);
        const char *reason = hrf_figure_reason(row, base);
        if (!isnan(value) && (row->unit == HRF_UNIT_COUNT || row->unit == HRF_UNIT_BYTES ||
                              row->unit == HRF_UNIT_CLOCK_MS))
            hrf_json_put_int(object, row->key, (int64_t)value);
        else
            hrf_json_put_number(object, row->key, value);
        if (isnan(value) && (reason != NULL || row->type == HRF_FIGURE_VALUE))
            hrf_json_put_reason(object, row->key, reason);
        if (row->interval_at > 0) {
            const struct hrf_interval interval = hrf_figure_interval(row, base);
            HRF_AUTO_FREE char *key = hrf_format("%s_ci", row->key);
            hrf_json_put_interval(object, key, value, reason, &interval);
        }
    }
}

enum hrf_status hrf_figures_get(const json_t *object, const struct hrf_figure_row *rows,
                                const char *where, void *base, struct hrf_error *err)
{
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++) {
        void *at = (char *)base + row->at;
        if ((row->shown & HRF_IN_JSON) == 0)
            continue;
        if (row->type == HRF_FIGURE_INT64)
            HRF_TRY(hrf_json_get_int(object, row->key, where, at, err));
        else if (row->type == HRF_FIGURE_DOUBLE && json_is_null(json_object_get(object, row->key)))
            *(double *)at = NAN;
        else if (row->type == HRF_FIGURE_DOUBLE)
            HRF_TRY(hrf_json_get_number(object, row->key, where, at, err));
    }
    return HRF_OK;
}
