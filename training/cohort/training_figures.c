/* training_figures.c - what a training has come to (training_figures.h). */
#include "training/cohort/training_figures.h"

#include "base/json.h"
#include "base/path.h"
#include "training/cohort/training_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(name, member, column_, text)                                                         \
    {                                                                                              \
        .key = name, HRF_FIGURE_AT(hrf_training_figures, member), .unit = HRF_UNIT_COUNT,          \
        .better = HRF_BETTER_NEITHER, .shown = HRF_IN_JSON, .column = column_, .help = text        \
    }
#define COUNTS(nouns, epochs)                                                                      \
    COUNT("training_" nouns, n_training, 1, nouns " that it was trained on"),                      \
        COUNT("validation_" nouns, n_validation, 2, nouns " that chose its epoch"),                \
        COUNT("testing_" nouns, n_testing, 3, nouns " that its figures are of"),                   \
        COUNT("epochs", n_epochs, 4, "epochs that were trained" epochs),                           \
        COUNT("best_epoch", best_epoch, 5, "the epoch whose weights are kept, from 1")
const struct hrf_figure_row hrf_training_of_slides_rows[] = { COUNTS("slides", ""),
                                                              { .key = NULL } };
const struct hrf_figure_row hrf_training_of_pictures_rows[] = {
    COUNTS("pictures", "; of a linear probe steps to its minimum"), { .key = NULL }
};

#define EPOCH(name, member, way, column_, text)                                                    \
    {                                                                                              \
        .key = name, HRF_FIGURE_AT(hrf_training_epoch, member), .unit = HRF_UNIT_ONE,              \
        .better = HRF_BETTER_##way, .shown = HRF_IN_CSV, .column = column_, .help = text           \
    }
#define EPOCHS(noun, name, what)                                                                   \
    EPOCH("training_loss", training_loss, LOWER, 1,                                                \
          "mean loss of a " noun " while the epoch trained"),                                      \
        EPOCH("validation_loss", validation_loss, LOWER, 2,                                        \
              "of the " noun "s for validation, after the epoch"),                                 \
        EPOCH(name, validation_figure, HIGHER, 3, "likewise, their " what)
#define RATE EPOCH("learning_rate", learning_rate, NEITHER, 4, "of the epoch's last step")
const struct hrf_figure_row hrf_epoch_of_slides_rows[] = { EPOCHS("slide", "validation_auc", "AUC"),
                                                           { .key = NULL } };
static const struct hrf_figure_row class_rows[] = { EPOCHS("picture", "validation_auc", "AUC"),
                                                    RATE,
                                                    { .key = NULL } };
static const struct hrf_figure_row number_rows[] = { EPOCHS("picture", "validation_r2", "R2"),
                                                     RATE,
                                                     { .key = NULL } };
static const struct hrf_figure_row pixel_rows[] = { EPOCHS("picture", "validation_dice", "Dice"),
                                                    RATE,
                                                    { .key = NULL } };
const struct hrf_figure_row *const hrf_epoch_of_pictures_rows[HRF_N_LABEL_KINDS] = {
    [HRF_LABEL_CLASS] = class_rows,
    [HRF_LABEL_SEVERAL] = class_rows,
    [HRF_LABEL_NUMBERS] = number_rows,
    [HRF_LABEL_PIXELS] = pixel_rows,
};

struct hrf_training_figures hrf_training_figures_find(const struct hrf_training_set *set,
                                                      const enum hrf_training_part *parts,
                                                      const struct hrf_text_list *classes,
                                                      const float *scores, int64_t n_epochs,
                                                      int64_t best_epoch)
{
    return (struct hrf_training_figures){
        .n_training = hrf_predictions_count(set, parts, HRF_PART_TRAINING),
        .n_validation = hrf_predictions_count(set, parts, HRF_PART_VALIDATION),
        .n_testing = hrf_predictions_count(set, parts, HRF_PART_TESTING),
        .n_epochs = n_epochs,
        .best_epoch = best_epoch,
        .testing = hrf_predictions_figures(set, parts, HRF_PART_TESTING, classes, scores)
    };
}

json_t *hrf_training_figures_json(const struct hrf_figure_row *rows, enum hrf_label_kind kind,
                                  int64_t fold, int64_t seed,
                                  const struct hrf_training_figures *figures)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "fold", fold);
    hrf_json_put_int(object, "seed", seed);
    hrf_figures_put(object, rows, 0, figures);
    hrf_figures_put(object, hrf_scored_rows[kind], 0, &figures->testing);
    hrf_json_put_text(object, "why_no_figure", figures->testing.why);
    return object;
}

bool hrf_training_figures_read(const char *folder, const char *key,
                               const struct hrf_figure_row *rows, enum hrf_label_kind kind,
                               struct hrf_training_figures *out)
{
    const char *found = NULL;
    HRF_AUTO_JSON json = NULL;
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "result.json");
    if (hrf_json_read_file(path, &json, NULL) != HRF_OK ||
        hrf_json_get_text(json, "key", path, &found, NULL) != HRF_OK || strcmp(found, key) != 0)
        return false;
    *out = (struct hrf_training_figures){ .n_training = 0 };
    if (hrf_figures_get(json, rows, path, out, NULL) != HRF_OK ||
        hrf_figures_get(json, hrf_scored_rows[kind], path, &out->testing, NULL) != HRF_OK ||
        hrf_json_get_text(json, "why_no_figure", path, &found, NULL) != HRF_OK)
        return false;
    snprintf(out->testing.why, sizeof out->testing.why, "%s", found);
    return true;
}

void hrf_training_epoch_print(int64_t fold, int64_t seed, int64_t epoch,
                              const struct hrf_training_epoch *record, const char *figure)
{
    fprintf(stderr, "fold %lld seed %lld epoch %lld: loss %.4f", (long long)fold, (long long)seed,
            (long long)epoch, record->training_loss);
    if (!isnan(record->validation_loss))
        fprintf(stderr, ", validation %.4f", record->validation_loss);
    if (!isnan(record->validation_figure))
        fprintf(stderr, " (%s %.3f)", figure, record->validation_figure);
}
