/* figures.c - what a cohort's truths, scores and times come to. Pure. */
#include "aggregate/study/figure_rows.h"
#include "aggregate/study/lesion_task.h"
#include "aggregate/study/patch_task.h"
#include "statistics/precision_recall.h"

#include <math.h>
#include <string.h>

/* Why a run of embeddings has no figure of scores. */
static const char *const no_scores = "the model gives embeddings, not scores (model.output)";

static const char no_label[] = "no slide with a label was scored";
static const char no_patch[] = "no patch was scored";
static const char *const no_classes = "the model gives numbers, not classes (model.output none)";

static void set_reason(struct hrf_figure *figure, const char *reason)
{
    figure->value = NAN;
    figure->reason = hrf_strdup(reason);
}

static void count_states(struct hrf_cohort *cohort)
{
    struct hrf_cohort_counts *counts = &cohort->counts;
    *counts = (struct hrf_cohort_counts){ .total = cohort->n_slides };
    for (size_t i = 0; i < cohort->n_slides; i++) {
        enum hrf_slide_state state = cohort->slides[i].state;
        *(state == HRF_SLIDE_DONE        ? &counts->done
          : state == HRF_SLIDE_FAILED    ? &counts->failed
          : state == HRF_SLIDE_NO_TISSUE ? &counts->no_tissue
          : state == HRF_SLIDE_EXCLUDED  ? &counts->excluded
                                         : &counts->pending) += 1;
    }
}

/* Insertion into a short sorted list; of equal ones the earlier first. */
static void find_top_flips(struct hrf_moved_figures *m)
{
    const struct hrf_difference *d = &m->difference;
    for (size_t i = 0; i < d->n_flips; i++) {
        size_t at = m->n_top_flips;
        while (at > 0 && d->flips[m->top_flips[at - 1]].difference < d->flips[i].difference)
            at--;
        if (at == HRF_TOP_FLIPS)
            continue;
        const size_t n_moved = m->n_top_flips - at - (m->n_top_flips == HRF_TOP_FLIPS);
        memmove(&m->top_flips[at + 1], &m->top_flips[at], n_moved * sizeof m->top_flips[0]);
        m->top_flips[at] = i;
        m->n_top_flips += m->n_top_flips < HRF_TOP_FLIPS;
    }
}

static void finish_difference(const struct hrf_cohort *cohort, struct hrf_cohort_precision *p)
{
    struct hrf_difference *d = &p->moved.difference;
    if (d->n_patches == 0) {
        hrf_figures_leave_out(p, HRF_FIGURES_MOVED, HRF_FIGURES_MOVED,
                              cohort->is_embedding ? no_scores
                                                   : "no patch was scored at both this precision "
                                                     "and the reference");
        return;
    }
    if (cohort->is_regression)
        set_reason(&p->moved.patch_agreement, no_classes);
    else
        p->moved.patch_agreement.value = (double)(d->n_patches - (int64_t)d->n_flips) /
                                         (double)d->n_patches;
    p->moved.max_abs_difference.value = d->largest;
    p->moved.mean_abs_difference.value = d->sum / (double)d->n_probabilities;
    if (cohort->is_regression)
        d->n_flips = 0; /* a number is no label that could change */
    find_top_flips(&p->moved);
}

static void finish_drift(const struct hrf_cohort *cohort, struct hrf_cohort_precision *p)
{
    struct hrf_embedding_figures *e = &p->embeddings;
    const struct hrf_drift_summary s = hrf_drift_summarise(&e->drift);
    const char *why = cohort->is_embedding
                          ? "no patch has an embedding at both this precision and the reference"
                          : "the model gives no embeddings (model.output)";
    e->cosine_mean.value = s.mean;
    e->cosine_median.value = s.median;
    e->cosine_percentile1.value = s.percentile1;
    e->cosine_min.value = s.min;
    if (e->drift.n_patches == 0)
        hrf_figures_leave_out(p, HRF_FIGURES_EMBEDDING, HRF_FIGURES_EMBEDDING, why);
    hrf_free(e->neighbours_kept.reason);
    e->neighbours_kept = (struct hrf_figure){ hrf_neighbours_kept(&e->neighbours), NULL };
    if (isnan(e->neighbours_kept.value))
        set_reason(&e->neighbours_kept, !cohort->is_embedding         ? why
                                        : p == &cohort->precisions[0] ? "it is the reference"
                                                                      : "no slide has more than "
                                                                        "10 patches");
}

