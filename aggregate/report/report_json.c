/* report_json.c - writes report.json. */
#include "aggregate/report/report_json.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Takes `value`. jansson fails only when memory is out; the document then says so. */
static void put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        json_object_set_new(object, "out_of_memory", json_true());
}

static void put_text(json_t *object, const char *key, const char *text)
{
    put(object, key, text != NULL ? hrf_json_string(text) : json_null());
}

static void put_reason(json_t *object, const char *key, const char *reason)
{
    char name[64];
    snprintf(name, sizeof name, "%s_reason", key);
    put_text(object, name, reason);
}

static void put_figure(json_t *object, const char *key, const struct hrf_figure *figure)
{
    put(object, key, hrf_json_number(figure->value));
    if (isnan(figure->value))
        put_reason(object, key, figure->reason);
}

static void put_ratio(json_t *object, const char *key, double value, const char *reason)
{
    put(object, key, hrf_json_number(value));
    if (isnan(value))
        put_reason(object, key, reason);
}

static json_t *counts_json(const struct hrf_cohort_counts *counts)
{
    json_t *object = json_object();
    put(object, "total", json_integer((json_int_t)counts->total));
    put(object, "done", json_integer((json_int_t)counts->done));
    put(object, "failed", json_integer((json_int_t)counts->failed));
    put(object, "no_tissue", json_integer((json_int_t)counts->no_tissue));
    put(object, "excluded", json_integer((json_int_t)counts->excluded));
    put(object, "pending", json_integer((json_int_t)counts->pending));
    return object;
}

static json_t *calibration_json(const struct hrf_calibration_facts *facts)
{
    json_t *object = json_object();
    put_text(object, "key", facts->key);
    if (facts->key == NULL) {
        static const char *const keys[] = { "cached", "seconds",   "samples",
                                            "method", "sample_of", "kept_in_float32" };
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            put(object, keys[i], json_null());
        put_reason(object, "key", facts->reason != NULL ? facts->reason : "nothing was calibrated");
        return object;
    }
    put(object, "cached", json_boolean(facts->cached));
    put(object, "seconds", hrf_json_number(facts->seconds));
    put(object, "samples", json_integer(facts->samples));
    put_text(object, "method", facts->method);
    put_text(object, "sample_of", facts->of_other_slides ? "calibrate.slides" : "dataset");
    json_t *kept = json_array();
    for (size_t i = 0; i < facts->n_kept; i++)
        json_array_append_new(kept,
                              json_pack("{soso}", "name", hrf_json_string(facts->kept[i].name),
                                        "reason", hrf_json_string(facts->kept[i].reason)));
    put(object, "kept_in_float32", kept);
    return object;
}

static json_t *confusion_json(const struct hrf_confusion *c)
{
    json_t *object = json_object();
    put(object, "true_positive", json_integer(c->true_positive));
    put(object, "false_positive", json_integer(c->false_positive));
    put(object, "true_negative", json_integer(c->true_negative));
    put(object, "false_negative", json_integer(c->false_negative));
    put_ratio(object, "sensitivity", hrf_confusion_sensitivity(c), "no positive slide was scored");
    put_ratio(object, "specificity", hrf_confusion_specificity(c), "no negative slide was scored");
    return object;
}

static json_t *timing_json(const struct hrf_timing *timing)
{
    json_t *object = json_object();
    put(object, "build", hrf_json_number(timing->build));
    put(object, "decode", hrf_json_number(timing->decode));
    put(object, "prepare", hrf_json_number(timing->prepare));
    put(object, "compute", hrf_json_number(timing->compute));
    put_ratio(object, "copy", timing->copy, "no device apart from the host computed");
    put_ratio(object, "kernels", timing->kernels, "no device apart from the host computed");
    put(object, "wait", hrf_json_number(timing->wait));
    put(object, "write", hrf_json_number(timing->write));
    put(object, "total", hrf_json_number(timing->total));
    return object;
}

