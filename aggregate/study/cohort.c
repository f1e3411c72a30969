/* cohort.c - the cohort as data, and its figures: no store, no files. */
#include "aggregate/study/cohort.h"

#include "base/strbuf.h"

#include <math.h>
#include <string.h>

static void free_text(const char *text)
{
    void *memory = NULL;
    memcpy(&memory, &text, sizeof memory); /* owned texts are const to their readers only */
    hrf_free(memory);
}

static void release_slide(struct hrf_cohort_slide *slide)
{
    hrf_free(slide->name);
    hrf_free(slide->path);
    hrf_free(slide->file_name);
    hrf_free(slide->label_text);
    hrf_free(slide->annotation);
    hrf_free(slide->reason);
    hrf_free(slide->warning);
    hrf_free(slide->mpp_source);
    hrf_free(slide->scores);
}

static void release_precision(struct hrf_cohort_precision *precision)
{
    hrf_free(precision->name);
    hrf_free(precision->device);
    hrf_free(precision->flips);
    hrf_free(precision->patches_per_second.reason);
    hrf_free(precision->patch_agreement.reason);
    hrf_free(precision->max_abs_difference.reason);
    hrf_free(precision->mean_abs_difference.reason);
    hrf_free(precision->auc_difference.reason);
    hrf_free(precision->delong_p.reason);
    hrf_free(precision->calibration_error.reason);
    hrf_free(precision->slide_auc.reason);
    hrf_free(precision->slide_accuracy.reason);
}

void hrf_cohort_destroy(struct hrf_cohort *cohort)
{
    if (cohort == NULL)
        return;
    for (size_t i = 0; cohort->classes != NULL && i < cohort->n_classes; i++)
        hrf_free(cohort->classes[i]);
    for (size_t i = 0; cohort->slides != NULL && i < cohort->n_slides; i++)
        release_slide(&cohort->slides[i]);
    for (size_t i = 0; cohort->precisions != NULL && i < cohort->n_precisions; i++)
        release_precision(&cohort->precisions[i]);
    for (size_t i = 0; cohort->provenance != NULL && i < cohort->n_provenance; i++) {
        free_text(cohort->provenance[i].name);
        free_text(cohort->provenance[i].text);
    }
    free_text(cohort->calibration.key);
    free_text(cohort->calibration.method);
    free_text(cohort->calibration.reason);
    hrf_free(cohort->name);
    hrf_free(cohort->classes);
    hrf_free(cohort->slides);
    hrf_free(cohort->precisions);
    hrf_free(cohort->phases);
    hrf_free(cohort->provenance);
    hrf_free(cohort);
}

static enum hrf_status check_params(const struct hrf_aggregate_params *params,
                                    struct hrf_error *err)
{
    if (params->n_classes < 1 || params->positive >= params->n_classes)
        return hrf_error_set(err, HRF_E_USER, "the positive class is number %zu of %zu classes",
                             params->positive + 1, params->n_classes);
    if (params->n_precisions < 1)
        return hrf_error_set(err, HRF_E_USER, "no precision to report on");
    if (isnan(params->threshold))
        return hrf_error_set(err, HRF_E_USER, "the threshold is not a number");
    return HRF_OK;
}

/* Strings that may be NULL in the source; false when memory ran out. */
static bool copy_text(const char *from, const char **to)
{
    *to = hrf_strdup(from);
    return from == NULL || *to != NULL;
}

static bool copy_params(struct hrf_cohort *cohort, const struct hrf_aggregate_params *params)
{
    bool ok = (cohort->name = hrf_strdup(params->name != NULL ? params->name : "")) != NULL;
    for (size_t i = 0; ok && i < params->n_classes; i++)
        ok = (cohort->classes[i] = hrf_strdup(params->classes[i])) != NULL;
    for (size_t i = 0; ok && i < params->n_precisions; i++)
        ok = (cohort->precisions[i].name = hrf_strdup(params->precisions[i])) != NULL;
    for (size_t i = 0; ok && i < params->n_provenance; i++)
        ok = copy_text(params->provenance[i].name, &cohort->provenance[i].name) &&
             copy_text(params->provenance[i].text, &cohort->provenance[i].text);
    const struct hrf_calibration_facts *facts = &params->calibration;
    cohort->calibration.cached = facts->cached;
    cohort->calibration.seconds = facts->seconds;
    cohort->calibration.samples = facts->samples;
    return ok && copy_text(facts->key, &cohort->calibration.key) &&
           copy_text(facts->method, &cohort->calibration.method) &&
           copy_text(facts->reason, &cohort->calibration.reason);
}

