/* line_cache.c - the line cache of row tiles (line_cache.h): how far each tile gets, which rows are
 * kept, and the proof that they are there. */
#include "engine/plan/line_cache.h"

#include "base/min_max.h"

#include <assert.h>

/* ---- fronts ---- */

static int64_t *front_at(const struct hrf_partition *p, int32_t value, int32_t band)
{
    return &p->fronts[(int64_t)value * p->n_ranks + band];
}

struct hrf_box hrf_fronts_box(const struct hrf_partition *p, int32_t value, int32_t band)
{
    struct hrf_box box = hrf_box_whole(&p->graph->values[value].shape);
    box.lo[0] = band > 0 ? *front_at(p, value, band - 1) : 0;
    box.hi[0] = *front_at(p, value, band);
    return box;
}

static bool is_image_at_run_time(const struct hrf_partition *p, int32_t value)
{
    return value >= 0 && p->graph->values[value].data == NULL && p->is_split[value];
}

/* True if all that row `y` of the node's output needs is computed by the end of the band. */
static bool is_possible(const struct hrf_partition *p, const struct hrf_node *node, int64_t y,
                        int32_t band)
{
    struct hrf_box rows = hrf_box_whole(&p->graph->values[node->outputs[0]].shape);
    rows.lo[0] = y;
    rows.hi[0] = y + 1;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        if (!is_image_at_run_time(p, node->inputs[k]))
            continue;
        const struct hrf_box need = hrf_region_needed(p->graph, node, k, &rows);
        if (need.hi[0] > *front_at(p, node->inputs[k], band))
            return false;
    }
    return true;
}

/* Finds the front of the node's output by bisection, since a later row never needs less of the
 * inputs. */
static int64_t find_front(const struct hrf_partition *p, const struct hrf_node *node, int32_t band)
{
    const int64_t from = band > 0 ? *front_at(p, node->outputs[0], band - 1) : 0;
    int64_t low = from, high = p->graph->values[node->outputs[0]].shape.dims[2];
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (is_possible(p, node, middle - 1, band))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void hrf_fronts_find(struct hrf_partition *p, const int64_t *of_inputs)
{
    const struct hrf_graph *graph = p->graph;
    p->fronts = hrf_calloc((size_t)graph->n_values * (size_t)p->n_ranks + 1, sizeof *p->fronts);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        for (int32_t band = 0; band < p->n_ranks && p->is_split[graph->inputs[i]]; band++)
            *front_at(p, graph->inputs[i], band) = of_inputs[band];
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        if (!p->is_split[node->outputs[0]])
            continue;
        for (int32_t band = 0; band < p->n_ranks; band++)
            *front_at(p, node->outputs[0], band) = find_front(p, node, band);
        assert(*front_at(p, node->outputs[0], p->n_ranks - 1) ==
               graph->values[node->outputs[0]].shape.dims[2]);
    }
}

/* ---- exchanges ---- */

/* Finds the box that a node which reads the value as its input k needs in each band. Columns that
 * its window skips at the end are included, so that they need not be cut off. */
static void find_need(const struct hrf_partition *p, const struct hrf_node *node, int32_t k,
                      struct hrf_box *need)
{
    const struct hrf_box whole = hrf_box_whole(&p->graph->values[node->inputs[k]].shape);
    for (int32_t band = 0; band < p->n_ranks; band++) {
        const struct hrf_box *out = hrf_partition_box(p, node->outputs[0], band);
        need[band] = hrf_region_needed(p->graph, node, k, out);
        struct hrf_box wide = need[band];
        wide.lo[1] = whole.lo[1];
        wide.hi[1] = whole.hi[1];
        if (hrf_region_suits(node, k, &wide, &need[band]))
            need[band] = wide;
    }
}

/* True if the reader can use the rows that each band computes, without an exchange. */
static bool is_served(const struct hrf_partition *p, const struct hrf_node *node, int32_t k,
                      const struct hrf_box *need)
{
    for (int32_t band = 0; band < p->n_ranks; band++) {
        const struct hrf_box *have = hrf_partition_box(p, node->inputs[k], band);
        if (!hrf_box_is_empty(&need[band]) && !hrf_box_equal(have, &need[band]) &&
            !hrf_region_suits(node, k, have, &need[band]))
            return false;
    }
    return true;
}

