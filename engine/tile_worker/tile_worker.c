/* tile_worker.c - see tile_worker.h. */
#include "engine/tile_worker/tile_worker.h"

#include "engine/tile_worker/tissue_model.h"
#include "tiler/plan/tile_job.h"

static enum hrf_status do_job(const char *spec_path, struct hrf_error *err)
{
    HRF_AUTO(hrf_job_spec) spec = NULL;
    HRF_AUTO(hrf_tissue_model) model = NULL;
    HRF_TRY(hrf_tile_job_read(spec_path, &spec, err));
    if (spec->tissue_sha256 == NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' names no network for tissue", spec_path);
    HRF_TRY(hrf_tissue_model_create(&spec->settings->tiler.tissue, spec->tissue_sha256,
                                    spec->n_threads, &model, err));
    const struct hrf_tissue_network network = hrf_tissue_model_network(model);
    return hrf_tile_job_do(spec, spec_path, &network, err);
}

enum hrf_status hrf_tile_worker_run(const char *spec_path, struct hrf_error *err)
{
    return hrf_tile_job_end(do_job(spec_path, err));
}

enum hrf_status hrf_tile_worker_check_model(const struct hrf_workflow_tissue *settings,
                                            int64_t *side, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_tissue_output output;
    HRF_TRY(hrf_tissue_model_read(settings, NULL, &graph, &output, err));
    *side = output.side;
    return HRF_OK;
}
