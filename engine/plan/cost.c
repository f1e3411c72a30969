/* cost.c - keys of nodes, the table of measured costs, estimates for nodes that were not
 * measured, and the table as JSON (cost.h). */
#include "engine/plan/cost.h"

#include "base/array.h"
#include "base/strbuf.h"
#include "engine/ir/op.h"

#include <math.h>
#include <string.h>

enum hrf_precision hrf_rate_precision(enum hrf_rate rate)
{
    static const enum hrf_precision precisions[HRF_N_RATES] = { [HRF_RATE_FP32] = HRF_FP32,
                                                                [HRF_RATE_FP16] = HRF_FP16,
                                                                [HRF_RATE_BF16] = HRF_BF16,
                                                                [HRF_RATE_INT8] = HRF_INT8 };
    return precisions[rate];
}

const char *hrf_rate_name(enum hrf_rate rate)
{
    return hrf_precision_name(hrf_rate_precision(rate));
}

void hrf_cost_table_release(struct hrf_cost_table *table)
{
    for (int32_t i = 0; i < table->n_entries; i++)
        hrf_free(table->entries[i].key);
    hrf_free(table->entries);
    *table = (struct hrf_cost_table){ .entries = NULL };
}

void hrf_cost_weights_release(struct hrf_cost_weights *weights)
{
    for (size_t i = 0; i < weights->n_items; i++)
        hrf_free(weights->items[i].key);
    hrf_free(weights->items);
    *weights = (struct hrf_cost_weights){ .items = NULL };
}

void hrf_cost_weights_add(struct hrf_cost_weights *weights, const char *key, int64_t n_bytes)
{
    HRF_RESERVE(weights->items, weights->capacity, weights->n_items + 1);
    const struct hrf_cost_packed item = { hrf_strdup(key), n_bytes };
    weights->items[weights->n_items++] = item;
}

/* ---- keys and work of nodes ---- */

/* An EXCHANGE has no input on a rank that has nothing of the value. */
static const struct hrf_value *first_input(const struct hrf_graph *graph,
                                           const struct hrf_node *node)
{
    const bool has = node->n_inputs > 0 && node->inputs[0] >= 0;
    return &graph->values[has ? node->inputs[0] : node->outputs[0]];
}

static enum hrf_rate rate_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op == HRF_OP_TOKEN_PRODUCT)
        return HRF_RATE_INT8;
    switch (first_input(graph, node)->dtype) {
    case HRF_F16:
        return HRF_RATE_FP16;
    case HRF_B16:
        return HRF_RATE_BF16;
    case HRF_S8:
    case HRF_U8:
        return HRF_RATE_INT8;
    default:
        return HRF_RATE_FP32;
    }
}

static void add_window(const struct hrf_graph *graph, const struct hrf_node *node,
                       struct hrf_strbuf *out)
{
    const struct hrf_window *w = &node->attributes.window;
    int64_t kernel[2] = { w->kernel[0], w->kernel[1] };
    if (node->op == HRF_OP_CONV) {
        const struct hrf_shape *weights = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
        kernel[0] = weights->dims[2];
        kernel[1] = weights->dims[3];
    }
    hrf_strbuf_addf(out, " k%lldx%lld s%lldx%lld d%lldx%lld", (long long)kernel[0],
                    (long long)kernel[1], (long long)w->stride[0], (long long)w->stride[1],
                    (long long)w->dilation[0], (long long)w->dilation[1]);
}

static void add_fused(const struct hrf_graph *graph, const struct hrf_node *node,
                      struct hrf_strbuf *out)
{
    static const char *const names[] = { "",         " relu",         " clip",  " leaky",
                                         " sigmoid", " hard_sigmoid", " swish", " hard_swish",
                                         " gelu",    " gelu_tanh" };
    hrf_strbuf_adds(out, names[node->attributes.activation]);
    hrf_strbuf_adds(out, hrf_node_residual(node) >= 0 ? " residual" : "");
    if (hrf_graph_is_second(graph, node))
        hrf_strbuf_adds(out, " second");
    const struct hrf_node *second = hrf_graph_second_of(graph, node);
    if (second != NULL)
        hrf_strbuf_addf(out, " and:%s", names[second->attributes.activation]);
    if (hrf_node_has_prologue(node))
        hrf_strbuf_addf(out, " before:%s", names[node->attributes.prologue.activation]);
}

