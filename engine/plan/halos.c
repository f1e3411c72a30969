/* halos.c - chooses fused halos and overlap by dynamic programming and simulation (halos.h). */
#include "engine/plan/halos.h"

#include "engine/plan/parts.h"
#include "engine/plan/predict.h"

#include <float.h>
#include <math.h>

/* SAMPLES is the number of ranks of a stage whose cost is computed: both ends and some in the
 * middle. After PATIENCE lengths of runs without gain no longer runs are tried (two windows may be
 * that far apart). Gains below LEAST_GAIN of the whole are not worth a wider halo or another
 * kernel. */
enum { SAMPLES = 4, PATIENCE = 4 };
static const double LEAST_GAIN = 1e-3;

struct chooser {
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
    const struct hrf_partition *plain;
    const struct hrf_graph *graph;
    int32_t *cuts; /* [n_cuts] section i is of nodes [cuts[i], cuts[i + 1]) */
    int32_t n_cuts;
    bool *recompute; /* [values] */
    bool *overlap;   /* [nodes] */
};

/* ---- costs of a partition ---- */

static int32_t sample(const struct hrf_partition *p, int32_t stage, int32_t i)
{
    const int32_t n = hrf_layout_stage_ranks(&p->layout);
    const int32_t ranks[SAMPLES] = { 0, n > 1, n / 2, n - 1 };
    return stage * n + ranks[i];
}

/* Finds the seconds that the node takes for part `box` of its output, of n_images images at once.
 * */
static enum hrf_status seconds_of(const struct chooser *c, const struct hrf_node *node,
                                  const struct hrf_box *box, int64_t n_images, double *seconds,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) part = NULL;
    struct hrf_cost cost = { .seconds = 0 };
    if (!hrf_box_is_empty(box)) {
        HRF_TRY(hrf_part_graph(c->graph, node, box, n_images, &part, err));
        HRF_TRY(hrf_cost_of(c->costs, part, &part->nodes[0], &cost, err));
    }
    *seconds = cost.seconds;
    return HRF_OK;
}

/* Seconds that the rank takes to copy its own rows for an exchange. */
static double copying(const struct chooser *c, const struct hrf_exchange *x, int32_t rank)
{
    const struct hrf_box kept = hrf_box_intersect(&x->local[rank], &x->need[rank]);
    if (!hrf_exchange_takes(x, rank) ||
        hrf_exchange_offset(x, &x->need[rank], &x->local[rank]) >= 0 ||
        !(c->machine->copy_rate > 0))
        return 0;
    return (double)hrf_exchange_bytes(x, &kept) / c->machine->copy_rate;
}

/* Finds how long an exchange keeps a rank busy, and when its last message arrives. */
static void exchange_seconds(const struct chooser *c, const struct hrf_partition *p, int32_t e,
                             int32_t rank, double *busy, double *transit)
{
    const struct hrf_exchange *x = &p->exchanges[e];
    *busy = copying(c, x, rank);
    *transit = 0;
    for (int32_t q = 0; q < p->n_ranks; q++) {
        const struct hrf_box parts[2] = { hrf_exchange_sent(x, rank, q),
                                          hrf_exchange_sent(x, q, rank) };
        for (int i = 0; i < 2; i++) {
            const double n_bytes = (double)hrf_exchange_bytes(x, &parts[i]);
            const struct hrf_link *link = hrf_machine_link(
                c->machine, hrf_machine_placement(c->machine, rank, q), n_bytes);
            if (hrf_box_is_empty(&parts[i]) || link == NULL)
                continue;
            const struct hrf_link_point point = hrf_link_at(link, n_bytes);
            *busy += i == 0 ? point.send : point.receive;
            *transit = i == 1 ? fmax(*transit, point.transit) : *transit;
        }
    }
}

/* Finds the time of node n in parts (parts.h), image by image, including the wait for a message
 * that takes `transit` seconds and arrives while the interior is computed. */
