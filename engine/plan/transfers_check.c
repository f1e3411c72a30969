/* transfers_check.c - proves that the messages of all ranks of a group meet (transfers.h). */
#include "engine/plan/plan.h"
#include "engine/plan/simulate.h"

enum hrf_status hrf_transfers_simulate(const struct hrf_transfer *t, int32_t label,
                                       struct hrf_sim_program *out, struct hrf_error *err)
{
    const bool sends = t->kind == HRF_TRANSFER_SEND;
    const struct hrf_sim_step step = { .kind = sends ? HRF_SIM_SEND : HRF_SIM_RECEIVE,
                                       .label = label,
                                       .peer = t->peer,
                                       .tag = t->tag,
                                       .n_bytes = hrf_area_bytes(sends ? &t->from : &t->to) };
    return sends || t->kind == HRF_TRANSFER_RECEIVE ? hrf_sim_add(out, &step, err) : HRF_OK;
}

/* Simulates a machine on which messages cost nothing: only their partners and their order count. */
static enum hrf_status play(const struct hrf_plan *const *plans, int32_t n_ranks,
                            struct hrf_sim_program *programs, struct hrf_error *err)
{
    struct hrf_machine machine = {
        .is_one_process = true, .ranks_per_node = n_ranks, .ports_per_node = 1, .n_links = 1
    };
    HRF_AUTO(hrf_simulation) simulation = NULL;
    machine.links[0] = hrf_link_simple("check", HRF_PLACE_PROCESS, 0, 1);
    for (int32_t r = 0; r < n_ranks; r++)
        for (int32_t i = 0; i < plans[r]->n_transfers; i++)
            HRF_TRY(hrf_transfers_simulate(&plans[r]->transfers[i], 0, &programs[r], err));
    return hrf_simulate(programs, n_ranks, &machine, &simulation, err);
}

enum hrf_status hrf_transfers_check(const struct hrf_plan *const *plans, int32_t n_ranks,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_sim_program *programs = hrf_calloc((size_t)n_ranks, sizeof *programs);
    HRF_CHECK_MEMORY(programs != NULL, err, "no memory to check the messages of %d ranks", n_ranks);
    const enum hrf_status status = play(plans, n_ranks, programs, err);
    for (int32_t r = 0; r < n_ranks; r++)
        hrf_free(programs[r].steps);
    return status;
}

static enum hrf_status make_plans(const struct hrf_partition *p, struct hrf_plan **plans,
                                  struct hrf_rank_map **maps, struct hrf_error *err)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_TRY(hrf_partition_graph(p, r, &graph, &maps[r], err));
        HRF_TRY(hrf_plan_create(graph, maps[r], &plans[r], err));
        HRF_TRY(hrf_plan_check(plans[r], graph, err));
    }
    return hrf_transfers_check((const struct hrf_plan *const *)plans, p->n_ranks, err);
}

enum hrf_status hrf_transfers_prove(const struct hrf_partition *p, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_plan **plans = hrf_calloc((size_t)p->n_ranks, sizeof *plans);
    HRF_AUTO_FREE struct hrf_rank_map **maps = hrf_calloc((size_t)p->n_ranks, sizeof *maps);
    HRF_CHECK_MEMORY(plans != NULL && maps != NULL, err, "no memory to check the plans of %d ranks",
                     p->n_ranks);
    const enum hrf_status status = make_plans(p, plans, maps, err);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        hrf_plan_destroy(plans[r]);
        hrf_rank_map_destroy(maps[r]);
    }
    return status;
}