char *hrf_cost_key(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = first_input(graph, node), *y = &graph->values[node->outputs[0]];
    struct hrf_strbuf key = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&key, "%s %s>%s c%lld>%lld", hrf_op_name(node->op), hrf_dtype_name(x->dtype),
                    hrf_dtype_name(y->dtype), (long long)hrf_shape_innermost(&x->shape),
                    (long long)hrf_shape_innermost(&y->shape));
    if (HRF_OP_HAS(node->op, window.stride))
        add_window(graph, node, &key);
    if (HRF_OP_HAS(node->op, group))
        hrf_strbuf_addf(&key, " g%lld", (long long)node->attributes.group);
    if (HRF_OP_HAS(node->op, n_groups))
        hrf_strbuf_addf(&key, " g%lld", (long long)node->attributes.n_groups);
    if (node->op == HRF_OP_CONCAT)
        hrf_strbuf_addf(&key, " n%d", node->n_inputs);
    if (node->op == HRF_OP_MATMUL || node->op == HRF_OP_GEMM)
        hrf_strbuf_addf(&key, " t%d%d", node->attributes.gemm.transpose_a,
                        node->attributes.gemm.transpose_b);
    if (HRF_OP_HAS(node->op, activation))
        add_fused(graph, node, &key);
    return hrf_strbuf_detach(&key);
}

/* The number of pixels of a batch of images, or of rows of another value. */
static double extent(const struct hrf_shape *shape)
{
    const int64_t n = hrf_shape_count(shape), c = hrf_shape_innermost(shape);
    return n > 0 && c > 0 ? (double)n / (double)c : 0;
}

double hrf_cost_work(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_op_info *row = hrf_op_info(node->op);
    const bool reads_more = row->op_class == HRF_CLASS_REDUCE ||
                            (row->op_class == HRF_CLASS_POOL && row->region == HRF_REGION_SUM);
    return extent(reads_more ? &first_input(graph, node)->shape
                             : &graph->values[node->outputs[0]].shape);
}

static double value_bytes(const struct hrf_value *value)
{
    const int64_t n = hrf_shape_count(&value->shape);
    return n > 0 ? (double)n * (double)hrf_dtype_size(value->dtype) : 0;
}

/* True for a norm or SWIGLU whose rows nothing but the next node reads, which rounds them: it
 * writes them in 8 bits (fused_pair.h). */
static bool rounds_for_next(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const int32_t made = node->outputs[0], next = made >= 0 ? graph->values[made].producer + 1 : 0;
    const bool makes_rows = node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM ||
                            node->op == HRF_OP_SWIGLU;
    if (!makes_rows || next < 1 || next >= graph->n_nodes ||
        graph->nodes[next].op != HRF_OP_TOKEN_PRODUCT ||
        graph->nodes[next].inputs[HRF_CONV_X] != made)
        return false;
    int32_t n_readers = 0;
    for (int32_t i = next; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            n_readers += graph->nodes[i].inputs[k] == made;
    return n_readers == 1;
}

/* Bytes by which rounding rows changes what the node moves. Either a pass of its own reads the
 * rows and writes them in 8 bits for the product, or the node that makes them writes them in 8
 * bits. */
static double rounding_bytes(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (rounds_for_next(graph, node))
        return (double)hrf_shape_count(&y->shape) - value_bytes(y);
    if (node->op != HRF_OP_TOKEN_PRODUCT)
        return 0;
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const double n = fmax((double)hrf_shape_count(&x->shape), 0);
    const bool is_rounded = x->producer >= 0 && rounds_for_next(graph, &graph->nodes[x->producer]);
    return is_rounded ? n - value_bytes(x) : 2 * n;
}

double hrf_cost_bytes(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_node *second = hrf_graph_second_of(graph, node);
    double bytes = value_bytes(&graph->values[node->outputs[0]]);
    if (hrf_graph_is_second(graph, node))
        return 0;
    if (second != NULL)
        bytes += value_bytes(&graph->values[second->outputs[0]]);
    bytes += rounding_bytes(graph, node);
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0)
            bytes += value_bytes(&graph->values[node->inputs[i]]);
    return bytes;
}

/* ---- the table ---- */