static enum hrf_status overlapped_seconds(const struct chooser *c, const struct hrf_partition *p,
                                          int32_t n, int32_t rank, const struct hrf_box *in,
                                          double transit, double *seconds, struct hrf_error *err)
{
    const struct hrf_node *node = &c->graph->nodes[n];
    const struct hrf_box *box = hrf_partition_box(p, node->outputs[0], rank);
    const double n_images = (double)c->graph->values[node->outputs[0]].shape.dims[0];
    double sum = 0;
    for (enum hrf_part part = HRF_PART_INTERIOR; part < HRF_N_PARTS; part++) {
        const struct hrf_box of = hrf_part_box(box, in, part);
        int64_t copied;
        double one;
        HRF_TRY(seconds_of(c, node, &of, 1, &one, err));
        (void)hrf_part_copies(c->graph, node, part, &of, &copied);
        if (!hrf_box_is_empty(&of) && c->machine->copy_rate > 0)
            one += (double)copied / n_images / c->machine->copy_rate;
        sum += part == HRF_PART_INTERIOR ? fmax(one * n_images, transit) : one * n_images;
    }
    *seconds = sum;
    return HRF_OK;
}

/* Finds the time of the node and of the exchange that it is the first to wait for, on the slowest
 * rank: *plain if they run one after the other, *overlapped if the interior is computed during the
 * exchange. */
static enum hrf_status node_seconds(const struct chooser *c, const struct hrf_partition *p,
                                    int32_t n, double *plain, double *overlapped,
                                    struct hrf_error *err)
{
    const struct hrf_node *node = &c->graph->nodes[n];
    *plain = *overlapped = 0;
    for (int32_t i = 0; i < SAMPLES; i++) {
        const int32_t rank = sample(p, p->stage_of_node[n], i);
        double whole = 0, waited = 0, in_parts;
        struct hrf_box interior;
        if (p->is_split[node->outputs[0]])
            HRF_TRY(seconds_of(c, node, hrf_partition_box(p, node->outputs[0], rank),
                               c->graph->values[node->outputs[0]].shape.dims[0], &whole, err));
        for (int32_t k = 0; k < node->n_inputs; k++) {
            const int32_t at = p->first_feed[n] + k, e = p->feeds[at];
            bool is_first = e != HRF_NO_EXCHANGE;
            for (int32_t f = 0; f < at && is_first; f++)
                is_first = p->feeds[f] != e;
            if (!is_first)
                continue;
            double busy, transit;
            exchange_seconds(c, p, e, rank, &busy, &transit);
            whole += busy;
            waited += transit;
        }
        in_parts = whole + waited;
        if (waited > 0 && hrf_partition_interior(p, n, rank, &interior)) {
            double busy, transit;
            exchange_seconds(c, p, p->feeds[p->first_feed[n]], rank, &busy, &transit);
            HRF_TRY(overlapped_seconds(c, p, n, rank, &interior, transit, &in_parts, err));
            in_parts += busy;
        }
        *plain = fmax(*plain, whole + waited);
        *overlapped = fmax(*overlapped, in_parts);
    }
    return HRF_OK;
}

static enum hrf_status range_seconds(const struct chooser *c, const struct hrf_partition *p,
                                     int32_t first, int32_t end, double *seconds,
                                     struct hrf_error *err)
{
    *seconds = 0;
    for (int32_t n = first; n < end; n++) {
        double plain, overlapped;
        HRF_TRY(node_seconds(c, p, n, &plain, &overlapped, err));
        *seconds += fmin(plain, overlapped);
    }
    return HRF_OK;
}

/* ---- sections ---- */

/* True if a section may begin at node n: a single value crosses there, or a stage begins. */
static bool is_cut(const struct chooser *c, const int32_t *last, int32_t n)
{
    const struct hrf_graph *graph = c->graph;
    const int32_t *stage = c->plain->stage_of_node;
    int32_t crossing = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        crossing += graph->values[v].data == NULL && graph->values[v].producer < n && last[v] >= n;
    return crossing == 1 || stage[n] != stage[n - 1];
}

