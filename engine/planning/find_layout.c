/* find_layout.c - turns the --layout option into a layout; "auto" searches (find_layout.h). */
#include "engine/planning/find_layout.h"

#include "base/log.h"
#include "base/own_process.h"
#include "engine/run/agree.h"
#include "engine/run/planner.h"

#include <stdio.h>
#include <string.h>

/* Finds what is known of this machine. `per_node` is the number of processes on each machine; 0:
 * the ranks are threads. */
static enum hrf_status find_known(const struct hrf_session_config *config, int32_t n_ranks,
                                  int32_t per_node, struct hrf_found_layout *found,
                                  struct hrf_error *err)
{
    const bool is_cuda = config->device != NULL && strcmp(config->device, "cuda") == 0;
    const struct hrf_known_request request = {
        .device = is_cuda ? "cuda" : "cpu", .n_threads = 1, .n_ranks = n_ranks, .per_node = per_node
    };
    HRF_TRY(hrf_known_find(&request, &found->known, err));
    found->cutting = (struct hrf_cutting){ &found->known.costs, &found->known.machine };
    return HRF_OK;
}

static enum hrf_status choose(const struct hrf_graph *graph,
                              const struct hrf_session_config *config, int32_t n_ranks,
                              struct hrf_found_layout *found, struct hrf_error *err)
{
    const struct hrf_planner_config planning = { .graph = graph,
                                                 .precision = config->precision,
                                                 .costs = &found->known.costs,
                                                 .machine = &found->known.machine,
                                                 .memory_bytes = config->memory_limit_bytes };
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_prediction) best = NULL;
    char text[128];
    HRF_TRY(hrf_planner_create(&planning, &planner, err));
    HRF_TRY(hrf_planner_choose(planner, n_ranks, &best, err));
    found->plan = best->layout;
    found->is_chosen = true;
    found->predicted_seconds = best->seconds;
    hrf_layout_text(&found->plan, text);
    hrf_log_info("engine",
                 "layout auto: %s, predicted %.1f ms for a batch; costs: %s; messages: %s", text,
                 best->seconds * 1e3, found->known.cost_source, found->known.machine_source);
    return HRF_OK;
}

bool hrf_layout_is_auto(const char *text)
{
    return text != NULL && strcmp(text, "auto") == 0;
}

static enum hrf_status find(const char *text, const struct hrf_graph *graph, int32_t n_ranks,
                            int32_t per_node, struct hrf_session_config *config,
                            struct hrf_found_layout *out, struct hrf_error *err)
{
    const bool is_auto = hrf_layout_is_auto(text);
    HRF_TRY(hrf_layout_parse(is_auto ? NULL : text, &out->plan, err));
    const bool may_need_bands = hrf_layout_ranks(&out->plan) == 1 && config->memory_limit_bytes > 0;
    if (!is_auto && hrf_layout_group_ranks(&out->plan) == 1 && !may_need_bands)
        return HRF_OK;
    HRF_TRY(
        find_known(config, is_auto ? n_ranks : hrf_layout_ranks(&out->plan), per_node, out, err));
    if (!is_auto && hrf_layout_is_sequential(&out->plan) && out->known.single.n_entries > 0) {
        const struct hrf_cost_table together = out->known.costs;
        out->known.costs = out->known.single; /* as 'plan' does */
        out->known.single = together;
    }
    if (is_auto && n_ranks > 1)
        HRF_TRY(choose(graph, config, n_ranks, out, err));
    /* Halos and bands are only chosen by measured costs. */
    const bool is_shared_out = hrf_layout_stage_ranks(&out->plan) > 1 || may_need_bands;
    if (out->plan.stages > 1 || (is_shared_out && !out->known.is_assumed))
        config->cutting = &out->cutting;
    return HRF_OK;
}

/* ---- the first rank's result, sent to the others ---- */

struct announcement {
    struct hrf_vote outcome;
    struct hrf_layout_plan plan;
    struct hrf_machine machine;
    struct hrf_cost_rates rates;
    bool is_chosen, is_cut;
    double predicted_seconds;
    int64_t n_bytes; /* of the costs, as JSON */
};

