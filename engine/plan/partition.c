/* partition.c - makes a partition: which rank computes which boxes, the exchanges and reductions
 * for them, and what can be computed during one (partition.h). */
#include "engine/plan/partition.h"

#include "engine/ir/op.h"
#include "engine/plan/line_cache.h"
#include "engine/plan/parts.h"
#include "engine/plan/region_rows.h"
#include "engine/plan/region_tokens.h"
#include "engine/plan/tensor_parallel.h"

#include <stdlib.h>
#include <string.h>

static int32_t owner_of(const struct hrf_partition *p, int32_t value)
{
    const int32_t n = p->graph->values[value].producer;
    return n >= 0 ? p->graph->nodes[n].owner : -1;
}

bool hrf_partition_gives(const struct hrf_partition *p, int32_t value, int32_t rank)
{
    const int32_t owner = owner_of(p, value);
    return rank % p->layout.tensor == (owner >= 0 ? owner : 0);
}

/* ---- exchanges, seen from a rank ---- */

bool hrf_exchange_takes(const struct hrf_exchange *x, int32_t rank)
{
    return !hrf_box_is_empty(&x->need[rank]) && !hrf_box_equal(&x->need[rank], &x->local[rank]);
}

struct hrf_box hrf_exchange_sent(const struct hrf_exchange *x, int32_t from, int32_t to)
{
    const struct hrf_box nothing = { .lo = { 0 } };
    if (from == to || hrf_box_is_empty(&x->have[from]) || hrf_box_is_empty(&x->need[to]))
        return nothing;
    const struct hrf_box part = hrf_box_intersect(&x->have[from], &x->need[to]);
    return hrf_box_is_empty(&part) || hrf_box_contains(&x->local[to], &part) ? nothing : part;
}

int64_t hrf_exchange_bytes(const struct hrf_exchange *x, const struct hrf_box *box)
{
    if (hrf_box_is_empty(box))
        return 0;
    return x->n_images * (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * x->channels *
           (int64_t)x->element_bytes;
}

int64_t hrf_exchange_offset(const struct hrf_exchange *x, const struct hrf_box *outer,
                            const struct hrf_box *inner)
{
    if (x->n_images != 1 || x->channels != x->all_channels || hrf_box_is_empty(inner) ||
        !hrf_box_contains(outer, inner) || inner->lo[1] != outer->lo[1] ||
        inner->hi[1] != outer->hi[1])
        return -1;
    return (inner->lo[0] - outer->lo[0]) * (inner->hi[1] - inner->lo[1]) * x->channels *
           (int64_t)x->element_bytes;
}

/* ---- what can be computed during an exchange ---- */

/* True if the node's window is the first reader of what exchange `e` brings. */
static bool is_first_reader(const struct hrf_partition *p, int32_t n, int32_t e)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    for (int32_t i = 0; i < p->first_feed[n]; i++)
        if (p->feeds[i] == e)
            return false;
    for (int32_t k = 1; k < node->n_inputs; k++)
        if (p->feeds[p->first_feed[n] + k] == e || node->inputs[k] == node->inputs[0])
            return false;
    return true;
}

/* Finds the first range of rows (axis 0) or columns (axis 1) of `box` that needs only what lies in
 * `own`; if there is none, the range is empty at the end. */
static void find_own(const struct hrf_partition *p, const struct hrf_node *node, int axis,
                     const struct hrf_box *own, const struct hrf_box *box, struct hrf_box *out)
{
    out->lo[axis] = out->hi[axis] = box->hi[axis];
    for (int64_t i = box->lo[axis]; i < box->hi[axis]; i++) {
        struct hrf_box line = *box;
        line.lo[axis] = i;
        line.hi[axis] = i + 1;
        const struct hrf_box need = hrf_region_needed(p->graph, node, 0, &line);
        const bool is_own = need.lo[axis] < need.hi[axis] && own->lo[axis] <= need.lo[axis] &&
                            need.hi[axis] <= own->hi[axis];
        if (is_own && out->lo[axis] == box->hi[axis])
            out->lo[axis] = i;
        if (!is_own && out->lo[axis] < box->hi[axis]) {
            out->hi[axis] = i;
            return;
        }
    }
}

bool hrf_partition_interior(const struct hrf_partition *p, int32_t n, int32_t rank,
                            struct hrf_box *interior)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    const struct hrf_box *box = hrf_partition_box(p, node->outputs[0], rank);
    const int32_t e = p->feeds[p->first_feed[n]];
    if (!hrf_region_is_window(node) || e == HRF_NO_EXCHANGE || hrf_box_is_empty(box) ||
        !is_first_reader(p, n, e))
        return false;
    const struct hrf_exchange *x = &p->exchanges[e];
    if (!hrf_exchange_takes(x, rank) || hrf_box_is_empty(&x->local[rank]))
        return false;
    for (int axis = 0; axis < 2; axis++)
        find_own(p, node, axis, &x->local[rank], box, interior);
    if (hrf_box_is_empty(interior) || hrf_box_equal(interior, box))
        return false;
    for (enum hrf_part part = HRF_PART_INTERIOR; part < HRF_N_PARTS; part++) {
        const struct hrf_box of = hrf_part_box(box, interior, part);
        int64_t n_padding[2];
        if (hrf_region_padding(p->graph, node, &of, n_padding))
            return false; /* a window that reads padding alone becomes a node of its own */
    }
    return true;
}

