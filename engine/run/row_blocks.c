/* row_blocks.c - passes over a bag, block by block (row_blocks.h). */
#include "engine/run/row_blocks.h"

#include "base/host.h"
#include "base/min_max.h"
#include "engine/run/row_rules.h"
#include "engine/run/session.h"

#include <math.h>
#include <string.h>

/* A part of the network: from the bag and the joints that are known to some values. */
struct part {
    struct hrf_session *session;
    int64_t n_rows;
    int32_t *inputs, n_inputs;   /* values of the network; the bag is the graph's own input */
    int32_t *outputs, n_outputs; /* the same */
};

/* A softmax over all rows so far, and what the blocks before and the next count in it. */
struct running_softmax {
    double *max, *sum;             /* [n_branches]; the sum of exp(x - max) */
    double *old_share, *new_share; /* factors of what was joined, and of this block's average */
};
struct running_joint {
    double *sums; /* [count], or SELECT_MAX's greatest scores */
    float *data;  /* [count] */
    int64_t count;
};
/* A graph output with a row for each of the bag's. */
struct row_output {
    float *data;
    struct hrf_row_layout layout;  /* of a value of one row */
    double *block_max, *block_sum; /* [n blocks][n_branches]: linear in the weights of a softmax */
};

struct hrf_row_blocks {
    const struct hrf_graph *graph;
    struct hrf_row_rules *rules;
    int64_t n_block, width;
    struct running_softmax *softmaxes;
    struct running_joint *joints;
    struct row_output *outputs;            /* [n_outputs] */
    struct part *block_parts, *rest_parts; /* [n_passes]: for n_block rows, and for the last ones */
    struct part last;                      /* from all joints to the outputs that are not of rows */
    int64_t n;                             /* rows of the bag */
};

/* ---- parts of the network ---- */

static void part_release(struct part *p)
{
    hrf_session_destroy(p->session);
    hrf_free(p->inputs);
    hrf_free(p->outputs);
    *p = (struct part){ .session = NULL };
}

static bool is_known(const struct hrf_row_rules *r, int32_t value, int32_t level)
{
    return r->values[value].joint >= 0 && r->values[value].level <= level;
}

static void add_once(int32_t *list, int32_t *n, int32_t value)
{
    for (int32_t i = 0; i < *n; i++)
        if (list[i] == value)
            return;
    list[(*n)++] = value;
}

/* Lists what a pass has to compute: joints of the next level, outputs that have rows, and the
 * values by which their blocks are joined. After the last pass: the remaining outputs. */
static void list_outputs(const struct hrf_row_blocks *b, int32_t level, struct part *p)
{
    const struct hrf_row_rules *r = b->rules;
    p->outputs = hrf_alloc_array((size_t)(2 * (r->n_joints + b->graph->n_outputs)) + 1,
                                 sizeof *p->outputs);
    for (int32_t i = 0; i < r->n_joints && level < r->n_passes; i++) {
        const struct hrf_row_joint *j = &r->joints[i];
        if (r->values[j->value].level != level + 1)
            continue;
        add_once(p->outputs, &p->n_outputs, j->value);
        if (j->how == HRF_JOIN_SOFTMAX)
            add_once(p->outputs, &p->n_outputs, r->softmaxes[j->softmax].input);
        else if (j->how == HRF_JOIN_SELECT_MAX)
            add_once(p->outputs, &p->n_outputs, j->scores);
    }
    for (int32_t i = 0; i < b->graph->n_outputs; i++) {
        const int32_t value = b->graph->outputs[i];
        const struct hrf_row_value *v = &r->values[value];
        const bool has_rows = v->axis >= 0;
        if ((has_rows && v->level == level) || (!has_rows && level == r->n_passes && v->joint < 0))
            add_once(p->outputs, &p->n_outputs, value);
        if (has_rows && v->level == level && v->softmax >= 0)
            add_once(p->outputs, &p->n_outputs, r->softmaxes[v->softmax].input);
    }
}

