/* training_set.c - splits of items by patient. */
#include "training/cohort/training_set.h"

#include "base/alloc.h"
#include "statistics/folds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const hrf_training_parts[] = { "training", "validation", "testing" };

bool hrf_training_part_find(const char *word, enum hrf_training_part *out)
{
    static const struct {
        const char *word;
        enum hrf_training_part part;
    } words[] = { { "training", HRF_PART_TRAINING },     { "train", HRF_PART_TRAINING },
                  { "validation", HRF_PART_VALIDATION }, { "val", HRF_PART_VALIDATION },
                  { "testing", HRF_PART_TESTING },       { "test", HRF_PART_TESTING } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = words[i].part;
            return true;
        }
    return false;
}

void hrf_training_set_release(struct hrf_training_set *set)
{
    hrf_free(set->items);
    hrf_free(set->truths);
    *set = (struct hrf_training_set){ .n_items = 0 };
}

/* ---- truths ---- */

void hrf_training_set_truth(const struct hrf_training_set *set, size_t i, size_t n_classes,
                            float *truth)
{
    if (set->truths != NULL) {
        memcpy(truth, set->truths + i * n_classes, n_classes * sizeof *truth);
        return;
    }
    memset(truth, 0, n_classes * sizeof *truth);
    truth[set->items[i].label] = 1;
}

static bool is_alike(const struct hrf_training_set *set, size_t i, size_t j)
{
    const size_t n = set->n_classes;
    return set->truths == NULL
               ? set->items[i].label == set->items[j].label
               : memcmp(set->truths + i * n, set->truths + j * n, n * sizeof *set->truths) == 0;
}

void hrf_training_set_group(struct hrf_training_set *set)
{
    const size_t n = set->n_classes;
    HRF_AUTO_FREE size_t *counts = hrf_calloc(n + 1, sizeof *counts);
    for (size_t i = 0; i < set->n_items; i++)
        for (size_t k = 0; k < n; k++)
            counts[k] += set->truths[i * n + k] > 0.5F;
    counts[n] = SIZE_MAX; /* of none */
    for (size_t i = 0; i < set->n_items; i++) {
        size_t rarest = n;
        for (size_t k = 0; k < n; k++)
            if (set->truths[i * n + k] > 0.5F && counts[k] < counts[rarest])
                rarest = k;
        set->items[i].label = (int64_t)rarest;
    }
}

static int by_patient(const void *a, const void *b)
{
    const struct hrf_training_item *const *x = a, *const *y = b;
    int order = strcmp((*x)->patient, (*y)->patient);
    order = order != 0 ? order : strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x)->line - (*y)->line;
}

/* Pointers to the items, those of a patient side by side; heap. */
static struct hrf_training_item **sorted(const struct hrf_training_set *c)
{
    struct hrf_training_item **list = hrf_alloc_array(c->n_items + 1, sizeof *list);
    for (size_t i = 0; i < c->n_items; i++)
        list[i] = &c->items[i];
    qsort(list, c->n_items, sizeof(struct hrf_training_item *), by_patient);
    return list;
}

/* A patient's items lie side by side in the list, so that neighbours tell. */
void hrf_training_set_find_conflicts(const struct hrf_training_set *set,
                                     hrf_training_conflict *find, void *context)
{
    HRF_AUTO_FREE struct hrf_training_item **list = sorted(set);
    for (size_t i = 1; i < set->n_items; i++)
        if (strcmp(list[i]->patient, list[i - 1]->patient) == 0 &&
            list[i]->part != list[i - 1]->part)
            find(context, list[i], list[i - 1]);
}

/* The patients of those items that `is_kept` (NULL: all) names, by class and drawn order. */
static void draw_patients(struct hrf_training_item *const *list, size_t n, const bool *is_kept,
                          uint64_t seed, struct hrf_fold_group **out, size_t *n_patients)
{
    HRF_AUTO_FREE const char **patients = hrf_calloc(n + 1, sizeof *patients);
    HRF_AUTO_FREE int64_t *labels = hrf_calloc(n + 1, sizeof *labels);
    for (size_t i = 0; i < n; i++) {
        patients[i] = list[i]->patient;
        labels[i] = list[i]->label;
    }
    hrf_fold_groups_draw(patients, labels, is_kept, n, seed, out, n_patients);
}

enum hrf_status hrf_training_set_deal_folds(struct hrf_training_set *set, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_training_item **list = sorted(set);
    HRF_AUTO_FREE struct hrf_fold_group *patients = NULL;
    size_t n = 0;
    draw_patients(list, set->n_items, NULL, (uint64_t)set->split_seed, &patients, &n);
    if (n < (size_t)set->n_folds)
        return hrf_error_set(err, HRF_E_USER,
                             "%zu patients cannot be split into %lld folds: set split.folds", n,
                             (long long)set->n_folds);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < patients[i].n; j++)
            list[patients[i].first + j]->fold = (int64_t)i % set->n_folds;
    return HRF_OK;
}

/* Of each class, `share` of the patients for training (rounded, but one stays) validate. */
static void draw_validation(const struct hrf_training_set *c, int64_t fold,
                            enum hrf_training_part *parts)
{
    HRF_AUTO_FREE struct hrf_training_item **list = sorted(c);
    HRF_AUTO_FREE bool *is_kept = hrf_calloc(c->n_items + 1, sizeof *is_kept);
    HRF_AUTO_FREE struct hrf_fold_group *patients = NULL;
    size_t n = 0, end = 0;
    for (size_t i = 0; i < c->n_items; i++)
        is_kept[i] = parts[list[i] - c->items] == HRF_PART_TRAINING;
    draw_patients(list, c->n_items, is_kept,
                  (uint64_t)c->split_seed * 1000003U + (uint64_t)fold + 1, &patients, &n);
    for (size_t first = 0; first < n; first = end) {
        for (end = first; end < n && patients[end].label == patients[first].label;)
            end++;
        const size_t wanted = (size_t)llround((double)(end - first) * c->validation);
        for (size_t i = first; i < first + wanted && i + 1 < end; i++)
            for (size_t j = 0; j < patients[i].n; j++)
                parts[list[patients[i].first + j] - c->items] = HRF_PART_VALIDATION;
    }
}

enum hrf_status hrf_training_set_split(const struct hrf_training_set *set, int64_t fold,
                                       enum hrf_training_part *parts, struct hrf_error *err)
{
    bool has_validation = false, is_mixed = false;
    size_t first = set->n_items; /* that trains */
    for (size_t i = 0; i < set->n_items; i++) {
        const struct hrf_training_item *item = &set->items[i];
        parts[i] = !set->is_by_folds    ? item->part
                   : item->fold == fold ? HRF_PART_TESTING
                                        : HRF_PART_TRAINING;
        has_validation = has_validation || parts[i] == HRF_PART_VALIDATION;
    }
    if (!has_validation && set->validation > 0)
        draw_validation(set, fold, parts);
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] == HRF_PART_TRAINING) {
            first = first < set->n_items ? first : i;
            is_mixed = is_mixed || !is_alike(set, first, i);
        }
    if (!is_mixed)
        return hrf_error_set(err, HRF_E_USER,
                             "the %s for training are %s: a training needs at least two %s (fold "
                             "%lld of '%s')",
                             set->nouns,
                             first == set->n_items          ? "none"
                             : set->kind == HRF_LABEL_CLASS ? "of one class only"
                                                            : "all labelled alike",
                             set->kind == HRF_LABEL_CLASS ? "classes" : "different labels",
                             (long long)fold, set->labels);
    return HRF_OK;
}
