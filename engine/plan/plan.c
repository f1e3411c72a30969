/* plan.c - makes a plan: steps, shared buffers and their offsets, and which consecutive steps run
 * as one (plan.h). */
#include "engine/plan/plan.h"

#include "engine/ir/op.h"
#include "engine/plan/arena.h"
#include "engine/plan/joins.h"

void hrf_plan_destroy(struct hrf_plan *plan)
{
    if (plan == NULL)
        return;
    hrf_free(plan->steps);
    hrf_free(plan->buffer_of);
    hrf_free(plan->offset_in_buffer);
    hrf_free(plan->buffers);
    hrf_free(plan->n_uses);
    hrf_free(plan->transfers);
    hrf_free(plan);
}

/* True if the node has side edges. The interior also writes into their columns, and the edges still
 * need the residual there. */
static bool has_sides(const struct hrf_graph *graph, const struct hrf_rank_map *map, int32_t n)
{
    const struct hrf_box whole = hrf_box_whole(&graph->values[graph->nodes[n].outputs[0]].shape);
    return hrf_part_has_sides(&whole, &hrf_rank_map_node(map, n)->own);
}

/* True if the node changes nothing but the shape, and no element moves in memory. */
static bool keeps_memory(const struct hrf_node *node)
{
    return hrf_op_info(node->op)->op_class == HRF_CLASS_VIEW && node->attributes.channels_last;
}

bool hrf_plan_may_overwrite(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                            int32_t n, int32_t input)
{
    const struct hrf_node *node = &graph->nodes[n];
    const enum hrf_op_class op_class = hrf_op_info(node->op)->op_class;
    if (!hrf_op_may_overwrite(node->op, input) || node->inputs[input] < 0 ||
        (op_class == HRF_CLASS_VIEW && !keeps_memory(node)) ||
        (op_class == HRF_CLASS_PRODUCT && has_sides(graph, map, n)))
        return false;
    const struct hrf_value *x = &graph->values[node->inputs[input]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (keeps_memory(node))
        return x->dtype == y->dtype;
    return hrf_shape_equal(&x->shape, &y->shape) && x->pixel_stride == y->pixel_stride &&
           hrf_dtype_size(x->dtype) == hrf_dtype_size(y->dtype);
}

/* When each value is written (-1: before the first node) and last read (n_nodes: after the last
 * node, so that it is never overwritten), and which values share its buffer. */
struct life {
    int32_t first, last;
    bool pinned;
    /* guest: for an exchange's output, the input that lies inside of it. host: for that input, and
     * for those of concatenations that do, the output. -1: none. */
    int32_t guest, host;
    int64_t host_at;  /* bytes: where in the host */
    int32_t view_of;  /* the value that this one, an exchange's output, is a part of; -1: none */
    int32_t next_kin; /* values that share a buffer from the beginning are a ring; alone: itself */
};

static bool is_floating(const struct hrf_graph *graph, int32_t value)
{
    const enum hrf_dtype type = graph->values[value].dtype;
    return hrf_dtype_is_float(type);
}

static bool is_depthwise(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->op == HRF_OP_CONV && node->attributes.group > 1 &&
           node->attributes.group == graph->values[node->inputs[HRF_CONV_X]].shape.dims[1];
}

/* True if a back end may compute node n and the next one in one pass (fused_pair.h) that writes the
 * second output while it still reads the first node's inputs. */
static bool may_be_one_pass(const struct hrf_graph *graph, int32_t n)
{
    const struct hrf_node *node = &graph->nodes[n], *next = node + 1;
    if (hrf_graph_second_of(graph, node) != NULL)
        return true;
    return n + 1 < graph->n_nodes && node->op == HRF_OP_CONV && is_depthwise(graph, next) &&
           next->inputs[HRF_CONV_X] == node->outputs[0] && is_floating(graph, node->outputs[0]);
}

/* True if node n is a MUL by factors for each channel whose product the next convolution reads: a
 * back end may compute both in one pass, whose output may still take the place of the image. */
static bool is_gate(const struct hrf_graph *graph, int32_t n)
{
    const struct hrf_node *node = &graph->nodes[n], *next = node + 1;
    return n + 1 < graph->n_nodes && node->op == HRF_OP_MUL && next->op == HRF_OP_CONV &&
           next->inputs[HRF_CONV_X] == node->outputs[0];
}

static bool is_held(const struct hrf_graph *graph, int32_t n, int32_t k)
{
    const struct hrf_node *node = &graph->nodes[n];
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    if (is_gate(graph, n))
        return !hrf_shape_equal(x, &graph->values[node->outputs[0]].shape);
    return may_be_one_pass(graph, n) && k != HRF_CONV_RESIDUAL;
}

/* The inputs of such a node are held until the second one is done. Its residual may become its
 * output instead. */
static void hold_for_pairs(const struct hrf_graph *graph, struct life *lives)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0 && lives[node->inputs[k]].last == n && is_held(graph, n, k))
                lives[node->inputs[k]].last = n + 1;
    }
}

