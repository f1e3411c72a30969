/* Every operator that computes or moves, over random shapes: cpu against ref, twice the same bits,
 * one thread and two. */

#include "engine/backend/backend.h"
#include "engine/ir/number.h"
#include "engine/ir/op.h"
#include "tests/ops/cases.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe(const struct hrf_graph *graph, char *text, size_t size)
{
    const struct hrf_node *node = &graph->nodes[0];
    char shape[128];
    size_t at = 0;
    for (int32_t i = 0; i < node->n_inputs && at < size; i++) {
        if (node->inputs[i] < 0)
            continue;
        hrf_shape_text(&graph->values[node->inputs[i]].shape, shape);
        at += (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? ", " : "", shape);
    }
}

static void check_case(const struct op_case *row, uint64_t seed, double *worst)
{
    char shapes[512] = "";
    struct build b = build_start(seed);
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    describe(graph, shapes, sizeof shapes);
    int64_t n, n_ref, n_one;
    float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
    float *two = run_graph(graph, "cpu", 2, seed, 2, &n);
    float *one = run_graph(graph, "cpu", 1, seed, 1, &n_one);
    const double difference = relative_difference(two, truth, n_ref);
    if (n != n_ref || !(difference <= row->tolerance))
        fail_msg("%s, seed %llu (%s): %g of the largest output, at most %g is right", row->name,
                 (unsigned long long)seed, shapes, difference, row->tolerance);
    if (row->same_on_any_threads && memcmp(one, two, (size_t)n * sizeof *one) != 0)
        fail_msg("%s, seed %llu (%s): other bits on one thread", row->name,
                 (unsigned long long)seed, shapes);
    assert_true(relative_difference(one, truth, n_ref) <= row->tolerance);
    *worst = difference > *worst ? difference : *worst;
    hrf_free(truth);
    hrf_free(one);
    hrf_free(two);
    hrf_graph_destroy(graph);
}

static void cpu_agrees_with_the_reference_on_every_operator(void **state)
{
    (void)state;
    for (int i = 0; i < n_op_cases; i++) {
        double worst = 0;
        for (int k = 0; k < op_cases[i].n_cases; k++)
            check_case(&op_cases[i], (uint64_t)(1000 * i + k), &worst);
        printf("%-20s %3d cases, worst %.1e (limit %.1e)\n", op_cases[i].name, op_cases[i].n_cases,
               worst, op_cases[i].tolerance);
    }
}

/* ---- every row of the CPU's kernels, not only the first that fits ---- */

enum { MOST_ROWS = 96, WALKED_CASES = 4 };

struct walk {
    const struct hrf_backend_ops *cpu, *ref;
    struct hrf_backend *on_cpu, *on_ref;
    int n_walked[MOST_ROWS], n_chosen[MOST_ROWS];
};

static enum hrf_isa highest; /* that the table below may use */

static bool has_isa(enum hrf_isa isa)
{
    const struct hrf_backend_ops *cpu = NULL;
    return isa <= highest && hrf_backend_open("cpu", &cpu, NULL) == HRF_OK &&
           cpu->kernels->has_isa(isa);
}

static void *random_numbers(const struct hrf_value *value, struct hrf_random *random)
{
    const int64_t n = hrf_shape_count(&value->shape);
    void *numbers = hrf_alloc_aligned((size_t)hrf_value_bytes(value) + 64, HRF_BUFFER_ALIGNMENT);
    assert_non_null(numbers);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(hrf_random_unit(random) * 4 - 2);
        if (value->dtype == HRF_F32)
            ((float *)numbers)[i] = x;
        else if (value->dtype == HRF_F64)
            ((double *)numbers)[i] = (double)x;
        else if (value->dtype == HRF_S8 || value->dtype == HRF_U8)
            ((uint8_t *)numbers)[i] = (uint8_t)hrf_random_below(random, 256);
        else
            hrf_floats_to(value->dtype, &x, (uint16_t *)numbers + i, 1);
    }
    return numbers;
}

