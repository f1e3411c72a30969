/* xgboost.c - the module hrf_forest.so: one boosting round of num_parallel_tree trees, which is a
 * random forest. Squared error on labels 0 and 1 with a rate of 1 and no penalty: a leaf holds the
 * share of positive slides in it, less one half, and the forest is the mean of its trees. One
 * thread, exact splits: the same bits every time. */
#include "aggregate/forest/forest.h"
#include "base/module.h"
#include "module_builds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xgboost/c_api.h>

#define XGB_TRY(call)                                                                              \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            return hrf_error_set_foreign(err, HRF_E_EXTERNAL, "xgboost", -1, "XGBoost: %.600s",    \
                                         XGBGetLastError());                                       \
    } while (0)

struct handles {
    DMatrixHandle data;
    BoosterHandle booster;
};

static void release(struct handles *h)
{
    if (h->booster != NULL)
        XGBoosterFree(h->booster);
    if (h->data != NULL)
        XGDMatrixFree(h->data);
}

static enum hrf_status set_number(struct handles *h, const char *name, double value,
                                  struct hrf_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    XGB_TRY(XGBoosterSetParam(h->booster, name, text));
    return HRF_OK;
}

static enum hrf_status set_options(struct handles *h, const struct hrf_forest_options *options,
                                   struct hrf_error *err)
{
    static const char *const texts[][2] = { { "booster", "gbtree" },
                                            { "objective", "reg:squarederror" },
                                            { "tree_method", "exact" } };
    const struct {
        const char *name;
        double value;
    } numbers[] = { { "nthread", 1 },
                    { "verbosity", 0 },
                    { "base_score", 0.5 },
                    { "learning_rate", 1 },
                    { "reg_lambda", 0 },
                    { "min_child_weight", 1 },
                    { "num_parallel_tree", (double)options->n_trees },
                    { "max_depth", (double)options->max_depth },
                    { "subsample", options->row_share },
                    { "colsample_bynode", options->feature_share },
                    { "seed", (double)options->seed } };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        XGB_TRY(XGBoosterSetParam(h->booster, texts[i][0], texts[i][1]));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        HRF_TRY(set_number(h, numbers[i].name, numbers[i].value, err));
    return HRF_OK;
}

static enum hrf_status train_with(struct handles *h, const float *rows, size_t n, size_t width,
                                  const float *labels, const struct hrf_forest_options *options,
                                  char **model, struct hrf_error *err)
{
    const char *text = NULL;
    bst_ulong n_bytes = 0;
    XGB_TRY(XGDMatrixCreateFromMat(rows, n, width, NAN, &h->data));
    XGB_TRY(XGDMatrixSetFloatInfo(h->data, "label", labels, n));
    XGB_TRY(XGBoosterCreate(&h->data, 1, &h->booster));
    HRF_TRY(set_options(h, options, err));
    XGB_TRY(XGBoosterUpdateOneIter(h->booster, 0, h->data));
    XGB_TRY(XGBoosterSaveModelToBuffer(h->booster, "{\"format\": \"json\"}", &n_bytes, &text));
    *model = hrf_strndup(text, (size_t)n_bytes);
    return HRF_OK;
}

static enum hrf_status train(const float *rows, size_t n, size_t width, const float *labels,
                             const struct hrf_forest_options *options, char **model,
                             struct hrf_error *err)
{
    struct handles h = { NULL, NULL };
    const enum hrf_status status = train_with(&h, rows, n, width, labels, options, model, err);
    release(&h);
    return status;
}

static enum hrf_status score_with(struct handles *h, const char *model, const float *rows, size_t n,
                                  size_t width, float *scores, struct hrf_error *err)
{
    const float *found = NULL;
    bst_ulong n_found = 0;
    XGB_TRY(XGDMatrixCreateFromMat(rows, n, width, NAN, &h->data));
    XGB_TRY(XGBoosterCreate(NULL, 0, &h->booster));
    XGB_TRY(XGBoosterLoadModelFromBuffer(h->booster, model, strlen(model)));
    HRF_TRY(set_number(h, "nthread", 1, err));
    XGB_TRY(XGBoosterPredict(h->booster, h->data, 0, 0, 0, &n_found, &found));
    if (n_found != n)
        return hrf_error_set(err, HRF_E_USER, "the forest gives %llu scores for %zu slides",
                             (unsigned long long)n_found, n);
    memcpy(scores, found, n * sizeof *scores);
    return HRF_OK;
}

static enum hrf_status score(const char *model, const float *rows, size_t n, size_t width,
                             float *scores, struct hrf_error *err)
{
    struct handles h = { NULL, NULL };
    const enum hrf_status status = score_with(&h, model, rows, n, width, scores, err);
    release(&h);
    return status;
}

static const struct hrf_forest_ops operations = { .train = train, .score = score };

extern const struct hrf_module hrf_module;
const struct hrf_module hrf_module = { .build = HRF_BUILD_FOREST, .operations = &operations };
