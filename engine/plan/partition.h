/* partition.h - divides one graph over many ranks: each rank gets a graph of its own.
 *
 * Pure arithmetic over shapes. Values that are images are split: every rank of the stage owns a
 * part of the rows and columns. The parts are as equal as possible; some are empty if there are too
 * few rows. To compute its part of an output a rank needs a box of the input (region.h). If the
 * rank has not computed exactly that box, an EXCHANGE brings it: the intersections of the needed
 * box with the parts of other ranks. Halos, stage boundaries, gathers and crops are all exchanges.
 * Only the true border of the image is padded, so a kernel need not know that it computes a part.
 * Global pooling becomes partial sums, an ALL_REDUCE and a division. A node that cannot be split is
 * computed whole by every rank of its stage, unless it only serves an output that is a sum over the
 * batch (the gradient to a weight): such an output has one owner among the ranks of the stage,
 * which alone gets the sum and computes what follows it. Owners have about equal numbers of bytes.
 *
 * If a value is `recomputed`, a rank computes all that it needs of it, more than its own share, and
 * nothing is exchanged. With every value recomputed the parts can run one after the other on one
 * device (bands); with some values recomputed one wider halo serves several convolutions. Bands can
 * also keep rows for one another (line_cache.h). If a node is `overlapped`, it computes the part
 * that needs no other rank while its exchange is in flight (plan.h). halos.h decides which of these
 * pays.
 */
#ifndef HRF_ENGINE_PLAN_PARTITION_H
#define HRF_ENGINE_PLAN_PARTITION_H

#include "engine/ir/graph.h"
#include "engine/plan/region.h"
#include "engine/plan/stages.h"
#include "schema/settings/layout.h"

/* Which rank of the group has which box of a value, and which rank needs which. */
struct hrf_exchange {
    int32_t value; /* in the whole graph */
    int64_t n_images, channels;
    /* Of each pixel, channels [first_channel, first_channel + channels) of all_channels are
     * moved. */
    int64_t first_channel, all_channels;
    size_t element_bytes;
    struct hrf_box *have;  /* [n_ranks] the box that each rank sends from; disjoint */
    struct hrf_box *local; /* [n_ranks] all that each rank has; contains `have` */
    struct hrf_box *need;  /* [n_ranks] */
    /* For bands (line_cache.h). source: the exchange whose output may already contain the needed
     * rows, or HRF_NO_EXCHANGE. cache_entry: index into partition.cached of the rows that earlier
     * bands computed, or -1. keeps: whether this exchange stores rows there for later bands. */
    int32_t source, cache_entry;
    bool keeps;
};

/* A value's rows in the line cache: after band r rows [lo[r], hi[r]) are kept, at the beginning of
 * the value's own part of that memory. */
struct hrf_cached_rows {
    int32_t value;
    int64_t n_rows;   /* capacity: the most rows kept after any band */
    int64_t offset;   /* bytes, a multiple of HRF_LINE_CACHE_ALIGNMENT */
    int64_t *lo, *hi; /* [n_ranks] each, one allocation */
};
enum { HRF_LINE_CACHE_ALIGNMENT = 64 };

/* A sum or maximum over those of the ranks [first, first + n) that contribute. Every one of these
 * ranks gets the result, or its owner alone, computed in rank order, so that it is bit-identical
 * everywhere. */
struct hrf_reduce {
    /* Instead over the groups of data=: `n` of them, and in each the rank of the same number. All
     * contribute, in the order of the groups; `first` and `gives` are not used. */
    bool is_over_groups;
    int32_t first, n;
    int32_t owner; /* the only rank that gets the result; HRF_ALL_RANKS: every one does */
    bool is_max;
    enum hrf_dtype dtype; /* sums: F64, F32, S32; maxima: F32, F16, B16, S8, U8 */
    int64_t count;
    bool *gives; /* [n_ranks] which ranks contribute */
};
enum { HRF_NO_EXCHANGE = -1, HRF_ALL_RANKS = -1 };

