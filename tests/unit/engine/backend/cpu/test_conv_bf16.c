/* oneDNN's bfloat16 convolution against the reference. Processors with plain AVX-512 run it too
 * (oneDNN emulates it there), so it is tested where the engine itself would not choose it. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/ref/ref.h"
#include "engine/ir/number.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "tests/unit/engine/backend/cpu/layer.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>

/* conv + relu; conv + residual + relu; a grouped conv whose result is float32. */
static struct hrf_graph *lowered_graph(void)
{
    struct build b = build_start(7);
    struct hrf_attributes grouped = hrf_attributes_default();
    grouped.window.kernel[0] = grouped.window.kernel[1] = 3;
    grouped.window.stride[0] = grouped.window.stride[1] = 2;
    grouped.window.pad_begin[0] = grouped.window.pad_end[1] = 1; /* not the same on all sides */
    grouped.group = 4;
    const int32_t x = build_input(&b, SHAPE(2, 20, 13, 11));
    const int32_t first = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 20, 20, 3, 1, true));
    const int32_t second = build_plain_conv(&b, first, 20, 20, 1, 1, true);
    const int32_t sum = build_unary(&b, HRF_OP_RELU, build_binary(&b, HRF_OP_ADD, second, x));
    const int32_t y = build_conv(&b, sum, 20, 24, 4, false, &grouped);
    struct hrf_graph *graph = build_finish(&b, &y, 1), *lowered = NULL;
    const struct hrf_lowering how = { .type = HRF_B16 };
    must(hrf_passes_run(graph, &err));
    must(hrf_pass_lower(graph, &how, &lowered, NULL, &err));
    hrf_graph_destroy(graph);
    return lowered;
}

static void *random_buffer(const struct hrf_value *value, uint64_t seed)
{
    const int64_t n = hrf_shape_count(&value->shape);
    uint16_t *x = hrf_alloc_aligned((size_t)n * sizeof(float), HRF_BUFFER_ALIGNMENT);
    struct hrf_random random = hrf_random_init(seed);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = hrf_b16_from_float((float)(hrf_random_unit(&random) * 2 - 1));
    return x;
}

/* The node's result as floats; heap. */
static float *run_kernel(const struct hrf_graph *graph, const struct hrf_node *node,
                         struct hrf_kernel *kernel)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const int64_t n = hrf_shape_count(&y->shape);
    const void *inputs[HRF_CONV_N_INPUTS] = { NULL };
    void *owned[HRF_CONV_N_INPUTS] = { NULL };
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0 && graph->values[node->inputs[i]].data == NULL)
            inputs[i] = owned[i] = random_buffer(&graph->values[node->inputs[i]], (uint64_t)i + 1);
    void *out = hrf_alloc_aligned((size_t)n * sizeof(float), HRF_BUFFER_ALIGNMENT);
    void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1, HRF_BUFFER_ALIGNMENT);
    float *floats = hrf_alloc_array((size_t)n, sizeof *floats);
    assert_true(out != NULL && workspace != NULL && floats != NULL);
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_floats_from(y->dtype, out, floats, n);
    for (int32_t i = 0; i < HRF_CONV_N_INPUTS; i++)
        hrf_free(owned[i]);
    hrf_free(workspace);
    hrf_free(out);
    return floats;
}

static void check_node(const struct hrf_graph *graph, const struct hrf_node *node,
                       struct hrf_backend *cpu, struct hrf_backend *ref)
{
    struct hrf_kernel *fast = NULL, *truth = NULL;
    must(hrf_cpu_onednn.compile(&hrf_cpu_onednn, cpu, graph, node, &fast, &err));
    must(hrf_backend_compile(&hrf_backend_ref, ref, graph, node, &truth, &err));
    float *a = run_kernel(graph, node, fast), *b = run_kernel(graph, node, truth);
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    /* One step of bfloat16 where the sums' last bits decide the rounding. */
    const double step = y->dtype == HRF_B16 ? 0x1p-7 : 0x1p-18;
    for (int64_t i = 0; i < hrf_shape_count(&y->shape); i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= fabs((double)b[i]) * step + 1e-5))
            fail_msg("%s at %lld: %g is not %g", node->name, (long long)i, (double)a[i],
                     (double)b[i]);
    hrf_free(a);
    hrf_free(b);
    hrf_kernel_destroy(fast);
    hrf_kernel_destroy(truth);
}

static void bfloat16_convolutions_agree_with_the_reference(void **state)
{
    (void)state;
    const struct hrf_backend_config config = { .n_threads = 2 };
    struct hrf_backend *cpu = NULL, *ref = NULL;
    if ((dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core)
        skip(); /* oneDNN has no bfloat16 at all there */
    struct hrf_graph *graph = lowered_graph();
    int n_convolutions = 0, n_residuals = 0;
    must(hrf_backend_cpu.create(&config, &cpu, &err));
    must(hrf_backend_ref.create(&config, &ref, &err));
    hrf_backend_cpu.enter(cpu);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == HRF_OP_CONV) {
            check_node(graph, &graph->nodes[i], cpu, ref);
            n_convolutions++;
            n_residuals += graph->nodes[i].n_inputs > HRF_CONV_RESIDUAL &&
                           graph->nodes[i].inputs[HRF_CONV_RESIDUAL] >= 0;
        }
    assert_int_equal(n_convolutions, 3);
    assert_int_equal(n_residuals, 1);
    hrf_backend_ref.destroy(ref);
    hrf_backend_cpu.destroy(cpu);
    hrf_graph_destroy(graph);
}

/* What the caller gives away is freed as it is rounded, but weights that two layers read stay for
 * the second; the lowered graph is the same as without. */
static void weights_are_freed_as_they_are_rounded_unless_two_layers_read_them(void **state)
{
    (void)state;
    struct build b = build_start(3);
    const int32_t x = build_input(&b, SHAPE(1, 8, 5, 5));
    const int32_t first = build_plain_conv(&b, x, 8, 8, 3, 1, true);
    const int32_t second = build_plain_conv(&b, first, 8, 8, 3, 1, true);
    const int32_t y = build_plain_conv(&b, second, 8, 8, 3, 1, true);
    struct hrf_graph *graph = build_finish(&b, &y, 1), *kept = NULL, *spent = NULL;
    struct hrf_lowering how = { .type = HRF_B16 };
    const int32_t shared = graph->nodes[0].inputs[HRF_CONV_WEIGHTS];
    const int32_t own = graph->nodes[2].inputs[HRF_CONV_WEIGHTS];
    graph->nodes[1].inputs[HRF_CONV_WEIGHTS] = shared;
    must(hrf_pass_lower(graph, &how, &kept, NULL, &err));
    assert_non_null(graph->values[own].data);
    how.spent = graph;
    must(hrf_pass_lower(graph, &how, &spent, NULL, &err));
    assert_null(graph->values[own].data);
    assert_non_null(graph->values[shared].data);
    assert_int_equal(spent->n_values, kept->n_values);
    for (int32_t i = 0; i < kept->n_values; i++)
        if (kept->values[i].data != NULL)
            assert_memory_equal(spent->values[i].data, kept->values[i].data,
                                (size_t)hrf_shape_count(&kept->values[i].shape) * sizeof(float));
    hrf_graph_destroy(kept);
    hrf_graph_destroy(spent);
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bfloat16_convolutions_agree_with_the_reference),
        cmocka_unit_test(weights_are_freed_as_they_are_rounded_unless_two_layers_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
