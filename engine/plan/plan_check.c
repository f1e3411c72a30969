/* plan_check.c - proves a plan before it runs (plan.h). */
#include "engine/plan/overlaps.h"
#include "engine/plan/plan.h"

/* For a value of rank 4: the bytes of a pixel's channels, and the bytes from one pixel to the
 * next. */
static int64_t pixel_bytes(const struct hrf_value *v)
{
    return v->shape.dims[1] * (int64_t)hrf_dtype_size(v->dtype);
}

static int64_t stride_bytes(const struct hrf_value *v)
{
    return v->shape.rank == 4 ? hrf_value_pixel_stride(v) * (int64_t)hrf_dtype_size(v->dtype) : 0;
}

/* True if both values have channels of the same pixels (joins.h). */
static bool share_pixels(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t a,
                         int32_t b)
{
    const int64_t stride = stride_bytes(&graph->values[a]);
    return plan->buffer_of[a] == plan->buffer_of[b] && stride > 0 &&
           stride == stride_bytes(&graph->values[b]) && plan->offset_in_buffer[a] < stride &&
           plan->offset_in_buffer[b] < stride;
}

bool hrf_plan_overlap(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t a,
                      int32_t b)
{
    const struct hrf_value *v = &graph->values[a], *w = &graph->values[b];
    const bool shared = share_pixels(plan, graph, a, b);
    const int64_t at_a = hrf_plan_offset(plan, a), at_b = hrf_plan_offset(plan, b);
    return at_a < at_b + (shared ? pixel_bytes(w) : hrf_value_bytes(w)) &&
           at_b < at_a + (shared ? pixel_bytes(v) : hrf_value_bytes(v));
}

/* True if two values in one buffer share some bytes. */
static bool collide(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t a,
                    int32_t b)
{
    return plan->buffer_of[a] == plan->buffer_of[b] && hrf_plan_overlap(plan, graph, a, b);
}

/* True if a concatenation writes nothing to the bytes of the value: inputs are there already. */
static bool is_joined(const struct hrf_plan *plan, const struct hrf_graph *graph,
                      const struct hrf_node *node, int32_t value)
{
    const int32_t y = node->outputs[0];
    const int64_t begin = plan->offset_in_buffer[value],
                  end = begin + pixel_bytes(&graph->values[value]);
    int64_t at = plan->offset_in_buffer[y];
    if (node->op != HRF_OP_CONCAT || node->attributes.axis != 1 ||
        !share_pixels(plan, graph, value, y))
        return false;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const int32_t x = node->inputs[k];
        const int64_t next = at + pixel_bytes(&graph->values[x]);
        const bool is_there = share_pixels(plan, graph, x, y) && plan->offset_in_buffer[x] == at;
        if (!is_there && begin < next && at < end)
            return false;
        at = next;
    }
    return true;
}

static bool is_view(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t n)
{
    const struct hrf_node *node = &graph->nodes[n];
    const int64_t output_at = hrf_rank_map_node(plan->map, n)->output_at;
    return node->op == HRF_OP_EXCHANGE && node->n_inputs > 0 && output_at >= 0 &&
           plan->buffer_of[node->outputs[0]] == plan->buffer_of[node->inputs[0]] &&
           plan->offset_in_buffer[node->outputs[0]] ==
               plan->offset_in_buffer[node->inputs[0]] + output_at;
}

bool hrf_plan_is_in_place(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t n)
{
    const struct hrf_node *node = &graph->nodes[n];
    const int64_t input_at = hrf_rank_map_node(plan->map, n)->input_at;
    return is_view(plan, graph, n) || (node->n_inputs > 0 && input_at >= 0 &&
                                       hrf_plan_offset(plan, node->inputs[0]) ==
                                           hrf_plan_offset(plan, node->outputs[0]) + input_at);
}

/* How much of a value can be read: nothing, the rank's own part (its exchange is in flight), or
 * all. */
enum presence { GONE, OWN, THERE };

enum { END_OF_LIST = -1, NOT_LISTED = -2 };

