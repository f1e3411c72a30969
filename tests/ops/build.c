#include "tests/ops/build.h"

#include "engine/run/banded.h"
#include "engine/run/calibrator.h"
#include "engine/run/parallel.h"
#include "tests/unit/must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int32_t add_value(struct build *b, enum hrf_dtype dtype, struct hrf_shape shape,
                         const void *data)
{
    struct hrf_error err = { .status = HRF_OK };
    char name[32];
    int32_t index;
    snprintf(name, sizeof name, "v%d", (int)b->n_made++);
    must(hrf_graph_add_value(b->graph, name, dtype, &shape, data, &index, &err), &err);
    return index;
}

struct build build_start(uint64_t seed)
{
    struct hrf_error err = { .status = HRF_OK };
    struct build b = { .random = hrf_random_init(seed) };
    must(hrf_graph_create("test", &b.graph, &err), &err);
    return b;
}

int64_t build_pick(struct build *b, int64_t low, int64_t high)
{
    return low + hrf_random_below(&b->random, high - low + 1);
}

/* A 1x1 convolution or matrix product for shapes that have one. */
static int32_t add_product(struct build *b, int32_t x, const struct hrf_shape *shape)
{
    const int64_t c = shape->rank >= 2 ? shape->dims[1] : 0;
    if (shape->rank == 4)
        return build_plain_conv(b, x, c, c, 1, 1, true);
    if (shape->rank != 2)
        return x;
    const double scale = 2 / sqrt((double)c);
    return build_binary(b, HRF_OP_GEMM, x, build_constant(b, SHAPE(c, c), -scale, scale));
}

int32_t build_input(struct build *b, struct hrf_shape shape)
{
    struct hrf_error err = { .status = HRF_OK };
    const int32_t index = add_value(b, HRF_F32, shape, NULL);
    int32_t inputs[8] = { 0 };
    assert_true(b->graph->n_inputs < 8);
    for (int32_t i = 0; i < b->graph->n_inputs; i++)
        inputs[i] = b->graph->inputs[i];
    inputs[b->graph->n_inputs] = index;
    must(hrf_graph_set_io(b->graph, inputs, b->graph->n_inputs + 1, NULL, 0, &err), &err);
    return b->between_products ? add_product(b, index, &shape) : index;
}

int32_t build_constant(struct build *b, struct hrf_shape shape, double low, double high)
{
    const int64_t n = hrf_shape_count(&shape);
    float *data = hrf_alloc_array((size_t)n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(low + hrf_random_unit(&b->random) * (high - low));
    const int32_t index = add_value(b, HRF_F32, shape, data);
    hrf_free(data);
    return index;
}

int32_t build_index(struct build *b, int64_t number)
{
    return add_value(b, HRF_S64, (struct hrf_shape){ .rank = 0 }, &number);
}

int32_t build_integers(struct build *b, int64_t n, const int64_t *numbers)
{
    return add_value(b, HRF_S64, SHAPE(n), numbers);
}

int32_t build_node(struct build *b, enum hrf_op op, const int32_t *inputs, int32_t n,
                   const struct hrf_attributes *attributes)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_attributes defaults = hrf_attributes_default();
    char name[32];
    const int32_t output = add_value(b, HRF_F32, (struct hrf_shape){ .rank = -1 }, NULL);
    snprintf(name, sizeof name, "%s_%d", hrf_op_name(op), (int)b->graph->n_nodes);
    must(hrf_graph_add_node(b->graph, op, name, inputs, n, &output, 1,
                            attributes != NULL ? attributes : &defaults, &err),
         &err);
    return output;
}

int32_t build_unary(struct build *b, enum hrf_op op, int32_t x)
{
    return build_node(b, op, &x, 1, NULL);
}

int32_t build_binary(struct build *b, enum hrf_op op, int32_t x, int32_t y)
{
    const int32_t inputs[] = { x, y };
    return build_node(b, op, inputs, 2, NULL);
}

