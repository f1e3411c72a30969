/* figure_rows.c - all figures, a row each. */
#include "aggregate/study/figure_rows.h"

#include "base/alloc.h"
#include "statistics/precision_recall.h"

#include <assert.h>
#include <math.h>

#define OF(member)          HRF_FIGURE_AT(hrf_cohort_precision, member)
#define INTERVAL_OF(member) HRF_FIGURE_INTERVAL_AT(hrf_cohort_precision, member)
#define BELOW(member)       .below_at = offsetof(struct hrf_cohort_precision, member)
#define COUNTED_BY(member)                                                                         \
    .counted_at = _Generic(((const struct hrf_cohort_precision *)0)->member, int64_t               \
                           : offsetof(struct hrf_cohort_precision, member))

static const char *precision_name(const void *base)
{
    return ((const struct hrf_cohort_precision *)base)->name;
}

static const char *precision_device(const void *base)
{
    return ((const struct hrf_cohort_precision *)base)->jobs.device;
}

static const char *device_model(const void *base)
{
    const struct hrf_precision_jobs *jobs = &((const struct hrf_cohort_precision *)base)->jobs;
    return jobs->n_hardware > 0 ? jobs->hardware[0].model : NULL;
}

#define FIGURE(part_, name, member, unit_, better_, ...)                                           \
    .part = HRF_FIGURES_##part_, .key = name, OF(member), .unit = HRF_UNIT_##unit_,                \
    .better = HRF_BETTER_##better_, __VA_ARGS__
#define NAME(name, function, ...)                                                                  \
    .part = HRF_FIGURES_NAMES, .key = name, .unit = HRF_UNIT_TEXT, .better = HRF_BETTER_NEITHER,   \
    .shown = HRF_IN_CSV, .type = HRF_FIGURE_COMPUTED, .text = function, __VA_ARGS__
#define ALL (HRF_IN_JSON | HRF_IN_CSV | HRF_IN_PAGE)
static const char no_device[] = "no device apart from the host computed";