void hrf_partition_destroy(struct hrf_partition *p)
{
    if (p == NULL)
        return;
    for (int32_t i = 0; i < p->n_exchanges; i++)
        hrf_free(p->exchanges[i].have); /* one block with local and need */
    for (int32_t i = 0; i < p->n_reduces; i++)
        hrf_free(p->reduces[i].gives);
    for (int32_t i = 0; i < p->n_cached; i++)
        hrf_free(p->cached[i].lo);
    for (int32_t n = 0; n < p->n_nodes && p->rings != NULL; n++)
        hrf_free(p->rings[n].feeds);
    hrf_free(p->rings);
    hrf_free(p->cached);
    hrf_free(p->fronts);
    hrf_free(p->stage_of_node);
    hrf_free(p->is_split);
    hrf_free(p->is_recomputed);
    hrf_free(p->is_reduced);
    hrf_free(p->is_overlapped);
    hrf_free(p->owners);
    hrf_free(p->output_ranks);
    hrf_free(p->boxes);
    hrf_free(p->exchanges);
    hrf_free(p->reduces);
    hrf_free(p->first_feed);
    hrf_free(p->feeds);
    hrf_free(p->reduce_of);
    hrf_free(p->output_feeds);
    hrf_free(p);
}

static int32_t stage_ranks(const struct hrf_partition *p)
{
    return hrf_layout_stage_ranks(&p->layout);
}

/* The number of the part of an image that the rank has. */
static int32_t image_part(const struct hrf_partition *p, int32_t rank)
{
    return rank % stage_ranks(p) / p->layout.tensor;
}

/* A rank's own part of a sequence. Ranks of a sequence form no grid. */
static struct hrf_box share_of_tokens(const struct hrf_partition *p, int32_t value, int32_t rank)
{
    const int64_t grain = hrf_tokens_grain(p->graph, value);
    const int64_t n = p->graph->values[value].shape.dims[1] / grain;
    const int64_t at = image_part(p, rank), n_parts = hrf_layout_image_parts(&p->layout);
    return (struct hrf_box){ { n * at / n_parts * grain, 0 },
                             { n * (at + 1) / n_parts * grain, 1 } };
}

/* A rank's own part of an image; all parts are as equal as possible. */
static struct hrf_box share(const struct hrf_partition *p, int32_t value, int32_t rank)
{
    const struct hrf_shape *shape = &p->graph->values[value].shape;
    if (shape->rank == 3)
        return share_of_tokens(p, value, rank);
    const int32_t part = image_part(p, rank);
    const int64_t at[2] = { part / p->layout.columns, part % p->layout.columns };
    const int64_t n[2] = { p->layout.rows, p->layout.columns };
    struct hrf_box box;
    for (int i = 0; i < 2; i++) {
        box.lo[i] = shape->dims[2 + i] * at[i] / n[i];
        box.hi[i] = shape->dims[2 + i] * (at[i] + 1) / n[i];
    }
    return box;
}

/* ---- stages and splits ---- */

static enum hrf_status cut_stages(struct hrf_partition *p,
                                  const struct hrf_partition_options *options,
                                  struct hrf_error *err)
{
    const struct hrf_graph *graph = p->graph;
    const struct hrf_stage_costs *costs = options->costs;
    if (options->stage_of_node != NULL) {
        memcpy(p->stage_of_node, options->stage_of_node,
               (size_t)graph->n_nodes * sizeof *p->stage_of_node);
        return HRF_OK;
    }
    HRF_AUTO_FREE double *seconds = hrf_calloc((size_t)graph->n_nodes + 1, sizeof *seconds);
    const struct hrf_stage_costs rough = { .seconds = seconds,
                                           .seconds_per_byte = HRF_STAGES_ROUGH_SECONDS_PER_BYTE };
    for (int32_t n = 0; n < graph->n_nodes; n++)
        seconds[n] = hrf_stages_rough_seconds(graph, &graph->nodes[n]) /
                     (graph->nodes[n].owner >= 0 ? p->layout.tensor : 1);
    HRF_TRY(hrf_stages_cut(graph, costs != NULL ? costs : &rough, p->layout.stages,
                           p->stage_of_node, err));
    hrf_tensor_keep_together(graph, p->stage_of_node);
    return HRF_OK;
}

/* True if bands, which run one after the other, keep rows of the value rather than compute them
 * again. */
static bool is_kept(const struct hrf_partition *p, int32_t value)
{
    return p->fronts != NULL && p->is_split[value] && !p->is_recomputed[value];
}