static void *compute(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                     const struct hrf_graph *graph, const struct hrf_node *node, void **inputs)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_kernel *kernel = NULL;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (row->compile(row, backend, graph, node, &kernel, &err) != HRF_OK)
        fail_msg("%s: %s", row->name, err.text);
    void *out = hrf_alloc_aligned((size_t)hrf_value_bytes(y) + 64, HRF_BUFFER_ALIGNMENT);
    void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 64, HRF_BUFFER_ALIGNMENT);
    assert_true(out != NULL && workspace != NULL);
    memset(workspace, 0xff, kernel->workspace_bytes);
    const struct hrf_kernel_call call = { (const void *const *)inputs, out, workspace };
    if (kernel->run(kernel, &call, &err) != HRF_OK)
        fail_msg("%s: %s", row->name, err.text);
    hrf_free(workspace);
    hrf_kernel_destroy(kernel);
    return out;
}

static float *as_floats(const struct hrf_value *value, const void *numbers)
{
    const int64_t n = hrf_shape_count(&value->shape);
    float *floats = hrf_alloc_array((size_t)n + 1, sizeof *floats);
    assert_non_null(floats);
    if (value->dtype == HRF_F16 || value->dtype == HRF_B16)
        hrf_floats_from(value->dtype, numbers, floats, n);
    for (int64_t i = 0; i < n; i++)
        if (value->dtype == HRF_F32)
            floats[i] = ((const float *)numbers)[i];
        else if (value->dtype == HRF_F64)
            floats[i] = (float)((const double *)numbers)[i];
        else if (value->dtype == HRF_S8)
            floats[i] = ((const int8_t *)numbers)[i];
        else if (value->dtype == HRF_U8)
            floats[i] = ((const uint8_t *)numbers)[i];
    return floats;
}

/* Bytes are equal; what is stored in 16 bits, or multiplied in fixed point
 * (fixed_attention_avx512.c), is off by their steps. */
static double tolerance_of(const struct hrf_graph *graph, const struct hrf_node *node,
                           double of_case)
{
    const enum hrf_dtype type = graph->values[node->outputs[0]].dtype;
    if (type == HRF_S8 || type == HRF_U8)
        return 0;
    if (hrf_op_is_attention(node->op) && node->attributes.attention.fixed_point)
        return 0x1p-10;
    if (type == HRF_B16 || hrf_node_form(graph, node) == HRF_FORM_HALF)
        return 0x1p-6;
    return of_case > 3e-5 ? of_case : 3e-5;
}

static void walk_node(struct walk *w, const struct op_case *of, const char *precision,
                      const struct hrf_graph *graph, const struct hrf_node *node, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_kernel_row *truth = hrf_kernel_find(w->ref->kernels, graph, node, NULL);
    struct hrf_kernel_table table = *w->cpu->kernels;
    void *inputs[32] = { NULL };
    table.has_isa = has_isa;
    assert_true(node->n_inputs <= 32);
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && graph->values[node->inputs[i]].data == NULL)
            inputs[i] = random_numbers(&graph->values[node->inputs[i]], &random);
    void *wanted = truth != NULL ? compute(truth, w->on_ref, graph, node, inputs) : NULL;
    float *right = wanted != NULL ? as_floats(y, wanted) : NULL;
    for (highest = HRF_ISA_ANY; highest <= HRF_ISA_AMX; highest++) {
        const struct hrf_kernel_row *first = hrf_kernel_find(&table, graph, node, NULL);
        for (int r = 0; table.rows[r] != NULL; r++)
            w->n_chosen[r] += table.rows[r] == first;
    }
    highest = HRF_ISA_AMX;
    for (int r = 0; table.rows[r] != NULL; r++) {
        const struct hrf_kernel_row *row = table.rows[r];
        if (hrf_kernel_misfit(&table, row, graph, node) != NULL)
            continue;
        void *got = compute(row, w->on_cpu, graph, node, inputs);
        float *numbers = as_floats(y, got);
        if (right == NULL) /* the reference has none: rows agree with one another */
            right = as_floats(y, got);
        const double difference = relative_difference(numbers, right, hrf_shape_count(&y->shape));
        if (!(difference <= tolerance_of(graph, node, of->tolerance)))
            fail_msg("case %s, seed %llu, %s: %s by '%s' is %g of the largest number off", of->name,
                     (unsigned long long)seed, precision, hrf_op_name(node->op), row->name,
                     difference);
        w->n_walked[r]++;
        hrf_free(numbers);
        hrf_free(got);
    }
    for (int32_t i = 0; i < node->n_inputs; i++)
        hrf_free(inputs[i]);
    hrf_free(wanted);
    hrf_free(right);
}

