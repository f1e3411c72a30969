/* report_json_slides.c - what a precision says of the slides, for report.json. */
#include "aggregate/camelyon16/precision_recall.h"
#include "aggregate/report/report_json_private.h"

#include <math.h>

static json_t *confusion_json(const struct hrf_confusion *c)
{
    json_t *object = json_object();
    hrf_json_put(object, "true_positive", json_integer(c->true_positive));
    hrf_json_put(object, "false_positive", json_integer(c->false_positive));
    hrf_json_put(object, "true_negative", json_integer(c->true_negative));
    hrf_json_put(object, "false_negative", json_integer(c->false_negative));
    hrf_json_put_ratio(object, "sensitivity", hrf_confusion_sensitivity(c),
                       "no positive slide was scored");
    hrf_json_put_ratio(object, "specificity", hrf_confusion_specificity(c),
                       "no negative slide was scored");
    hrf_json_put_ratio(object, "positive_predictive_value", hrf_confusion_positive_value(c),
                       "no slide was called positive");
    hrf_json_put_ratio(object, "negative_predictive_value", hrf_confusion_negative_value(c),
                       "no slide was called negative");
    hrf_json_put_ratio(object, "f1", hrf_confusion_f1(c), "no slide is or was called positive");
    return object;
}

json_t *hrf_json_slide_flips(const struct hrf_cohort *cohort, size_t precision)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[precision];
    json_t *array = json_array();
    for (size_t i = 0; i < p->n_flips; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[p->flips[i]];
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put(object, "score", hrf_json_number(slide->scores[precision].value));
        hrf_json_put_text(object, "label",
                          hrf_cohort_slide_label(cohort, &slide->scores[precision]));
        hrf_json_put(object, "reference_score", hrf_json_number(slide->scores[0].value));
        hrf_json_put_text(object, "reference_label",
                          hrf_cohort_slide_label(cohort, &slide->scores[0]));
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
        hrf_json_put(object, "slides", json_integer((json_int_t)bin->n_slides));
        hrf_json_put(object, "mean_score", hrf_json_number(bin->score_sum / (double)bin->n_slides));
        hrf_json_put(object, "positive_fraction",
                     hrf_json_number((double)bin->n_positive / (double)bin->n_slides));
        json_array_append_new(array, object);
    }
    return array;
}

/* Of three or more classes; null for fewer, where one AUC says it all. */
static void put_classes(json_t *object, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_precision *p)
{
    if (p->by_class == NULL) {
        hrf_json_put(object, "classes", json_null());
        hrf_json_put_reason(object, "classes", "the model has fewer than three classes");
        return;
    }
    json_t *classes = json_array();
    for (size_t i = 0; i < cohort->n_classes; i++) {
        const struct hrf_class_figures *c = &p->by_class[i];
        json_t *item = json_object(), *row = json_object();
        hrf_json_put_text(item, "class", cohort->classes[i]);
        hrf_json_put(item, "slides", json_integer((json_int_t)c->n_slides));
        hrf_json_put_figure(item, "auc", &c->auc);
        hrf_json_put_interval(item, "auc_ci", &c->auc, &c->auc_interval);
        hrf_json_put_figure(item, "average_precision", &c->average_precision);
        hrf_json_put_figure(item, "recall", &c->recall);
        hrf_json_put_figure(item, "class_precision", &c->precision);
        for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
            hrf_json_put(row, cohort->classes[k],
                         json_integer((json_int_t)p->class_confusion[i * cohort->n_classes + k]));
        hrf_json_put(item, "labelled_as", row); /* empty where labels do not exclude each other */
        json_array_append_new(classes, item);
    }
    hrf_json_put(object, "classes", classes);
    hrf_json_put_figure(object, "macro_auc", &p->macro_auc);
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
        hrf_json_put(object, "froc", json_null());
        hrf_json_put_reason(object, "froc", p->froc_score.reason);
        return;
    }
    json_t *froc = json_object(), *rates = json_array(), *sensitivities = json_array();
    for (int i = 0; i < HRF_FROC_RATES; i++) {
        json_array_append_new(rates, json_real(hrf_froc_rates[i]));
        json_array_append_new(sensitivities, json_real(p->froc.sensitivity[i]));
    }
    hrf_json_put_figure(froc, "score", &p->froc_score);
    hrf_json_put_interval(froc, "score_ci", &p->froc_score, &p->froc.interval);
    hrf_json_put_text(froc, "evaluation", hrf_froc_rule_name(HRF_FROC_OFFICIAL));
    hrf_json_put(froc, "false_positives_per_slide", rates);
    hrf_json_put(froc, "sensitivities", sensitivities);
    hrf_json_put(froc, "lesions", json_integer((json_int_t)p->froc.n_lesions));
    hrf_json_put(froc, "itc", json_integer((json_int_t)p->froc.n_itc));
    hrf_json_put(froc, "lesions_hit", json_integer((json_int_t)p->froc.n_hits));
    hrf_json_put(froc, "false_positives", json_integer((json_int_t)p->froc.n_false_positives));
    hrf_json_put(froc, "slides", json_integer((json_int_t)p->froc.n_slides));
    hrf_json_put(froc, "excluded", gaps_json(cohort));
    hrf_json_put(object, "froc", froc);
}