int32_t build_conv(struct build *b, int32_t x, int64_t in, int64_t out, int64_t group, bool bias,
                   const struct hrf_attributes *attributes)
{
    const int64_t *k = attributes->window.kernel;
    const double scale = 1 / sqrt((double)(in / group * k[0] * k[1]));
    struct hrf_attributes a = *attributes;
    a.group = group;
    int32_t inputs[3] = { x, 0, HRF_NO_VALUE };
    inputs[1] = build_constant(b, SHAPE(out, in / group, k[0], k[1]), -2 * scale, 2 * scale);
    if (bias)
        inputs[2] = build_constant(b, SHAPE(out), -1, 1);
    return build_node(b, HRF_OP_CONV, inputs, bias ? 3 : 2, &a);
}

int32_t build_plain_conv(struct build *b, int32_t x, int64_t in, int64_t out, int64_t kernel,
                         int64_t stride, bool bias)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = kernel;
        a.window.stride[i] = stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = kernel / 2;
    }
    return build_conv(b, x, in, out, 1, bias, &a);
}

int32_t build_batch_norm(struct build *b, int32_t x, int64_t channels)
{
    const int32_t inputs[] = { x, build_constant(b, SHAPE(channels), 0.5, 1.5),
                               build_constant(b, SHAPE(channels), -0.5, 0.5),
                               build_constant(b, SHAPE(channels), -0.5, 0.5),
                               build_constant(b, SHAPE(channels), 0.5, 1.5) };
    return build_node(b, HRF_OP_BATCH_NORM, inputs, 5, NULL);
}

struct hrf_graph *build_finish(struct build *b, const int32_t *outputs, int32_t n)
{
    int32_t last;
    if (b->between_products) {
        b->between_products = false;
        (void)build_finish(b, outputs, n);
        last = add_product(b, outputs[0], &b->graph->values[outputs[0]].shape);
        return build_finish(b, &last, 1);
    }
    struct hrf_error err = { .status = HRF_OK };
    int32_t inputs[8] = { 0 };
    const int32_t n_inputs = b->graph->n_inputs;
    for (int32_t i = 0; i < n_inputs; i++) /* which may be none */
        inputs[i] = b->graph->inputs[i];
    must(hrf_graph_set_io(b->graph, inputs, n_inputs, outputs, n, &err), &err);
    must(hrf_graph_infer_shapes(b->graph, &err), &err);
    must(hrf_graph_check(b->graph, &err), &err);
    return b->graph;
}

static void fill_inputs(struct hrf_session *session, int32_t n_inputs, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int32_t i = 0; i < n_inputs; i++) {
        float *x = hrf_session_input(session, i);
        const int64_t n = hrf_shape_count(hrf_session_input_shape(session, i));
        for (int64_t k = 0; k < n; k++)
            x[k] = (float)(hrf_random_unit(&random) * 4 - 2);
    }
}

static int64_t copy_outputs(const struct hrf_session *session, int32_t n_outputs, float *to)
{
    int64_t total = 0;
    for (int32_t i = 0; i < n_outputs; i++) {
        const int64_t n = hrf_shape_count(hrf_session_output_shape(session, i));
        if (to != NULL && n > 0)
            memcpy(to + total, hrf_session_output(session, i), (size_t)n * sizeof *to);
        total += n;
    }
    return total;
}

static float *run_session(const struct hrf_graph *graph, const struct hrf_session_config *config,
                          struct hrf_observations *seen, uint64_t seed, int n_runs, int64_t *count,
                          bool *is_pure)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    struct hrf_calibrator calibrator = { .observations = seen };
    struct hrf_session_config own = *config;
    own.every_tensor = seen != NULL;
    must(hrf_session_create(graph, &own, &session, &err), &err);
    if (seen != NULL)
        hrf_calibrator_watch(session, &calibrator);
    if (is_pure != NULL)
        *is_pure = hrf_session_notes(session)[0] == '\0';
    *count = copy_outputs(session, graph->n_outputs, NULL);
    const size_t n_bytes = (size_t)*count * sizeof(float);
    float *first = hrf_alloc(n_bytes + 1), *again = hrf_alloc(n_bytes + 1);
    assert_true(first != NULL && again != NULL);
    for (int i = 0; i < n_runs; i++) {
        fill_inputs(session, graph->n_inputs, seed);
        must(hrf_session_run(session, &err), &err);
        copy_outputs(session, graph->n_outputs, i == 0 ? first : again);
        if (i > 0)
            assert_memory_equal(first, again, n_bytes);
    }
    hrf_free(again);
    hrf_session_destroy(session);
    return first;
}

