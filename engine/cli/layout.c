#include "engine/cli/layout.h"

#include "base/log.h"
#include "base/process.h"
#include "engine/run/planner.h"

#include <string.h>

static enum hrf_status find_known(int32_t n_ranks, struct hrf_found_layout *found,
                                  struct hrf_error *err)
{
    const struct hrf_known_request request = { .device = "cpu",
                                               .n_threads = 1,
                                               .n_ranks = n_ranks };
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
    char text[96];
    HRF_TRY(hrf_planner_create(&planning, &planner, err));
    HRF_TRY(hrf_planner_choose(planner, n_ranks, &best, err));
    found->plan = best->layout;
    found->is_chosen = true;
    found->predicted_seconds = best->seconds;
    hrf_layout_text(&found->plan, text);
    hrf_log_info("engine", "layout auto: %s, predicted %.1f ms a batch by %s", text,
                 best->seconds * 1e3, found->known.cost_source);
    return HRF_OK;
}

enum hrf_status hrf_layout_find(const char *text, const struct hrf_graph *graph,
                                struct hrf_session_config *config, struct hrf_found_layout *out,
                                struct hrf_error *err)
{
    const bool is_auto = text != NULL && strcmp(text, "auto") == 0;
    const int32_t n_threads = config->n_threads > 0 ? config->n_threads : hrf_process_cpu_count();
    *out = (struct hrf_found_layout){ .is_chosen = false };
    HRF_TRY(hrf_layout_parse(is_auto ? NULL : text, &out->plan, err));
    if (!is_auto && out->plan.stages == 1)
        return HRF_OK;
    HRF_TRY(find_known(is_auto ? n_threads : hrf_layout_ranks(&out->plan), out, err));
    if (is_auto && n_threads > 1)
        HRF_TRY(choose(graph, config, n_threads, out, err));
    if (out->plan.stages > 1)
        config->cutting = &out->cutting;
    return HRF_OK;
}

void hrf_found_layout_release(struct hrf_found_layout *found)
{
    hrf_known_release(&found->known);
}
