/* report.c - aggregates every slide and writes results/ and report/ from the store. */
#include "aggregate/report/report_files.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/guard.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/path.h"
#include "calibrate/fit/budget.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/params.h"
#include "orchestrator/run/provenance.h"
#include "orchestrator/run/run_private.h"
#include "orchestrator/run/slide_forest.h"
#include "schema/record/calibration.h"
#include "schema/store/tasks.h"
#include "tiler/slide/mask_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct params {
    struct hrf_aggregate_params aggregate;
    const char *precisions[HRF_MOST_VARIANTS];
    struct hrf_provenance provenance;
    char model_sha256[HRF_HASH_HEX];
    struct hrf_calibration *calibration; /* owned */
    char *calibration_failure;           /* heap; NULL or "": none */
    char *budget_text, *loss_text;       /* heap; NULL: no calibrate.budget, nothing measured */
    /* Heap; NULL or "": none; why a slide head could not be trained. */
    char *head_failure;
    struct run_forest_scores forest;     /* slide_head.forest */
    const struct hrf_slide_rows *slides; /* whose scores they are; valid during aggregation */
};

/* Describes the model that scored the patches: the file may be gone or have changed since. */
static enum hrf_status find_model(const struct hrf_workflow *w, struct hrf_store *store,
                                  struct params *p, struct hrf_error *err)
{
    HRF_AUTO_FREE char *sha256 = NULL;
    HRF_TRY(hrf_store_get_fact(store, "model_sha256", &sha256, err));
    if (sha256 == NULL) /* nothing was scored yet */
        return hrf_launch_model_hash(w->model.file, p->model_sha256, err);
    snprintf(p->model_sha256, sizeof p->model_sha256, "%s", sha256);
    return HRF_OK;
}

/* Runs in a child process; the answer is the struct and its pixels. */
static enum hrf_status read_mask_aside(void *context, const void *path, struct hrf_strbuf *answer,
                                       struct hrf_error *err)
{
    struct hrf_truth_mask *mask = context;
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_TRY(hrf_slide_open(path, &slide, err));
    mask->width0 = hrf_slide_info(slide)->width;
    mask->height0 = hrf_slide_info(slide)->height;
    HRF_TRY(
        hrf_slide_read_mask(slide, mask->step, &mask->pixels, &mask->width, &mask->height, err));
    hrf_strbuf_add(answer, mask, sizeof *mask);
    hrf_strbuf_add(answer, mask->pixels, (size_t)(mask->width * mask->height));
    return HRF_OK;
}

static enum hrf_status read_truth_mask(const char *path, struct hrf_truth_mask *mask,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_guard) guard = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    HRF_TRY(hrf_guard_create(read_mask_aside, mask, &guard, err));
    HRF_TRY(hrf_guard_ask(guard, path, path, strlen(path) + 1, &answer, err));
    const size_t n = answer.length - sizeof *mask;
    unsigned char *pixels = hrf_try_alloc(n);
    HRF_CHECK_MEMORY(pixels != NULL, err, "no memory for the mask '%s'", path);
    memcpy(mask, answer.text, sizeof *mask);
    mask->pixels = memcpy(pixels, answer.text + sizeof *mask, n);
    return HRF_OK;
}

static enum hrf_status fill_params(const struct hrf_workflow *w, struct hrf_store *store,
                                   struct params *p, struct hrf_error *err)
{
    struct hrf_aggregate_params *a = &p->aggregate;
    HRF_TRY(find_model(w, store, p, err));
    hrf_run_params_fill(w, p->precisions, a);
    a->read_mask = read_truth_mask;
    HRF_TRY(hrf_provenance_fill(w, store, p->model_sha256, &p->provenance, err));
    a->provenance = p->provenance.items;
    a->n_provenance = p->provenance.n_items;
    return HRF_OK;
}

static enum hrf_status score_by_forest(struct hrf_store *store, const struct params *p,
                                       int64_t slide_id, size_t index, struct hrf_slide_score *out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    size_t i = 0;
    while (i < p->slides->n_items && p->slides->items[i].id != slide_id)
        i++;
    const double score = i < p->slides->n_items
                             ? p->forest.scores[i * p->aggregate.n_precisions + index]
                             : (double)NAN;
    if (isnan(score))
        return hrf_error_set(err, HRF_E_AGAIN, "no forest scores it");
    HRF_TRY(hrf_store_get_tile_plan(store, slide_id, &plan, err));
    *out = (struct hrf_slide_score){ .slide_id = slide_id,
                                     .score = score,
                                     .positive = score >= p->aggregate.threshold,
                                     .n_patches = plan->n_patches };
    snprintf(out->precision, sizeof out->precision, "%s", p->precisions[index]);
    return HRF_OK;
}

