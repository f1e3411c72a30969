/* partition.h - one graph for many ranks: for each rank a graph of its own, of the same kind.
 *
 * Pure arithmetic over shapes. A value that is an image is split: every rank of its stage owns a
 * part of its rows and columns, as even as can be, none where there are too few. For its part of an
 * output a rank needs a box of the input (region.h); where it has not computed just that box, an
 * EXCHANGE brings it: the intersection of what others own with what is needed. Halos, stage
 * boundaries, gathers and crops are all that. Pads stay only at the image's true border, so kernels
 * need not know that they see a part. Global pooling becomes partial sums, an ALL_REDUCE and a
 * division. What cannot be split is computed whole by every rank of the stage.
 *
 * Where a value is `recomputed` a rank computes all that it will need of it itself, more than its
 * own share, and nothing is exchanged: with every value recomputed the parts can be run one after
 * the other on one device (bands), with some of them a wider halo serves several convolutions.
 * Bands can keep rows for one another instead (kept.h).
 * Where a node is `overlapped` it computes what needs nothing of others while its exchange
 * is under way (plan.h). Which of both pays is halos.h's to say.
 */
#ifndef HRF_ENGINE_PLAN_PARTITION_H
#define HRF_ENGINE_PLAN_PARTITION_H

#include "engine/ir/graph.h"
#include "engine/plan/layout.h"
#include "engine/plan/region.h"
#include "engine/plan/stages.h"

/* Who has which box of a value and who needs which; of all ranks of the group. */
struct hrf_exchange {
    int32_t value; /* in the whole graph */
    int64_t n_images, channels;
    size_t element_bytes;
    struct hrf_box *have;  /* [n_ranks] what each gives to others; disjoint */
    struct hrf_box *local; /* [n_ranks] what each has; contains `have` */
    struct hrf_box *need;  /* [n_ranks] */
    /* Of bands (kept.h): the exchange that has it where it holds all that is needed, or
     * HRF_NO_EXCHANGE; the row of `kept` that gives what earlier bands made, or -1; and whether
     * what later bands need is put there. */
    int32_t source, kept;
    bool keeps;
};

/* Rows of a value that bands keep for later ones: [lo[r], hi[r]) of them after band r, at the
 * beginning of a place of its own in the kept memory. */
struct hrf_kept {
    int32_t value;
    int64_t n_rows;   /* room: the most there are after any band */
    int64_t offset;   /* bytes, a multiple of HRF_KEPT_ALIGNMENT */
    int64_t *lo, *hi; /* [n_ranks] one block */
};
enum { HRF_KEPT_ALIGNMENT = 64 };

/* A sum or maximum over the values of ranks [first, first + n) that have one, on each of them,
 * in the order of ranks: the same bits everywhere. */
struct hrf_reduce {
    int32_t first, n;
    bool is_max;
    enum hrf_dtype dtype; /* sums: F64, S32; maxima: F32, F16, B16, S8, U8 */
    int64_t count;
    bool *gives; /* [n_ranks] */
};

enum { HRF_NO_EXCHANGE = -1 };

struct hrf_partition {
    const struct hrf_graph *graph; /* borrowed: the whole */
    struct hrf_layout_plan layout;
    bool keeps_outputs;     /* every rank's outputs are its own parts of the network's */
    int32_t n_ranks;        /* of one group: stages x rows x columns */
    int32_t *stage_of_node; /* [nodes] */
    bool *is_split;         /* [values] */
    bool *is_recomputed;    /* [values] */
    bool *is_overlapped;    /* [nodes] what needs no other rank is computed during its exchange */
    struct hrf_box *boxes; /* [values][n_ranks] what each rank computes or is fed; empty: nothing */
    struct hrf_exchange *exchanges;
    int32_t n_exchanges;
    struct hrf_reduce *reduces;
    int32_t n_reduces;
    int32_t *first_feed;   /* [nodes] where its inputs begin in `feeds` */
    int32_t *feeds;        /* the exchange that brings an input, or HRF_NO_EXCHANGE */
    int32_t *reduce_of;    /* [nodes] a global pool's or an attention's reduction, or -1 */
    int32_t *output_feeds; /* [graph outputs] */
    int32_t output_rank;   /* which gives the network's outputs */
    /* [values][n_ranks] rows that are made by the end of each band; NULL: not in turn */
    int64_t *fronts;
    struct hrf_kept *kept;
    int32_t n_kept;
    int64_t kept_bytes;
};

