/* cohort.h - everything that the report shows, as plain data.
 *
 * hrf_cohort_load() gathers it from the run store; hrf_cohort_finish() computes the figures from
 * the slides' truths and scores and is pure, so that a cohort can also be made by hand. A figure
 * that cannot be computed is NaN with a reason beside it, never 0. Immutable once finished.
 */
#ifndef HRF_AGGREGATE_STUDY_COHORT_H
#define HRF_AGGREGATE_STUDY_COHORT_H

#include "aggregate/camelyon16/delong.h"
#include "aggregate/camelyon16/froc.h"
#include "aggregate/camelyon16/metrics.h"
#include "aggregate/slide/find_lesions.h"
#include "aggregate/slide/score.h"
#include "aggregate/study/difference.h"
#include "aggregate/study/drift.h"
#include "aggregate/study/head_study.h"
#include "aggregate/study/neighbours.h"
#include "aggregate/study/operating_points.h"
#include "aggregate/study/regression.h"
#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/calibration.h"
#include "schema/record/scores.h"
#include "schema/record/tile_plan.h"
#include "schema/store/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of the provenance: "model sha256", "12ab...". Borrowed in params, owned in a cohort. */
struct hrf_named_text {
    const char *name, *text;
};

/* What became of the calibration; key NULL: there was none, and reason says why. */
struct hrf_calibration_facts {
    const char *key, *method, *reason;
    bool cached;
    double seconds;
    int64_t samples;
    bool of_other_slides; /* the sample is of slides that are not evaluated: calibrate.slides */
    bool of_training;     /* it is of the cohort's slides for training */
    const struct hrf_calibration_keep *kept; /* what does not use INT8, and why */
    size_t n_kept;
    const struct hrf_calibration_tensor *tensors; /* names, methods, strengths, SQNR */
    size_t n_tensors;
    const struct hrf_calibration_budget *budget; /* NULL: none */
    const char *budget_words;                    /* on the times; NULL: none */
};

/* A mask that is an annotation, every step-th pixel of it both ways. */
struct hrf_truth_mask {
    int32_t step;          /* asked for; a power of two */
    unsigned char *pixels; /* [height][width], heap; 0: nothing is annotated there */
    int64_t width, height;
    int64_t width0, height0; /* of the whole mask */
};
/* Reads one; the path may be of any image that slides are read from. */
typedef enum hrf_status hrf_truth_mask_reader(const char *path, struct hrf_truth_mask *mask,
                                              struct hrf_error *err);
