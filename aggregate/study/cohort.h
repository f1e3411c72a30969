/* cohort.h - all data that the report shows, as plain structs.
 *
 * hrf_cohort_load() gathers it from the run store; hrf_cohort_finish() computes the figures from
 * the slides' truths and scores and is pure, so that a cohort can also be made by hand. A figure
 * that cannot be computed is NaN with a reason beside it, never 0. Immutable once finished.
 */
#ifndef HRF_AGGREGATE_STUDY_COHORT_H
#define HRF_AGGREGATE_STUDY_COHORT_H

#include "aggregate/slide/find_lesions.h"
#include "aggregate/slide/score.h"
#include "aggregate/study/precision_figures.h"
#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/calibration.h"
#include "schema/record/tile_plan.h"
#include "schema/store/tasks.h"
#include "statistics/delong.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of the provenance: "model sha256", "12ab...". Borrowed in params, owned in a cohort. */
struct hrf_named_text {
    const char *name, *text;
};

/* The facts of the calibration. If there was none, key is NULL and reason says why. */
struct hrf_calibration_facts {
    const char *key, *method, *reason;
    bool cached;
    double seconds;
    int64_t samples;
    bool of_other_slides; /* the sample is of slides that are not evaluated: calibrate.slides */
    bool of_training;     /* it is of the cohort's slides for training */
    const struct hrf_calibration_keep *kept; /* nodes and tensors that do not use INT8 */
    size_t n_kept;
    const struct hrf_calibration_tensor *tensors; /* names, methods, strengths, SQNR */
    size_t n_tensors;
    const struct hrf_calibration_budget *budget; /* NULL: none */
    const char *budget_text;                     /* a sentence on the times; NULL: none */
    const struct hrf_calibration_loss *lost; /* on patches outside of the sample; NULL: no key */
    const char *loss_text;
    bool loss_is_large; /* the loss is large, and loss_text a warning */
};

/* An annotation that is a mask: every step-th pixel of it in both directions. */
struct hrf_truth_mask {
    int32_t step;          /* a power of two; the caller sets it */
    unsigned char *pixels; /* [height][width], heap; 0: nothing is annotated there */
    int64_t width, height;
    int64_t width0, height0; /* size of the whole mask */
};
/* Reads a mask from any image that can be read as a slide. */
typedef enum hrf_status hrf_truth_mask_reader(const char *path, struct hrf_truth_mask *mask,
                                              struct hrf_error *err);
/* The parts of a workflow that aggregate and report depend on; all borrowed. */
struct hrf_aggregate_params {
    const char *name;           /* the run's */
    const char *const *classes; /* one per output of the model's head */
    bool is_embedding;          /* the model gives embeddings: slides have features and no score */
    bool has_head;              /* is_embedding: a slide head gives the slides' scores after all */
    bool has_forest;            /* slides' scores in the store are those of a forest */
    bool is_multilabel;         /* classes do not exclude each other: a slide has any of them */
    bool is_regression;         /* the score is a number of its own scale, and so is the truth */
    bool is_segmentation; /* patches have a label for every pixel; scores are fractions of it */
    size_t n_classes;
    size_t positive;               /* index into classes */
    const char *const *precisions; /* the first is the reference */
    size_t n_precisions;
    struct hrf_slide_rule rule;
    struct hrf_lesion_rule lesion_rule; /* method HRF_LESIONS_NONE: no lesion task */
    bool is_camelyon16;                 /* slides that are known to be wrong have its names */
    double threshold;                   /* score >= threshold is positive */
    /* Patterns (fnmatch) of the names of the slides on which the threshold is chosen; these are
     * part of no figure. Without patterns, `threshold` is used. */
    const char *const *tuning_slides;
    size_t n_tuning_slides;
    double tuning_specificity; /* 0: Youden's J */
    uint64_t seed;             /* of the bootstrap */
    double stain_jitter; /* 0, or the last precision is the first one with stains moved by this */
    int64_t jitter_seed;
    struct hrf_calibration_facts calibration;
    bool is_slurm;                    /* where jobs ran: which key gives them more */
    hrf_truth_mask_reader *read_mask; /* NULL: annotations that are masks cannot be read */
    const struct hrf_named_text *provenance;
    size_t n_provenance;
};