/* The index of the first entry that is not before (key, work). */
static int32_t lower_bound(const struct hrf_cost_table *table, const char *key, double work)
{
    int32_t low = 0, high = table->n_entries;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const struct hrf_cost_entry *e = &table->entries[middle];
        const int order = strcmp(e->key, key);
        if (order < 0 || (order == 0 && e->work < work))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes over the entry's key, whether or not it fails. */
static void insert(struct hrf_cost_table *table, struct hrf_cost_entry entry)
{
    const int32_t at = lower_bound(table, entry.key, entry.work);
    struct hrf_cost_entry *existing = at < table->n_entries ? &table->entries[at] : NULL;
    if (existing != NULL && existing->work == entry.work && strcmp(existing->key, entry.key) == 0) {
        hrf_free(existing->key);
        *existing = entry;
        return;
    }
    HRF_RESERVE(table->entries, table->capacity, (size_t)table->n_entries + 1);
    memmove(table->entries + at + 1, table->entries + at,
            (size_t)(table->n_entries - at) * sizeof table->entries[0]);
    table->entries[at] = entry;
    table->n_entries++;
}

void hrf_cost_add(struct hrf_cost_table *table, const struct hrf_graph *graph,
                  const struct hrf_node *node, double seconds, int64_t workspace_bytes,
                  int64_t weight_bytes)
{
    const struct hrf_cost_entry entry = { .key = hrf_cost_key(graph, node),
                                          .work = hrf_cost_work(graph, node),
                                          .seconds = seconds,
                                          .operations = hrf_node_operations(graph, node),
                                          .bytes = hrf_cost_bytes(graph, node),
                                          .rate = rate_of(graph, node),
                                          .workspace_bytes = workspace_bytes,
                                          .weight_bytes = weight_bytes };
    insert(table, entry);
}

/* A rate is the sum of operations divided by the sum of seconds, so that small nodes, which are
 * slow because of overheads, have little weight. */
void hrf_cost_fit_rates(struct hrf_cost_table *table)
{
    double operations[HRF_N_RATES] = { 0 }, seconds[HRF_N_RATES] = { 0 };
    double bytes = 0, byte_seconds = 0;
    for (int32_t i = 0; i < table->n_entries; i++) {
        const struct hrf_cost_entry *e = &table->entries[i];
        if (e->operations > 0) {
            operations[e->rate] += e->operations;
            seconds[e->rate] += e->seconds;
        } else {
            bytes += e->bytes;
            byte_seconds += e->seconds;
        }
    }
    for (int r = 0; r < HRF_N_RATES; r++)
        if (seconds[r] > 0)
            table->rates.operations[r] = operations[r] / seconds[r];
    if (byte_seconds > 0)
        table->rates.bytes = bytes / byte_seconds;
}

/* ---- what a node costs ---- */

static bool model(const struct hrf_cost_table *table, const struct hrf_graph *graph,
                  const struct hrf_node *node, double *seconds)
{
    const struct hrf_cost_rates *rates = &table->rates;
    const double operations = hrf_node_operations(graph, node);
    const double rate = rates->operations[rate_of(graph, node)];
    if (rates->bytes <= 0 || (operations > 0 && rate <= 0))
        return false;
    if (hrf_graph_is_second(graph, node)) {
        *seconds = 0;
        return true;
    }
    const double moving = hrf_cost_bytes(graph, node) / rates->bytes;
    *seconds = rates->overhead + fmax(operations > 0 ? operations / rate : 0, moving);
    return true;
}

/* Interpolates the seconds at `work` from the n >= 1 entries of a key. */
static double scale(const struct hrf_cost_entry *e, int32_t n, double work)
{
    int32_t i = 0;
    while (i + 1 < n && e[i + 1].work < work)
        i++;
    if (n > 1 && i + 1 == n)
        i--;
    if (n == 1)
        return e->seconds * work / e->work;
    const double slope = (e[i + 1].seconds - e[i].seconds) / (e[i + 1].work - e[i].work);
    const double line = e[i].seconds + slope * (work - e[i].work);
    const struct hrf_cost_entry *end = work < e[0].work ? &e[0] : &e[n - 1];
    const bool is_inside = work >= e[0].work && work <= e[n - 1].work;
    /* Noise can make the line fall or become negative; then scale in proportion from the nearest
     * entry. */
    return is_inside || (slope > 0 && line > 0) ? line : end->seconds * work / end->work;
}

/* Scratch grows with work at most in proportion. */
static int64_t scale_workspace(const struct hrf_cost_entry *e, int32_t n, double work)
{
    const struct hrf_cost_entry *last = &e[n - 1];
    for (int32_t i = 0; i < n; i++)
        if (e[i].work >= work)
            return e[i].workspace_bytes;
    return (int64_t)((double)last->workspace_bytes * (work / last->work));
}

int64_t hrf_cost_weight_bytes(const struct hrf_cost_table *table, const char *key)
{
    const int32_t first = lower_bound(table, key, 0);
    if (first < table->n_entries && strcmp(table->entries[first].key, key) == 0)
        return table->entries[first].weight_bytes;
    for (size_t i = 0; table->weights != NULL && i < table->weights->n_items; i++)
        if (strcmp(table->weights->items[i].key, key) == 0)
            return table->weights->items[i].n_bytes;
    return -1;
}

static enum hrf_status refuse(const struct hrf_graph *graph, const struct hrf_node *node,
                              const char *key, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "no cost of node '%s' (%s): it was not measured, and the machine has no "
                         "rate of %s; measure it (--measure) or give device.tops.%s and "
                         "device.gb_per_s",
                         node->name, key, hrf_rate_name(rate_of(graph, node)),
                         hrf_rate_name(rate_of(graph, node)));
}