/* Bands are rows of images. An image that is made of tokens is divided by its rows alone. */
static bool can_split(const struct hrf_partition *p, const struct hrf_node *node)
{
    if (hrf_region_can_split(p->graph, node))
        return true;
    const bool is_image = p->graph->values[node->outputs[0]].shape.rank == 4;
    if (!p->keeps_outputs && hrf_rows_can_split(p->graph, node))
        return true;
    return !p->keeps_outputs && hrf_tokens_can_split(p->graph, node) &&
           (!is_image || p->layout.columns == 1);
}

static void find_splits(struct hrf_partition *p, const struct hrf_partition_options *options)
{
    const bool *recompute = options->recompute;
    const bool in_turn = options->fronts != NULL;
    const struct hrf_graph *graph = p->graph;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct hrf_shape *shape = &graph->values[graph->inputs[i]].shape;
        p->is_split[graph->inputs[i]] = shape->rank == 4 ||
                                        (shape->rank == 3 && shape->dims[1] > 1);
        /* each rank is fed what it needs */
        p->is_recomputed[graph->inputs[i]] = !in_turn ||
                                             (recompute != NULL && recompute[graph->inputs[i]]);
    }
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        const int32_t value = node->outputs[0];
        p->is_split[value] = hrf_layout_image_parts(&p->layout) > 1 && can_split(p, node);
        p->is_recomputed[value] = p->is_split[value] && recompute != NULL && recompute[value] &&
                                  node->owner < 0 && /* other ranks lack its weights */
                                  graph->values[value].shape.rank ==
                                      4; /* a rank computes each token once */
    }
}

/* Values that other stages or the caller read must not be recomputed: every rank owns its share. */
static void keep_shared(struct hrf_partition *p)
{
    const struct hrf_graph *graph = p->graph;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++) {
            const int32_t value = graph->nodes[n].inputs[k];
            if (hrf_graph_is_variable(graph, value) && graph->values[value].producer >= 0 &&
                p->stage_of_node[graph->values[value].producer] != p->stage_of_node[n])
                p->is_recomputed[value] = false;
        }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->values[graph->outputs[i]].producer >= 0)
            p->is_recomputed[graph->outputs[i]] = false;
}

/* ---- sums ---- */

static bool is_split_input(const struct hrf_partition *p, const struct hrf_node *node, int32_t k)
{
    return hrf_graph_is_variable(p->graph, node->inputs[k]) && p->is_split[node->inputs[k]];
}

/* What a rank needs of input k for its share of a sum; empty: it adds nothing to it. */
static struct hrf_box needed_for_sum(const struct hrf_partition *p, const struct hrf_node *node,
                                     int32_t k, int32_t rank)
{
    const struct hrf_box part = share(p, node->inputs[hrf_region_summed(node)], rank);
    const struct hrf_box first = hrf_region_for_sum(p->graph, node, 0, &part);
    return hrf_box_is_empty(&first) ? first : hrf_region_for_sum(p->graph, node, k, &part);
}

/* True if any rank adds to a sum: windows may see padding alone. */
static bool is_of_pixels(const struct hrf_partition *p, const struct hrf_node *node)
{
    for (int32_t r = 0; r < stage_ranks(p); r++) {
        const struct hrf_box need = needed_for_sum(p, node, 0, r);
        if (!hrf_box_is_empty(&need))
            return true;
    }
    return false;
}

/* A global pool or another sum over a split image: each rank has its own share. */
static bool is_sum_of_shares(const struct hrf_partition *p, const struct hrf_node *node)
{
    return hrf_layout_image_parts(&p->layout) > 1 && hrf_region_is_sum(p->graph, node) &&
           is_split_input(p, node, 0) && is_split_input(p, node, hrf_region_summed(node)) &&
           (node->op != HRF_OP_PERFORMER_STATE || is_split_input(p, node, HRF_STATE_V)) &&
           is_of_pixels(p, node);
}

/* ---- owners ---- */

/* Values that serve nothing but outputs that are sums over the batch: these outputs, and, of those
 * that are read by nothing else, what they are computed from. `family`: values that are computed
 * from each other are of one family and get one owner; the family's root is its own. */
struct families {
    int32_t *family;  /* [values]; NO_FAMILY: others need the value, too */
    int64_t *n_bytes; /* [values], at the root: the sums over ranks, and the outputs */
};
enum { NO_FAMILY = -1 };

static int32_t root_of(const struct families *f, int32_t value)
{
    while (f->family[value] != value)
        value = f->family[value] = f->family[f->family[value]];
    return value;
}

/* Makes each value that serves only such outputs a family; of those that ranks have parts of only
 * with `of_parts`. From the last node to the first, so that the readers of a value come before it.
 */