/* Computes the slide's score at one precision. If it cannot be scored, the precision's failure is
 * added to `failures`. Lack of memory or disk space is an error of the run. */
static enum hrf_status aggregate_precision(struct hrf_store *store, const struct params *p,
                                           const struct hrf_slide_row *slide, size_t index,
                                           struct hrf_strbuf *failures, struct hrf_error *err)
{
    const char *precision = p->precisions[index];
    struct hrf_slide_score score;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_slide_state state;
    HRF_AUTO_FREE char *reason = NULL;
    HRF_TRY(hrf_store_slide_outcome(store, slide->id, precision, &state, &reason, err));
    if (state != HRF_SLIDE_DONE || (p->aggregate.is_embedding && !p->aggregate.has_head))
        return HRF_OK;
    const enum hrf_status status = p->aggregate.has_forest
                                       ? score_by_forest(store, p, slide->id, index, &score, &why)
                                       : hrf_aggregate_slide(store, &p->aggregate, slide->id,
                                                             precision, &score, &why);
    if (status == HRF_OK)
        return hrf_store_put_slide_score(store, &score, err);
    if (status == HRF_E_AGAIN && (p->aggregate.has_head || p->aggregate.has_forest)) {
        /* The heads or forests were trained on this slide, or failed. */
        const char *failure = p->aggregate.has_forest ? p->forest.failure : p->head_failure;
        if (failure != NULL && failure[0] != '\0' && failures->length == 0)
            hrf_strbuf_addf(failures, "there is no slide head: %s", failure);
        return HRF_OK;
    }
    if (status != HRF_E_USER)
        return hrf_error_set(err, status, "slide '%s' in %s: %s", slide->name, precision, why.text);
    hrf_strbuf_addf(failures, "%s%s: %s", failures->length > 0 ? "; " : "", precision, why.text);
    return HRF_OK;
}

/* Scores a slide at every precision and determines its state anew, because the cause of an earlier
 * report's failure may be gone. */
static enum hrf_status aggregate_slide(struct hrf_store *store, const struct params *p,
                                       const struct hrf_slide_row *slide, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) failures = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *reason = NULL;
    enum hrf_slide_state state;
    const bool has_ended = slide->state == HRF_SLIDE_DONE || slide->state == HRF_SLIDE_FAILED;
    if (!has_ended || slide->tile_plan_hash == NULL)
        return HRF_OK;
    HRF_TRY(hrf_store_slide_outcome(store, slide->id, NULL, &state, &reason, err));
    if (reason != NULL)
        hrf_strbuf_adds(&failures, reason);
    for (size_t k = 0; k < p->aggregate.n_precisions; k++)
        HRF_TRY(aggregate_precision(store, p, slide, k, &failures, err));
    if (failures.length > 0)
        state = HRF_SLIDE_FAILED;
    return hrf_store_set_slide_state(store, slide->id, state,
                                     failures.length > 0 ? failures.text : NULL, err);
}

static enum hrf_status aggregate(const struct hrf_workflow *w, struct hrf_store *store,
                                 const char *directory, struct params *p, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    HRF_TRY(hrf_store_clear_slide_scores(store, NULL, err));
    p->slides = &slides;
    if (p->aggregate.has_forest)
        HRF_TRY(run_forest_score(w, store, directory, &slides, &p->forest, err));
    for (size_t i = 0; i < slides.n_items; i++)
        HRF_TRY(aggregate_slide(store, p, &slides.items[i], err));
    return HRF_OK;
}

