/* slide_forest.c - see slide_forest.h. */
#include "orchestrator/run/slide_forest.h"

#include "aggregate/camelyon16/exclusions.h"
#include "aggregate/forest/forest.h"
#include "base/array.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/run/head_table.h"
#include "statistics/folds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A slide all of whose patches are scored in the first precision. */
struct item {
    const struct hrf_slide_row *slide;
    size_t slide_index;  /* among all */
    const char *patient; /* from the table, or the slide's name */
    bool tests;          /* otherwise it trains; not used with folds */
    int64_t fold;
    bool *is_known; /* [n_variants]: it has features there, */
    double (*features)[HRF_MAP_FEATURES];
    double *sums; /* [n_variants]: of the scores that forests gave, */
    int64_t n_scores;
};

struct work {
    const struct hrf_workflow *w;
    struct hrf_store *store;
    struct run_head_table table;
    size_t positive, n_variants;
    struct item *items;
    size_t n_items;
    char *folder; /* for the files */
};

static void work_release(struct work *work)
{
    for (size_t i = 0; i < work->n_items; i++) {
        hrf_free(work->items[i].is_known);
        hrf_free(work->items[i].features);
        hrf_free(work->items[i].sums);
    }
    hrf_free(work->items);
    hrf_free(work->folder);
    run_head_table_release(&work->table);
}

void run_forest_scores_release(struct run_forest_scores *scores)
{
    hrf_free(scores->scores);
    hrf_free(scores->failure);
}

/* ---- features ---- */

/* Computes the features of a slide in one precision. A slide that is not scored in it has none. */
static enum hrf_status find_features(const struct work *work, const struct hrf_tile_plan *plan,
                                     struct item *item, size_t variant, struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_store_get_scores(
        work->store, item->slide->id, hrf_workflow_variant_name(work->w, variant), &scores, &why);
    if (status == HRF_E_AGAIN)
        return HRF_OK;
    if (status != HRF_OK)
        return hrf_error_set(err, status, "slide '%s': %s", item->slide->name, why.text);
    if (scores->n_patches != plan->n_patches || work->positive >= (size_t)scores->n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "slide '%s' has patches without a score, or no score for the "
                             "positive class",
                             item->slide->name);
    HRF_TRY(hrf_map_features_of_patches(
        plan, scores->probabilities + work->positive, (size_t)scores->n_classes,
        work->w->slide_head.map_threshold, item->features[variant], err));
    item->is_known[variant] = true;
    return HRF_OK;
}

static enum hrf_status fill_item(const struct work *work, struct item *item, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    const struct hrf_csv_row *line = NULL;
    item->is_known = hrf_calloc(work->n_variants, sizeof *item->is_known);
    item->features = hrf_calloc(work->n_variants, sizeof *item->features);
    item->sums = hrf_calloc(work->n_variants, sizeof *item->sums);
    HRF_TRY(hrf_store_get_tile_plan(work->store, item->slide->id, &plan, err));
    for (size_t p = 0; p < work->n_variants; p++)
        HRF_TRY(find_features(work, plan, item, p, err));
    if (item->slide->truth == HRF_TRUTH_UNKNOWN)
        return HRF_OK;
    HRF_TRY(run_head_table_find(work->w, &work->table, item->slide->name, &line, err));
    const char *patient = run_head_table_cell(line, work->table.patient);
    const char *part = run_head_table_part(work->w, &work->table, item->slide->name, line);
    item->patient = patient[0] != '\0' ? patient : item->slide->name;
    item->tests = strcmp(part, "testing") == 0;
    if (work->w->slide_head.split == HRF_HEADS_BY_TABLE && !item->tests &&
        strcmp(part, "training") != 0 && strcmp(part, "validation") != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': '%s' of slide '%s' is none of training, validation, testing",
                             work->w->slide_head.table, part, item->slide->name);
    return HRF_OK;
}

static enum hrf_status gather_items(struct work *work, const struct hrf_slide_rows *slides,
                                    struct hrf_error *err)
{
    const struct hrf_text_list *classes = &work->w->model.classes;
    work->n_variants = hrf_workflow_n_variants(work->w);
    for (size_t i = 0; i < classes->n_items; i++)
        if (strcmp(classes->items[i], work->w->model.positive) == 0)
            work->positive = i;
    HRF_TRY(run_head_table_read(work->w, &work->table, err));
    work->items = hrf_calloc(slides->n_items + 1, sizeof *work->items);
    for (size_t i = 0; i < slides->n_items; i++) {
        const struct hrf_slide_row *slide = &slides->items[i];
        struct item *item = &work->items[work->n_items];
        if (slide->calibrates || slide->tile_plan_hash == NULL ||
            (slide->state != HRF_SLIDE_DONE && slide->state != HRF_SLIDE_FAILED))
            continue;
        *item = (struct item){ .slide = slide, .slide_index = i, .patient = slide->name };
        work->n_items++;
        HRF_TRY(fill_item(work, item, err));
    }
    return HRF_OK;
}

