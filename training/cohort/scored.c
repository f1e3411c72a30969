/* scored.c - AUC and balanced accuracy of scored items (scored.h). */
#include "training/cohort/scored.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "statistics/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_FIGURE(member, ...)                                                                  \
    .key = #member, HRF_FIGURE_AT(hrf_scored_figures, member), .unit = HRF_UNIT_ONE,               \
    .better = HRF_BETTER_HIGHER, .shown = HRF_IN_JSON, __VA_ARGS__
const struct hrf_figure_row hrf_scored_figure_rows[] = {
    { CLASS_FIGURE(
        auc, .column = 1, .heading = "AUC for testing",
        .help = "area under the ROC curve; of three or more classes the mean of the AUCs "
                "of each class against all others") },
    { CLASS_FIGURE(balanced_accuracy, .column = 2, .heading = "balanced accuracy",
                   .help = "the mean over the classes of the share of their items whose highest "
                           "score is the class's") },
    { .key = NULL },
};

enum { COLUMN_PART = 2, COLUMN_TRUTH, COLUMN_SCORES }; /* of predictions.csv */

void hrf_scored_release(struct hrf_scored *scored)
{
    for (size_t i = 0; i < scored->n; i++)
        hrf_free(scored->names[i]);
    hrf_free(scored->names);
    hrf_free(scored->scores);
    hrf_free(scored->labels);
    *scored = (struct hrf_scored){ .n = 0 };
}

void hrf_scored_add(struct hrf_scored *s, const float *scores, int32_t n_classes, int32_t label)
{
    if (s->n == s->capacity) {
        s->capacity = 2 * s->capacity + 64;
        s->scores = hrf_realloc_array(s->scores, s->capacity * (size_t)n_classes,
                                      sizeof *s->scores);
        s->labels = hrf_realloc_array(s->labels, s->capacity, sizeof *s->labels);
        s->names = hrf_realloc_array(s->names, s->capacity, sizeof *s->names);
    }
    memcpy(s->scores + s->n * (size_t)n_classes, scores, (size_t)n_classes * sizeof *scores);
    s->names[s->n] = NULL;
    s->labels[s->n++] = label;
}

static int32_t find_class(const struct hrf_text_list *classes, const char *name)
{
    for (int32_t k = 0; k < (int32_t)classes->n_items; k++)
        if (strcmp(classes->items[k], name) == 0)
            return k;
    return -1;
}

static enum hrf_status read_row(struct hrf_scored *scored, const struct hrf_csv_row *row,
                                const char *path, const struct hrf_text_list *classes,
                                float *scores, struct hrf_error *err)
{
    const size_t n_classes = (size_t)classes->n_items;
    const int32_t label = row->n_fields == COLUMN_SCORES + n_classes
                              ? find_class(classes, row->fields[COLUMN_TRUTH])
                              : -1;
    if (label < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "line %d of '%s' is not a name, its class and %zu scores; remove the "
                             "file's folder, and the training is done again",
                             row->line, path, n_classes);
    if (strcmp(row->fields[COLUMN_PART], "testing") != 0)
        return HRF_OK;
    for (size_t k = 0; k < n_classes; k++)
        scores[k] = row->fields[COLUMN_SCORES + k][0] != '\0'
                        ? strtof(row->fields[COLUMN_SCORES + k], NULL)
                        : NAN;
    hrf_scored_add(scored, scores, (int32_t)classes->n_items, label);
    scored->names[scored->n - 1] = hrf_strdup(row->fields[0]);
    return HRF_OK;
}

enum hrf_status hrf_scored_read(struct hrf_scored *scored, const char *path,
                                const struct hrf_text_list *classes, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_AUTO_FREE float *scores = hrf_alloc_array((size_t)classes->n_items + 1, sizeof *scores);
    HRF_TRY(hrf_csv_read(path, &csv, err));
    for (size_t i = 1; i < csv->n_rows; i++) /* behind the titles */
        HRF_TRY(read_row(scored, &csv->rows[i], path, classes, scores, err));
    return HRF_OK;
}

static double find_auc(const struct hrf_scored *s, int32_t n_classes, char why[160])
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(s->n + 1, sizeof *items);
    struct hrf_error err = { .status = HRF_OK };
    double sum = 0;
    for (int32_t k = n_classes == 2 ? 1 : 0; k < n_classes; k++) {
        double auc = 0;
        for (size_t i = 0; i < s->n; i++)
            items[i] = (struct hrf_labelled){ (double)s->scores[i * (size_t)n_classes + (size_t)k],
                                              s->labels[i] == k };
        if (hrf_auc(items, s->n, &auc, &err) != HRF_OK) {
            snprintf(why, 160, "%.159s", err.text);
            return NAN;
        }
        sum += auc;
    }
    return n_classes == 2 ? sum : sum / n_classes;
}

int32_t hrf_scored_most_likely(const float *scores, int32_t n_classes)
{
    int32_t best = 0;
    for (int32_t k = 1; k < n_classes; k++)
        best = scores[k] > scores[best] ? k : best;
    return best;
}

static double find_balanced_accuracy(const struct hrf_scored *s, int32_t n_classes)
{
    double sum = 0;
    for (int32_t k = 0; k < n_classes; k++) {
        int64_t n = 0, right = 0;
        for (size_t i = 0; i < s->n; i++) {
            n += s->labels[i] == k;
            right += s->labels[i] == k &&
                     hrf_scored_most_likely(s->scores + i * (size_t)n_classes, n_classes) == k;
        }
        sum += (double)right / (double)n;
    }
    return sum / n_classes;
}

struct hrf_scored_figures hrf_scored_figures_of(const struct hrf_scored *s,
                                                const struct hrf_text_list *classes,
                                                const char *nouns, const char *part)
{
    struct hrf_scored_figures f = { NAN, NAN, "" };
    if (s->n == 0) {
        snprintf(f.why, sizeof f.why, "no %s for %s", nouns, part);
        return f;
    }
    for (int32_t k = 0; k < (int32_t)classes->n_items; k++) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++)
            n += s->labels[i] == k;
        if (n > 0)
            continue;
        snprintf(f.why, sizeof f.why, "none of the %zu %s for %s is of class '%.60s'", s->n, nouns,
                 part, classes->items[k]);
        return f;
    }
    f.auc = find_auc(s, (int32_t)classes->n_items, f.why);
    f.balanced_accuracy = find_balanced_accuracy(s, (int32_t)classes->n_items);
    return f;
}