/* Marks the nodes and values that the outputs are made of, from what is known on. */
static void mark(const struct hrf_row_blocks *b, int32_t level, const struct part *p, bool *is_used)
{
    const struct hrf_graph *g = b->graph;
    for (int32_t i = 0; i < p->n_outputs; i++)
        is_used[p->outputs[i]] = true;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const struct hrf_node *node = &g->nodes[i];
        if (!is_used[node->outputs[0]] || is_known(b->rules, node->outputs[0], level))
            continue;
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0)
                is_used[node->inputs[k]] = true;
    }
}

struct cutting {
    struct hrf_graph *to;
    int32_t *map; /* values of the network -> of `to` */
};

static enum hrf_status cut_node(const struct hrf_graph *g, const struct hrf_node *node,
                                struct cutting *c, struct hrf_error *err)
{
    const struct hrf_shape unknown = { .rank = -1 };
    const struct hrf_value *y = &g->values[node->outputs[0]];
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const int32_t x = node->inputs[k];
        if (x >= 0 && c->map[x] < 0)
            HRF_TRY(
                hrf_graph_share_value(c->to, &g->values[x], g->values[x].name, &c->map[x], err));
        inputs[k] = x >= 0 ? c->map[x] : HRF_NO_VALUE;
    }
    int32_t *out = &c->map[node->outputs[0]];
    HRF_TRY(hrf_graph_add_value(c->to, y->name, y->dtype, &unknown, NULL, out, err));
    return hrf_graph_add_node(c->to, node->op, node->name, inputs, node->n_inputs, out, 1,
                              &node->attributes, err);
}

/* The network between what is known at a level and the outputs of the part. */
static enum hrf_status cut(const struct hrf_row_blocks *b, int32_t level, struct part *p,
                           struct hrf_graph **out, struct hrf_error *err)
{
    const struct hrf_graph *g = b->graph;
    HRF_AUTO(hrf_graph) to = NULL;
    HRF_AUTO_FREE bool *is_used = hrf_calloc((size_t)g->n_values + 1, sizeof *is_used);
    HRF_AUTO_FREE int32_t *map = hrf_alloc_array((size_t)g->n_values + 1, sizeof *map);
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)b->rules->n_joints + 1, sizeof *inputs);
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array((size_t)p->n_outputs + 1, sizeof *outputs);
    HRF_TRY(hrf_graph_create(g->name, &to, err));
    struct cutting c = { to, map };
    to->bounds = g->bounds;
    mark(b, level, p, is_used);
    p->inputs = hrf_alloc_array((size_t)b->rules->n_joints + 1, sizeof *p->inputs);
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct hrf_value *v = &b->rules->probe->values[i];
        map[i] = -1;
        if (!is_used[i] || (i != g->inputs[0] && !is_known(b->rules, i, level)))
            continue;
        struct hrf_shape shape = v->shape;
        if (i == g->inputs[0])
            shape.dims[b->rules->values[i].axis] = p->n_rows;
        HRF_TRY(hrf_graph_add_value(to, v->name, v->dtype, &shape, NULL, &map[i], err));
        inputs[p->n_inputs] = map[i];
        p->inputs[p->n_inputs++] = i;
    }
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (is_used[g->nodes[i].outputs[0]] && map[g->nodes[i].outputs[0]] < 0)
            HRF_TRY(cut_node(g, &g->nodes[i], &c, err));
    for (int32_t i = 0; i < p->n_outputs; i++)
        outputs[i] = map[p->outputs[i]];
    HRF_TRY(hrf_graph_set_io(to, inputs, p->n_inputs, outputs, p->n_outputs, err));
    HRF_MOVE(*out, to);
    return HRF_OK;
}

