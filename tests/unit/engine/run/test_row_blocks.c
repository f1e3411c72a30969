/* Slide heads on blocks of a bag: what the whole bag gives, and PyTorch; which networks cannot be
 * computed so. */
#include "tests/unit/heads/model/golden.h"

#include "engine/ir/op.h"
#include "engine/onnx/onnx.h"
#include "engine/run/row_blocks.h"
#include "engine/run/row_rules.h"
#include "engine/run/session.h"
#include "heads/export/export.h"
#include "tests/ops/build.h"
#include "tests/unit/directory.h"

struct bag {
    int64_t rows, columns;
    float *data;
};

static int64_t count_numbers(const struct bag *bag)
{
    return bag->rows * bag->columns;
}

static enum hrf_status read_rows(void *context, int64_t first, int64_t n, float *out,
                                 struct hrf_error *err)
{
    (void)err;
    const struct bag *bag = context;
    assert_true(first >= 0 && n > 0 && first + n <= bag->rows);
    memcpy(out, bag->data + first * bag->columns, (size_t)(n * bag->columns) * sizeof *out);
    return HRF_OK;
}

static struct hrf_row_blocks *make_blocks(const struct hrf_graph *graph, int64_t width,
                                          int64_t n_block)
{
    struct hrf_row_blocks *blocks = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_row_blocks_create(graph, width, n_block, &blocks, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return blocks;
}

static void run_blocks(struct hrf_row_blocks *blocks, struct bag *bag)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_bag_rows rows = { bag->rows, bag->columns, read_rows, bag };
    if (hrf_row_blocks_run(blocks, &rows, 2, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

/* Every output of the network on the bag, in blocks, against those of the whole bag. */
static void compare_with_whole(const struct hrf_graph *graph, struct bag *bag,
                               struct hrf_row_blocks *blocks, const char *what)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) whole = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    assert_int_equal(hrf_graph_copy(graph, &whole, NULL), HRF_OK);
    assert_int_equal(hrf_row_input_set(whole, bag->rows, bag->columns, NULL), HRF_OK);
    if (hrf_session_create(whole, &config, &session, &err) != HRF_OK)
        fail_msg("%s: %s", what, err.text);
    memcpy(hrf_session_input(session, 0), bag->data,
           (size_t)count_numbers(bag) * sizeof *bag->data);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    run_blocks(blocks, bag);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        int64_t count = 0;
        const float *y = hrf_row_blocks_output(blocks, i, &count);
        assert_int_equal(count, hrf_shape_count(hrf_session_output_shape(session, i)));
        const double error = relative_difference(y, hrf_session_output(session, i), count);
        if (!(error < 1e-5))
            fail_msg("%s: output %d of %lld rows differs by %g", what, (int)i, (long long)bag->rows,
                     error);
    }
}

/* Bags of random sizes, and of one and two blocks exactly. */
static void compare_sizes(const struct hrf_graph *graph, int64_t width, const char *what)
{
    struct hrf_random random = hrf_random_init(11);
    for (int i = 0; i < 8; i++) {
        const int64_t n_block = i == 0 ? 1 : 1 + hrf_random_below(&random, 60);
        struct hrf_row_blocks *blocks = make_blocks(graph, width, n_block);
        for (int k = 0; k < 4; k++) {
            const int64_t n = k < 2 ? n_block * (k + 1) : 1 + hrf_random_below(&random, 300);
            struct bag bag = { .rows = n, .columns = width };
            bag.data = hrf_alloc((size_t)(n * width) * sizeof(float));
            fill(bag.data, n * width, 100U + (uint32_t)(10 * i + k), 2);
            compare_with_whole(graph, &bag, blocks, what);
            hrf_free(bag.data);
        }
        hrf_row_blocks_destroy(blocks);
    }
}

static struct hrf_graph *export_head(struct hrf_head *head)
{
    static char names[][2] = { "a", "b", "c", "d", "e" };
    char *const classes[] = { names[0], names[1], names[2], names[3], names[4] };
    const struct hrf_head_labels labels = { .classes = classes,
                                            .n_classes = (int32_t)head->form.n_classes,
                                            .origin = "" };
    struct hrf_graph *graph = NULL;
    assert_int_equal(hrf_head_export(head, &labels, file("head.onnx"), NULL), HRF_OK);
    assert_int_equal(hrf_onnx_read(file("head.onnx"), &graph, NULL), HRF_OK);
    return graph;
}