static void walk_case(struct walk *w, const struct op_case *of, uint64_t seed)
{
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_FP16, HRF_INT8 };
    for (int p = 0; p < 4; p++) {
        struct build b = build_start(seed);
        b.between_products = p == 3;
        const int32_t output = of->make(&b);
        struct hrf_graph *graph = build_finish(&b, &output, 1);
        struct hrf_graph *prepared = prepare_graph_in(graph, precisions[p], seed);
        for (int32_t v = 0; v < prepared->n_values; v++)
            prepared->values[v].pixel_stride = 0; /* ref has dense images alone */
        for (int32_t n = 0; n < prepared->n_nodes; n++)
            walk_node(w, of, hrf_precision_name(precisions[p]), prepared, &prepared->nodes[n],
                      seed);
        hrf_graph_destroy(prepared);
        hrf_graph_destroy(graph);
    }
}

/* A node as passes or ranks make it. */
static void walk_made(struct walk *w, enum hrf_op op, const struct hrf_value *inputs, int32_t n,
                      const struct hrf_value *output, const struct hrf_attributes *attributes)
{
    static const struct op_case made = { .name = "made", .tolerance = 3e-5 };
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    int32_t values[6];
    assert_int_equal(hrf_graph_create("made", &graph, &err), HRF_OK);
    for (int32_t i = 0; i <= n; i++) {
        const struct hrf_value *value = i < n ? &inputs[i] : output;
        assert_int_equal(hrf_graph_add_value(graph, i < n ? names[i] : "y", value->dtype,
                                             &value->shape, value->data, &values[i], &err),
                         HRF_OK);
        graph->values[values[i]].quantization = value->quantization;
    }
    assert_int_equal(
        hrf_graph_add_node(graph, op, "node", values, n, &values[n], 1, attributes, &err), HRF_OK);
    walk_node(w, &made, "as it is", graph, &graph->nodes[0], 1);
    hrf_graph_destroy(graph);
}

static int64_t pick(struct hrf_random *random, int64_t low, int64_t high)
{
    return low + (int64_t)(hrf_random_unit(random) * (double)(high - low + 1));
}

/* A size of an image that gives this window an output, in a third of the cases a large one. */
static int64_t pick_side(struct hrf_random *random, const struct hrf_window *w, int i)
{
    const int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1;
    const int64_t least = span - w->pad_begin[i] - w->pad_end[i];
    return (least > 1 ? least : 1) + pick(random, 0, pick(random, 0, 2) == 0 ? 45 : 12);
}