static void take_announced(const struct announcement *announced, struct hrf_session_config *config,
                           struct hrf_found_layout *out)
{
    out->plan = announced->plan;
    out->is_chosen = announced->is_chosen;
    out->predicted_seconds = announced->predicted_seconds;
    out->known.machine = announced->machine;
    out->known.costs.rates = announced->rates;
    out->cutting = (struct hrf_cutting){ &out->known.costs, &out->known.machine };
    config->cutting = announced->is_cut ? &out->cutting : NULL;
}

static enum hrf_status take_costs(struct hrf_comm *comm, int64_t n_bytes,
                                  struct hrf_cost_table *costs, struct hrf_error *err)
{
    HRF_AUTO_JSON json = NULL;
    HRF_AUTO_FREE char *text = hrf_alloc((size_t)n_bytes + 1);
    HRF_TRY(hrf_broadcast(comm, text, (size_t)n_bytes, err));
    HRF_TRY(hrf_json_parse(text, (size_t)n_bytes, "rank 0's costs", &json, err));
    return hrf_cost_decode(json, "rank 0's costs", costs, err);
}

/* Sends the result of the search, found layout or `status` and `err`, from rank 0 to the others. */
static enum hrf_status tell(struct hrf_comm *comm, const struct hrf_session_config *config,
                            const struct hrf_found_layout *found, enum hrf_status status,
                            struct hrf_error *err)
{
    HRF_AUTO_JSON json = hrf_cost_encode(&found->known.costs);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    struct announcement announced = { .outcome = { .status = status },
                                      .plan = found->plan,
                                      .machine = found->known.machine,
                                      .rates = found->known.costs.rates,
                                      .is_chosen = found->is_chosen,
                                      .is_cut = config->cutting != NULL,
                                      .predicted_seconds = found->predicted_seconds,
                                      .n_bytes = (int64_t)strlen(text) };
    if (status != HRF_OK)
        snprintf(announced.outcome.text, sizeof announced.outcome.text, "%.*s",
                 (int)sizeof announced.outcome.text - 1, err->text);
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status said = hrf_broadcast(comm, &announced, sizeof announced, &why);
    if (said == HRF_OK && status == HRF_OK && announced.is_cut)
        said = hrf_broadcast(comm, text, (size_t)announced.n_bytes, &why);
    if (status != HRF_OK || said == HRF_OK)
        return status;
    *err = why;
    return said;
}

/* Counts the ranks on rank 0's machine. All machines of a job have as many. */
static enum hrf_status count_on_first_host(struct hrf_comm *comm, int32_t *n, struct hrf_error *err)
{
    HRF_AUTO_FREE bool *is_same_node = hrf_calloc((size_t)comm->n_ranks, sizeof *is_same_node);
    HRF_TRY(hrf_find_same_node(comm, is_same_node, err));
    *n = 0;
    for (int32_t r = 0; r < comm->n_ranks; r++)
        *n += is_same_node[r];
    return HRF_OK;
}

enum hrf_status hrf_layout_find(const char *text, const struct hrf_graph *graph,
                                struct hrf_session_config *config, struct hrf_comm *comm,
                                struct hrf_found_layout *out, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    struct announcement announced;
    *out = (struct hrf_found_layout){ .is_chosen = false };
    if (comm == NULL || comm->n_ranks == 1) {
        const int32_t n_threads = config->n_threads > 0 ? config->n_threads
                                                        : hrf_process_cpu_count();
        return find(text, graph, n_threads, 0, config, out, err);
    }
    int32_t per_node = 0;
    HRF_TRY(count_on_first_host(comm, &per_node, err));
    out->per_node = per_node;
    if (comm->rank == 0) {
        const enum hrf_status status = find(text, graph, comm->n_ranks, per_node, config, out,
                                            &why);
        const enum hrf_status said = tell(comm, config, out, status, &why);
        if (said != HRF_OK && err != NULL)
            *err = why;
        return said;
    }
    HRF_TRY(hrf_broadcast(comm, &announced, sizeof announced, err));
    if (announced.outcome.status != HRF_OK)
        return hrf_error_set(err, announced.outcome.status, "%s", announced.outcome.text);
    take_announced(&announced, config, out);
    return announced.is_cut ? take_costs(comm, announced.n_bytes, &out->known.costs, err) : HRF_OK;
}

void hrf_found_layout_release(struct hrf_found_layout *found)
{
    hrf_known_release(&found->known);
}