static enum hrf_status make_part(const struct hrf_row_blocks *b, int32_t level, int64_t n_rows,
                                 int64_t n_threads, struct part *p, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    if (p->session != NULL && p->n_rows == n_rows)
        return HRF_OK;
    part_release(p);
    p->n_rows = n_rows;
    list_outputs(b, level, p);
    if (p->n_outputs == 0)
        return HRF_OK;
    HRF_TRY(cut(b, level, p, &graph, err));
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .memory_limit_bytes = hrf_process_memory_left(),
                                               .n_threads = (int32_t)n_threads };
    const enum hrf_status status = hrf_session_create(graph, &config, &p->session, err);
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, status,
                             "a slide head on a block of %lld embeddings of %lld numbers takes "
                             "more than the %.2f GiB of memory that are left: run it where there "
                             "is more",
                             (long long)n_rows, (long long)b->width,
                             (double)config.memory_limit_bytes / 0x1p30);
    return status;
}

static const float *output_of(const struct part *p, int32_t value)
{
    int32_t i = 0;
    while (p->outputs[i] != value)
        i++;
    return hrf_session_output(p->session, i);
}

/* ---- joining ---- */

static const struct hrf_shape *shape_of(const struct hrf_row_blocks *b, int32_t value)
{
    return &b->rules->probe->values[value].shape;
}

/* The greatest number and the sum of exponentials of each branch, in a block of n rows. */
static void reduce_block(const struct hrf_row_blocks *b, const struct part *p, int32_t softmax,
                         int64_t n, double *max, double *sum)
{
    const int32_t input = b->rules->softmaxes[softmax].input;
    const struct hrf_row_layout l = hrf_row_layout_of(shape_of(b, input),
                                                      b->rules->values[input].axis);
    const float *x = output_of(p, input);
    for (int64_t k = 0; k < l.outer * l.inner; k++) {
        const float *first = x + k / l.inner * n * l.inner + k % l.inner;
        max[k] = -INFINITY;
        sum[k] = 0;
        for (int64_t i = 0; i < n; i++)
            max[k] = fmax(max[k], (double)first[i * l.inner]);
        for (int64_t i = 0; i < n && max[k] > -INFINITY; i++)
            sum[k] += exp((double)first[i * l.inner] - max[k]);
    }
}

static void add_to_softmax(const struct hrf_row_blocks *b, const struct part *p, int32_t softmax,
                           int64_t n)
{
    const int64_t n_branches = b->rules->softmaxes[softmax].n_branches;
    struct running_softmax *s = &b->softmaxes[softmax];
    reduce_block(b, p, softmax, n, s->old_share, s->new_share);
    for (int64_t k = 0; k < n_branches; k++) {
        const double block_max = s->old_share[k], block_sum = s->new_share[k];
        const double max = fmax(s->max[k], block_max);
        s->old_share[k] = s->sum[k] > 0 ? exp(s->max[k] - max) : 0;
        s->new_share[k] = block_sum > 0 ? block_sum * exp(block_max - max) : block_sum;
        s->max[k] = max;
        s->sum[k] = s->sum[k] * s->old_share[k] + s->new_share[k];
    }
}

/* A NaN is greater than any number. */
static bool is_greater(double a, double b)
{
    return a > b || (isnan(a) && !isnan(b));
}

static void select_rows(const struct hrf_row_blocks *b, const struct hrf_row_joint *j,
                        const struct part *p, int64_t n, bool is_first, struct running_joint *to)
{
    const int64_t n_columns = shape_of(b, j->scores)->dims[1], width = to->count / n_columns;
    const float *scores = output_of(p, j->scores), *rows = output_of(p, j->value);
    for (int64_t c = 0; c < n_columns; c++) {
        double best = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            best = is_greater((double)scores[i * n_columns + c], best)
                       ? (double)scores[i * n_columns + c]
                       : best;
        if (is_first || is_greater(best, to->sums[c])) {
            to->sums[c] = best;
            memcpy(to->data + c * width, rows + c * width, (size_t)width * sizeof *rows);
        }
    }
}