/* Products of bfloat16 as steps of training have them: both matrices come at run time. */
static void walk_products_of_pairs(struct walk *w, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    const enum hrf_dtype type = pick(&random, 0, 1) ? HRF_F32 : HRF_B16;
    const int64_t rows = pick(&random, 1, 150), depth = pick(&random, 1, 150);
    const int64_t columns = pick(&random, 1, 300), n = pick(&random, 1, 3);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_GEMM);
    a.gemm.transpose_a = pick(&random, 0, 1);
    a.gemm.transpose_b = pick(&random, 0, 1);
    a.gemm.alpha = pick(&random, 0, 2) > 0 ? 1 : 0.5f;
    const struct hrf_value u = { .dtype = HRF_B16,
                                 .shape = a.gemm.transpose_a ? SHAPE(depth, rows)
                                                             : SHAPE(rows, depth) };
    const struct hrf_value v = { .dtype = HRF_B16,
                                 .shape = a.gemm.transpose_b ? SHAPE(columns, depth)
                                                             : SHAPE(depth, columns) };
    const struct hrf_value y = { .dtype = type, .shape = SHAPE(rows, columns) };
    walk_made(w, HRF_OP_GEMM, (struct hrf_value[]){ u, v }, 2, &y, &a);
    const struct hrf_attributes plain = hrf_attributes_of(HRF_OP_MATMUL);
    const struct hrf_value many = { .dtype = HRF_B16, .shape = SHAPE(n, rows, depth) };
    const struct hrf_value one = { .dtype = HRF_B16, .shape = SHAPE(depth, columns) };
    const struct hrf_value all = { .dtype = type, .shape = SHAPE(n, rows, columns) };
    walk_made(w, HRF_OP_MATMUL, (struct hrf_value[]){ many, one }, 2, &all, &plain);

    /* What lies between them, in 16 bits: more numbers than are computed at a time. */
    float numbers[4][24];
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 24; i++)
            numbers[k][i] = (float)hrf_random_unit(&random) + 0.5f;
    const struct hrf_value image = { .dtype = HRF_B16,
                                     .shape = SHAPE(n, 24, pick(&random, 1, 20), 11) };
    struct hrf_attributes f = hrf_attributes_of(HRF_OP_BATCH_NORM);
    struct hrf_value normed[5] = { image };
    for (int k = 0; k < 4; k++)
        normed[1 + k] = (struct hrf_value){ .dtype = HRF_F32,
                                            .shape = SHAPE(24),
                                            .data = numbers[k] };
    f.activation = pick(&random, 0, 1) ? HRF_ACT_RELU : HRF_ACT_NONE;
    walk_made(w, HRF_OP_BATCH_NORM, normed, 5, &image, &f);
    f = hrf_attributes_of(HRF_OP_RELU);
    walk_made(w, HRF_OP_RELU, &image, 1, &image, &f);
    f = hrf_attributes_of(HRF_OP_FUNCTION_GRADIENT);
    f.function = pick(&random, 0, 1) ? HRF_OP_GELU : HRF_OP_ELU;
    walk_made(w, HRF_OP_FUNCTION_GRADIENT, (struct hrf_value[]){ image, image }, 2, &image, &f);

    struct hrf_attributes c = hrf_attributes_of(HRF_OP_CONV_WEIGHT_GRADIENT);
    for (int i = 0; i < 2; i++) {
        c.window.kernel[i] = pick(&random, 1, 5);
        c.window.stride[i] = pick(&random, 1, 3);
        c.window.dilation[i] = pick(&random, 1, 2);
        c.window.pad_begin[i] = pick(&random, 0, c.window.kernel[i] - 1);
        c.window.pad_end[i] = pick(&random, 0, c.window.kernel[i] - 1);
    }
    const struct hrf_value x = { .dtype = HRF_B16,
                                 .shape = SHAPE(n, pick(&random, 1, 70),
                                                pick_side(&random, &c.window, 0),
                                                pick_side(&random, &c.window, 1)) };
    const int64_t out = pick(&random, 1, 70);
    const struct hrf_value dy = { .dtype = HRF_B16,
                                  .shape = SHAPE(
                                      n, out, hrf_window_output(&c.window, 0, x.shape.dims[2]),
                                      hrf_window_output(&c.window, 1, x.shape.dims[3])) };
    const struct hrf_value weights = { .dtype = HRF_F32,
                                       .shape = SHAPE(out, x.shape.dims[1], c.window.kernel[0],
                                                      c.window.kernel[1]) };
    walk_made(w, HRF_OP_CONV_WEIGHT_GRADIENT, (struct hrf_value[]){ x, dy }, 2, &weights, &c);

    struct hrf_attributes t = hrf_attributes_of(HRF_OP_ATTENTION_GRADIENT);
    const int64_t heads = pick(&random, 1, 3), d = pick(&random, 1, 40);
    const int64_t queries = pick(&random, 1, 200), keys = pick(&random, 1, 100);
    t.attention.scale = pick(&random, 0, 1) ? 0.25f : 0;
    t.attention.causal = pick(&random, 0, 2) == 0;
    t.attention.transpose_k = pick(&random, 0, 1);
    const struct hrf_value q = { .dtype = HRF_B16, .shape = SHAPE(n, heads, queries, d) };
    const struct hrf_value values = { .dtype = HRF_B16, .shape = SHAPE(n, heads, keys, d) };
    const struct hrf_value turned = { .dtype = HRF_B16, .shape = SHAPE(n, heads, d, keys) };
    const struct hrf_value parts = { .dtype = type,
                                     .shape = SHAPE(n, heads, queries + 2 * keys, d) };
    walk_made(w, HRF_OP_ATTENTION_GRADIENT,
              (struct hrf_value[]){ q, t.attention.transpose_k ? turned : values, values, q }, 4,
              &parts, &t);
}