/* What can be read of every value at the present step, and which values lie in every buffer: a list
 * that has all values that are not gone and may have some that are. */
struct contents {
    enum presence *presence; /* [n_values] */
    int32_t *next;           /* [n_values]: the next one in the list */
    int32_t *first;          /* [n_buffers] */
};

static void contents_release(struct contents *c)
{
    hrf_free(c->presence);
    hrf_free(c->next);
    hrf_free(c->first);
}

static void contents_init(struct contents *c, const struct hrf_plan *plan)
{
    c->presence = hrf_calloc((size_t)plan->n_values + 1, sizeof c->presence[0]);
    c->next = hrf_alloc_array((size_t)plan->n_values + 1, sizeof c->next[0]);
    c->first = hrf_alloc_array((size_t)plan->n_buffers + 1, sizeof c->first[0]);
    for (int32_t v = 0; v < plan->n_values; v++)
        c->next[v] = NOT_LISTED;
    for (int32_t i = 0; i < plan->n_buffers; i++)
        c->first[i] = END_OF_LIST;
}

static void put(const struct hrf_plan *plan, struct contents *c, int32_t value,
                enum presence presence)
{
    const int32_t buffer = plan->buffer_of[value];
    c->presence[value] = presence;
    if (presence == GONE || buffer < 0 || c->next[value] != NOT_LISTED)
        return;
    c->next[value] = c->first[buffer];
    c->first[buffer] = value;
}

/* True if the step is an interior, which reads only the rank's own part of the exchange's output;
 * the numbers that it computes beside that are overwritten by the edges. */
static bool reads_own(const struct hrf_plan *plan, const struct hrf_graph *graph,
                      const struct hrf_step *step, int32_t k)
{
    const struct hrf_node *node = &graph->nodes[step->node];
    const int32_t exchange = graph->values[node->inputs[k]].producer;
    const struct hrf_box *interior = &hrf_rank_map_node(plan->map, step->node)->own;
    const struct hrf_box made = { { step->box.lo[0], interior->lo[1] },
                                  { step->box.hi[0], interior->hi[1] } };
    const struct hrf_box need = hrf_region_needed(graph, node, k, &made);
    return step->part == HRF_PART_INTERIOR &&
           hrf_box_contains(&hrf_rank_map_node(plan->map, exchange)->own, &need);
}

/* Checks that the rows and columns which the step reads are there or are padding. */
static enum hrf_status check_region(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                    int32_t step, struct hrf_error *err)
{
    const struct hrf_node *node = &graph->nodes[plan->steps[step].node];
    const struct hrf_box whole = hrf_box_whole(&graph->values[node->outputs[0]].shape);
    const bool is_part = plan->steps[step].part != HRF_PART_WHOLE;
    if (hrf_op_communicates(node->op) ||
        hrf_region_is_there(graph, node, is_part ? &plan->steps[step].box : &whole))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_BUG,
                         "plan: step %d (%s) reads rows or columns that '%s' does not have", step,
                         node->name, graph->values[node->inputs[0]].name);
}

static enum hrf_status check_reads(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                   int32_t step, const enum presence *presence,
                                   struct hrf_error *err)
{
    const int32_t n = plan->steps[step].node;
    const struct hrf_node *node = &graph->nodes[n];
    const int32_t n_read = plan->steps[step].kind == HRF_STEP_END ? 0 : node->n_inputs;
    for (int32_t k = 0; k < n_read; k++) {
        const int32_t value = node->inputs[k];
        if (value < 0 || graph->values[value].data != NULL)
            continue;
        const int32_t buffer = plan->buffer_of[value];
        if (buffer < 0 || presence[value] == GONE)
            return hrf_error_set(err, HRF_E_BUG, "plan: step %d (%s) reads '%s', which is gone",
                                 step, node->name, graph->values[value].name);
        if (presence[value] == OWN && !reads_own(plan, graph, &plan->steps[step], k))
            return hrf_error_set(
                err, HRF_E_BUG,
                "plan: step %d (%s) reads what the rank lacks of '%s' whose exchange is still "
                "under way",
                step, node->name, graph->values[value].name);
        if (plan->buffers[buffer].first > n || plan->buffers[buffer].last < n)
            return hrf_error_set(err, HRF_E_BUG, "plan: step %d reads '%s' outside its life", step,
                                 graph->values[value].name);
        if (collide(plan, graph, value, node->outputs[0]) && node->op != HRF_OP_EXCHANGE &&
            !is_joined(plan, graph, node, value) && !hrf_plan_may_overwrite(graph, plan->map, n, k))
            return hrf_error_set(err, HRF_E_BUG, "plan: step %d (%s) overwrites '%s'", step,
                                 node->name, graph->values[value].name);
    }
    return HRF_OK;
}

