/* head_figures.h - AUC and balanced accuracy of a head, of one training or pooled over trainings.
 *
 * A fold may hold few slides of a class, or none; its figures then say little or do not exist,
 * which a mean over folds hides. Pooled figures are computed from all slides that were tested, each
 * once for a seed. For balanced accuracy, which is made of counts, they are the better estimate. An
 * AUC pooled over folds compares scores of different heads, which need not mean the same, so both
 * are shown. Source: Forman and Scholz, "Apples-to-apples in cross-validation studies", SIGKDD
 * Explorations 12 (2010). Pure, except for the file that is read.
 */
#ifndef HRF_HEADS_TRAIN_HEAD_FIGURES_H
#define HRF_HEADS_TRAIN_HEAD_FIGURES_H

#include "heads/train/recipe.h"
#include "statistics/figure.h"

/* A figure that cannot be computed is NaN, and `why` gives the reason. */
struct hrf_head_figures {
    double auc; /* of two classes; of more, the mean of the AUCs of each class against all others */
    double balanced_accuracy; /* the mean over the classes of the share of their slides whose
                                 highest score is the class's */
    char why[160];
};
/* Their rows: result.json, summary.json, the terminal and docs/heads.md walk them. A new figure is
 * its member, what computes it, and its row (head_figures.c). */
extern const struct hrf_figure_row hrf_head_figure_rows[];

/* Slides that were scored by heads that had not seen them. */
struct hrf_head_scored {
    float *scores;   /* [n][n_classes]; heap */
    int32_t *labels; /* [n]; heap */
    size_t n, capacity;
};
void hrf_head_scored_release(struct hrf_head_scored *scored);
void hrf_head_scored_add(struct hrf_head_scored *scored, const float *scores, int32_t n_classes,
                         int32_t label);
/* Adds the slides for testing of a training's predictions.csv. */
HRF_CHECKED enum hrf_status hrf_head_scored_read(struct hrf_head_scored *scored, const char *path,
                                                 const struct hrf_text_list *classes,
                                                 struct hrf_error *err);

/* Computes the figures. `part` words the reason: "no slides for testing". */
struct hrf_head_figures hrf_head_figures_of(const struct hrf_head_scored *scored,
                                            const struct hrf_text_list *classes, const char *part);

#endif