static void find_cuts(struct chooser *c)
{
    const struct hrf_graph *graph = c->graph;
    HRF_AUTO_FREE int32_t *last = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *last);
    c->cuts = hrf_alloc_array((size_t)graph->n_nodes + 2, sizeof *c->cuts);
    hrf_graph_find_last_readers(graph, last);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        last[graph->outputs[i]] = graph->n_nodes;
    c->cuts[c->n_cuts++] = 0;
    for (int32_t n = 1; n < graph->n_nodes; n++)
        if (is_cut(c, last, n))
            c->cuts[c->n_cuts++] = n;
    c->cuts[c->n_cuts] = graph->n_nodes;
}

static bool is_in_one_stage(const struct chooser *c, int32_t first, int32_t n)
{
    const int32_t *stage = c->plain->stage_of_node;
    return stage[c->cuts[first]] == stage[c->cuts[first + n] - 1];
}

/* Marks the values of sections [first, first + n), except the result of the last one, as
 * recomputed. */
static void fuse(const struct chooser *c, int32_t first, int32_t n, bool *recompute)
{
    for (int32_t i = c->cuts[first]; i < c->cuts[first + n] - 1; i++)
        recompute[c->graph->nodes[i].outputs[0]] = true;
}

static enum hrf_status make(const struct chooser *c, const bool *recompute, const bool *overlap,
                            struct hrf_partition **out, struct hrf_error *err)
{
    const struct hrf_partition_options options = { .recompute = recompute,
                                                   .overlap = overlap,
                                                   .stage_of_node = c->plain->stage_of_node,
                                                   .keep_outputs = c->plain->keeps_outputs };
    return hrf_partition_create(c->graph, &c->plain->layout, &options, out, err);
}

/* ---- the cheapest division ---- */

/* best[first][n - 1]: least seconds for sections [first, first + n). taken: length of the first run
 * in that division; 0: a single section that exchanges before each window. */
struct division {
    double *best;
    int32_t *taken;
};
static size_t at(int32_t first, int32_t n)
{
    return (size_t)first * HRF_HALOS_MOST_SECTIONS + (size_t)n - 1;
}

/* Prices runs of n sections: the network from section `offset` on is divided into such runs. */
static enum hrf_status price_runs(const struct chooser *c, int32_t n, int32_t offset,
                                  struct division *d, bool *has_gained, struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO_FREE bool *recompute = hrf_calloc((size_t)c->graph->n_values + 1, sizeof *recompute);
    for (int32_t i = offset; i + n <= c->n_cuts; i += n)
        if (is_in_one_stage(c, i, n))
            fuse(c, i, n, recompute);
    HRF_TRY(make(c, recompute, NULL, &p, err));
    for (int32_t i = offset; i + n <= c->n_cuts; i += n) {
        double seconds;
        if (!is_in_one_stage(c, i, n))
            continue;
        HRF_TRY(range_seconds(c, p, c->cuts[i], c->cuts[i + n], &seconds, err));
        if (seconds >= d->best[at(i, n)] * (1 - LEAST_GAIN))
            continue;
        d->best[at(i, n)] = seconds;
        d->taken[at(i, n)] = n;
        *has_gained = true;
    }
    return HRF_OK;
}

static enum hrf_status price_plain(const struct chooser *c, struct division *d,
                                   struct hrf_error *err)
{
    for (int32_t i = 0; i < c->n_cuts; i++)
        HRF_TRY(range_seconds(c, c->plain, c->cuts[i], c->cuts[i + 1], &d->best[at(i, 1)], err));
    return HRF_OK;
}

/* Divides n sections into two shorter ranges where that takes less time. */
static void join(const struct chooser *c, int32_t n, struct division *d)
{
    for (int32_t i = 0; i + n <= c->n_cuts; i++) {
        d->best[at(i, n)] = DBL_MAX;
        for (int32_t m = 1; m < n; m++) {
            const double seconds = d->best[at(i, m)] + d->best[at(i + m, n - m)];
            if (seconds >= d->best[at(i, n)])
                continue;
            d->best[at(i, n)] = seconds;
            d->taken[at(i, n)] = -m; /* the two ranges meet at section m */
        }
    }
}

