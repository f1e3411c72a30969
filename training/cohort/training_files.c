/* training_files.c - history.csv and predictions.csv, and what they are computed from. */
#include "training/cohort/training_files.h"

#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/record/training_progress.h"
#include "training/cohort/checkpoint_file.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static enum hrf_status write_text(const char *folder, const char *name,
                                  const struct hrf_strbuf *text, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
    return hrf_file_write_atomic(path, text->text, text->length, err);
}

static bool is_leftover(const char *name)
{
    enum { DIGITS = 12 };
    const char *at = strstr(name, ".tmp.");
    return at != NULL && strlen(at + 5) == DIGITS && strspn(at + 5, "0123456789abcdef") == DIGITS;
}

void hrf_training_remove_leftovers(const char *folder)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    if (hrf_path_list_directory(folder, &names, NULL) != HRF_OK)
        return;
    for (size_t i = 0; i < names.n_items; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, names.items[i]);
        if (is_leftover(names.items[i]))
            unlink(path);
    }
}

void hrf_training_remove_checkpoint(const char *folder)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "checkpoint.bin");
    HRF_AUTO_FREE char *progress = hrf_path_join(folder, hrf_training_progress_name);
    unlink(path);
    unlink(progress);
    hrf_training_remove_leftovers(folder);
}

static void add_number(struct hrf_strbuf *out, double value)
{
    if (isnan(value))
        hrf_strbuf_addc(out, ',');
    else
        hrf_strbuf_addf(out, ",%.9g", value);
}

enum hrf_status hrf_history_write(const char *folder, const char *attempt,
                                  const struct hrf_figure_row *rows, const void *records,
                                  size_t size, int64_t n_epochs, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_TRY(hrf_training_check_attempt(attempt, err));
    hrf_strbuf_adds(&out, "epoch");
    for (const struct hrf_figure_row *row = rows; row->key != NULL; row++)
        hrf_strbuf_addf(&out, ",%s", hrf_figure_csv_name(row));
    hrf_strbuf_addc(&out, '\n');
    for (int64_t i = 0; i < n_epochs; i++) {
        hrf_strbuf_addf(&out, "%lld", (long long)i + 1);
        for (const struct hrf_figure_row *row = rows; row->key != NULL; row++)
            add_number(&out, hrf_figure_value(row, (const char *)records + (size_t)i * size));
        hrf_strbuf_addc(&out, '\n');
    }
    return write_text(folder, "history.csv", &out, err);
}

enum hrf_status hrf_predictions_write(const char *folder, const char *noun,
                                      const struct hrf_training_set *set,
                                      const enum hrf_training_part *parts,
                                      const struct hrf_text_list *classes, const float *scores,
                                      struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) word = HRF_STRBUF_INIT;
    HRF_AUTO_FREE float *truth = hrf_alloc_array(classes->n_items + 1, sizeof *truth);
    hrf_strbuf_addf(&out, "%s,patient,part,truth", noun);
    const size_t n_scores = hrf_label_n_scores(set->kind, classes->n_items);
    for (size_t k = 0; k < n_scores; k++) {
        HRF_AUTO_FREE char *title = hrf_label_score_title(set->kind, classes, k);
        hrf_strbuf_addc(&out, ',');
        hrf_csv_add_cell(&out, title);
    }
    hrf_strbuf_addc(&out, '\n');
    for (size_t i = 0; i < set->n_items; i++) {
        const struct hrf_training_item *item = &set->items[i];
        if (parts[i] == HRF_PART_TRAINING)
            continue;
        hrf_csv_add_cell(&out, item->name);
        hrf_strbuf_addc(&out, ',');
        hrf_csv_add_cell(&out, item->patient);
        hrf_strbuf_addf(&out, ",%s,", hrf_training_parts[parts[i]]);
        hrf_training_set_truth(set, i, classes->n_items, truth);
        hrf_label_print(set->kind, truth, classes, &word);
        hrf_csv_add_cell(&out, word.text);
        hrf_strbuf_clear(&word);
        for (size_t k = 0; k < n_scores; k++)
            add_number(&out, (double)scores[i * n_scores + k]);
        hrf_strbuf_addc(&out, '\n');
    }
    return write_text(folder, "predictions.csv", &out, err);
}

static double minus_log(double p)
{
    return -log(p > 1e-30 ? p : 1e-30);
}

/* The mean over labels or numbers; of pixels it is there already. */
static double item_loss(const struct hrf_training_set *set, const float *truth, size_t n_classes,
                        const float *scores)
{
    double sum = 0;
    if (set->kind == HRF_LABEL_PIXELS)
        return (double)scores[2 * n_classes];
    for (size_t k = 0; k < n_classes; k++) {
        const double score = (double)scores[k], t = (double)truth[k];
        const double unit = set->units != NULL ? set->units[k] : 1;
        sum += set->kind == HRF_LABEL_NUMBERS
                   ? (score - t) / unit * ((score - t) / unit)
                   : t * minus_log(score) + (1 - t) * minus_log(1 - score);
    }
    return sum / (double)n_classes;
}

double hrf_predictions_loss(const struct hrf_training_set *set, const enum hrf_training_part *parts,
                            enum hrf_training_part part, size_t n_classes, const float *scores)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] == part) {
            const float *own = scores + i * hrf_label_n_scores(set->kind, n_classes);
            sum += set->kind == HRF_LABEL_CLASS
                       ? minus_log((double)own[set->items[i].label])
                       : item_loss(set, set->truths + i * n_classes, n_classes, own);
            n++;
        }
    return n > 0 ? sum / n : NAN;
}

/* The scored items of a part. */
static void gather(const struct hrf_training_set *set, const enum hrf_training_part *parts,
                   enum hrf_training_part part, size_t n_classes, const float *scores,
                   struct hrf_scored *out)
{
    HRF_AUTO_FREE float *truth = hrf_alloc_array(n_classes + 1, sizeof *truth);
    *out = (struct hrf_scored){ .kind = set->kind };
    for (size_t i = 0; i < set->n_items; i++)
        if (parts[i] == part) {
            hrf_training_set_truth(set, i, n_classes, truth);
            hrf_scored_add(out, scores + i * hrf_label_n_scores(set->kind, n_classes), truth,
                           (int32_t)n_classes);
        }
}

struct hrf_scored_figures hrf_predictions_figures(const struct hrf_training_set *set,
                                                  const enum hrf_training_part *parts,
                                                  enum hrf_training_part part,
                                                  const struct hrf_text_list *classes,
                                                  const float *scores)
{
    HRF_AUTO_RELEASE(hrf_scored) scored;
    gather(set, parts, part, classes->n_items, scores, &scored);
    return hrf_scored_figures_of(&scored, classes, set->nouns, hrf_training_parts[part]);
}

void hrf_predictions_put_each(json_t *object, const struct hrf_training_set *set,
                              const enum hrf_training_part *parts, enum hrf_training_part part,
                              const struct hrf_text_list *classes, const float *scores)
{
    HRF_AUTO_RELEASE(hrf_scored) scored;
    gather(set, parts, part, classes->n_items, scores, &scored);
    hrf_scored_put_each(object, &scored, classes, set->nouns, hrf_training_parts[part]);
}

int64_t hrf_predictions_count(const struct hrf_training_set *set,
                              const enum hrf_training_part *parts, enum hrf_training_part part)
{
    int64_t n = 0;
    for (size_t i = 0; i < set->n_items; i++)
        n += parts[i] == part;
    return n;
}