static void our_heads_give_pytorchs_numbers(void **state)
{
    (void)state;
    for (int kind = 0; kind < HRF_HEAD_TRANSMIL; kind++) {
        struct golden g = load(hrf_head_kind_names[kind]);
        struct hrf_head *head = make_head(g.head);
        struct hrf_graph *graph = export_head(head);
        struct bag bag = { .rows = g.head[1], .columns = g.head[2] };
        bag.data = hrf_alloc((size_t)count_numbers(&bag) * sizeof(float));
        fill(bag.data, count_numbers(&bag), 5, 1);
        struct hrf_row_blocks *blocks = make_blocks(graph, bag.columns, 7);
        run_blocks(blocks, &bag);
        int64_t n_scores = 0, n_attention = 0;
        const float *scores = hrf_row_blocks_output(blocks, 0, &n_scores);
        assert_int_equal(n_scores, g.head[3]);
        assert_true(difference(scores, g.values + 1, (size_t)n_scores, 1) < 1e-5F);
        assert_int_equal(graph->n_outputs, kind == HRF_HEAD_MEAN ? 1 : 2);
        if (graph->n_outputs > 1) {
            const float *attention = hrf_row_blocks_output(blocks, 1, &n_attention);
            const float *wanted = g.values + 1 + n_scores;
            assert_int_equal(n_attention % bag.rows, 0);
            assert_true(difference(attention, wanted, (size_t)n_attention,
                                   largest(wanted, (size_t)n_attention)) < 1e-5F);
        }
        hrf_row_blocks_destroy(blocks);
        hrf_graph_destroy(graph);
        hrf_head_destroy(head);
        hrf_free(bag.data);
        hrf_free(g.bytes);
    }
}

static void our_heads_are_what_the_whole_bag_gives(void **state)
{
    (void)state;
    for (int kind = 0; kind < HRF_HEAD_TRANSMIL; kind++) {
        const struct hrf_head_form form = { .kind = (enum hrf_head_kind)kind,
                                            .width = 24,
                                            .n_classes = 3,
                                            .hidden = 16,
                                            .attention = 8 };
        struct hrf_head *head = NULL;
        assert_int_equal(hrf_head_create(&form, 3, &head, NULL), HRF_OK);
        for (int64_t i = 0; i < head->n_values; i++)
            head->values[i] *= 4; /* attention of all sizes, so that the greatest moves */
        struct hrf_graph *graph = export_head(head);
        compare_sizes(graph, form.width, hrf_head_kind_names[kind]);
        hrf_graph_destroy(graph);
        hrf_head_destroy(head);
    }
}

/* ---- networks from elsewhere ---- */

enum { WIDTH = 12, HIDDEN = 10, BRANCHES = 3 };

static int32_t linear(struct build *b, int32_t x, int64_t in, int64_t out)
{
    const int32_t w = build_constant(b, SHAPE(in, out), -1, 1);
    return build_binary(b, HRF_OP_ADD, build_binary(b, HRF_OP_MATMUL, x, w),
                        build_constant(b, SHAPE(out), -1, 1));
}

static int32_t along(struct build *b, enum hrf_op op, int32_t x, int64_t axis, bool keep)
{
    struct hrf_attributes a = hrf_attributes_of(op);
    a.axis = a.axes[0] = axis;
    a.n_axes = 1;
    a.keep_dims = keep;
    return build_node(b, op, &x, 1, &a);
}