struct feeding {
    struct hrf_partition *p;
    int32_t value;
    int32_t main;          /* the exchange that keeps */
    struct hrf_box *needs; /* [readers][bands] */
    int32_t *feeds;        /* [readers] indices in p->feeds */
    int32_t n_readers;
    bool are_served;
};

/* Readers of the same rows count once: their indices in p->feeds are chained by their needs. */
static void add_reader(struct feeding *f, int32_t n, int32_t k)
{
    const struct hrf_node *node = &f->p->graph->nodes[n];
    struct hrf_box *need = f->needs + (int64_t)f->n_readers * f->p->n_ranks;
    find_need(f->p, node, k, need);
    f->are_served &= is_served(f->p, node, k, need);
    f->feeds[f->n_readers++] = f->p->first_feed[n] + k;
}

static void find_readers(struct feeding *f)
{
    const struct hrf_graph *graph = f->p->graph;
    f->are_served = true;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (graph->nodes[n].inputs[k] == f->value)
                add_reader(f, n, k);
}

static int32_t count_readers(const struct hrf_graph *graph, int32_t value)
{
    int32_t count = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            count += graph->nodes[n].inputs[k] == value;
    return count;
}

/* Adds the main exchange, which brings new rows, preceded by the kept rows that are read together
 * with them. */
static void add_main(struct feeding *f)
{
    const int32_t n_bands = f->p->n_ranks;
    HRF_AUTO_FREE struct hrf_box *need = hrf_calloc((size_t)n_bands, sizeof *need);
    for (int32_t band = 0; band < n_bands; band++) {
        const struct hrf_box *local = hrf_partition_box(f->p, f->value, band);
        need[band] = *local;
        for (int32_t i = 0; i < f->n_readers && !hrf_box_is_empty(local); i++) {
            const struct hrf_box *one = &f->needs[(int64_t)i * n_bands + band];
            const struct hrf_box common = hrf_box_intersect(one, local);
            if (!hrf_box_is_empty(&common))
                need[band].lo[0] = hrf_min(need[band].lo[0], one->lo[0]);
        }
    }
    hrf_partition_add_exchange(f->p, f->value, need, &f->main);
    f->p->exchanges[f->main].keeps = true;
}

static bool are_same(const struct hrf_box *a, const struct hrf_box *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!hrf_box_equal(&a[i], &b[i]))
            return false;
    return true;
}

/* Adds a reader's own exchange, unless another one already brings the same rows. */
static void add_feed(struct feeding *f, int32_t reader)
{
    struct hrf_partition *p = f->p;
    const struct hrf_box *need = f->needs + (int64_t)reader * p->n_ranks;
    int32_t *feed = &p->feeds[f->feeds[reader]];
    for (*feed = f->main; *feed < p->n_exchanges; ++*feed)
        if (are_same(p->exchanges[*feed].need, need, p->n_ranks))
            return;
    hrf_partition_add_exchange(p, f->value, need, feed);
    struct hrf_exchange *x = &p->exchanges[*feed];
    x->source = f->main;
    for (int32_t band = 0; band < p->n_ranks; band++)
        if (hrf_line_cache_reads_source(p, x, band))
            x->local[band] = p->exchanges[f->main].need[band];
}