/* The parts of a workflow that aggregate and report depend on; all borrowed. */
struct hrf_aggregate_params {
    const char *name;           /* of the run */
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
    /* Patterns (fnmatch) of the names of the slides that the threshold is chosen on: they are part
     * of no figure. None: `threshold` stays. */
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

struct hrf_figure {
    double value; /* NaN: see reason */
    char *reason; /* NULL when there is a value */
};

/* Of the labelled slides whose score lies in one tenth of [0, 1]: how often the truth is positive.
 */
enum { HRF_RELIABILITY_BINS = 10 };
enum { HRF_TOP_FLIPS = 20 }; /* patches shown by name; results/patch-flips.csv has them all */
struct hrf_reliability_bin {
    size_t n_slides, n_positive;
    double score_sum;
};

/* Of all patches of the slides that are judged by patch (patch_task.h), slide by slide. */
struct hrf_patch_truths {
    bool *is_positive;
    uint32_t *slides; /* index of its slide */
    size_t n_items, n_room;
    size_t n_last; /* how many of them are of the slide that was added last */
};

/* How the pixels that are called a class and those that are of it coincide. */
struct hrf_overlap {
    int64_t n_slides; /* that are judged: 0 or 1 of a single slide */
    int64_t both, called, wanted;
};
/* 2 both / (called + wanted), and both over what is either; NaN: there is none, or no truth. */
double hrf_overlap_dice(const struct hrf_overlap *overlap);
double hrf_overlap_iou(const struct hrf_overlap *overlap);

/* The same of all slides of a cohort. */
struct hrf_pooled_overlap {
    struct hrf_overlap all; /* the slides' pixels added up */
    int64_t n_present;      /* slides that have the class */
    double dice_sum;        /* over these */
};

/* A slide at one precision. */
struct hrf_cohort_score {
    bool has_features; /* all its patches have embeddings */
    bool known;        /* it has a score: */
    double value;      /* of the positive class */
    bool is_own_known; /* slide heads that were trained on this precision's features gave: */
    double own;        /* of the positive class */
    bool positive;
    double *classes; /* [n_classes]: the slide's score of every class; NULL = not computed */
    char *labels;    /* is_multilabel: the classes at the threshold, "er;pr"; NULL = not computed */
    char *failure;   /* why there is no score, or why its files could not be written; NULL = none */
    /* is_segmentation: of the slide's mask, NULL = not computed */
    int64_t *label_pixels;        /* [1 + n_classes]: by label (mask.h) */
    double pixel_mm2;             /* of a mask pixel */
    struct hrf_overlap *overlaps; /* [n_classes], with truth; NULL = there is none */
};

struct hrf_cohort_slide {
    int64_t id;
    char *name, *path;
    char *file_name; /* hrf_text_file_name(name): its stem below results/ */
    enum hrf_truth truth;
    double truth_number; /* is_regression; NaN = unknown */
    int32_t truth_class; /* index into classes; -1 = unknown, or named otherwise */
    /* The threshold is chosen on it. Its truth is kept here, and `truth` is unknown, so that no
     * figure can have it. */
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

enum { HRF_COHORT_HARDWARE = 8 };

/* One class of a model with three or more, against all others. */
struct hrf_class_figures {
    size_t n_slides; /* labelled slides that are of it */
    struct hrf_figure auc;
    struct hrf_interval auc_interval;    /* valid when auc is; 95 % */
    struct hrf_figure average_precision; /* precision_recall.h */
    struct hrf_figure recall;            /* of its slides, the fraction that got its label */
    /* Of the slides that got its label, the fraction that is of it. */
    struct hrf_figure precision;
};

struct hrf_cohort_precision {
    char *name;
    char *device; /* "cpu", "cpu, cuda" when jobs differ; NULL = nothing was scored */
    /* What they were, each once; no more are told apart than there is room for. */
    struct hrf_hardware hardware[HRF_COHORT_HARDWARE];
    size_t n_hardware;
    char notes[HRF_SCORES_NOTES]; /* of the first slide that has any: one model, the same notes */
    int64_t n_patches;            /* scored */
    int64_t n_slides;             /* that these are of */
    struct hrf_timing timing;     /* summed over tasks: seconds of jobs, not of the wall */
    struct hrf_traffics traffic;  /* summed likewise */
    int64_t peak_memory_bytes;    /* the largest of any job, by the plan */
    int64_t peak_process_bytes;   /* the largest resident size of a job's process; 0 = not known */
    int64_t device_memory_bytes; /* the most of a process on a device, by its driver; 0 = unknown */
    /* Of processors and of devices; NaN: not measured. */
    double energy_joules, gpu_energy_joules;
    int32_t n_threads, n_readers;
    /* Against the reference, over patches that both scored: of probabilities, of embeddings. */
    struct hrf_difference difference;
    struct hrf_drift drift;
    struct hrf_neighbours neighbours;

