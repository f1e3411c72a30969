/* forest.h - a random forest over tables of slide features, and its file.
 *
 * The forest is XGBoost's (num_parallel_tree), through its C interface, in the module
 * hrf_forest.so, so that the program starts without XGBoost. The same rows, options and version of
 * XGBoost give the same forest. The file is JSON and names the features and the training slides, so
 * that neither another table nor a training slide can be scored by mistake.
 */
#ifndef HRF_AGGREGATE_FOREST_FOREST_H
#define HRF_AGGREGATE_FOREST_FOREST_H

#include "aggregate/forest/feature_table.h"

#include <stdint.h>

struct hrf_forest_options {
    int64_t n_trees, max_depth;
    double row_share;     /* the share of slides that each tree is trained on */
    double feature_share; /* the share of features that each split may use */
    int64_t seed;
};
/* 1000 trees of depth 8; 0.632 of the slides, as a bootstrap leaves; sqrt(30) of 30 features. */
#define HRF_FOREST_DEFAULTS                                                                        \
    {                                                                                              \
        .n_trees = 1000, .max_depth = 8, .row_share = 0.632, .feature_share = 0.1825742, .seed = 1 \
    }

/* The module's functions. In rows[n][width], NaN is a missing value. */
struct hrf_forest_ops {
    /* *model (heap) is XGBoost's JSON, NUL-terminated. labels: 0 or 1. */
    enum hrf_status (*train)(const float *rows, size_t n, size_t width, const float *labels,
                             const struct hrf_forest_options *options, char **model,
                             struct hrf_error *err);
    /* Computes scores[n]: the mean over the trees of the share of positive slides in the leaf,
     * 0..1. */
    enum hrf_status (*score)(const char *model, const float *rows, size_t n, size_t width,
                             float *scores, struct hrf_error *err);
};

struct hrf_forest; /* opaque */

/* HRF_E_USER: a class has fewer than two slides, or a slide has no truth. HRF_E_UNSUPPORTED: this
 * is a build without XGBoost. */
HRF_CHECKED enum hrf_status hrf_forest_train(const struct hrf_feature_table *table,
                                             const struct hrf_forest_options *options,
                                             struct hrf_forest **out, struct hrf_error *err);
/* Computes scores[table->n_rows]. HRF_E_USER: the table has other features, or (unless
 * `seen_is_fine`) a slide that the forest was trained on. */
HRF_CHECKED enum hrf_status hrf_forest_score(const struct hrf_forest *forest,
                                             const struct hrf_feature_table *table,
                                             bool seen_is_fine, float *scores,
                                             struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_forest_write(const struct hrf_forest *forest, const char *path,
                                             struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_forest_read(const char *path, struct hrf_forest **out,
                                            struct hrf_error *err);
void hrf_forest_destroy(struct hrf_forest *forest);
HRF_DEFINE_AUTO(hrf_forest)

#endif
