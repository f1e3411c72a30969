/* training_result.c - what a training leaves in its folder (training_result.h). */
#include "training/loop/training_result.h"

#include "base/crash.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/encoder/encoder.h"
#include "engine/onnx/onnx.h"
#include "schema/record/input_entry.h"
#include "training/cohort/training_files.h"
#include "training/loop/safetensors_write.h"
#include "training/loop/slide_bags.h"

#include <stdio.h>
#include <string.h>

#define COUNT(name, member, column_, ...)                                                          \
    .key = name, HRF_FIGURE_AT(hrf_fine_tuning_figures, member), .unit = HRF_UNIT_COUNT,           \
    .better = HRF_BETTER_NEITHER, .shown = HRF_IN_JSON, .column = column_, __VA_ARGS__
const struct hrf_figure_row hrf_fine_tuning_rows[] = {
    { COUNT("training_pictures", n_training, 1, .help = "pictures that it was trained on") },
    { COUNT("validation_pictures", n_validation, 2, .help = "pictures that chose its epoch") },
    { COUNT("testing_pictures", n_testing, 3, .help = "pictures that its figures are of") },
    { COUNT("epochs", n_epochs, 4,
            .help = "epochs that were trained; of a linear probe steps to "
                    "its minimum") },
    { COUNT("best_epoch", best_epoch, 5, .help = "the epoch whose weights are kept, from 1") },
    { .key = NULL },
};

#define EPOCH(name, member, way, column_, ...)                                                     \
    .key = name, HRF_FIGURE_AT(hrf_fine_tuning_epoch, member), .unit = HRF_UNIT_ONE,               \
    .better = HRF_BETTER_##way, .shown = HRF_IN_CSV, .column = column_, __VA_ARGS__
#define EPOCH_ROWS(name, what)                                                                     \
    { EPOCH("training_loss", training_loss, LOWER, 1,                                              \
            .help = "mean loss of a picture while the epoch trained") },                           \
        { EPOCH("validation_loss", validation_loss, LOWER, 2,                                      \
                .help = "of the pictures for validation, after the epoch") },                      \
        { EPOCH(name, validation_figure, HIGHER, 3, .help = "likewise, their " what) },            \
        { EPOCH("learning_rate", learning_rate, NEITHER, 4, .help = "of the epoch's last step") }, \
    {                                                                                              \
        .key = NULL                                                                                \
    }
static const struct hrf_figure_row class_rows[] = { EPOCH_ROWS("validation_auc", "AUC") };
static const struct hrf_figure_row number_rows[] = { EPOCH_ROWS("validation_r2", "R2") };
static const struct hrf_figure_row pixel_rows[] = { EPOCH_ROWS("validation_dice", "Dice") };
const struct hrf_figure_row *const hrf_fine_tuning_epoch_rows[HRF_N_LABEL_KINDS] = {
    [HRF_LABEL_CLASS] = class_rows,
    [HRF_LABEL_SEVERAL] = class_rows,
    [HRF_LABEL_NUMBERS] = number_rows,
    [HRF_LABEL_PIXELS] = pixel_rows,
};

static const char file_name[] = "result.json";

json_t *hrf_fine_tuning_json(int64_t fold, int64_t seed, enum hrf_label_kind kind,
                             const struct hrf_fine_tuning_figures *figures)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "fold", fold);
    hrf_json_put_int(object, "seed", seed);
    hrf_figures_put(object, hrf_fine_tuning_rows, 0, figures);
    hrf_figures_put(object, hrf_scored_rows[kind], 0, &figures->testing);
    hrf_json_put_text(object, "why_no_figure", figures->testing.why);
    return object;
}

bool hrf_fine_tuning_is_done(const struct hrf_fine_tuning *tuning, int64_t fold, int64_t seed,
                             const char *folder, struct hrf_fine_tuning_figures *out)
{
    char key[HRF_HASH_HEX];
    const char *found = NULL;
    HRF_AUTO_JSON json = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(folder, file_name);
    if (hrf_fine_tuning_key(tuning, fold, seed, key, NULL) != HRF_OK ||
        hrf_json_read_file(path, &json, NULL) != HRF_OK ||
        hrf_json_get_text(json, "key", path, &found, NULL) != HRF_OK || strcmp(found, key) != 0)
        return false;
    *out = (struct hrf_fine_tuning_figures){ .n_training = 0 };
    if (hrf_figures_get(json, hrf_fine_tuning_rows, path, out, NULL) != HRF_OK ||
        hrf_figures_get(json, hrf_scored_rows[tuning->recipe->output], path, &out->testing, NULL) !=
            HRF_OK ||
        hrf_json_get_text(json, "why_no_figure", path, &found, NULL) != HRF_OK)
        return false;
    snprintf(out->testing.why, sizeof out->testing.why, "%s", found);
    return true;
}