const struct hrf_figure_row hrf_precision_rows[] = {
    /* ---- what it is called: in report.json among other texts ---- */
    { NAME("precision", precision_name, .column = 10, .help = "its name") },
    { NAME("device", precision_device, .column = 20,
           .help = "what computed: `cpu`, `cuda`, or both where jobs differ") },
    { NAME("device_model", device_model, .column = 270,
           .help = "the first `model` of `hardware`") },
    /* ---- speed, memory, energy ---- */
    { FIGURE(SPEED, "patches", jobs.n_patches, COUNT, NEITHER, .shown = ALL, .column = 30,
             .heading = "patches", .help = "patches that were scored") },
    { FIGURE(SPEED, "seconds", speed.seconds, SECONDS, LOWER, .shown = HRF_IN_JSON | HRF_IN_PAGE,
             .column = 195, .heading = "job time", .help = "of all jobs, added up") },
    { FIGURE(SPEED, "patches_per_second", speed.patches_per_second, PATCHES_PER_SECOND, HIGHER,
             .shown = ALL | HRF_IN_TEXT, .column = 200, .heading = "patches/s",
             .hint = "of one job, all of it", .short_heading = "patches/s", .help = "of one job",
             .decimals = 1) },
    { FIGURE(SPEED, "slides_per_hour", speed.slides_per_hour, SLIDES_PER_HOUR, HIGHER, .shown = ALL,
             .column = 410, .help = "of one job", .decimals = HRF_1_BELOW_100,
             BELOW(speed.patches_per_second)) },
    { FIGURE(SPEED, "speedup", speed.speedup, TIMES, HIGHER,
             .shown = ALL | HRF_IN_TEXT | HRF_ONLY_OTHERS, .column = 210,
             .short_heading = "speed x",
             .help = "patches per second of a job, times the reference's", .decimals = 2,
             BELOW(speed.patches_per_second)) },
    { FIGURE(SPEED, "computed_per_second", speed.computed_per_second, PATCHES_PER_SECOND, HIGHER,
             .shown = HRF_IN_PAGE, .column = 215, .heading = "computed/s",
             .hint = "of one job, the network alone",
             .help = "patches that the network takes while it does not wait; only on the page",
             .decimals = 1) },
    { FIGURE(SPEED, "compute_speedup", speed.compute_speedup, TIMES, HIGHER,
             .shown = ALL | HRF_IN_TEXT | HRF_ONLY_OTHERS, .column = 220,
             .short_heading = "network x",
             .help = "patches per second of the network alone, times the reference's",
             .decimals = 2, BELOW(speed.computed_per_second)) },
    { FIGURE(SPEED, "peak_memory_bytes", speed.peak_memory, BYTES, LOWER, .shown = ALL,
             .column = 230, .heading = "peak memory",
             .hint = "activations, weights and workspace, by the plan",
             .help = "activations, weights and workspace of the engine, by its plan") },
    { FIGURE(SPEED, "peak_process_bytes", speed.peak_process, BYTES, LOWER, .shown = ALL,
             .column = 250, .heading = "process", .hint = "largest resident size of a job",
             .help = "the largest resident set of a worker") },
    { FIGURE(SPEED, "memory_ratio", speed.memory_ratio, TIMES, LOWER,
             .shown = ALL | HRF_IN_TEXT | HRF_ONLY_OTHERS, .column = 240,
             .short_heading = "memory x", .help = "`peak_memory_bytes`, times the reference's",
             .decimals = 2, BELOW(speed.peak_memory)) },
    { FIGURE(
        SPEED, "device_memory_bytes", speed.device_memory, BYTES, LOWER,
        .shown = ALL | HRF_ONLY_GPU, .column = 340, .heading = "GPU memory",
        .hint = "most that a job was seen to hold there, context and libraries included",
        .help =
            "the most GPU memory that a worker used, context and libraries included, as reported "
            "by NVIDIA's driver") },
    { FIGURE(
        SPEED, "energy_joules_per_patch", speed.energy, JOULES_PER_PATCH, LOWER, .shown = ALL,
        .column = 260, .heading = "J/patch", .hint = "of the machine's processors, all their work",
        .help = "energy of the processors (RAPL counters), where these can be read; from when the "
                "network is ready, all else that runs on the machine included",
        .decimals = 3) },
    { FIGURE(SPEED, "gpu_energy_joules_per_patch", speed.gpu_energy, JOULES_PER_PATCH, LOWER,
             .shown = ALL | HRF_ONLY_GPU, .column = 350, .heading = "GPU J/patch",
             .hint = "of the GPU, all its work", .help = "energy of the GPUs (NVML), likewise",
             .decimals = 3) },
    { FIGURE(SPEED, "energy_joules_per_slide", speed.slide_energy, JOULES_PER_SLIDE, LOWER,
             .shown = ALL, .column = 420, .help = "energy of the processors, likewise",
             .decimals = 1, BELOW(speed.energy)) },
    { FIGURE(SPEED, "gpu_energy_joules_per_slide", speed.slide_gpu_energy, JOULES_PER_SLIDE, LOWER,
             .shown = ALL | HRF_ONLY_GPU, .column = 430, .help = "energy of the GPUs, likewise",
             .decimals = 1, BELOW(speed.gpu_energy)) },
    /* ---- probabilities against the reference's ---- */
    { FIGURE(MOVED, "patch_agreement", moved.patch_agreement, ONE, HIGHER,
             .shown = ALL | HRF_IN_TEXT, .column = 50, .heading = "patch agreement",
             .short_heading = "agreement",
             .help = "of the patches that the reference has too, the share with the same label",
             .decimals = 4) },
    { FIGURE(
        MOVED, "max_abs_difference", moved.max_abs_difference, ONE, LOWER,
        .shown = ALL | HRF_IN_TEXT, .column = 70, .heading = "max |Δp|",
        .short_heading = "max |dp|",
        .help = "the largest difference of a probability from the reference's, over all classes",
        .decimals = HRF_3_DIGITS) },
    { FIGURE(MOVED, "mean_abs_difference", moved.mean_abs_difference, ONE, LOWER,
             .shown = ALL | HRF_IN_TEXT, .column = 80, .heading = "mean |Δp|",
             .short_heading = "mean |dp|", .help = "the mean of these differences",
             .decimals = HRF_3_DIGITS) },
    { FIGURE(MOVED, "patches_compared", moved.difference.n_patches, COUNT, NEITHER,
             .shown = HRF_IN_JSON | HRF_IN_CSV, .column = 40,
             .help = "patches that the reference has too") },
    { FIGURE(MOVED, "patch_flips", moved.difference.n_flips, COUNT, LOWER,
             .shown = ALL | HRF_IN_TEXT, .column = 60, .heading = "patch flips",
             .short_heading = "patch flips",
             .help = "the number of patches with another label than the reference's",
             COUNTED_BY(moved.difference.n_patches)) },
    /* ---- slides ---- */
    { FIGURE(
        AUC, "slide_auc", slides.auc, ONE, HIGHER, .shown = ALL | HRF_IN_TEXT, .column = 100,
        .heading = "slide AUC", .short_heading = "slide AUC",
        .help =
            "area under the ROC curve of slide scores; its 95 % interval by Newcombe's method 5, "
            "which is right for few slides and has a width for an AUC of 1",
        .decimals = 4, .interval_decimals = 3, INTERVAL_OF(slides.auc_interval)) },
    { FIGURE(
        SLIDES, "average_precision", slides.average_precision, ONE, HIGHER, .shown = HRF_IN_JSON,
        .column = 105,
        .help = "the area under the precision-recall curve, by steps (as scikit-learn's "
                "`average_precision_score`); calling slides at random has the share of positive "
                "slides",
        .decimals = 4) },
    { FIGURE(
        SLIDES, "auc_difference", slides.auc_difference, ONE, HIGHER,
        .shown = ALL | HRF_IN_TEXT | HRF_ONLY_OTHERS, .column = 110, .heading = "ΔAUC",
        .short_heading = "AUC diff",
        .help =
            "`slide_auc` less the reference's, over slides that both scored; DeLong's interval, "
            "null if both precisions order every pair of slides alike, for then nothing can be "
            "tested",
        .decimals = 4, .interval_decimals = 4, INTERVAL_OF(slides.auc_difference_interval)) },
    { FIGURE(
        SLIDES, "delong_p", slides.delong_p, ONE, NEITHER, .shown = ALL | HRF_IN_TEXT,
        .column = 140, .heading = "DeLong p", .hint = "DeLong's paired test against the reference",
        .short_heading = "p",
        .help = "the p value of `auc_difference`, by DeLong's paired test; null as its interval",
        .decimals = 3) },
    { FIGURE(SLIDES, "calibration_error", slides.calibration_error, ONE, LOWER,
             .shown = ALL | HRF_IN_TEXT, .column = 170, .heading = "ECE",
             .hint = "expected calibration error", .short_heading = "ECE",
             .help = "the mean difference between `mean_score` and `positive_fraction` of "
                     "`calibration_curve`, weighted by slides",
             .decimals = 4) },
    { FIGURE(ACCURACY, "slide_accuracy", slides.accuracy, ONE, HIGHER, .shown = ALL, .column = 150,
             .heading = "accuracy", .help = "the share of labels that are the truth's",
             .decimals = 4) },
    { FIGURE(ACCURACY, "balanced_accuracy", slides.balanced_accuracy, ONE, HIGHER,
             .shown = HRF_IN_JSON, .column = 155,
             .help = "the mean over the classes of their `recall`", .decimals = 4) },
    { FIGURE(
        MACRO, "macro_auc", slides.macro_auc, ONE, HIGHER, .shown = HRF_IN_JSON, .column = 156,
        .help = "of three or more classes: the mean of their `auc`, which terminal and page show "
                "instead of `slide_auc`, the positive class's alone",
        .decimals = 4) },
    { FIGURE(
        PATCHES, "patch_auc", patches.auc, ONE, HIGHER, .shown = ALL, .column = 120,
        .heading = "patch AUC", .hint = "against the outlines; intervals by slide",
        .help =
            "area under the ROC curve of patches against the outlines of lesions: a patch is "
            "positive if at least half of its area is in one. Outlines are drawn in the pixels "
            "of level 5 that CAMELYON16 evaluates by (32 px of level 0), whose centre decides: "
            "at the edge of a lesion the share is right to half such a pixel, 6 % of a patch of "
            "256 px, and a patch that is nearer to one half may count as either. The interval "
            "takes patches of a slide as the cluster that they are (Obuchowski 1997)",
        .decimals = 4, .interval_decimals = 3, INTERVAL_OF(patches.auc_interval)) },
    { FIGURE(
        PATCHES, "patch_auc_difference", patches.auc_difference, ONE, HIGHER,
        .shown = ALL | HRF_ONLY_OTHERS, .column = 130, .heading = "Δ patch AUC",
        .help = "`patch_auc` less the reference's, paired; the interval is null if all patches are "
                "ordered alike",
        .decimals = 5, .interval_decimals = 5, INTERVAL_OF(patches.auc_difference_interval)) },
    { FIGURE(
        LABELLED, "labelled_slides", slides.n_labelled, COUNT, NEITHER, .csv = "slides_labelled",
        .shown = HRF_IN_JSON | HRF_IN_CSV, .column = 90,
        .help = "the slides that the figures of slides are computed from: they have a truth and a "
                "score in this precision") },
    { FIGURE(
        LABELLED, "labelled_slides_without_score", slides.n_unscored, COUNT, LOWER,
        .shown = HRF_IN_JSON, .column = 95,
        .help = "slides that have a truth but no score, so they are not in these figures: failed, "
                "without tissue, not done yet; excluded slides are not counted") },
    { FIGURE(
        LABELLED, "slide_flips", slides.n_flips, COUNT, LOWER,
        .shown = HRF_IN_CSV | HRF_IN_PAGE | HRF_IN_TEXT, .column = 160, .heading = "slide flips",
        .short_heading = "slide flips",
        .help =
            "the number of slides with another label than the reference's; in `report.json` the "
            "slides themselves") },
    /* ---- embeddings ---- */
    { FIGURE(EMBEDDING, "width", embeddings.drift.width, COUNT, NEITHER, .csv = "embedding_width",
             .shown = HRF_IN_JSON | HRF_IN_CSV, .column = 360, .help = "numbers of one embedding",
             COUNTED_BY(embeddings.drift.width)) },
    { FIGURE(EMBEDDING, "patches_compared", embeddings.drift.n_patches, COUNT, NEITHER,
             .shown = HRF_IN_JSON | HRF_IN_PAGE | HRF_IN_TEXT, .column = 365, .heading = "patches",
             .short_heading = "compared",
             .help = "patches that have an embedding at both this precision and the reference") },
    { FIGURE(EMBEDDING, "cosine_mean", embeddings.cosine_mean, ONE, HIGHER,
             .shown = ALL | HRF_IN_TEXT, .column = 370, .heading = "mean",
             .short_heading = "cos mean",
             .help = "over these patches, the mean cosine of the embedding with the reference's",
             .decimals = 6) },
    { FIGURE(EMBEDDING, "cosine_median", embeddings.cosine_median, ONE, HIGHER,
             .shown = HRF_IN_JSON | HRF_IN_PAGE | HRF_IN_TEXT, .column = 375, .heading = "median",
             .short_heading = "median", .help = "the median of the cosines", .decimals = 6) },
    { FIGURE(EMBEDDING, "cosine_percentile1", embeddings.cosine_percentile1, ONE, HIGHER,
             .shown = ALL | HRF_IN_TEXT, .column = 380, .heading = "1st percentile",
             .short_heading = "1st perc.", .help = "their first percentile", .decimals = 6) },
    { FIGURE(EMBEDDING, "cosine_least", embeddings.cosine_min, ONE, HIGHER,
             .shown = ALL | HRF_IN_TEXT, .column = 390, .heading = "least",
             .short_heading = "least", .help = "the least of them", .decimals = 6) },
    { FIGURE(
        EMBEDDING, "neighbours_kept", embeddings.neighbours_kept, ONE, HIGHER,
        .shown = ALL | HRF_IN_TEXT, .column = 400, .heading = "neighbours kept",
        .hint = "share of the 10 nearest neighbours of a patch on its slide that stay so",
        .short_heading = "neighbours",
        .help =
            "the share of a patch's 10 nearest neighbours (by cosine, among a sample of at most "
            "512 patches of its slide) that are its neighbours in this precision, too; null for "
            "the reference",
        .decimals = 4) },
    { FIGURE(EMBEDDING, "neighbours_patches", embeddings.neighbours.n_patches, COUNT, NEITHER,
             .shown = HRF_IN_JSON, .column = 405, .help = "patches that this share is of") },
/* ---- timing ---- */
#define TIME(member, where, ...)                                                                   \
    .key = #member, .part = HRF_FIGURES_TIMING, .unit = HRF_UNIT_SECONDS,                          \
    .better = HRF_BETTER_LOWER, .column = where, OF(jobs.timing.member),                           \
    COUNTED_BY(jobs.n_patches), __VA_ARGS__
    { TIME(build, 275, .shown = HRF_IN_JSON,
           .help = "loading and planning the model, making kernels") },
    { TIME(decode, 280, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "decode_seconds",
           .help = "reading and decompressing, all reader threads together") },
    { TIME(prepare, 290, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "prepare_seconds",
           .help = "resampling and normalising, all reader threads together") },
    { TIME(compute, 310, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "compute_seconds",
           .help = "of this precision's network alone") },
    { TIME(copy, 320, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "copy_seconds",
           .unknown = no_device,
           .help = "on a GPU, by its own clock: pixels to the device, which may overlap with "
                   "computation") },
    { TIME(kernels, 330, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "kernels_seconds",
           .unknown = no_device, .help = "on a GPU, by its own clock: kernels") },
    { TIME(wait, 300, .shown = HRF_IN_JSON | HRF_IN_CSV, .csv = "wait_seconds",
           .help = "the network waits for patches") },
    { TIME(write, 335, .shown = HRF_IN_JSON, .help = "writing records") },
    { TIME(total, 336, .shown = HRF_IN_JSON, .help = "of the jobs, added up") },
    /* ---- numbers against numbers ---- */
    { FIGURE(REGRESSION, "slides", slides.regression.n, COUNT, NEITHER, .shown = HRF_IN_JSON,
             .column = 440, .help = "slides that have a score and a number as truth") },
    { FIGURE(REGRESSION, "mean_absolute_error", slides.mean_absolute_error, OF_SCORE, LOWER,
             .shown = HRF_IN_JSON, .column = 441, .help = "of the scores, over these slides",
             .decimals = 4) },
    { FIGURE(REGRESSION, "r2", slides.regression.r2, ONE, HIGHER, .shown = HRF_IN_JSON,
             .column = 442,
             .help = "1 less the squared error over the truths' squared distance from their mean",
             .decimals = 4) },
    { FIGURE(REGRESSION, "spearman", slides.regression.spearman, ONE, HIGHER, .shown = HRF_IN_JSON,
             .column = 443, .help = "rank correlation", .decimals = 4) },
    { FIGURE(LESIONS, "score", lesions.score, ONE, HIGHER, .shown = HRF_IN_JSON, .column = 450,
             .help = "of CAMELYON16's lesion task: the mean sensitivity at 1/4 to 8 false "
                     "positives per slide",
             .decimals = 4) },
    { .key = NULL },
};