/* Keeps those of the rows that are there at the end of each band that later bands read. */
static void add_kept(struct feeding *f)
{
    struct hrf_partition *p = f->p;
    const struct hrf_value *v = &p->graph->values[f->value];
    const int64_t row_bytes = v->shape.dims[3] * v->shape.dims[1] *
                              (int64_t)hrf_dtype_size(v->dtype);
    struct hrf_cached_rows kept = { .value = f->value, .offset = p->line_cache_bytes };
    kept.lo = hrf_calloc(2 * (size_t)p->n_ranks, sizeof *kept.lo);
    kept.hi = kept.lo + p->n_ranks;
    int64_t first = v->shape.dims[2]; /* first row that is read after the band */
    for (int32_t band = p->n_ranks - 1; band >= 0; band--) {
        const int64_t front = *front_at(p, f->value, band);
        assert(band + 1 == p->n_ranks || front <= kept.hi[band + 1]); /* fronts never go back */
        kept.lo[band] = hrf_min(first, front);
        kept.hi[band] = front;
        kept.n_rows = hrf_max(kept.n_rows, front - kept.lo[band]);
        for (int32_t i = 0; i < f->n_readers; i++) {
            const struct hrf_box *need = &f->needs[(int64_t)i * p->n_ranks + band];
            first = hrf_box_is_empty(need) ? first : hrf_min(first, need->lo[0]);
        }
    }
    if (kept.n_rows == 0) {
        hrf_free(kept.lo);
        return;
    }
    const int64_t n_bytes = v->shape.dims[0] * kept.n_rows * row_bytes;
    p->line_cache_bytes += (n_bytes + HRF_LINE_CACHE_ALIGNMENT - 1) / HRF_LINE_CACHE_ALIGNMENT *
                           HRF_LINE_CACHE_ALIGNMENT;
    for (int32_t e = f->main; e < p->n_exchanges; e++)
        p->exchanges[e].cache_entry = p->n_cached;
    p->cached[p->n_cached++] = kept;
}

void hrf_line_cache_feed(struct hrf_partition *p, int32_t value)
{
    const int32_t n = count_readers(p->graph, value);
    HRF_AUTO_FREE struct hrf_box *needs = hrf_calloc((size_t)n * (size_t)p->n_ranks + 1,
                                                     sizeof *needs);
    HRF_AUTO_FREE int32_t *feeds = hrf_calloc((size_t)n + 1, sizeof *feeds);
    struct feeding f = { .p = p, .value = value, .needs = needs, .feeds = feeds };
    find_readers(&f);
    for (int32_t i = 0; i < n; i++)
        p->feeds[feeds[i]] = HRF_NO_EXCHANGE;
    if (f.are_served)
        return;
    add_main(&f);
    for (int32_t i = 0; i < n; i++)
        add_feed(&f, i);
    add_kept(&f);
}

/* ---- an exchange in a band ---- */

bool hrf_line_cache_reads_source(const struct hrf_partition *p, const struct hrf_exchange *x,
                                 int32_t band)
{
    return x->source != HRF_NO_EXCHANGE && !hrf_box_is_empty(&x->need[band]) &&
           hrf_box_contains(&p->exchanges[x->source].need[band], &x->need[band]);
}

static struct hrf_box rows_between(const struct hrf_box *columns, int64_t lo, int64_t hi)
{
    struct hrf_box box = *columns;
    box.lo[0] = lo;
    box.hi[0] = hrf_max(lo, hi);
    return box;
}

struct hrf_line_cache_moves hrf_line_cache_moves(const struct hrf_partition *p, int32_t exchange,
                                                 int32_t band)
{
    const struct hrf_exchange *x = &p->exchanges[exchange];
    assert(x->cache_entry >= 0 && x->cache_entry < p->n_cached);
    const struct hrf_cached_rows *kept = &p->cached[x->cache_entry];
    const struct hrf_box whole = hrf_box_whole(&p->graph->values[x->value].shape);
    const int64_t before[2] = { band > 0 ? kept->lo[band - 1] : 0,
                                band > 0 ? kept->hi[band - 1] : 0 };
    const int64_t after[2] = { kept->lo[band], kept->hi[band] };
    const struct hrf_box there = rows_between(&whole, before[0], before[1]);
    const struct hrf_box none = { .lo = { 0 } };
    struct hrf_line_cache_moves m = { .first_row = { before[0], after[0] }, .room = kept->n_rows };
    m.loaded = m.stays = m.added = none;
    if (!hrf_box_is_empty(&x->need[band]) && !hrf_line_cache_reads_source(p, x, band))
        m.loaded = hrf_box_intersect(&there, &x->need[band]);
    if (!x->keeps)
        return m;
    m.stays = rows_between(&whole, after[0], hrf_min(before[1], after[1]));
    m.added = rows_between(&whole, hrf_max(before[1], after[0]), after[1]);
    return m;
}

