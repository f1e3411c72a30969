/* cost.h - how long a node takes and what scratch it needs: measured, scaled from its like, or
 * modelled.
 *
 * A node's key says all that its speed depends on but how much of it there is: operator, types,
 * channels, window, what is fused in ("Conv f32>f32 c64>256 k1x1 s1x1 d1x1 g1 relu residual"). Its
 * work says how much: px of all images of the batch, rows of a matrix. A table holds seconds by
 * key and work. Between two measured works of a key the time is interpolated, beyond them it goes
 * on with the slope of the last two (in proportion, where there is one). A key that was never
 * measured is modelled (Williams et al., "Roofline", CACM 2009):
 *   seconds = overhead + max(operations / rate of the type, bytes / bandwidth).
 * A table belongs to one device, one number of threads and one number of ranks that compute at
 * once on one machine: memory bandwidth is shared. Pure arithmetic; not thread-safe while added to.
 */
#ifndef HRF_ENGINE_PLAN_COST_H
#define HRF_ENGINE_PLAN_COST_H

#include "base/json.h"
#include "engine/ir/graph.h"

/* What a node computes in: its first input's type. */
enum hrf_rate { HRF_RATE_FP32, HRF_RATE_FP16, HRF_RATE_BF16, HRF_RATE_INT8, HRF_N_RATES };
const char *hrf_rate_name(enum hrf_rate rate); /* "fp32" */

/* Of a device, for nodes that were not measured; 0 = not known. */
struct hrf_cost_rates {
    double operations[HRF_N_RATES]; /* per second, of CONV, GEMM and MATMUL: as reached, not peak */
    double bytes;                   /* per second, to and from memory */
    double overhead;                /* s, of every kernel */
};

struct hrf_cost_entry {
    char *key;
    double work, seconds;
    double operations, bytes; /* of the node, for the rates */
    enum hrf_rate rate;
    int64_t workspace_bytes, weight_bytes; /* scratch; constants as its kernel packs them */
};

/* Constants as kernels pack them, by key: of kernels that were made ready and not timed. */
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
    const struct hrf_cost_weights *weights; /* of keys that have no entry; borrowed; may be NULL */
};
void hrf_cost_table_release(struct hrf_cost_table *table);

/* Heap text; NULL = no memory. */
char *hrf_cost_key(const struct hrf_graph *graph, const struct hrf_node *node);
double hrf_cost_work(const struct hrf_graph *graph, const struct hrf_node *node);
/* Bytes that the node reads and writes, weights included. */
double hrf_cost_bytes(const struct hrf_graph *graph, const struct hrf_node *node);

/* Of the node's constants, as the graph has them. */
int64_t hrf_cost_constant_bytes(const struct hrf_graph *graph, const struct hrf_node *node);

/* Replaces an entry of the same key and work. */
HRF_CHECKED enum hrf_status hrf_cost_add(struct hrf_cost_table *table,
                                         const struct hrf_graph *graph, const struct hrf_node *node,
                                         double seconds, int64_t workspace_bytes,
                                         int64_t weight_bytes, struct hrf_error *err);
/* -1: neither an entry nor `weights` has it. */
int64_t hrf_cost_weight_bytes(const struct hrf_cost_table *table, const char *key);
/* Replaces nothing: a key is added once. */
HRF_CHECKED enum hrf_status hrf_cost_weights_add(struct hrf_cost_weights *weights, const char *key,
                                                 int64_t n_bytes, struct hrf_error *err);
/* Rates from the entries where the table has entries of the kind; others stay. */
void hrf_cost_fit_rates(struct hrf_cost_table *table);

enum hrf_cost_origin { HRF_COST_MEASURED, HRF_COST_SCALED, HRF_COST_MODELLED, HRF_COST_N_ORIGINS };
struct hrf_cost {
    double seconds;
    enum hrf_cost_origin origin;
    int64_t workspace_bytes;
    int64_t weight_bytes; /* as kernels pack them; where that is not known: as the graph has them */
};
/* HRF_E_USER when there is neither an entry nor a rate: names the node and what is missing. A node
 * whose output is empty costs nothing. */
HRF_CHECKED enum hrf_status hrf_cost_of(const struct hrf_cost_table *table,
                                        const struct hrf_graph *graph, const struct hrf_node *node,
                                        struct hrf_cost *out, struct hrf_error *err);

/* {"entries": [{"key", "work", "seconds", "operations", "bytes", "rate", "workspace_bytes",
 * "weight_bytes"}]}; a new reference, NULL = no memory. Rates are not in it: they follow from the
 * entries. */
json_t *hrf_cost_encode(const struct hrf_cost_table *table);
/* Adds what `json` holds; `where` names it in messages. */
HRF_CHECKED enum hrf_status hrf_cost_decode(const json_t *json, const char *where,
                                            struct hrf_cost_table *table, struct hrf_error *err);

#endif