/* What the model's metadata say of the training. */
static char *describe(const struct hrf_training_result *result, const struct hrf_fine_tuning *t)
{
    const struct hrf_text_list *classes = &t->recipe->classes;
    HRF_AUTO_JSON json = hrf_json_document();
    json_t *names = json_array();
    for (size_t k = 0; k < classes->n_items; k++)
        hrf_json_add(names, hrf_json_string(classes->items[k]));
    hrf_json_put(json, "classes", names);
    hrf_json_put_text(json, "key", result->key);
    hrf_json_put_text(json, "trained_from", t->model_sha256);
    return hrf_json_text(json);
}

static enum hrf_status write_model(const struct hrf_training_result *result,
                                   const struct hrf_fine_tuning *t, const char *folder,
                                   struct hrf_error *err)
{
    enum { LEAST_SIDE = 16 }; /* that the entry of an input may name */
    const struct hrf_sample_form *form = &t->form;
    const struct hrf_preparation *p = &form->preparation;
    const bool is_resized = p->size > 0;
    struct hrf_encoder_input input = {
        .size = form->side,
        .resize = is_resized ? p->resize : form->side,
        .interpolation = hrf_interpolation_names[is_resized ? p->interpolation : HRF_BILINEAR]
    };
    const struct hrf_train_recipe *r = t->recipe;
    const double cut = r->tiler_mode == HRF_TILER_SLIDE ? r->image_mpp : r->mpp;
    const double mpp = r->slides == NULL ? 0 : cut * (double)t->list->side / (double)input.resize;
    memcpy(input.mean, form->mean, sizeof input.mean);
    memcpy(input.std, form->std, sizeof input.std);
    HRF_AUTO_FREE char *training = describe(result, t),
                       *images = hrf_encoder_input_text(&input, mpp);
    HRF_AUTO_FREE char *path = hrf_path_join(folder,
                                             result->head != NULL ? "encoder.onnx" : "model.onnx");
    const struct hrf_onnx_entry entries[] = { { "hires_flow.training", training },
                                              { HRF_MODEL_INPUT_KEY, images } };
    HRF_TRY(hrf_onnx_write_with(result->network, entries, form->side >= LEAST_SIDE ? 2 : 1, false,
                                path, err));
    if (result->head != NULL)
        HRF_TRY(hrf_slide_bags_write_head(t, result->head, result->parts, path, folder, err));
    if (!r->writes_safetensors)
        return HRF_OK;
    HRF_AUTO_FREE char *weights = hrf_path_join(folder, "model.safetensors");
    return hrf_safetensors_write(result->network, weights, err);
}

static enum hrf_status write_json(const struct hrf_training_result *result,
                                  const struct hrf_fine_tuning *t, const char *folder,
                                  struct hrf_error *err)
{
    const struct hrf_training_set *set = result->set;
    const struct hrf_fine_tuning_figures figures = {
        .n_training = hrf_predictions_count(set, result->parts, HRF_PART_TRAINING),
        .n_validation = hrf_predictions_count(set, result->parts, HRF_PART_VALIDATION),
        .n_testing = hrf_predictions_count(set, result->parts, HRF_PART_TESTING),
        .n_epochs = result->n_epochs,
        .best_epoch = result->best_epoch,
        .testing = hrf_predictions_figures(set, result->parts, HRF_PART_TESTING,
                                           &t->recipe->classes, result->scores)
    };
    HRF_AUTO_FREE char *path = hrf_path_join(folder, file_name);
    HRF_AUTO_JSON json = hrf_fine_tuning_json(result->fold, result->seed, set->kind, &figures);
    hrf_predictions_put_each(json, set, result->parts, HRF_PART_TESTING, &t->recipe->classes,
                             result->scores);
    hrf_json_put_int(json, "version", 1);
    hrf_json_put_text(json, "key", result->key);
    hrf_json_put_bool(json, "fresh_last_layer", t->is_renewed);
    if (result->head != NULL)
        hrf_json_put_text(json, "head", hrf_words_heads[t->recipe->head]);
    hrf_json_put_int(json, "trained_weights", result->n_trained);
    if (hrf_layout_ranks(&t->recipe->ranks) > 1)
        hrf_json_put_text(json, "layout", t->recipe->layout);
    return hrf_json_write_file(path, json, err);
}

enum hrf_status hrf_training_result_write(const struct hrf_training_result *result,
                                          const struct hrf_fine_tuning *t, const char *folder,
                                          struct hrf_error *err)
{
    const struct hrf_training_set *set = result->set;
    const bool is_slide = hrf_train_recipe_is_of_slides(t->recipe);
    HRF_TRY(hrf_history_write(folder, t->attempt, hrf_fine_tuning_epoch_rows[set->kind],
                              result->records, sizeof result->records[0],
                              result->records != NULL ? result->n_epochs : 0, err));
    HRF_TRY(hrf_predictions_write(folder, is_slide ? "slide" : "path", set, result->parts,
                                  &t->recipe->classes, result->scores, err));
    hrf_crash_point("train.write.before");
    if (result->network != NULL)
        HRF_TRY(write_model(result, t, folder, err));
    hrf_crash_point("train.result.before");
    HRF_TRY(write_json(result, t, folder, err));
    hrf_crash_point("train.result.after");
    hrf_training_remove_checkpoint(folder);
    return HRF_OK;
}