static void find_families(const struct hrf_partition *p, bool of_parts, const struct families *f)
{
    const struct hrf_graph *graph = p->graph;
    HRF_AUTO_FREE bool *is_read = hrf_calloc((size_t)graph->n_values + 1, sizeof *is_read);
    HRF_AUTO_FREE bool *is_needed = hrf_calloc((size_t)graph->n_values + 1, sizeof *is_needed);
    for (int32_t v = 0; v < graph->n_values; v++)
        f->family[v] = NO_FAMILY;
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) {
        const struct hrf_node *node = &graph->nodes[n];
        const int32_t y = node->outputs[0];
        const bool is_for_outputs = is_read[y] ? !is_needed[y] : graph->values[y].is_batch_sum;
        /* Groups add up the statistics of their batch, each on all its ranks. */
        if (is_for_outputs && (of_parts || !p->is_split[y]) && node->n_outputs == 1 &&
            node->op != HRF_OP_ALL_REDUCE)
            f->family[y] = y;
        for (int32_t k = 0; k < node->n_inputs; k++) {
            const int32_t x = node->inputs[k];
            if (!hrf_graph_is_variable(graph, x))
                continue;
            const int32_t from = graph->values[x].producer;
            is_read[x] = true;
            is_needed[x] |= f->family[y] == NO_FAMILY || from < 0 ||
                            p->stage_of_node[from] != p->stage_of_node[n];
        }
    }
}

static void join_families(const struct hrf_partition *p, const struct families *f)
{
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        const struct hrf_node *node = &p->graph->nodes[n];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (hrf_graph_is_variable(p->graph, node->inputs[k]) &&
                f->family[node->inputs[k]] != NO_FAMILY)
                f->family[root_of(f, node->inputs[k])] = root_of(f, node->outputs[0]);
    }
}

/* What is computed from sums alone is not divided as if it were an image: the gradient to a weight
 * of 3 x 3 has as many rows. What is larger than what it is computed from may be an image: the
 * gradient of a global pool. */
static void keep_sums_whole(struct hrf_partition *p, const struct families *f)
{
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        const struct hrf_node *node = &p->graph->nodes[n];
        const int32_t y = node->outputs[0];
        const int64_t n_bytes = hrf_value_bytes(&p->graph->values[y]);
        bool is_of_parts = false, is_spread = true;
        for (int32_t k = 0; k < node->n_inputs; k++) {
            const int32_t x = node->inputs[k];
            is_of_parts |= is_split_input(p, node, k);
            is_spread &= !hrf_graph_is_variable(p->graph, x) ||
                         hrf_value_bytes(&p->graph->values[x]) < n_bytes;
        }
        if (f->family[y] != NO_FAMILY && !is_of_parts && !is_spread)
            p->is_split[y] = p->is_recomputed[y] = false;
    }
}

static void count_bytes(const struct hrf_partition *p, const struct families *f)
{
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        const int32_t y = p->graph->nodes[n].outputs[0];
        const int64_t n_bytes = hrf_value_bytes(&p->graph->values[y]);
        if (f->family[y] != NO_FAMILY)
            f->n_bytes[root_of(f, y)] += (p->graph->values[y].is_batch_sum ? n_bytes : 0) +
                                         (p->is_reduced[n] ? n_bytes : 0);
    }
}

struct sized {
    int64_t n_bytes;
    int32_t value;
};

/* The largest first; of equal ones that which comes first. */
static int by_size(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* The rank of the stage that owns the fewest bytes so far. */
static int32_t least_owner(const struct hrf_partition *p, int32_t stage, const int64_t *n_bytes)
{
    const int32_t first = stage * stage_ranks(p);
    int32_t least = first;
    for (int32_t r = first + 1; r < first + stage_ranks(p); r++)
        least = n_bytes[r] < n_bytes[least] ? r : least;
    return least;
}

/* Gives each family, the largest first, to the rank that has the fewest bytes so far. */
static void share_families(struct hrf_partition *p, const struct families *f)
{
    const struct hrf_graph *graph = p->graph;
    HRF_AUTO_FREE struct sized *roots = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *roots);
    HRF_AUTO_FREE int64_t *owned = hrf_calloc((size_t)p->n_ranks, sizeof *owned);
    size_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (f->family[v] == v)
            roots[n++] = (struct sized){ f->n_bytes[v], v };
    qsort(roots, n, sizeof *roots, by_size);
    for (size_t i = 0; i < n; i++) {
        const int32_t stage = p->stage_of_node[graph->values[roots[i].value].producer];
        const int32_t owner = least_owner(p, stage, owned);
        p->owners[roots[i].value] = owner;
        owned[owner] += roots[i].n_bytes;
    }
    for (int32_t v = 0; v < graph->n_values; v++)
        if (f->family[v] != NO_FAMILY)
            p->owners[v] = p->owners[root_of(f, v)];
}

/* Also finds which nodes are sums of the ranks' shares. */
static void find_owners(struct hrf_partition *p)
{
    const size_t n = (size_t)p->graph->n_values + 1;
    const bool has_owners = hrf_layout_image_parts(&p->layout) > 1 && p->layout.tensor == 1 &&
                            !p->keeps_outputs && p->fronts == NULL;
    HRF_AUTO_FREE int32_t *family = hrf_alloc_array(n, sizeof *family);
    HRF_AUTO_FREE int64_t *n_bytes = hrf_calloc(n, sizeof *n_bytes);
    const struct families f = { family, n_bytes };
    for (int32_t v = 0; v < p->graph->n_values; v++)
        p->owners[v] = HRF_ALL_RANKS;
    find_families(p, true, &f);
    if (has_owners)
        keep_sums_whole(p, &f);
    for (int32_t i = 0; i < p->graph->n_nodes; i++)
        p->is_reduced[i] = is_sum_of_shares(p, &p->graph->nodes[i]);
    if (!has_owners)
        return;
    find_families(p, false, &f);
    join_families(p, &f);
    count_bytes(p, &f);
    share_families(p, &f);
}