static void take_run(struct chooser *c, const struct division *d, int32_t first, int32_t n)
{
    const int32_t taken = d->taken[at(first, n)];
    if (taken > 0) {
        fuse(c, first, n, c->recompute);
    } else if (taken < 0) {
        take_run(c, d, first, -taken);
        take_run(c, d, first - taken, n + taken);
    }
}

/* Takes the best division of the whole network into runs of at most `most` sections. */
static void take_best(struct chooser *c, const struct division *d, int32_t most)
{
    const size_t n = (size_t)c->n_cuts + 1;
    HRF_AUTO_FREE double *until = hrf_alloc_array(n, sizeof *until);
    HRF_AUTO_FREE int32_t *last = hrf_calloc(n, sizeof *last);
    until[0] = 0;
    for (int32_t end = 1; end <= c->n_cuts; end++) {
        until[end] = DBL_MAX;
        for (int32_t m = 1; m <= most && m <= end; m++) {
            const double seconds = until[end - m] + d->best[at(end - m, m)];
            if (seconds < until[end]) {
                until[end] = seconds;
                last[end] = m;
            }
        }
    }
    for (int32_t end = c->n_cuts; end > 0; end -= last[end])
        take_run(c, d, end - last[end], last[end]);
}

static enum hrf_status divide(struct chooser *c, struct division *d, struct hrf_error *err)
{
    int32_t n = 1, without_gain = 0;
    HRF_TRY(price_plain(c, d, err));
    for (; n <= HRF_HALOS_MOST_SECTIONS && n <= c->n_cuts && without_gain < PATIENCE; n++) {
        bool has_gained = false;
        if (n > 1)
            join(c, n, d);
        for (int32_t offset = 0; offset < n; offset++)
            HRF_TRY(price_runs(c, n, offset, d, &has_gained, err));
        without_gain = has_gained ? 0 : without_gain + 1;
    }
    take_best(c, d, n - 1);
    return HRF_OK;
}

/* Sets *out to whether saving all exchanges would gain more than LEAST_GAIN of the computing time.
 * */
static enum hrf_status could_gain(const struct chooser *c, bool *out, struct hrf_error *err)
{
    double computing = 0, exchanging = 0;
    for (int32_t e = 0; e < c->plain->n_exchanges; e++) {
        double busy, transit, longest = 0;
        for (int32_t r = 0; r < c->plain->n_ranks; r++) {
            exchange_seconds(c, c->plain, e, r, &busy, &transit);
            longest = fmax(longest, busy + transit);
        }
        exchanging += longest;
    }
    HRF_TRY(range_seconds(c, c->plain, 0, c->graph->n_nodes, &computing, err));
    *out = exchanging > LEAST_GAIN * computing;
    return HRF_OK;
}

static enum hrf_status choose_fused(struct chooser *c, struct hrf_error *err)
{
    find_cuts(c);
    const size_t n = (size_t)(c->n_cuts + 1) * HRF_HALOS_MOST_SECTIONS;
    HRF_AUTO_FREE double *best = hrf_calloc(n, sizeof *best);
    HRF_AUTO_FREE int32_t *taken = hrf_calloc(n, sizeof *taken);
    struct division d = { best, taken };
    return divide(c, &d, err);
}

/* ---- overlap ---- */

static enum hrf_status choose_overlap(const struct chooser *c, const struct hrf_partition *p,
                                      struct hrf_error *err)
{
    for (int32_t n = 0; n < c->graph->n_nodes; n++) {
        double plain, overlapped;
        HRF_TRY(node_seconds(c, p, n, &plain, &overlapped, err));
        c->overlap[n] = overlapped < plain;
    }
    return HRF_OK;
}

/* ---- all of it ---- */

/* Seconds in total, and seconds of computing on the rank that computes longest. */
struct times {
    double seconds, computing;
};

/* Simulates one micro-batch of the partition, without a pipeline. */
static enum hrf_status simulated(const struct chooser *c, struct hrf_partition *p,
                                 struct times *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_prediction) prediction = NULL;
    const struct hrf_layout_plan layout = p->layout;
    p->layout.data = p->layout.microbatches = 1;
    p->layout.bidirectional = false;
    const enum hrf_status status = hrf_predict(p, 1, c->costs, c->machine, &prediction, err);
    p->layout = layout;
    HRF_TRY(status);
    *out = (struct times){ .seconds = prediction->seconds };
    for (int32_t r = 0; r < prediction->n_ranks; r++)
        out->computing = fmax(out->computing,
                              prediction->simulation->ranks[r].seconds[HRF_SIM_COMPUTE]);
    return HRF_OK;
}

