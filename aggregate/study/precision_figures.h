/* precision_figures.h - the figures of one precision of a cohort, a struct for each subject.
 *
 * A figure that cannot be computed is NaN with a reason beside it, never 0. What each figure is
 * called, its unit and where it is shown are rows: figure_rows.h.
 */
#ifndef HRF_AGGREGATE_STUDY_PRECISION_FIGURES_H
#define HRF_AGGREGATE_STUDY_PRECISION_FIGURES_H

#include "aggregate/study/difference.h"
#include "aggregate/study/drift.h"
#include "aggregate/study/head_study.h"
#include "aggregate/study/neighbours.h"
#include "schema/record/scores.h"
#include "statistics/figure.h"
#include "statistics/froc.h"
#include "statistics/metrics.h"
#include "statistics/operating_points.h"
#include "statistics/regression.h"

enum { HRF_COHORT_HARDWARE = 8 };
/* What the precision's jobs report, summed over tasks. */
struct hrf_precision_jobs {
    char *device; /* "cpu", "cpu, cuda" when jobs differ; NULL = nothing was scored */
    /* The different machines of the jobs, as many as there is room for. */
    struct hrf_hardware hardware[HRF_COHORT_HARDWARE];
    size_t n_hardware;
    char notes[HRF_SCORES_NOTES]; /* of the first slide that has any: one model, the same notes */
    int64_t n_patches;            /* scored patches */
    int64_t n_slides;             /* the slides of these patches */
    struct hrf_timing timing;     /* seconds of jobs, not of the wall */
    struct hrf_traffics traffic;
    /* Energy of processors and of devices; NaN: not measured. */
    double energy_joules, gpu_energy_joules;
    int32_t n_threads, n_readers;
};

/* Time, memory and energy; ratios are to the reference. */
struct hrf_speed_figures {
    struct hrf_figure seconds, patches_per_second, slides_per_hour;
    struct hrf_figure computed_per_second; /* patches, by the compute loop alone */
    struct hrf_figure speedup, compute_speedup;
    struct hrf_figure peak_memory,
        peak_process; /* bytes: by the plan, and of the largest process */
    struct hrf_figure memory_ratio;
    struct hrf_figure device_memory; /* bytes: the most of a process on a device, by its driver */
    struct hrf_figure energy, gpu_energy;             /* joules per patch */
    struct hrf_figure slide_energy, slide_gpu_energy; /* joules per slide */
};

enum { HRF_TOP_FLIPS = 20 }; /* patches shown by name; results/patch-flips.csv has them all */
/* Differences of the patches' probabilities from the reference's, over patches that both scored. */
struct hrf_moved_figures {
    struct hrf_difference difference;
    struct hrf_figure patch_agreement;    /* fraction of patches with the same most likely class */
    struct hrf_figure max_abs_difference; /* of any class probability */
    struct hrf_figure mean_abs_difference;
    /* Indices into difference.flips, the largest difference first. */
    size_t top_flips[HRF_TOP_FLIPS];
    size_t n_top_flips;
};

/* Cosines between the embeddings of patches and the reference's. */
struct hrf_embedding_figures {
    struct hrf_drift drift;
    struct hrf_neighbours neighbours;
    struct hrf_figure cosine_mean, cosine_median, cosine_percentile1, cosine_min;
    struct hrf_figure neighbours_kept; /* of the 10 nearest; neighbours.h */
};

/* A bin of the calibration curve: the labelled slides whose score lies in one tenth of [0, 1], and
 * how many of them are positive. */
enum { HRF_RELIABILITY_BINS = 10 };
struct hrf_reliability_bin {
    size_t n_slides, n_positive;
    double score_sum;
};

/* One class of a model with three or more, against all others. */
struct hrf_class_figures {
    size_t n_slides; /* labelled slides that are of it */
    struct hrf_figure auc;
    struct hrf_interval auc_interval;    /* valid when auc is; 95 % */
    struct hrf_figure average_precision; /* precision_recall.h */
    struct hrf_figure recall;            /* the fraction of its slides that got its label */
    struct hrf_figure precision;         /* the fraction of slides with its label that are of it */
};