/* True if no later step belongs to the step's node. */
static bool is_last_of_node(const struct hrf_plan *plan, int32_t step)
{
    for (int32_t i = step + 1; i < plan->n_steps && i < step + HRF_PLAN_NODE_STEPS; i++)
        if (plan->steps[i].node == plan->steps[step].node)
            return false;
    return true;
}

/* True if the step and those before it have computed all of the node's output. */
static bool is_complete(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step)
{
    const int32_t n = plan->steps[step].node;
    const struct hrf_box *interior = &hrf_rank_map_node(plan->map, n)->own;
    const struct hrf_box whole = hrf_box_whole(&graph->values[graph->nodes[n].outputs[0]].shape);
    if (plan->steps[step].part == HRF_PART_WHOLE)
        return true;
    for (enum hrf_part part = HRF_PART_INTERIOR; part < HRF_N_PARTS; part++) {
        const struct hrf_box box = hrf_part_box(&whole, interior, part);
        bool is_made = hrf_box_is_empty(&box);
        for (int32_t i = step; i >= 0 && i > step - HRF_PLAN_NODE_STEPS; i--)
            is_made |= plan->steps[i].node == n && plan->steps[i].part == part &&
                       hrf_box_equal(&plan->steps[i].box, &box);
        if (!is_made)
            return false;
    }
    return true;
}

/* True if what is left of the value lies in the memory of another one. */
static bool lies_within(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t value,
                        int32_t other)
{
    const int64_t at = hrf_plan_offset(plan, value), from = hrf_plan_offset(plan, other);
    return value == other || (plan->buffer_of[value] == plan->buffer_of[other] && at >= from &&
                              at + hrf_value_bytes(&graph->values[value]) <=
                                  from + hrf_value_bytes(&graph->values[other]));
}

/* True if the value survives the step although it lies in the memory that the step writes: an
 * exchange leaves its input as it is, with the parts of it that other exchanges have cut out, and a
 * node of which parts are still to come overwrites an input row by row. */
static bool is_spared(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step,
                      int32_t value)
{
    const int32_t n = plan->steps[step].node;
    const struct hrf_node *node = &graph->nodes[n];
    if (is_view(plan, graph, n) || is_joined(plan, graph, node, value))
        return true; /* nothing is written */
    if (node->op == HRF_OP_EXCHANGE)
        return node->n_inputs > 0 && lies_within(plan, graph, value, node->inputs[0]) &&
               plan->offset_in_buffer[node->inputs[0]] ==
                   plan->offset_in_buffer[node->outputs[0]] +
                       hrf_rank_map_node(plan->map, n)->input_at;
    if (is_last_of_node(plan, step))
        return false;
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] == value && hrf_plan_may_overwrite(graph, plan->map, n, k))
            return true;
    return false;
}

/* Marks as gone every value that lies in the memory which the step writes. */
static void wipe_out(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step,
                     int32_t value, struct contents *c)
{
    int32_t *link = &c->first[plan->buffer_of[value]];
    while (*link >= 0) {
        const int32_t v = *link;
        if (v != value && collide(plan, graph, v, value) && !is_spared(plan, graph, step, v))
            c->presence[v] = GONE;
        if (c->presence[v] == GONE) {
            *link = c->next[v];
            c->next[v] = NOT_LISTED;
        } else {
            link = &c->next[v];
        }
    }
}

