/* cohort.c - the cohort as data, and its figures: no store, no files. */
#include "aggregate/study/cohort.h"

#include "aggregate/study/lesion_task.h"
#include "aggregate/study/patch_task.h"
#include "base/strbuf.h"

#include <math.h>
#include <string.h>

static void free_text(const char *text)
{
    void *memory = NULL;
    memcpy(&memory, &text, sizeof memory); /* owned texts are const to their readers only */
    hrf_free(memory);
}

static void release_slide(struct hrf_cohort_slide *slide, size_t n_precisions)
{
    for (size_t i = 0; slide->scores != NULL && i < n_precisions; i++) {
        hrf_free(slide->scores[i].failure);
        hrf_free(slide->scores[i].classes);
        hrf_free(slide->scores[i].labels);
        hrf_free(slide->scores[i].label_pixels);
        hrf_free(slide->scores[i].overlaps);
    }
    hrf_free(slide->name);
    hrf_free(slide->path);
    hrf_free(slide->file_name);
    hrf_free(slide->label_text);
    hrf_free(slide->annotation);
    hrf_free(slide->reason);
    hrf_free(slide->warning);
    hrf_free(slide->white);
    hrf_free(slide->white_patches);
    hrf_free(slide->dropped);
    hrf_free(slide->mpp_source);
    hrf_free(slide->scores);
}