static void set_ratio(struct hrf_figure *figure, double above, double below, const char *reason)
{
    if (above > 0.0 && below > 0.0)
        figure->value = above / below;
    else
        set_reason(figure, reason);
}

/* A number of bytes that stays 0 where it is not known. */
static void finish_bytes(struct hrf_figure *figure, bool is_known, const char *reason)
{
    if (!is_known)
        set_reason(figure, reason);
}

/* Joules a patch and a slide, or why not. */
static void spread_energy(struct hrf_figure *patch, struct hrf_figure *slide,
                          const struct hrf_precision_jobs *jobs, double joules,
                          const char *unmeasured)
{
    const char *why = jobs->n_patches == 0 ? no_patch : isnan(joules) ? unmeasured : NULL;
    if (why != NULL) {
        set_reason(patch, why);
        set_reason(slide, why);
        return;
    }
    patch->value = joules / (double)jobs->n_patches;
    slide->value = joules / (double)jobs->n_slides;
}

static void finish_speed(struct hrf_cohort_precision *p,
                         const struct hrf_cohort_precision *reference)
{
    static const char not_both[] = "no patch was scored at this precision or at the reference";
    const struct hrf_precision_jobs *jobs = &p->jobs, *first = &reference->jobs;
    const double n = (double)jobs->n_patches, n_first = (double)first->n_patches;
    const bool is_scored = jobs->n_patches > 0, has_gpu = !isnan(jobs->timing.kernels);
    struct hrf_speed_figures *s = &p->speed;
    if (is_scored)
        s->seconds.value = jobs->timing.total;
    else
        set_reason(&s->seconds, no_patch);
    set_ratio(&s->patches_per_second, n, jobs->timing.total, no_patch);
    set_ratio(&s->slides_per_hour, 3600.0 * (double)jobs->n_slides, jobs->timing.total, no_patch);
    set_ratio(&s->computed_per_second, n, jobs->timing.compute, no_patch);
    set_ratio(&s->speedup, n * first->timing.total, n_first * jobs->timing.total, not_both);
    set_ratio(&s->compute_speedup, n * first->timing.compute, n_first * jobs->timing.compute,
              not_both);
    set_ratio(&s->memory_ratio, s->peak_memory.value, reference->speed.peak_memory.value, not_both);
    finish_bytes(&s->peak_memory, is_scored, no_patch);
    finish_bytes(&s->peak_process, s->peak_process.value > 0,
                 is_scored ? "the jobs did not tell" : no_patch);
    finish_bytes(&s->device_memory, s->device_memory.value > 0,
                 !is_scored ? no_patch
                 : has_gpu  ? "NVIDIA's driver (NVML) did not tell"
                            : "no GPU computed");
    spread_energy(&s->energy, &s->slide_energy, jobs, jobs->energy_joules,
                  "not measured: the machine's energy counters (RAPL) cannot be read");
    spread_energy(&s->gpu_energy, &s->slide_gpu_energy, jobs, jobs->gpu_energy_joules,
                  has_gpu ? "not measured: NVIDIA's driver (NVML) does not tell"
                          : "no GPU computed");
}

static void finish_flips(struct hrf_cohort *cohort, size_t index)
{
    struct hrf_slide_figures *s = &cohort->precisions[index].slides;
    s->flips = hrf_alloc_array(cohort->n_slides + 1, sizeof *s->flips);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_score *scores = cohort->slides[i].scores;
        if (hrf_cohort_differs(cohort, &scores[0], &scores[index]))
            s->flips[s->n_flips++] = i;
    }
}