/* The truths of all patches of the slides that are judged by patch (patch_task.h), slide by slide.
 */
struct hrf_patch_truths {
    bool *is_positive;
    uint32_t *slides; /* the index of each patch's slide */
    size_t n_items, n_room;
    size_t n_last; /* number of patches of the slide that was added last */
};

/* A slide at one precision. */
struct hrf_cohort_score {
    bool has_features; /* all its patches have embeddings */
    bool known;        /* the slide has a score, `value` */
    double value;      /* score of the positive class */
    bool is_own_known; /* slide heads trained on this precision's features gave `own` */
    double own;        /* score of the positive class */
    bool positive;
    double *classes; /* [n_classes]: the slide's score of every class; NULL = not computed */
    char *labels;    /* is_multilabel: the classes at the threshold, "er;pr"; NULL = not computed */
    char *failure;   /* why there is no score, or why its files could not be written; NULL = none */
    /* is_segmentation: figures of the slide's mask; NULL = not computed */
    int64_t *label_pixels;        /* [1 + n_classes]: number of pixels of each label (mask.h) */
    double pixel_mm2;             /* area of a mask pixel */
    struct hrf_overlap *overlaps; /* [n_classes], with the truth; NULL = there is no truth */
};

struct hrf_cohort_slide {
    int64_t id;
    char *name, *path;
    char *file_name; /* hrf_text_file_name(name): its stem below results/ */
    enum hrf_truth truth;
    double truth_number; /* is_regression; NaN = unknown */
    int32_t truth_class; /* index into classes; -1 = unknown, or named otherwise */
    /* The threshold is chosen on this slide. Its truth is in tuning_truth, and `truth` is unknown,
     * so that no figure can contain it. */
    bool is_tuning;
    enum hrf_truth tuning_truth;
    bool is_head_trained_on;       /* no head or forest may score it, because all have seen it */
    char *label_text, *annotation; /* NULL = none */
    enum hrf_slide_state state;
    char *reason;          /* NULL = none */
    char *warning;         /* of the tiler; NULL = none */
    int64_t width, height; /* level-0 px; 0 = never opened */
    double mpp;            /* mean of x and y, um/px; 0 = unknown */
    char *mpp_source;      /* NULL = unknown */
    int64_t n_patches;     /* -1 = not tiled */
    int64_t n_white; /* patches on tiles that do not decode: white there (tiler.on_bad_tile) */
    char *white;     /* the same in words; NULL = none */
    struct hrf_patch *white_patches;     /* [n_white] */
    int64_t patch_width0, patch_height0; /* level-0 px */
    int64_t n_dropped;                   /* patches that tiler.quality leaves out */
    struct hrf_dropped_patch *dropped;   /* [n_dropped] */
    double tissue_fraction;              /* of the slide's area */
    struct hrf_cohort_score *scores;     /* [n_precisions] */
};

/* One attempt of a job, as the store has it. */
struct hrf_cohort_job {
    char *job_id, *reason; /* reason: how it ended; NULL = successfully, or it runs */
    const char *kind;      /* "tile", "calibrate", "infer" */
    int64_t attempt;
    bool has_ended;
    int64_t n_tasks;
    int64_t submitted_ms,
        ended_ms; /* wall clock of the driver, when it submitted the job and when it saw the end */
    struct hrf_job_usage usage;
};

/* How the threshold was chosen. */
struct hrf_tuning {
    bool is_asked_for;
    double specificity;          /* wanted; 0: Youden's J */
    size_t n_slides, n_positive; /* scored slides with a truth */
    struct hrf_roc_point point;  /* valid if there is no reason */
    char *reason;                /* why none could be chosen; the threshold is then 0.5 */
};

/* A slide with a truth that is not part of the lesion task. */
struct hrf_lesion_gap {
    char *slide, *reason;
    bool of_annotation; /* its annotation cannot be used */
};

struct hrf_cohort_counts {
    size_t total, done, failed, no_tissue, excluded, pending;
};

