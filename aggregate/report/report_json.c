/* report_json.c - writes report.json. */
#include "aggregate/report/report_json_private.h"
#include "aggregate/study/bottleneck.h"
#include "aggregate/study/reading.h"

static json_t *counts_json(const struct hrf_cohort_counts *counts)
{
    json_t *object = json_object();
    hrf_json_put(object, "total", json_integer((json_int_t)counts->total));
    hrf_json_put(object, "done", json_integer((json_int_t)counts->done));
    hrf_json_put(object, "failed", json_integer((json_int_t)counts->failed));
    hrf_json_put(object, "no_tissue", json_integer((json_int_t)counts->no_tissue));
    hrf_json_put(object, "excluded", json_integer((json_int_t)counts->excluded));
    hrf_json_put(object, "pending", json_integer((json_int_t)counts->pending));
    return object;
}

static void put_times(json_t *object, const struct hrf_calibration_times *times)
{
    hrf_json_put(object, "int8_ms", hrf_json_number(times->int8_ms));
    hrf_json_put(object, "fp32_ms", hrf_json_number(times->fp32_ms));
    hrf_json_put(object, "bf16_ms", hrf_json_number(times->bf16_ms));
}

/* calibrate.budget, and the layers that left INT8 for it. */
static json_t *budget_json(const struct hrf_calibration_facts *facts)
{
    if (facts->budget == NULL)
        return json_null();
    json_t *object = json_object(), *layers = json_array();
    hrf_json_put_text(object, "measure", facts->budget->measure);
    hrf_json_put(object, "least", hrf_json_number(facts->budget->least));
    hrf_json_put(object, "loss", hrf_json_number(facts->budget->loss));
    put_times(object, &facts->budget->times);
    hrf_json_put_text(object, "summary", facts->budget_words);
    for (size_t i = 0; i < facts->n_kept; i++) {
        const struct hrf_calibration_keep *kept = &facts->kept[i];
        if (kept->precision == NULL)
            continue;
        json_t *layer = json_object();
        hrf_json_put_text(layer, "name", kept->name);
        hrf_json_put_text(layer, "precision", kept->precision);
        hrf_json_put(layer, "loss", hrf_json_number(kept->loss));
        put_times(layer, &kept->times);
        hrf_json_put_text(layer, "reason", kept->reason);
        json_array_append_new(layers, layer);
    }
    hrf_json_put(object, "layers", layers);
    return object;
}

static json_t *tensors_json(const struct hrf_calibration_facts *facts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < facts->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &facts->tensors[i];
        json_array_append_new(list, json_pack("{sosososo}", "name", hrf_json_string(t->name),
                                              "method", hrf_json_string(t->method), "smoothing",
                                              hrf_json_number((double)t->strength), "sqnr_db",
                                              hrf_json_number(t->sqnr_db)));
    }
    return list;
}

static json_t *calibration_json(const struct hrf_calibration_facts *facts)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "key", facts->key);
    if (facts->key == NULL) {
        static const char *const keys[] = { "cached",    "seconds", "samples",         "method",
                                            "sample_of", "tensors", "kept_in_float32", "budget" };
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            hrf_json_put(object, keys[i], json_null());
        hrf_json_put_reason(object, "key",
                            facts->reason != NULL ? facts->reason : "nothing was calibrated");
        return object;
    }
    hrf_json_put(object, "cached", json_boolean(facts->cached));
    hrf_json_put(object, "seconds", hrf_json_number(facts->seconds));
    hrf_json_put(object, "samples", json_integer(facts->samples));
    hrf_json_put_text(object, "method", facts->method);
    hrf_json_put_text(object, "sample_of",
                      facts->of_other_slides ? "calibrate.slides"
                      : facts->of_training   ? "dataset, training"
                                             : "dataset");
    json_t *kept = json_array();
    for (size_t i = 0; i < facts->n_kept; i++)
        if (!hrf_calibration_is_in_bf16(&facts->kept[i]))
            json_array_append_new(kept,
                                  json_pack("{soso}", "name", hrf_json_string(facts->kept[i].name),
                                            "reason", hrf_json_string(facts->kept[i].reason)));
    hrf_json_put(object, "tensors", tensors_json(facts));
    hrf_json_put(object, "kept_in_float32", kept);
    hrf_json_put(object, "budget", budget_json(facts));
    return object;
}