/* ---- splits ---- */

static bool is_labelled(const struct item *item)
{
    return item->slide->truth != HRF_TRUTH_UNKNOWN && item->is_known[0];
}

static int by_patient(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;
    const int order = strcmp((*x)->patient, (*y)->patient);
    return order != 0 ? order : strcmp((*x)->slide->name, (*y)->slide->name);
}

static enum hrf_status deal_folds(const struct work *work, struct item *const *list, size_t n,
                                  struct hrf_error *err)
{
    const struct hrf_workflow_slide_head *h = &work->w->slide_head;
    HRF_AUTO_FREE const char **patients = hrf_try_calloc(n + 1, sizeof *patients);
    HRF_AUTO_FREE int64_t *labels = hrf_calloc(n + 1, sizeof *labels);
    HRF_AUTO_FREE struct hrf_fold_group *groups = NULL;
    size_t n_groups = 0;
    HRF_CHECK_MEMORY(patients != NULL, err, "no memory for %zu slides", n);
    for (size_t i = 0; i < n; i++) {
        patients[i] = list[i]->patient;
        labels[i] = list[i]->slide->truth == HRF_TRUTH_POSITIVE;
    }
    hrf_fold_groups_draw(patients, labels, NULL, n, (uint64_t)h->seed, &groups, &n_groups);
    if (n_groups < (size_t)h->folds)
        return hrf_error_set(err, HRF_E_USER,
                             "%zu patients cannot be split into %lld folds: set {slide_head.folds}",
                             n_groups, (long long)h->folds);
    for (size_t i = 0; i < n_groups; i++)
        for (size_t k = 0; k < groups[i].n; k++)
            list[groups[i].first + k]->fold = (int64_t)i % h->folds;
    return HRF_OK;
}

static enum hrf_status split_items(const struct work *work, struct hrf_error *err)
{
    HRF_AUTO_FREE struct item **list = hrf_calloc(work->n_items + 1, sizeof(struct item *));
    size_t n = 0;
    for (size_t i = 0; i < work->n_items; i++)
        if (is_labelled(&work->items[i]))
            list[n++] = &work->items[i];
    qsort(list, n, sizeof(struct item *), by_patient);
    if (work->w->slide_head.split == HRF_HEADS_BY_FOLDS)
        return deal_folds(work, list, n, err);
    for (size_t i = 1; i < n; i++)
        if (strcmp(list[i]->patient, list[i - 1]->patient) == 0 &&
            list[i]->tests != list[i - 1]->tests)
            return hrf_error_set(err, HRF_E_USER,
                                 "a leak: patient '%s' has slide '%s' for training and '%s' for "
                                 "testing",
                                 list[i]->patient, list[list[i]->tests ? i - 1 : i]->slide->name,
                                 list[list[i]->tests ? i : i - 1]->slide->name);
    return HRF_OK;
}

/* ---- forests ---- */

static void add_row(struct hrf_feature_table *table, const struct item *item, size_t variant)
{
    HRF_RESERVE(table->rows, table->capacity, table->n_rows + 1);
    char name[HRF_CAMELYON16_NAME];
    struct hrf_feature_row *row = &table->rows[table->n_rows];
    hrf_camelyon16_name(item->slide->name, name);
    row->slide = hrf_strdup(name);
    row->truth = item->slide->truth == HRF_TRUTH_UNKNOWN ? -1
                                                         : item->slide->truth == HRF_TRUTH_POSITIVE;
    memcpy(row->values, item->features[variant], sizeof row->values);
    table->n_rows++;
}

static bool tests_in(const struct work *work, const struct item *item, int64_t fold)
{
    if (!is_labelled(item))
        return item->slide->truth == HRF_TRUTH_UNKNOWN; /* no forest could be trained with it */
    return work->w->slide_head.split == HRF_HEADS_BY_FOLDS ? item->fold == fold : item->tests;
}

