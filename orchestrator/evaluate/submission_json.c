/* submission_json.c - an evaluation as JSON. */
#include "orchestrator/evaluate/submission.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_count(json_t *object, const char *key, size_t count)
{
    json_object_set_new(object, key, json_integer((json_int_t)count));
}

static json_t *interval_json(const struct hrf_interval *interval)
{
    return json_pack("[o,o]", hrf_json_number(interval->low), hrf_json_number(interval->high));
}

static json_t *names_json(char *const *names, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, hrf_json_string(names[i]));
    return array;
}

static void put_slides(json_t *object, const struct hrf_evaluated *task)
{
    put_count(object, "slides", task->n_used);
    put_count(object, "positive_slides", task->n_positive);
    json_object_set_new(object, "missing_slides", names_json(task->missing, task->n_missing));
    json_object_set_new(object, "unknown_slides", names_json(task->unknown, task->n_unknown));
}

static json_t *curve_json(const struct hrf_froc *froc)
{
    json_t *array = json_array();
    for (size_t i = 0; i < froc->n_points; i++)
        json_array_append_new(array,
                              json_pack("[o,o,o]", hrf_json_number(froc->curve[i].false_positives),
                                        hrf_json_number(froc->curve[i].sensitivity),
                                        hrf_json_number(froc->curve[i].threshold)));
    return array;
}

static void put_froc(json_t *object, const struct hrf_evaluation *e)
{
    const struct hrf_froc *froc = &e->froc;
    json_t *rates = json_array(), *sensitivities = json_array();
    for (int i = 0; i < HRF_FROC_RATES; i++) {
        json_array_append_new(rates, json_real(hrf_froc_rates[i]));
        json_array_append_new(sensitivities, json_real(froc->sensitivity[i]));
    }
    json_object_set_new(object, "score", json_real(froc->score));
    json_object_set_new(object, "score_ci",
                        froc->n_resamples > 0 ? interval_json(&froc->interval) : json_null());
    json_object_set_new(
        object, "score_ci_method",
        froc->n_resamples > 0
            ? json_sprintf("percentile bootstrap over slides, stratified, %lld resamples",
                           (long long)froc->n_resamples)
            : json_null());
    if (froc->n_resamples == 0)
        json_object_set_new(object, "score_ci_reason", json_string(froc->no_interval));
    json_object_set_new(object, "false_positives_per_slide", rates);
    json_object_set_new(object, "sensitivities", sensitivities);
    put_count(object, "lesions", froc->n_lesions);
    put_count(object, "itc", froc->n_itc);
    put_count(object, "lesions_hit", froc->n_hits);
    put_count(object, "false_positives", froc->n_false_positives);
    put_count(object, "detections_on_itc", e->n_ignored);
    put_count(object, "slides_averaged", froc->n_averaged);
    json_object_set_new(object, "curve", curve_json(froc));
}

static json_t *froc_json(const struct hrf_evaluation *e)
{
    json_t *object = json_object();
    json_object_set_new(object, "evaluation", json_string(hrf_froc_rule_name(e->params.rule)));
    put_slides(object, &e->lesion_task);
    put_count(object, "truth_from_masks", e->n_masks);
    put_count(object, "truth_from_outlines", e->n_outlines);
    if (e->froc_reason == NULL) {
        put_froc(object, e);
    } else {
        json_object_set_new(object, "score", json_null());
        json_object_set_new(object, "score_reason", hrf_json_string(e->froc_reason));
    }
    return object;
}

static void put_auc(json_t *root, const struct hrf_evaluation *e)
{
    json_t *task = json_object();
    put_slides(task, &e->slide_task);
    json_object_set_new(root, "slide_auc", hrf_json_number(e->auc));
    json_object_set_new(root, "slide_task", task);
    if (isnan(e->auc)) {
        json_object_set_new(root, "slide_auc_reason", hrf_json_string(e->auc_reason));
        return;
    }
    json_object_set_new(root, "slide_auc_ci", interval_json(&e->auc_interval));
    json_object_set_new(root, "slide_auc_ci_method", json_string(HRF_AUC_INTERVAL_METHOD));
    json_object_set_new(root, "slide_auc_bootstrap_ci", interval_json(&e->auc_bootstrap));
    json_object_set_new(root, "slide_auc_macro", hrf_json_number(e->macro_auc));
    json_object_set_new(root, "slide_auc_micro", hrf_json_number(e->micro_auc));
}

/* A figure of a ratio that may have nothing below. */
static void put_operating_point(json_t *root, const struct hrf_evaluation *e)
{
    const struct hrf_confusion *c = &e->confusion;
    if (e->operating_point_reason != NULL) {
        json_object_set_new(root, "operating_point", json_null());
        json_object_set_new(root, "operating_point_reason",
                            hrf_json_string(e->operating_point_reason));
        return;
    }
    json_t *object = json_object();
    json_object_set_new(object, "threshold", hrf_json_number(e->operating_point.threshold));
    json_object_set_new(
        object, "chosen_by",
        e->params.specificity > 0.0
            ? json_sprintf("sensitivity at a specificity of %g", e->params.specificity)
            : json_string("Youden's J"));
    json_object_set_new(object, "chosen_on", hrf_json_string(e->params.tuning));
    put_slides(object, &e->tuning);
    json_object_set_new(object, "sensitivity_there",
                        hrf_json_number(e->operating_point.true_positive_rate));
    json_object_set_new(object, "specificity_there",
                        hrf_json_number(1.0 - e->operating_point.false_positive_rate));
    json_object_set_new(object, "true_positive", json_integer(c->true_positive));
    json_object_set_new(object, "false_positive", json_integer(c->false_positive));
    json_object_set_new(object, "true_negative", json_integer(c->true_negative));
    json_object_set_new(object, "false_negative", json_integer(c->false_negative));
    json_object_set_new(object, "sensitivity", hrf_json_number(hrf_confusion_sensitivity(c)));
    json_object_set_new(object, "specificity", hrf_json_number(hrf_confusion_specificity(c)));
    json_object_set_new(object, "accuracy", hrf_json_number(hrf_confusion_accuracy(c)));
    json_object_set_new(root, "operating_point", object);
}

static json_t *left_out_json(const struct hrf_evaluation *e)
{
    json_t *array = json_array();
    for (size_t i = 0; i < e->n_left_out; i++)
        json_array_append_new(array,
                              json_pack("{sososs}", "slide", hrf_json_string(e->left_out[i].slide),
                                        "lesions_only", json_boolean(e->left_out[i].lesions_only),
                                        "reason", e->left_out[i].reason));
    return array;
}

static json_t *warnings_json(const struct hrf_evaluation *e)
{
    json_t *array = json_array();
    for (const char *at = e->warnings.text; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        HRF_AUTO_FREE char *line = hrf_strndup(at, n);
        json_array_append_new(array, hrf_json_string(line));
        at += n + (at[n] != '\0');
    }
    return array;
}

json_t *hrf_evaluation_json(const struct hrf_evaluation *e)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(1));
    if (e->params.lesions != NULL)
        json_object_set_new(root, "froc", froc_json(e));
    if (e->params.slides != NULL)
        put_auc(root, e);
    if (e->params.tuning != NULL)
        put_operating_point(root, e);
    json_object_set_new(root, "excluded", left_out_json(e));
    json_object_set_new(root, "warnings", warnings_json(e));
    return root;
}