/* A row of a table without parts. */
#define TABLE_FIGURE(base, name, member, unit_, better_, ...)                                      \
    .key = name, HRF_FIGURE_AT(base, member), .unit = HRF_UNIT_##unit_,                            \
    .better = HRF_BETTER_##better_, .shown = HRF_IN_JSON | HRF_IN_PAGE, __VA_ARGS__
#define CLASS_FIGURE(name, member, unit_, better_, ...)                                            \
    TABLE_FIGURE(hrf_class_figures, name, member, unit_, better_, __VA_ARGS__)
const struct hrf_figure_row hrf_class_rows[] = {
    { CLASS_FIGURE("slides", n_slides, COUNT, NEITHER, .column = 1, .heading = "slides",
                   .help = "labelled slides of the class") },
    { CLASS_FIGURE("auc", auc, ONE, HIGHER, .column = 2, .heading = "AUC",
                   .help = "of the class's score against all others", .decimals = 3,
                   .interval_decimals = 3,
                   HRF_FIGURE_INTERVAL_AT(hrf_class_figures, auc_interval)) },
    { CLASS_FIGURE("average_precision", average_precision, ONE, HIGHER, .column = 3,
                   .heading = "average precision", .help = "of the class's score, likewise",
                   .decimals = 3) },
    { CLASS_FIGURE("recall", recall, ONE, HIGHER, .column = 4, .heading = "recall",
                   .help = "of the class's slides, the share that got its label", .decimals = 3) },
    { CLASS_FIGURE("class_precision", precision, ONE, HIGHER, .column = 5, .heading = "precision",
                   .help = "of the slides with its label, the share that is of the class",
                   .decimals = 3) },
    { .key = NULL },
};