static void find_output_ranks(struct hrf_partition *p)
{
    for (int32_t i = 0; i < p->graph->n_outputs; i++) {
        const struct hrf_value *v = &p->graph->values[p->graph->outputs[i]];
        const bool is_of_stage = (v->is_batch_sum || v->is_of_batch) && v->producer >= 0;
        const int32_t owner = p->owners[p->graph->outputs[i]];
        p->output_ranks[i] = owner != HRF_ALL_RANKS ? owner
                             : is_of_stage          ? p->stage_of_node[v->producer] * stage_ranks(p)
                                                    : p->output_rank;
    }
}

/* ---- boxes ---- */

static struct hrf_box *box_at(struct hrf_partition *p, int32_t value, int32_t rank)
{
    return &p->boxes[(int64_t)value * p->n_ranks + rank];
}

static bool is_reduced(const struct hrf_partition *p, const struct hrf_node *node)
{
    return p->is_reduced[p->graph->values[node->outputs[0]].producer];
}

/* True if the rank adds its share to a sum that another rank of its stage owns. */
static bool adds_to_owner(const struct hrf_partition *p, const struct hrf_node *node, int32_t rank)
{
    const int32_t owner = p->owners[node->outputs[0]];
    return owner != HRF_ALL_RANKS && owner != rank &&
           owner / stage_ranks(p) == rank / stage_ranks(p) && is_reduced(p, node);
}

struct hrf_box hrf_partition_needed(const struct hrf_partition *p, const struct hrf_node *node,
                                    int32_t k, int32_t rank)
{
    const struct hrf_box *out = hrf_partition_box(p, node->outputs[0], rank);
    const bool takes_part = !hrf_box_is_empty(out) || adds_to_owner(p, node, rank);
    if (takes_part && is_split_input(p, node, k) && is_reduced(p, node))
        return needed_for_sum(p, node, k, rank);
    if (takes_part && !p->is_split[node->outputs[0]] && !hrf_tokens_are_picked(p->graph, node))
        return hrf_box_whole(&p->graph->values[node->inputs[k]].shape);
    return hrf_region_needed(p->graph, node, k, out);
}

static void set_boxes_of(struct hrf_partition *p, int32_t value, int32_t stage)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        if (p->is_recomputed[value])
            continue; /* the hull of the needs, gathered from its consumers */
        const int32_t owner = owner_of(p, value);
        const bool is_of_other = p->owners[value] != HRF_ALL_RANKS && p->owners[value] != r;
        if (r / stage_ranks(p) != stage || (owner >= 0 && r % p->layout.tensor != owner) ||
            is_of_other)
            *box_at(p, value, r) = (struct hrf_box){ .lo = { 0 } };
        else if (is_kept(p, value))
            *box_at(p, value, r) = hrf_fronts_box(p, value, r);
        else if (p->is_split[value])
            *box_at(p, value, r) = share(p, value, r);
        else
            *box_at(p, value, r) = hrf_box_whole(&p->graph->values[value].shape);
    }
}

/* Finds the box of every value on every rank, from the last node to the first, so that the needs
 * of its readers are known. */
static void find_boxes(struct hrf_partition *p)
{
    const struct hrf_graph *graph = p->graph;
    for (int32_t i = 0; i < graph->n_inputs && p->fronts != NULL; i++)
        set_boxes_of(p, graph->inputs[i], 0);
    for (int32_t i = 0; i < graph->n_outputs;
         i++) /* an input of the network that is also an output */
        if (p->is_recomputed[graph->outputs[i]])
            *box_at(p, graph->outputs[i],
                    p->output_rank) = hrf_box_whole(&graph->values[graph->outputs[i]].shape);
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) {
        const struct hrf_node *node = &graph->nodes[n];
        set_boxes_of(p, node->outputs[0], p->stage_of_node[n]);
        for (int32_t k = 0; k < node->n_inputs; k++) {
            if (!hrf_graph_is_variable(graph, node->inputs[k]) ||
                !p->is_recomputed[node->inputs[k]])
                continue;
            for (int32_t r = 0; r < p->n_ranks; r++) {
                const struct hrf_box need = hrf_partition_needed(p, node, k, r);
                struct hrf_box *hull = box_at(p, node->inputs[k], r);
                *hull = hrf_box_hull(hull, &need);
            }
        }
    }
}

/* ---- exchanges and reductions ---- */

