/* scored.c - figures of scored items (scored.h). */
#include "training/cohort/scored.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "statistics/metrics.h"
#include "statistics/most_likely.h"
#include "statistics/regression.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIGURE(member, unit_, way, ...)                                                            \
    .key = #member, HRF_FIGURE_AT(hrf_scored_figures, member), .unit = HRF_UNIT_##unit_,           \
    .better = HRF_BETTER_##way, .shown = HRF_IN_JSON, __VA_ARGS__
#define AUC(...)                                                                                   \
    FIGURE(auc, ONE, HIGHER, .column = 1, .heading = "AUC for testing", .short_heading = "AUC",    \
           .help = __VA_ARGS__)
#define BALANCED_ACCURACY(...)                                                                     \
    FIGURE(balanced_accuracy, ONE, HIGHER, .column = 2, .heading = "balanced accuracy",            \
           .short_heading = "balanced accuracy", .help = __VA_ARGS__)
const struct hrf_figure_row hrf_scored_figure_rows[] = {
    { AUC("area under the ROC curve; of three or more classes the mean of the AUCs of each class "
          "against all others") },
    { BALANCED_ACCURACY("the mean over the classes of the share of their items whose highest score "
                        "is the class's") },
    { .key = NULL },
};
static const struct hrf_figure_row label_rows[] = {
    { AUC("of several labels: the mean of their AUCs") },
    { BALANCED_ACCURACY("of several labels: the mean over them of sensitivity and specificity at a "
                        "score of 0.5") },
    { .key = NULL },
};
static const struct hrf_figure_row number_rows[] = {
    { FIGURE(r2, ONE, HIGHER, .column = 1, .heading = "R2 for testing", .short_heading = "R2",
             .help = "of numbers: 1 less the squared error over the truths' squared distance from "
                     "their mean; of several numbers the mean of theirs, as all that follow") },
    { FIGURE(mean_absolute_error, OF_SCORE, LOWER, .column = 2, .heading = "mean absolute error",
             .short_heading = "mean absolute error", .help = "of numbers, in their unit") },
    { FIGURE(spearman, ONE, HIGHER, .column = 3, .heading = "Spearman's rank correlation",
             .short_heading = "rank correlation",
             .help = "of numbers: rank correlation with the truths") },
    { .key = NULL },
};
static const struct hrf_figure_row pixel_rows[] = {
    { FIGURE(dice, ONE, HIGHER, .column = 1, .heading = "Dice for testing", .short_heading = "Dice",
             .help = "of segmentations: twice the pixels that are rightly called of a class over "
                     "those that are of it plus those that are called so, of all pictures "
                     "together; the mean over the classes") },
    { BALANCED_ACCURACY("of segmentations: the share of a class's pixels that are called so; the "
                        "mean over the classes") },
    { .key = NULL },
};
const struct hrf_figure_row *const hrf_scored_rows[HRF_N_LABEL_KINDS] = {
    [HRF_LABEL_CLASS] = hrf_scored_figure_rows,
    [HRF_LABEL_SEVERAL] = label_rows,
    [HRF_LABEL_NUMBERS] = number_rows,
    [HRF_LABEL_PIXELS] = pixel_rows,
};

enum { COLUMN_PART = 2, COLUMN_TRUTH, COLUMN_SCORES }; /* of predictions.csv */

void hrf_scored_release(struct hrf_scored *scored)
{
    for (size_t i = 0; i < scored->n; i++)
        hrf_free(scored->names[i]);
    hrf_free(scored->names);
    hrf_free(scored->scores);
    hrf_free(scored->truths);
    *scored = (struct hrf_scored){ .kind = scored->kind };
}

void hrf_scored_add(struct hrf_scored *s, const float *scores, const float *truth,
                    int32_t n_classes)
{
    const size_t n = (size_t)n_classes, n_scores = hrf_label_n_scores(s->kind, n);
    if (s->n == s->capacity) {
        s->capacity = 2 * s->capacity + 64;
        s->scores = hrf_realloc_array(s->scores, s->capacity * n_scores, sizeof *s->scores);
        s->truths = hrf_realloc_array(s->truths, s->capacity * n, sizeof *s->truths);
        s->names = hrf_realloc_array(s->names, s->capacity, sizeof *s->names);
    }
    memcpy(s->scores + s->n * n_scores, scores, n_scores * sizeof *scores);
    memcpy(s->truths + s->n * n, truth, n * sizeof *truth);
    s->names[s->n++] = NULL;
}

