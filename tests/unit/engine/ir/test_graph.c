/* The container: adding, checking, compacting, copying, hashing. */
#include "engine/ir/graph.h"
#include "engine/ir/op.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static const struct hrf_shape image = { .rank = 4, .dims = { 1, 2, 4, 4 } };
static const struct hrf_shape unknown = { .rank = -1 };

static int32_t add(struct hrf_graph *g, const char *name, const struct hrf_shape *shape,
                   const void *data)
{
    int32_t index;
    assert_int_equal(hrf_graph_add_value(g, name, HRF_F32, shape, data, &index, NULL), HRF_OK);
    return index;
}

static void node(struct hrf_graph *g, enum hrf_op op, const int32_t *inputs, int32_t n,
                 int32_t output)
{
    assert_int_equal(hrf_graph_add_node(g, op, NULL, inputs, n, &output, 1, NULL, NULL), HRF_OK);
}

/* y = relu(x * k) and a sigmoid(x) that nobody uses; `order` swaps the order of the values. */
static struct hrf_graph *make_graph(float constant, bool swapped, const char *prefix)
{
    struct hrf_graph *g = NULL;
    struct hrf_shape scalar = { .rank = 0 };
    char name[32];
    int32_t x, k;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    snprintf(name, sizeof name, "%sk", prefix);
    k = swapped ? add(g, name, &scalar, &constant) : -1;
    x = add(g, "x", &image, NULL);
    k = swapped ? k : add(g, name, &scalar, &constant);
    int32_t dead = add(g, "dead", &unknown, NULL), m = add(g, "m", &unknown, NULL);
    int32_t y = add(g, "y", &unknown, NULL);
    node(g, HRF_OP_SIGMOID, &x, 1, dead);
    node(g, HRF_OP_MUL, (int32_t[]){ x, k }, 2, m);
    node(g, HRF_OP_RELU, &m, 1, y);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    return g;
}

static void compacting_drops_dead_nodes_and_renumbers(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = make_graph(2, true, "");
    assert_int_equal(hrf_graph_check(g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_compact(g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_check(g, NULL), HRF_OK);
    assert_int_equal(g->n_nodes, 2);
    assert_int_equal(g->n_values, 4);
    assert_int_equal(hrf_graph_find_value(g, "dead"), -1);
    assert_int_equal(g->values[hrf_graph_find_value(g, "y")].producer, 1);
    assert_int_equal(hrf_graph_count_uses(g, hrf_graph_find_value(g, "m")), 1);
    assert_int_equal(hrf_graph_count_uses(g, g->outputs[0]), 1);
}

static void the_hash_sees_numbers_and_not_names_or_order(void **state)
{
    (void)state;
    char a[65], b[65], c[65];
    HRF_AUTO(hrf_graph) first = make_graph(2, false, "");
    HRF_AUTO(hrf_graph) renamed = make_graph(2, true, "other_");
    HRF_AUTO(hrf_graph) changed = make_graph(2.0000002f, false, "");
    assert_int_equal(hrf_graph_hash(first, a, NULL), HRF_OK);
    assert_int_equal(hrf_graph_hash(renamed, b, NULL), HRF_OK);
    assert_int_equal(hrf_graph_hash(changed, c, NULL), HRF_OK);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    renamed->nodes[2].op = HRF_OP_TANH;
    assert_int_equal(hrf_graph_hash(renamed, b, NULL), HRF_OK);
    assert_string_not_equal(a, b);
}

static void a_copy_equals_and_outlives_the_first(void **state)
{
    (void)state;
    char a[65], b[65];
    struct hrf_graph *g = make_graph(2, false, "");
    HRF_AUTO(hrf_graph) copy = NULL;
    assert_int_equal(hrf_graph_copy(g, &copy, NULL), HRF_OK);
    assert_int_equal(hrf_graph_hash(g, a, NULL), HRF_OK);
    const int32_t k = hrf_graph_find_value(g, "k");
    assert_ptr_equal(g->values[k].data, copy->values[hrf_graph_find_value(copy, "k")].data);
    g->nodes[2].op = HRF_OP_TANH;
    hrf_graph_destroy(g); /* constants go with the last of them */
    assert_int_equal(hrf_graph_hash(copy, b, NULL), HRF_OK);
    assert_string_equal(a, b);
}

static void a_use_before_the_producer_is_refused_by_name(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) g = make_graph(2, false, "");
    struct hrf_node swap = g->nodes[1];
    g->nodes[1] = g->nodes[2];
    g->nodes[2] = swap;
    g->values[g->nodes[1].outputs[0]].producer = 1;
    g->values[g->nodes[2].outputs[0]].producer = 2;
    assert_int_equal(hrf_graph_check(g, &err), HRF_E_USER);
    assert_string_equal(err.text,
                        "node 'Relu_2' (Relu) uses 'm', which nothing before it produces");
}

static void impossible_counts_and_shapes_are_refused(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) g = NULL;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    struct hrf_shape huge = { .rank = 3, .dims = { 1 << 30, 1 << 30, 1 << 30 } };
    float zero = 0;
    int32_t index;
    assert_int_equal(hrf_shape_count(&huge), -1);
    assert_int_equal(hrf_graph_add_value(g, "w", HRF_F32, &huge, &zero, &index, &err), HRF_E_USER);
    assert_string_equal(err.text,
                        "constant 'w' has the impossible shape 1073741824x1073741824x1073741824");
    struct hrf_shape deep = { .rank = HRF_MAX_RANK + 1 };
    assert_int_equal(hrf_graph_add_value(g, "w", HRF_F32, &deep, NULL, &index, &err),
                     HRF_E_UNSUPPORTED);
    struct hrf_shape with_zero = { .rank = 2, .dims = { 1 << 20, 0 } };
    assert_int_equal(hrf_shape_count(&with_zero), 0);
}