static void walk_what_passes_and_ranks_make(struct walk *w)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_value image = { .dtype = HRF_F32, .shape = SHAPE(2, 5, 4, 3) };
    const struct hrf_value sums = { .dtype = HRF_F64, .shape = SHAPE(2, 5, 1, 1) };
    walk_made(w, HRF_OP_POOL_SUM, &image, 1, &sums, &a);
    static const enum hrf_dtype gate_types[] = { HRF_F32, HRF_F16, HRF_B16 };
    for (int i = 0; i < 3; i++) { /* squeeze-and-excite */
        const struct hrf_value gated = { .dtype = gate_types[i], .shape = SHAPE(2, 21, 4, 3) };
        const struct hrf_value gate = { .dtype = gate_types[i], .shape = SHAPE(2, 21, 1, 1) };
        walk_made(w, HRF_OP_MUL, (struct hrf_value[]){ gated, gate }, 2, &gated, &a);
        walk_made(w, HRF_OP_MUL, (struct hrf_value[]){ gate, gated }, 2, &gated, &a);
    }
    const struct hrf_value query = { .dtype = HRF_F32, .shape = SHAPE(1, 3, 4) };
    const struct hrf_value keys = { .dtype = HRF_F32,
                                    .shape = SHAPE(1, HRF_ATTENTION_LONG + 9, 4) };
    a.attention.heads = 1;
    a.attention.head_size = 4;
    a.attention.stride[0] = a.attention.stride[1] = a.attention.stride[2] = 4;
    walk_made(w, HRF_OP_TOKEN_ATTENTION, (struct hrf_value[]){ query, keys, keys }, 3, &query, &a);
    a.attention.scale = 0.25f;
    const struct hrf_value pairs = { .dtype = HRF_B16, .shape = SHAPE(1, 7, 4) };
    walk_made(w, HRF_OP_TOKEN_ATTENTION, (struct hrf_value[]){ pairs, pairs, pairs }, 3, &pairs,
              &a);
    const struct hrf_value bytes = { .dtype = HRF_U8,
                                     .shape = SHAPE(1, 7, 4),
                                     .quantization = { .scale = 0.02f, .zero_point = 128 } };
    a.attention.scores = (struct hrf_inner_form){ .dtype = HRF_U8,
                                                  .scale = 0.03f,
                                                  .zero_point = 120 };
    a.attention.weights = (struct hrf_inner_form){ .dtype = HRF_U8, .scale = 1 / 255.0f };
    walk_made(w, HRF_OP_BYTE_ATTENTION, (struct hrf_value[]){ bytes, bytes, bytes }, 3, &bytes, &a);
}

/* Rows that no case can choose here: with AMX products are oneDNN's, without VNNI those of bytes
 * are not, and Winograd's are faster from sizes on that the reference needs seconds for
 * (test_conv_integer.c). */
static bool is_left_out(const struct hrf_backend_ops *cpu, const struct hrf_kernel_row *row)
{
    struct hrf_device_identity identity;
#ifdef HRF_EMULATE_AVX512
    const bool has_vnni = false; /* oneDNN sees the processor as it is */
#else
    const bool has_vnni = cpu->kernels->has_isa(HRF_ISA_AVX512_VNNI);
#endif
    assert_int_equal(cpu->identify(&identity, NULL), HRF_OK);
    return !cpu->kernels->has_isa(row->isa) || strstr(row->name, "winograd") != NULL ||
           (strcmp(identity.path, "AMX") == 0 && row->isa == HRF_ISA_AVX512_BF16) ||
           (!has_vnni && strcmp(row->name, "oneDNN int8") == 0);
}