/* `node` reads the value as its input k; NULL: the caller reads it. */
static bool is_there(const struct hrf_partition *p, const struct hrf_node *node, int32_t k,
                     int32_t value, const struct hrf_box *need)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct hrf_box *have = hrf_partition_box(p, value, r);
        if (!hrf_box_is_empty(&need[r]) && !hrf_box_equal(have, &need[r]) &&
            (node == NULL || !hrf_region_suits(node, k, have, &need[r])))
            return false;
    }
    return true;
}

/* Channels [first, first + n) of a value. */
struct channels {
    int64_t first, n;
};

static int64_t count_channels(const struct hrf_shape *shape)
{
    return shape->rank == 4   ? shape->dims[1]
           : shape->rank == 3 ? shape->dims[2]
                              : hrf_shape_count(shape);
}

static struct channels all_channels(const struct hrf_partition *p, int32_t value)
{
    return (struct channels){ 0, count_channels(&p->graph->values[value].shape) };
}

/* The channels of input k that the node reads: an attention of tokens reads those of its heads. */
static struct channels channels_of(const struct hrf_partition *p, const struct hrf_node *node,
                                   int32_t k)
{
    struct channels c = all_channels(p, node->inputs[k]);
    if (p->graph->values[node->inputs[k]].shape.rank == 3)
        hrf_tokens_channels(p->graph, node, k, &c.first, &c.n);
    return c;
}

static int32_t find_exchange(const struct hrf_partition *p, int32_t value,
                             const struct hrf_box *need, const struct channels *c)
{
    for (int32_t e = 0; e < p->n_exchanges; e++) {
        const struct hrf_exchange *x = &p->exchanges[e];
        bool same = x->value == value && x->first_channel == c->first && x->channels == c->n;
        for (int32_t r = 0; r < p->n_ranks && same; r++)
            same = hrf_box_equal(&x->need[r], &need[r]);
        if (same)
            return e;
    }
    return HRF_NO_EXCHANGE;
}

static void fill_exchange(const struct hrf_partition *p, int32_t value, const struct hrf_box *need,
                          struct hrf_exchange *x)
{
    const struct hrf_value *v = &p->graph->values[value];
    const struct hrf_shape *s = &v->shape;
    *x = (struct hrf_exchange){ .value = value,
                                .n_images = s->rank == 4 || s->rank == 3 ? s->dims[0] : 1,
                                .channels = count_channels(s),
                                .all_channels = count_channels(s),
                                .element_bytes = hrf_dtype_size(v->dtype),
                                .have = x->have,
                                .local = x->have + p->n_ranks,
                                .need = x->have + 2 * p->n_ranks,
                                .source = HRF_NO_EXCHANGE,
                                .cache_entry = -1 };
    bool given = false; /* a whole value is given by the first rank that has it */
    for (int32_t r = 0; r < p->n_ranks; r++) {
        x->local[r] = *hrf_partition_box(p, value, r);
        x->need[r] = need[r];
        const bool gives = !p->is_recomputed[value] && hrf_partition_gives(p, value, r) &&
                           (p->is_split[value] || !given) && !hrf_box_is_empty(&x->local[r]) &&
                           p->fronts == NULL;
        if (gives)
            x->have[r] = x->local[r];
        given |= gives;
    }
}

void hrf_partition_add_exchange(struct hrf_partition *p, int32_t value, const struct hrf_box *need,
                                int32_t *index)
{
    struct hrf_exchange *x = &p->exchanges[p->n_exchanges];
    x->have = hrf_calloc(3 * (size_t)p->n_ranks, sizeof *x->have);
    fill_exchange(p, value, need, x);
    *index = p->n_exchanges++;
}

/* Finds or adds the exchange that brings `need` of the value. */
static void feed(struct hrf_partition *p, const struct hrf_node *node, int32_t k, int32_t value,
                 const struct hrf_box *need, int32_t *feed_out)
{
    const struct channels c = node != NULL ? channels_of(p, node, k) : all_channels(p, value);
    *feed_out = HRF_NO_EXCHANGE;
    if (is_there(p, node, k, value, need))
        return;
    *feed_out = find_exchange(p, value, need, &c);
    if (*feed_out != HRF_NO_EXCHANGE)
        return;
    hrf_partition_add_exchange(p, value, need, feed_out);
    p->exchanges[*feed_out].first_channel = c.first;
    p->exchanges[*feed_out].channels = c.n;
}

/* ---- attention in parts ---- */

/* There are more parts than ranks, so that one part takes little memory. */
enum { PARTS_PER_RANK = 16 };

static int32_t count_parts(const struct hrf_partition *p, int32_t n)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    if (p->layout.attention != HRF_ATTENTION_RING || !hrf_op_is_attention(node->op) ||
        !p->is_split[node->outputs[0]] || !hrf_attention_is_long(p->graph, node))
        return 0;
    const int64_t n_keys = p->graph->values[node->inputs[HRF_ATTENTION_K]].shape.dims[1];
    const int64_t n_blocks = (n_keys + HRF_ATTENTION_KEYS - 1) / HRF_ATTENTION_KEYS;
    const int64_t most = PARTS_PER_RANK * (int64_t)stage_ranks(p);
    return (int32_t)(n_blocks < most ? n_blocks : most);
}

