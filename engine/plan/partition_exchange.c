/* partition_exchange.c - what an exchange sends and takes, and what can be computed during one
 * (partition.h). */
#include "engine/plan/partition.h"

int32_t hrf_partition_owner(const struct hrf_partition *p, int32_t value)
{
    const int32_t n = p->graph->values[value].producer;
    return n >= 0 ? p->graph->nodes[n].owner : -1;
}

bool hrf_partition_gives(const struct hrf_partition *p, int32_t value, int32_t rank)
{
    const int32_t owner = hrf_partition_owner(p, value);
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

int64_t hrf_exchange_place(const struct hrf_exchange *x, const struct hrf_box *outer,
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
    const bool is_window = node->op == HRF_OP_CONV || node->op == HRF_OP_MAX_POOL ||
                           node->op == HRF_OP_AVERAGE_POOL;
    if (!is_window || e == HRF_NO_EXCHANGE || hrf_box_is_empty(box) || !is_first_reader(p, n, e))
        return false;
    const struct hrf_exchange *x = &p->exchanges[e];
    if (!hrf_exchange_takes(x, rank) || hrf_box_is_empty(&x->local[rank]))
        return false;
    for (int axis = 0; axis < 2; axis++)
        find_own(p, node, axis, &x->local[rank], box, interior);
    return !hrf_box_is_empty(interior) && !hrf_box_equal(interior, box);
}