static double join_numbers(enum hrf_joining how, double sum, double x, int64_t n)
{
    switch (how) {
    case HRF_JOIN_MEAN:
        return sum + x * (double)n;
    case HRF_JOIN_MAX:
        return is_greater(x, sum) ? x : sum;
    case HRF_JOIN_MIN:
        return is_greater(-x, -sum) ? x : sum;
    case HRF_JOIN_LOG_SUM_EXP: {
        const double max = fmax(x, sum);
        return max > -INFINITY ? max + log(exp(x - max) + exp(sum - max)) : max;
    }
    default:
        return sum + x;
    }
}

static void add_to_joint(const struct hrf_row_blocks *b, int32_t joint, const struct part *p,
                         int64_t n, bool is_first)
{
    const struct hrf_row_joint *j = &b->rules->joints[joint];
    struct running_joint *to = &b->joints[joint];
    const float *x = output_of(p, j->value);
    if (j->how == HRF_JOIN_SELECT_MAX) {
        select_rows(b, j, p, n, is_first, to);
        return;
    }
    if (j->how != HRF_JOIN_SOFTMAX) {
        for (int64_t i = 0; i < to->count; i++)
            to->sums[i] = join_numbers(j->how, to->sums[i], (double)x[i], n);
        return;
    }
    const struct running_softmax *s = &b->softmaxes[j->softmax];
    const int32_t branch = b->rules->values[j->value].branch;
    const struct hrf_row_layout l = hrf_row_layout_of(shape_of(b, j->value), branch);
    for (int64_t i = 0; i < to->count; i++) {
        const int64_t k = branch >= 0 ? i / l.inner % l.size : 0;
        to->sums[i] *= s->old_share[k];
        if (s->new_share[k] != 0) /* else its weights are 0 / 0 */
            to->sums[i] += (double)x[i] * s->new_share[k];
    }
}

static void finish_joint(const struct hrf_row_blocks *b, int32_t joint)
{
    const struct hrf_row_joint *j = &b->rules->joints[joint];
    struct running_joint *to = &b->joints[joint];
    const int32_t branch = b->rules->values[j->value].branch;
    const struct hrf_row_layout l = hrf_row_layout_of(shape_of(b, j->value), branch);
    if (j->how == HRF_JOIN_SELECT_MAX)
        return;
    for (int64_t i = 0; i < to->count; i++) {
        double x = to->sums[i];
        if (j->how == HRF_JOIN_MEAN)
            x /= (double)b->n;
        else if (j->how == HRF_JOIN_SOFTMAX)
            x /= b->softmaxes[j->softmax].sum[branch >= 0 ? i / l.inner % l.size : 0];
        to->data[i] = (float)x;
    }
}

/* ---- outputs of rows ---- */

static void copy_rows(const struct hrf_row_blocks *b, int32_t i, const struct part *p,
                      int64_t first, int64_t n)
{
    struct row_output *to = &b->outputs[i];
    const int64_t inner = to->layout.inner;
    const float *x = output_of(p, b->graph->outputs[i]);
    const int32_t softmax = b->rules->values[b->graph->outputs[i]].softmax;
    for (int64_t o = 0; o < to->layout.outer; o++)
        memcpy(to->data + (o * b->n + first) * inner, x + o * n * inner,
               (size_t)(n * inner) * sizeof *x);
    if (softmax < 0)
        return;
    const int64_t at = first / b->n_block * b->rules->softmaxes[softmax].n_branches;
    reduce_block(b, p, softmax, n, to->block_max + at, to->block_sum + at);
}