static void release_precision(struct hrf_cohort_precision *precision, size_t n_classes)
{
    for (size_t i = 0; precision->by_class != NULL && i < n_classes; i++) {
        hrf_free(precision->by_class[i].auc.reason);
        hrf_free(precision->by_class[i].recall.reason);
        hrf_free(precision->by_class[i].precision.reason);
        hrf_free(precision->by_class[i].average_precision.reason);
    }
    hrf_free(precision->by_class);
    hrf_free(precision->class_confusion);
    hrf_free(precision->name);
    hrf_free(precision->device);
    hrf_free(precision->flips);
    hrf_difference_release(&precision->difference);
    hrf_drift_release(&precision->drift);
    hrf_neighbours_release(&precision->neighbours);
    hrf_free(precision->neighbours_kept.reason);
    struct hrf_figure *figures[] = {
        &precision->patches_per_second,
        &precision->slides_per_hour,
        &precision->slide_energy,
        &precision->slide_gpu_energy,
        &precision->speedup,
        &precision->compute_speedup,
        &precision->memory_ratio,
        &precision->energy,
        &precision->patch_agreement,
        &precision->gpu_energy,
        &precision->max_abs_difference,
        &precision->auc_difference,
        &precision->delong_p,
        &precision->mean_abs_difference,
        &precision->slide_auc,
        &precision->mean_absolute_error,
        &precision->calibration_error,
        &precision->slide_accuracy,
        &precision->cosine_mean,
        &precision->cosine_median,
        &precision->cosine_percentile1,
        &precision->cosine_least,
        &precision->balanced_accuracy,
        &precision->macro_auc,
        &precision->average_precision,
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        hrf_free(figures[i]->reason);
}

static void release_kept(struct hrf_cohort *cohort)
{
    struct hrf_calibration_keep *kept = NULL;
    struct hrf_calibration_budget *budget = NULL;
    memcpy(&kept, &cohort->calibration.kept, sizeof kept); /* ours; const to its readers */
    memcpy(&budget, &cohort->calibration.budget, sizeof budget);
    for (size_t i = 0; i < cohort->calibration.n_kept; i++)
        hrf_calibration_keep_release(&kept[i]);
    hrf_free(kept);
    if (budget != NULL)
        hrf_free(budget->measure);
    hrf_free(budget);
    free_text(cohort->calibration.budget_words);
}

static void release_tensors(struct hrf_cohort *cohort)
{
    struct hrf_calibration_tensor *tensors = NULL;
    memcpy(&tensors, &cohort->calibration.tensors, sizeof tensors); /* ours, too */
    for (size_t i = 0; i < cohort->calibration.n_tensors; i++) {
        hrf_free(tensors[i].name);
        hrf_free(tensors[i].method);
    }
    hrf_free(tensors);
}

void hrf_cohort_destroy(struct hrf_cohort *cohort)
{
    if (cohort == NULL)
        return;
    for (size_t i = 0; cohort->classes != NULL && i < cohort->n_classes; i++)
        hrf_free(cohort->classes[i]);
    hrf_lesion_task_release(cohort);
    hrf_patch_task_release(cohort);
    for (size_t i = 0; cohort->slides != NULL && i < cohort->n_slides; i++)
        release_slide(&cohort->slides[i], cohort->n_precisions);
    for (size_t i = 0; cohort->precisions != NULL && i < cohort->n_precisions; i++)
        release_precision(&cohort->precisions[i], cohort->n_classes);
    for (size_t i = 0; cohort->provenance != NULL && i < cohort->n_provenance; i++) {
        free_text(cohort->provenance[i].name);
        free_text(cohort->provenance[i].text);
    }
    hrf_free(cohort->tuning.reason);
    free_text(cohort->calibration.key);
    free_text(cohort->calibration.method);
    free_text(cohort->calibration.reason);
    release_kept(cohort);
    release_tensors(cohort);
    hrf_free(cohort->name);
    hrf_free(cohort->classes);
    hrf_free(cohort->slides);
    hrf_free(cohort->precisions);
    hrf_free(cohort->phases);
    for (size_t i = 0; i < cohort->n_jobs; i++) {
        hrf_free(cohort->jobs[i].job_id);
        hrf_free(cohort->jobs[i].reason);
    }
    hrf_free(cohort->jobs);
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

static bool copy_kept(const struct hrf_calibration_facts *from, struct hrf_calibration_facts *to)
{
    struct hrf_calibration_keep *kept = hrf_calloc(from->n_kept + 1, sizeof *kept);
    if (kept == NULL)
        return false;
    to->kept = kept;
    to->n_kept = from->n_kept;
    for (size_t i = 0; i < from->n_kept; i++) {
        kept[i] = from->kept[i];
        kept[i].precision = hrf_strdup(from->kept[i].precision);
        kept[i].name = hrf_strdup(from->kept[i].name);
        kept[i].reason = hrf_strdup(from->kept[i].reason);
        if (kept[i].name == NULL || kept[i].reason == NULL ||
            (kept[i].precision == NULL && from->kept[i].precision != NULL))
            return false;
    }
    return true;
}

static bool copy_tensors(const struct hrf_calibration_facts *from, struct hrf_calibration_facts *to)
{
    struct hrf_calibration_tensor *tensors = hrf_calloc(from->n_tensors + 1, sizeof *tensors);
    to->tensors = tensors;
    for (size_t i = 0; tensors != NULL && i < from->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &from->tensors[i];
        tensors[i] = (struct hrf_calibration_tensor){ .name = hrf_strdup(t->name),
                                                      .method = hrf_strdup(t->method),
                                                      .strength = t->strength,
                                                      .sqnr_db = t->sqnr_db };
        to->n_tensors++;
        if (tensors[i].name == NULL || tensors[i].method == NULL)
            return false;
    }
    return tensors != NULL;
}

static bool copy_budget(const struct hrf_calibration_facts *from, struct hrf_calibration_facts *to)
{
    if (from->budget == NULL)
        return true;
    struct hrf_calibration_budget *budget = hrf_calloc(1, sizeof *budget);
    if (budget == NULL)
        return false;
    to->budget = budget;
    *budget = *from->budget;
    budget->measure = hrf_strdup(from->budget->measure);
    return budget->measure != NULL && copy_text(from->budget_words, &to->budget_words);
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
    cohort->calibration.of_other_slides = facts->of_other_slides;
    cohort->calibration.of_training = facts->of_training;
    return ok && copy_text(facts->key, &cohort->calibration.key) &&
           copy_text(facts->method, &cohort->calibration.method) &&
           copy_text(facts->reason, &cohort->calibration.reason) &&
           copy_kept(facts, &cohort->calibration) && copy_tensors(facts, &cohort->calibration) &&
           copy_budget(facts, &cohort->calibration);
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
        cohort->slides[i].truth_class = -1;
        cohort->slides[i].truth_number = NAN;
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
        cohort->is_embedding = params->is_embedding;
        cohort->has_head = params->has_head;
        cohort->has_forest = params->has_forest;
        cohort->is_multilabel = params->is_multilabel;
        cohort->is_regression = params->is_regression;
        cohort->is_segmentation = params->is_segmentation;
        cohort->tuning.is_asked_for = params->n_tuning_slides > 0;
        cohort->tuning.specificity = params->tuning_specificity;
        cohort->rule = params->rule;
        cohort->lesion_rule = params->lesion_rule;
        cohort->is_camelyon16 = params->is_camelyon16;
        cohort->threshold = params->threshold;
        cohort->seed = params->seed;
        cohort->stain_jitter = params->stain_jitter;
        cohort->jitter_seed = params->jitter_seed;
        cohort->n_slides = n_slides;
        cohort->n_precisions = params->n_precisions;
        cohort->n_provenance = params->n_provenance;
        cohort->is_slurm = params->is_slurm;
        cohort->read_mask = params->read_mask;
    }
    if (cohort == NULL || !reserve(cohort) || !copy_params(cohort, params))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a cohort of %zu slides", n_slides);
    *out = cohort;
    cohort = NULL;
    return HRF_OK;
}

/* ---- one slide's scores ---- */

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

static void add_hardware(struct hrf_cohort_precision *precision, const struct hrf_hardware *found)
{
    if (found->model[0] == '\0') /* a record from before this was kept */
        return;
    for (size_t i = 0; i < precision->n_hardware; i++) {
        const struct hrf_hardware *known = &precision->hardware[i];
        if (strcmp(known->model, found->model) == 0 && strcmp(known->path, found->path) == 0 &&
            strcmp(known->driver, found->driver) == 0 &&
            strcmp(known->libraries, found->libraries) == 0)
            return;
    }
    if (precision->n_hardware < HRF_COHORT_HARDWARE)
        precision->hardware[precision->n_hardware++] = *found;
}

enum hrf_status hrf_cohort_add_scores(struct hrf_cohort_precision *precision,
                                      const struct hrf_scores *scores, struct hrf_error *err)
{
    HRF_TRY(add_device(precision, scores->device, err));
    add_hardware(precision, &scores->hardware);
    if (precision->notes[0] == '\0')
        memcpy(precision->notes, scores->notes, sizeof precision->notes);
    precision->n_patches += scores->n_patches;
    precision->n_slides += scores->n_patches > 0;
    hrf_timing_add(&precision->timing, &scores->timing);
    hrf_traffics_add(&precision->traffic, &scores->traffic);
    precision->energy_joules += scores->energy_joules;
    precision->gpu_energy_joules += scores->gpu_energy_joules;
    if (precision->device_memory_bytes < scores->device_memory_bytes)
        precision->device_memory_bytes = scores->device_memory_bytes;
    if (precision->peak_memory_bytes < scores->peak_memory_bytes)
        precision->peak_memory_bytes = scores->peak_memory_bytes;
    if (precision->peak_process_bytes < scores->peak_process_bytes)
        precision->peak_process_bytes = scores->peak_process_bytes;
    if (precision->n_threads < scores->n_threads)
        precision->n_threads = scores->n_threads;
    if (precision->n_readers < scores->n_readers)
        precision->n_readers = scores->n_readers;
    return HRF_OK;
}

enum hrf_status hrf_cohort_add_difference(struct hrf_cohort *cohort, size_t precision, size_t slide,
                                          const struct hrf_tile_plan *plan,
                                          const struct hrf_scores *scores,
                                          const struct hrf_scores *reference, struct hrf_error *err)
{
    if (scores->n_patches != reference->n_patches || scores->n_classes != reference->n_classes)
        return hrf_error_set(
            err, HRF_E_USER, "%s has %lld patches of %d classes, the reference %s %lld of %d",
            scores->precision, (long long)scores->n_patches, scores->n_classes,
            reference->precision, (long long)reference->n_patches, reference->n_classes);
    if (scores->n_patches != plan->n_patches || cohort->positive >= (size_t)scores->n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "%s has %lld patches of %d classes; the tile plan has %lld patches, "
                             "the positive class is number %zu",
                             scores->precision, (long long)scores->n_patches, scores->n_classes,
                             (long long)plan->n_patches, cohort->positive + 1);
    const struct hrf_probabilities p = { .at = plan->patches,
                                         .reference = reference->probabilities,
                                         .values = scores->probabilities,
                                         .n = scores->n_patches,
                                         .n_classes = (size_t)scores->n_classes,
                                         .positive = cohort->positive };
    return hrf_difference_add(&cohort->precisions[precision].difference, slide, &p, err);
}

double hrf_cohort_area(const struct hrf_cohort_score *score, size_t class)
{
    return score->label_pixels != NULL ? (double)score->label_pixels[class + 1] * score->pixel_mm2
                                       : (double)NAN;
}

enum hrf_slide_state hrf_cohort_outcome(const struct hrf_cohort_slide *slide, size_t precision,
                                        const char **reason)
{
    const struct hrf_cohort_score *score = &slide->scores[precision];
    *reason = score->failure;
    if (score->failure != NULL)
        return HRF_SLIDE_FAILED;
    *reason = slide->white;
    if (!score->known && slide->is_head_trained_on) {
        *reason = "slide heads were trained on it, and none scores it";
        return HRF_SLIDE_DONE;
    }
    if (score->known || score->has_features)
        return HRF_SLIDE_DONE;
    *reason = slide->reason;
    return slide->state == HRF_SLIDE_DONE ? HRF_SLIDE_PENDING : slide->state;
}