/* The reading of all precisions together: a patch that several scored at once was read once. */
static json_t *reading_json(const struct hrf_cohort *cohort)
{
    json_t *object = json_object();
    const struct hrf_reading r = hrf_cohort_reading(cohort);
    static const char *const why = "slides were read as one image, or jobs of an earlier version "
                                   "did not count";
    hrf_json_put(object, "patches_scored", json_integer(r.n_scored));
    hrf_json_put_ratio(object, "patches_read", r.n_read,
                       "jobs of an earlier version did not count them");
    hrf_json_put(object, "decode_seconds", hrf_json_number(r.decode));
    hrf_json_put(object, "prepare_seconds", hrf_json_number(r.prepare));
    hrf_json_put(object, "wait_seconds", hrf_json_number(r.wait));
    hrf_json_put_ratio(object, "readers_patches_per_second", r.readers_rate, why);
    hrf_json_put_ratio(object, "network_patches_per_second", r.network_rate, why);
    hrf_json_put_text(object, "waits", r.waiter);
    return object;
}

static json_t *phases_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_phases; i++) {
        json_t *object = json_object();
        hrf_json_put_text(object, "name", cohort->phases[i].name);
        hrf_json_put(object, "seconds", hrf_json_number(cohort->phases[i].seconds));
        hrf_json_put(object, "cached", json_boolean(cohort->phases[i].cached));
        hrf_json_put(object, "tasks", json_integer(cohort->phases[i].n_tasks));
        hrf_json_put(object, "cached_tasks", json_integer(cohort->phases[i].n_cached));
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
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put_text(object, "state", hrf_slide_state_word(slide->state));
        hrf_json_put_text(object, "reason", slide->reason);
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
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put_text(object, "warning", slide->warning);
        json_array_append_new(array, object);
    }
    return array;
}

/* Slides of which tiler.quality leaves patches out, by reason. */
static json_t *dropped_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        int64_t n[HRF_N_DROP_REASONS] = { 0 };
        if (slide->n_dropped == 0)
            continue;
        for (int64_t k = 0; k < slide->n_dropped; k++)
            n[slide->dropped[k].reason]++;
        json_t *object = json_pack("{sI}", "kept", (json_int_t)slide->n_patches);
        hrf_json_put_text(object, "slide", slide->name);
        for (int r = 0; r < HRF_N_DROP_REASONS; r++)
            hrf_json_put(object, hrf_drop_reason_name((enum hrf_drop_reason)r),
                         json_integer((json_int_t)n[r]));
        json_array_append_new(array, object);
    }
    return array;
}

static void put_operating_point(json_t *object, const struct hrf_tuning *t)
{
    if (t->reason != NULL) {
        hrf_json_put(object, "operating_point", json_null());
        hrf_json_put_reason(object, "operating_point", t->reason);
        return;
    }
    json_t *point = json_pack("{sIsI}", "slides", (json_int_t)t->n_slides, "positive_slides",
                              (json_int_t)t->n_positive);
    hrf_json_put_text(point, "chosen_by", t->specificity > 0 ? "specificity" : "youden");
    if (t->specificity > 0)
        hrf_json_put(point, "wanted_specificity", json_real(t->specificity));
    hrf_json_put(point, "sensitivity_there", json_real(t->point.true_positive_rate));
    hrf_json_put(point, "specificity_there", json_real(1.0 - t->point.false_positive_rate));
    hrf_json_put(object, "operating_point", point);
}

static json_t *score_json(const struct hrf_cohort *cohort)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "method", hrf_cohort_method(cohort));
    if (cohort->rule.kind == HRF_SLIDE_RULE_TOP_K_MEAN)
        hrf_json_put(object, "top_k", json_integer(cohort->rule.top_k));
    if (cohort->rule.kind == HRF_SLIDE_RULE_PERCENTILE)
        hrf_json_put(object, "percentile", hrf_json_number(cohort->rule.percentile));
    hrf_json_put(object, "threshold", hrf_json_number(cohort->threshold));
    if (cohort->tuning.is_asked_for)
        put_operating_point(object, &cohort->tuning);
    hrf_json_put_text(object, "positive", cohort->classes[cohort->positive]);
    hrf_json_put(object, "bootstrap_resamples", json_integer(HRF_BOOTSTRAP_RESAMPLES));
    hrf_json_put(object, "bootstrap_seed", json_integer((json_int_t)cohort->seed));
    return object;
}