static double sensitivity(const void *base)
{
    return hrf_confusion_sensitivity(base);
}

static double specificity(const void *base)
{
    return hrf_confusion_specificity(base);
}

static double positive_value(const void *base)
{
    return hrf_confusion_positive_value(base);
}

static double negative_value(const void *base)
{
    return hrf_confusion_negative_value(base);
}

static double f1(const void *base)
{
    return hrf_confusion_f1(base);
}

#define OF_CONFUSION(member) HRF_FIGURE_AT(hrf_confusion, member)
#define SHARE(function)                                                                            \
    .unit = HRF_UNIT_ONE, .better = HRF_BETTER_HIGHER, .shown = HRF_IN_JSON | HRF_IN_PAGE,         \
    .decimals = 3, .type = HRF_FIGURE_COMPUTED, .compute = function
#define SLIDES(kind, how)                                                                          \
    .unit = HRF_UNIT_COUNT, .better = how, .shown = HRF_IN_JSON | HRF_IN_PAGE,                     \
    .help = kind " slides", .hint = kind
const struct hrf_figure_row hrf_confusion_rows[] = {
    { .key = "true_positive",
      .column = 6,
      .heading = "TP",
      SLIDES("true positive", HRF_BETTER_HIGHER),
      OF_CONFUSION(true_positive) },
    { .key = "false_positive",
      .column = 7,
      .heading = "FP",
      SLIDES("false positive", HRF_BETTER_LOWER),
      OF_CONFUSION(false_positive) },
    { .key = "true_negative",
      .column = 8,
      .heading = "TN",
      SLIDES("true negative", HRF_BETTER_HIGHER),
      OF_CONFUSION(true_negative) },
    { .key = "false_negative",
      .column = 9,
      .heading = "FN",
      SLIDES("false negative", HRF_BETTER_LOWER),
      OF_CONFUSION(false_negative) },
    { .key = "sensitivity",
      .column = 1,
      .heading = "sensitivity",
      SHARE(sensitivity),
      .help = "of the positive slides, the share that is called so",
      .unknown = "no positive slide was scored" },
    { .key = "specificity",
      .column = 2,
      .heading = "specificity",
      SHARE(specificity),
      .help = "of the negative slides, the share that is called so",
      .unknown = "no negative slide was scored" },
    { .key = "positive_predictive_value",
      .column = 3,
      .heading = "PPV",
      .hint = "positive predictive value: precision",
      SHARE(positive_value),
      .help = "of the slides called positive, the share that is",
      .unknown = "no slide was called positive" },
    { .key = "negative_predictive_value",
      .column = 4,
      .heading = "NPV",
      .hint = "negative predictive value",
      SHARE(negative_value),
      .help = "of the slides called negative, the share that is",
      .unknown = "no slide was called negative" },
    { .key = "f1",
      .column = 5,
      .heading = "F1",
      SHARE(f1),
      .help = "the harmonic mean of sensitivity and positive predictive value",
      .unknown = "no slide is or was called positive" },
    { .key = NULL },
};