static int32_t transpose(struct build *b, int32_t x, int32_t rank)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = rank;
    for (int32_t i = 0; i < rank; i++)
        a.axes[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t flatten(struct build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 0;
    return build_node(b, HRF_OP_FLATTEN, &x, 1, &a);
}

static int32_t embed(struct build *b, int32_t x)
{
    return build_unary(b, HRF_OP_RELU, linear(b, x, WIDTH, HIDDEN));
}

/* sum(softmax(a) * h) of one branch. */
static int32_t make_product_and_sum(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t h = embed(b, x);
    const int32_t a = along(b, HRF_OP_SOFTMAX, linear(b, h, HIDDEN, 1), 0, false);
    const int32_t z = along(b, HRF_OP_REDUCE_SUM, build_binary(b, HRF_OP_MUL, h, a), 0, true);
    outputs[(*n)++] = linear(b, z, HIDDEN, 2);
    return outputs[(*n)++] = a;
}

/* a' h of several branches, whose weights lie in rows and in columns. */
static int32_t make_branches(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t h = embed(b, x);
    const int32_t a = along(b, HRF_OP_SOFTMAX, linear(b, h, HIDDEN, BRANCHES), 0, false);
    const int32_t turned = transpose(b, a, 2);
    outputs[(*n)++] = flatten(b, build_binary(b, HRF_OP_MATMUL, turned, h));
    outputs[(*n)++] = build_binary(b, HRF_OP_MATMUL, transpose(b, h, 2), a);
    outputs[(*n)++] = a;
    return outputs[(*n)++] = turned;
}

/* The same of a bag of three axes, [1][N][D]. */
static int32_t make_batch(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t h = embed(b, x);
    const int32_t a = along(b, HRF_OP_SOFTMAX, transpose(b, linear(b, h, HIDDEN, BRANCHES), 3), 2,
                            false);
    outputs[(*n)++] = along(b, HRF_OP_REDUCE_MEAN, build_binary(b, HRF_OP_MATMUL, a, h), 1, false);
    return outputs[(*n)++] = a;
}

static int32_t make_pools(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    static const enum hrf_op pools[] = { HRF_OP_REDUCE_MEAN,       HRF_OP_REDUCE_SUM,
                                         HRF_OP_REDUCE_MAX,        HRF_OP_REDUCE_MIN,
                                         HRF_OP_REDUCE_L1,         HRF_OP_REDUCE_SUM_SQUARE,
                                         HRF_OP_REDUCE_LOG_SUM_EXP };
    enum { N = sizeof pools / sizeof pools[0] };
    int32_t parts[N];
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    for (int i = 0; i < N; i++)
        parts[i] = along(b, pools[i], linear(b, x, WIDTH, HIDDEN), 0, true);
    return outputs[(*n)++] = build_node(b, HRF_OP_CONCAT, parts, N, &a);
}

/* DSMIL as exported by PyTorch: the patches of highest scores, and the distance to them. */
static int32_t make_top_patches(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t scores = linear(b, x, WIDTH, BRANCHES);
    const int32_t top = build_binary(b, HRF_OP_SELECT_MAX, x, scores);
    const int32_t a = along(b, HRF_OP_SOFTMAX,
                            build_binary(b, HRF_OP_MATMUL, x, transpose(b, top, 2)), 0, false);
    outputs[(*n)++] = top;
    outputs[(*n)++] = build_binary(b, HRF_OP_MATMUL, transpose(b, a, 2), x);
    return outputs[(*n)++] = scores;
}

/* Operators that work along the columns and keep the rows where they are. */
static int32_t make_columns(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    static const int64_t chosen[] = { 7, 0, 7, 3 };
    const int32_t h = linear(b, x, WIDTH, HIDDEN);
    const int32_t norm[] = { h, build_constant(b, SHAPE(HIDDEN), 0.5, 1.5) };
    const int32_t gather[] = { h, build_integers(b, 4, chosen) };
    const struct hrf_attributes slice = hrf_attributes_slice(1, 2, 6);
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    const int32_t parts[] = { build_node(b, HRF_OP_LAYER_NORM, norm, 2, &a),
                              build_node(b, HRF_OP_LOG_SOFTMAX, &h, 1, &a),
                              build_node(b, HRF_OP_GATHER, gather, 2, &a),
                              build_node(b, HRF_OP_SLICE, &h, 1, &slice),
                              build_unary(b, HRF_OP_SWIGLU, h),
                              build_batch_norm(b, h, HIDDEN) };
    const int32_t y = build_node(b, HRF_OP_CONCAT, parts, sizeof parts / sizeof parts[0], &a);
    outputs[(*n)++] = along(b, HRF_OP_REDUCE_MEAN, y, 0, true);
    return outputs[(*n)++] = y;
}

/* A pass for the mean, one for the deviation, one for what is computed of both. */
static int32_t make_levels(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t d = build_binary(b, HRF_OP_SUB, x, along(b, HRF_OP_REDUCE_MEAN, x, 0, true));
    const int32_t v = along(b, HRF_OP_REDUCE_MEAN, build_binary(b, HRF_OP_MUL, d, d), 0, true);
    const int32_t y = build_binary(b, HRF_OP_DIV, d, build_unary(b, HRF_OP_SQRT, v));
    const int32_t a = along(b, HRF_OP_SOFTMAX, linear(b, y, WIDTH, 1), 0, false);
    outputs[(*n)++] = build_binary(b, HRF_OP_MATMUL, transpose(b, a, 2), y);
    outputs[(*n)++] = build_unary(b, HRF_OP_SIGMOID, linear(b, y, WIDTH, 2));
    return outputs[(*n)++] = v;
}

/* ---- that need all rows ---- */

static int32_t make_attention(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t a = along(b, HRF_OP_SOFTMAX,
                            build_binary(b, HRF_OP_MATMUL, x, transpose(b, x, 2)), 1, false);
    return outputs[(*n)++] = along(b, HRF_OP_REDUCE_MEAN, build_binary(b, HRF_OP_MATMUL, a, x), 0,
                                   true);
}

/* The mean as a sum over N: N is a number of the network. */
static int32_t make_count(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.to = HRF_F32;
    const int32_t sizes = build_unary(b, HRF_OP_SHAPE, x), zero = build_index(b, 0);
    const int32_t size = build_binary(b, HRF_OP_GATHER, sizes, zero);
    const int32_t count = build_node(b, HRF_OP_CAST, &size, 1, &a);
    return outputs[(*n)++] = build_binary(b, HRF_OP_DIV, along(b, HRF_OP_REDUCE_SUM, x, 0, true),
                                          count);
}

/* The greatest weighted number: not linear in the weights. */
static int32_t make_greatest(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t a = along(b, HRF_OP_SOFTMAX, linear(b, x, WIDTH, 1), 0, false);
    return outputs[(*n)++] = along(b, HRF_OP_REDUCE_MAX, build_binary(b, HRF_OP_MUL, x, a), 0,
                                   true);
}

static int32_t make_log(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const int32_t a = along(b, HRF_OP_SOFTMAX, linear(b, x, WIDTH, 1), 0, false);
    return outputs[(*n)++] = along(b, HRF_OP_REDUCE_SUM, build_unary(b, HRF_OP_LOG, a), 0, true);
}

static int32_t make_first_rows(struct build *b, int32_t x, int32_t *n, int32_t *outputs)
{
    const struct hrf_attributes a = hrf_attributes_slice(0, 0, 1);
    return outputs[(*n)++] = build_node(b, HRF_OP_SLICE, &x, 1, &a);
}

static const struct {
    const char *name;
    int32_t (*make)(struct build *b, int32_t x, int32_t *n, int32_t *outputs);
    int32_t rank;
    const char *why_not; /* NULL: it can be computed in blocks */
} networks[] = {
    { "product and sum", make_product_and_sum, 2, NULL },
    { "branches", make_branches, 2, NULL },
    { "batch", make_batch, 3, NULL },
    { "pools", make_pools, 2, NULL },
    { "top patches", make_top_patches, 2, NULL },
    { "columns", make_columns, 2, NULL },
    { "levels", make_levels, 2, NULL },
    { "attention", make_attention, 2, "(MatMul) needs all embeddings at once" },
    { "count", make_count, 2, "(Div) needs all embeddings at once" },
    { "greatest", make_greatest, 2, "(ReduceMax) needs all embeddings at once" },
    { "log", make_log, 2, "(Log) needs all embeddings at once" },
    { "first rows", make_first_rows, 2, "(Slice) needs all embeddings at once" },
};

static struct hrf_graph *make_network(size_t i)
{
    struct build b = build_start(5 + i);
    int32_t outputs[8], n = 0;
    const int32_t x = build_input(&b,
                                  networks[i].rank == 3 ? SHAPE(1, -1, WIDTH) : SHAPE(-1, WIDTH));
    networks[i].make(&b, x, &n, outputs);
    assert_int_equal(hrf_graph_set_io(b.graph, &x, 1, outputs, n, NULL), HRF_OK);
    return b.graph;
}

/* Each rule of the operator table is met. */
static void others_are_what_the_whole_bag_gives(void **state)
{
    (void)state;
    bool is_met[HRF_N_ROW_RULES] = { [HRF_ROWS_WHOLE] = true };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        struct hrf_graph *graph = make_network(i);
        for (int32_t k = 0; k < graph->n_nodes && networks[i].why_not == NULL; k++)
            is_met[hrf_op_rows(graph->nodes[k].op)] = true;
        if (networks[i].why_not == NULL)
            compare_sizes(graph, WIDTH, networks[i].name);
        hrf_graph_destroy(graph);
    }
    for (int rule = HRF_ROWS_WHOLE; rule < HRF_N_ROW_RULES; rule++)
        assert_true(is_met[rule]);
}

