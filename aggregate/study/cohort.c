/* cohort.c - the cohort as data, and its figures: no store, no files. */
#include "aggregate/study/cohort.h"

#include "aggregate/study/figure_rows.h"
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
    for (size_t i = 0; i < n_precisions; i++) {
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
    for (size_t i = 0; precision->slides.by_class != NULL && i < n_classes; i++)
        hrf_figures_release(hrf_class_rows, &precision->slides.by_class[i]);
    hrf_free(precision->slides.by_class);
    hrf_free(precision->slides.class_confusion);
    hrf_free(precision->name);
    hrf_free(precision->jobs.device);
    hrf_free(precision->slides.flips);
    hrf_difference_release(&precision->moved.difference);
    hrf_drift_release(&precision->embeddings.drift);
    hrf_neighbours_release(&precision->embeddings.neighbours);
    hrf_figures_release(hrf_precision_rows, precision);
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
    free_text(cohort->calibration.budget_text);
}

static void release_lost(struct hrf_cohort *cohort)
{
    struct hrf_calibration_loss *lost = NULL;
    memcpy(&lost, &cohort->calibration.lost, sizeof lost); /* ours, too */
    if (lost != NULL) {
        hrf_free(lost->reason);
        hrf_free(lost->with_budget.measure);
    }
    hrf_free(lost);
    free_text(cohort->calibration.loss_text);
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
    for (size_t i = 0; i < cohort->n_classes; i++)
        hrf_free(cohort->classes[i]);
    hrf_lesion_task_release(cohort);
    hrf_patch_task_release(cohort);
    for (size_t i = 0; i < cohort->n_slides; i++)
        release_slide(&cohort->slides[i], cohort->n_precisions);
    for (size_t i = 0; i < cohort->n_precisions; i++)
        release_precision(&cohort->precisions[i], cohort->n_classes);
    for (size_t i = 0; i < cohort->n_provenance; i++) {
        free_text(cohort->provenance[i].name);
        free_text(cohort->provenance[i].text);
    }
    hrf_free(cohort->tuning.reason);
    free_text(cohort->calibration.key);
    free_text(cohort->calibration.method);
    free_text(cohort->calibration.reason);
    release_kept(cohort);
    release_lost(cohort);
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

/* The facts of a calibration, whose texts and arrays the cohort owns. */
static void copy_calibration(const struct hrf_calibration_facts *from,
                             struct hrf_calibration_facts *to)
{
    struct hrf_calibration_keep *kept = hrf_calloc(from->n_kept + 1, sizeof *kept);
    struct hrf_calibration_tensor *tensors = hrf_calloc(from->n_tensors + 1, sizeof *tensors);
    for (size_t i = 0; i < from->n_kept; i++) {
        kept[i] = from->kept[i];
        kept[i].name = hrf_strdup(from->kept[i].name);
        kept[i].reason = hrf_strdup(from->kept[i].reason);
    }
    for (size_t i = 0; i < from->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &from->tensors[i];
        tensors[i] = (struct hrf_calibration_tensor){ .name = hrf_strdup(t->name),
                                                      .method = hrf_strdup(t->method),
                                                      .strength = t->strength,
                                                      .sqnr_db = t->sqnr_db };
    }
    *to = *from;
    to->key = hrf_strdup(from->key);
    to->method = hrf_strdup(from->method);
    to->reason = hrf_strdup(from->reason);
    to->budget_text = hrf_strdup(from->budget_text);
    to->loss_text = hrf_strdup(from->loss_text);
    to->kept = kept;
    to->tensors = tensors;
    if (from->budget != NULL) {
        struct hrf_calibration_budget *budget = hrf_calloc(1, sizeof *budget);
        *budget = *from->budget;
        budget->measure = hrf_strdup(from->budget->measure);
        to->budget = budget;
    }
    if (from->lost != NULL) {
        struct hrf_calibration_loss *lost = hrf_calloc(1, sizeof *lost);
        *lost = *from->lost;
        lost->reason = hrf_strdup(from->lost->reason);
        lost->with_budget.measure = hrf_strdup(from->lost->with_budget.measure);
        to->lost = lost;
    }
}

enum hrf_status hrf_cohort_create(const struct hrf_aggregate_params *params, size_t n_slides,
                                  struct hrf_cohort **out, struct hrf_error *err)
{
    HRF_TRY(check_params(params, err));
    struct hrf_cohort *cohort = hrf_calloc(1, sizeof *cohort);
    *cohort = (struct hrf_cohort){
        .name = hrf_strdup(params->name != NULL ? params->name : ""),
        .classes = hrf_calloc(params->n_classes, sizeof *cohort->classes),
        .n_classes = params->n_classes,
        .positive = params->positive,
        .is_embedding = params->is_embedding,
        .has_head = params->has_head,
        .has_forest = params->has_forest,
        .is_multilabel = params->is_multilabel,
        .is_regression = params->is_regression,
        .is_segmentation = params->is_segmentation,
        .rule = params->rule,
        .lesion_rule = params->lesion_rule,
        .is_camelyon16 = params->is_camelyon16,
        .threshold = params->threshold,
        .seed = params->seed,
        .stain_jitter = params->stain_jitter,
        .jitter_seed = params->jitter_seed,
        .tuning = { .is_asked_for = params->n_tuning_slides > 0,
                    .specificity = params->tuning_specificity },
        .slides = hrf_calloc(n_slides + 1, sizeof *cohort->slides),
        .n_slides = n_slides,
        .precisions = hrf_calloc(params->n_precisions, sizeof *cohort->precisions),
        .n_precisions = params->n_precisions,
        .is_slurm = params->is_slurm,
        .read_mask = params->read_mask,
        .provenance = hrf_calloc(params->n_provenance + 1, sizeof *cohort->provenance),
        .n_provenance = params->n_provenance,
    };
    for (size_t i = 0; i < params->n_classes; i++)
        cohort->classes[i] = hrf_strdup(params->classes[i]);
    for (size_t i = 0; i < params->n_precisions; i++)
        cohort->precisions[i].name = hrf_strdup(params->precisions[i]);
    for (size_t i = 0; i < params->n_provenance; i++)
        cohort->provenance[i] = (struct hrf_named_text){ hrf_strdup(params->provenance[i].name),
                                                         hrf_strdup(params->provenance[i].text) };
    for (size_t i = 0; i < n_slides; i++)
        cohort->slides[i] = (struct hrf_cohort_slide){
            .n_patches = -1,
            .truth = HRF_TRUTH_UNKNOWN,
            .truth_class = -1,
            .truth_number = NAN,
            .scores = hrf_calloc(params->n_precisions, sizeof *cohort->slides[i].scores)
        };
    copy_calibration(&params->calibration, &cohort->calibration);
    *out = cohort;
    return HRF_OK;
}

/* ---- one slide's scores ---- */

static void add_device(struct hrf_cohort_precision *precision, const char *device)
{
    char *grown = NULL;
    if (device == NULL ||
        (precision->jobs.device != NULL && strstr(precision->jobs.device, device) != NULL))
        return;
    if (precision->jobs.device == NULL)
        grown = hrf_strdup(device);
    else
        grown = hrf_format("%s, %s", precision->jobs.device, device);
    hrf_free(precision->jobs.device);
    precision->jobs.device = grown;
}

static void add_hardware(struct hrf_cohort_precision *precision, const struct hrf_hardware *found)
{
    if (found->model[0] == '\0') /* it is not known */
        return;
    for (size_t i = 0; i < precision->jobs.n_hardware; i++) {
        const struct hrf_hardware *known = &precision->jobs.hardware[i];
        if (strcmp(known->model, found->model) == 0 && strcmp(known->path, found->path) == 0 &&
            strcmp(known->driver, found->driver) == 0 &&
            strcmp(known->libraries, found->libraries) == 0)
            return;
    }
    if (precision->jobs.n_hardware < HRF_COHORT_HARDWARE)
        precision->jobs.hardware[precision->jobs.n_hardware++] = *found;
}

void hrf_cohort_add_scores(struct hrf_cohort_precision *precision, const struct hrf_scores *scores)
{
    add_device(precision, scores->device);
    add_hardware(precision, &scores->hardware);
    if (precision->jobs.notes[0] == '\0')
        memcpy(precision->jobs.notes, scores->notes, sizeof precision->jobs.notes);
    precision->jobs.n_patches += scores->n_patches;
    precision->jobs.n_slides += scores->n_patches > 0;
    hrf_timing_add(&precision->jobs.timing, &scores->timing);
    hrf_traffics_add(&precision->jobs.traffic, &scores->traffic);
    precision->jobs.energy_joules += scores->energy_joules;
    precision->jobs.gpu_energy_joules += scores->gpu_energy_joules;
    precision->speed.device_memory.value = fmax(precision->speed.device_memory.value,
                                                (double)scores->device_memory_bytes);
    precision->speed.peak_memory.value = fmax(precision->speed.peak_memory.value,
                                              (double)scores->peak_memory_bytes);
    precision->speed.peak_process.value = fmax(precision->speed.peak_process.value,
                                               (double)scores->peak_process_bytes);
    if (precision->jobs.n_threads < scores->n_threads)
        precision->jobs.n_threads = scores->n_threads;
    if (precision->jobs.n_readers < scores->n_readers)
        precision->jobs.n_readers = scores->n_readers;
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
    hrf_difference_add(&cohort->precisions[precision].moved.difference, slide, &p);
    return HRF_OK;
}

double hrf_cohort_area(const struct hrf_cohort_score *score, size_t class)
{
    return score->label_pixels != NULL ? (double)score->label_pixels[class + 1] * score->pixel_mm2
                                       : (double)NAN;
}

struct hrf_region_figures hrf_cohort_regions(const struct hrf_cohort *cohort, size_t precision,
                                             size_t class)
{
    static const struct hrf_pooled_overlap none = { .n_present = 0 };
    const struct hrf_cohort_precision *p = &cohort->precisions[precision];
    const struct hrf_pooled_overlap *o = p->overlaps != NULL ? &p->overlaps[class] : &none;
    struct hrf_region_figures out = { .dice = hrf_overlap_dice(&o->all),
                                      .iou = hrf_overlap_iou(&o->all),
                                      .mean_dice = o->n_present > 0
                                                       ? o->dice_sum / (double)o->n_present
                                                       : (double)NAN,
                                      .n_judged = o->all.n_slides,
                                      .n_present = o->n_present };
    for (size_t i = 0; i < cohort->n_slides; i++)
        if (cohort->slides[i].scores[precision].label_pixels != NULL)
            out.mm2 += hrf_cohort_area(&cohort->slides[i].scores[precision], class);
    return out;
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