#define REGION(name, member, unit_, better_, ...)                                                  \
    TABLE_FIGURE(hrf_region_figures, name, member, unit_, better_, __VA_ARGS__)
const struct hrf_figure_row hrf_region_rows[] = {
    { REGION("mm2", mm2, SQUARE_MM, NEITHER, .column = 1, .heading = "mm²",
             .help = "area on all slides", .decimals = HRF_4_DIGITS) },
    { REGION("dice", dice, ONE, HIGHER, .column = 2, .heading = "Dice",
             .help = "against annotations, over the pixels of all judged slides together",
             .decimals = 4) },
    { REGION("iou", iou, ONE, HIGHER, .column = 3, .heading = "IoU", .help = "likewise",
             .decimals = 4) },
    { REGION("mean_dice", mean_dice, ONE, HIGHER, .column = 4, .heading = "mean Dice of slides",
             .help = "over the slides that have the class", .decimals = 4) },
    { REGION("slides_judged", n_judged, COUNT, NEITHER, .column = 5, .heading = "slides judged",
             .help = "slides with a truth of the class") },
    { REGION("slides_with_class", n_present, COUNT, NEITHER, .column = 6,
             .heading = "with the class", .help = "slides that have it") },
    { .key = NULL },
};

static double gb_per_second(const void *base)
{
    const struct hrf_traffic *t = base;
    const double seconds = t->sending + t->receiving;
    return seconds > 0.0 ? (double)t->bytes / seconds * 1e-9 : (double)NAN;
}