struct hrf_cohort {
    char *name;
    char **classes;
    size_t n_classes, positive;
    bool is_embedding, has_head, has_forest, is_multilabel, is_regression, is_segmentation;
    struct hrf_slide_rule rule;
    struct hrf_lesion_rule lesion_rule;
    bool is_camelyon16;
    struct hrf_patch_truths patches;
    struct hrf_lesion_gap *lesion_gaps;
    size_t n_lesion_gaps;
    double threshold;
    uint64_t seed;
    double stain_jitter;
    int64_t jitter_seed;
    struct hrf_tuning tuning;
    struct hrf_cohort_slide *slides; /* in cohort order */
    size_t n_slides;
    struct hrf_cohort_precision *precisions;
    size_t n_precisions;
    struct hrf_phase_row *phases;
    size_t n_phases;
    struct hrf_cohort_job *jobs; /* in the order of their submission */
    size_t n_jobs;
    bool is_slurm;
    hrf_truth_mask_reader *read_mask;
    struct hrf_calibration_facts calibration; /* owned texts */
    struct hrf_named_text *provenance;        /* owned texts */
    size_t n_provenance;
    struct hrf_cohort_counts counts; /* filled by finish */
};

/* Creates a cohort with a copy of the params and `n_slides` empty slides, each with room for its
 * scores. HRF_E_USER: the params are inconsistent. */
HRF_CHECKED enum hrf_status hrf_cohort_create(const struct hrf_aggregate_params *params,
                                              size_t n_slides, struct hrf_cohort **out,
                                              struct hrf_error *err);
void hrf_cohort_destroy(struct hrf_cohort *cohort);
HRF_DEFINE_AUTO(hrf_cohort)

/* Adds the times and memory of one slide's scores. Call it once per slide and precision;
 * hrf_difference_add() makes the comparison with the reference. */
void hrf_cohort_add_scores(struct hrf_cohort_precision *precision, const struct hrf_scores *scores);
/* Adds the comparison of one slide's patches: all of `plan`. HRF_E_USER when the two scores are
 * not of the same patches and classes. */
HRF_CHECKED enum hrf_status
hrf_cohort_add_difference(struct hrf_cohort *cohort, size_t precision, size_t slide,
                          const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                          const struct hrf_scores *reference, struct hrf_error *err);
/* Computes counts, rates, agreement, AUC and its interval, accuracy, confusion, flips. Call it
 * once. */
HRF_CHECKED enum hrf_status hrf_cohort_finish(struct hrf_cohort *cohort, struct hrf_error *err);

/* Fills score->classes from all patches of a slide, by the cohort's rule; NaN for a class whose
 * patch scores are no probabilities. */
HRF_CHECKED enum hrf_status hrf_cohort_score_classes(const struct hrf_cohort *cohort,
                                                     const struct hrf_tile_plan *plan,
                                                     const struct hrf_scores *scores,
                                                     struct hrf_cohort_score *score,
                                                     struct hrf_error *err);
/* Does the same with the scores from the store. */
HRF_CHECKED enum hrf_status hrf_cohort_load_classes(struct hrf_store *store,
                                                    const struct hrf_cohort *cohort,
                                                    int64_t slide_id, const char *precision,
                                                    struct hrf_cohort_score *score,
                                                    struct hrf_error *err);
/* Computes the figures of three or more classes; does nothing for fewer. hrf_cohort_finish() calls
 * it. */
HRF_CHECKED enum hrf_status hrf_cohort_finish_classes(struct hrf_cohort *cohort, size_t precision,
                                                      struct hrf_error *err);

/* Loads the whole cohort from the store, with one slide's records in memory at a time. Slides that
 * are still pending have no scores. */
HRF_CHECKED enum hrf_status hrf_cohort_load(struct hrf_store *store,
                                            const struct hrf_aggregate_params *params,
                                            struct hrf_cohort **out, struct hrf_error *err);

/* Computes one slide's score at one precision from its stored patch scores, or reads the slide
 * head's; the store is not changed. HRF_E_USER: there is none, because the slide has no patches or
 * a shard is missing. */
HRF_CHECKED enum hrf_status hrf_aggregate_slide(struct hrf_store *store,
                                                const struct hrf_aggregate_params *params,
                                                int64_t slide_id, const char *precision,
                                                struct hrf_slide_score *out, struct hrf_error *err);

/* True if slides have scores, from the scores of their patches or from a slide head. */
static inline bool hrf_cohort_scores_slides(const struct hrf_cohort *cohort)
{
    return !cohort->is_embedding || cohort->has_head;
}