static json_t *flips_json(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_flips; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[p->flips[i]];
        json_t *object = json_object();
        put_text(object, "slide", slide->name);
        put(object, "score", hrf_json_number(slide->scores[index].value));
        put_text(object, "label", hrf_cohort_slide_label(cohort, &slide->scores[index]));
        put(object, "reference_score", hrf_json_number(slide->scores[0].value));
        put_text(object, "reference_label", hrf_cohort_slide_label(cohort, &slide->scores[0]));
        json_array_append_new(array, object);
    }
    return array;
}

/* The tenths of the score that hold a labelled slide. */
static json_t *curve_json(const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->reliability[i];
        if (bin->n_slides == 0)
            continue;
        json_t *object = json_object();
        put(object, "slides", json_integer((json_int_t)bin->n_slides));
        put(object, "mean_score", hrf_json_number(bin->score_sum / (double)bin->n_slides));
        put(object, "positive_fraction",
            hrf_json_number((double)bin->n_positive / (double)bin->n_slides));
        json_array_append_new(array, object);
    }
    return array;
}

static const char no_spread[] =
    "degenerate: all is ordered alike, so that there is no spread to make an interval of";

static void put_interval(json_t *object, const char *key, const struct hrf_figure *figure,
                         const struct hrf_interval *interval)
{
    if (isnan(figure->value)) {
        put(object, key, json_null());
        put_reason(object, key, figure->reason);
        return;
    }
    if (isnan(interval->low)) {
        put(object, key, json_null());
        put_reason(object, key, no_spread);
        return;
    }
    json_t *ends = json_array();
    json_array_append_new(ends, hrf_json_number(interval->low));
    json_array_append_new(ends, hrf_json_number(interval->high));
    put(object, key, ends);
}

/* Of three or more classes; null for fewer, where one AUC says it all. */
static void put_classes(json_t *object, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_precision *p)
{
    if (p->by_class == NULL) {
        put(object, "classes", json_null());
        put_reason(object, "classes", "the model has fewer than three classes");
        return;
    }
    json_t *classes = json_array();
    for (size_t i = 0; i < cohort->n_classes; i++) {
        const struct hrf_class_figures *c = &p->by_class[i];
        json_t *item = json_object(), *row = json_object();
        put_text(item, "class", cohort->classes[i]);
        put(item, "slides", json_integer((json_int_t)c->n_slides));
        put_figure(item, "auc", &c->auc);
        put_interval(item, "auc_ci", &c->auc, &c->auc_interval);
        put_figure(item, "recall", &c->recall);
        for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
            put(row, cohort->classes[k],
                json_integer((json_int_t)p->class_confusion[i * cohort->n_classes + k]));
        put(item, "labelled_as", row); /* empty where labels do not exclude each other */
        json_array_append_new(classes, item);
    }
    put(object, "classes", classes);
    put_figure(object, "macro_auc", &p->macro_auc);
}

/* Slides with a truth whose lesions are not known well enough. */
static json_t *gaps_json(const struct hrf_cohort *cohort)
{
    json_t *excluded = json_array();
    for (size_t i = 0; i < cohort->n_lesion_gaps; i++)
        json_array_append_new(
            excluded, json_pack("{soso}", "slide", hrf_json_string(cohort->lesion_gaps[i].slide),
                                "reason", hrf_json_string(cohort->lesion_gaps[i].reason)));
    return excluded;
}

/* The lesion task by the official arithmetic; which slides are not part of it stands in "excluded".
 */
