/* report_json.c - writes report.json. */
#include "aggregate/report/report_json_private.h"
#include "aggregate/study/bottleneck.h"

static json_t *counts_json(const struct hrf_cohort_counts *counts)
{
    json_t *object = json_object();
    hrf_json_put_int(object, "total", (int64_t)counts->total);
    hrf_json_put_int(object, "done", (int64_t)counts->done);
    hrf_json_put_int(object, "failed", (int64_t)counts->failed);
    hrf_json_put_int(object, "no_tissue", (int64_t)counts->no_tissue);
    hrf_json_put_int(object, "excluded", (int64_t)counts->excluded);
    hrf_json_put_int(object, "pending", (int64_t)counts->pending);
    return object;
}

static void put_times(json_t *object, const struct hrf_calibration_times *times)
{
    hrf_json_put_number(object, "int8_ms", times->int8_ms);
    hrf_json_put_number(object, "fp32_ms", times->fp32_ms);
    hrf_json_put_number(object, "bf16_ms", times->bf16_ms);
}

/* calibrate.budget, and the layers that left INT8 for it. */
static json_t *budget_json(const struct hrf_calibration_facts *facts)
{
    if (facts->budget == NULL)
        return json_null();
    json_t *object = json_object(), *layers = json_array();
    hrf_json_put_text(object, "measure", facts->budget->measure);
    hrf_json_put_number(object, "least", facts->budget->min);
    hrf_json_put_number(object, "loss", facts->budget->loss);
    put_times(object, &facts->budget->times);
    hrf_json_put_text(object, "summary", facts->budget_text);
    for (size_t i = 0; i < facts->n_kept; i++) {
        const struct hrf_calibration_keep *kept = &facts->kept[i];
        if (kept->precision == HRF_N_PRECISIONS)
            continue;
        json_t *layer = json_object();
        hrf_json_put_text(layer, "name", kept->name);
        hrf_json_put_text(layer, "precision", hrf_precision_name(kept->precision));
        hrf_json_put_number(layer, "loss", kept->loss);
        put_times(layer, &kept->times);
        hrf_json_put_text(layer, "reason", kept->reason);
        hrf_json_add(layers, layer);
    }
    hrf_json_put(object, "layers", layers);
    return object;
}

/* What INT8 loses on patches that did not calibrate. */
static void put_loss(json_t *object, const struct hrf_calibration_facts *facts)
{
    const struct hrf_calibration_loss *lost = facts->lost;
    if (lost->n_images == 0) {
        hrf_json_put(object, "held_out", json_null());
        hrf_json_put_reason(object, "held_out", lost->reason);
        return;
    }
    const struct hrf_calibration_budget *b = &lost->with_budget;
    json_t *held = json_object(), *budget = b->measure != NULL ? json_object() : json_null();
    hrf_json_put_int(held, "patches", lost->n_images);
    hrf_json_put_number(held, "sqnr_db", lost->sqnr_db);
    hrf_json_put_number(held, "cosine", lost->cosine);
    hrf_json_put_int(held, "labels", lost->n_labels);
    hrf_json_put_int(held, "labels_changed", lost->n_changed);
    hrf_json_put_bool(held, "is_much", facts->loss_is_large);
    hrf_json_put_text(held, "summary", facts->loss_text);
    if (b->measure != NULL) {
        hrf_json_put_text(budget, "measure", b->measure);
        hrf_json_put_number(budget, "least", b->min);
        hrf_json_put_number(budget, "loss", b->loss);
        hrf_json_put_int(budget, "layers_left", lost->n_left);
        put_times(budget, &b->times);
    }
    hrf_json_put(held, "with_budget", budget);
    hrf_json_put(object, "held_out", held);
}

/* Two texts with their keys. */
static json_t *pair_json(const char *key, const char *text, const char *other_key,
                         const char *other_text)
{
    json_t *object = json_object();
    hrf_json_put_text(object, key, text);
    hrf_json_put_text(object, other_key, other_text);
    return object;
}

