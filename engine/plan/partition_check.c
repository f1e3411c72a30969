/* partition_check.c - proves a partition before anything runs (partition.h). */
#include "engine/plan/line_cache.h"

static int64_t area(const struct hrf_box *b)
{
    return hrf_box_is_empty(b) ? 0 : (b->hi[0] - b->lo[0]) * (b->hi[1] - b->lo[1]);
}

static const char *name_of(const struct hrf_partition *p, const struct hrf_exchange *x)
{
    return p->graph->values[x->value].name;
}

/* Checks that the boxes that ranks give do not overlap, so that no pixel is sent twice. */
static enum hrf_status check_givers(const struct hrf_partition *p, const struct hrf_exchange *x,
                                    struct hrf_error *err)
{
    for (int32_t a = 0; a < p->n_ranks; a++) {
        if (!hrf_box_contains(&x->local[a], &x->have[a]))
            return hrf_error_set(err, HRF_E_BUG,
                                 "partition: rank %d gives more of '%s' than it has", a,
                                 name_of(p, x));
        for (int32_t b = 0; b < a; b++) {
            const struct hrf_box both = hrf_box_intersect(&x->have[a], &x->have[b]);
            if (!hrf_box_is_empty(&both))
                return hrf_error_set(err, HRF_E_BUG,
                                     "partition: ranks %d and %d both give the same part of '%s'",
                                     b, a, name_of(p, x));
        }
    }
    return HRF_OK;
}

/* Checks that every pixel that a rank needs comes from the rank itself or from another one. */
static enum hrf_status check_takers(const struct hrf_partition *p, const struct hrf_exchange *x,
                                    struct hrf_error *err)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct hrf_box kept = hrf_box_intersect(&x->local[r], &x->need[r]);
        int64_t covered = area(&kept);
        for (int32_t q = 0; q < p->n_ranks; q++) {
            const struct hrf_box part = hrf_exchange_sent(x, q, r);
            covered += area(&part);
        }
        if (covered != area(&x->need[r]))
            return hrf_error_set(err, HRF_E_BUG,
                                 "partition: rank %d needs %lld pixels of '%s' and gets %lld", r,
                                 (long long)area(&x->need[r]), name_of(p, x), (long long)covered);
    }
    return HRF_OK;
}

static enum hrf_status check_shares(const struct hrf_partition *p, int32_t value,
                                    struct hrf_error *err)
{
    int64_t covered = 0;
    const struct hrf_box whole = hrf_box_whole(&p->graph->values[value].shape);
    if (!p->is_split[value] || p->is_recomputed[value])
        return HRF_OK;
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (hrf_partition_gives(p, value, r))
            covered += area(hrf_partition_box(p, value, r));
    if (covered != area(&whole))
        return hrf_error_set(
            err, HRF_E_BUG, "partition: of the %lld pixels of '%s' ranks compute %lld",
            (long long)area(&whole), p->graph->values[value].name, (long long)covered);
    return HRF_OK;
}

/* Checks that what a rank's part of a node needs lies within the input, and that the rank has it or
 * receives it. */
static enum hrf_status check_need(const struct hrf_partition *p, int32_t n, int32_t k, int32_t r,
                                  struct hrf_error *err)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    const int32_t value = node->inputs[k], e = p->feeds[p->first_feed[n] + k];
    const struct hrf_box whole = hrf_box_whole(&p->graph->values[value].shape);
    const struct hrf_box need = hrf_partition_needed(p, node, k, r);
    const struct hrf_box *have = e != HRF_NO_EXCHANGE ? &p->exchanges[e].need[r]
                                                      : hrf_partition_box(p, value, r);
    if (hrf_box_is_empty(&need) ||
        (hrf_box_contains(&whole, &need) && hrf_region_suits(node, k, have, &need)))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_BUG,
                         "partition: rank %d needs rows %lld to %lld of '%s' for node '%s' and has "
                         "rows %lld to %lld",
                         r, (long long)need.lo[0], (long long)need.hi[0],
                         p->graph->values[value].name, node->name, (long long)have->lo[0],
                         (long long)have->hi[0]);
}

static enum hrf_status check_needs(const struct hrf_partition *p, int32_t n, struct hrf_error *err)
{
    const struct hrf_node *node = &p->graph->nodes[n];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const bool is_ring = p->rings[n].n_parts > 0 && k != HRF_ATTENTION_Q;
        if (node->inputs[k] < 0 || p->graph->values[node->inputs[k]].data != NULL || is_ring)
            continue;
        for (int32_t r = 0; r < p->n_ranks; r++)
            HRF_TRY(check_need(p, n, k, r, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_partition_check(const struct hrf_partition *p, struct hrf_error *err)
{
    if (p->fronts != NULL)
        HRF_TRY(hrf_line_cache_check(p, err));
    for (int32_t e = 0; e < p->n_exchanges; e++) {
        if (p->exchanges[e].cache_entry >= 0)
            continue;
        HRF_TRY(check_givers(p, &p->exchanges[e], err));
        HRF_TRY(check_takers(p, &p->exchanges[e], err));
    }
    for (int32_t i = 0; i < p->n_reduces; i++)
        if (!p->reduces[i].is_over_groups &&
            (p->reduces[i].first < 0 || p->reduces[i].first + p->reduces[i].n > p->n_ranks))
            return hrf_error_set(err, HRF_E_BUG, "partition: a reduction over ranks beyond %d",
                                 p->n_ranks);
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        HRF_TRY(check_needs(p, n, err));
        HRF_TRY(check_shares(p, p->graph->nodes[n].outputs[0], err));
    }
    return HRF_OK;
}