bool hrf_line_cache_is_used(const struct hrf_partition *p, int32_t exchange, int32_t band)
{
    if (p->exchanges[exchange].cache_entry < 0)
        return false;
    const struct hrf_line_cache_moves m = hrf_line_cache_moves(p, exchange, band);
    return !hrf_box_is_empty(&m.loaded) || !hrf_box_is_empty(&m.added) ||
           (!hrf_box_is_empty(&m.stays) && m.first_row[0] != m.first_row[1]);
}

static bool are_moved_alike(const struct hrf_box *a, const struct hrf_box *b, int64_t from_a,
                            int64_t from_b)
{
    if (hrf_box_is_empty(a) || hrf_box_is_empty(b))
        return hrf_box_is_empty(a) && hrf_box_is_empty(b);
    return a->lo[0] - from_a == b->lo[0] - from_b && a->hi[0] - a->lo[0] == b->hi[0] - b->lo[0];
}

bool hrf_line_cache_are_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t e = 0; e < p->n_exchanges; e++) {
        const struct hrf_exchange *x = &p->exchanges[e];
        if (hrf_line_cache_reads_source(p, x, a) != hrf_line_cache_reads_source(p, x, b))
            return false;
        if (x->cache_entry < 0)
            continue;
        const struct hrf_line_cache_moves u = hrf_line_cache_moves(p, e, a),
                                          v = hrf_line_cache_moves(p, e, b);
        if (!are_moved_alike(&u.loaded, &v.loaded, u.first_row[0], v.first_row[0]) ||
            !are_moved_alike(&u.stays, &v.stays, u.first_row[0], v.first_row[0]) ||
            !are_moved_alike(&u.added, &v.added, u.first_row[1], v.first_row[1]) ||
            !are_moved_alike(&u.added, &v.added, x->local[a].lo[0], x->local[b].lo[0]))
            return false;
    }
    return true;
}

/* ---- the input rows that a band depends on ---- */

void hrf_line_cache_reach(const struct hrf_partition *p, int32_t band, struct hrf_box *reach)
{
    const struct hrf_graph *graph = p->graph;
    for (int32_t v = 0; v < graph->n_values; v++)
        reach[v] = *hrf_partition_box(p, v, band);
    for (int32_t i = 0; i < p->n_cached && band > 0; i++) {
        const struct hrf_cached_rows *kept = &p->cached[i];
        struct hrf_box there = hrf_box_whole(&graph->values[kept->value].shape);
        there.lo[0] = kept->lo[band - 1];
        there.hi[0] = kept->hi[band - 1];
        reach[kept->value] = hrf_box_hull(&reach[kept->value], &there);
    }
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) {
        const struct hrf_node *node = &graph->nodes[n];
        for (int32_t k = 0; k < node->n_inputs; k++) {
            if (!is_image_at_run_time(p, node->inputs[k]))
                continue;
            const struct hrf_box need = hrf_region_needed(graph, node, k, &reach[node->outputs[0]]);
            reach[node->inputs[k]] = hrf_box_hull(&reach[node->inputs[k]], &need);
        }
    }
}

bool hrf_line_cache_reach_alike(const struct hrf_partition *p, const struct hrf_box *a,
                                const struct hrf_box *b)
{
    for (int32_t v = 0; v < p->graph->n_values; v++) {
        const int32_t n = p->graph->values[v].producer;
        if (hrf_box_is_empty(&a[v]) || hrf_box_is_empty(&b[v])) {
            if (hrf_box_is_empty(&a[v]) != hrf_box_is_empty(&b[v]))
                return false;
            continue;
        }
        if (a[v].hi[0] - a[v].lo[0] != b[v].hi[0] - b[v].lo[0] ||
            (n >= 0 && !hrf_region_are_alike(p->graph, &p->graph->nodes[n], &a[v], &b[v])))
            return false;
    }
    return true;
}

/* ---- the proof ---- */

static int64_t cached_bytes(const struct hrf_partition *p, const struct hrf_cached_rows *kept)
{
    const struct hrf_value *v = &p->graph->values[kept->value];
    return v->shape.dims[0] * kept->n_rows * v->shape.dims[3] * v->shape.dims[1] *
           (int64_t)hrf_dtype_size(v->dtype);
}