/* Return when a job started and ended, in ms of a wall clock: by the job's own clock if it is
 * known, otherwise by the driver's. */
static inline int64_t hrf_cohort_job_start(const struct hrf_cohort_job *job)
{
    return job->usage.started_ms > 0 ? job->usage.started_ms : job->submitted_ms;
}

static inline int64_t hrf_cohort_job_end(const struct hrf_cohort_job *job)
{
    return job->usage.finished_ms > 0 ? job->usage.finished_ms : job->ended_ms;
}

/* Returns the name of the method by which slides get their scores: "max", "random forest". */
static inline const char *hrf_cohort_method(const struct hrf_cohort *cohort)
{
    return cohort->has_forest ? "random forest" : hrf_slide_rule_name(cohort->rule.kind);
}

/* Returns the number of precisions whose speed and memory count: all but the jitter of stains. */
static inline size_t hrf_cohort_n_timed(const struct hrf_cohort *cohort)
{
    return cohort->n_precisions - (cohort->stain_jitter > 0);
}

/* Returns the area in mm^2 of a class on the slide's mask, or NaN if there is no mask. */
double hrf_cohort_area(const struct hrf_cohort_score *score, size_t class);

/* Returns what was found of one class on all slides (is_segmentation). */
struct hrf_region_figures hrf_cohort_regions(const struct hrf_cohort *cohort, size_t precision,
                                             size_t class);

/* Returns the state of a slide at one precision, and its reason (borrowed; NULL = none). */
enum hrf_slide_state hrf_cohort_outcome(const struct hrf_cohort_slide *slide, size_t precision,
                                        const char **reason);
/* Returns the label for positive or not positive: the positive class; the other class if there are
 * just two; otherwise "negative". Borrowed from the cohort. */
const char *hrf_cohort_label(const struct hrf_cohort *cohort, bool positive);
/* Returns the class that a slide is called: of three or more classes the one with the highest score
 * (the first of equals), of two by the threshold. -1: it has no label, or the label is no class, as
 * for a slide below the threshold of a model with one class. */
int32_t hrf_cohort_called(const struct hrf_cohort *cohort, const struct hrf_cohort_score *score);
/* True if the slide is called positive: by its class, or by the threshold if it has no class. */
bool hrf_cohort_calls_positive(const struct hrf_cohort *cohort,
                               const struct hrf_cohort_score *score);
/* True if there are figures of each class against all others: of three or more classes, and of
 * labels that do not exclude each other. Their AUC is the mean of the classes', and a figure of the
 * positive class alone has its name. */
bool hrf_cohort_has_many_classes(const struct hrf_cohort *cohort);
/* Return the texts of label and truth for labels.csv and the page; "" if there is none. */
const char *hrf_cohort_slide_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_score *score);
const char *hrf_cohort_truth_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_slide *slide);
/* True if label and truth are known and agree. */
bool hrf_cohort_is_right(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                         size_t precision);
/* True if the reference's label and the truth are known and disagree. */
bool hrf_cohort_is_wrong(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide);
/* True if two scores of a slide give it different labels. */
bool hrf_cohort_differs(const struct hrf_cohort *cohort, const struct hrf_cohort_score *a,
                        const struct hrf_cohort_score *b);
/* Marks a slide for tuning if its name matches one of the patterns; its truth is then only for
 * tuning. */
void hrf_cohort_set_tuning(const struct hrf_aggregate_params *params,
                           struct hrf_cohort_slide *slide);
/* Chooses the threshold on the slides for tuning by the reference's scores, and labels all slides
 * by it. hrf_cohort_finish() calls it. */
HRF_CHECKED enum hrf_status hrf_cohort_tune(struct hrf_cohort *cohort, struct hrf_error *err);
/* Sets truth_class from the label's text ("Tumor,Micro" is Tumor), otherwise from the truth; for a
 * regression, sets truth_number. */
void hrf_cohort_set_truth_class(const struct hrf_cohort *cohort, struct hrf_cohort_slide *slide);
/* Returns the text for the most likely class of a patch, the `index` of the model's outputs. For a
 * model with one output, 1 stands for the class and 0 for not the class. */
const char *hrf_cohort_class(const struct hrf_cohort *cohort, int32_t index);

#endif