#define TRAFFIC(name, member, unit_, ...)                                                          \
    TABLE_FIGURE(hrf_traffic, name, member, unit_, NEITHER, __VA_ARGS__)
const struct hrf_figure_row hrf_traffic_rows[] = {
    { TRAFFIC("messages", messages, COUNT, .column = 1, .heading = "messages",
              .help = "messages between ranks") },
    { TRAFFIC("bytes", bytes, BYTES, .column = 2, .heading = "sent", .help = "what they carried") },
    { TRAFFIC("sending_seconds", sending, SECONDS, .column = 3, .heading = "sending",
              .help = "in sending, all ranks together") },
    { TRAFFIC("receiving_seconds", receiving, SECONDS, .column = 4, .heading = "receiving",
              .hint = "waiting for each other included",
              .help = "in receiving, waiting included, all ranks together") },
    { .key = "gb_per_s",
      .unit = HRF_UNIT_GB_PER_SECOND,
      .better = HRF_BETTER_HIGHER,
      .shown = HRF_IN_JSON | HRF_IN_PAGE,
      .column = 5,
      .heading = "GB/s",
      .help = "bytes over the seconds of sending and receiving",
      .decimals = 3,
      .type = HRF_FIGURE_COMPUTED,
      .compute = gb_per_second },
    { .key = NULL },
};

