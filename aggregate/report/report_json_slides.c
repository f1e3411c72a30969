/* report_json_slides.c - the figures of slides at one precision, for report.json. */
#include "aggregate/report/report_json_private.h"

#include <math.h>

static void put(json_t *object, enum hrf_figure_part part, const struct hrf_cohort_precision *p)
{
    hrf_figures_put(object, hrf_precision_rows, part, p);
}

static json_t *confusion_json(const struct hrf_confusion *c)
{
    json_t *object = json_object();
    hrf_figures_put(object, hrf_confusion_rows, 0, c);
    return object;
}

json_t *hrf_json_slide_flips(const struct hrf_cohort *cohort, size_t precision)
{
    const struct hrf_cohort_precision *p = &cohort->precisions[precision];
    json_t *array = json_array();
    for (size_t i = 0; i < p->slides.n_flips; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[p->slides.flips[i]];
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put_number(object, "score", slide->scores[precision].value);
        hrf_json_put_text(object, "label",
                          hrf_cohort_slide_label(cohort, &slide->scores[precision]));
        hrf_json_put_number(object, "reference_score", slide->scores[0].value);
        hrf_json_put_text(object, "reference_label",
                          hrf_cohort_slide_label(cohort, &slide->scores[0]));
        hrf_json_add(array, object);
    }
    return array;
}

/* The tenths of the score that hold a labelled slide. */
static json_t *curve_json(const struct hrf_cohort_precision *p)
{
    json_t *array = json_array();
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->slides.reliability[i];
        if (bin->n_slides == 0)
            continue;
        json_t *object = json_object();
        hrf_json_put_int(object, "slides", (int64_t)bin->n_slides);
        hrf_json_put_number(object, "mean_score", bin->score_sum / (double)bin->n_slides);
        hrf_json_put(object, "positive_fraction",
                     hrf_json_number((double)bin->n_positive / (double)bin->n_slides));
        hrf_json_add(array, object);
    }
    return array;
}

/* The object is null for fewer than three classes, where one AUC says it all. */
static void put_classes(json_t *object, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_precision *p)
{
    if (p->slides.by_class == NULL) {
        hrf_json_put(object, "classes", json_null());
        hrf_json_put_reason(object, "classes", "the model has fewer than three classes");
        return;
    }
    json_t *classes = json_array();
    for (size_t i = 0; i < cohort->n_classes; i++) {
        const struct hrf_class_figures *c = &p->slides.by_class[i];
        json_t *item = json_object(), *row = json_object();
        hrf_json_put_text(item, "class", cohort->classes[i]);
        hrf_figures_put(item, hrf_class_rows, 0, c);
        const size_t *labelled_as = &p->slides.class_confusion[i * cohort->n_classes];
        for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
            hrf_json_put_int(row, cohort->classes[k], (int64_t)labelled_as[k]);
        hrf_json_put(item, "labelled_as", row); /* empty where labels do not exclude each other */
        hrf_json_add(classes, item);
    }
    hrf_json_put(object, "classes", classes);
    put(object, HRF_FIGURES_MACRO, p);
}

/* Slides with a truth whose lesions are not known well enough. */
static json_t *gaps_json(const struct hrf_cohort *cohort)
{
    json_t *excluded = json_array();
    for (size_t i = 0; i < cohort->n_lesion_gaps; i++) {
        json_t *gap = json_object();
        hrf_json_put_text(gap, "slide", cohort->lesion_gaps[i].slide);
        hrf_json_put_text(gap, "reason", cohort->lesion_gaps[i].reason);
        hrf_json_add(excluded, gap);
    }
    return excluded;
}

/* The lesion task by the official arithmetic; which slides are not part of it stands in "excluded".
 */
static void put_froc(json_t *object, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_precision *p)
{
    if (isnan(p->lesions.score.value)) {
        hrf_json_put(object, "froc", json_null());
        hrf_json_put_reason(object, "froc", p->lesions.score.reason);
        return;
    }
    json_t *froc = json_object();
    put(froc, HRF_FIGURES_LESIONS, p);
    if (p->lesions.froc.no_interval[0] == '\0') {
        hrf_json_put_interval(froc, "score_ci", p->lesions.score.value, NULL,
                              &p->lesions.froc.interval);
    } else {
        hrf_json_put(froc, "score_ci", json_null());
        hrf_json_put_reason(froc, "score_ci", p->lesions.froc.no_interval);
    }
    hrf_json_put_text(froc, "evaluation", hrf_froc_rule_names[HRF_FROC_OFFICIAL]);
    hrf_json_put(froc, "false_positives_per_slide",
                 hrf_json_numbers(hrf_froc_rates, HRF_FROC_RATES));
    hrf_json_put(froc, "sensitivities",
                 hrf_json_numbers(p->lesions.froc.sensitivity, HRF_FROC_RATES));
    hrf_json_put_int(froc, "lesions", (int64_t)p->lesions.froc.n_lesions);
    hrf_json_put_int(froc, "itc", (int64_t)p->lesions.froc.n_itc);
    hrf_json_put_int(froc, "lesions_hit", (int64_t)p->lesions.froc.n_hits);
    hrf_json_put_int(froc, "false_positives", (int64_t)p->lesions.froc.n_false_positives);
    hrf_json_put_int(froc, "slides", (int64_t)p->lesions.froc.n_slides);
    hrf_json_put(froc, "excluded", gaps_json(cohort));
    hrf_json_put(object, "froc", froc);
}