static void find_lives(const struct hrf_graph *graph, struct life *lives)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        lives[v] = (struct life){
            .first = -2, .last = -2, .guest = -1, .host = -1, .view_of = -1, .next_kin = v
        };
    for (int32_t i = 0; i < graph->n_inputs; i++)
        lives[graph->inputs[i]].first = lives[graph->inputs[i]].last = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        for (int32_t k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] >= 0 && lives[node->outputs[k]].first == -2)
                lives[node->outputs[k]].first = lives[node->outputs[k]].last = n;
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0 && lives[node->inputs[k]].last < n)
                lives[node->inputs[k]].last = n;
    }
    hold_for_pairs(graph, lives);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        lives[graph->outputs[i]].last = graph->n_nodes;
        lives[graph->outputs[i]].pinned = true;
    }
}

static bool are_kin(const struct life *lives, int32_t a, int32_t b)
{
    int32_t v = a;
    while (v != b && lives[v].next_kin != a)
        v = lives[v].next_kin;
    return v == b;
}

static void join_kin(struct life *lives, int32_t a, int32_t b)
{
    const int32_t next = lives[a].next_kin;
    if (are_kin(lives, a, b))
        return;
    lives[a].next_kin = lives[b].next_kin;
    lives[b].next_kin = next;
}

/* The input of an exchange is computed inside its output's buffer if there is a place that kernels
 * can write to. Graph outputs keep buffers of their own. */
static void find_guests(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                        struct life *lives)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        const int64_t input_at = hrf_rank_map_node(map, n)->input_at;
        if (node->op != HRF_OP_EXCHANGE || node->n_inputs == 0 || input_at < 0 ||
            input_at % HRF_PLAN_OFFSET_ALIGNMENT != 0)
            continue;
        struct life *guest = &lives[node->inputs[0]], *host = &lives[node->outputs[0]];
        if (guest->host >= 0 || guest->guest >= 0 || guest->view_of >= 0 || guest->pinned ||
            host->pinned)
            continue;
        guest->host = node->outputs[0];
        guest->host_at = input_at;
        host->guest = node->inputs[0];
        join_kin(lives, node->outputs[0], node->inputs[0]);
    }
}

/* Inputs of concatenations that have the output's pixel stride are computed inside of it. */
static void find_joins(const struct hrf_graph *graph, struct life *lives)
{
    HRF_AUTO_FREE struct hrf_join *joins = hrf_alloc_array((size_t)graph->n_values + 1,
                                                           sizeof joins[0]);
    hrf_joins_of_strides(graph, joins);
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (joins[v].host < 0)
            continue;
        lives[v].host = joins[v].host;
        lives[v].host_at = joins[v].channel * (int64_t)hrf_dtype_size(graph->values[v].dtype);
        join_kin(lives, joins[v].host, v);
    }
}

/* If an exchange only cuts a part out of its input, the part stays where it is, provided that
 * kernels can read it there. */
static void find_views(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                       struct life *lives)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        const int64_t output_at = hrf_rank_map_node(map, n)->output_at;
        if (node->op != HRF_OP_EXCHANGE || node->n_inputs == 0 || output_at < 0 ||
            output_at % HRF_PLAN_OFFSET_ALIGNMENT != 0 || lives[node->outputs[0]].pinned ||
            lives[node->inputs[0]].pinned)
            continue;
        lives[node->outputs[0]].view_of = node->inputs[0];
        join_kin(lives, node->inputs[0], node->outputs[0]);
    }
}

static bool needs_buffer(const struct hrf_graph *graph, int32_t value)
{
    return graph->values[value].data == NULL && graph->values[value].dtype != HRF_DTYPE_NONE;
}

/* True if the value's buffer also holds something that is read at step n or later. */
static bool is_shared(const struct life *lives, int32_t value, int32_t n)
{
    for (int32_t v = lives[value].next_kin; v != value; v = lives[v].next_kin)
        if (lives[v].last >= n)
            return true;
    return false;
}

/* The input whose buffer the output of step n takes over; -1: none. It is read for the last time
 * here, and nothing else uses its buffer later. */