/* ---- slide heads by the precision of the encoder ---- */

#define HEAD(name, member, unit_, better_, ...)                                                    \
    TABLE_FIGURE(hrf_head_study, name, member, unit_, better_, __VA_ARGS__)
#define BY_LABEL  .reason_at = offsetof(struct hrf_head_study, why)
#define BY_SCORES .unknown = "no slide has both scores"
const struct hrf_figure_row hrf_head_study_rows[] = {
    { HEAD("slides", n_slides, COUNT, NEITHER, .column = 1, .heading = "slides",
           .help = "slides that have both scores, this one and the first precision's") },
    { .key = "labelled",
      HRF_FIGURE_AT(hrf_head_study, n_labelled),
      .unit = HRF_UNIT_COUNT,
      .better = HRF_BETTER_NEITHER,
      .shown = HRF_IN_JSON,
      .column = 2,
      .help = "slides of these with a truth" },
    { HEAD("auc", auc, ONE, HIGHER, .column = 3, .heading = "AUC", .decimals = 4, BY_LABEL,
           .help = "over the labelled slides") },
    { HEAD("auc_difference", auc_difference, ONE, HIGHER, .column = 4, .heading = "difference",
           .hint = "less the first precision's; 95 % by DeLong", .decimals = 4,
           .interval_decimals = 4, BY_LABEL,
           HRF_FIGURE_INTERVAL_AT(hrf_head_study, auc_difference_interval),
           .help = "`auc` less the first precision's over the same slides; DeLong's interval") },
    { HEAD("balanced_accuracy", balanced_accuracy, ONE, HIGHER, .column = 5,
           .heading = "balanced accuracy", .decimals = 4, BY_LABEL,
           .help = "the mean of sensitivity and specificity at the threshold") },
    { HEAD("mean_difference", mean_difference, ONE, LOWER, .column = 6,
           .heading = "mean |difference| of scores", .decimals = 6, BY_SCORES,
           .help = "the mean difference of a slide's two scores, without its sign") },
    { HEAD("largest_difference", largest, ONE, LOWER, .column = 7, .heading = "largest",
           .decimals = 6, BY_SCORES, .help = "the largest of these differences") },
    { HEAD("flips", n_flips, COUNT, LOWER, .column = 8, .heading = "flips",
           .help = "slides whose two scores are on different sides of the threshold") },
    { .key = NULL },
};

/* ---- jobs ---- */

/* A number that a job reports, where 0 stands for "not known". */
static double known(int64_t value)
{
    return value > 0 ? (double)value : (double)NAN;
}

static double started_ms(const void *base)
{
    return known(((const struct hrf_cohort_job *)base)->usage.started_ms);
}

static double finished_ms(const void *base)
{
    return known(((const struct hrf_cohort_job *)base)->usage.finished_ms);
}

static double queued_seconds(const void *base)
{
    const struct hrf_cohort_job *job = base;
    const int64_t ms = job->usage.started_ms - job->submitted_ms;
    return ms >= 0 ? (double)ms / 1e3 : (double)NAN;
}

static double run_seconds(const void *base)
{
    const struct hrf_cohort_job *job = base;
    return job->has_ended ? (double)(hrf_cohort_job_end(job) - hrf_cohort_job_start(job)) / 1e3
                          : (double)NAN;
}

static double processor_seconds(const void *base)
{
    return known(((const struct hrf_cohort_job *)base)->usage.cpu_ms) / 1e3;
}

static double processors(const void *base)
{
    const double seconds = run_seconds(base);
    return seconds > 0 ? processor_seconds(base) / seconds : (double)NAN;
}

static double peak_process_bytes(const void *base)
{
    return known(((const struct hrf_cohort_job *)base)->usage.peak_bytes);
}

/* Only a job of inference computes, and it may never have waited. */
static double waiting_seconds(const void *base)
{
    const struct hrf_job_usage *u = &((const struct hrf_cohort_job *)base)->usage;
    return u->wait_ms + u->compute_ms > 0 ? (double)u->wait_ms / 1e3 : (double)NAN;
}