static void every_row_agrees_with_the_reference_and_is_chosen_somewhere(void **state)
{
    (void)state;
    const struct hrf_backend_config config = { .n_threads = 2, .device_index = -1 };
    struct walk w = { .n_walked = { 0 } };
    const char *text = getenv("HRF_TEST_PRODUCTS"); /* for a longer search */
    const uint64_t n_products = text != NULL ? strtoull(text, NULL, 10) : 12;
    assert_int_equal(hrf_backend_open("cpu", &w.cpu, NULL), HRF_OK);
    assert_int_equal(hrf_backend_open("ref", &w.ref, NULL), HRF_OK);
    assert_int_equal(w.cpu->create(&config, &w.on_cpu, NULL), HRF_OK);
    assert_int_equal(w.ref->create(&config, &w.on_ref, NULL), HRF_OK);
    w.cpu->enter(w.on_cpu);
    for (int i = 0; i < n_op_cases; i++)
        for (int k = 0; k < WALKED_CASES && k < op_cases[i].n_cases; k++)
            walk_case(&w, &op_cases[i], (uint64_t)(1000 * i + k));
    walk_what_passes_and_ranks_make(&w);
    for (uint64_t seed = 1; seed <= n_products; seed++)
        walk_products_of_pairs(&w, seed);
    int n_missing = 0;
    for (int r = 0; w.cpu->kernels->rows[r] != NULL; r++) {
        const struct hrf_kernel_row *row = w.cpu->kernels->rows[r];
        printf("%-30s %5d walked, %5d chosen\n", row->name, w.n_walked[r], w.n_chosen[r]);
        assert_true(r < MOST_ROWS);
        assert_non_null(row->name);
        assert_true(row->compile != NULL && (row->n_ops > 0 || row->is_op != NULL));
        n_missing += w.n_chosen[r] == 0 && !is_left_out(w.cpu, row);
    }
    w.cpu->destroy(w.on_cpu);
    w.ref->destroy(w.on_ref);
    assert_int_equal(n_missing, 0);
}

static void the_table_names_every_operator_that_computes(void **state)
{
    (void)state;
    static const enum hrf_op others[] = {
        HRF_OP_FLATTEN,
        HRF_OP_SQUEEZE,
        HRF_OP_UNSQUEEZE,
        HRF_OP_IDENTITY,
        HRF_OP_CAST,
        HRF_OP_QUANTIZE,
        HRF_OP_DEQUANTIZE,
        HRF_OP_EXCHANGE,
        HRF_OP_ALL_REDUCE,
        HRF_OP_POOL_SUM,
        HRF_OP_POOL_FINISH,
        HRF_OP_TOKEN_PRODUCT,  /* INT8 makes it of GEMM and CONV */
        HRF_OP_BYTE_ATTENTION, /* test_byte_attention.c */
        HRF_OP_ATTENTION_PART, /* test_parallel.c */
        HRF_OP_PERFORMER_MAX,
        HRF_OP_PERFORMER_STATE,
        HRF_OP_PERFORMER_APPLY,
        HRF_OP_SPACE_TO_DEPTH,
        HRF_OP_TOP_K,
    };
    for (int op = 0; op < HRF_N_OPS; op++) {
        bool found = false;
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            found |= (int)others[i] == op;
        for (int i = 0; i < n_op_cases; i++)
            found |= (int)op_cases[i].op == op;
        found |= hrf_op_is_foldable_only((enum hrf_op)op); /* no back end sees them */
        /* Rows that draw among several. */
        found |= hrf_op_is_unary((enum hrf_op)op) || hrf_op_is_binary((enum hrf_op)op) ||
                 hrf_op_is_reduction((enum hrf_op)op);
        if (!found)
            fail_msg("no case for operator %s", hrf_op_name((enum hrf_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_agrees_with_the_reference_on_every_operator),
        cmocka_unit_test(every_row_agrees_with_the_reference_and_is_chosen_somewhere),
        cmocka_unit_test(the_table_names_every_operator_that_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
