/* report_json_values.c - values of report.json: figures, intervals, and reasons where there is
 * none. */
#include "aggregate/report/report_json_private.h"

#include <math.h>
#include <stdio.h>

void hrf_json_put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        json_object_set_new(object, "out_of_memory", json_true());
}

void hrf_json_put_text(json_t *object, const char *key, const char *text)
{
    hrf_json_put(object, key, text != NULL ? hrf_json_string(text) : json_null());
}

void hrf_json_put_reason(json_t *object, const char *key, const char *reason)
{
    char name[64];
    snprintf(name, sizeof name, "%s_reason", key);
    hrf_json_put_text(object, name, reason);
}

void hrf_json_put_figure(json_t *object, const char *key, const struct hrf_figure *figure)
{
    hrf_json_put(object, key, hrf_json_number(figure->value));
    if (isnan(figure->value))
        hrf_json_put_reason(object, key, figure->reason);
}

void hrf_json_put_ratio(json_t *object, const char *key, double value, const char *reason)
{
    hrf_json_put(object, key, hrf_json_number(value));
    if (isnan(value))
        hrf_json_put_reason(object, key, reason);
}

static const char no_spread[] =
    "degenerate: all is ordered alike, so that there is no spread to make an interval of";

void hrf_json_put_interval(json_t *object, const char *key, const struct hrf_figure *figure,
                           const struct hrf_interval *interval)
{
    if (isnan(figure->value)) {
        hrf_json_put(object, key, json_null());
        hrf_json_put_reason(object, key, figure->reason);
        return;
    }
    if (isnan(interval->low)) {
        hrf_json_put(object, key, json_null());
        hrf_json_put_reason(object, key, no_spread);
        return;
    }
    json_t *ends = json_array();
    json_array_append_new(ends, hrf_json_number(interval->low));
    json_array_append_new(ends, hrf_json_number(interval->high));
    hrf_json_put(object, key, ends);
}