int64_t hrf_cost_constant_bytes(const struct hrf_graph *graph, const struct hrf_node *node)
{
    int64_t n_bytes = 0;
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].data != NULL)
            n_bytes += hrf_value_bytes(&graph->values[node->inputs[k]]);
    return n_bytes;
}

enum hrf_status hrf_cost_of(const struct hrf_cost_table *table, const struct hrf_graph *graph,
                            const struct hrf_node *node, struct hrf_cost *out,
                            struct hrf_error *err)
{
    const double work = hrf_cost_work(graph, node);
    HRF_AUTO_FREE char *key = hrf_cost_key(graph, node);
    struct hrf_cost cost = { .seconds = 0, .origin = HRF_COST_MEASURED };
    cost.weight_bytes = work > 0 ? hrf_cost_weight_bytes(table, key) : -1;
    if (cost.weight_bytes < 0)
        cost.weight_bytes = hrf_cost_constant_bytes(graph, node);
    const int32_t first = lower_bound(table, key, 0);
    int32_t n = 0;
    while (first + n < table->n_entries && strcmp(table->entries[first + n].key, key) == 0)
        n++;
    const struct hrf_cost_entry *entries = table->entries + first;
    if (work > 0 && n > 0) {
        cost.seconds = scale(entries, n, work);
        cost.workspace_bytes = scale_workspace(entries, n, work);
        cost.origin = HRF_COST_SCALED;
        for (int32_t i = 0; i < n; i++)
            cost.origin = entries[i].work == work ? HRF_COST_MEASURED : cost.origin;
    } else if (work > 0) {
        cost.origin = HRF_COST_MODELLED;
        if (!model(table, graph, node, &cost.seconds))
            return refuse(graph, node, key, err);
    }
    *out = cost;
    return HRF_OK;
}

/* ---- as JSON ---- */

json_t *hrf_cost_encode(const struct hrf_cost_table *table)
{
    json_t *entries = json_array();
    for (int32_t i = 0; i < table->n_entries; i++) {
        const struct hrf_cost_entry *e = &table->entries[i];
        json_t *entry = json_object();
        hrf_json_put_text(entry, "key", e->key);
        hrf_json_put_number(entry, "work", e->work);
        hrf_json_put_number(entry, "seconds", e->seconds);
        hrf_json_put_number(entry, "operations", e->operations);
        hrf_json_put_number(entry, "bytes", e->bytes);
        hrf_json_put_text(entry, "rate", hrf_rate_name(e->rate));
        hrf_json_put_int(entry, "workspace_bytes", e->workspace_bytes);
        hrf_json_put_int(entry, "weight_bytes", e->weight_bytes);
        hrf_json_add(entries, entry);
    }
    json_t *object = json_object();
    hrf_json_put(object, "entries", entries);
    return object;
}

static enum hrf_status decode_entry(const json_t *json, const char *where,
                                    struct hrf_cost_table *table, struct hrf_error *err)
{
    struct hrf_cost_entry e = { .rate = HRF_N_RATES };
    const char *key, *rate;
    HRF_TRY(hrf_json_get_text(json, "key", where, &key, err));
    HRF_TRY(hrf_json_get_text(json, "rate", where, &rate, err));
    HRF_TRY(hrf_json_get_number(json, "work", where, &e.work, err));
    HRF_TRY(hrf_json_get_number(json, "seconds", where, &e.seconds, err));
    HRF_TRY(hrf_json_get_number(json, "operations", where, &e.operations, err));
    HRF_TRY(hrf_json_get_number(json, "bytes", where, &e.bytes, err));
    HRF_TRY(hrf_json_get_int(json, "workspace_bytes", where, &e.workspace_bytes, err));
    HRF_TRY(hrf_json_get_int(json, "weight_bytes", where, &e.weight_bytes, err));
    for (int r = 0; r < HRF_N_RATES; r++)
        e.rate = strcmp(rate, hrf_rate_name((enum hrf_rate)r)) == 0 ? (enum hrf_rate)r : e.rate;
    if (e.rate == HRF_N_RATES || !(e.work > 0) || !(e.seconds >= 0) || !(e.operations >= 0) ||
        !(e.bytes >= 0) || e.workspace_bytes < 0 || e.weight_bytes < 0)
        return hrf_error_set(err, HRF_E_USER, "%s: the cost of '%s' holds a value out of range",
                             where, key);
    e.key = hrf_strdup(key);
    insert(table, e);
    return HRF_OK;
}

enum hrf_status hrf_cost_decode(const json_t *json, const char *where, struct hrf_cost_table *table,
                                struct hrf_error *err)
{
    json_t *entries;
    HRF_TRY(hrf_json_get_array(json, "entries", where, &entries, err));
    for (size_t i = 0; i < json_array_size(entries); i++)
        HRF_TRY(decode_entry(json_array_get(entries, i), where, table, err));
    return HRF_OK;
}
