/* figures.c - what a cohort's truths, scores and times come to. Pure. */
#include "aggregate/camelyon16/precision_recall.h"
#include "aggregate/study/lesion_task.h"
#include "aggregate/study/patch_task.h"

#include <math.h>
#include <string.h>

/* Why a run of embeddings has no figure of scores. */
static const char *const no_scores = "the model gives embeddings, not scores (model.output)";

static const char *const no_classes = "the model gives numbers, not classes (model.output none)";

static enum hrf_status set_reason(struct hrf_figure *figure, const char *reason,
                                  struct hrf_error *err)
{
    figure->value = NAN;
    figure->reason = hrf_strdup(reason);
    return figure->reason != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory");
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
static void find_top_flips(struct hrf_cohort_precision *p)
{
    const struct hrf_difference *d = &p->difference;
    for (size_t i = 0; i < d->n_flips; i++) {
        size_t at = p->n_top_flips;
        while (at > 0 && d->flips[p->top_flips[at - 1]].difference < d->flips[i].difference)
            at--;
        if (at == HRF_TOP_FLIPS)
            continue;
        const size_t n_moved = p->n_top_flips - at - (p->n_top_flips == HRF_TOP_FLIPS);
        memmove(&p->top_flips[at + 1], &p->top_flips[at], n_moved * sizeof p->top_flips[0]);
        p->top_flips[at] = i;
        p->n_top_flips += p->n_top_flips < HRF_TOP_FLIPS;
    }
}

static enum hrf_status finish_difference(const struct hrf_cohort *cohort,
                                         struct hrf_cohort_precision *p, struct hrf_error *err)
{
    const char *const none = cohort->is_embedding
                                 ? no_scores
                                 : "no patch was scored at both this precision and the reference";
    const struct hrf_difference *d = &p->difference;
    if (d->n_patches == 0) {
        HRF_TRY(set_reason(&p->patch_agreement, none, err));
        HRF_TRY(set_reason(&p->mean_abs_difference, none, err));
        return set_reason(&p->max_abs_difference, none, err);
    }
    if (cohort->is_regression)
        HRF_TRY(set_reason(&p->patch_agreement, no_classes, err));
    else
        p->patch_agreement.value = (double)(d->n_patches - (int64_t)d->n_flips) /
                                   (double)d->n_patches;
    p->max_abs_difference.value = d->largest;
    p->mean_abs_difference.value = d->sum / (double)d->n_probabilities;
    if (cohort->is_regression)
        p->difference.n_flips = 0; /* a number is no label that could change */
    find_top_flips(p);
    return HRF_OK;
}

static enum hrf_status finish_drift(const struct hrf_cohort *cohort, struct hrf_cohort_precision *p,
                                    struct hrf_error *err)
{
    const struct hrf_drift_summary s = hrf_drift_summarise(&p->drift);
    const char *why = cohort->is_embedding
                          ? "no patch has an embedding at both this precision and the reference"
                          : "the model gives no embeddings (model.output)";
    p->neighbours_kept.value = hrf_neighbours_kept(&p->neighbours);
    if (isnan(p->neighbours_kept.value))
        HRF_TRY(set_reason(&p->neighbours_kept,
                           !cohort->is_embedding         ? why
                           : p == &cohort->precisions[0] ? "it is the reference"
                                                         : "no slide has more than 10 patches",
                           err));
    p->cosine_mean.value = s.mean;
    p->cosine_median.value = s.median;
    p->cosine_percentile1.value = s.percentile1;
    p->cosine_least.value = s.least;
    if (p->drift.n_patches > 0)
        return HRF_OK;
    HRF_TRY(set_reason(&p->cosine_mean, why, err));
    HRF_TRY(set_reason(&p->cosine_median, why, err));
    HRF_TRY(set_reason(&p->cosine_percentile1, why, err));
    return set_reason(&p->cosine_least, why, err);
}

static enum hrf_status set_ratio(struct hrf_figure *figure, double above, double below,
                                 const char *reason, struct hrf_error *err)
{
    if (!(above > 0.0 && below > 0.0))
        return set_reason(figure, reason, err);
    figure->value = above / below;
    return HRF_OK;
}

/* Joules a patch and a slide, or why not. */
static enum hrf_status spread_energy(struct hrf_figure *patch, struct hrf_figure *slide,
                                     const struct hrf_cohort_precision *p, double joules,
                                     const char *unmeasured, struct hrf_error *err)
{
    const char *why = p->n_patches == 0 ? "no patch was scored" : isnan(joules) ? unmeasured : NULL;
    if (why != NULL) {
        HRF_TRY(set_reason(patch, why, err));
        return set_reason(slide, why, err);
    }
    patch->value = joules / (double)p->n_patches;
    slide->value = joules / (double)p->n_slides;
    return HRF_OK;
}

static enum hrf_status finish_energy(struct hrf_cohort_precision *p, struct hrf_error *err)
{
    HRF_TRY(spread_energy(&p->energy, &p->slide_energy, p, p->energy_joules,
                          "not measured: the machine's energy counters (RAPL) cannot be read",
                          err));
    return spread_energy(&p->gpu_energy, &p->slide_gpu_energy, p, p->gpu_energy_joules,
                         isnan(p->timing.kernels)
                             ? "no GPU computed"
                             : "not measured: NVIDIA's driver (NVML) does not tell",
                         err);
}

static enum hrf_status finish_gains(struct hrf_cohort_precision *p,
                                    const struct hrf_cohort_precision *reference,
                                    struct hrf_error *err)
{
    static const char *const none = "no patch was scored";
    static const char *const not_both = "no patch was scored at this precision or at the reference";
    const double n = (double)p->n_patches, n_reference = (double)reference->n_patches;
    HRF_TRY(set_ratio(&p->patches_per_second, n, p->timing.total, none, err));
    HRF_TRY(
        set_ratio(&p->slides_per_hour, 3600.0 * (double)p->n_slides, p->timing.total, none, err));
    HRF_TRY(set_ratio(&p->speedup, n * reference->timing.total, n_reference * p->timing.total,
                      not_both, err));
    HRF_TRY(set_ratio(&p->compute_speedup, n * reference->timing.compute,
                      n_reference * p->timing.compute, not_both, err));
    HRF_TRY(set_ratio(&p->memory_ratio, (double)p->peak_memory_bytes,
                      (double)reference->peak_memory_bytes, not_both, err));
    return finish_energy(p, err);
}

static enum hrf_status finish_flips(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    p->flips = hrf_alloc_array(cohort->n_slides + 1, sizeof *p->flips);
    if (p->flips == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu slides", cohort->n_slides);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_score *scores = cohort->slides[i].scores;
        if (hrf_cohort_differs(cohort, &scores[0], &scores[index]))
            p->flips[p->n_flips++] = i;
    }
    return HRF_OK;
}

/* An HRF_E_USER of the metrics is a reason, anything else a failure. */
static enum hrf_status finish_auc(struct hrf_cohort_precision *p, const struct hrf_labelled *items,
                                  uint64_t seed, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_auc(items, p->n_labelled, &p->slide_auc.value, &why);
    if (status == HRF_OK) {
        size_t n_positive = 0;
        for (size_t i = 0; i < p->n_labelled; i++)
            n_positive += items[i].positive;
        HRF_TRY(hrf_pairs_count(items, p->n_labelled, &p->slide_pairs, err));
        p->slide_auc_interval = hrf_auc_newcombe(p->slide_auc.value, (int64_t)n_positive,
                                                 (int64_t)(p->n_labelled - n_positive));
        HRF_TRY(hrf_average_precision(items, p->n_labelled, &p->average_precision.value, err));
        return hrf_auc_interval(items, p->n_labelled, HRF_BOOTSTRAP_RESAMPLES, seed,
                                &p->slide_auc_bootstrap, err);
    }
    if (status == HRF_E_USER) {
        HRF_TRY(set_reason(&p->average_precision, why.text, err));
        return set_reason(&p->slide_auc, why.text, err);
    }
    return hrf_error_set(err, status, "%s", why.text);
}

/* Of a run whose slides have features and no scores. */
static enum hrf_status leave_out_slides(struct hrf_cohort_precision *p, const char *why,
                                        struct hrf_error *err)
{
    struct hrf_figure *const figures[] = { &p->slide_auc,         &p->slide_accuracy,
                                           &p->auc_difference,    &p->delong_p,
                                           &p->calibration_error, &p->balanced_accuracy,
                                           &p->average_precision };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        HRF_TRY(set_reason(figures[i], why, err));
    return HRF_OK;
}

/* Labels that are right; of three or more classes each with its own recall. */
static enum hrf_status finish_accuracy(struct hrf_cohort *cohort, size_t index,
                                       struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    double sum = 0.0;
    size_t n_right = 0, n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++)
        n_right += hrf_cohort_is_right(cohort, &cohort->slides[i], index);
    if (p->n_labelled == 0) {
        HRF_TRY(set_reason(&p->balanced_accuracy, "no slide with a label was scored", err));
        return set_reason(&p->slide_accuracy, "no slide with a label was scored", err);
    }
    p->slide_accuracy.value = (double)n_right / (double)p->n_labelled;
    const double binary[] = { hrf_confusion_sensitivity(&p->confusion),
                              hrf_confusion_specificity(&p->confusion) };
    for (size_t i = 0; i < (p->by_class != NULL ? cohort->n_classes : 2); i++) {
        const double recall = p->by_class != NULL ? p->by_class[i].recall.value : binary[i];
        if (isnan(recall))
            continue;
        sum += recall;
        n++;
    }
    if (n < 2)
        return set_reason(&p->balanced_accuracy, "labelled slides of one class only", err);
    p->balanced_accuracy.value = sum / (double)n;
    return HRF_OK;
}