/* A metric that refuses says why. */
static void finish_auc(struct hrf_slide_figures *s, const struct hrf_labelled *items, uint64_t seed)
{
    struct hrf_error why = { .status = HRF_OK };
    size_t n_positive = 0;
    hrf_pairs_count(items, s->n_labelled, &s->pairs);
    if (hrf_auc(items, s->n_labelled, &s->auc.value, &why) != HRF_OK ||
        hrf_average_precision(items, s->n_labelled, &s->average_precision.value, &why) != HRF_OK ||
        hrf_auc_interval(items, s->n_labelled, HRF_BOOTSTRAP_RESAMPLES, seed, &s->auc_bootstrap,
                         &why) != HRF_OK) {
        set_reason(&s->average_precision, why.text);
        set_reason(&s->auc, why.text);
        return;
    }
    for (size_t i = 0; i < s->n_labelled; i++)
        n_positive += items[i].positive;
    s->auc_interval = hrf_auc_newcombe(s->auc.value, (int64_t)n_positive,
                                       (int64_t)(s->n_labelled - n_positive));
}

/* Labels that are right; of three or more classes each with its own recall. */
static void finish_accuracy(const struct hrf_cohort *cohort, size_t index,
                            struct hrf_slide_figures *s)
{
    double sum = 0.0;
    size_t n_right = 0, n = 0;
    if (s->n_labelled == 0) {
        set_reason(&s->balanced_accuracy, no_label);
        set_reason(&s->accuracy, no_label);
        return;
    }
    for (size_t i = 0; i < cohort->n_slides; i++)
        n_right += hrf_cohort_is_right(cohort, &cohort->slides[i], index);
    s->accuracy.value = (double)n_right / (double)s->n_labelled;
    const double binary[] = { hrf_confusion_sensitivity(&s->confusion),
                              hrf_confusion_specificity(&s->confusion) };
    for (size_t i = 0; i < (s->by_class != NULL ? cohort->n_classes : 2); i++) {
        const double recall = s->by_class != NULL ? s->by_class[i].recall.value : binary[i];
        if (isnan(recall))
            continue;
        sum += recall;
        n++;
    }
    s->balanced_accuracy.value = sum / (double)n;
    if (n < 2)
        set_reason(&s->balanced_accuracy, "labelled slides of one class only");
}

static enum hrf_status finish_slides(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_slide_figures *s = &cohort->precisions[index].slides;
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    s->n_labelled = s->n_unscored = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[index];
        const bool has_truth = slide->truth != HRF_TRUTH_UNKNOWN;
        s->n_unscored += has_truth && !score->known && slide->state != HRF_SLIDE_EXCLUDED;
        if (score->known && has_truth)
            items[s->n_labelled++] = (struct hrf_labelled){ score->value,
                                                            slide->truth == HRF_TRUTH_POSITIVE };
    }
    finish_auc(s, items, cohort->seed);
    s->confusion = hrf_confusion_count(items, s->n_labelled, cohort->threshold);
    if (s->n_labelled > 0)
        HRF_TRY(
            hrf_operating_rows_fill(items, s->n_labelled, cohort->threshold, &s->operating, err));
    HRF_TRY(hrf_cohort_finish_classes(cohort, index, err));
    finish_accuracy(cohort, index, s);
    return HRF_OK;
}

/* Labelled slides that both this precision and the reference scored. */
static void finish_delong(struct hrf_cohort *cohort, size_t index)
{
    struct hrf_slide_figures *s = &cohort->precisions[index].slides;
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_delong test;
    size_t n = 0;
    HRF_AUTO_FREE struct hrf_paired *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *a = &slide->scores[0], *b = &slide->scores[index];
        if (a->known && b->known && slide->truth != HRF_TRUTH_UNKNOWN)
            items[n++] = (struct hrf_paired){ a->value, b->value,
                                              slide->truth == HRF_TRUTH_POSITIVE };
    }
    if (hrf_delong_test(items, n, &test, &why) != HRF_OK) {
        set_reason(&s->auc_difference, why.text);
        set_reason(&s->delong_p, why.text);
        return;
    }
    s->auc_difference.value = test.difference;
    if (test.variance <= 0.0) {
        s->auc_difference_interval = (struct hrf_interval){ NAN, NAN };
        set_reason(&s->delong_p,
                   index == 0 ? "this is the reference"
                              : "degenerate: both precisions order every pair of slides alike, so "
                                "that the difference has no spread to test");
        return;
    }
    const double reach = HRF_NORMAL_95 * sqrt(test.variance);
    s->delong_p.value = test.p;
    s->auc_difference_interval = (struct hrf_interval){ test.difference - reach,
                                                        test.difference + reach };
}

