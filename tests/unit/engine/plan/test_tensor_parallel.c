/* Heads and channels divided over ranks: what each rank computes, holds and is sent. That the bytes
 * are those of one rank is in tests/ops/test_parallel.c. */
#include "engine/plan/tensor_parallel.h"

#include "engine/plan/partition.h"
#include "engine/plan/transfers.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <string.h>

enum { TOKENS = 5, CHANNELS = 64, HEADS = 4, HIDDEN = 256 };

static int32_t add_value(struct hrf_graph *graph, struct hrf_shape shape, const float *data)
{
    int32_t index;
    assert_int_equal(hrf_graph_add_value(graph, "v", HRF_F32, &shape, data, &index, NULL), HRF_OK);
    return index;
}

static int32_t add_node(struct hrf_graph *graph, enum hrf_op op, const int32_t *inputs, int32_t n,
                        int64_t n_out, const struct hrf_attributes *a)
{
    const int32_t y = add_value(graph, SHAPE(1, TOKENS, n_out), NULL);
    assert_int_equal(hrf_graph_add_node(graph, op, "n", inputs, n, &y, 1, a, NULL), HRF_OK);
    return y;
}

static int32_t product(struct hrf_graph *graph, int32_t x, int64_t n_in, int64_t n_out,
                       int32_t residual)
{
    static const float zeros[CHANNELS * HIDDEN];
    const int32_t inputs[] = { x, add_value(graph, SHAPE(n_in, n_out), zeros),
                               add_value(graph, SHAPE(n_out), zeros), residual };
    return add_node(graph, HRF_OP_GEMM, inputs, residual >= 0 ? 4 : 3, n_out, NULL);
}

/* A block of a transformer as the passes leave it: one product for queries, keys and values. */
static struct hrf_graph *block(int64_t n_heads)
{
    struct hrf_graph *g = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    assert_int_equal(hrf_graph_create("block", &g, NULL), HRF_OK);
    const int32_t x = add_value(g, SHAPE(1, TOKENS, CHANNELS), NULL);
    const int32_t qkv = product(g, x, CHANNELS, 3 * CHANNELS, -1);
    const int32_t inputs[] = { qkv, qkv, qkv };
    a.attention.heads = n_heads;
    a.attention.head_size = CHANNELS / n_heads;
    for (int k = 0; k < 3; k++) {
        a.attention.first[k] = (int64_t)k * CHANNELS;
        a.attention.stride[k] = a.attention.head_size;
    }
    int32_t y = add_node(g, HRF_OP_TOKEN_ATTENTION, inputs, 3, CHANNELS, &a);
    const int32_t sum = product(g, y, CHANNELS, CHANNELS, x);
    y = product(g, sum, CHANNELS, HIDDEN, -1);
    y = add_node(g, HRF_OP_GELU, &y, 1, HIDDEN, NULL);
    y = product(g, y, HIDDEN, CHANNELS, sum);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    return g;
}

static int64_t constant_bytes(const struct hrf_graph *graph)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        sum += graph->values[v].data != NULL ? hrf_value_bytes(&graph->values[v]) : 0;
    return sum;
}

static struct hrf_graph *divided(const struct hrf_graph *graph, int32_t n_ranks)
{
    struct hrf_graph *out = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_tensor_split(graph, n_ranks, &out, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return out;
}

static int count_nodes(const struct hrf_graph *graph, enum hrf_op op)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op;
    return n;
}