static enum hrf_status finish_slides(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    if (items == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu slides", cohort->n_slides);
    p->n_labelled = p->n_unscored = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[index];
        const bool has_truth = slide->truth != HRF_TRUTH_UNKNOWN;
        p->n_unscored += has_truth && !score->known && slide->state != HRF_SLIDE_EXCLUDED;
        if (!score->known || !has_truth)
            continue;
        items[p->n_labelled++] = (struct hrf_labelled){ score->value,
                                                        slide->truth == HRF_TRUTH_POSITIVE };
    }
    HRF_TRY(finish_auc(p, items, cohort->seed, err));
    p->confusion = hrf_confusion_count(items, p->n_labelled, cohort->threshold);
    if (p->n_labelled > 0)
        HRF_TRY(
            hrf_operating_rows_fill(items, p->n_labelled, cohort->threshold, &p->operating, err));
    HRF_TRY(hrf_cohort_finish_classes(cohort, index, err));
    return finish_accuracy(cohort, index, err);
}

/* Labelled slides that both this precision and the reference scored. */
static enum hrf_status finish_delong(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_delong test;
    size_t n = 0;
    HRF_AUTO_FREE struct hrf_paired *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    if (items == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu slides", cohort->n_slides);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *a = &slide->scores[0], *b = &slide->scores[index];
        if (a->known && b->known && slide->truth != HRF_TRUTH_UNKNOWN)
            items[n++] = (struct hrf_paired){ a->value, b->value,
                                              slide->truth == HRF_TRUTH_POSITIVE };
    }
    enum hrf_status status = hrf_delong_test(items, n, &test, &why);
    if (status == HRF_E_USER) {
        HRF_TRY(set_reason(&p->auc_difference, why.text, err));
        return set_reason(&p->delong_p, why.text, err);
    }
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    p->auc_difference.value = test.difference;
    p->auc_difference_interval = (struct hrf_interval){ NAN, NAN };
    if (test.variance <= 0.0)
        return set_reason(&p->delong_p,
                          index == 0 ? "this is the reference"
                                     : "degenerate: both precisions order every pair of slides "
                                       "alike, so that the difference has no spread to test",
                          err);
    p->delong_p.value = test.p;
    const double reach = HRF_NORMAL_95 * sqrt(test.variance);
    p->auc_difference_interval = (struct hrf_interval){ test.difference - reach,
                                                        test.difference + reach };
    return HRF_OK;
}

