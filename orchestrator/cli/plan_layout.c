/* plan_layout.c - what `hires-flow plan` says of ranks: the engine is asked, which plans them. */
#include "orchestrator/cli/plan_layout.h"

#include "base/own_process.h"
#include "orchestrator/launch/launch.h"

#include <stdio.h>
#include <string.h>

/* Returns the number of processes of an infer job; *per_node: of those on one machine. */
static int64_t processes_of(const struct hrf_workflow *w, int64_t *per_node)
{
    const bool slurm = w->executor.type == HRF_EXECUTOR_SLURM;
    *per_node = slurm ? w->executor.slurm.ranks_per_node : w->executor.local.ranks;
    return slurm ? w->executor.slurm.nodes * *per_node : *per_node;
}

/* Returns the number of ranks of a job: those of `parallel`, or as many as "auto" may use. */
static int64_t ranks_of(const struct hrf_workflow *w)
{
    int64_t per_node;
    const int64_t n = processes_of(w, &per_node);
    if (w->engine.parallel.is_auto)
        return n > 1 || w->executor.type == HRF_EXECUTOR_SLURM ? n : hrf_process_cpu_count();
    return w->engine.parallel.data * w->engine.parallel.spatial_rows *
           w->engine.parallel.spatial_cols * w->engine.parallel.tensor * w->engine.parallel.stages;
}

enum hrf_status hrf_cli_plan_layout(const struct hrf_workflow *w, enum hrf_precision precision,
                                    const struct hrf_layout_request *asked, struct hrf_strbuf *out,
                                    struct hrf_error *err)
{
    const bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    char n_ranks[24];
    int64_t per_node;
    HRF_AUTO_FREE char *layout = asked->layout != NULL  ? hrf_strdup(asked->layout)
                                 : asked->ranks != NULL ? hrf_strdup("auto")
                                                        : hrf_workflow_layout(w);
    snprintf(n_ranks, sizeof n_ranks, "%lld", (long long)ranks_of(w));
    struct hrf_plan_request request = hrf_plan_request_initial;
    request.model = w->model.file;
    request.size = hrf_workflow_image_size(w);
    request.batch = whole ? 1 : w->engine.batch * w->engine.parallel.data;
    request.memory = (double)w->engine.memory_bytes / 0x1p30;
    request.precision = precision;
    request.cluster = asked->cluster;
    request.timeline = asked->timeline;
    request.cache = w->cache;
    request.layout = layout;
    request.processes = processes_of(w, &per_node) > 1 ? per_node : 0;
    request.ranks = asked->ranks;
    request.json = asked->json;
    if (asked->ranks == NULL && (strcmp(layout, "auto") == 0 || strchr(layout, 'N') != NULL))
        request.ranks = n_ranks;
    const struct hrf_engine_question question = { .command = HRF_ENGINE_PLAN,
                                                  .options = hrf_plan_options,
                                                  .request = &request,
                                                  .initial = &hrf_plan_request_initial };
    struct hrf_error why = { .status = HRF_OK };
    if (hrf_engine_ask(&question, out, &why) == HRF_OK)
        return HRF_OK;
    if (why.id == HRF_ERROR_FILE_MISSING) /* which the user has named */
        why.status = HRF_E_USER;
    return hrf_error_pass(err, &why);
}

enum hrf_status hrf_cli_plan_layout_json(const struct hrf_workflow *w, enum hrf_precision precision,
                                         const struct hrf_layout_request *asked, json_t **answer,
                                         struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_TRY(hrf_cli_plan_layout(w, precision, asked, &text, err));
    return hrf_json_parse(text.text, text.length, "hires-engine plan", answer, err);
}

enum hrf_status hrf_cli_plan_memory(const struct hrf_workflow *w, enum hrf_precision precision,
                                    int64_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_JSON answer = NULL;
    json_t *layouts;
    const struct hrf_layout_request request = { .json = true };
    HRF_TRY(hrf_cli_plan_layout_json(w, precision, &request, &answer, err));
    HRF_TRY(hrf_json_get_array(answer, "layouts", "hires-engine plan", &layouts, err));
    return hrf_json_get_int(json_array_get(layouts, 0), "peak_memory_bytes", "hires-engine plan",
                            n_bytes, err);
}