static int32_t find_overwritten(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                                const struct life *lives, int32_t n)
{
    const struct hrf_node *node = &graph->nodes[n];
    if (lives[node->outputs[0]].pinned || lives[node->outputs[0]].host >= 0)
        return -1;
    for (int32_t k = node->n_inputs - 1; k >= 0; k--) {
        int32_t value = node->inputs[k];
        if (value < 0 || !needs_buffer(graph, value) || lives[value].pinned ||
            lives[value].last != n || !hrf_plan_may_overwrite(graph, map, n, k) ||
            is_shared(lives, value, n))
            continue;
        bool elsewhere =
            false; /* the node also reads the value as an input that may not be overwritten */
        for (int32_t j = 0; j < node->n_inputs; j++)
            elsewhere |= j != k && node->inputs[j] == value &&
                         !hrf_plan_may_overwrite(graph, map, n, j);
        if (!elsewhere)
            return value;
    }
    return -1;
}

static void add_buffer(struct hrf_plan *plan, const struct hrf_graph *graph,
                       const struct life *lives, int32_t value)
{
    plan->buffer_of[value] = plan->n_buffers;
    plan->buffers[plan->n_buffers++] = (struct hrf_buffer){
        .n_bytes = (hrf_value_bytes(&graph->values[value]) + HRF_PLAN_ALIGNMENT - 1) /
                   HRF_PLAN_ALIGNMENT * HRF_PLAN_ALIGNMENT,
        .first = lives[value].first,
        .last = lives[value].last,
    };
}

/* Assigns the value to a buffer, which then lives at least as long as the value. */
static void put_into(struct hrf_plan *plan, const struct life *lives, int32_t value, int32_t buffer,
                     int64_t offset)
{
    struct hrf_buffer *b = &plan->buffers[buffer];
    plan->buffer_of[value] = buffer;
    plan->offset_in_buffer[value] = offset;
    b->last = lives[value].last > b->last ? lives[value].last : b->last;
}

static void assign_output(struct hrf_plan *plan, const struct hrf_graph *graph,
                          const struct life *lives, int32_t n, int32_t value, int32_t over)
{
    const int32_t host = lives[value].host, whole = lives[value].view_of;
    if (plan->buffer_of[value] != HRF_NO_BUFFER)
        return; /* the host of a guest that was placed before */
    if (whole >= 0) {
        put_into(plan, lives, value, plan->buffer_of[whole],
                 plan->offset_in_buffer[whole] + hrf_rank_map_node(plan->map, n)->output_at);
    } else if (host >= 0) { /* it is computed in place, so that the host exists from now on */
        if (plan->buffer_of[host] == HRF_NO_BUFFER) {
            add_buffer(plan, graph, lives, host);
            plan->buffers[plan->buffer_of[host]].first = n;
        }
        put_into(plan, lives, value, plan->buffer_of[host], lives[value].host_at);
    } else if (over >= 0) {
        put_into(plan, lives, value, plan->buffer_of[over], plan->offset_in_buffer[over]);
    } else {
        add_buffer(plan, graph, lives, value);
    }
}

static void assign_buffers(struct hrf_plan *plan, const struct hrf_graph *graph,
                           const struct life *lives)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        assign_output(plan, graph, lives, -1, graph->inputs[i], -1);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        const int32_t over = find_overwritten(graph, plan->map, lives, n);
        for (int32_t k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] >= 0 && needs_buffer(graph, node->outputs[k]))
                assign_output(plan, graph, lives, n, node->outputs[k], k == 0 ? over : -1);
    }
}

static void hold_inputs(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t n_longer)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        plan->buffers[plan->buffer_of[graph->inputs[i]]].last += n_longer;
}

/* If the first step is fused with the second and the second output overlapped the images, the
 * images would have to be moved first. This places that output clear of them, unless the arena
 * would grow. */
static void place_clear_of_inputs(struct hrf_plan *plan, const struct hrf_graph *graph)
{
    const int64_t least = hrf_buffers_place(plan->buffers, plan->n_buffers);
    hold_inputs(plan, graph, 1);
    plan->arena_bytes = hrf_buffers_place(plan->buffers, plan->n_buffers);
    hold_inputs(plan, graph, -1);
    if (plan->arena_bytes > least)
        plan->arena_bytes = hrf_buffers_place(plan->buffers, plan->n_buffers);
}

static enum hrf_status check_shapes(const struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        if (hrf_shape_count(&graph->values[v].shape) < 0)
            return hrf_error_set(err, HRF_E_BUG, "the shape of value '%s' is not known",
                                 graph->values[v].name);
    return HRF_OK;
}

/* ---- steps ---- */

static void add_step(struct hrf_plan *plan, enum hrf_step_kind kind, int32_t node,
                     enum hrf_part part)
{
    plan->steps[plan->n_steps++] = (struct hrf_step){ .kind = kind, .node = node, .part = part };
}

/* True if node n is an exchange and the next node has an interior that is computed meanwhile. */
static bool is_overlapped(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t n)
{
    return graph->nodes[n].op == HRF_OP_EXCHANGE && n + 1 < graph->n_nodes &&
           graph->nodes[n + 1].op != HRF_OP_EXCHANGE &&
           !hrf_box_is_empty(&hrf_rank_map_node(plan->map, n + 1)->own) &&
           graph->nodes[n + 1].inputs[0] == graph->nodes[n].outputs[0];
}