static void what_needs_all_rows_is_named(void **state)
{
    (void)state;
    struct hrf_row_blocks *blocks = NULL;
    struct hrf_error err = { .status = HRF_OK };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        struct hrf_graph *graph = make_network(i);
        if (networks[i].why_not != NULL) {
            assert_int_equal(hrf_row_blocks_create(graph, WIDTH, 16, &blocks, &err),
                             HRF_E_UNSUPPORTED);
            if (strstr(err.text, networks[i].why_not) == NULL)
                fail_msg("%s: %s", networks[i].name, err.text);
        }
        hrf_graph_destroy(graph);
    }
    const struct hrf_head_form form = {
        .kind = HRF_HEAD_TRANSMIL, .width = 24, .n_classes = 2, .hidden = 16, .landmarks = 4
    };
    struct hrf_head *head = NULL;
    assert_int_equal(hrf_head_create(&form, 3, &head, NULL), HRF_OK);
    struct hrf_graph *graph = export_head(head);
    assert_int_equal(hrf_row_blocks_create(graph, 24, 16, &blocks, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "needs all embeddings at once"));
    hrf_graph_destroy(graph);
    hrf_head_destroy(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_heads_give_pytorchs_numbers),
        cmocka_unit_test(our_heads_are_what_the_whole_bag_gives),
        cmocka_unit_test(others_are_what_the_whole_bag_gives),
        cmocka_unit_test(what_needs_all_rows_is_named),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
