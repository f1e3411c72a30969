/* submission_json.c - an evaluation as JSON. */
#include "orchestrator/evaluate/submission.h"

#include <math.h>
#include <stdio.h>

static void put_count(json_t *object, const char *key, size_t count)
{
    hrf_json_put_int(object, key, (int64_t)count);
}

static json_t *interval_json(const struct hrf_interval *interval)
{
    return hrf_json_numbers((const double[]){ interval->low, interval->high }, 2);
}

static json_t *names_json(char *const *names, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        hrf_json_add(array, hrf_json_string(names[i]));
    return array;
}

static void put_slides(json_t *object, const struct hrf_evaluated *task)
{
    put_count(object, "slides", task->n_used);
    put_count(object, "positive_slides", task->n_positive);
    hrf_json_put(object, "missing_slides", names_json(task->missing, task->n_missing));
    hrf_json_put(object, "unknown_slides", names_json(task->unknown, task->n_unknown));
}

static json_t *curve_json(const struct hrf_froc *froc)
{
    json_t *array = json_array();
    for (size_t i = 0; i < froc->n_points; i++) {
        const struct hrf_froc_point *p = &froc->curve[i];
        const double point[] = { p->false_positives, p->sensitivity, p->threshold };
        hrf_json_add(array, hrf_json_numbers(point, 3));
    }
    return array;
}

static void put_froc(json_t *object, const struct hrf_evaluation *e)
{
    const struct hrf_froc *froc = &e->froc;
    hrf_json_put_number(object, "score", froc->score);
    hrf_json_put(object, "score_ci",
                 froc->n_resamples > 0 ? interval_json(&froc->interval) : json_null());
    hrf_json_put(object, "score_ci_method",
                 froc->n_resamples > 0
                     ? json_sprintf("percentile bootstrap over slides, stratified, %lld resamples",
                                    (long long)froc->n_resamples)
                     : json_null());
    if (froc->n_resamples == 0)
        hrf_json_put_text(object, "score_ci_reason", froc->no_interval);
    hrf_json_put(object, "false_positives_per_slide",
                 hrf_json_numbers(hrf_froc_rates, HRF_FROC_RATES));
    hrf_json_put(object, "sensitivities", hrf_json_numbers(froc->sensitivity, HRF_FROC_RATES));
    put_count(object, "lesions", froc->n_lesions);
    put_count(object, "itc", froc->n_itc);
    put_count(object, "lesions_hit", froc->n_hits);
    put_count(object, "false_positives", froc->n_false_positives);
    put_count(object, "detections_on_itc", e->n_ignored);
    put_count(object, "slides_averaged", froc->n_averaged);
    hrf_json_put(object, "curve", curve_json(froc));
}

static json_t *froc_json(const struct hrf_evaluation *e)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "evaluation", hrf_froc_rule_names[e->params.rule]);
    put_slides(object, &e->lesion_task);
    put_count(object, "truth_from_masks", e->n_masks);
    put_count(object, "truth_from_outlines", e->n_outlines);
    if (e->froc_reason == NULL) {
        put_froc(object, e);
    } else {
        hrf_json_put(object, "score", json_null());
        hrf_json_put_text(object, "score_reason", e->froc_reason);
    }
    return object;
}

static void put_auc(json_t *root, const struct hrf_evaluation *e)
{
    json_t *task = json_object();
    put_slides(task, &e->slide_task);
    hrf_json_put_number(root, "slide_auc", e->auc);
    hrf_json_put(root, "slide_task", task);
    if (isnan(e->auc)) {
        hrf_json_put_text(root, "slide_auc_reason", e->auc_reason);
        return;
    }
    hrf_json_put(root, "slide_auc_ci", interval_json(&e->auc_interval));
    hrf_json_put_text(root, "slide_auc_ci_method", HRF_AUC_INTERVAL_METHOD);
    hrf_json_put(root, "slide_auc_bootstrap_ci", interval_json(&e->auc_bootstrap));
    hrf_json_put_number(root, "slide_auc_macro", e->macro_auc);
    hrf_json_put_number(root, "slide_auc_micro", e->micro_auc);
}

/* The point, or why there is none. Its ratios are null where they have no denominator. */
static void put_operating_point(json_t *root, const struct hrf_evaluation *e)
{
    const struct hrf_confusion *c = &e->confusion;
    if (e->operating_point_reason != NULL) {
        hrf_json_put(root, "operating_point", json_null());
        hrf_json_put_text(root, "operating_point_reason", e->operating_point_reason);
        return;
    }
    json_t *object = json_object();
    hrf_json_put_number(object, "threshold", e->operating_point.threshold);
    hrf_json_put(object, "chosen_by",
                 e->params.specificity > 0.0
                     ? json_sprintf("sensitivity at a specificity of %g", e->params.specificity)
                     : json_string("Youden's J"));
    hrf_json_put_text(object, "chosen_on", e->params.tuning);
    put_slides(object, &e->tuning);
    hrf_json_put_number(object, "sensitivity_there", e->operating_point.true_positive_rate);
    hrf_json_put_number(object, "specificity_there", 1.0 - e->operating_point.false_positive_rate);
    hrf_json_put_int(object, "true_positive", c->true_positive);
    hrf_json_put_int(object, "false_positive", c->false_positive);
    hrf_json_put_int(object, "true_negative", c->true_negative);
    hrf_json_put_int(object, "false_negative", c->false_negative);
    hrf_json_put_number(object, "sensitivity", hrf_confusion_sensitivity(c));
    hrf_json_put_number(object, "specificity", hrf_confusion_specificity(c));
    hrf_json_put_number(object, "accuracy", hrf_confusion_accuracy(c));
    hrf_json_put(root, "operating_point", object);
}

static json_t *left_out_json(const struct hrf_evaluation *e)
{
    json_t *array = json_array();
    for (size_t i = 0; i < e->n_left_out; i++) {
        json_t *entry = json_object();
        hrf_json_put_text(entry, "slide", e->left_out[i].slide);
        hrf_json_put_bool(entry, "lesions_only", e->left_out[i].lesions_only);
        hrf_json_put_text(entry, "reason", e->left_out[i].reason);
        hrf_json_add(array, entry);
    }
    return array;
}

json_t *hrf_evaluation_json(const struct hrf_evaluation *e)
{
    json_t *root = hrf_json_document();
    if (e->params.lesions != NULL)
        hrf_json_put(root, "froc", froc_json(e));
    if (e->params.slides != NULL)
        put_auc(root, e);
    if (e->params.tuning != NULL)
        put_operating_point(root, e);
    hrf_json_put(root, "excluded", left_out_json(e));
    hrf_json_put(root, "warnings", hrf_json_lines(e->warnings.text));
    return root;
}