/* Fills in the outcome of the calibration. */
static enum hrf_status fill_calibration(const struct hrf_workflow *w, struct hrf_store *store,
                                        struct params *p, struct hrf_error *err)
{
    struct hrf_calibration_facts *facts = &p->aggregate.calibration;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_AUTO_FREE char *cached = NULL, *own = NULL;
    facts->reason = "no precision of this run needs one";
    if (!hrf_workflow_has_precision(w, HRF_INT8))
        return HRF_OK;
    HRF_TRY(hrf_store_get_fact(store, "own_scales", &own, err));
    facts->reason = "the model brings its own INT8 scales";
    if (own != NULL && strcmp(own, "yes") == 0)
        return HRF_OK;
    HRF_TRY(hrf_store_get_fact(store, "calibration_cached", &cached, err));
    HRF_TRY(hrf_store_get_fact(store, "calibration_failure", &p->calibration_failure, err));
    const bool has_failed = p->calibration_failure != NULL && p->calibration_failure[0] != '\0';
    facts->reason = has_failed ? p->calibration_failure : "there is none yet";
    if (!has_failed)
        HRF_TRY(run_read_calibration(store, &p->calibration, err));
    if (p->calibration == NULL)
        return HRF_OK;
    facts->reason = NULL;
    facts->key = p->calibration->key;
    facts->method = p->calibration->method;
    facts->samples = p->calibration->n_samples;
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    facts->of_other_slides = hrf_dataset_is_given(&w->calibrate.slides);
    facts->of_training = run_samples_training_part(w, &slides);
    facts->kept = p->calibration->keep;
    facts->n_kept = p->calibration->n_keep;
    facts->tensors = p->calibration->tensors;
    facts->n_tensors = p->calibration->n_tensors;
    if (p->calibration->budget.measure != NULL) {
        facts->budget = &p->calibration->budget;
        facts->budget_text = p->budget_text = hrf_fit_budget_text(p->calibration);
    }
    facts->lost = &p->calibration->lost;
    facts->loss_is_large = hrf_fit_loss_is_large(p->calibration);
    facts->loss_text = p->loss_text = hrf_fit_loss_text(p->calibration);
    facts->cached = cached != NULL && strcmp(cached, "yes") == 0;
    facts->seconds = facts->cached ? 0 : p->calibration->seconds;
    return HRF_OK;
}

static void params_release(struct params *params)
{
    hrf_calibration_destroy(params->calibration);
    hrf_free(params->calibration_failure);
    hrf_free(params->budget_text);
    hrf_free(params->loss_text);
    hrf_provenance_release(&params->provenance);
    hrf_free(params->head_failure);
    run_forest_scores_release(&params->forest);
}

static enum hrf_features_form features_form(enum hrf_features_choice choice)
{
    static const enum hrf_features_form forms[] = {
        [HRF_FEATURES_AS_TRIDENT] = HRF_FEATURES_TRIDENT,
        [HRF_FEATURES_AS_CLAM] = HRF_FEATURES_CLAM,
        [HRF_FEATURES_AS_STAMP] = HRF_FEATURES_STAMP,
        [HRF_FEATURES_AS_ATLASPATCH] = HRF_FEATURES_ATLASPATCH,
        [HRF_FEATURES_AS_NPY] = HRF_FEATURES_NPY
    };
    return forms[choice];
}

enum hrf_status hrf_run_report(const struct hrf_workflow *workflow, struct hrf_store *store,
                               const char *directory, size_t *n_failed, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(params) params = { .model_sha256 = "" };
    double start = hrf_clock_seconds();
    HRF_TRY(run_report_forget(store, err));
    HRF_TRY(fill_params(workflow, store, &params, err));
    HRF_TRY(fill_calibration(workflow, store, &params, err));
    HRF_TRY(hrf_store_get_fact(store, "head_failure", &params.head_failure, err));
    HRF_TRY(hrf_store_begin(store, err));
    HRF_TRY(aggregate(workflow, store, directory, &params, err));
    const struct hrf_phase_row phase = { .name = "aggregate",
                                         .seconds = hrf_clock_seconds() - start,
                                         .n_tasks = 1 };
    HRF_TRY(hrf_store_put_phase(store, &phase, err));
    hrf_crash_point("run.aggregate.before_commit");
    HRF_TRY(hrf_store_commit(store, err));
    HRF_AUTO_FREE char *encoder = hrf_path_stem(workflow->model.file);
    const bool is_half = workflow->features.type == HRF_FEATURES_FP16;
    struct hrf_report_options options = { .heatmaps = workflow->report.heatmaps,
                                          .geojson = workflow->report.geojson,
                                          .csv = workflow->report.csv,
                                          .class_maps = workflow->report.csv &&
                                                        hrf_workflow_is_slides(workflow),
                                          .masks = workflow->report.masks,
                                          .html = workflow->report.html,
                                          .features = features_form(workflow->features.form),
                                          .half_features = is_half,
                                          .encoder = encoder,
                                          .model_sha256 = params.model_sha256,
                                          .preparation = hrf_workflow_preparation(workflow) };
    return hrf_report_from_store(store, &params.aggregate, &options, directory, n_failed, err);
}