/* Numbers against numbers. */
static enum hrf_status finish_regression(struct hrf_cohort *cohort, size_t index,
                                         struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    struct hrf_error why = { .status = HRF_OK };
    size_t n = 0;
    if (!cohort->is_regression)
        return set_reason(&p->mean_absolute_error, "the model gives classes, not numbers", err);
    HRF_AUTO_FREE struct hrf_number_pair *pairs = hrf_alloc_array(cohort->n_slides + 1,
                                                                  sizeof *pairs);
    HRF_CHECK_MEMORY(pairs != NULL, err, "no memory for %zu slides", cohort->n_slides);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->scores[index].known && !isnan(slide->truth_number))
            pairs[n++] = (struct hrf_number_pair){ slide->truth_number,
                                                   slide->scores[index].value };
    }
    const enum hrf_status status = hrf_regression_compute(pairs, n, &p->regression, &why);
    if (status == HRF_E_USER)
        return set_reason(&p->mean_absolute_error, why.text, err);
    p->mean_absolute_error.value = p->regression.mean_absolute_error;
    return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", why.text);
}

static enum hrf_status finish_reliability(struct hrf_cohort *cohort, size_t index,
                                          struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    double error = 0.0;
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[index];
        if (!score->known || slide->truth == HRF_TRUTH_UNKNOWN)
            continue;
        const double at = fmin(fmax(score->value * HRF_RELIABILITY_BINS, 0.0),
                               HRF_RELIABILITY_BINS - 1);
        struct hrf_reliability_bin *bin = &p->reliability[(size_t)at];
        bin->n_slides++;
        bin->n_positive += slide->truth == HRF_TRUTH_POSITIVE;
        bin->score_sum += score->value;
        n++;
    }
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++)
        error += fabs(p->reliability[i].score_sum - (double)p->reliability[i].n_positive);
    p->calibration_error.value = n > 0 ? error / (double)n : NAN;
    return n > 0 ? HRF_OK
                 : set_reason(&p->calibration_error, "no slide with a label was scored", err);
}