static enum hrf_status train_fold(const struct work *work, int64_t fold, struct hrf_forest **out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_feature_table) table = hrf_calloc(1, sizeof *table);
    struct hrf_forest_options options = HRF_FOREST_DEFAULTS;
    options.n_trees = work->w->slide_head.trees;
    options.seed = work->w->slide_head.seed;
    for (size_t i = 0; i < work->n_items; i++)
        if (is_labelled(&work->items[i]) && !tests_in(work, &work->items[i], fold))
            add_row(table, &work->items[i], 0);
    HRF_TRY(hrf_forest_train(table, &options, out, err));
    HRF_AUTO_FREE char *path = hrf_format("%s/fold-%lld.json", work->folder, (long long)fold);
    return hrf_forest_write(*out, path, err);
}

static enum hrf_status score_variant(const struct work *work, const struct hrf_forest *forest,
                                     int64_t fold, size_t variant, struct hrf_error *err)
{
    HRF_AUTO(hrf_feature_table) table = hrf_calloc(1, sizeof *table);
    HRF_AUTO_FREE float *scores = hrf_try_alloc_array(work->n_items + 1, sizeof *scores);
    HRF_CHECK_MEMORY(scores != NULL, err, "no memory for features");
    for (size_t i = 0; i < work->n_items; i++)
        if (tests_in(work, &work->items[i], fold) && work->items[i].is_known[variant])
            add_row(table, &work->items[i], variant);
    if (table->n_rows == 0)
        return HRF_OK;
    HRF_TRY(hrf_forest_score(forest, table, false, scores, err));
    for (size_t i = 0, at = 0; i < work->n_items; i++)
        if (tests_in(work, &work->items[i], fold) && work->items[i].is_known[variant])
            work->items[i].sums[variant] += (double)scores[at++];
    return HRF_OK;
}

static enum hrf_status run_fold(const struct work *work, int64_t fold, struct hrf_error *err)
{
    HRF_AUTO(hrf_forest) forest = NULL;
    HRF_TRY(train_fold(work, fold, &forest, err));
    for (size_t p = 0; p < work->n_variants; p++)
        HRF_TRY(score_variant(work, forest, fold, p, err));
    for (size_t i = 0; i < work->n_items; i++)
        work->items[i].n_scores += tests_in(work, &work->items[i], fold);
    return HRF_OK;
}

static enum hrf_status write_features(const struct work *work, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *path = hrf_path_join(work->folder, "features.csv");
    hrf_feature_table_add_titles(&text);
    for (size_t i = 0; i < work->n_items; i++) {
        const struct item *item = &work->items[i];
        const int truth = item->slide->truth == HRF_TRUTH_UNKNOWN
                              ? -1
                              : item->slide->truth == HRF_TRUTH_POSITIVE;
        if (item->is_known[0])
            hrf_feature_table_add_row(&text, item->slide->name, truth, item->features[0]);
    }
    return hrf_file_write_atomic(path, text.text, text.length, err);
}

static enum hrf_status score_all(struct work *work, const char *directory,
                                 const struct hrf_slide_rows *slides, double *scores,
                                 struct hrf_error *err)
{
    const struct hrf_workflow_slide_head *h = &work->w->slide_head;
    const int64_t n_folds = h->split == HRF_HEADS_BY_FOLDS ? h->folds : 1;
    HRF_TRY(gather_items(work, slides, err));
    HRF_TRY(split_items(work, err));
    work->folder = hrf_path_join(directory, "results/forest");
    HRF_TRY(hrf_path_make_directories(work->folder, err));
    HRF_TRY(write_features(work, err));
    for (int64_t fold = 0; fold < n_folds; fold++)
        HRF_TRY(run_fold(work, fold, err));
    for (size_t i = 0; i < work->n_items; i++) {
        const struct item *item = &work->items[i];
        for (size_t p = 0; p < work->n_variants; p++)
            if (item->n_scores > 0 && item->is_known[p])
                scores[item->slide_index * work->n_variants + p] = item->sums[p] /
                                                                   (double)item->n_scores;
    }
    return HRF_OK;
}

enum hrf_status run_forest_score(const struct hrf_workflow *w, struct hrf_store *store,
                                 const char *directory, const struct hrf_slide_rows *slides,
                                 struct run_forest_scores *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(work) work = { .w = w, .store = store };
    const size_t n = slides->n_items * hrf_workflow_n_variants(w);
    struct hrf_error why = { .status = HRF_OK };
    out->scores = hrf_alloc_array(n + 1, sizeof *out->scores);
    for (size_t i = 0; i < n; i++)
        out->scores[i] = NAN;
    const enum hrf_status status = score_all(&work, directory, slides, out->scores, &why);
    if (status != HRF_E_USER && status != HRF_E_UNSUPPORTED)
        return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", why.text);
    for (size_t i = 0; i < n; i++)
        out->scores[i] = NAN;
    out->failure = hrf_strdup(why.text);
    return HRF_OK;
}
