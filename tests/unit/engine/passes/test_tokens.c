/* A transformer's block in the forms that exporters write: it becomes a norm, products and one
 * attention over tokens, which compute the same numbers on the reference and on the CPU. */
#include "tests/unit/unit.h"

#include "engine/passes/passes.h"
#include "tests/ops/build.h"

#include <stdio.h>
#include <string.h>

enum form {
    ONE_PRODUCT,    /* q, k and v by one product, cut along an axis of 3 (timm) */
    THREE_PRODUCTS, /* each by its own (Hugging Face) */
    KEYS_TURNED,    /* the same with the keys as [N][heads][d][S] */
    TOKENS_FIRST,   /* all on [T][N][C] (PyTorch's MultiheadAttention) */
    N_FORMS
};

struct sizes {
    int64_t n, tokens, heads, d;
};

static int32_t reshape(struct build *b, int32_t x, int64_t rank, const int64_t *dims)
{
    return build_binary(b, HRF_OP_RESHAPE, x, build_integers(b, rank, dims));
}

static int32_t permute(struct build *b, int32_t x, int32_t rank, const int64_t *axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = rank;
    memcpy(a.axes, axes, (size_t)rank * sizeof *axes);
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t linear(struct build *b, int32_t x, int64_t in, int64_t out)
{
    const int32_t y = build_binary(b, HRF_OP_MATMUL, x,
                                   build_constant(b, SHAPE(in, out), -0.2, 0.2));
    return build_binary(b, HRF_OP_ADD, build_constant(b, SHAPE(out), -1, 1), y);
}

/* Part i of [3][N][heads][T][d]. */
static int32_t part_of(struct build *b, int32_t x, const struct sizes *s, int64_t i)
{
    const struct hrf_attributes a = hrf_attributes_slice(0, i, i + 1);
    const int32_t part = build_node(b, HRF_OP_SLICE, &x, 1, &a);
    return reshape(b, part, 4, (const int64_t[]){ s->n, s->heads, s->tokens, s->d });
}

static const int64_t swap[] = { 1, 0, 2 };

/* torchvision's q, k and v of x [N][T][C]. */
static void find_turned_heads(struct build *b, int32_t x, const struct sizes *s, int32_t out[3])
{
    const int64_t c = s->heads * s->d;
    const int32_t all = reshape(b, linear(b, permute(b, x, 3, swap), c, 3 * c), 5,
                                (const int64_t[]){ 1, s->tokens, s->n, 3, c });
    const int32_t three = permute(b, all, 5, (const int64_t[]){ 3, 1, 2, 0, 4 });
    const int32_t parts = reshape(b, three, 4, (const int64_t[]){ 3, s->tokens, s->n, c });
    for (int64_t i = 0; i < 3; i++) {
        int32_t y = build_binary(b, HRF_OP_GATHER, parts, build_index(b, i));
        y = permute(b, reshape(b, y, 3, (const int64_t[]){ s->tokens, s->n * s->heads, s->d }), 3,
                    swap);
        out[i] = reshape(b, y, 4, (const int64_t[]){ s->n, s->heads, s->tokens, s->d });
    }
}

/* Its last product, of the heads [N][heads][T][d]. */
static int32_t turn_back(struct build *b, int32_t heads, const struct sizes *s)
{
    const int64_t c = s->heads * s->d;
    struct hrf_attributes a = hrf_attributes_default();
    a.gemm.alpha = a.gemm.beta = 1;
    a.gemm.transpose_b = true;
    const int32_t rows = reshape(b, permute(b, heads, 4, (const int64_t[]){ 2, 0, 1, 3 }), 2,
                                 (const int64_t[]){ s->tokens * s->n, c });
    const int32_t inputs[] = { rows, build_constant(b, SHAPE(c, c), -0.2, 0.2),
                               build_constant(b, SHAPE(c), -1, 1) };
    const int32_t y = build_node(b, HRF_OP_GEMM, inputs, 3, &a);
    return permute(b, reshape(b, y, 3, (const int64_t[]){ s->tokens, s->n, c }), 3, swap);
}

static void find_heads(struct build *b, int32_t x, const struct sizes *s, enum form form,
                       int32_t out[3])
{
    const int64_t c = s->heads * s->d;
    if (form == TOKENS_FIRST) {
        find_turned_heads(b, x, s, out);
        return;
    }
    if (form == ONE_PRODUCT) {
        const int32_t all = reshape(b, linear(b, x, c, 3 * c), 5,
                                    (const int64_t[]){ s->n, s->tokens, 3, s->heads, s->d });
        const int32_t turned = permute(b, all, 5, (const int64_t[]){ 2, 0, 3, 1, 4 });
        for (int64_t i = 0; i < 3; i++)
            out[i] = part_of(b, turned, s, i);
        return;
    }
    for (int i = 0; i < 3; i++) {
        const bool turns_keys = form == KEYS_TURNED && i == 1;
        const int32_t each = reshape(b, linear(b, x, c, c), 4,
                                     (const int64_t[]){ s->n, s->tokens, s->heads, s->d });
        out[i] = permute(b, each, 4,
                         turns_keys ? (const int64_t[]){ 0, 2, 3, 1 }
                                    : (const int64_t[]){ 0, 2, 1, 3 });
    }
}

/* x + factors * (attention(norm(x)) W + b); *inside: the attention's result, which keeps the moves
 * around it when something else reads it. */
static int32_t block(struct build *b, const struct sizes *s, enum form form, int32_t *inside)
{
    const int64_t c = s->heads * s->d;
    const int32_t x = build_input(b, SHAPE(s->n, s->tokens, c));
    struct hrf_attributes norm = hrf_attributes_default(), a = norm;
    norm.axis = 2;
    norm.epsilon = 1e-5f;
    a.attention.transpose_k = form == KEYS_TURNED;
    const int32_t parameters[] = { x, build_constant(b, SHAPE(c), 0.5, 2),
                                   build_constant(b, SHAPE(c), -1, 1) };
    const int32_t y = build_node(b, HRF_OP_LAYER_NORM, parameters, 3, &norm);
    int32_t heads[4];
    find_heads(b, y, s, form, heads);
    heads[3] = form == THREE_PRODUCTS
                   ? build_constant(b, SHAPE(1, s->heads, s->tokens, s->tokens), -1, 1)
                   : HRF_NO_VALUE;
    *inside = build_node(b, HRF_OP_ATTENTION, heads, 4, &a);
    if (form == TOKENS_FIRST)
        return build_binary(b, HRF_OP_ADD, x, turn_back(b, *inside, s));
    const int32_t back = reshape(b, permute(b, *inside, 4, (const int64_t[]){ 0, 2, 1, 3 }), 3,
                                 (const int64_t[]){ s->n, s->tokens, c });
    const int32_t z = build_binary(b, HRF_OP_MUL, linear(b, back, c, c),
                                   build_constant(b, SHAPE(c), 0.5, 1));
    return build_binary(b, HRF_OP_ADD, x, z);
}

/* A calibration knows what is computed by its name. */
static void names_differ(const struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_values; i++)
        for (int32_t k = 0; k < i; k++)
            if (graph->values[i].producer >= 0 && graph->values[k].producer >= 0 &&
                strcmp(graph->values[i].name, graph->values[k].name) == 0)
                fail_msg("two tensors are named '%s'", graph->values[i].name);
}