/* Patches against the outlines; the slides that are not part of it are those of the lesion task. */
static void put_patch_task(json_t *object, const struct hrf_cohort *cohort,
                           const struct hrf_cohort_precision *p)
{
    put(object, HRF_FIGURES_PATCHES, p);
    if (isnan(p->patches.auc.value)) {
        hrf_json_put(object, "patch_task", json_null());
        hrf_json_put_reason(object, "patch_task", p->patches.auc.reason);
        return;
    }
    json_t *task = json_object();
    hrf_json_put_int(task, "slides", (int64_t)p->patches.n_slides);
    hrf_json_put_int(task, "positive", (int64_t)p->patches.n_positive);
    hrf_json_put_int(task, "negative", (int64_t)p->patches.n_negative);
    hrf_json_put(task, "excluded", gaps_json(cohort));
    hrf_json_put(object, "patch_task", task);
}

static void put_regression(json_t *object, const struct hrf_cohort_precision *p)
{
    if (isnan(p->slides.mean_absolute_error.value)) {
        hrf_json_put(object, "regression", json_null());
        hrf_json_put_reason(object, "regression", p->slides.mean_absolute_error.reason);
        return;
    }
    json_t *figures = json_object();
    put(figures, HRF_FIGURES_REGRESSION, p);
    hrf_json_put(object, "regression", figures);
}

/* What other thresholds would give. */
static json_t *operating_json(const struct hrf_cohort_precision *p)
{
    static const char *const rules[] = { "in_use", "youden", "specificity", "sensitivity" };
    json_t *array = json_array();
    for (size_t i = 0; i < p->slides.operating.n; i++) {
        const struct hrf_operating_row *row = &p->slides.operating.items[i];
        json_t *object = confusion_json(&row->confusion);
        hrf_json_put_text(object, "chosen_by", rules[row->rule]);
        if (row->wanted > 0.0)
            hrf_json_put_number(object, "wanted", row->wanted);
        hrf_json_put_number(object, "threshold", row->threshold);
        hrf_json_add(array, object);
    }
    return array;
}

void hrf_json_put_slide_figures(json_t *object, const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p)
{
    put(object, HRF_FIGURES_AUC, p);
    if (!isnan(p->slides.auc.value)) {
        json_t *pairs = json_object();
        hrf_json_put_int(pairs, "in_order", p->slides.pairs.in_order);
        hrf_json_put_int(pairs, "tied", p->slides.pairs.tied);
        hrf_json_put_int(pairs, "total", p->slides.pairs.total);
        hrf_json_put(object, "slide_auc_pairs", pairs);
    }
    hrf_json_put_text(object, "slide_auc_ci_method", HRF_AUC_INTERVAL_METHOD);
    hrf_json_put_interval(object, "slide_auc_bootstrap_ci", p->slides.auc.value,
                          p->slides.auc.reason, &p->slides.auc_bootstrap);
    if (!isnan(p->slides.auc.value))
        hrf_json_put_bool(object, "slide_auc_bootstrap_is_degenerate",
                          p->slides.auc_bootstrap.low == p->slides.auc_bootstrap.high);
    put(object, HRF_FIGURES_SLIDES, p);
    hrf_json_put(object, "calibration_curve",
                 p->slides.n_labelled > 0 ? curve_json(p) : json_null());
    if (p->slides.n_labelled == 0)
        hrf_json_put_reason(object, "calibration_curve", p->slides.calibration_error.reason);
    put(object, HRF_FIGURES_ACCURACY, p);
    put_classes(object, cohort, p);
    put_regression(object, p);
    put_patch_task(object, cohort, p);
    put_froc(object, cohort, p);
    put(object, HRF_FIGURES_LABELLED, p);
    hrf_json_put(object, "operating_points", operating_json(p));
    hrf_json_put(object, "confusion",
                 p->slides.n_labelled > 0 ? confusion_json(&p->slides.confusion) : json_null());
    if (p->slides.n_labelled == 0)
        hrf_json_put_reason(object, "confusion", p->slides.accuracy.reason);
}