float *run_graph(const struct hrf_graph *graph, const char *device, int32_t n_threads,
                 uint64_t seed, int n_runs, int64_t *count)
{
    const struct hrf_session_config config = { .device = device,
                                               .precision = HRF_FP32,
                                               .n_threads = n_threads };
    return run_session(graph, &config, NULL, seed, n_runs, count, NULL);
}

void build_make_weights(struct hrf_graph *graph)
{
    const int32_t n_nodes = graph->n_nodes, n_values = graph->n_values;
    for (int32_t v = 0; v < n_values; v++)
        graph->values[v].is_initializer = graph->values[v].data != NULL &&
                                          graph->values[v].producer < 0;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct hrf_shape shape = graph->values[graph->inputs[i]].shape;
        float *zeros = hrf_calloc((size_t)hrf_shape_count(&shape), sizeof *zeros);
        int32_t weight, sum;
        char name[32];
        snprintf(name, sizeof name, "before input %d", (int)i);
        assert_int_equal(hrf_graph_add_value(graph, name, HRF_F32, &shape, zeros, &weight, NULL),
                         HRF_OK);
        assert_int_equal(hrf_graph_add_value(graph, "", HRF_F32, &shape, NULL, &sum, NULL), HRF_OK);
        graph->values[weight].is_initializer = true;
        for (int32_t n = 0; n < n_nodes; n++)
            for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
                if (graph->nodes[n].inputs[k] == graph->inputs[i])
                    graph->nodes[n].inputs[k] = sum;
        const int32_t inputs[] = { graph->inputs[i], weight };
        assert_int_equal(
            hrf_graph_insert_node(graph, 0, HRF_OP_ADD, name, inputs, 2, &sum, 1, NULL, NULL),
            HRF_OK);
        hrf_free(zeros);
    }
    hrf_graph_place_nodes(graph);
}

static int64_t count_outputs(const struct hrf_graph *graph)
{
    int64_t count = 0;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        count += hrf_shape_count(&graph->values[graph->outputs[i]].shape);
    return count;
}

static void *allocate_value(const struct hrf_value *value)
{
    void *memory = hrf_alloc_aligned((size_t)hrf_value_bytes(value) + 1, HRF_BUFFER_ALIGNMENT);
    assert_non_null(memory);
    return memory;
}

static void run_node(const struct hrf_backend_ops *ref, struct hrf_backend *backend,
                     const struct hrf_graph *graph, const struct hrf_node *node, void **values)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_kernel *kernel = NULL;
    const void *inputs[32] = { NULL };
    assert_true(node->n_inputs <= 32);
    must(hrf_backend_compile(ref, backend, graph, node, &kernel, &err), &err);
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0)
            inputs[i] = values[node->inputs[i]];
    values[node->outputs[0]] = allocate_value(&graph->values[node->outputs[0]]);
    void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1, HRF_BUFFER_ALIGNMENT);
    assert_non_null(workspace);
    const struct hrf_kernel_call call = { inputs, values[node->outputs[0]], workspace };
    must(kernel->run(kernel, &call, &err), &err);
    hrf_free(workspace);
    hrf_kernel_destroy(kernel);
}

float *run_unchanged(const struct hrf_graph *graph, uint64_t seed, int64_t *count)
{
    const struct hrf_backend_config config = { .n_threads = 1, .device_index = -1 };
    const struct hrf_backend_ops *ref = NULL;
    struct hrf_backend *backend = NULL;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_random random = hrf_random_init(seed);
    void **values = hrf_calloc((size_t)graph->n_values, sizeof *values);
    assert_non_null(values);
    must(hrf_backend_open("ref", &ref, &err), &err);
    must(ref->create(&config, &backend, &err), &err);
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct hrf_value *x = &graph->values[graph->inputs[i]];
        float *numbers = values[graph->inputs[i]] = allocate_value(x);
        for (int64_t k = 0; k < hrf_shape_count(&x->shape); k++)
            numbers[k] = (float)(hrf_random_unit(&random) * 4 - 2);
    }
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->values[graph->nodes[i].outputs[0]].data == NULL)
            run_node(ref, backend, graph, &graph->nodes[i], values);
    *count = count_outputs(graph);
    float *result = hrf_alloc_array((size_t)*count + 1, sizeof *result);
    assert_non_null(result);
    for (int64_t i = 0, at = 0; i < graph->n_outputs; i++) {
        const int64_t n = hrf_shape_count(&graph->values[graph->outputs[i]].shape);
        memcpy(result + at, values[graph->outputs[i]], (size_t)n * sizeof *result);
        at += n;
    }
    for (int32_t v = 0; v < graph->n_values; v++)
        hrf_free(values[v]);
    hrf_free(values);
    ref->destroy(backend);
    return result;
}

