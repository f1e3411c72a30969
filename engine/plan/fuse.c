/* fuse.c - which consecutive steps of a plan run as one (plan.h). */
#include "engine/plan/plan.h"

static bool comes_at_run_time(const struct hrf_graph *graph, int32_t value)
{
    return value >= 0 && graph->values[value].data == NULL;
}

bool hrf_plan_pair(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i,
                   struct hrf_fused_pair *out)
{
    if (i + 1 >= plan->n_steps || plan->steps[i].part != HRF_PART_WHOLE ||
        plan->steps[i + 1].part != HRF_PART_WHOLE)
        return false;
    const struct hrf_node *first = &graph->nodes[plan->steps[i].node];
    const struct hrf_node *second = &graph->nodes[plan->steps[i + 1].node];
    const int32_t made = first->outputs[0];
    int32_t n_others = 0, n_reads = 0;
    if (hrf_op_communicates(first->op) || hrf_op_communicates(second->op))
        return false;
    for (int32_t k = 0; k < second->n_inputs; k++)
        if (comes_at_run_time(graph, second->inputs[k]))
            *(second->inputs[k] == made ? &n_reads : &n_others) += 1;
    const bool adds = n_reads == 1 && n_others == 1 && second->op == HRF_OP_CONV &&
                      second->n_inputs > HRF_CONV_RESIDUAL &&
                      second->inputs[HRF_CONV_RESIDUAL] == made &&
                      hrf_plan_offset(plan, made) == hrf_plan_offset(plan, second->outputs[0]);
    const bool is_product = second->op == HRF_OP_CONV || second->op == HRF_OP_GEMM;
    const bool has_residual = n_reads == 1 && n_others == 1 && is_product &&
                              second->n_inputs > HRF_CONV_RESIDUAL &&
                              second->inputs[HRF_CONV_X] == made &&
                              comes_at_run_time(graph, second->inputs[HRF_CONV_RESIDUAL]);
    *out = (struct hrf_fused_pair){ .is_residual = adds,
                                    .reads_residual = has_residual,
                                    .is_sole_reader = plan->n_uses[made] == 1 };
    for (int32_t k = 0; k < first->n_inputs; k++)
        out->overlaps |= comes_at_run_time(graph, first->inputs[k]) &&
                         hrf_plan_overlap(plan, graph, first->inputs[k], second->outputs[0]);
    return adds || has_residual || (n_reads > 0 && n_others == 0);
}

/* Bytes of what step i makes for the next one. */
static int64_t bytes_between(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i)
{
    return hrf_value_bytes(&graph->values[graph->nodes[plan->steps[i].node].outputs[0]]);
}

void hrf_plan_fuse(struct hrf_plan *plan, const struct hrf_graph *graph, hrf_can_fuse *can_fuse,
                   void *context)
{
    struct hrf_fused_pair pair, next;
    for (int32_t i = 0; i + 1 < plan->n_steps; i++) {
        if (!hrf_plan_pair(plan, graph, i, &pair) || !can_fuse(context, i, &pair))
            continue;
        if (hrf_plan_pair(plan, graph, i + 1, &next) &&
            bytes_between(plan, graph, i) < bytes_between(plan, graph, i + 1) &&
            can_fuse(context, i + 1, &next))
            continue;
        plan->steps[i].is_fused = true;
        plan->steps[i].pair = pair;
        i++; /* a step belongs to one pair */
    }
}