/* The tokens of a part begin at a multiple of a block. */
static struct hrf_box part_of_keys(int64_t n_keys, int32_t part, int32_t n_parts)
{
    const int64_t n_blocks = (n_keys + HRF_ATTENTION_KEYS - 1) / HRF_ATTENTION_KEYS;
    const int64_t end = n_blocks * (part + 1) / n_parts * HRF_ATTENTION_KEYS;
    return (struct hrf_box){ { n_blocks * part / n_parts * HRF_ATTENTION_KEYS, 0 },
                             { end < n_keys ? end : n_keys, 1 } };
}

/* Adds the exchanges that bring the keys and values of attention n part by part. */
static void feed_ring(struct hrf_partition *p, int32_t n, struct hrf_box *need)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    struct hrf_ring *ring = &p->rings[n];
    const int64_t n_keys = p->graph->values[node->inputs[HRF_ATTENTION_K]].shape.dims[1];
    ring->feeds = hrf_calloc(2 * (size_t)ring->n_parts, sizeof *ring->feeds);
    for (int32_t i = 0; i < 2 * ring->n_parts; i++) {
        for (int32_t r = 0; r < p->n_ranks; r++) {
            const struct hrf_box *out = hrf_partition_box(p, node->outputs[0], r);
            need[r] = hrf_box_is_empty(out) ? *out : part_of_keys(n_keys, i / 2, ring->n_parts);
        }
        const int32_t k = i % 2 == 0 ? HRF_ATTENTION_K : HRF_ATTENTION_V;
        feed(p, node, k, node->inputs[k], need, &ring->feeds[i]);
    }
}

static void add_reduce(struct hrf_partition *p, int32_t n)
{
    const struct hrf_graph *graph = p->graph;
    const struct hrf_node *node = &graph->nodes[n];
    const struct hrf_value *x = &graph->values[node->inputs[0]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool is_max = node->op == HRF_OP_GLOBAL_MAX_POOL || node->op == HRF_OP_PERFORMER_MAX;
    const bool is_pool_or_state = hrf_op_info(node->op)->region == HRF_REGION_SUM;
    struct hrf_reduce *reduce = &p->reduces[p->n_reduces];
    bool *gives = hrf_calloc((size_t)p->n_ranks, sizeof *gives);
    *reduce = (struct hrf_reduce){ .first = p->stage_of_node[n] * stage_ranks(p),
                                   .n = stage_ranks(p),
                                   .owner = p->owners[node->outputs[0]],
                                   .is_max = is_max,
                                   .dtype = is_max             ? x->dtype
                                            : is_pool_or_state ? hrf_region_sum_type(x->dtype)
                                                               : y->dtype,
                                   .count = hrf_shape_count(&y->shape),
                                   .gives = gives };
    for (int32_t r = reduce->first; r < reduce->first + reduce->n; r++) {
        const struct hrf_box own = needed_for_sum(p, node, 0, r);
        gives[r] = !hrf_box_is_empty(&own) &&
                   r % p->layout.tensor == 0; /* the other ranks of the part have the same sum */
    }
    p->reduce_of[n] = p->n_reduces++;
}

static void add_reduce_over_groups(struct hrf_partition *p, int32_t n)
{
    const struct hrf_value *y = &p->graph->values[p->graph->nodes[n].outputs[0]];
    p->reduces[p->n_reduces] = (struct hrf_reduce){ .is_over_groups = true,
                                                    .n = p->layout.data,
                                                    .owner = HRF_ALL_RANKS,
                                                    .dtype = y->dtype,
                                                    .count = hrf_shape_count(&y->shape) };
    p->reduce_of[n] = p->n_reduces++;
}

static void feed_node(struct hrf_partition *p, int32_t n, struct hrf_box *need)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        p->feeds[p->first_feed[n] + k] = HRF_NO_EXCHANGE;
        if (p->rings[n].n_parts > 0 && k != HRF_ATTENTION_Q)
            continue;
        if (!hrf_graph_is_variable(p->graph, node->inputs[k]) || is_kept(p, node->inputs[k]))
            continue;
        for (int32_t r = 0; r < p->n_ranks; r++)
            need[r] = hrf_partition_needed(p, node, k, r);
        feed(p, node, k, node->inputs[k], need, &p->feeds[p->first_feed[n] + k]);
    }
    p->reduce_of[n] = -1;
    if (p->rings[n].n_parts > 0)
        feed_ring(p, n, need);
    if (node->op == HRF_OP_ALL_REDUCE)
        add_reduce_over_groups(p, n);
    else if (p->is_reduced[n])
        add_reduce(p, n);
}