    /* Filled by finish. */
    struct hrf_figure patches_per_second, slides_per_hour; /* of one job */
    /* Times the reference's patches per second: of whole jobs, and of the compute loop alone. */
    struct hrf_figure speedup, compute_speedup;
    struct hrf_figure memory_ratio;                   /* of peak_memory_bytes to the reference's */
    struct hrf_figure energy, gpu_energy;             /* joules per patch */
    struct hrf_figure slide_energy, slide_gpu_energy; /* joules per slide */
    struct hrf_figure patch_agreement;    /* fraction of patches with the same most likely class */
    struct hrf_figure max_abs_difference; /* of any class probability */
    struct hrf_figure mean_abs_difference;
    /* The cosine of a patch's embedding and the reference's: over patches. */
    struct hrf_figure cosine_mean, cosine_median, cosine_percentile1, cosine_least;
    struct hrf_figure neighbours_kept; /* of the 10 nearest; neighbours.h */
    struct hrf_figure auc_difference;  /* this less the reference, over slides that both scored */
    /* 95 %, DeLong; NaN when both precisions order every pair alike (or auc_difference is NaN). */
    struct hrf_interval auc_difference_interval;
    struct hrf_figure delong_p; /* of it; see delong.h */
    struct hrf_reliability_bin reliability[HRF_RELIABILITY_BINS];
    /* Expected calibration error: |mean score - positive fraction| over the tenths, weighted by
     * slides. Source: Naeini, Cooper and Hauskrecht, AAAI 2015. */
    struct hrf_figure calibration_error;
    struct hrf_figure slide_auc;
    struct hrf_pairs slide_pairs; /* what slide_auc counts; valid when it is */
    /* Valid when slide_auc is; 95 %: hrf_auc_newcombe(), and the percentile bootstrap. */
    struct hrf_interval slide_auc_interval, slide_auc_bootstrap;
    struct hrf_figure average_precision; /* precision_recall.h */
    struct hrf_operating_rows operating; /* empty without labelled slides */
    struct hrf_figure slide_accuracy;    /* labels that are the truth's */
    struct hrf_figure balanced_accuracy; /* mean over the classes of their recall */
    struct hrf_confusion confusion;      /* over the n_labelled slides: positive or not */
    /* Of three or more classes; else NULL. Rows of the matrix are truths, columns labels. */
    struct hrf_class_figures *by_class;                /* [n_classes] */
    size_t *class_confusion;                           /* [n_classes][n_classes] */
    struct hrf_figure macro_auc;                       /* mean of the classes' */
    float *patch_scores;                               /* [cohort.patches.n_items], NaN = none */
    struct hrf_figure patch_auc, patch_auc_difference; /* the latter less the reference's */
    /* Valid when those are; 95 %, by slide (clustered_auc.h); NaN: without spread. */
    struct hrf_interval patch_auc_interval, patch_auc_difference_interval;
    size_t n_positive_patches, n_negative_patches, n_patch_slides;
    struct hrf_pooled_overlap *overlaps; /* [n_classes], is_segmentation; NULL = no truth */
    struct hrf_froc_slide *froc_slides;  /* the slides of the lesion task; see lesion_task.h */
    size_t n_froc_slides;
    struct hrf_figure froc_score;
    struct hrf_froc froc;                  /* valid when froc_score is */
    struct hrf_regression regression;      /* is_regression; valid when mean_absolute_error is */
    struct hrf_figure mean_absolute_error; /* over scored slides with a number as truth */
    /* has_head, of all precisions but the first: its heads on these features, and heads that were
     * trained on these features. No slide has a score of the latter if there are none. */
    struct hrf_head_study moved_heads, own_heads;
    size_t n_labelled; /* scored slides with a truth */
    size_t n_unscored; /* slides with a truth that have no score, those that are excluded apart */
    size_t *flips;     /* indices of slides labelled otherwise than the reference */
    size_t n_flips;
    /* Indices into difference.flips, the largest difference first. */
    size_t top_flips[HRF_TOP_FLIPS];
    size_t n_top_flips;
};

/* One attempt of a job, as the store has it. */
struct hrf_cohort_job {
    char *job_id, *reason; /* reason: how it ended; NULL = successfully, or it runs */
    const char *kind;      /* "tile", "calibrate", "infer" */
    int64_t attempt;
    bool has_ended;
    int64_t n_tasks;
    int64_t submitted_ms, ended_ms; /* wall clock of the driver; ended: it was seen to have */
    struct hrf_job_usage usage;
};

/* How the threshold was chosen (tuning.h). */
struct hrf_tuning {
    bool is_asked_for;
    double specificity;          /* wanted; 0: Youden's J */
    size_t n_slides, n_positive; /* scored, with a truth */
    struct hrf_roc_point point;  /* valid if there is no reason */
    char *reason;                /* why there is no choice: the threshold is 0.5 */
};

/* A slide with a truth that is not part of the lesion task. */
struct hrf_lesion_gap {
    char *slide, *reason;
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

/* A cohort with the params copied in, precisions and classes named, and `n_slides` empty
 * slides, each with room for its scores. HRF_E_USER when params make no sense. */
HRF_CHECKED enum hrf_status hrf_cohort_create(const struct hrf_aggregate_params *params,
                                              size_t n_slides, struct hrf_cohort **out,
                                              struct hrf_error *err);
void hrf_cohort_destroy(struct hrf_cohort *cohort);
HRF_DEFINE_AUTO(hrf_cohort)

/* Adds what one slide's scores say of times and memory. Call once per slide and precision; the
 * comparison with the reference is hrf_difference_add(). */
HRF_CHECKED enum hrf_status hrf_cohort_add_scores(struct hrf_cohort_precision *precision,
                                                  const struct hrf_scores *scores,
                                                  struct hrf_error *err);
/* Adds the comparison of one slide's patches: all of `plan`. HRF_E_USER when the two scores are
 * not of the same patches and classes. */
HRF_CHECKED enum hrf_status
hrf_cohort_add_difference(struct hrf_cohort *cohort, size_t precision, size_t slide,
                          const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                          const struct hrf_scores *reference, struct hrf_error *err);
/* Counts, rates, agreement, AUC and its interval, accuracy, confusion, flips. Call once. */
HRF_CHECKED enum hrf_status hrf_cohort_finish(struct hrf_cohort *cohort, struct hrf_error *err);

/* Fills score->classes from all patches of a slide, by the cohort's rule; NaN for a class whose
 * patch scores are no probabilities. */
HRF_CHECKED enum hrf_status hrf_cohort_score_classes(const struct hrf_cohort *cohort,
                                                     const struct hrf_tile_plan *plan,
                                                     const struct hrf_scores *scores,
                                                     struct hrf_cohort_score *score,
                                                     struct hrf_error *err);
/* The same from the store. */
HRF_CHECKED enum hrf_status hrf_cohort_load_classes(struct hrf_store *store,
                                                    const struct hrf_cohort *cohort,
                                                    int64_t slide_id, const char *precision,
                                                    struct hrf_cohort_score *score,
                                                    struct hrf_error *err);
/* The figures of three or more classes; does nothing for fewer. Part of finish. */
HRF_CHECKED enum hrf_status hrf_cohort_finish_classes(struct hrf_cohort *cohort, size_t precision,
                                                      struct hrf_error *err);

/* The whole cohort from the store; one slide's records in memory at a time. Slides without
 * recorded scores (still pending) have none. */
HRF_CHECKED enum hrf_status hrf_cohort_load(struct hrf_store *store,
                                            const struct hrf_aggregate_params *params,
                                            struct hrf_cohort **out, struct hrf_error *err);

/* One slide's score at one precision from its stored patch scores, or from what the slide head
 * gave; it is not put into the store. HRF_E_USER when there is none: a slide without patches, a
 * shard that is missing. */
HRF_CHECKED enum hrf_status hrf_aggregate_slide(struct hrf_store *store,
                                                const struct hrf_aggregate_params *params,
                                                int64_t slide_id, const char *precision,
                                                struct hrf_slide_score *out, struct hrf_error *err);

/* Whether slides have scores: patches have, or a slide head gives them. */
static inline bool hrf_cohort_scores_slides(const struct hrf_cohort *cohort)
{
    return !cohort->is_embedding || cohort->has_head;
}

/* How slides get their scores: "max", "random forest". */
static inline const char *hrf_cohort_method(const struct hrf_cohort *cohort)
{
    return cohort->has_forest ? "random forest" : hrf_slide_rule_name(cohort->rule.kind);
}

/* Of how many precisions speed and memory count: all that are no jitter of stains. */
static inline size_t hrf_cohort_n_timed(const struct hrf_cohort *cohort)
{
    return cohort->n_precisions - (cohort->stain_jitter > 0);
}

/* mm^2 of a class on the slide's mask; NaN: there is no mask. */
double hrf_cohort_area(const struct hrf_cohort_score *score, size_t class);

/* Where a slide stands at one precision, and why (borrowed; NULL = nothing to say). */
enum hrf_slide_state hrf_cohort_outcome(const struct hrf_cohort_slide *slide, size_t precision,
                                        const char **reason);
/* The word for positive or not: the positive class; the other class when there are just two; else
 * "negative". Borrowed from the cohort. */
const char *hrf_cohort_label(const struct hrf_cohort *cohort, bool positive);
/* The class that a slide is called: of three or more the one with the highest score (of equal ones
 * the first), of two by the threshold. -1: it has no label, or the label is no class: what a model
 * with one class does not call positive. */
int32_t hrf_cohort_called(const struct hrf_cohort *cohort, const struct hrf_cohort_score *score);
/* The words in labels.csv and on the page. "": no label, or no truth. */
const char *hrf_cohort_slide_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_score *score);
const char *hrf_cohort_truth_label(const struct hrf_cohort *cohort,
                                   const struct hrf_cohort_slide *slide);
/* Whether label and truth are both known and are the same, and whether they are not. */
bool hrf_cohort_is_right(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                         size_t precision);
bool hrf_cohort_is_wrong(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                         size_t precision);
/* Whether two scores of a slide give it different labels. */
bool hrf_cohort_differs(const struct hrf_cohort *cohort, const struct hrf_cohort_score *a,
                        const struct hrf_cohort_score *b);
/* is_multilabel: whether the truth, and whether the score, has a class. Of a score without
 * classes it is not known: false. */
bool hrf_cohort_truth_has(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide,
                          size_t class);
bool hrf_cohort_score_has(const struct hrf_cohort *cohort, const struct hrf_cohort_score *score,
                          size_t class);
/* Whether the label is one of the patterns' slides: then its truth is only for tuning. */
void hrf_cohort_set_tuning(const struct hrf_aggregate_params *params,
                           struct hrf_cohort_slide *slide);
/* Chooses the threshold on the slides for tuning by the reference's scores, and calls all slides by
 * it. Part of finish. */
HRF_CHECKED enum hrf_status hrf_cohort_tune(struct hrf_cohort *cohort, struct hrf_error *err);
/* truth_class from the label's text ("Tumor,Micro" is Tumor), else from the truth; of a regression
 * truth_number. */
void hrf_cohort_set_truth_class(const struct hrf_cohort *cohort, struct hrf_cohort_slide *slide);
/* The word for the most likely class of a patch: `index` of the model's outputs; of a model with
 * one output 1 for the class, 0 for not the class. */
const char *hrf_cohort_class(const struct hrf_cohort *cohort, int32_t index);

#endif