static void put_froc(json_t *object, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_precision *p)
{
    if (isnan(p->froc_score.value)) {
        put(object, "froc", json_null());
        put_reason(object, "froc", p->froc_score.reason);
        return;
    }
    json_t *froc = json_object(), *rates = json_array(), *sensitivities = json_array();
    for (int i = 0; i < HRF_FROC_RATES; i++) {
        json_array_append_new(rates, json_real(hrf_froc_rates[i]));
        json_array_append_new(sensitivities, json_real(p->froc.sensitivity[i]));
    }
    put_figure(froc, "score", &p->froc_score);
    put_interval(froc, "score_ci", &p->froc_score, &p->froc.interval);
    put_text(froc, "evaluation", hrf_froc_rule_name(HRF_FROC_OFFICIAL));
    put(froc, "false_positives_per_slide", rates);
    put(froc, "sensitivities", sensitivities);
    put(froc, "lesions", json_integer((json_int_t)p->froc.n_lesions));
    put(froc, "itc", json_integer((json_int_t)p->froc.n_itc));
    put(froc, "lesions_hit", json_integer((json_int_t)p->froc.n_hits));
    put(froc, "false_positives", json_integer((json_int_t)p->froc.n_false_positives));
    put(froc, "slides", json_integer((json_int_t)p->froc.n_slides));
    put(froc, "excluded", gaps_json(cohort));
    put(object, "froc", froc);
}

/* Patches against the outlines; the slides that are not part of it are those of the lesion task. */
static void put_patch_task(json_t *object, const struct hrf_cohort *cohort,
                           const struct hrf_cohort_precision *p)
{
    put_figure(object, "patch_auc", &p->patch_auc);
    put_interval(object, "patch_auc_ci", &p->patch_auc, &p->patch_auc_interval);
    put_figure(object, "patch_auc_difference", &p->patch_auc_difference);
    put_interval(object, "patch_auc_difference_ci", &p->patch_auc_difference,
                 &p->patch_auc_difference_interval);
    if (isnan(p->patch_auc.value)) {
        put(object, "patch_task", json_null());
        put_reason(object, "patch_task", p->patch_auc.reason);
        return;
    }
    put(object, "patch_task",
        json_pack("{sIsIsIso}", "slides", (json_int_t)p->n_patch_slides, "positive",
                  (json_int_t)p->n_positive_patches, "negative", (json_int_t)p->n_negative_patches,
                  "excluded", gaps_json(cohort)));
}

/* A figure of a regression that has no value: all truths, or all scores, are one number. */
static void put_regression(json_t *object, const struct hrf_cohort_precision *p)
{
    const struct hrf_regression *r = &p->regression;
    if (isnan(p->mean_absolute_error.value)) {
        put(object, "regression", json_null());
        put_reason(object, "regression", p->mean_absolute_error.reason);
        return;
    }
    json_t *figures = json_pack("{sI}", "slides", (json_int_t)r->n);
    put(figures, "mean_absolute_error", json_real(r->mean_absolute_error));
    put(figures, "r2", isnan(r->r2) ? json_null() : json_real(r->r2));
    put(figures, "spearman", isnan(r->spearman) ? json_null() : json_real(r->spearman));
    put(object, "regression", figures);
}

static void put_slide_figures(json_t *object, const struct hrf_cohort *cohort,
                              const struct hrf_cohort_precision *p)
{
    put_figure(object, "slide_auc", &p->slide_auc);
    put_interval(object, "slide_auc_ci", &p->slide_auc, &p->slide_auc_interval);
    if (!isnan(p->slide_auc.value))
        put(object, "slide_auc_pairs",
            json_pack("{sIsIsI}", "in_order", (json_int_t)p->slide_pairs.in_order, "tied",
                      (json_int_t)p->slide_pairs.tied, "total", (json_int_t)p->slide_pairs.total));
    put_text(object, "slide_auc_ci_method", HRF_AUC_INTERVAL_METHOD);
    put_interval(object, "slide_auc_bootstrap_ci", &p->slide_auc, &p->slide_auc_bootstrap);
    if (!isnan(p->slide_auc.value))
        put(object, "slide_auc_bootstrap_is_degenerate",
            json_boolean(p->slide_auc_bootstrap.low == p->slide_auc_bootstrap.high));
    put_figure(object, "auc_difference", &p->auc_difference);
    put_interval(object, "auc_difference_ci", &p->auc_difference, &p->auc_difference_interval);
    put_figure(object, "delong_p", &p->delong_p);
    put_figure(object, "calibration_error", &p->calibration_error);
    put(object, "calibration_curve", p->n_labelled > 0 ? curve_json(p) : json_null());
    if (p->n_labelled == 0)
        put_reason(object, "calibration_curve", p->calibration_error.reason);
    put_figure(object, "slide_accuracy", &p->slide_accuracy);
    put_figure(object, "balanced_accuracy", &p->balanced_accuracy);
    put_classes(object, cohort, p);
    put_regression(object, p);
    put_patch_task(object, cohort, p);
    put_froc(object, cohort, p);
    put(object, "labelled_slides", json_integer((json_int_t)p->n_labelled));
    put(object, "labelled_slides_without_score", json_integer((json_int_t)p->n_unscored));
    put(object, "confusion", p->n_labelled > 0 ? confusion_json(&p->confusion) : json_null());
    if (p->n_labelled == 0)
        put_reason(object, "confusion", p->slide_accuracy.reason);
}