static enum hrf_status read_row(struct hrf_scored *scored, const struct hrf_csv_row *row,
                                const char *path, const struct hrf_text_list *classes,
                                float *scores, struct hrf_error *err)
{
    const size_t n_scores = hrf_label_n_scores(scored->kind, classes->n_items);
    float *truth = scores + n_scores;
    if (row->n_fields != COLUMN_SCORES + n_scores ||
        hrf_label_parse(scored->kind, row->fields[COLUMN_TRUTH], classes, truth, NULL) != HRF_OK)
        return hrf_error_set(err, HRF_E_USER,
                             "line %d of '%s' is not a name, its class and %zu scores; remove the "
                             "file's folder, and the training is done again",
                             row->line, path, n_scores);
    if (strcmp(row->fields[COLUMN_PART], "testing") != 0)
        return HRF_OK;
    for (size_t k = 0; k < n_scores; k++)
        scores[k] = row->fields[COLUMN_SCORES + k][0] != '\0'
                        ? strtof(row->fields[COLUMN_SCORES + k], NULL)
                        : NAN;
    hrf_scored_add(scored, scores, truth, (int32_t)classes->n_items);
    scored->names[scored->n - 1] = hrf_strdup(row->fields[0]);
    return HRF_OK;
}

enum hrf_status hrf_scored_read(struct hrf_scored *scored, const char *path,
                                const struct hrf_text_list *classes, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_AUTO_FREE float *scores = hrf_alloc_array(3 * classes->n_items + 2, sizeof *scores);
    HRF_TRY(hrf_csv_read(path, &csv, err));
    for (size_t i = 1; i < csv->n_rows; i++) /* behind the titles */
        HRF_TRY(read_row(scored, &csv->rows[i], path, classes, scores, err));
    return HRF_OK;
}

static bool is_of(const struct hrf_scored *s, size_t n_classes, size_t i, size_t k)
{
    return s->truths[i * n_classes + k] > 0.5F;
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
                                              is_of(s, (size_t)n_classes, i, (size_t)k) };
        if (hrf_auc(items, s->n, &auc, &err) != HRF_OK) {
            snprintf(why, 160, "%.159s", err.text);
            return NAN;
        }
        sum += auc;
    }
    return n_classes == 2 ? sum : sum / n_classes;
}

static double find_balanced_accuracy(const struct hrf_scored *s, int32_t n_classes)
{
    double sum = 0;
    for (int32_t k = 0; k < n_classes; k++) {
        int64_t n = 0, right = 0;
        for (size_t i = 0; i < s->n; i++) {
            const bool is_there = is_of(s, (size_t)n_classes, i, (size_t)k);
            n += is_there;
            right += is_there && hrf_most_likely(s->scores + i * (size_t)n_classes, n_classes) == k;
        }
        sum += (double)right / (double)n;
    }
    return sum / n_classes;
}

/* ---- one of several labels or numbers ---- */

static void find_label(const struct hrf_scored *s, const struct hrf_text_list *classes, size_t k,
                       const char *nouns, const char *part, struct hrf_scored_figures *f)
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(s->n + 1, sizeof *items);
    const size_t n_classes = classes->n_items;
    struct hrf_error err = { .status = HRF_OK };
    size_t n_positive = 0;
    for (size_t i = 0; i < s->n; i++) {
        items[i] = (struct hrf_labelled){ (double)s->scores[i * n_classes + k],
                                          is_of(s, n_classes, i, k) };
        n_positive += items[i].positive;
    }
    if (n_positive == 0 || n_positive == s->n) {
        snprintf(f->why, sizeof f->why, "%s of the %zu %s for %s has the label '%.60s'",
                 n_positive == 0 ? "none" : "each", s->n, nouns, part, classes->items[k]);
        return;
    }
    if (hrf_auc(items, s->n, &f->auc, &err) != HRF_OK) {
        f->auc = NAN;
        snprintf(f->why, sizeof f->why, "%.159s", err.text);
        return;
    }
    const struct hrf_confusion c = hrf_confusion_count(items, s->n, 0.5);
    f->balanced_accuracy = (hrf_confusion_sensitivity(&c) + hrf_confusion_specificity(&c)) / 2;
}

static void find_numbers(const struct hrf_scored *s, const struct hrf_text_list *classes, size_t k,
                         const char *nouns, const char *part, struct hrf_scored_figures *f)
{
    HRF_AUTO_FREE struct hrf_number_pair *pairs = hrf_alloc_array(s->n + 1, sizeof *pairs);
    struct hrf_regression r;
    for (size_t i = 0; i < s->n; i++)
        pairs[i] = (struct hrf_number_pair){ (double)s->truths[i * classes->n_items + k],
                                             (double)s->scores[i * classes->n_items + k] };
    if (hrf_regression_compute(pairs, s->n, &r, NULL) != HRF_OK) {
        snprintf(f->why, sizeof f->why, "%zu of the %s for %s; two are needed", s->n, nouns, part);
        return;
    }
    f->mean_absolute_error = r.mean_absolute_error;
    f->r2 = r.r2;
    f->spearman = r.spearman;
    if (isnan(r.r2))
        snprintf(f->why, sizeof f->why, "the %zu %s for %s have all the same '%.60s'", s->n, nouns,
                 part, classes->items[k]);
    else if (isnan(r.spearman))
        snprintf(f->why, sizeof f->why, "all values of '%.60s' that the network gives are equal",
                 classes->items[k]);
}

