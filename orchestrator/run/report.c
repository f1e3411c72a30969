/* report.c - aggregate every slide, then write results/ and report/ from the store. */
#include "aggregate/report/report.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/run/params.h"
#include "orchestrator/run/run.h"
#include "schema/record/calibration.h"

#include <stdio.h>
#include <string.h>

enum { N_PROVENANCE = 6 };

struct params {
    struct hrf_aggregate_params aggregate;
    const char *precisions[HRF_N_PRECISIONS];
    struct hrf_named_text provenance[N_PROVENANCE];
    char model_sha256[HRF_HASH_HEX], host[128];
    struct hrf_calibration *calibration; /* owned */
};

/* Of the model that scored: the file may be gone, or be another one by now. */
static enum hrf_status find_model(const struct hrf_workflow *w, struct hrf_store *store,
                                  struct params *p, struct hrf_error *err)
{
    HRF_AUTO_FREE char *sha256 = NULL;
    HRF_TRY(hrf_store_get_fact(store, "model_sha256", &sha256, err));
    if (sha256 == NULL) /* a run from before this was kept */
        return hrf_hash_file(w->model.file, p->model_sha256, err);
    snprintf(p->model_sha256, sizeof p->model_sha256, "%s", sha256);
    return HRF_OK;
}

static enum hrf_status fill_params(const struct hrf_workflow *w, struct hrf_store *store,
                                   struct params *p, struct hrf_error *err)
{
    struct hrf_aggregate_params *a = &p->aggregate;
    HRF_TRY(find_model(w, store, p, err));
    hrf_process_host_name(p->host, sizeof p->host);
    hrf_run_params_fill(w, p->precisions, a);
    p->provenance[0] = (struct hrf_named_text){ "hires-flow", HRF_VERSION };
    p->provenance[1] = (struct hrf_named_text){ "workflow", w->path };
    p->provenance[2] = (struct hrf_named_text){ "model", w->model.file };
    p->provenance[3] = (struct hrf_named_text){ "model SHA-256", p->model_sha256 };
    p->provenance[4] = (struct hrf_named_text){ "host", p->host };
    p->provenance[5] = (struct hrf_named_text){ "tissue method",
                                                hrf_tissue_method_name(w->tiler.tissue.method) };
    a->provenance = p->provenance;
    a->n_provenance = N_PROVENANCE;
    return HRF_OK;
}

static enum hrf_status aggregate(struct hrf_store *store, const struct params *p,
                                 struct hrf_error *err)
{
    struct hrf_slide_rows slides;
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    enum hrf_status status = hrf_store_clear_slide_scores(store, NULL, err);
    for (size_t i = 0; i < slides.n_items && status == HRF_OK; i++) {
        enum hrf_slide_state state = slides.items[i].state;
        if (state != HRF_SLIDE_DONE && state != HRF_SLIDE_NO_TISSUE)
            continue;
        for (size_t k = 0; k < p->aggregate.n_precisions && status == HRF_OK; k++) {
            struct hrf_slide_score score;
            status = hrf_aggregate_slide(store, &p->aggregate, slides.items[i].id, p->precisions[k],
                                         &score, err);
            if (status != HRF_OK)
                status = hrf_error_wrap(err, status, "slide '%s' in %s", slides.items[i].name,
                                        p->precisions[k]);
            else
                status = hrf_store_put_slide_score(store, &score, err);
        }
    }
    hrf_slide_rows_release(&slides);
    return status;
}

static enum hrf_status timed_phase(struct hrf_store *store, const char *name, double start,
                                   struct hrf_error *err)
{
    struct hrf_phase_row row = { .seconds = hrf_clock_seconds() - start, .n_tasks = 1 };
    snprintf(row.name, sizeof row.name, "%s", name);
    return hrf_store_put_phase(store, &row, err);
}

/* What became of the calibration, from the record beside the run. */
static enum hrf_status fill_calibration(const struct hrf_workflow *w, struct hrf_store *store,
                                        const char *directory, struct params *p,
                                        struct hrf_error *err)
{
    struct hrf_calibration_facts *facts = &p->aggregate.calibration;
    HRF_AUTO_FREE char *name = NULL, *cached = NULL;
    bool is_needed = false;
    for (size_t i = 0; i < w->n_precisions; i++)
        is_needed |= w->precision[i] == HRF_INT8;
    facts->reason = "no precision of this run needs one";
    if (!is_needed)
        return HRF_OK;
    HRF_TRY(hrf_store_get_fact(store, "calibration", &name, err));
    HRF_TRY(hrf_store_get_fact(store, "calibration_cached", &cached, err));
    facts->reason = "there is none yet";
    if (name == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    HRF_TRY(hrf_calibration_read(path, &p->calibration, err));
    facts->reason = NULL;
    facts->key = p->calibration->key;
    facts->method = p->calibration->method;
    facts->samples = p->calibration->n_samples;
    facts->of_other_slides = hrf_dataset_is_given(&w->calibrate.slides);
    facts->kept = p->calibration->keep;
    facts->n_kept = p->calibration->n_keep;
    facts->cached = cached != NULL && strcmp(cached, "yes") == 0;
    facts->seconds = facts->cached ? 0 : p->calibration->seconds;
    return HRF_OK;
}

static enum hrf_status write_report(const struct hrf_workflow *workflow, struct hrf_store *store,
                                    const char *directory, bool aggregate_again,
                                    struct params *params, struct hrf_error *err);

enum hrf_status hrf_run_report(const struct hrf_workflow *workflow, struct hrf_store *store,
                               const char *directory, bool aggregate_again, struct hrf_error *err)
{
    struct params params = { .model_sha256 = "" };
    enum hrf_status status = write_report(workflow, store, directory, aggregate_again, &params,
                                          err);
    hrf_calibration_destroy(params.calibration);
    return status;
}

static enum hrf_status write_report(const struct hrf_workflow *workflow, struct hrf_store *store,
                                    const char *directory, bool aggregate_again,
                                    struct params *params, struct hrf_error *err)
{
    double start = hrf_clock_seconds();
    HRF_TRY(fill_params(workflow, store, params, err));
    HRF_TRY(fill_calibration(workflow, store, directory, params, err));
    if (aggregate_again) {
        HRF_TRY(hrf_store_begin(store, err));
        HRF_TRY(aggregate(store, params, err));
        HRF_TRY(timed_phase(store, "aggregate", start, err));
        hrf_crash_point("run.aggregate.before_commit");
        HRF_TRY(hrf_store_commit(store, err));
    }
    struct hrf_report_options options = { .heatmaps = workflow->report.heatmaps,
                                          .geojson = workflow->report.geojson,
                                          .csv = workflow->report.csv,
                                          .html = workflow->report.html };
    return hrf_report_from_store(store, &params->aggregate, &options, directory, err);
}