/* Weights within each block become weights within the bag. */
static void finish_rows(const struct hrf_row_blocks *b, int32_t i)
{
    struct row_output *to = &b->outputs[i];
    const struct hrf_row_value *v = &b->rules->values[b->graph->outputs[i]];
    if (v->softmax < 0)
        return;
    const int64_t n_branches = b->rules->softmaxes[v->softmax].n_branches;
    const int64_t n_blocks = (b->n + b->n_block - 1) / b->n_block;
    const struct hrf_shape *shape = shape_of(b, b->graph->outputs[i]);
    struct hrf_row_layout l = { 1, 1, 1 };
    if (v->branch >= 0)
        l = hrf_row_layout_of(shape, v->branch);
    for (int64_t k = 0; k < n_branches; k++) {
        double max = -INFINITY, sum = 0;
        for (int64_t at = k; at < n_blocks * n_branches; at += n_branches)
            max = fmax(max, to->block_max[at]);
        for (int64_t at = k; at < n_blocks * n_branches; at += n_branches)
            sum += to->block_sum[at] > 0 ? to->block_sum[at] * exp(to->block_max[at] - max)
                                         : to->block_sum[at];
        for (int64_t at = k; at < n_blocks * n_branches; at += n_branches)
            to->block_sum[at] *= to->block_sum[at] > 0 ? exp(to->block_max[at] - max) / sum : 1;
    }
    const int64_t inner = to->layout.inner;
    /* A branch before the axis of rows is an index into `outer`, otherwise into `inner`. */
    const bool is_before = v->branch < v->axis;
    const int64_t between = is_before ? l.inner / hrf_max(1, shape->dims[v->axis] * inner)
                                      : l.inner;
    for (int64_t at = 0; at < to->layout.outer * b->n * inner; at++) {
        const int64_t row = at / inner % b->n, block = row / b->n_block;
        const int64_t k = v->branch < 0 ? 0
                          : is_before   ? at / inner / b->n / between % l.size
                                        : at % inner / between % l.size;
        to->data[at] = (float)((double)to->data[at] * to->block_sum[block * n_branches + k]);
    }
}

/* ---- a bag ---- */

static enum hrf_status take_memory(struct hrf_row_blocks *b, struct hrf_error *err)
{
    const size_t n_blocks = (size_t)((b->n + b->n_block - 1) / b->n_block);
    for (int32_t i = 0; i < b->graph->n_outputs; i++) {
        const int32_t value = b->graph->outputs[i];
        const struct hrf_row_value *v = &b->rules->values[value];
        struct row_output *to = &b->outputs[i];
        if (v->axis < 0)
            continue;
        const size_t n_branches = v->softmax >= 0
                                      ? (size_t)b->rules->softmaxes[v->softmax].n_branches
                                      : 0;
        hrf_free(to->data);
        hrf_free(to->block_max);
        hrf_free(to->block_sum);
        to->layout = hrf_row_layout_of(shape_of(b, value), v->axis);
        const size_t per_row = (size_t)(to->layout.outer * to->layout.inner);
        to->data = hrf_try_alloc_array((size_t)b->n, per_row * sizeof *to->data);
        to->block_max = hrf_alloc_array(n_blocks * n_branches + 1, sizeof *to->block_max);
        to->block_sum = hrf_alloc_array(n_blocks * n_branches + 1, sizeof *to->block_sum);
        HRF_CHECK_MEMORY(to->data != NULL, err,
                         "no memory for %lld rows of %zu numbers of output %s", (long long)b->n,
                         per_row, b->graph->values[value].name);
    }
    return HRF_OK;
}

static void reset(struct hrf_row_blocks *b)
{
    for (int32_t i = 0; i < b->rules->n_softmaxes; i++)
        for (int64_t k = 0; k < b->rules->softmaxes[i].n_branches; k++) {
            b->softmaxes[i].max[k] = -INFINITY;
            b->softmaxes[i].sum[k] = 0;
        }
}

