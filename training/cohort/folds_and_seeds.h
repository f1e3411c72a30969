/* folds_and_seeds.h - the trainings of a recipe, one for each fold and seed: run one after the
 * other or as processes side by side, and their summary.
 *
 * Training i is of fold i % n_folds and of seed i / n_folds. What a training is, the caller's
 * functions know.
 */
#ifndef HRF_TRAINING_COHORT_FOLDS_AND_SEEDS_H
#define HRF_TRAINING_COHORT_FOLDS_AND_SEEDS_H

#include "schema/settings/settings.h"
#include "training/cohort/scored.h"

struct hrf_trainings {
    int64_t n_folds;
    const struct hrf_text_list *seeds;
    const char *out;   /* the folder of their folders */
    int64_t only_fold; /* -1: all */
    const char *only_seed;
    int64_t jobs, threads;        /* processes side by side; threads of each, 0: their share */
    const char *const *arguments; /* of a process that trains, before --fold; NULL at the end */
    enum hrf_label_kind kind;
    const struct hrf_text_list *classes;
    const char *nouns; /* what is scored: "slides" */
    void *context;
    /* True if the training has its result, *figures (of testing) and *json (new reference) of it;
     * both may be NULL. */
    bool (*find_result)(void *context, int64_t i, struct hrf_scored_figures *figures,
                        json_t **json);
    enum hrf_status (*train)(void *context, int64_t i, struct hrf_error *err);
};
static inline int64_t hrf_trainings_count(const struct hrf_trainings *t)
{
    return t->n_folds * (int64_t)t->seeds->n_items;
}
int64_t hrf_trainings_seed(const struct hrf_trainings *t, int64_t i);
/* out/fold-F-seed-S; heap. */
char *hrf_training_name(int64_t fold, int64_t seed);
char *hrf_trainings_folder(const struct hrf_trainings *t, int64_t i);
bool hrf_trainings_is_wanted(const struct hrf_trainings *t, int64_t i);
/* HRF_E_USER: only_fold and only_seed name no training. */
HRF_CHECKED enum hrf_status hrf_trainings_check(const struct hrf_trainings *t,
                                                struct hrf_error *err);
/* True if exactly one training is asked for, as by each process of several side by side. */
bool hrf_trainings_is_one(const struct hrf_trainings *t);

/* Threads of each training. */
int64_t hrf_trainings_threads(const struct hrf_trainings *t);
/* Does all that are wanted and not done yet. */
HRF_CHECKED enum hrf_status hrf_trainings_run(const struct hrf_trainings *t, struct hrf_error *err);
/* Puts the done trainings, the mean and deviation of each figure over them, and the figures of all
 * their items for testing together ("pooled") into `out`. */
HRF_CHECKED enum hrf_status hrf_trainings_summarise(const struct hrf_trainings *t, json_t *out,
                                                    struct hrf_error *err);
/* A line for each figure of a summary. */
void hrf_trainings_print(const struct hrf_trainings *t, const json_t *summary);
/* What recipes check of `train.seeds`: true if the text is a whole number, 0 to 1e15. */
bool hrf_trainings_is_seed(const char *text);

#endif
