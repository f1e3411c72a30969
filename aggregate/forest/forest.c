/* forest.c - checks tables, calls the module, and keeps the forest's file. */
#include "aggregate/forest/forest.h"

#include "base/json.h"
#include "base/module.h"

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

static enum hrf_status load_module(const char *version, const struct hrf_forest_ops **out,
                                   struct hrf_error *err)
{
    const void *operations = NULL;
    const enum hrf_status status = hrf_module_load("forest", version, &operations, err);
    *out = operations;
    return status == HRF_OK
               ? HRF_OK
               : hrf_error_wrap(err, status, "no random forests (Debian's libxgboost-dev)");
}

static enum hrf_status fill(const struct hrf_feature_table *table, float **rows, float **labels,
                            struct hrf_error *err)
{
    *rows = hrf_alloc_array(table->n_rows + 1, HRF_MAP_FEATURES * sizeof **rows);
    *labels = hrf_alloc_array(table->n_rows + 1, sizeof **labels);
    HRF_CHECK_MEMORY(*rows != NULL && *labels != NULL, err, "no memory for %zu slides",
                     table->n_rows);
    for (size_t i = 0; i < table->n_rows; i++) {
        (*labels)[i] = (float)table->rows[i].truth;
        for (size_t k = 0; k < HRF_MAP_FEATURES; k++)
            (*rows)[i * HRF_MAP_FEATURES + k] = (float)table->rows[i].values[k];
    }
    return HRF_OK;
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
    json_t *slides = json_array(), *features = json_array();
    for (size_t i = 0; i < table->n_rows; i++)
        json_array_append_new(slides, hrf_json_string(table->rows[i].slide));
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++)
        json_array_append_new(features, json_string(hrf_map_feature_names[i]));
    return json_pack("{sisIsIsIsfsfsoso}", "version", 1, "trees", (json_int_t)options->n_trees,
                     "max_depth", (json_int_t)options->max_depth, "seed", (json_int_t)options->seed,
                     "row_share", options->row_share, "feature_share", options->feature_share,
                     "features", features, "slides", slides);
}

enum hrf_status hrf_forest_train(const struct hrf_feature_table *table,
                                 const struct hrf_forest_options *options, const char *version,
                                 struct hrf_forest **out, struct hrf_error *err)
{
    const struct hrf_forest_ops *ops = NULL;
    HRF_AUTO_FREE float *rows = NULL, *labels = NULL;
    HRF_AUTO(hrf_forest) forest = hrf_calloc(1, sizeof *forest);
    HRF_CHECK_MEMORY(forest != NULL, err, "no memory for a forest");
    HRF_TRY(check_truths(table, err));
    HRF_TRY(load_module(version, &ops, err));
    HRF_TRY(fill(table, &rows, &labels, err));
    HRF_TRY(
        ops->train(rows, table->n_rows, HRF_MAP_FEATURES, labels, options, &forest->model, err));
    forest->about = describe(table, options);
    HRF_CHECK_MEMORY(forest->about != NULL, err, "no memory for a forest");
    *out = forest;
    forest = NULL;
    return HRF_OK;
}

static bool has_seen(const struct hrf_forest *forest, const char *slide)
{
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(forest->about, "slides"), i,
                       name) if (json_is_string(name) &&
                                 strcmp(json_string_value(name), slide) == 0) return true;
    return false;
}

enum hrf_status hrf_forest_score(const struct hrf_forest *forest,
                                 const struct hrf_feature_table *table, bool seen_is_fine,
                                 const char *version, float *scores, struct hrf_error *err)
{
    const struct hrf_forest_ops *ops = NULL;
    HRF_AUTO_FREE float *rows = NULL, *labels = NULL;
    for (size_t i = 0; i < table->n_rows && !seen_is_fine; i++)
        if (has_seen(forest, table->rows[i].slide))
            return hrf_error_set(err, HRF_E_USER,
                                 "a leak: the forest was trained on %s; score other slides, or say "
                                 "--seen if that is meant",
                                 table->rows[i].slide);
    HRF_TRY(load_module(version, &ops, err));
    HRF_TRY(fill(table, &rows, &labels, err));
    return ops->score(forest->model, rows, table->n_rows, HRF_MAP_FEATURES, scores, err);
}

enum hrf_status hrf_forest_write(const struct hrf_forest *forest, const char *path,
                                 struct hrf_error *err)
{
    json_t *model = NULL;
    HRF_TRY(hrf_json_parse(forest->model, strlen(forest->model), "the forest", &model, err));
    HRF_AUTO_JSON root = json_pack("{sOso}", "forest", forest->about, "xgboost", model);
    HRF_CHECK_MEMORY(root != NULL, err, "no memory for '%s'", path);
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
    HRF_CHECK_MEMORY(forest != NULL, err, "no memory for a forest");
    HRF_TRY(hrf_json_read_file(path, &root, err));
    HRF_TRY(hrf_json_get_object(root, "forest", path, &about, err));
    HRF_TRY(hrf_json_get_object(root, "xgboost", path, &model, err));
    HRF_TRY(check_features(about, path, err));
    forest->about = json_incref(about);
    forest->model = hrf_json_text(model);
    HRF_CHECK_MEMORY(forest->model != NULL, err, "no memory for '%s'", path);
    *out = forest;
    forest = NULL;
    return HRF_OK;
}