static json_t *tensors_json(const struct hrf_calibration_facts *facts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < facts->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &facts->tensors[i];
        json_t *item = pair_json("name", t->name, "method", t->method);
        hrf_json_put_number(item, "smoothing", (double)t->strength);
        hrf_json_put_number(item, "sqnr_db", t->sqnr_db);
        hrf_json_add(list, item);
    }
    return list;
}

static json_t *calibration_json(const struct hrf_calibration_facts *facts)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "key", facts->key);
    if (facts->key == NULL) {
        static const char *const keys[] = { "cached",          "seconds",   "samples",
                                            "method",          "sample_of", "tensors",
                                            "kept_in_float32", "budget",    "held_out" };
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            hrf_json_put(object, keys[i], json_null());
        hrf_json_put_reason(object, "key",
                            facts->reason != NULL ? facts->reason : "nothing was calibrated");
        return object;
    }
    hrf_json_put_bool(object, "cached", facts->cached);
    hrf_json_put_number(object, "seconds", facts->seconds);
    hrf_json_put_int(object, "samples", facts->samples);
    hrf_json_put_text(object, "method", facts->method);
    hrf_json_put_text(object, "sample_of",
                      facts->of_other_slides ? "calibrate.slides"
                      : facts->of_training   ? "dataset, training"
                                             : "dataset");
    json_t *kept = json_array();
    for (size_t i = 0; i < facts->n_kept; i++)
        if (facts->kept[i].precision != HRF_BF16)
            hrf_json_add(kept,
                         pair_json("name", facts->kept[i].name, "reason", facts->kept[i].reason));
    hrf_json_put(object, "tensors", tensors_json(facts));
    hrf_json_put(object, "kept_in_float32", kept);
    hrf_json_put(object, "budget", budget_json(facts));
    put_loss(object, facts);
    return object;
}

/* The reading of all precisions together: a patch that several scored at once was read once. */
static json_t *reading_json(const struct hrf_cohort *cohort)
{
    json_t *object = json_object();
    const struct hrf_reading r = hrf_cohort_reading(cohort);
    static const char *const why = "slides were read as one image";
    hrf_json_put_int(object, "patches_scored", r.n_scored);
    hrf_json_put_int(object, "patches_read", r.n_read);
    hrf_json_put_number(object, "decode_seconds", r.decode);
    hrf_json_put_number(object, "prepare_seconds", r.prepare);
    hrf_json_put_number(object, "wait_seconds", r.wait);
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
        hrf_json_put_number(object, "seconds", cohort->phases[i].seconds);
        hrf_json_put_bool(object, "cached", cohort->phases[i].cached);
        hrf_json_put_int(object, "tasks", cohort->phases[i].n_tasks);
        hrf_json_put_int(object, "cached_tasks", cohort->phases[i].n_cached);
        hrf_json_add(array, object);
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
        hrf_json_add(array, object);
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
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put_int(object, "white", slide->n_white);
        hrf_json_put_int(object, "patches", slide->n_patches);
        hrf_json_put_text(object, "warning", slide->warning);
        hrf_json_add(array, object);
    }
    return array;
}