/* The patches whose class moved furthest; all of them are in results/patch-flips.csv. */
static json_t *patch_flips_json(const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_top_flips; i++) {
        const struct hrf_patch_flip *flip = &p->difference.flips[p->top_flips[i]];
        json_t *object = json_object();
        put_text(object, "slide", cohort->slides[flip->slide].name);
        put(object, "x", json_integer(flip->at.x));
        put(object, "y", json_integer(flip->at.y));
        put(object, "reference_score", hrf_json_number((double)flip->reference_score));
        put_text(object, "reference_label", hrf_cohort_class(cohort, flip->reference_class));
        put(object, "score", hrf_json_number((double)flip->score));
        put_text(object, "label", hrf_cohort_class(cohort, flip->new_class));
        put(object, "max_abs_difference", hrf_json_number((double)flip->difference));
        json_array_append_new(array, object);
    }
    return array;
}

static void put_differences(json_t *object, const struct hrf_cohort *cohort,
                            const struct hrf_cohort_precision *p)
{
    const struct hrf_difference *d = &p->difference;
    put_figure(object, "patch_agreement", &p->patch_agreement);
    put_figure(object, "max_abs_difference", &p->max_abs_difference);
    put_figure(object, "mean_abs_difference", &p->mean_abs_difference);
    put(object, "patches_compared", json_integer(d->n_patches));
    put(object, "patch_flips", json_integer((json_int_t)d->n_flips));
    put(object, "largest_patch_flips", patch_flips_json(cohort, p));
    json_t *bins = json_array();
    for (int i = 0; i < HRF_DIFFERENCE_BINS; i++) {
        if (d->bins[i] == 0)
            continue;
        json_t *bin = json_object();
        put(bin, "from", hrf_json_number(i == 0 ? 0.0 : hrf_difference_bin_start(i)));
        put(bin, "patches", json_integer(d->bins[i]));
        json_array_append_new(bins, bin);
    }
    put(object, "difference_histogram", bins);
}

/* Null for a run of scores. */
static void put_embedding(json_t *object, const struct hrf_cohort *cohort,
                          const struct hrf_cohort_precision *p)
{
    if (!cohort->is_embedding) {
        put(object, "embedding", json_null());
        put_reason(object, "embedding", p->cosine_mean.reason);
        return;
    }
    json_t *embedding = json_object();
    put(embedding, "width", json_integer(p->drift.width));
    put(embedding, "patches_compared", json_integer((json_int_t)p->drift.n_patches));
    put_figure(embedding, "cosine_mean", &p->cosine_mean);
    put_figure(embedding, "cosine_median", &p->cosine_median);
    put_figure(embedding, "cosine_percentile1", &p->cosine_percentile1);
    put_figure(embedding, "cosine_least", &p->cosine_least);
    put(object, "embedding", embedding);
}

