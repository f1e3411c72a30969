/* detections.c - one slide's detections: in the csv of the lesion task, and against its lesions. */
#include "aggregate/camelyon16/detections.h"

#include "base/csv.h"
#include "tiler/outline/point.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool take_real(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && end[strspn(end, " \t")] == '\0' && isfinite(*out);
}

/* Python's int(): digits with a sign, blanks around; no decimals. */
static bool take_whole(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && end[strspn(end, " \t")] == '\0' && errno == 0 &&
           hrf_is_place((double)value);
}

static enum hrf_status take_row(const struct hrf_csv_row *row, const char *where,
                                struct hrf_detection *out, struct hrf_error *err)
{
    if (row->n_fields < 3)
        return hrf_error_set(err, HRF_E_USER, "%s:%d: %zu field%s; a detection is confidence,x,y",
                             where, row->line, row->n_fields, row->n_fields == 1 ? "" : "s");
    if (!take_real(row->fields[0], &out->confidence))
        return hrf_error_set(err, HRF_E_USER, "%s:%d: the confidence '%.40s' is not a number",
                             where, row->line, row->fields[0]);
    for (int i = 1; i < 3; i++)
        if (!take_whole(row->fields[i], i == 1 ? &out->x : &out->y))
            return hrf_error_set(err, HRF_E_USER,
                                 "%s:%d: %c = '%.40s' is not a whole number of level-0 px", where,
                                 row->line, i == 1 ? 'x' : 'y', row->fields[i]);
    return HRF_OK;
}

static enum hrf_status take_rows(const struct hrf_csv *csv, const char *where,
                                 struct hrf_detection **out, size_t *n_detections,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_detection *items = hrf_alloc_array(csv->n_rows + 1, sizeof *items);
    for (size_t i = 0; i < csv->n_rows; i++)
        HRF_TRY(take_row(&csv->rows[i], where, &items[i], err));
    *n_detections = csv->n_rows;
    HRF_MOVE(*out, items);
    return HRF_OK;
}

enum hrf_status hrf_detections_parse(const char *text, size_t n_bytes, const char *where,
                                     struct hrf_detection **out, size_t *n_detections,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_parse(text, n_bytes, where, &csv, err));
    return take_rows(csv, where, out, n_detections, err);
}

enum hrf_status hrf_detections_read(const char *path, struct hrf_detection **out,
                                    size_t *n_detections, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(path, &csv, err));
    return take_rows(csv, path, out, n_detections, err);
}

void hrf_froc_slide_judge(const struct hrf_lesions *lesions, bool is_positive,
                          const struct hrf_detection *detections, size_t n_detections,
                          struct hrf_froc_slide *out)
{
    struct hrf_froc_slide s = { .is_positive = is_positive,
                                .n_lesions = lesions != NULL ? lesions->components->n_items : 0 };
    s.confidence = hrf_calloc(s.n_lesions + 1, sizeof *s.confidence);
    s.is_itc = hrf_calloc(s.n_lesions + 1, sizeof *s.is_itc);
    s.false_positives = hrf_alloc_array(n_detections + 1, sizeof *s.false_positives);
    for (size_t i = 0; i < s.n_lesions; i++)
        s.is_itc[i] = lesions->is_itc[i];
    for (size_t i = 0; i < n_detections; i++) {
        const struct hrf_detection *d = &detections[i];
        const int32_t label = lesions != NULL ? hrf_lesions_at(lesions, d->x, d->y) : 0;
        if (label == 0)
            s.false_positives[s.n_false_positives++] = d->confidence;
        else if (s.is_itc[label - 1])
            s.n_ignored++;
        else if (d->confidence > s.confidence[label - 1])
            s.confidence[label - 1] = d->confidence;
    }
    *out = s;
}