static void find_feeds(struct hrf_partition *p)
{
    const struct hrf_graph *graph = p->graph;
    HRF_AUTO_FREE struct hrf_box *need = hrf_calloc((size_t)p->n_ranks, sizeof *need);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        feed_node(p, n, need);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        p->output_feeds[i] = HRF_NO_EXCHANGE;
        if (p->keeps_outputs)
            continue;
        for (int32_t r = 0; r < p->n_ranks; r++)
            need[r] = (struct hrf_box){ .lo = { 0 } };
        need[hrf_partition_output_rank(p, i)] = hrf_box_whole(
            &graph->values[graph->outputs[i]].shape);
        feed(p, NULL, 0, graph->outputs[i], need, &p->output_feeds[i]);
    }
    for (int32_t v = 0; v < graph->n_values; v++)
        if (is_kept(p, v) && graph->values[v].data == NULL)
            hrf_line_cache_feed(p, v);
}

/* ---- making one ---- */

static void allocate(struct hrf_partition *p)
{
    const struct hrf_graph *graph = p->graph;
    const size_t n_nodes = (size_t)graph->n_nodes + 1, n_values = (size_t)graph->n_values + 1;
    size_t n_inputs = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        n_inputs += (size_t)graph->nodes[n].n_inputs;
    p->stage_of_node = hrf_calloc(n_nodes, sizeof *p->stage_of_node);
    p->is_split = hrf_calloc(n_values, sizeof *p->is_split);
    p->is_recomputed = hrf_calloc(n_values, sizeof *p->is_recomputed);
    p->is_reduced = hrf_calloc(n_nodes, sizeof *p->is_reduced);
    p->is_overlapped = hrf_calloc(n_nodes, sizeof *p->is_overlapped);
    p->owners = hrf_calloc(n_values, sizeof *p->owners);
    p->output_ranks = hrf_calloc((size_t)graph->n_outputs + 1, sizeof *p->output_ranks);
    p->boxes = hrf_calloc(n_values * (size_t)p->n_ranks, sizeof *p->boxes);
    p->rings = hrf_calloc(n_nodes, sizeof *p->rings);
    p->cached = hrf_calloc(n_values, sizeof *p->cached);
    p->reduces = hrf_calloc(n_nodes, sizeof *p->reduces);
    p->first_feed = hrf_calloc(n_nodes, sizeof *p->first_feed);
    p->feeds = hrf_calloc(n_inputs + 1, sizeof *p->feeds);
    p->reduce_of = hrf_calloc(n_nodes, sizeof *p->reduce_of);
    p->output_feeds = hrf_calloc((size_t)graph->n_outputs + 1, sizeof *p->output_feeds);
    int32_t at = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        p->first_feed[n] = at;
        at += graph->nodes[n].n_inputs;
    }
}

/* Makes room for one exchange for each input of a node, each output and each part of a ring, and
 * for one more for each value (line_cache.c). */
static void allocate_exchanges(struct hrf_partition *p)
{
    size_t n = (size_t)p->graph->n_outputs + (size_t)p->graph->n_values + 1;
    for (int32_t i = 0; i < p->graph->n_nodes; i++) {
        p->rings[i].n_parts = count_parts(p, i);
        n += (size_t)p->graph->nodes[i].n_inputs + 2 * (size_t)p->rings[i].n_parts;
    }
    p->exchanges = hrf_calloc(n, sizeof *p->exchanges);
}

/* A ring that was asked for and cannot be is an error, because the caller counts on the memory
 * that it saves. */
static enum hrf_status check_ring(const struct hrf_partition *p, struct hrf_error *err)
{
    bool is_used = p->layout.attention != HRF_ATTENTION_RING;
    for (int32_t i = 0; i < p->graph->n_nodes; i++)
        is_used |= p->rings[i].n_parts > 0;
    if (is_used)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "attention=ring: no attention of this network passes its keys in a ring, "
                         "which takes more than %d tokens that the ranks share, and no mask; with "
                         "attention=gather, or without it, they are gathered",
                         HRF_ATTENTION_LONG);
}

enum hrf_status hrf_partition_create(const struct hrf_graph *graph,
                                     const struct hrf_layout_plan *layout,
                                     const struct hrf_partition_options *options,
                                     struct hrf_partition **out, struct hrf_error *err)
{
    static const struct hrf_partition_options none = { .costs = NULL };
    HRF_AUTO(hrf_partition) p = hrf_calloc(1, sizeof *p);
    options = options != NULL ? options : &none;
    p->graph = graph;
    p->n_nodes = graph->n_nodes;
    p->layout = *layout;
    p->keeps_outputs = options->keep_outputs;
    p->n_ranks = hrf_layout_group_ranks(layout);
    p->output_rank = p->n_ranks - stage_ranks(p);
    allocate(p);
    HRF_TRY(cut_stages(p, options, err));
    find_splits(p, options);
    allocate_exchanges(p);
    HRF_TRY(check_ring(p, err));
    if (options->overlap != NULL)
        memcpy(p->is_overlapped, options->overlap, (size_t)graph->n_nodes * sizeof(bool));
    keep_shared(p);
    if (options->fronts != NULL)
        hrf_fronts_find(p, options->fronts);
    find_owners(p);
    find_output_ranks(p);
    find_boxes(p);
    find_feeds(p);
    HRF_TRY(hrf_partition_check(p, err));
    HRF_MOVE(*out, p);
    return HRF_OK;
}