static enum hrf_status finish_heads(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    if (!cohort->has_head || index == 0)
        return HRF_OK;
    HRF_AUTO_FREE struct hrf_head_pair *pairs = hrf_alloc_array(cohort->n_slides + 1,
                                                                sizeof *pairs);
    HRF_CHECK_MEMORY(pairs != NULL, err, "no memory for %zu slides", cohort->n_slides);
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
        HRF_TRY(hrf_head_study_compute(pairs, cohort->n_slides, cohort->threshold,
                                       is_own ? &p->own_heads : &p->moved_heads, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_cohort_finish(struct hrf_cohort *cohort, struct hrf_error *err)
{
    count_states(cohort);
    HRF_TRY(hrf_cohort_tune(cohort, err));
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        HRF_TRY(hrf_lesion_task_finish(cohort, i, err));
        HRF_TRY(hrf_patch_task_finish(cohort, i, err));
        HRF_TRY(finish_difference(cohort, &cohort->precisions[i], err));
        HRF_TRY(finish_drift(cohort, &cohort->precisions[i], err));
        HRF_TRY(finish_gains(&cohort->precisions[i], &cohort->precisions[0], err));
        HRF_TRY(finish_regression(cohort, i, err));
        if (!hrf_cohort_scores_slides(cohort) || cohort->is_regression) {
            HRF_TRY(leave_out_slides(&cohort->precisions[i],
                                     cohort->is_regression ? no_classes : no_scores, err));
            continue;
        }
        HRF_TRY(finish_slides(cohort, i, err));
        HRF_TRY(finish_heads(cohort, i, err));
        HRF_TRY(finish_flips(cohort, i, err));
        HRF_TRY(finish_delong(cohort, i, err));
        HRF_TRY(finish_reliability(cohort, i, err));
    }
    return HRF_OK;
}