/* Slides with a lesion whose annotation is there and cannot be used. */
static json_t *annotations_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_lesion_gaps; i++) {
        const struct hrf_lesion_gap *gap = &cohort->lesion_gaps[i];
        if (gap->of_annotation)
            hrf_json_add(array, pair_json("slide", gap->slide, "reason", gap->reason));
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
        json_t *object = json_object();
        hrf_json_put_text(object, "slide", slide->name);
        hrf_json_put_int(object, "kept", slide->n_patches);
        for (int r = 0; r < HRF_N_DROP_REASONS; r++)
            hrf_json_put_int(object, hrf_drop_reason_name((enum hrf_drop_reason)r), n[r]);
        hrf_json_add(array, object);
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
    json_t *point = json_object();
    hrf_json_put_int(point, "slides", (int64_t)t->n_slides);
    hrf_json_put_int(point, "positive_slides", (int64_t)t->n_positive);
    hrf_json_put_text(point, "chosen_by", t->specificity > 0 ? "specificity" : "youden");
    if (t->specificity > 0)
        hrf_json_put_number(point, "wanted_specificity", t->specificity);
    hrf_json_put_number(point, "sensitivity_there", t->point.true_positive_rate);
    hrf_json_put_number(point, "specificity_there", 1.0 - t->point.false_positive_rate);
    hrf_json_put(object, "operating_point", point);
}

static json_t *score_json(const struct hrf_cohort *cohort)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "method", hrf_cohort_method(cohort));
    if (cohort->rule.kind == HRF_SLIDE_RULE_TOP_K_MEAN)
        hrf_json_put_int(object, "top_k", cohort->rule.top_k);
    if (cohort->rule.kind == HRF_SLIDE_RULE_PERCENTILE)
        hrf_json_put_number(object, "percentile", cohort->rule.percentile);
    hrf_json_put_number(object, "threshold", cohort->threshold);
    if (cohort->tuning.is_asked_for)
        put_operating_point(object, &cohort->tuning);
    hrf_json_put_text(object, "positive", cohort->classes[cohort->positive]);
    hrf_json_put_int(object, "bootstrap_resamples", HRF_BOOTSTRAP_RESAMPLES);
    hrf_json_put_int(object, "bootstrap_seed", (int64_t)cohort->seed);
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
    json_t *item = pair_json("what", hrf_bottleneck_name(found.kind), "share_of", found.of);
    hrf_json_put_number(item, "share", found.share);
    hrf_json_put_text(item, "sentence", found.sentence);
    hrf_json_put_text(item, "key", found.key);
    hrf_json_put(object, "bottleneck", item);
}

/* Every attempt of every job. */
static json_t *jobs_json(const struct hrf_cohort *cohort)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cohort->n_jobs; i++) {
        const struct hrf_cohort_job *job = &cohort->jobs[i];
        json_t *item = pair_json("job", job->job_id, "kind", job->kind);
        hrf_json_put_bool(item, "has_ended", job->has_ended);
        hrf_json_put_text(item, "host", job->usage.host[0] != '\0' ? job->usage.host : NULL);
        hrf_json_put_text(item, "reason", job->reason);
        hrf_figures_put(item, hrf_job_rows, 0, job);
        hrf_json_add(array, item);
    }
    return array;
}

static json_t *jitter_json(const struct hrf_cohort *cohort)
{
    if (cohort->stain_jitter <= 0)
        return json_null();
    json_t *object = json_object();
    hrf_json_put_number(object, "sigma", cohort->stain_jitter);
    hrf_json_put_int(object, "seed", cohort->jitter_seed);
    hrf_json_put_text(object, "precision", cohort->precisions[0].name);
    return object;
}

enum hrf_status hrf_report_json(const struct hrf_cohort *cohort, const char *path,
                                struct hrf_error *err)
{
    HRF_AUTO_JSON root = hrf_json_document();
    hrf_json_put_text(root, "name", cohort->name);
    hrf_json_put(root, "slides", counts_json(&cohort->counts));
    hrf_json_put(root, "slides_not_done", not_done_json(cohort));
    hrf_json_put(root, "white_patches", white_json(cohort));
    hrf_json_put(root, "annotations_not_used", annotations_json(cohort));
    hrf_json_put(root, "patches_left_out", dropped_json(cohort));
    hrf_json_put(root, "slide_score", score_json(cohort));
    hrf_json_put(root, "calibration", calibration_json(&cohort->calibration));
    hrf_json_put(root, "stain_jitter", jitter_json(cohort));
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