/* Ranges from a run in float32 on the same inputs, and what was borrowed for them. The run is the
 * CPU's on one thread, as in the product: every run of a graph gets the same ranges, and what they
 * come from is held against `ref` by tests of its own (`ref` takes 20 s for a ResNet-101). */
struct ranges {
    struct hrf_observations seen;
    struct hrf_calibration *calibration;
    struct hrf_calibrated calibrated;
};

enum { MOST_INPUTS = 8 };

/* Those that were asked for last: most tests run a graph by several layouts in turn. */
static struct {
    const struct hrf_graph *graph; /* together with its hash: another graph may lie there by now */
    char hash[65];
    struct hrf_shape inputs[MOST_INPUTS];
    uint64_t seed;
    struct ranges ranges;
} last;

static bool is_last(const struct hrf_graph *graph, const char *hash, uint64_t seed)
{
    bool is_same = graph == last.graph && strcmp(hash, last.hash) == 0 && seed == last.seed;
    for (int32_t i = 0; i < graph->n_inputs && is_same; i++)
        is_same = hrf_shape_equal(&graph->values[graph->inputs[i]].shape, &last.inputs[i]);
    return is_same;
}

/* What config refers to is valid until the next call. */
static void calibrate(const struct hrf_graph *graph, uint64_t seed,
                      struct hrf_session_config *config)
{
    const struct hrf_session_config plain = { .device = "cpu",
                                              .precision = HRF_FP32,
                                              .n_threads = 1 };
    struct ranges *r = &last.ranges;
    struct hrf_error err = { .status = HRF_OK };
    char hash[65];
    int64_t count;
    if (config->precision != HRF_INT8)
        return;
    must(hrf_graph_hash(graph, hash, &err), &err);
    if (!is_last(graph, hash, seed)) {
        hrf_calibrated_release(&r->calibrated);
        hrf_calibration_destroy(r->calibration);
        hrf_observations_release(&r->seen);
        last.graph = NULL;
        *r = (struct ranges){ .calibration = NULL };
        hrf_free(run_session(graph, &plain, &r->seen, seed, 1, &count, NULL));
        must(hrf_fit_all(&r->seen, HRF_FIT_MINMAX, &r->calibration, &err), &err);
        hrf_calibrated_init(r->calibration, &r->calibrated);
        assert_true(graph->n_inputs <= MOST_INPUTS);
        for (int32_t i = 0; i < graph->n_inputs; i++)
            last.inputs[i] = graph->values[graph->inputs[i]].shape;
        memcpy(last.hash, hash, sizeof last.hash);
        last.seed = seed;
        last.graph = graph;
    }
    config->ranges = r->calibrated.ranges;
    config->n_ranges = r->calibrated.n_ranges;
}

static float *run_scaled(const struct hrf_graph *graph, const char *device,
                         enum hrf_precision precision, bool fixed_scales, int32_t n_threads,
                         uint64_t seed, int n_runs, int64_t *count, bool *is_pure)
{
    struct hrf_session_config config = { .device = device,
                                         .precision = precision,
                                         .fixed_scales = fixed_scales,
                                         .n_threads = n_threads };
    calibrate(graph, seed, &config);
    float *result = run_session(graph, &config, NULL, seed, n_runs, count, is_pure);
    return result;
}

float *run_graph_in(const struct hrf_graph *graph, const char *device, enum hrf_precision precision,
                    int32_t n_threads, uint64_t seed, int n_runs, int64_t *count, bool *is_pure)
{
    return run_scaled(graph, device, precision, false, n_threads, seed, n_runs, count, is_pure);
}