static bool reserve(struct hrf_cohort *cohort)
{
    cohort->classes = hrf_calloc(cohort->n_classes, sizeof *cohort->classes);
    cohort->precisions = hrf_calloc(cohort->n_precisions, sizeof *cohort->precisions);
    cohort->provenance = hrf_calloc(cohort->n_provenance + 1, sizeof *cohort->provenance);
    cohort->slides = hrf_calloc(cohort->n_slides + 1, sizeof *cohort->slides);
    if (cohort->classes == NULL || cohort->precisions == NULL || cohort->provenance == NULL ||
        cohort->slides == NULL)
        return false;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        cohort->slides[i].n_patches = -1;
        cohort->slides[i].truth = HRF_TRUTH_UNKNOWN;
        cohort->slides[i].scores = hrf_calloc(cohort->n_precisions,
                                              sizeof *cohort->slides[i].scores);
        if (cohort->slides[i].scores == NULL)
            return false;
    }
    return true;
}

enum hrf_status hrf_cohort_create(const struct hrf_aggregate_params *params, size_t n_slides,
                                  struct hrf_cohort **out, struct hrf_error *err)
{
    HRF_TRY(check_params(params, err));
    HRF_AUTO(hrf_cohort) cohort = hrf_calloc(1, sizeof *cohort);
    if (cohort != NULL) {
        cohort->n_classes = params->n_classes;
        cohort->positive = params->positive;
        cohort->rule = params->rule;
        cohort->threshold = params->threshold;
        cohort->seed = params->seed;
        cohort->n_slides = n_slides;
        cohort->n_precisions = params->n_precisions;
        cohort->n_provenance = params->n_provenance;
    }
    if (cohort == NULL || !reserve(cohort) || !copy_params(cohort, params))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a cohort of %zu slides", n_slides);
    *out = cohort;
    cohort = NULL;
    return HRF_OK;
}

/* ---- one slide's scores ---- */

static size_t most_likely(const float *p, size_t n_classes)
{
    if (n_classes == 1) /* one sigmoid output: is it the class or not */
        return p[0] >= 0.5f;
    size_t best = 0;
    for (size_t i = 1; i < n_classes; i++)
        if (p[i] > p[best])
            best = i;
    return best;
}

static enum hrf_status compare(struct hrf_cohort_precision *precision,
                               const struct hrf_scores *scores, const struct hrf_scores *reference,
                               struct hrf_error *err)
{
    if (scores->n_patches != reference->n_patches || scores->n_classes != reference->n_classes)
        return hrf_error_set(
            err, HRF_E_USER, "%s has %lld patches of %d classes, the reference %s %lld of %d",
            scores->precision, (long long)scores->n_patches, scores->n_classes,
            reference->precision, (long long)reference->n_patches, reference->n_classes);
    size_t n_classes = (size_t)scores->n_classes;
    for (size_t i = 0; i < (size_t)scores->n_patches; i++) {
        const float *a = scores->probabilities + i * n_classes;
        const float *b = reference->probabilities + i * n_classes;
        precision->n_agreed += most_likely(a, n_classes) == most_likely(b, n_classes);
        for (size_t k = 0; k < n_classes; k++) {
            const double difference = fabs((double)a[k] - (double)b[k]);
            precision->max_difference = fmax(precision->max_difference, difference);
            precision->difference_sum += difference;
        }
    }
    precision->n_differences += scores->n_patches * scores->n_classes;
    precision->n_compared += scores->n_patches;
    return HRF_OK;
}