static enum hrf_status check_offsets(const struct hrf_partition *p, struct hrf_error *err)
{
    for (int32_t i = 0; i < p->n_cached; i++) {
        const struct hrf_cached_rows *kept = &p->cached[i];
        const int64_t end = i + 1 < p->n_cached ? p->cached[i + 1].offset : p->line_cache_bytes;
        if (kept->offset % HRF_LINE_CACHE_ALIGNMENT != 0 ||
            kept->offset + cached_bytes(p, kept) > end)
            return hrf_error_set(err, HRF_E_BUG, "bands: the kept rows of '%s' run over others",
                                 p->graph->values[kept->value].name);
    }
    return HRF_OK;
}

/* rows[i]: the row of the image that row i of the cache holds; -1: none. */
static enum hrf_status check_band(const struct hrf_partition *p, int32_t e, int32_t band,
                                  int64_t *rows, struct hrf_error *err)
{
    const struct hrf_exchange *x = &p->exchanges[e];
    const struct hrf_line_cache_moves m = hrf_line_cache_moves(p, e, band);
    const char *name = p->graph->values[x->value].name;
    const struct hrf_box own = hrf_box_intersect(&x->local[band], &x->need[band]);
    for (int64_t y = x->need[band].lo[0]; y < x->need[band].hi[0]; y++) {
        const int64_t at = y - m.first_row[0];
        const bool is_loaded = y >= m.loaded.lo[0] && y < m.loaded.hi[0] && at >= 0 &&
                               at < m.room && rows[at] == y;
        if (!is_loaded && (hrf_box_is_empty(&own) || y < own.lo[0] || y >= own.hi[0]))
            return hrf_error_set(err, HRF_E_BUG,
                                 "bands: band %d reads row %lld of '%s', which it has not made and "
                                 "which was not kept",
                                 band, (long long)y, name);
    }
    for (int64_t y = m.stays.lo[0]; y < m.stays.hi[0]; y++) {
        const int64_t from = y - m.first_row[0], to = y - m.first_row[1];
        if (from >= m.room || to < 0 || rows[from] != y)
            return hrf_error_set(err, HRF_E_BUG, "bands: band %d lost the kept row %lld of '%s'",
                                 band, (long long)y, name);
        rows[to] = y;
    }
    for (int64_t y = m.added.lo[0]; y < m.added.hi[0]; y++) {
        const int64_t to = y - m.first_row[1];
        if (y < x->local[band].lo[0] || y >= x->local[band].hi[0] || to < 0 || to >= m.room)
            return hrf_error_set(
                err, HRF_E_BUG,
                "bands: band %d cannot keep row %lld of '%s': it has %lld to %lld, "
                "and there is room for %lld from %lld on",
                band, (long long)y, name, (long long)x->local[band].lo[0],
                (long long)x->local[band].hi[0], (long long)m.room, (long long)m.first_row[1]);
        rows[to] = y;
    }
    return HRF_OK;
}

/* In a band the value's readers come before the exchange that keeps, as in partition_graph.c. */
static enum hrf_status check_value(const struct hrf_partition *p, int32_t i, struct hrf_error *err)
{
    HRF_AUTO_FREE int64_t *rows = hrf_alloc_array((size_t)p->cached[i].n_rows + 1, sizeof *rows);
    for (int64_t y = 0; y < p->cached[i].n_rows; y++)
        rows[y] = -1;
    for (int32_t band = 0; band < p->n_ranks; band++)
        for (int keeps = 0; keeps < 2; keeps++)
            for (int32_t e = 0; e < p->n_exchanges; e++)
                if (p->exchanges[e].cache_entry == i && p->exchanges[e].keeps == keeps)
                    HRF_TRY(check_band(p, e, band, rows, err));
    return HRF_OK;
}

enum hrf_status hrf_line_cache_check(const struct hrf_partition *p, struct hrf_error *err)
{
    HRF_TRY(check_offsets(p, err));
    for (int32_t i = 0; i < p->n_cached; i++)
        HRF_TRY(check_value(p, i, err));
    return HRF_OK;
}