static struct hrf_partition *cut(const struct hrf_graph *graph, const char *text)
{
    struct hrf_layout_plan layout;
    struct hrf_partition *p = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_layout_parse(text, &layout, &err), HRF_OK);
    if (hrf_partition_create(graph, &layout, NULL, &p, &err) != HRF_OK ||
        hrf_transfers_prove(p, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return p;
}

/* Between a rank's product for its heads and its attention nothing is sent; what is joined are the
 * attention, the sum behind it, the hidden channels and the output. */
static void each_rank_has_its_share_of_weights_and_four_joins(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = block(HEADS);
    HRF_AUTO(hrf_graph) whole = divided(graph, 2);
    HRF_AUTO(hrf_partition) p = cut(whole, "tensor=2");
    assert_int_equal(count_nodes(whole, HRF_OP_CONCAT), 4);
    assert_int_equal(p->n_exchanges, 2 * 4);
    for (int32_t r = 0; r < 2; r++) {
        HRF_AUTO(hrf_graph) mine = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        assert_int_equal(hrf_partition_graph(p, r, &mine, &map, NULL), HRF_OK);
        assert_int_equal(2 * constant_bytes(mine), constant_bytes(graph));
        assert_int_equal(count_nodes(mine, HRF_OP_GEMM), 4);
        assert_int_equal(count_nodes(mine, HRF_OP_TOKEN_ATTENTION), 1);
        for (int32_t n = 0; n < mine->n_nodes; n++)
            if (mine->nodes[n].op == HRF_OP_TOKEN_ATTENTION)
                assert_int_equal(mine->nodes[n].attributes.attention.heads, HEADS / 2);
    }
}

/* With fewer heads than ranks some ranks have none; they have channels all the same. */
static void a_rank_may_have_no_head(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = block(2);
    HRF_AUTO(hrf_graph) whole = divided(graph, 3);
    HRF_AUTO(hrf_partition) p = cut(whole, "tensor=3");
    int n_heads = 0, n_products = 0;
    for (int32_t r = 0; r < 3; r++) {
        HRF_AUTO(hrf_graph) mine = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        assert_int_equal(hrf_partition_graph(p, r, &mine, &map, NULL), HRF_OK);
        n_heads += count_nodes(mine, HRF_OP_TOKEN_ATTENTION);
        n_products += count_nodes(mine, HRF_OP_GEMM);
    }
    assert_int_equal(n_heads, 2);
    assert_int_equal(n_products, 2 + 3 * 3);
}

static void tokens_stages_and_channels_are_divided_together(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = block(HEADS);
    HRF_AUTO(hrf_graph) whole = divided(graph, 2);
    HRF_AUTO(hrf_partition) p = cut(whole, "spatial=2,tensor=2,stages=2");
    assert_int_equal(p->n_ranks, 8);
    for (int32_t n = 0; n < whole->n_nodes; n++) {
        const struct hrf_node *node = &whole->nodes[n];
        if (n > 0 && node->owner == 1 && node[-1].owner == 0) /* parts of one node */
            assert_int_equal(p->stage_of_node[n], p->stage_of_node[n - 1]);
        for (int32_t r = 0; r < 8 && node->owner >= 0; r++) {
            const struct hrf_box *box = hrf_partition_box(p, node->outputs[0], r);
            const bool is_there = r / 4 == p->stage_of_node[n] && r % 2 == node->owner;
            assert_int_equal(!hrf_box_is_empty(box), is_there);
            assert_int_equal(box->hi[0] - box->lo[0], !is_there ? 0 : r % 4 < 2 ? 2 : 3);
        }
    }
}

static void a_network_without_products_is_refused(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_graph) out = NULL;
    assert_int_equal(hrf_graph_create("g", &graph, NULL), HRF_OK);
    const int32_t x = add_value(graph, SHAPE(1, TOKENS, CHANNELS), NULL);
    const int32_t y = add_node(graph, HRF_OP_GELU, &x, 1, CHANNELS, NULL);
    assert_int_equal(hrf_graph_set_io(graph, &x, 1, &y, 1, NULL), HRF_OK);
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_tensor_split(graph, 2, &out, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tensor=2"));
    assert_non_null(strstr(err.text, "use spatial=, stages= or data= instead"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_its_share_of_weights_and_four_joins),
        cmocka_unit_test(a_rank_may_have_no_head),
        cmocka_unit_test(tokens_stages_and_channels_are_divided_together),
        cmocka_unit_test(a_network_without_products_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