static enum hrf_status add_device(struct hrf_cohort_precision *precision, const char *device,
                                  struct hrf_error *err)
{
    char *grown = NULL;
    if (device == NULL || (precision->device != NULL && strstr(precision->device, device) != NULL))
        return HRF_OK;
    if (precision->device == NULL)
        grown = hrf_strdup(device);
    else
        grown = hrf_format("%s, %s", precision->device, device);
    if (grown == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the name of a device");
    hrf_free(precision->device);
    precision->device = grown;
    return HRF_OK;
}

enum hrf_status hrf_cohort_add_scores(struct hrf_cohort_precision *precision,
                                      const struct hrf_scores *scores,
                                      const struct hrf_scores *reference, struct hrf_error *err)
{
    if (reference != NULL)
        HRF_TRY(compare(precision, scores, reference, err));
    HRF_TRY(add_device(precision, scores->device, err));
    precision->n_patches += scores->n_patches;
    struct hrf_timing *sum = &precision->timing;
    sum->build += scores->timing.build;
    sum->decode += scores->timing.decode;
    sum->prepare += scores->timing.prepare;
    sum->compute += scores->timing.compute;
    sum->wait += scores->timing.wait;
    sum->write += scores->timing.write;
    sum->total += scores->timing.total;
    if (precision->peak_memory_bytes < scores->peak_memory_bytes)
        precision->peak_memory_bytes = scores->peak_memory_bytes;
    if (precision->n_threads < scores->n_threads)
        precision->n_threads = scores->n_threads;
    if (precision->n_readers < scores->n_readers)
        precision->n_readers = scores->n_readers;
    return HRF_OK;
}

/* ---- figures ---- */

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

static enum hrf_status finish_patches(struct hrf_cohort_precision *p, struct hrf_error *err)
{
    if (p->n_patches > 0 && p->timing.total > 0.0)
        p->patches_per_second.value = (double)p->n_patches / p->timing.total;
    else
        HRF_TRY(set_reason(&p->patches_per_second, "no patch was scored", err));
    if (p->n_compared > 0) {
        p->patch_agreement.value = (double)p->n_agreed / (double)p->n_compared;
        p->max_abs_difference.value = p->max_difference;
        p->mean_abs_difference.value = p->difference_sum / (double)p->n_differences;
        return HRF_OK;
    }
    static const char *const none = "no patch was scored at both this precision and the reference";
    HRF_TRY(set_reason(&p->patch_agreement, none, err));
    HRF_TRY(set_reason(&p->mean_abs_difference, none, err));
    return set_reason(&p->max_abs_difference, none, err);
}

static enum hrf_status finish_flips(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    p->flips = hrf_alloc_array(cohort->n_slides + 1, sizeof *p->flips);
    if (p->flips == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu slides", cohort->n_slides);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_score *scores = cohort->slides[i].scores;
        if (scores[0].known && scores[index].known && scores[0].positive != scores[index].positive)
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
    if (status == HRF_OK)
        return hrf_auc_interval(items, p->n_labelled, HRF_BOOTSTRAP_RESAMPLES, seed,
                                &p->slide_auc_interval, err);
    if (status == HRF_E_USER)
        return set_reason(&p->slide_auc, why.text, err);
    return hrf_error_set(err, status, "%s", why.text);
}

static enum hrf_status finish_slides(struct hrf_cohort *cohort, size_t index, struct hrf_error *err)
{
    struct hrf_cohort_precision *p = &cohort->precisions[index];
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    if (items == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %zu slides", cohort->n_slides);
    p->n_labelled = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const struct hrf_cohort_score *score = &slide->scores[index];
        if (!score->known || slide->truth == HRF_TRUTH_UNKNOWN)
            continue;
        items[p->n_labelled++] = (struct hrf_labelled){ score->value,
                                                        slide->truth == HRF_TRUTH_POSITIVE };
    }
    HRF_TRY(finish_auc(p, items, cohort->seed, err));
    p->confusion = hrf_confusion_count(items, p->n_labelled, cohort->threshold);
    p->slide_accuracy.value = hrf_confusion_accuracy(&p->confusion);
    if (p->n_labelled == 0)
        return set_reason(&p->slide_accuracy, "no slide with a label was scored", err);
    return HRF_OK;
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
    p->delong_p.value = test.p;
    return HRF_OK;
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

enum hrf_status hrf_cohort_finish(struct hrf_cohort *cohort, struct hrf_error *err)
{
    count_states(cohort);
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        HRF_TRY(finish_patches(&cohort->precisions[i], err));
        HRF_TRY(finish_slides(cohort, i, err));
        HRF_TRY(finish_flips(cohort, i, err));
        HRF_TRY(finish_delong(cohort, i, err));
        HRF_TRY(finish_reliability(cohort, i, err));
    }
    return HRF_OK;
}

const char *hrf_cohort_state_word(enum hrf_slide_state state)
{
    static const char *const words[] = { "pending", "done", "failed", "no_tissue", "excluded" };
    return (size_t)state < sizeof words / sizeof words[0] ? words[state] : "unknown";
}

const char *hrf_cohort_label(const struct hrf_cohort *cohort, bool positive)
{
    if (positive)
        return cohort->classes[cohort->positive];
    return cohort->n_classes == 2 ? cohort->classes[1 - cohort->positive] : "negative";
}
