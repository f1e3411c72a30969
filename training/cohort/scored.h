/* scored.h - figures of a trained network, such as its AUC, of one training or pooled over
 * trainings. What is scored, an item, is a slide for a slide head and a patch for a network of
 * patches.
 *
 * A fold may hold few items of a class, or none; its figures then say little or do not exist, which
 * a mean over folds hides. Pooled figures are computed from all items that were tested, each once
 * for a seed. For balanced accuracy, which is made of counts, they are the better estimate. An AUC
 * pooled over folds compares scores of different networks, which need not mean the same, so both
 * are shown. Source: Forman and Scholz, "Apples-to-apples in cross-validation studies", SIGKDD
 * Explorations 12 (2010). Pure, except for the file that is read.
 */
#ifndef HRF_TRAINING_COHORT_SCORED_H
#define HRF_TRAINING_COHORT_SCORED_H

#include "schema/settings/settings.h"
#include "statistics/figure.h"
#include "training/cohort/label_kind.h"

/* A figure that cannot be computed is NaN, and `why` gives the reason. Of several labels, and of
 * several numbers, a figure is the mean of theirs. */
struct hrf_scored_figures {
    double auc; /* of two classes; of more, the mean of the AUCs of each class against all others */
    double balanced_accuracy; /* the mean over the classes of the share of their items whose
                                 highest score is the class's; a label is there from 0.5 on */
    double r2, mean_absolute_error, spearman; /* of numbers */
    double dice; /* of pixels, as balanced_accuracy: over those of all items together */
    char why[160];
};
/* Their rows: result.json, summary.json, the terminal and the pages of docs/ walk them. A new
 * figure is its member, what computes it, and its row (scored.c). The first is what an epoch is
 * followed by. Of classes: */
extern const struct hrf_figure_row hrf_scored_figure_rows[];
/* Of each kind of labels. */
extern const struct hrf_figure_row *const hrf_scored_rows[HRF_N_LABEL_KINDS];

/* Items that were scored by networks that had not seen them. */
struct hrf_scored {
    enum hrf_label_kind kind;
    float *scores; /* [n][hrf_label_n_scores()]; heap */
    float *truths; /* [n][n_classes]; heap */
    char **names;  /* [n]; of hrf_scored_read(), else NULL each */
    size_t n, capacity;
};
void hrf_scored_release(struct hrf_scored *scored);
/* truth: label_kind.h. */
void hrf_scored_add(struct hrf_scored *scored, const float *scores, const float *truth,
                    int32_t n_classes);
/* Adds the items for testing of a training's predictions.csv (training_files.h). */
HRF_CHECKED enum hrf_status hrf_scored_read(struct hrf_scored *scored, const char *path,
                                            const struct hrf_text_list *classes,
                                            struct hrf_error *err);

/* Computes the figures. `nouns` ("slides") and `part` word the reason: "no slides for testing". */
struct hrf_scored_figures hrf_scored_figures_of(const struct hrf_scored *scored,
                                                const struct hrf_text_list *classes,
                                                const char *nouns, const char *part);
/* Those of one of several labels or numbers. */
struct hrf_scored_figures hrf_scored_figures_of_one(const struct hrf_scored *scored,
                                                    const struct hrf_text_list *classes, size_t k,
                                                    const char *nouns, const char *part);
/* Puts those of each into `object` as "classes"; nothing where an item is of one class. */
void hrf_scored_put_each(json_t *object, const struct hrf_scored *scored,
                         const struct hrf_text_list *classes, const char *nouns, const char *part);

#endif
