/* recipe.h - the file that `head train` reads: features, labels, head, split and training.
 *
 * Relative paths are relative to the file's folder. All mistakes are reported at once, each with
 * line and column. docs/heads.md lists the keys; hrf_recipe_print_keys() prints them.
 */
#ifndef HRF_HEADS_TRAIN_RECIPE_H
#define HRF_HEADS_TRAIN_RECIPE_H

#include "base/strbuf.h"
#include "heads/model/head.h"
#include "schema/workflow/workflow.h"

enum hrf_recipe_split { HRF_SPLIT_FOLDS, HRF_SPLIT_COLUMN };
enum hrf_recipe_optimizer { HRF_ADAM, HRF_ADAMW };
enum hrf_recipe_weights { HRF_WEIGHTS_NONE, HRF_WEIGHTS_BALANCED };

struct hrf_recipe {
    char *features, *set; /* folder of the HDF5 files; their data set, NULL: searched for */
    bool features_mixed;  /* features of different encoders, tilings or precisions are meant */
    char *labels;         /* csv */
    struct hrf_text_list classes;
    enum hrf_head_kind kind;
    int64_t hidden, attention, landmarks, samples;
    double dropout, instance_weight; /* < 0: the kind's own */
    enum hrf_recipe_split split;
    int64_t folds, split_seed;
    double validation; /* share of the slides for training */
    struct hrf_text_list seeds;
    int64_t epochs, patience, min_epochs;
    enum hrf_recipe_optimizer optimizer;
    double learning_rate, weight_decay;
    enum hrf_recipe_weights class_weights;
    bool shuffle;
    char *out;
};

/* HRF_E_USER: `findings` has all that is wrong. */
HRF_CHECKED enum hrf_status hrf_recipe_read(const char *path, struct hrf_recipe **out,
                                            struct hrf_findings *findings, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_recipe_parse(const char *text, size_t n_bytes, const char *where,
                                             const char *folder, struct hrf_recipe **out,
                                             struct hrf_findings *findings, struct hrf_error *err);
void hrf_recipe_destroy(struct hrf_recipe *recipe);
HRF_DEFINE_AUTO(hrf_recipe)

/* Appends the table of keys as Markdown. */
void hrf_recipe_print_keys(struct hrf_strbuf *out);
/* Appends, as text for a key, every setting that changes a trained head; the rows say which. */
void hrf_recipe_describe(const struct hrf_recipe *recipe, struct hrf_strbuf *out);

#endif