/* Patches against the outlines; the slides that are not part of it are those of the lesion task. */
static void put_patch_task(json_t *object, const struct hrf_cohort *cohort,
                           const struct hrf_cohort_precision *p)
{
    hrf_json_put_figure(object, "patch_auc", &p->patch_auc);
    hrf_json_put_interval(object, "patch_auc_ci", &p->patch_auc, &p->patch_auc_interval);
    hrf_json_put_figure(object, "patch_auc_difference", &p->patch_auc_difference);
    hrf_json_put_interval(object, "patch_auc_difference_ci", &p->patch_auc_difference,
                          &p->patch_auc_difference_interval);
    if (isnan(p->patch_auc.value)) {
        hrf_json_put(object, "patch_task", json_null());
        hrf_json_put_reason(object, "patch_task", p->patch_auc.reason);
        return;
    }
    hrf_json_put(object, "patch_task",
                 json_pack("{sIsIsIso}", "slides", (json_int_t)p->n_patch_slides, "positive",
                           (json_int_t)p->n_positive_patches, "negative",
                           (json_int_t)p->n_negative_patches, "excluded", gaps_json(cohort)));
}

/* A figure of a regression that has no value: all truths, or all scores, are one number. */
static void put_regression(json_t *object, const struct hrf_cohort_precision *p)
{
    const struct hrf_regression *r = &p->regression;
    if (isnan(p->mean_absolute_error.value)) {
        hrf_json_put(object, "regression", json_null());
        hrf_json_put_reason(object, "regression", p->mean_absolute_error.reason);
        return;
    }
    json_t *figures = json_pack("{sI}", "slides", (json_int_t)r->n);
    hrf_json_put(figures, "mean_absolute_error", json_real(r->mean_absolute_error));
    hrf_json_put(figures, "r2", isnan(r->r2) ? json_null() : json_real(r->r2));
    hrf_json_put(figures, "spearman", isnan(r->spearman) ? json_null() : json_real(r->spearman));
    hrf_json_put(object, "regression", figures);
}

/* What other thresholds would give. */
static json_t *operating_json(const struct hrf_cohort_precision *p)
{
    static const char *const rules[] = { "in_use", "youden", "specificity", "sensitivity" };
    json_t *array = json_array();
    for (size_t i = 0; i < p->operating.n; i++) {
        const struct hrf_operating_row *row = &p->operating.items[i];
        json_t *object = confusion_json(&row->confusion);
        hrf_json_put_text(object, "chosen_by", rules[row->rule]);
        if (row->wanted > 0.0)
            hrf_json_put(object, "wanted", json_real(row->wanted));
        hrf_json_put(object, "threshold", hrf_json_number(row->threshold));
        json_array_append_new(array, object);
    }
    return array;
}

void hrf_json_put_slide_figures(json_t *object, const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p)
{
    hrf_json_put_figure(object, "slide_auc", &p->slide_auc);
    hrf_json_put_interval(object, "slide_auc_ci", &p->slide_auc, &p->slide_auc_interval);
    if (!isnan(p->slide_auc.value))
        hrf_json_put(object, "slide_auc_pairs",
                     json_pack("{sIsIsI}", "in_order", (json_int_t)p->slide_pairs.in_order, "tied",
                               (json_int_t)p->slide_pairs.tied, "total",
                               (json_int_t)p->slide_pairs.total));
    hrf_json_put_text(object, "slide_auc_ci_method", HRF_AUC_INTERVAL_METHOD);
    hrf_json_put_interval(object, "slide_auc_bootstrap_ci", &p->slide_auc, &p->slide_auc_bootstrap);
    if (!isnan(p->slide_auc.value))
        hrf_json_put(object, "slide_auc_bootstrap_is_degenerate",
                     json_boolean(p->slide_auc_bootstrap.low == p->slide_auc_bootstrap.high));
    hrf_json_put_figure(object, "average_precision", &p->average_precision);
    hrf_json_put_figure(object, "auc_difference", &p->auc_difference);
    hrf_json_put_interval(object, "auc_difference_ci", &p->auc_difference,
                          &p->auc_difference_interval);
    hrf_json_put_figure(object, "delong_p", &p->delong_p);
    hrf_json_put_figure(object, "calibration_error", &p->calibration_error);
    hrf_json_put(object, "calibration_curve", p->n_labelled > 0 ? curve_json(p) : json_null());
    if (p->n_labelled == 0)
        hrf_json_put_reason(object, "calibration_curve", p->calibration_error.reason);
    hrf_json_put_figure(object, "slide_accuracy", &p->slide_accuracy);
    hrf_json_put_figure(object, "balanced_accuracy", &p->balanced_accuracy);
    put_classes(object, cohort, p);
    put_regression(object, p);
    put_patch_task(object, cohort, p);
    put_froc(object, cohort, p);
    hrf_json_put(object, "labelled_slides", json_integer((json_int_t)p->n_labelled));
    hrf_json_put(object, "labelled_slides_without_score", json_integer((json_int_t)p->n_unscored));
    hrf_json_put(object, "operating_points", operating_json(p));
    hrf_json_put(object, "confusion",
                 p->n_labelled > 0 ? confusion_json(&p->confusion) : json_null());
    if (p->n_labelled == 0)
        hrf_json_put_reason(object, "confusion", p->slide_accuracy.reason);
}
