/* cost.h - the time and workspace of a node: measured, scaled from similar nodes, or modelled.
 *
 * The key of a node describes everything that its speed depends on except the amount of work:
 * operator, types, channels, window, fused operators ("Conv f32>f32 c64>256 k1x1 s1x1 d1x1 g1 relu
 * residual"). Its work is the amount: pixels of all images of the batch, or rows of a matrix. A
 * table holds seconds by key and work. Between two measured amounts of a key the time is
 * interpolated; beyond them it is extrapolated with the slope of the nearest two, or in proportion
 * if there is only one. A key that was never measured is modelled (Williams et al., "Roofline",
 * CACM 2009): seconds = overhead + max(operations / rate of the type, bytes / bandwidth). A table
 * is valid for one device, one number of threads, and one number of ranks that compute at the same
 * time on one machine, because they share its memory bandwidth. Pure arithmetic; not thread-safe
 * while entries are added.
 */
#ifndef HRF_ENGINE_PLAN_COST_H
#define HRF_ENGINE_PLAN_COST_H

#include "base/json.h"
#include "engine/ir/graph.h"
#include "schema/settings/precision.h"

/* The arithmetic of a node: the type of its first input. */
enum hrf_rate { HRF_RATE_FP32, HRF_RATE_FP16, HRF_RATE_BF16, HRF_RATE_INT8, HRF_N_RATES };
enum hrf_precision hrf_rate_precision(enum hrf_rate rate);
const char *hrf_rate_name(enum hrf_rate rate); /* of its precision */

/* Rates of a device, for nodes that were not measured; 0: not known. */
struct hrf_cost_rates {
    double operations[HRF_N_RATES]; /* per second in CONV, GEMM and MATMUL; achieved, not peak */
    double bytes;                   /* per second, to and from memory */
    double overhead;                /* s, per kernel */
};

struct hrf_cost_entry {
    char *key;
    double work, seconds;
    double operations, bytes; /* of the node, for the rates */
    enum hrf_rate rate;
    int64_t workspace_bytes, weight_bytes; /* weights as the kernel packs them */
};

/* Packed sizes of weights by key, for kernels that were compiled but not timed. */
struct hrf_cost_weights {
    struct hrf_cost_packed {
        char *key;
        int64_t n_bytes;
    } * items;
    size_t n_items, capacity;
};
void hrf_cost_weights_release(struct hrf_cost_weights *weights);

struct hrf_cost_table {
    struct hrf_cost_entry *entries; /* by key, then by work */
    int32_t n_entries;
    size_t capacity; /* private */
    struct hrf_cost_rates rates;
    const struct hrf_cost_weights *weights; /* for keys without an entry; borrowed; may be NULL */
};
void hrf_cost_table_release(struct hrf_cost_table *table);

/* The key of a node, on the heap. */
char *hrf_cost_key(const struct hrf_graph *graph, const struct hrf_node *node);
double hrf_cost_work(const struct hrf_graph *graph, const struct hrf_node *node);
/* Bytes that the node reads and writes, including weights. A second output (hrf_graph_second_of())
 * is of the node that writes it: the node that is marked as such costs nothing itself. */
double hrf_cost_bytes(const struct hrf_graph *graph, const struct hrf_node *node);

/* Bytes of the node's constants as they are in the graph, before a kernel packs them. */
int64_t hrf_cost_constant_bytes(const struct hrf_graph *graph, const struct hrf_node *node);

/* Adds a measurement; it replaces an entry with the same key and work. */
void hrf_cost_add(struct hrf_cost_table *table, const struct hrf_graph *graph,
                  const struct hrf_node *node, double seconds, int64_t workspace_bytes,
                  int64_t weight_bytes);
/* Packed size of the weights for a key; -1: neither an entry nor `weights` has the key. */
int64_t hrf_cost_weight_bytes(const struct hrf_cost_table *table, const char *key);
/* The key must be new. */
void hrf_cost_weights_add(struct hrf_cost_weights *weights, const char *key, int64_t n_bytes);
/* Computes each rate that the entries determine; the others keep their values. */
void hrf_cost_fit_rates(struct hrf_cost_table *table);

enum hrf_cost_origin { HRF_COST_MEASURED, HRF_COST_SCALED, HRF_COST_MODELLED, HRF_COST_N_ORIGINS };
struct hrf_cost {
    double seconds;
    enum hrf_cost_origin origin;
    int64_t workspace_bytes;
    int64_t weight_bytes; /* packed size, or if unknown the size in the graph */
};
/* HRF_E_USER if neither an entry nor a rate is known; the error names the node and what is missing.
 * A node whose output is empty costs nothing. */
HRF_CHECKED enum hrf_status hrf_cost_of(const struct hrf_cost_table *table,
                                        const struct hrf_graph *graph, const struct hrf_node *node,
                                        struct hrf_cost *out, struct hrf_error *err);

/* {"entries": [{"key", "work", "seconds", "operations", "bytes", "rate", "workspace_bytes",
 * "weight_bytes"}]}. A new reference. It omits the rates, which
 * hrf_cost_fit_rates() computes from the entries. */
json_t *hrf_cost_encode(const struct hrf_cost_table *table);
/* Adds the entries of `json`; `where` names its source in error messages. */
HRF_CHECKED enum hrf_status hrf_cost_decode(const json_t *json, const char *where,
                                            struct hrf_cost_table *table, struct hrf_error *err);

#endif