static void reset_joint(const struct hrf_row_blocks *b, int32_t joint)
{
    const enum hrf_joining how = b->rules->joints[joint].how;
    struct running_joint *to = &b->joints[joint];
    for (int64_t i = 0; i < to->count; i++)
        to->sums[i] = how == HRF_JOIN_MIN ? INFINITY
                      : how == HRF_JOIN_MAX || how == HRF_JOIN_SELECT_MAX ||
                              how == HRF_JOIN_LOG_SUM_EXP
                          ? -INFINITY
                          : 0;
}

static enum hrf_status run_part(const struct hrf_row_blocks *b, const struct part *p,
                                const struct hrf_bag_rows *bag, int64_t first,
                                struct hrf_error *err)
{
    for (int32_t i = 0; i < p->n_inputs; i++) {
        float *x = hrf_session_input(p->session, i);
        const struct running_joint *known = p->inputs[i] == b->graph->inputs[0]
                                                ? NULL
                                                : &b->joints[b->rules->values[p->inputs[i]].joint];
        if (known == NULL)
            HRF_TRY(bag->read(bag->context, first, p->n_rows, x, err));
        else
            memcpy(x, known->data, (size_t)known->count * sizeof *x);
    }
    return hrf_session_run(p->session, err);
}

/* The softmaxes that joints of this pass are weighted by. */
static bool is_weight(const struct hrf_row_rules *r, int32_t softmax, int32_t level)
{
    for (int32_t i = 0; i < r->n_joints; i++)
        if (r->joints[i].how == HRF_JOIN_SOFTMAX && r->joints[i].softmax == softmax &&
            r->values[r->joints[i].value].level == level + 1)
            return true;
    return false;
}

static bool has_rows_at(const struct hrf_row_blocks *b, int32_t output, int32_t level)
{
    const struct hrf_row_value *v = &b->rules->values[b->graph->outputs[output]];
    return v->axis >= 0 && v->level == level;
}

static enum hrf_status run_pass(struct hrf_row_blocks *b, int32_t level,
                                const struct hrf_bag_rows *bag, int64_t n_threads,
                                struct hrf_error *err)
{
    const struct hrf_row_rules *r = b->rules;
    reset(b);
    for (int32_t i = 0; i < r->n_joints; i++)
        if (r->values[r->joints[i].value].level == level + 1)
            reset_joint(b, i);
    for (int64_t first = 0; first < b->n; first += b->n_block) {
        const int64_t n = hrf_min(b->n_block, b->n - first);
        struct part *p = n == b->n_block ? &b->block_parts[level] : &b->rest_parts[level];
        HRF_TRY(make_part(b, level, n, n_threads, p, err));
        HRF_TRY(run_part(b, p, bag, first, err));
        for (int32_t i = 0; i < r->n_softmaxes; i++)
            if (is_weight(r, i, level))
                add_to_softmax(b, p, i, n);
        for (int32_t i = 0; i < r->n_joints; i++)
            if (r->values[r->joints[i].value].level == level + 1)
                add_to_joint(b, i, p, n, first == 0);
        for (int32_t i = 0; i < b->graph->n_outputs; i++)
            if (has_rows_at(b, i, level))
                copy_rows(b, i, p, first, n);
    }
    for (int32_t i = 0; i < r->n_joints; i++)
        if (r->values[r->joints[i].value].level == level + 1)
            finish_joint(b, i);
    for (int32_t i = 0; i < b->graph->n_outputs; i++)
        if (has_rows_at(b, i, level))
            finish_rows(b, i);
    return HRF_OK;
}

enum hrf_status hrf_row_blocks_run(struct hrf_row_blocks *b, const struct hrf_bag_rows *bag,
                                   int64_t n_threads, struct hrf_error *err)
{
    b->n = bag->n;
    HRF_TRY(take_memory(b, err));
    for (int32_t level = 0; level < b->rules->n_passes; level++)
        HRF_TRY(run_pass(b, level, bag, n_threads, err));
    HRF_TRY(make_part(b, b->rules->n_passes, 0, n_threads, &b->last, err));
    return b->last.session != NULL ? run_part(b, &b->last, bag, 0, err) : HRF_OK;
}