static void pass(struct hrf_graph *graph)
{
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_passes_run(graph, &err) != HRF_OK || hrf_pass_fuse_transformer(graph, &err) != HRF_OK ||
        hrf_pass_batch_first(graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    names_differ(graph);
    if (hrf_pass_attention_of_tokens(graph, &err) != HRF_OK ||
        hrf_pass_fuse_product(graph, &err) != HRF_OK ||
        hrf_pass_fuse_product_residual(graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

static void check_block(uint64_t seed, enum form form)
{
    struct build b = build_start(seed);
    const struct sizes s = { build_pick(&b, 1, 3), build_pick(&b, 1, 60), build_pick(&b, 1, 4),
                             build_pick(&b, 1, 40) };
    int32_t inside;
    const int32_t y = block(&b, &s, form, &inside);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    int64_t n[4];
    float *truth = run_graph(graph, "ref", 1, seed, 1, &n[0]);
    pass(graph);
    const int products = form == ONE_PRODUCT || form == TOKENS_FIRST ? 2 : 4;
    assert_int_equal(graph->n_nodes, products + 2); /* and the norm, the attention */
    assert_int_equal(build_count(graph, HRF_OP_GEMM), products);
    float *ref = run_graph(graph, "ref", 1, seed, 1, &n[1]);
    float *two = run_graph(graph, "cpu", 2, seed, 2, &n[2]);
    float *one = run_graph(graph, "cpu", 1, seed, 1, &n[3]);
    assert_true(relative_difference(ref, truth, n[0]) <= 1e-5);
    assert_true(relative_difference(two, truth, n[0]) <= 1e-5);
    assert_memory_equal(one, two, (size_t)n[0] * sizeof *one);
    hrf_free(truth);
    hrf_free(ref);
    hrf_free(two);
    hrf_free(one);
    hrf_graph_destroy(graph);
}

static void a_block_is_a_norm_products_and_one_attention(void **state)
{
    (void)state;
    for (int form = 0; form < N_FORMS; form++)
        for (uint64_t seed = 0; seed < 12; seed++)
            check_block(seed, (enum form)form);
}

static void what_others_read_keeps_its_moves(void **state)
{
    (void)state;
    const struct sizes s = { 2, 7, 3, 8 };
    struct build b = build_start(1);
    int32_t outputs[2];
    outputs[0] = block(&b, &s, ONE_PRODUCT, &outputs[1]);
    struct hrf_graph *graph = build_finish(&b, outputs, 2);
    pass(graph);
    assert_true(build_count(graph, HRF_OP_TRANSPOSE) > 0);
    hrf_graph_destroy(graph);
}

/* In 16 bits the numbers are those of the reference in 16 bits, but for its last places. */
static void a_block_in_16_bits_is_near_the_reference(void **state)
{
    (void)state;
    static const enum hrf_precision precisions[] = { HRF_FP16, HRF_BF16 };
    static const double limits[] = { 4e-3, 3e-2 };
    for (int p = 0; p < 2; p++)
        for (int form = 0; form < N_FORMS; form++) {
            struct build b = build_start((uint64_t)form);
            const struct sizes s = { 2, 33, 2, 24 };
            int32_t inside;
            int64_t n, n_one, n_two;
            const int32_t y = block(&b, &s, (enum form)form, &inside);
            struct hrf_graph *graph = build_finish(&b, &y, 1);
            float *ref = run_graph_in(graph, "ref", precisions[p], 1, 5, 1, &n, NULL);
            float *one = run_graph_in(graph, "cpu", precisions[p], 1, 5, 1, &n_one, NULL);
            float *two = run_graph_in(graph, "cpu", precisions[p], 2, 5, 1, &n_two, NULL);
            const double difference = relative_difference(one, ref, n);
            if (!(difference <= limits[p]))
                fail_msg("%s, form %d: off by %g", hrf_precision_name(precisions[p]), form,
                         difference);
            assert_memory_equal(one, two, (size_t)n * sizeof *one);
            hrf_free(ref);
            hrf_free(one);
            hrf_free(two);
            hrf_graph_destroy(graph);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_a_norm_products_and_one_attention),
        cmocka_unit_test(what_others_read_keeps_its_moves),
        cmocka_unit_test(a_block_in_16_bits_is_near_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