/* An attention over keys and values that come part by part: every rank adds the parts in the same
 * order, that of the tokens, so that the result is bit-identical to that of one rank. Each part is
 * an exchange that brings all ranks of the stage the same tokens. */
struct hrf_ring {
    int32_t n_parts; /* 0: the node is no such attention */
    int32_t *feeds;  /* [2 * n_parts]: the exchanges of each part's keys and values */
};

struct hrf_partition {
    const struct hrf_graph *graph; /* borrowed: the whole */
    struct hrf_layout_plan layout;
    bool keeps_outputs;     /* outputs are not gathered: each rank's are its own parts */
    int32_t n_ranks;        /* of one group: stages * rows * columns * tensor */
    int32_t n_nodes;        /* of the graph, which may be gone before the partition */
    int32_t *stage_of_node; /* [nodes] */
    bool *is_split;         /* [values] */
    bool *is_recomputed;    /* [values] */
    bool *is_reduced;       /* [nodes] its output is the sum or maximum of the ranks' shares */
    bool *is_overlapped;    /* [nodes] the interior is computed during the exchange */
    int32_t *owners; /* [values] the only rank that computes it; HRF_ALL_RANKS: of its stage */
    struct hrf_box
        *boxes; /* [values][n_ranks] the box that each rank computes or is fed; may be empty */
    struct hrf_exchange *exchanges;
    int32_t n_exchanges;
    struct hrf_reduce *reduces;
    int32_t n_reduces;
    int32_t *first_feed;    /* [nodes] index in `feeds` of the node's first input */
    int32_t *feeds;         /* the exchange that brings each input, or HRF_NO_EXCHANGE */
    int32_t *reduce_of;     /* [nodes] the reduction of a global pool or an attention, or -1 */
    struct hrf_ring *rings; /* [nodes] */
    int32_t *output_feeds;  /* [graph outputs] */
    int32_t output_rank;    /* has the network's outputs; but see hrf_partition_output_rank() */
    int32_t *output_ranks;  /* [graph outputs] */
    /* [values][n_ranks] rows that are computed by the end of each band; NULL: ranks run at the same
     * time, not as bands one after the other */
    int64_t *fronts;
    struct hrf_cached_rows *cached;
    int32_t n_cached;
    int64_t line_cache_bytes;
};

struct hrf_partition_options {
    const bool *recompute; /* [values] recompute the value in place of an exchange; NULL: none */
    /* [nodes] compute the interior of the window during its exchange; NULL: none */
    const bool *overlap;
    const struct hrf_stage_costs *costs; /* costs to cut stages by; NULL: rough estimates */
    const int32_t *stage_of_node;        /* [nodes] stages that were cut before; NULL: cut now */
    bool keep_outputs;                   /* do not gather the outputs on one rank */
    /* [n_ranks] ranks are bands that run one after the other and keep what is not recomputed
     * (line_cache.h); entry r is the number of rows of the graph's inputs that have been fed by the
     * end of band r. NULL: ranks run at the same time. */
    const int64_t *fronts;
};

/* `graph` is the graph of one micro-batch after all passes, with shapes known, and divided over
 * the layout's `tensor` ranks by hrf_tensor_split(), if there are several. Uses the rows, columns,
 * tensor and stages of the layout. `options` may be NULL. HRF_E_USER if there are more stages than
 * nodes. */
HRF_CHECKED enum hrf_status hrf_partition_create(const struct hrf_graph *graph,
                                                 const struct hrf_layout_plan *layout,
                                                 const struct hrf_partition_options *options,
                                                 struct hrf_partition **out, struct hrf_error *err);
void hrf_partition_destroy(struct hrf_partition *partition);
HRF_DEFINE_AUTO(hrf_partition)