static enum hrf_status check_writes(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                    int32_t step, struct contents *c, struct hrf_error *err)
{
    const struct hrf_step *s = &plan->steps[step];
    const struct hrf_node *node = &graph->nodes[s->node];
    for (int32_t k = 0; k < node->n_outputs; k++) {
        const int32_t value = node->outputs[k];
        if (value < 0 || plan->buffer_of[value] < 0)
            continue;
        if (s->kind == HRF_STEP_END && c->presence[value] != OWN)
            return hrf_error_set(err, HRF_E_BUG, "plan: step %d ends '%s', which is not under way",
                                 step, node->name);
        wipe_out(plan, graph, step, value, c);
        if (s->kind == HRF_STEP_BEGIN)
            put(plan, c, value, OWN);
        else if (is_last_of_node(plan, step))
            put(plan, c, value, is_complete(plan, graph, step) ? THERE : GONE);
    }
    return HRF_OK;
}

static bool is_within(const struct hrf_plan *plan, const struct hrf_graph *graph,
                      const struct hrf_area *a, int32_t value)
{
    const int64_t begin = value >= 0 ? hrf_plan_offset(plan, value) : 0;
    const int64_t end = value >= 0 ? begin + hrf_value_bytes(&graph->values[value]) : 0;
    const int64_t last = a->offset + (a->n_images - 1) * a->image_stride +
                         (a->n_rows - 1) * a->row_stride + a->row_bytes;
    if (a->memory == HRF_MEMORY_MESSAGE)
        return a->offset == 0 && last <= plan->message_bytes;
    return a->memory == HRF_MEMORY_LINE_CACHE || (a->offset >= begin && last <= end);
}

/* True if the packed message is read right after it was written. */
static bool is_packed_well(const struct hrf_plan *plan, int32_t i, bool reads)
{
    const struct hrf_transfer *t = &plan->transfers[i];
    const enum hrf_transfer_kind maker = t->kind == HRF_TRANSFER_SEND ? HRF_TRANSFER_PACK
                                                                      : HRF_TRANSFER_RECEIVE;
    if (reads && t->from.memory == HRF_MEMORY_MESSAGE)
        return i > 0 && t[-1].kind == maker && t[-1].to.memory == HRF_MEMORY_MESSAGE &&
               hrf_area_bytes(&t[-1].to) == hrf_area_bytes(&t->from);
    return t->kind == HRF_TRANSFER_SEND || t->to.memory != HRF_MEMORY_MESSAGE ||
           (i + 1 < plan->n_transfers && t[1].from.memory == HRF_MEMORY_MESSAGE);
}

/* Checks that transfers lie inside the tensors of the step; *filled: bytes of its output. */
static enum hrf_status check_step_transfers(const struct hrf_plan *plan,
                                            const struct hrf_graph *graph, int32_t step,
                                            int64_t *filled, struct hrf_error *err)
{
    const struct hrf_step *s = &plan->steps[step];
    const struct hrf_node *node = &graph->nodes[s->node];
    const int32_t in = node->n_inputs > 0 ? node->inputs[0] : HRF_NO_VALUE;
    for (int32_t i = s->first_transfer; i < s->first_transfer + s->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        const bool reads = t->kind != HRF_TRANSFER_RECEIVE && t->kind != HRF_TRANSFER_EXPECT;
        const bool writes = t->kind != HRF_TRANSFER_SEND;
        if ((reads && !is_within(plan, graph, &t->from, in)) ||
            (writes && !is_within(plan, graph, &t->to, node->outputs[0])) ||
            (reads && writes && hrf_area_bytes(&t->from) != hrf_area_bytes(&t->to)) ||
            !is_packed_well(plan, i, reads))
            return hrf_error_set(err, HRF_E_BUG,
                                 "plan: transfer %d of step %d (%s) is not of its tensors", i, step,
                                 node->name);
        if (writes && t->kind != HRF_TRANSFER_EXPECT && t->to.memory == HRF_MEMORY_ARENA)
            *filled += hrf_area_bytes(&t->to);
    }
    return HRF_OK;
}