/* Scores of slides against their truth, and against the reference. */
struct hrf_slide_figures {
    size_t n_labelled; /* scored slides with a truth */
    size_t n_unscored; /* slides with a truth but no score, without excluded slides */
    struct hrf_figure auc;
    struct hrf_pairs pairs; /* the pairs that auc counts; valid when auc is */
    /* 95 % intervals by hrf_auc_newcombe() and by the percentile bootstrap; valid when auc is. */
    struct hrf_interval auc_interval, auc_bootstrap;
    struct hrf_figure average_precision; /* precision_recall.h */
    struct hrf_figure auc_difference;    /* this less the reference, over slides that both scored */
    /* The 95 % interval by DeLong; NaN if both precisions order every pair alike, or if
     * auc_difference is NaN. */
    struct hrf_interval auc_difference_interval;
    struct hrf_figure delong_p; /* p value of the difference; see delong.h */
    struct hrf_reliability_bin reliability[HRF_RELIABILITY_BINS];
    /* Expected calibration error: |mean score - positive fraction| over the tenths, weighted by
     * slides. Source: Naeini, Cooper and Hauskrecht, AAAI 2015. */
    struct hrf_figure calibration_error;
    struct hrf_operating_rows operating; /* empty without labelled slides */
    struct hrf_figure accuracy;          /* labels that are the truth's */
    struct hrf_figure balanced_accuracy; /* mean over the classes of their recall */
    struct hrf_confusion confusion;      /* over the n_labelled slides: positive or not */
    /* With three or more classes, otherwise NULL. Rows of the matrix are truths, columns labels. */
    struct hrf_class_figures *by_class;    /* [n_classes] */
    size_t *class_confusion;               /* [n_classes][n_classes] */
    struct hrf_figure macro_auc;           /* mean of the classes' */
    struct hrf_regression regression;      /* is_regression; valid when mean_absolute_error is */
    struct hrf_figure mean_absolute_error; /* over scored slides with a number as truth */
    size_t *flips; /* indices of slides labelled otherwise than the reference */
    size_t n_flips;
};

/* Scores of patches against the outlines of lesions (patch_task.h). */
struct hrf_patch_figures {
    float *scores;                         /* [cohort.patches.n_items], NaN = none */
    struct hrf_figure auc, auc_difference; /* the difference is this AUC less the reference's */
    /* 95 % intervals, clustered by slide (clustered_auc.h), valid when the figures are; NaN: no
     * spread. */
    struct hrf_interval auc_interval, auc_difference_interval;
    size_t n_positive, n_negative, n_slides;
};

/* The lesion task (lesion_task.h). */
struct hrf_lesion_figures {
    struct hrf_froc_slide *slides;
    size_t n_slides;
    struct hrf_figure score;
    struct hrf_froc froc; /* valid when score is */
};

/* The overlap of the pixels that are called a class with those that are of it. */
struct hrf_overlap {
    int64_t n_slides; /* number of judged slides; 0 or 1 for a single slide */
    int64_t both, called, wanted;
};
/* Dice is 2 both / (called + wanted), IoU both over the pixels that are either. NaN if there are no
 * such pixels, or no truth. */
double hrf_overlap_dice(const struct hrf_overlap *overlap);
double hrf_overlap_iou(const struct hrf_overlap *overlap);

/* The overlap over all slides of a cohort. */
struct hrf_pooled_overlap {
    struct hrf_overlap all; /* the slides' pixels added up */
    int64_t n_present;      /* slides that have the class */
    double dice_sum;        /* sum of Dice over these slides */
};

/* What a segmentation network found of one class on all slides; NaN: nothing is known. */
struct hrf_region_figures {
    double mm2, dice, iou; /* the latter two over the pixels of all judged slides */
    double mean_dice;      /* over the slides that have the class */
    int64_t n_judged, n_present;
};

struct hrf_cohort_precision {
    char *name;
    struct hrf_precision_jobs jobs;
    struct hrf_speed_figures speed;
    struct hrf_moved_figures moved;
    struct hrf_embedding_figures embeddings;
    struct hrf_slide_figures slides;
    struct hrf_patch_figures patches;
    struct hrf_lesion_figures lesions;
    struct hrf_pooled_overlap *overlaps; /* [n_classes], is_segmentation; NULL = no truth */
    /* With has_head, for all precisions but the first: the first precision's heads on these
     * features, and heads that were trained on these features. Without such heads no slide has a
     * score of the latter. */
    struct hrf_head_study moved_heads, own_heads;
};

#endif
