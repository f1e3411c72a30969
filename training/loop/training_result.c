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

#include <string.h>

bool hrf_fine_tuning_is_done(const struct hrf_fine_tuning *tuning, int64_t fold, int64_t seed,
                             const char *folder, struct hrf_training_figures *out)
{
    char key[HRF_HASH_HEX];
    return hrf_fine_tuning_key(tuning, fold, seed, key, NULL) == HRF_OK &&
           hrf_training_figures_read(folder, key, hrf_training_of_pictures_rows,
                                     tuning->recipe->output, out);
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
    const struct hrf_training_figures figures = hrf_training_figures_find(
        set, result->parts, &t->recipe->classes, result->scores, result->n_epochs,
        result->best_epoch);
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "result.json");
    HRF_AUTO_JSON json = hrf_training_figures_json(hrf_training_of_pictures_rows, set->kind,
                                                   result->fold, result->seed, &figures);
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
    if (strcmp(t->device, "cpu") != 0)
        hrf_json_put_text(json, "device", t->device);
    return hrf_json_write_file(path, json, err);
}

enum hrf_status hrf_training_result_write(const struct hrf_training_result *result,
                                          const struct hrf_fine_tuning *t, const char *folder,
                                          struct hrf_error *err)
{
    const struct hrf_training_set *set = result->set;
    const bool is_slide = hrf_train_recipe_is_of_slides(t->recipe);
    HRF_TRY(hrf_history_write(folder, t->attempt, hrf_epoch_of_pictures_rows[set->kind],
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