/* Numbers against numbers. */
static void finish_regression(struct hrf_cohort *cohort, size_t index)
{
    struct hrf_slide_figures *s = &cohort->precisions[index].slides;
    struct hrf_error why = { .status = HRF_OK };
    size_t n = 0;
    if (!cohort->is_regression) {
        set_reason(&s->mean_absolute_error, "the model gives classes, not numbers");
        return;
    }
    HRF_AUTO_FREE struct hrf_number_pair *pairs = hrf_alloc_array(cohort->n_slides + 1,
                                                                  sizeof *pairs);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->scores[index].known && !isnan(slide->truth_number))
            pairs[n++] = (struct hrf_number_pair){ slide->truth_number,
                                                   slide->scores[index].value };
    }
    if (hrf_regression_compute(pairs, n, &s->regression, &why) == HRF_OK)
        s->mean_absolute_error.value = s->regression.mean_absolute_error;
    else
        set_reason(&s->mean_absolute_error, why.text);
}

static void finish_reliability(struct hrf_cohort *cohort, size_t index)
{
    struct hrf_slide_figures *s = &cohort->precisions[index].slides;
    double error = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[index];
        if (!score->known || slide->truth == HRF_TRUTH_UNKNOWN)
            continue;
        const double at = fmin(fmax(score->value * HRF_RELIABILITY_BINS, 0.0),
                               HRF_RELIABILITY_BINS - 1);
        struct hrf_reliability_bin *bin = &s->reliability[(size_t)at];
        bin->n_slides++;
        bin->n_positive += slide->truth == HRF_TRUTH_POSITIVE;
        bin->score_sum += score->value;
        n++;
    }
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++)
        error += fabs(s->reliability[i].score_sum - (double)s->reliability[i].n_positive);
    s->calibration_error.value = error / (double)n;
    if (n == 0)
        set_reason(&s->calibration_error, no_label);
}

static void finish_heads(struct hrf_cohort *cohort, size_t index)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    if (!cohort->has_head || index == 0)
        return;
    HRF_AUTO_FREE struct hrf_head_pair *pairs = hrf_alloc_array(cohort->n_slides + 1,
                                                                sizeof *pairs);
    for (int is_own = 0; is_own < 2; is_own++) {
        for (size_t i = 0; i < cohort->n_slides; i++) {
            const struct hrf_cohort_slide *slide = &cohort->slides[i];
            const struct hrf_cohort_score *first = &slide->scores[0], *s = &slide->scores[index];
            const double moved = s->known ? s->value : (double)NAN;
            pairs[i] = (struct hrf_head_pair){ .reference = first->known ? first->value
                                                                         : (double)NAN,
                                               .value = !is_own           ? moved
                                                        : s->is_own_known ? s->own
                                                                          : (double)NAN,
                                               .has_truth = slide->truth != HRF_TRUTH_UNKNOWN,
                                               .is_positive = slide->truth == HRF_TRUTH_POSITIVE };
        }
        *(is_own ? &p->own_heads : &p->moved_heads) = hrf_head_study_of(pairs, cohort->n_slides,
                                                                        cohort->threshold);
    }
}

enum hrf_status hrf_cohort_finish(struct hrf_cohort *cohort, struct hrf_error *err)
{
    count_states(cohort);
    HRF_TRY(hrf_cohort_tune(cohort, err));
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        HRF_TRY(hrf_lesion_task_finish(cohort, i, err));
        HRF_TRY(hrf_patch_task_finish(cohort, i, err));
        finish_difference(cohort, &cohort->precisions[i]);
        finish_drift(cohort, &cohort->precisions[i]);
        finish_speed(&cohort->precisions[i], &cohort->precisions[0]);
        finish_regression(cohort, i);
        if (!hrf_cohort_scores_slides(cohort) || cohort->is_regression) {
            hrf_figures_leave_out(&cohort->precisions[i], HRF_FIGURES_AUC, HRF_FIGURES_ACCURACY,
                                  cohort->is_regression ? no_classes : no_scores);
            continue;
        }
        HRF_TRY(finish_slides(cohort, i, err));
        finish_heads(cohort, i);
        finish_flips(cohort, i);
        finish_delong(cohort, i);
        finish_reliability(cohort, i);
    }
    return HRF_OK;
}