struct hrf_graph *prepare_graph_in(const struct hrf_graph *graph, enum hrf_precision precision,
                                   uint64_t seed)
{
    struct hrf_session_config config = { .device = "cpu", .precision = precision, .n_threads = 1 };
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *prepared = NULL;
    double operations;
    calibrate(graph, seed, &config);
    must(hrf_session_prepare(graph, &config, &prepared, &operations, &notes, &err), &err);
    hrf_strbuf_release(&notes);
    return prepared;
}

float *run_graph_fixed(const struct hrf_graph *graph, const char *device,
                       enum hrf_precision precision, int32_t n_threads, uint64_t seed, int n_runs,
                       int64_t *count, bool *is_pure)
{
    return run_scaled(graph, device, precision, true, n_threads, seed, n_runs, count, is_pure);
}

/* The images that fill_inputs() would give. */
static float *make_images(const struct hrf_shape *shape, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    const int64_t n = hrf_shape_count(shape);
    float *x = hrf_alloc_array((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t k = 0; k < n; k++)
        x[k] = (float)(hrf_random_unit(&random) * 4 - 2);
    return x;
}

static float *run_ranks(const struct hrf_graph *graph, const struct hrf_session_config *config,
                        const struct hrf_layout_plan *layout, uint64_t seed, int64_t *count)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_parallel *parallel = NULL;
    struct hrf_array_source source = { .shape = graph->values[graph->inputs[0]].shape };
    float *images = make_images(&source.shape, seed);
    source.data = images;
    must(hrf_parallel_create(graph, config, layout, 60000, &parallel, &err), &err);
    for (int i = 0; i < 2; i++) /* the second run finds everything used */
        must(hrf_parallel_run(parallel, hrf_read_array, &source, &err), &err);
    *count = count_outputs(graph);
    float *result = hrf_alloc_array((size_t)*count + 1, sizeof *result), *at = result;
    assert_non_null(result);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const int64_t n = hrf_shape_count(&graph->values[graph->outputs[i]].shape);
        memcpy(at, hrf_parallel_output(parallel, i), (size_t)n * sizeof *at);
        at += n;
    }
    hrf_parallel_destroy(parallel);
    hrf_free(images);
    return result;
}

float *run_bands_in(const struct hrf_graph *graph, const char *device, enum hrf_precision precision,
                    int32_t n_bands, enum hrf_bands_rows rows, uint64_t seed, int64_t *count)
{
    const struct hrf_banded_options options = { .n_bands = n_bands, .rows = rows };
    struct hrf_session_config config = { .device = device, .precision = precision, .n_threads = 1 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_array_source source = { .shape = graph->values[graph->inputs[0]].shape };
    struct hrf_banded *banded = NULL;
    calibrate(graph, seed, &config);
    const enum hrf_status status = hrf_banded_create(graph, &config, &options, &banded, &err);
    if (status == HRF_E_UNSUPPORTED)
        return NULL;
    must(status, &err);
    float *images = make_images(&source.shape, seed);
    source.data = images;
    for (int i = 0; i < 2; i++)
        must(hrf_banded_run(banded, hrf_read_array, &source, &err), &err);
    *count = count_outputs(graph);
    float *result = hrf_alloc_array((size_t)*count + 1, sizeof *result), *at = result;
    assert_non_null(result);
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const int64_t n = hrf_shape_count(&graph->values[graph->outputs[i]].shape);
        memcpy(at, hrf_banded_output(banded, i), (size_t)n * sizeof *at);
        at += n;
    }
    hrf_banded_destroy(banded);
    hrf_free(images);
    return result;
}

float *run_layout_in(const struct hrf_graph *graph, const char *device,
                     enum hrf_precision precision, const char *layout,
                     const struct hrf_cutting *cutting, uint64_t seed, int64_t *count)
{
    struct hrf_session_config config = {
        .device = device, .precision = precision, .n_threads = 1, .cutting = cutting
    };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_layout_plan plan;
    must(hrf_layout_parse(layout, &plan, &err), &err);
    calibrate(graph, seed, &config);
    float *result = run_ranks(graph, &config, &plan, seed, count);
    return result;
}

double relative_difference(const float *a, const float *b, int64_t n)
{
    double largest = 1e-3, difference = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        if (isnan(a[i]) != isnan(b[i]) || isinf(a[i]) != isinf(b[i]))
            return INFINITY;
        if (isfinite(a[i]))
            difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
    }
    return difference / largest;
}