static double computing_seconds(const void *base)
{
    return known(((const struct hrf_cohort_job *)base)->usage.compute_ms) / 1e3;
}

#define JOB(name, unit_, better_, ...)                                                             \
    .key = name, .unit = HRF_UNIT_##unit_, .better = HRF_BETTER_##better_, __VA_ARGS__
#define JOB_TIME(name, function, ...)                                                              \
    JOB(name, SECONDS, LOWER, .type = HRF_FIGURE_COMPUTED, .compute = function, __VA_ARGS__)
#define JOB_CLOCK(name, ...) JOB(name, CLOCK_MS, NEITHER, .shown = HRF_IN_JSON, __VA_ARGS__)
const struct hrf_figure_row hrf_job_rows[] = {
    { JOB("attempt", COUNT, NEITHER, HRF_FIGURE_AT(hrf_cohort_job, attempt),
          .shown = HRF_IN_JSON | HRF_IN_PAGE, .column = 1, .heading = "attempt",
          .help = "counts from 1") },
    { JOB("tasks", COUNT, NEITHER, HRF_FIGURE_AT(hrf_cohort_job, n_tasks),
          .shown = HRF_IN_JSON | HRF_IN_PAGE, .column = 9, .heading = "tasks",
          .help = "number of tasks that it was given") },
    { JOB_CLOCK("submitted_ms", HRF_FIGURE_AT(hrf_cohort_job, submitted_ms), .column = 10,
                .help = "when the driver submitted it, by the driver's clock") },
    { JOB_CLOCK("started_ms", .type = HRF_FIGURE_COMPUTED, .compute = started_ms, .column = 11,
                .help = "when it started, by its own clock") },
    { JOB_CLOCK("finished_ms", .type = HRF_FIGURE_COMPUTED, .compute = finished_ms, .column = 12,
                .help = "when it ended, likewise") },
    { JOB_TIME("queued", queued_seconds, .shown = HRF_IN_PAGE, .column = 2, .heading = "queued",
               .help = "from its submission to its start; only on the page") },
    { JOB_TIME("ran", run_seconds, .shown = HRF_IN_PAGE, .column = 3, .heading = "ran",
               .help = "from its start to its end; only on the page") },
    { JOB_TIME("processor_seconds", processor_seconds, .shown = HRF_IN_JSON | HRF_IN_PAGE,
               .column = 4, .heading = "processor time",
               .help = "of its processes, all ranks together; null if one of them was killed") },
    { JOB("processors", PROCESSORS, NEITHER, .type = HRF_FIGURE_COMPUTED, .compute = processors,
          .shown = HRF_IN_PAGE, .column = 5, .heading = "processors", .decimals = 2,
          .help = "processor time over the time that it ran; only on the page") },
    { JOB("peak_process_bytes", BYTES, LOWER, .type = HRF_FIGURE_COMPUTED,
          .compute = peak_process_bytes, .shown = HRF_IN_JSON | HRF_IN_PAGE, .column = 6,
          .heading = "memory",
          .help = "the largest resident set of a process; null if one was killed") },
    { JOB_TIME("wait_seconds", waiting_seconds, .shown = HRF_IN_JSON | HRF_IN_PAGE, .column = 7,
               .heading = "network waited",
               .help = "of inference: the network waited for patches") },
    { JOB_TIME("compute_seconds", computing_seconds, .shown = HRF_IN_JSON | HRF_IN_PAGE,
               .column = 8, .heading = "computed", .help = "of inference: the network computed") },
    { .key = NULL },
};

/* ---- by members of a precision ---- */

const struct hrf_figure_row *hrf_figure_row_at(size_t at)
{
    const struct hrf_figure_row *row = hrf_precision_rows;
    while (row->type == HRF_FIGURE_COMPUTED || row->at != at) {
        row++;
        assert(row->key != NULL);
    }
    return row;
}

void hrf_figures_leave_out(struct hrf_cohort_precision *precision, enum hrf_figure_part from,
                           enum hrf_figure_part to, const char *reason)
{
    for (const struct hrf_figure_row *row = hrf_precision_rows; row->key != NULL; row++) {
        if (row->type != HRF_FIGURE_VALUE || !hrf_figure_is_of(row, (int)from, (int)to))
            continue;
        struct hrf_figure *figure = (struct hrf_figure *)(void *)((char *)precision + row->at);
        hrf_free(figure->reason);
        *figure = (struct hrf_figure){ NAN, hrf_strdup(reason) };
    }
}