static enum hrf_status alone(const struct chooser *c, double *seconds, struct hrf_error *err)
{
    *seconds = 0;
    for (int32_t n = 0; n < c->graph->n_nodes; n++) {
        struct hrf_cost cost;
        HRF_TRY(hrf_cost_of(c->costs, c->graph, &c->graph->nodes[n], &cost, err));
        *seconds += cost.seconds;
    }
    return HRF_OK;
}

/* Replaces *best by the partition with the present flags if that is faster and no rank computes
 * longer than `most` seconds. */
static enum hrf_status keep_sooner(const struct chooser *c, const bool *recompute, double most,
                                   struct hrf_partition **best, struct times *times,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO(hrf_partition) overlapped = NULL;
    struct times fresh;
    HRF_TRY(make(c, recompute, NULL, &p, err));
    HRF_TRY(choose_overlap(c, p, err));
    HRF_TRY(make(c, recompute, c->overlap, &overlapped, err));
    HRF_TRY(simulated(c, overlapped, &fresh, err));
    if (fresh.seconds >= times->seconds * (1 - LEAST_GAIN) || fresh.computing > most)
        return HRF_OK;
    hrf_partition_destroy(*best);
    HRF_MOVE(*best, overlapped);
    *times = fresh;
    return HRF_OK;
}

static enum hrf_status choose(struct chooser *c, struct hrf_partition **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) best = NULL;
    struct times times;
    double single;
    bool worth_it;
    HRF_TRY(could_gain(c, &worth_it, err));
    if (!worth_it)
        return HRF_OK;
    HRF_TRY(make(c, NULL, NULL, &best, err));
    HRF_TRY(simulated(c, best, &times, err));
    HRF_TRY(alone(c, &single, err));
    /* A layout in which every rank computes everything is useless: at most half of the time that
     * splitting saves may be spent on redundant work. */
    const double most = fmax((times.computing + single) / 2, times.computing);
    HRF_TRY(keep_sooner(c, NULL, DBL_MAX, &best, &times, err));
    HRF_TRY(choose_fused(c, err));
    HRF_TRY(keep_sooner(c, c->recompute, most, &best, &times, err));
    hrf_partition_destroy(*out);
    HRF_MOVE(*out, best);
    return HRF_OK;
}

static enum hrf_status overlap_all(struct chooser *c, struct hrf_partition **out,
                                   struct hrf_error *err)
{
    struct hrf_partition *p = NULL;
    for (int32_t n = 0; n < c->graph->n_nodes; n++)
        c->overlap[n] = true; /* where there is an interior */
    HRF_TRY(make(c, NULL, c->overlap, &p, err));
    hrf_partition_destroy(*out);
    *out = p;
    return HRF_OK;
}

enum hrf_status hrf_halos_choose(const struct hrf_cost_table *costs,
                                 const struct hrf_machine *machine, struct hrf_partition **plain,
                                 struct hrf_error *err)
{
    const struct hrf_layout_plan *l = &(*plain)->layout;
    struct chooser c = {
        .costs = costs, .machine = machine, .plain = *plain, .graph = (*plain)->graph
    };
    if (l->halos == HRF_HALOS_PLAIN || hrf_layout_image_parts(l) == 1)
        return HRF_OK;
    c.recompute = hrf_calloc((size_t)c.graph->n_values + 1, sizeof *c.recompute);
    c.overlap = hrf_calloc((size_t)c.graph->n_nodes + 1, sizeof *c.overlap);
    const enum hrf_status status = l->halos == HRF_HALOS_OVERLAP ? overlap_all(&c, plain, err)
                                                                 : choose(&c, plain, err);
    hrf_free(c.recompute);
    hrf_free(c.overlap);
    hrf_free(c.cuts);
    return status;
}