static void find_pixels(const struct hrf_scored *s, const struct hrf_text_list *classes, size_t k,
                        const char *nouns, const char *part, struct hrf_scored_figures *f)
{
    const size_t n_classes = classes->n_items, n_scores = 2 * n_classes + 1;
    double are = 0, right = 0, called = 0;
    for (size_t i = 0; i < s->n; i++) {
        are += (double)s->truths[i * n_classes + k];
        right += (double)s->scores[i * n_scores + k];
        called += (double)s->scores[i * n_scores + n_classes + k];
    }
    if (are > 0) {
        f->dice = 2 * right / (are + called);
        f->balanced_accuracy = right / are;
    } else {
        snprintf(f->why, sizeof f->why, "none of the %zu %s for %s has a pixel of '%.60s'", s->n,
                 nouns, part, classes->items[k]);
    }
}

static const struct hrf_scored_figures no_figures = { NAN, NAN, NAN, NAN, NAN, NAN, "" };

struct hrf_scored_figures hrf_scored_figures_of_one(const struct hrf_scored *s,
                                                    const struct hrf_text_list *classes, size_t k,
                                                    const char *nouns, const char *part)
{
    typedef void finder(const struct hrf_scored *s, const struct hrf_text_list *classes, size_t k,
                        const char *nouns, const char *part, struct hrf_scored_figures *f);
    static finder *const finders[HRF_N_LABEL_KINDS] = { [HRF_LABEL_SEVERAL] = find_label,
                                                        [HRF_LABEL_NUMBERS] = find_numbers,
                                                        [HRF_LABEL_PIXELS] = find_pixels };
    struct hrf_scored_figures f = no_figures;
    if (s->n == 0)
        snprintf(f.why, sizeof f.why, "no %s for %s", nouns, part);
    else
        finders[s->kind](s, classes, k, nouns, part, &f);
    return f;
}

void hrf_scored_put_each(json_t *object, const struct hrf_scored *s,
                         const struct hrf_text_list *classes, const char *nouns, const char *part)
{
    if (s->kind == HRF_LABEL_CLASS)
        return;
    json_t *list = json_array();
    for (size_t k = 0; k < classes->n_items; k++) {
        const struct hrf_scored_figures f = hrf_scored_figures_of_one(s, classes, k, nouns, part);
        json_t *one = json_object();
        hrf_json_put_text(one, "class", classes->items[k]);
        hrf_figures_put(one, hrf_scored_rows[s->kind], 0, &f);
        hrf_json_put_text(one, "why_no_figure", f.why);
        hrf_json_add(list, one);
    }
    hrf_json_put(object, "classes", list);
}

/* The mean of each figure over the labels or numbers; NaN if one of them has none. */
static struct hrf_scored_figures mean_of_each(const struct hrf_scored *s,
                                              const struct hrf_text_list *classes,
                                              const char *nouns, const char *part)
{
    const double n = (double)classes->n_items;
    struct hrf_scored_figures mean = { 0, 0, 0, 0, 0, 0, "" };
    for (size_t k = 0; k < classes->n_items; k++) {
        const struct hrf_scored_figures f = hrf_scored_figures_of_one(s, classes, k, nouns, part);
        mean.auc += f.auc / n;
        mean.balanced_accuracy += f.balanced_accuracy / n;
        mean.r2 += f.r2 / n;
        mean.mean_absolute_error += f.mean_absolute_error / n;
        mean.spearman += f.spearman / n;
        mean.dice += f.dice / n;
        if (mean.why[0] == '\0')
            memcpy(mean.why, f.why, sizeof mean.why);
    }
    return mean;
}

struct hrf_scored_figures hrf_scored_figures_of(const struct hrf_scored *s,
                                                const struct hrf_text_list *classes,
                                                const char *nouns, const char *part)
{
    struct hrf_scored_figures f = no_figures;
    if (s->kind != HRF_LABEL_CLASS)
        return mean_of_each(s, classes, nouns, part);
    if (s->n == 0) {
        snprintf(f.why, sizeof f.why, "no %s for %s", nouns, part);
        return f;
    }
    for (int32_t k = 0; k < (int32_t)classes->n_items; k++) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++)
            n += is_of(s, classes->n_items, i, (size_t)k);
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