static void input_shapes_must_agree_with_the_model(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) g = make_graph(2, false, "");
    struct hrf_shape larger = { .rank = 4, .dims = { 3, 2, 9, 5 } };
    struct hrf_shape channels = { .rank = 4, .dims = { 1, 3, 4, 4 } };
    assert_int_equal(hrf_graph_set_input_shape(g, 0, &larger, &err), HRF_OK);
    assert_int_equal(hrf_graph_set_input_shape(g, 0, &channels, &err), HRF_E_USER);
    assert_string_equal(err.text, "input 'x' of the model is 3x2x9x5; 1x3x4x4 does not fit");
    assert_int_equal(hrf_graph_set_input_shape(g, 1, &larger, &err), HRF_E_USER);
}

static void running_out_of_memory_is_a_status(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = make_graph(2, false, "");
    enum hrf_status status = HRF_E_NOMEM;
    for (int64_t n = 1; status != HRF_OK; n++) {
        struct hrf_graph *copy = NULL;
        struct hrf_error err = { .status = HRF_OK };
        hrf_alloc_fail_after(n);
        status = hrf_graph_copy(g, &copy, &err);
        if (status == HRF_OK)
            status = hrf_graph_infer_shapes(copy, &err);
        if (status == HRF_OK)
            status = hrf_graph_compact(copy, &err);
        hrf_alloc_fail_after(0);
        hrf_graph_destroy(copy);
        assert_true(status == HRF_OK || status == HRF_E_NOMEM);
        assert_true(n < 200);
    }
}

static void every_operator_has_a_name_that_finds_it(void **state)
{
    (void)state;
    for (int op = 0; op < HRF_N_OPS; op++)
        assert_int_equal(hrf_op_find(hrf_op_name((enum hrf_op)op)), op);
    assert_int_equal(hrf_op_find("Lstm"), HRF_N_OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compacting_drops_dead_nodes_and_renumbers),
        cmocka_unit_test(the_hash_sees_numbers_and_not_names_or_order),
        cmocka_unit_test(a_copy_equals_and_outlives_the_first),
        cmocka_unit_test(a_use_before_the_producer_is_refused_by_name),
        cmocka_unit_test(impossible_counts_and_shapes_are_refused),
        cmocka_unit_test(input_shapes_must_agree_with_the_model),
        cmocka_unit_test(running_out_of_memory_is_a_status),
        cmocka_unit_test(every_operator_has_a_name_that_finds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