/* Facts from the partition about one node of a rank's graph. */
struct hrf_rank_node {
    int32_t row; /* EXCHANGE, ALL_REDUCE: index in the partition's table; else -1 */
    /* EXCHANGE: the part of the output that the rank has itself, available once the exchange has
     * begun. For a window that reads the output of the EXCHANGE just before it: its interior, the
     * part of its output that needs nothing from other ranks. The interior is computed while the
     * exchange is in flight, the rest after it (plan.h). Empty: everything is computed at once. */
    struct hrf_box own;
    /* EXCHANGE: the byte offset in the output at which the whole input lies contiguously, and that
     * in the input at which the whole output does; -1: nowhere. */
    int64_t input_at, output_at;
};
struct hrf_rank_map {
    const struct hrf_partition *partition; /* borrowed */
    int32_t rank;
    int32_t group;               /* of data=; 0 until set */
    struct hrf_rank_node *nodes; /* for the first n_nodes nodes of the graph */
    int32_t n_nodes;
    /* The first node of the backward pass; the number of nodes: there is none. What other ranks get
     * of the forward pass has been sent before it. */
    int32_t first_backward;
};
void hrf_rank_map_destroy(struct hrf_rank_map *map);
HRF_DEFINE_AUTO(hrf_rank_map)
/* The facts of node n. If `map` is NULL or the node was added later: facts that say "none". */
const struct hrf_rank_node *hrf_rank_map_node(const struct hrf_rank_map *map, int32_t n);

/* Builds the graph of one rank. Its inputs are the boxes that the rank is fed (an empty box: no
 * input), and its outputs those that are on it (hrf_partition_output_rank()). Constants are
 * borrowed from the whole graph, which must outlive this one. *map_out describes its nodes. */
HRF_CHECKED enum hrf_status hrf_partition_graph(const struct hrf_partition *partition, int32_t rank,
                                                struct hrf_graph **out,
                                                struct hrf_rank_map **map_out,
                                                struct hrf_error *err);

/* The box of input k that the rank's part of the node needs. */
struct hrf_box hrf_partition_needed(const struct hrf_partition *partition,
                                    const struct hrf_node *node, int32_t k, int32_t rank);

/* Checks that what every node needs is what it is fed, every needed box is covered exactly once,
 * the `have` boxes are disjoint, the ranks of reductions are in range, and the parts of a split
 * value cover it. HRF_E_BUG names the value and the ranks. */
HRF_CHECKED enum hrf_status hrf_partition_check(const struct hrf_partition *partition,
                                                struct hrf_error *err);

/* *interior: within the rank's part of node n's output, the part that needs only rows and columns
 * that the rank has itself. False: it is empty or everything, the node is no window, or an earlier
 * node has already waited for the exchange. */
bool hrf_partition_interior(const struct hrf_partition *partition, int32_t n, int32_t rank,
                            struct hrf_box *interior);

static inline const struct hrf_box *hrf_partition_box(const struct hrf_partition *p, int32_t value,
                                                      int32_t rank)
{
    return &p->boxes[(int64_t)value * p->n_ranks + rank];
}
/* The rank that has output i. Sums over the batch and statistics of it, of which each stage of a
 * training step computes its own, do not pass through the last stage. */
static inline int32_t hrf_partition_output_rank(const struct hrf_partition *p, int32_t i)
{
    return p->output_ranks[i];
}
/* True if, of the ranks that have the same part of an image (tensor=), this is the one that gives
 * the value to others. */
bool hrf_partition_gives(const struct hrf_partition *partition, int32_t value, int32_t rank);
/* The box that rank `from` sends to rank `to`; may be empty. */
struct hrf_box hrf_exchange_sent(const struct hrf_exchange *exchange, int32_t from, int32_t to);
int64_t hrf_exchange_bytes(const struct hrf_exchange *exchange, const struct hrf_box *box);
/* The byte offset within box `outer` of the value at which box `inner` lies contiguously; -1: it
 * does not. */
int64_t hrf_exchange_offset(const struct hrf_exchange *exchange, const struct hrf_box *outer,
                            const struct hrf_box *inner);
/* True if the exchange makes a new value on this rank, because what it has differs from what it
 * needs. */
bool hrf_exchange_takes(const struct hrf_exchange *exchange, int32_t rank);

#endif