static void put_gains(json_t *object, const struct hrf_cohort_precision *p)
{
    const bool scored = p->n_patches > 0;
    put_figure(object, "speedup", &p->speedup);
    put_figure(object, "compute_speedup", &p->compute_speedup);
    put_ratio(object, "peak_memory_bytes", NAN, "no patch was scored");
    put_ratio(object, "peak_process_bytes", NAN,
              scored ? "the jobs did not tell" : "no patch was scored");
    if (scored) {
        put(object, "peak_memory_bytes", json_integer(p->peak_memory_bytes));
        json_object_del(object, "peak_memory_bytes_reason");
    }
    if (p->peak_process_bytes > 0) {
        put(object, "peak_process_bytes", json_integer(p->peak_process_bytes));
        json_object_del(object, "peak_process_bytes_reason");
    }
    put_figure(object, "memory_ratio", &p->memory_ratio);
    put_ratio(object, "device_memory_bytes", NAN,
              !scored                    ? "no patch was scored"
              : isnan(p->timing.kernels) ? "no GPU computed"
                                         : "NVIDIA's driver (NVML) did not tell");
    if (p->device_memory_bytes > 0) {
        put(object, "device_memory_bytes", json_integer(p->device_memory_bytes));
        json_object_del(object, "device_memory_bytes_reason");
    }
    put_figure(object, "energy_joules_per_patch", &p->energy);
    put_figure(object, "gpu_energy_joules_per_patch", &p->gpu_energy);
}

/* "" of a record is null here. */
static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? hrf_json_string(text) : json_null();
}

static json_t *hardware_json(const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_hardware; i++) {
        const struct hrf_hardware *h = &p->hardware[i];
        json_t *object = json_object();
        put(object, "model", text_or_null(h->model));
        put(object, "path", text_or_null(h->path));
        put(object, "driver", text_or_null(h->driver));
        put(object, "libraries", text_or_null(h->libraries));
        json_array_append_new(array, object);
    }
    return array;
}

static void put_traffic(json_t *object, const struct hrf_traffics *traffic)
{
    if (traffic->transport[0] == '\0') {
        put(object, "communication", json_null());
        put_text(object, "communication_reason", "no network was shared out over ranks");
        return;
    }
    json_t *operations = json_array();
    for (int32_t i = 0; i < traffic->n_items; i++) {
        const struct hrf_traffic *t = &traffic->items[i];
        const double seconds = t->sending + t->receiving;
        json_t *item = json_object();
        put_text(item, "operation", t->operation);
        put(item, "messages", json_integer(t->messages));
        put(item, "bytes", json_integer(t->bytes));
        put(item, "sending_seconds", hrf_json_number(t->sending));
        put(item, "receiving_seconds", hrf_json_number(t->receiving));
        put(item, "gb_per_s",
            hrf_json_number(seconds > 0.0 ? (double)t->bytes / seconds * 1e-9 : NAN));
        json_array_append_new(operations, item);
    }
    json_t *communication = json_object();
    put_text(communication, "carrier", traffic->transport);
    put(communication, "operations", operations);
    put(object, "communication", communication);
}

static json_t *notes_json(const char *notes)
{
    json_t *list = json_array();
    for (char line[HRF_SCORES_NOTES]; hrf_scores_next_note(&notes, line);)
        json_array_append_new(list, hrf_json_string(line));
    return list;
}

static json_t *precision_json(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[index];
    bool scored = p->n_patches > 0;
    json_t *object = json_object();
    put_text(object, "precision", p->name);
    put_text(object, "device", p->device);
    put(object, "hardware", hardware_json(p));
    put(object, "notes", notes_json(p->notes));
    put(object, "patches", json_integer(p->n_patches));
    put_ratio(object, "seconds", scored ? p->timing.total : NAN, "no patch was scored");
    put_figure(object, "patches_per_second", &p->patches_per_second);
    put_gains(object, p);
    put_differences(object, cohort, p);
    put_embedding(object, cohort, p);
    put(object, "timing", timing_json(&p->timing));
    put_traffic(object, &p->traffic);
    put_slide_figures(object, cohort, p);
    put(object, "slide_flips", flips_json(cohort, index));
    return object;
}