const float *hrf_row_blocks_output(const struct hrf_row_blocks *b, int32_t i, int64_t *count)
{
    const int32_t value = b->graph->outputs[i], joint = b->rules->values[value].joint;
    const struct row_output *rows = &b->outputs[i];
    *count = b->rules->values[value].axis >= 0 ? rows->layout.outer * b->n * rows->layout.inner
                                               : hrf_shape_count(shape_of(b, value));
    return rows->data != NULL ? rows->data
           : joint >= 0       ? b->joints[joint].data
                              : output_of(&b->last, value);
}

/* ---- life ---- */

void hrf_row_blocks_destroy(struct hrf_row_blocks *b)
{
    if (b == NULL)
        return;
    for (int32_t i = 0; b->softmaxes != NULL && i < b->rules->n_softmaxes; i++)
        hrf_free(b->softmaxes[i].max); /* all four */
    for (int32_t i = 0; b->joints != NULL && i < b->rules->n_joints; i++) {
        hrf_free(b->joints[i].sums);
        hrf_free(b->joints[i].data);
    }
    for (int32_t i = 0; b->outputs != NULL && i < b->graph->n_outputs; i++) {
        hrf_free(b->outputs[i].data);
        hrf_free(b->outputs[i].block_max);
        hrf_free(b->outputs[i].block_sum);
    }
    for (int32_t i = 0; b->block_parts != NULL && i < b->rules->n_passes; i++) {
        part_release(&b->block_parts[i]);
        part_release(&b->rest_parts[i]);
    }
    part_release(&b->last);
    hrf_free(b->softmaxes);
    hrf_free(b->joints);
    hrf_free(b->outputs);
    hrf_free(b->block_parts);
    hrf_free(b->rest_parts);
    hrf_row_rules_destroy(b->rules);
    hrf_free(b);
}

enum hrf_status hrf_row_blocks_create(const struct hrf_graph *graph, int64_t width, int64_t n_block,
                                      struct hrf_row_blocks **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_row_blocks) b = hrf_calloc(1, sizeof *b);
    b->graph = graph;
    b->width = width;
    b->n_block = n_block;
    HRF_TRY(hrf_row_rules_create(graph, width, &b->rules, err));
    const struct hrf_row_rules *r = b->rules;
    if (r->why_not[0] != '\0')
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "%s", r->why_not);
    b->softmaxes = hrf_calloc((size_t)r->n_softmaxes + 1, sizeof *b->softmaxes);
    b->joints = hrf_calloc((size_t)r->n_joints + 1, sizeof *b->joints);
    b->outputs = hrf_calloc((size_t)graph->n_outputs + 1, sizeof *b->outputs);
    b->block_parts = hrf_calloc((size_t)r->n_passes + 1, sizeof *b->block_parts);
    b->rest_parts = hrf_calloc((size_t)r->n_passes + 1, sizeof *b->rest_parts);
    for (int32_t i = 0; i < r->n_softmaxes; i++) {
        const size_t n = (size_t)r->softmaxes[i].n_branches;
        struct running_softmax *s = &b->softmaxes[i];
        s->max = hrf_alloc_array(n, 4 * sizeof *s->max);
        s->sum = s->max + n;
        s->old_share = s->sum + n;
        s->new_share = s->old_share + n;
    }
    for (int32_t i = 0; i < r->n_joints; i++) {
        struct running_joint *to = &b->joints[i];
        to->count = hrf_shape_count(shape_of(b, r->joints[i].value));
        to->sums = hrf_alloc_array((size_t)to->count + 1, sizeof *to->sums);
        to->data = hrf_calloc((size_t)to->count + 1, sizeof *to->data);
    }
    HRF_MOVE(*out, b);
    return HRF_OK;
}