/* Checks that a finished exchange has filled exactly the bytes of its output. */
static enum hrf_status check_transfers(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                       int32_t step, struct hrf_error *err)
{
    const int32_t n = plan->steps[step].node;
    const struct hrf_node *node = &graph->nodes[n];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_box *own = &hrf_rank_map_node(plan->map, n)->own;
    const struct hrf_box whole = hrf_box_whole(&y->shape);
    int64_t filled = 0;
    if (plan->map == NULL || !hrf_op_communicates(node->op))
        return HRF_OK;
    for (int32_t i = step; i >= 0 && i > step - HRF_PLAN_NODE_STEPS; i--)
        if (plan->steps[i].node == n)
            HRF_TRY(check_step_transfers(plan, graph, i, &filled, err));
    if (node->op != HRF_OP_EXCHANGE || plan->steps[step].kind == HRF_STEP_BEGIN ||
        is_view(plan, graph, n))
        return HRF_OK;
    if (!hrf_box_is_empty(own) && hrf_plan_is_in_place(plan, graph, n))
        filled += hrf_value_bytes(y) / ((whole.hi[0] - whole.lo[0]) * (whole.hi[1] - whole.lo[1])) *
                  ((own->hi[0] - own->lo[0]) * (own->hi[1] - own->lo[1]));
    if (filled != hrf_value_bytes(y))
        return hrf_error_set(err, HRF_E_BUG, "plan: step %d (%s) fills %lld bytes of %lld", step,
                             node->name, (long long)filled, (long long)hrf_value_bytes(y));
    return HRF_OK;
}

/* Checks that the facts about fused pairs, which the kernels rely on, are true. */
static enum hrf_status check_fused(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                   int32_t step, struct hrf_error *err)
{
    const struct hrf_fused_pair *told = &plan->steps[step].pair;
    struct hrf_fused_pair pair;
    if (!plan->steps[step].is_fused)
        return HRF_OK;
    if (!hrf_plan_pair(plan, graph, step, &pair) || plan->steps[step + 1].is_fused)
        return hrf_error_set(err, HRF_E_BUG, "plan: steps %d and %d cannot be fused", step,
                             step + 1);
    if (pair.overlaps != told->overlaps || pair.is_residual != told->is_residual ||
        pair.reads_residual != told->reads_residual || pair.is_sole_reader != told->is_sole_reader)
        return hrf_error_set(err, HRF_E_BUG,
                             "plan: the kernels of steps %d and %d, which are fused, were told "
                             "something else of what they read and overwrite",
                             step, step + 1);
    return HRF_OK;
}

/* Walks the steps in order and checks what each reads and writes. */
static enum hrf_status check_steps(const struct hrf_plan *plan, const struct hrf_graph *graph,
                                   struct contents *c, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        put(plan, c, graph->inputs[i], THERE);
    for (int32_t step = 0; step < plan->n_steps; step++) {
        HRF_TRY(check_region(plan, graph, step, err));
        HRF_TRY(check_reads(plan, graph, step, c->presence, err));
        HRF_TRY(check_writes(plan, graph, step, c, err));
        HRF_TRY(check_fused(plan, graph, step, err));
        HRF_TRY(check_transfers(plan, graph, step, err));
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const int32_t value = graph->outputs[i];
        if (graph->values[value].data == NULL &&
            (plan->buffer_of[value] < 0 || c->presence[value] != THERE))
            return hrf_error_set(err, HRF_E_BUG, "plan: output '%s' is gone at the end",
                                 graph->values[value].name);
    }
    return HRF_OK;
}

enum hrf_status hrf_plan_check(const struct hrf_plan *plan, const struct hrf_graph *graph,
                               struct hrf_error *err)
{
    struct contents contents;
    HRF_TRY(hrf_plan_check_overlaps(plan, err));
    contents_init(&contents, plan);
    const enum hrf_status status = check_steps(plan, graph, &contents, err);
    contents_release(&contents);
    return status;
}
