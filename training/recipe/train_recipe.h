/* train_recipe.h - the file that `train` reads: model, data, split, training and augmentation.
 *
 * Relative paths are relative to the file's folder. All mistakes are reported at once, each with
 * line and column. docs/training.md lists the keys.
 */
#ifndef HRF_TRAINING_RECIPE_TRAIN_RECIPE_H
#define HRF_TRAINING_RECIPE_TRAIN_RECIPE_H

#include "base/strbuf.h"
#include "engine/train/optimizer.h"
#include "schema/workflow/workflow.h"
#include "training/cohort/label_kind.h"

enum hrf_train_split { HRF_TRAIN_BY_FOLDS, HRF_TRAIN_BY_COLUMN };
enum hrf_last_layer {
    HRF_LAST_LAYER_AUTO,
    HRF_LAST_LAYER_FRESH,
    HRF_LAST_LAYER_ADD,
    HRF_LAST_LAYER_KEEP
};
/* What is trained: the network, or nothing of it, to learn what its embeddings tell. */
enum hrf_train_method {
    HRF_METHOD_FINE_TUNING,
    HRF_METHOD_LINEAR_PROBE, /* a linear model of them */
    HRF_METHOD_KNN           /* the nearest of them */
};
enum hrf_sampling { HRF_SAMPLING_BALANCED, HRF_SAMPLING_ALL };
enum hrf_train_norm { HRF_NORM_FROZEN, HRF_NORM_BATCH };
enum hrf_train_precision { HRF_TRAIN_FP32, HRF_TRAIN_BF16 };

struct hrf_augmentation {
    bool flips, turns;    /* mirrored, and turned by quarters */
    double shift;         /* at most this share of the side */
    double colour, stain; /* strengths */
};

struct hrf_train_recipe {
    char *model;
    enum hrf_label_kind output; /* what it is trained to give */
    enum hrf_last_layer last_layer;
    struct hrf_preparation input; /* zeros: as the model's file says */
    double mean[3], std[3];
    bool has_colours;             /* mean or std are given; else the model's file comes first */
    char *folders, *csv, *slides; /* one of them is given; csv and slides if slides are images */
    char *annotations;            /* with slides */
    char *masks;                  /* with folders */
    char *patient_until;
    int64_t patch_size, slide_patches;
    double mpp, slide_mpp, min_overlap;
    enum hrf_tiler_mode tiler_mode; /* SLIDE: each slide is one image */
    int64_t image_size;             /* px, and um/px, of such an image */
    double image_mpp;
    struct hrf_text_list classes;
    enum hrf_train_split split;
    int64_t folds, split_seed;
    double validation; /* share of the patients for training */
    struct hrf_text_list seeds;
    enum hrf_train_method method;
    double cost;
    int64_t neighbours;
    enum hrf_head_choice head; /* that is trained with the network, by the labels of slides */
    int64_t bag;               /* patches of a slide in a step; 0: all */
    double head_rate;          /* its learning rate in those of the network */
    int64_t patch_batch;       /* patches that the network is given at a time */
    double skip_gradients;     /* share of the patches' gradients that is left out */
    int64_t memory;            /* bytes; 0: not given */
    int64_t epochs, batch, epoch_samples, layers, lora, patience, min_epochs;
    double learning_rate, warmup_epochs, label_smoothing;
    double momentum, weight_decay, clip_norm, average;
    enum hrf_optimizer_kind optimizer;
    enum hrf_sampling sampling;
    enum hrf_train_norm batch_norm;
    enum hrf_train_precision precision;
    struct hrf_augmentation augmentation;
    char *layout; /* the text of `ranks` */
    struct hrf_layout_plan ranks;
    bool writes_safetensors;
    char *out;
};

/* HRF_E_USER: `findings` has all that is wrong. */
HRF_CHECKED enum hrf_status hrf_train_recipe_read(const char *path, struct hrf_train_recipe **out,
                                                  struct hrf_findings *findings,
                                                  struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_train_recipe_parse(const char *text, size_t n_bytes,
                                                   const char *where, const char *folder,
                                                   struct hrf_train_recipe **out,
                                                   struct hrf_findings *findings,
                                                   struct hrf_error *err);
void hrf_train_recipe_destroy(struct hrf_train_recipe *recipe);
HRF_DEFINE_AUTO(hrf_train_recipe)

/* True if what is trained on are slides with a label each: as one image, or as a bag of patches. */
static inline bool hrf_train_recipe_is_of_slides(const struct hrf_train_recipe *recipe)
{
    return recipe->tiler_mode == HRF_TILER_SLIDE || recipe->head != HRF_TRAIN_NONE;
}
/* Images that the network is given at a time. */
static inline int64_t hrf_train_recipe_at_once(const struct hrf_train_recipe *recipe)
{
    return recipe->head != HRF_TRAIN_NONE ? recipe->patch_batch : recipe->batch;
}
/* A row for each key; the places are in struct hrf_train_recipe. */
extern const struct hrf_setting_table hrf_train_recipe_settings;
/* The settings of the optimiser. */
struct hrf_optimizer_config hrf_train_recipe_optimizer(const struct hrf_train_recipe *recipe);
/* What hrf_engine_finish_scores() puts behind the network: the word of model.output; NULL: what
 * probabilities need. */
const char *hrf_train_recipe_activation(const struct hrf_train_recipe *recipe);
/* Appends, as text for a key, every setting that changes a trained network (HRF_FOR_TRAINING), or
 * the patches that are cut of slides and their table (HRF_FOR_TILES), or slides as images
 * (HRF_FOR_IMAGES) or as bags (HRF_FOR_BAGS): the rows say which. */
void hrf_train_recipe_describe(const struct hrf_train_recipe *recipe, unsigned phase,
                               struct hrf_strbuf *out);

#endif