static json_t *phases_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_phases; i++) {
        json_t *object = json_object();
        put_text(object, "name", cohort->phases[i].name);
        put(object, "seconds", hrf_json_number(cohort->phases[i].seconds));
        put(object, "cached", json_boolean(cohort->phases[i].cached));
        put(object, "tasks", json_integer(cohort->phases[i].n_tasks));
        put(object, "cached_tasks", json_integer(cohort->phases[i].n_cached));
        json_array_append_new(array, object);
    }
    return array;
}

/* Every slide that is not simply done, with its state and why. */
static json_t *not_done_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->state == HRF_SLIDE_DONE)
            continue;
        json_t *object = json_object();
        put_text(object, "slide", slide->name);
        put_text(object, "state", hrf_slide_state_word(slide->state));
        put_text(object, "reason", slide->reason);
        json_array_append_new(array, object);
    }
    return array;
}

/* Slides with patches that are white where a tile does not decode. */
static json_t *white_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->n_white == 0)
            continue;
        json_t *object = json_pack("{sIsI}", "white", (json_int_t)slide->n_white, "patches",
                                   (json_int_t)slide->n_patches);
        put_text(object, "slide", slide->name);
        put_text(object, "warning", slide->warning);
        json_array_append_new(array, object);
    }
    return array;
}

static void put_operating_point(json_t *object, const struct hrf_tuning *t)
{
    if (t->reason != NULL) {
        put(object, "operating_point", json_null());
        put_reason(object, "operating_point", t->reason);
        return;
    }
    json_t *point = json_pack("{sIsI}", "slides", (json_int_t)t->n_slides, "positive_slides",
                              (json_int_t)t->n_positive);
    put_text(point, "chosen_by", t->specificity > 0 ? "specificity" : "youden");
    if (t->specificity > 0)
        put(point, "wanted_specificity", json_real(t->specificity));
    put(point, "sensitivity_there", json_real(t->point.true_positive_rate));
    put(point, "specificity_there", json_real(1.0 - t->point.false_positive_rate));
    put(object, "operating_point", point);
}

static json_t *score_json(const struct hrf_cohort *cohort)
{
    json_t *object = json_object();
    put_text(object, "method", hrf_slide_rule_name(cohort->rule.kind));
    if (cohort->rule.kind == HRF_SLIDE_RULE_TOP_K_MEAN)
        put(object, "top_k", json_integer(cohort->rule.top_k));
    if (cohort->rule.kind == HRF_SLIDE_RULE_PERCENTILE)
        put(object, "percentile", hrf_json_number(cohort->rule.percentile));
    put(object, "threshold", hrf_json_number(cohort->threshold));
    if (cohort->tuning.is_asked_for)
        put_operating_point(object, &cohort->tuning);
    put_text(object, "positive", cohort->classes[cohort->positive]);
    put(object, "bootstrap_resamples", json_integer(HRF_BOOTSTRAP_RESAMPLES));
    put(object, "bootstrap_seed", json_integer((json_int_t)cohort->seed));
    return object;
}

json_t *hrf_report_precisions_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_precisions; i++)
        json_array_append_new(array, precision_json(cohort, i));
    return array;
}

enum hrf_status hrf_report_json(const struct hrf_cohort *cohort, const char *path,
                                struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_object();
    put(root, "version", json_integer(1));
    put_text(root, "name", cohort->name);
    put(root, "slides", counts_json(&cohort->counts));
    put(root, "slides_not_done", not_done_json(cohort));
    put(root, "white_patches", white_json(cohort));
    put(root, "slide_score", score_json(cohort));
    put(root, "calibration", calibration_json(&cohort->calibration));
    put(root, "precisions", hrf_report_precisions_json(cohort));
    put(root, "phases", phases_json(cohort));
    json_t *provenance = json_object();
    for (size_t i = 0; i < cohort->n_provenance; i++)
        put_text(provenance, cohort->provenance[i].name, cohort->provenance[i].text);
    put(root, "provenance", provenance);
    return hrf_json_write_file(path, root, err);
}
