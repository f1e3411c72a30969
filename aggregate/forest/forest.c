/* forest.c - checks tables, calls the module, and keeps the forest's file. */
#include "aggregate/forest/forest.h"

#include "base/json.h"
#include "base/module.h"
#include "module_builds.h"

#include <string.h>

struct hrf_forest {
    json_t *about; /* "slides", "trees", "seed": what the file says beside the model */
    char *model;   /* XGBoost's JSON */
};

void hrf_forest_destroy(struct hrf_forest *forest)
{
    if (forest == NULL)
        return;
    json_decref(forest->about);
    hrf_free(forest->model);
    hrf_free(forest);
}

static enum hrf_status load_module(const struct hrf_forest_ops **out, struct hrf_error *err)
{
    const void *operations = NULL;
    const enum hrf_status status = hrf_module_load("forest", HRF_BUILD_FOREST, &operations, err);
    *out = operations;
    return status == HRF_OK
               ? HRF_OK
               : hrf_error_wrap(err, status, "no random forests (Debian's libxgboost-dev)");
}

static void fill(const struct hrf_feature_table *table, float **rows, float **labels)
{
    *rows = hrf_alloc_array(table->n_rows + 1, HRF_MAP_FEATURES * sizeof **rows);
    *labels = hrf_alloc_array(table->n_rows + 1, sizeof **labels);
    for (size_t i = 0; i < table->n_rows; i++) {
        (*labels)[i] = (float)table->rows[i].truth;
        for (size_t k = 0; k < HRF_MAP_FEATURES; k++)
            (*rows)[i * HRF_MAP_FEATURES + k] = (float)table->rows[i].values[k];
    }
}

static enum hrf_status check_truths(const struct hrf_feature_table *table, struct hrf_error *err)
{
    size_t counts[2] = { 0, 0 };
    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].truth < 0)
            return hrf_error_set(err, HRF_E_USER, "%s has no truth to train on",
                                 table->rows[i].slide);
        counts[table->rows[i].truth]++;
    }
    if (counts[0] < 2 || counts[1] < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "a forest needs two slides of each class; there are %zu positive and "
                             "%zu negative",
                             counts[1], counts[0]);
    return HRF_OK;
}

static json_t *describe(const struct hrf_feature_table *table,
                        const struct hrf_forest_options *options)
{
    json_t *about = json_object(), *slides = json_array(), *features = json_array();
    for (size_t i = 0; i < table->n_rows; i++)
        hrf_json_add(slides, hrf_json_string(table->rows[i].slide));
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++)
        hrf_json_add(features, json_string(hrf_map_feature_names[i]));
    hrf_json_put_int(about, "version", 1);
    hrf_json_put_int(about, "trees", options->n_trees);
    hrf_json_put_int(about, "max_depth", options->max_depth);
    hrf_json_put_int(about, "seed", (int64_t)options->seed);
    hrf_json_put_number(about, "row_share", options->row_share);
    hrf_json_put_number(about, "feature_share", options->feature_share);
    hrf_json_put(about, "features", features);
    hrf_json_put(about, "slides", slides);
    return about;
}

enum hrf_status hrf_forest_train(const struct hrf_feature_table *table,
                                 const struct hrf_forest_options *options, struct hrf_forest **out,
                                 struct hrf_error *err)
{
    const struct hrf_forest_ops *ops = NULL;
    HRF_AUTO_FREE float *rows = NULL, *labels = NULL;
    HRF_AUTO(hrf_forest) forest = hrf_calloc(1, sizeof *forest);
    HRF_TRY(check_truths(table, err));
    HRF_TRY(load_module(&ops, err));
    fill(table, &rows, &labels);
    HRF_TRY(
        ops->train(rows, table->n_rows, HRF_MAP_FEATURES, labels, options, &forest->model, err));
    forest->about = describe(table, options);
    HRF_MOVE(*out, forest);
    return HRF_OK;
}

static bool has_seen(const struct hrf_forest *forest, const char *slide)
{
    const json_t *slides = json_object_get(forest->about, "slides");
    for (size_t i = 0; i < json_array_size(slides); i++) {
        const char *name = json_string_value(json_array_get(slides, i));
        if (name != NULL && strcmp(name, slide) == 0)
            return true;
    }
    return false;
}

enum hrf_status hrf_forest_score(const struct hrf_forest *forest,
                                 const struct hrf_feature_table *table, bool seen_is_fine,
                                 float *scores, struct hrf_error *err)
{
    const struct hrf_forest_ops *ops = NULL;
    HRF_AUTO_FREE float *rows = NULL, *labels = NULL;
    for (size_t i = 0; i < table->n_rows && !seen_is_fine; i++)
        if (has_seen(forest, table->rows[i].slide))
            return hrf_error_set(err, HRF_E_USER,
                                 "a leak: the forest was trained on %s; score other slides, or say "
                                 "--seen if that is meant",
                                 table->rows[i].slide);
    HRF_TRY(load_module(&ops, err));
    fill(table, &rows, &labels);
    return ops->score(forest->model, rows, table->n_rows, HRF_MAP_FEATURES, scores, err);
}

enum hrf_status hrf_forest_write(const struct hrf_forest *forest, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_object();
    json_t *model = NULL;
    HRF_TRY(hrf_json_parse(forest->model, strlen(forest->model), "the forest", &model, err));
    hrf_json_put(root, "forest", json_incref(forest->about));
    hrf_json_put(root, "xgboost", model);
    return hrf_json_write_file(path, root, err);
}

static enum hrf_status check_features(const json_t *about, const char *path, struct hrf_error *err)
{
    json_t *features = NULL, *slides = NULL;
    HRF_TRY(hrf_json_get_array(about, "features", path, &features, err));
    HRF_TRY(hrf_json_get_array(about, "slides", path, &slides, err));
    bool is_ours = json_array_size(features) == HRF_MAP_FEATURES;
    for (size_t i = 0; is_ours && i < HRF_MAP_FEATURES; i++) {
        const char *name = json_string_value(json_array_get(features, i));
        is_ours = name != NULL && strcmp(name, hrf_map_feature_names[i]) == 0;
    }
    return is_ours ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "'%s' is a forest of other features", path);
}

enum hrf_status hrf_forest_read(const char *path, struct hrf_forest **out, struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    json_t *about = NULL, *model = NULL;
    HRF_AUTO(hrf_forest) forest = hrf_calloc(1, sizeof *forest);
    HRF_TRY(hrf_json_read_file(path, &root, err));
    HRF_TRY(hrf_json_get_object(root, "forest", path, &about, err));
    HRF_TRY(hrf_json_get_object(root, "xgboost", path, &model, err));
    HRF_TRY(check_features(about, path, err));
    forest->about = json_incref(about);
    forest->model = hrf_json_text(model);
    HRF_MOVE(*out, forest);
    return HRF_OK;
}