static void put_bottleneck(json_t *object, const struct hrf_cohort *cohort)
{
    const struct hrf_bottleneck found = hrf_cohort_bottleneck(cohort);
    if (found.kind == HRF_BOTTLENECK_UNKNOWN) {
        hrf_json_put(object, "bottleneck", json_null());
        hrf_json_put_reason(object, "bottleneck", "nothing was timed");
        return;
    }
    json_t *item = json_pack("{sssfssss}", "what", hrf_bottleneck_name(found.kind), "share",
                             found.share, "share_of", found.of, "sentence", found.sentence);
    hrf_json_put_text(item, "key", found.key);
    hrf_json_put(object, "bottleneck", item);
}

/* 0 is "not known". */
static void put_known(json_t *object, const char *key, double value)
{
    hrf_json_put(object, key, value > 0.0 ? json_real(value) : json_null());
}

/* Every attempt of every job. */
static json_t *jobs_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_jobs; i++) {
        const struct hrf_cohort_job *job = &cohort->jobs[i];
        const struct hrf_job_usage *u = &job->usage;
        json_t *item = json_pack("{sssIsssIsbsI}", "job", job->job_id, "attempt",
                                 (json_int_t)job->attempt, "kind", job->kind, "tasks",
                                 (json_int_t)job->n_tasks, "has_ended", job->has_ended,
                                 "submitted_ms", (json_int_t)job->submitted_ms);
        hrf_json_put_text(item, "host", u->host[0] != '\0' ? u->host : NULL);
        put_known(item, "started_ms", (double)u->started_ms);
        put_known(item, "finished_ms", (double)u->finished_ms);
        put_known(item, "processor_seconds", (double)u->cpu_ms / 1e3);
        put_known(item, "peak_process_bytes", (double)u->peak_bytes);
        put_known(item, "compute_seconds", (double)u->compute_ms / 1e3);
        hrf_json_put(item, "wait_seconds",
                     u->wait_ms + u->compute_ms > 0 ? json_real((double)u->wait_ms / 1e3)
                                                    : json_null());
        hrf_json_put_text(item, "reason", job->reason);
        json_array_append_new(array, item);
    }
    return array;
}

enum hrf_status hrf_report_json(const struct hrf_cohort *cohort, const char *path,
                                struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_object();
    hrf_json_put(root, "version", json_integer(1));
    hrf_json_put_text(root, "name", cohort->name);
    hrf_json_put(root, "slides", counts_json(&cohort->counts));
    hrf_json_put(root, "slides_not_done", not_done_json(cohort));
    hrf_json_put(root, "white_patches", white_json(cohort));
    hrf_json_put(root, "patches_left_out", dropped_json(cohort));
    hrf_json_put(root, "slide_score", score_json(cohort));
    hrf_json_put(root, "calibration", calibration_json(&cohort->calibration));
    hrf_json_put(root, "stain_jitter",
                 cohort->stain_jitter > 0 ? json_pack("{sfsIss}", "sigma", cohort->stain_jitter,
                                                      "seed", (json_int_t)cohort->jitter_seed,
                                                      "precision", cohort->precisions[0].name)
                                          : json_null());
    hrf_json_put(root, "precisions", hrf_report_precisions_json(cohort));
    hrf_json_put(root, "reading", reading_json(cohort));
    hrf_json_put(root, "phases", phases_json(cohort));
    put_bottleneck(root, cohort);
    hrf_json_put(root, "jobs", jobs_json(cohort));
    json_t *provenance = json_object();
    for (size_t i = 0; i < cohort->n_provenance; i++)
        hrf_json_put_text(provenance, cohort->provenance[i].name, cohort->provenance[i].text);
    hrf_json_put(root, "provenance", provenance);
    return hrf_json_write_file(path, root, err);
}