static void add_part(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t n,
                     enum hrf_part part)
{
    const struct hrf_node *node = &graph->nodes[n];
    const struct hrf_box whole = hrf_box_whole(&graph->values[node->outputs[0]].shape);
    const struct hrf_box box = hrf_part_box(&whole, &hrf_rank_map_node(plan->map, n)->own, part);
    const int64_t n_bytes = hrf_part_copies(graph, node, part, &box, NULL);
    if (hrf_box_is_empty(&box))
        return;
    add_step(plan, HRF_STEP_KERNEL, n, part);
    plan->steps[plan->n_steps - 1].box = box;
    plan->copy_bytes = n_bytes > plan->copy_bytes ? n_bytes : plan->copy_bytes;
}

static void add_steps(struct hrf_plan *plan, const struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (!is_overlapped(plan, graph, n)) {
            add_step(plan, HRF_STEP_KERNEL, n, HRF_PART_WHOLE);
            continue;
        }
        add_step(plan, HRF_STEP_BEGIN, n, HRF_PART_WHOLE);
        add_part(plan, graph, n + 1, HRF_PART_INTERIOR);
        add_step(plan, HRF_STEP_END, n, HRF_PART_WHOLE);
        n++;
        for (enum hrf_part edge = HRF_PART_FIRST; edge < HRF_N_PARTS; edge++)
            add_part(plan, graph, n, edge);
    }
}

bool hrf_plan_is_as_before(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i)
{
    const struct hrf_step *step = &plan->steps[i], *before = &plan->steps[i > 0 ? i - 1 : 0];
    return (step->part == HRF_PART_LAST || step->part == HRF_PART_RIGHT) &&
           before->node == step->node && before->part == step->part - 1 &&
           hrf_part_are_alike(graph, &graph->nodes[step->node], &before->box, &step->box);
}

enum hrf_status hrf_plan_create(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                                struct hrf_plan **out, struct hrf_error *err)
{
    HRF_TRY(check_shapes(graph, err));
    size_t n_values = (size_t)graph->n_values;
    HRF_AUTO(hrf_plan) plan = hrf_calloc(1, sizeof *plan);
    HRF_AUTO_FREE struct life *lives = hrf_alloc_array(n_values, sizeof *lives);
    plan->steps = hrf_calloc(HRF_PLAN_NODE_STEPS * (size_t)graph->n_nodes, sizeof plan->steps[0]);
    plan->buffer_of = hrf_alloc_array(n_values, sizeof plan->buffer_of[0]);
    plan->offset_in_buffer = hrf_calloc(n_values, sizeof plan->offset_in_buffer[0]);
    plan->buffers = hrf_calloc(n_values, sizeof plan->buffers[0]);
    plan->n_uses = hrf_calloc(n_values, sizeof plan->n_uses[0]);
    plan->map = map;
    plan->n_values = graph->n_values;
    hrf_graph_count_all_uses(graph, plan->n_uses);
    add_steps(plan, graph);
    for (size_t v = 0; v < n_values; v++)
        plan->buffer_of[v] = HRF_NO_BUFFER;
    find_lives(graph, lives);
    find_guests(graph, map, lives);
    find_views(graph, map, lives);
    find_joins(graph, lives);
    assign_buffers(plan, graph, lives);
    place_clear_of_inputs(plan, graph);
    for (int32_t i = 0; i < plan->n_steps; i++)
        hrf_transfers_add(plan, graph, i);
    HRF_MOVE(*out, plan);
    return HRF_OK;
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
        if (hrf_graph_is_variable(graph, second->inputs[k]))
            *(second->inputs[k] == made ? &n_reads : &n_others) += 1;
    const int32_t residual = hrf_node_residual(second);
    const bool may_add = n_reads == 1 && n_others == 1 && hrf_graph_is_variable(graph, residual);
    const bool adds = may_add && residual == made && second->op == HRF_OP_CONV &&
                      hrf_plan_offset(plan, made) == hrf_plan_offset(plan, second->outputs[0]);
    const bool has_residual = may_add && second->inputs[HRF_CONV_X] == made;
    *out = (struct hrf_fused_pair){ .is_residual = adds,
                                    .reads_residual = has_residual,
                                    .is_sole_reader = plan->n_uses[made] == 1 };
    for (int32_t k = 0; k < first->n_inputs; k++)
        out->overlaps |= hrf_graph_is_variable(graph, first->inputs[k]) &&
                         hrf_plan_overlap(plan, graph, first->inputs[k], second->outputs[0]);
    return adds || has_residual || (n_reads > 0 && n_others == 0);
}

/* The size of what step i makes for the next one. */
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
