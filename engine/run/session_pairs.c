/* session_pairs.c - which steps run together with the one after them: where a kernel can do both
 * part by part, so that the second finds its input in the caches. The plan thinks that one step is
 * over before the next begins: it may have given the second's output the place of something that
 * the first still reads, which the kernel has to mind, or it does not pair. */
#include "engine/run/session_private.h"

static bool overlap(const struct hrf_session *session, int32_t a, int32_t b)
{
    const char *at_a = hrf_session_buffer(session, a), *at_b = hrf_session_buffer(session, b);
    return at_a < at_b + hrf_value_bytes(&session->graph->values[b]) &&
           at_b < at_a + hrf_value_bytes(&session->graph->values[a]);
}

static bool comes_at_run_time(const struct hrf_session *session, int32_t value)
{
    return value >= 0 && session->graph->values[value].data == NULL;
}

static const struct hrf_node *node_of(const struct hrf_session *session, int32_t step)
{
    return &session->graph->nodes[session->plan->steps[step].node];
}

static bool runs_whole(const struct hrf_session *session, int32_t step)
{
    return session->plan->steps[step].part == HRF_PART_WHOLE && session->kernels[step] != NULL;
}

/* How the second reads what the first makes: nothing else, or that as the residual in its place. */
enum reading { NOT_ALONE, AS_ALL_IT_READS, AS_RESIDUAL };

static enum reading reading_of(const struct hrf_session *session, const struct hrf_node *first,
                               const struct hrf_node *second)
{
    const int32_t made = first->outputs[0];
    int32_t n_others = 0, n_reads = 0;
    for (int32_t i = 0; i < second->n_inputs; i++)
        if (comes_at_run_time(session, second->inputs[i]))
            *(second->inputs[i] == made ? &n_reads : &n_others) += 1;
    if (n_reads > 0 && n_others == 0)
        return AS_ALL_IT_READS;
    if (n_reads == 1 && n_others == 1 && second->op == HRF_OP_CONV &&
        second->n_inputs > HRF_CONV_RESIDUAL && second->inputs[HRF_CONV_RESIDUAL] == made &&
        hrf_session_buffer(session, made) == hrf_session_buffer(session, second->outputs[0]))
        return AS_RESIDUAL;
    return NOT_ALONE;
}

/* An output of the network, or read by another node than `reader`. */
static bool is_kept(const struct hrf_session *session, int32_t value, const struct hrf_node *reader)
{
    const struct hrf_graph *graph = session->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == value)
            return true;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t i = 0; i < graph->nodes[n].n_inputs; i++)
            if (graph->nodes[n].inputs[i] == value && &graph->nodes[n] != reader)
                return true;
    return false;
}

static bool can_lead(const struct hrf_session *session, int32_t step)
{
    if (!runs_whole(session, step) || !runs_whole(session, step + 1))
        return false;
    const struct hrf_kernel *kernel = session->kernels[step], *next = session->kernels[step + 1];
    const struct hrf_node *first = node_of(session, step), *second = node_of(session, step + 1);
    const enum reading reading = reading_of(session, first, second);
    if (kernel->leads == NULL || reading == NOT_ALONE)
        return false;
    struct hrf_pair pair = { .is_kept = is_kept(session, first->outputs[0], second),
                             .is_residual = reading == AS_RESIDUAL };
    for (int32_t i = 0; i < first->n_inputs; i++)
        pair.overlaps |= comes_at_run_time(session, first->inputs[i]) &&
                         overlap(session, first->inputs[i], second->outputs[0]);
    return kernel->leads(kernel, next, &pair);
}

void hrf_session_pair_steps(struct hrf_session *session)
{
    for (int32_t i = 0; i + 1 < session->plan->n_steps; i++)
        session->leads[i] = (i == 0 || !session->leads[i - 1]) && session->device.ops == NULL &&
                            can_lead(session, i);
}