struct hrf_partition_wishes {
    const bool *recompute; /* [values] to recompute rather than exchange; NULL: none */
    /* [nodes] windows whose interior is computed while what they wait for is under way; NULL: none
     */
    const bool *overlap;
    const struct hrf_stage_costs *costs; /* what stages are cut by; NULL: rough ones */
    const int32_t *stage_of_node;        /* [nodes] stages that are cut already; NULL: not yet */
    bool keep_outputs;                   /* do not gather the outputs on one rank */
    /* [n_ranks] rows of the graph's inputs by the end of which each rank begins: ranks are bands
     * that run one after the other, and what is not recomputed is kept (kept.h). NULL: ranks run at
     * once. */
    const int64_t *fronts;
};

/* `graph`: after all passes, shapes known (of one micro-batch). Uses the layout's rows, columns and
 * stages. `wishes`: NULL: none. HRF_E_USER when there are more stages than nodes. */
HRF_CHECKED enum hrf_status hrf_partition_create(const struct hrf_graph *graph,
                                                 const struct hrf_layout_plan *layout,
                                                 const struct hrf_partition_wishes *wishes,
                                                 struct hrf_partition **out, struct hrf_error *err);
void hrf_partition_destroy(struct hrf_partition *partition);
HRF_DEFINE_AUTO(hrf_partition)

/* What the partition says of a node of a rank's graph. */
struct hrf_rank_node {
    int32_t row; /* EXCHANGE, ALL_REDUCE: in the partition's table; else -1 */
    /* EXCHANGE: the part of the output that the rank has itself, there once it has begun. Of a
     * window whose input the EXCHANGE just before it gives: its interior, the part of the output
     * that needs nothing else. It is computed while the exchange is under way, the rest after it
     * (plan.h). Empty: everything is computed at once. */
    struct hrf_box own;
    /* EXCHANGE: bytes into the output where all of the input stands, and into the input where all
     * of the output stands; -1: nowhere. */
    int64_t input_at, output_at;
};
struct hrf_rank_map {
    const struct hrf_partition *partition; /* borrowed */
    int32_t rank;
    struct hrf_rank_node *nodes; /* of the first n_nodes nodes of the graph */
    int32_t n_nodes;
};
void hrf_rank_map_destroy(struct hrf_rank_map *map);
HRF_DEFINE_AUTO(hrf_rank_map)
/* Of node n. `map` NULL, or a node that was added later: nothing of all that. */
const struct hrf_rank_node *hrf_rank_map_node(const struct hrf_rank_map *map, int32_t n);

/* The graph of one rank: its inputs are the boxes it is fed (none: no input), its outputs the
 * network's on `output_rank` and none elsewhere. Constants are borrowed from the whole graph, which
 * must outlive this one. *map_out: of its nodes. */
HRF_CHECKED enum hrf_status hrf_partition_graph(const struct hrf_partition *partition, int32_t rank,
                                                struct hrf_graph **out,
                                                struct hrf_rank_map **map_out,
                                                struct hrf_error *err);

/* Every needed box is covered by what is there, once; `have` are disjoint; reductions' ranks are in
 * range; parts of split values cover them. HRF_E_BUG with the value and the ranks. */
HRF_CHECKED enum hrf_status hrf_partition_check(const struct hrf_partition *partition,
                                                struct hrf_error *err);

/* The part of the rank's part of node n's output that needs nothing but what the rank has of the
 * value that the node's exchange brings; False: there is none, or it is all, or the node cannot
 * compute it first: it is no window, or others have waited for the exchange already. */
bool hrf_partition_interior(const struct hrf_partition *partition, int32_t n, int32_t rank,
                            struct hrf_box *interior);

static inline const struct hrf_box *hrf_partition_box(const struct hrf_partition *p, int32_t value,
                                                      int32_t rank)
{
    return &p->boxes[(int64_t)value * p->n_ranks + rank];
}
/* What rank `from` sends to rank `to`; may be empty. */
struct hrf_box hrf_exchange_sent(const struct hrf_exchange *exchange, int32_t from, int32_t to);
int64_t hrf_exchange_bytes(const struct hrf_exchange *exchange, const struct hrf_box *box);
/* Bytes into box `outer` of the value at which all of `inner` stands in one piece; -1: it does not.
 */
int64_t hrf_exchange_place(const struct hrf_exchange *exchange, const struct hrf_box *outer,
                           const struct hrf_box *inner);
/* Whether the rank gets a value of its own from the exchange: what it has is not what it needs. */
bool hrf_exchange_takes(const struct hrf_exchange *exchange, int32_t rank);

#endif
