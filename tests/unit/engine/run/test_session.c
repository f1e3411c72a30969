/* A session: what it refuses and how it says so, what it shows, and that memory which runs out
 * anywhere is an error and leaves nothing behind. */
#include "tests/unit/unit.h"

#include "engine/ir/number.h"
#include "engine/passes/passes.h"
#include "engine/run/network.h"
#include "engine/run/session.h"
#include "tests/ops/build.h"

#include <stdio.h>
#include <string.h>

static struct hrf_graph *small_net(void)
{
    struct build b = build_start(9);
    const int32_t x = build_input(&b, SHAPE(2, 3, 8, 8));
    int32_t y = build_unary(&b, HRF_OP_RELU,
                            build_batch_norm(&b, build_plain_conv(&b, x, 3, 8, 3, 2, false), 8));
    y = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, y, 8, 8, 3, 1, true), y);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    struct hrf_attributes images_first = hrf_attributes_default();
    images_first.axis = 1;
    y = build_node(&b, HRF_OP_FLATTEN, &y, 1, &images_first);
    y = build_binary(&b, HRF_OP_GEMM, y, build_constant(&b, SHAPE(8, 2), -1, 1));
    y = build_node(&b, HRF_OP_SOFTMAX, &y, 1, &images_first);
    return build_finish(&b, &y, 1);
}

/* A refusal says what to do, and of the graph's values names inputs and outputs alone: names of
 * others are the exporter's own. */
static void check_text(const struct hrf_graph *graph, const char *text, const char *said)
{
    static const char *const remedies[] = { ": use ", ": give ",  ": export ",
                                            ": run ", ": start ", ": leave ",
                                            "; use ", "; allow ", "docs/models.md" };
    bool has_remedy = false;
    if (strstr(text, said) == NULL)
        fail_msg("'%s' was said, not '%s'", text, said);
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        has_remedy = has_remedy || strstr(text, remedies[i]) != NULL;
    if (!has_remedy)
        fail_msg("no way out in: %s", text);
    for (int32_t v = 0; v < graph->n_values; v++) {
        HRF_AUTO_FREE char *quoted = hrf_format("'%s'", graph->values[v].name);
        bool is_known = false;
        for (int32_t i = 0; i < graph->n_inputs; i++)
            is_known = is_known || graph->inputs[i] == v;
        for (int32_t i = 0; i < graph->n_outputs; i++)
            is_known = is_known || graph->outputs[i] == v;
        for (int32_t n = 0; n < graph->n_nodes; n++)
            is_known = is_known || strcmp(graph->nodes[n].name, graph->values[v].name) == 0;
        if (!is_known && strstr(text, quoted) != NULL)
            fail_msg("names the tensor %s: %s", quoted, text);
    }
}

static void refused(const struct hrf_graph *graph, struct hrf_session_config config,
                    enum hrf_status with, const char *said)
{
    struct hrf_session *session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_session_create(graph, &config, &session, &err), with);
    assert_null(session);
    check_text(graph, err.text, said);
}

static void network_refused(const struct hrf_graph *graph, struct hrf_network_config config,
                            enum hrf_status with, const char *said)
{
    struct hrf_network *network = NULL;
    struct hrf_error err = { .status = HRF_OK };
    config.session.device = config.session.device != NULL ? config.session.device : "cpu";
    config.session.n_threads = 1;
    assert_int_equal(hrf_network_create(graph, &config, &network, &err), with);
    assert_null(network);
    check_text(graph, err.text, said);
}

static void what_this_build_lacks_is_named(void **state)
{
    (void)state;
    struct hrf_graph *graph = small_net();
    refused(graph, (struct hrf_session_config){ .device = "tpu", .precision = HRF_FP32 },
            HRF_E_UNSUPPORTED, "device 'tpu' is not in this build");
    refused(graph, (struct hrf_session_config){ .device = "cpu", .precision = HRF_INT8 },
            HRF_E_USER, "int8 needs the ranges of a calibration");
    refused(graph, (struct hrf_session_config){ .device = "cpu", .precision = HRF_TF32 },
            HRF_E_UNSUPPORTED, "tf32 is a precision of NVIDIA GPUs, and the device is cpu");
    const struct hrf_pixel_form form = { .scale = { 1, 1, 1 } };
    refused(graph, (struct hrf_session_config){ .device = "cpu", .pixels = &form },
            HRF_E_UNSUPPORTED, "device cpu takes images as floats");
    refused(graph, (struct hrf_session_config){ .device = "cpu", .memory_limit_bytes = 1 },
            HRF_E_NOMEM, "the model needs at least ");
    hrf_graph_destroy(graph);
}

/* Layouts and bands that a network cannot have. */
static void a_layout_that_does_not_fit_the_network_is_refused(void **state)
{
    (void)state;
    struct hrf_layout_plan two = hrf_layout_single(), strips = two, shares = two;
    two.stages = 2;
    strips.rows = 2;
    shares.data = 2;
    struct hrf_comm three = { .n_ranks = 3 };
    HRF_AUTO(hrf_graph) net = small_net();
    network_refused(net, (struct hrf_network_config){ .layout = &two, .n_bands = 2 }, HRF_E_USER,
                    "bands are for one rank, and the layout has 2");
    network_refused(net, (struct hrf_network_config){ .layout = &strips, .comm = &three },
                    HRF_E_USER, "the layout is for 2 ranks and the job was started with 3");
    network_refused(
        net,
        (struct hrf_network_config){ .layout = &strips, .session.transport = HRF_TRANSPORT_NCCL },
        HRF_E_USER, "--comm nccl carries what lies on GPUs");
    network_refused(net, (struct hrf_network_config){ .session.memory_limit_bytes = 64 },
                    HRF_E_NOMEM, "of activations are allowed, and even ");

    struct build b = build_start(1);
    int32_t y = build_unary(&b, HRF_OP_RELU, build_input(&b, SHAPE(2, 3, 8, 8)));
    const int32_t constant = build_constant(&b, SHAPE(2), 0, 1);
    HRF_AUTO(hrf_graph) same = build_finish(&b, (int32_t[]){ y, constant }, 2);
    network_refused(same, (struct hrf_network_config){ .layout = &strips }, HRF_E_UNSUPPORTED,
                    "is the same for every input");

    b = build_start(1);
    y = build_unary(&b, HRF_OP_RELU, build_input(&b, SHAPE(2, 3)));
    struct hrf_attributes columns_first = hrf_attributes_default();
    columns_first.axes[0] = 1;
    columns_first.axes[1] = 0;
    columns_first.n_axes = 2;
    y = build_node(&b, HRF_OP_TRANSPOSE, &y, 1, &columns_first);
    HRF_AUTO(hrf_graph) mixed = build_finish(&b, &y, 1);
    network_refused(mixed, (struct hrf_network_config){ .layout = &shares }, HRF_E_USER,
                    "does not have the batch as its first dimension");
    network_refused(mixed, (struct hrf_network_config){ .n_bands = 2 }, HRF_E_UNSUPPORTED,
                    "the network cannot be run in bands of rows: up to node '");

    b = build_start(1);
    const int32_t x = build_input(&b, SHAPE(1, 3, 8, 8));
    y = build_binary(&b, HRF_OP_ADD, x, build_input(&b, SHAPE(1, 3, 8, 8)));
    HRF_AUTO(hrf_graph) sum = build_finish(&b, &y, 1);
    network_refused(sum, (struct hrf_network_config){ .n_bands = 2 }, HRF_E_UNSUPPORTED,
                    "the model has 2 inputs, and only models of one are computed in bands");
}

static void a_limit_is_kept_to_the_byte(void **state)
{
    (void)state;
    struct hrf_graph *graph = small_net();
    struct hrf_session *session = NULL;
    struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32, .n_threads = 1 };
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    const struct hrf_session_memory m = hrf_session_memory(session);
    hrf_session_destroy(session);
    session = NULL;
    config.memory_limit_bytes = m.activation_bytes + m.weight_bytes + m.workspace_bytes;
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    hrf_session_destroy(session);
    config.memory_limit_bytes--;
    refused(graph, config, HRF_E_NOMEM, "engine.memory allows");
    hrf_graph_destroy(graph);
}

/* One run on numbers that `config` narrows; *bytes: of activations. */
static void run_once(const struct hrf_graph *graph, const struct hrf_session_config *config,
                     float out[4], int64_t *bytes)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_session) session = NULL;
    if (hrf_session_create(graph, config, &session, &err) != HRF_OK)
        fail_msg("%s: %s", hrf_precision_name(config->precision), err.text);
    const struct hrf_feed_form form = hrf_session_feed_form(session);
    assert_int_equal(form.type == HRF_F32, !config->narrow_input);
    _Alignas(64) uint8_t batch[2 * 3 * 8 * 8 * 4];
    for (int i = 0; i < 2 * 3 * 8 * 8; i++) {
        const float x = (float)(i % 37) / 8 - 2;
        if (form.type == HRF_F32)
            hrf_session_input(session, 0)[i] = x;
        else if (hrf_feed_form_bytes(&form) == 2)
            hrf_floats_to(form.type, &x, (uint16_t *)(void *)batch + i, 1);
        else
            batch[i] = (uint8_t)hrf_quantize(x, form.type, &form.quantization);
    }
    if (form.type != HRF_F32)
        hrf_session_feed(session, batch);
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    memcpy(out, hrf_session_output(session, 0), 4 * sizeof *out);
    *bytes = hrf_session_memory(session).activation_bytes;
}

static void a_spent_graph_is_emptied_and_the_numbers_stay(void **state)
{
    (void)state;
    struct hrf_graph *kept = small_net(), *spent = small_net();
    struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32, .n_threads = 1 };
    float want[4], got[4];
    int64_t bytes;
    run_once(kept, &config, want, &bytes);
    config.spent = spent;
    run_once(spent, &config, got, &bytes);
    assert_memory_equal(got, want, sizeof got);
    for (int32_t i = 0; i < spent->n_values; i++) {
        assert_int_equal(spent->values[i].data != NULL, kept->values[i].data != NULL);
        assert_true(spent->values[i].data == NULL || spent->values[i].is_borrowed);
    }
    hrf_graph_destroy(kept);
    hrf_graph_destroy(spent);
}

static void an_input_in_the_networks_own_type_gives_the_same_bits(void **state)
{
    (void)state;
    static const enum hrf_precision precisions[] = { HRF_INT8, HRF_BF16, HRF_FP16 };
    struct hrf_range ranges[32];
    struct hrf_graph *graph = small_net(), *fused = NULL;
    assert_int_equal(hrf_graph_copy(graph, &fused, NULL), HRF_OK);
    assert_int_equal(hrf_passes_run(fused, NULL), HRF_OK);
    assert_true(fused->n_values <= 32);
    for (int32_t v = 0; v < fused->n_values; v++)
        ranges[v] = (struct hrf_range){ .value = fused->values[v].name, .low = -4, .high = 4 };
    for (int i = 0; i < 3; i++) {
        float wide[4], narrow[4];
        int64_t wide_bytes, narrow_bytes;
        struct hrf_session_config config = { .device = "cpu",
                                             .precision = precisions[i],
                                             .ranges = ranges,
                                             .n_ranges = i == 0 ? fused->n_values : 0,
                                             .n_threads = 1 };
        run_once(graph, &config, wide, &wide_bytes);
        config.narrow_input = true;
        run_once(graph, &config, narrow, &narrow_bytes);
        assert_memory_equal(wide, narrow, sizeof wide);
        assert_true(narrow_bytes < wide_bytes);
    }
    hrf_graph_destroy(fused);
    hrf_graph_destroy(graph);
}

/* A pointwise operator before an average. The plan computes it in place, that is on a copy of what
 * was lent. */
static struct hrf_graph *in_place_net(void)
{
    struct build b = build_start(4);
    const int32_t image = build_input(&b, SHAPE(2, 3, 8, 8));
    const int32_t mean = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL,
                                     build_unary(&b, HRF_OP_RELU, image));
    return build_finish(&b, &mean, 1);
}

static void a_batch_that_is_fed_gives_the_bits_of_one_that_is_copied(void **state)
{
    (void)state;
    enum { N = 2 * 3 * 8 * 8 };
    struct hrf_graph *graphs[] = { small_net(), in_place_net() };
    for (int g = 0; g < 2; g++) {
        const struct hrf_session_config config = { .device = "cpu",
                                                   .precision = HRF_FP32,
                                                   .n_threads = 1 };
        struct hrf_error err = { .status = HRF_OK };
        HRF_AUTO(hrf_session) session = NULL;
        if (hrf_session_create(graphs[g], &config, &session, &err) != HRF_OK)
            fail_msg("%s", err.text);
        _Alignas(64) float batch[2][N], before[2][N], out[2][4];
        const size_t n_out = (size_t)hrf_shape_count(hrf_session_output_shape(session, 0));
        assert_true(n_out <= 2 * 4);
        for (int i = 0; i < 2 * N; i++)
            batch[i / N][i % N] = (float)(i % 37) / 8 - 2;
        memcpy(before, batch, sizeof batch);
        for (int k = 0; k < 6; k++) { /* lent and copied by turns */
            float fed[2 * 4], copied[2 * 4];
            hrf_session_feed(session, batch[k % 2]);
            assert_int_equal(hrf_session_run(session, &err), HRF_OK);
            memcpy(fed, hrf_session_output(session, 0), n_out * sizeof *fed);
            memcpy(hrf_session_input(session, 0), batch[k % 2], sizeof batch[0]);
            assert_int_equal(hrf_session_run(session, &err), HRF_OK);
            memcpy(copied, hrf_session_output(session, 0), n_out * sizeof *copied);
            assert_memory_equal(fed, copied, n_out * sizeof *fed);
            memcpy(out[k % 2], fed, 4 * sizeof *fed);
        }
        assert_memory_not_equal(out[0], out[1], sizeof out[0]);
        assert_memory_equal(before, batch, sizeof batch); /* nobody has written to it */
    }
    hrf_graph_destroy(graphs[0]);
    hrf_graph_destroy(graphs[1]);
}

/* Two products with weights in +-first and +-second, a ReLU between them. */
static struct hrf_graph *two_products(double first, double second)
{
    struct build b = build_start(5);
    struct hrf_attributes last_axis = hrf_attributes_default();
    last_axis.axis = 1;
    int32_t y = build_binary(&b, HRF_OP_GEMM, build_input(&b, SHAPE(4, 32)),
                             build_constant(&b, SHAPE(32, 16), -first, first));
    y = build_unary(&b, HRF_OP_RELU, y);
    y = build_binary(&b, HRF_OP_GEMM, y, build_constant(&b, SHAPE(16, 2), -second, second));
    y = build_node(&b, HRF_OP_SOFTMAX, &y, 1, &last_axis);
    return build_finish(&b, &y, 1);
}

static enum hrf_status run_products(const struct hrf_graph *graph, enum hrf_precision precision,
                                    struct hrf_session **session, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = precision,
                                               .n_threads = 1 };
    assert_int_equal(hrf_session_create(graph, &config, session, err), HRF_OK);
    for (int i = 0; i < 4 * 32; i++)
        hrf_session_input(*session, 0)[i] = (float)(i % 37) / 8 - 2;
    return hrf_session_run(*session, err);
}

static void weights_that_16_bits_do_not_hold_stay_in_float32(void **state)
{
    (void)state;
    struct hrf_graph *graph = two_products(1e12, 1e-12);
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_session) wide = NULL;
    HRF_AUTO(hrf_session) half = NULL;
    assert_int_equal(run_products(graph, HRF_FP32, &wide, &err), HRF_OK);
    assert_int_equal(run_products(graph, HRF_FP16, &half, &err), HRF_OK);
    assert_memory_equal(hrf_session_output(wide, 0), hrf_session_output(half, 0), 8 * 4);
    assert_non_null(strstr(hrf_session_notes(half), "stays in float32: its weights go up to "));
    assert_non_null(strstr(hrf_session_notes(half), ", float16 to 65504"));
    assert_non_null(strstr(hrf_session_notes(half), "stays in float32: its weights are at most "));
    hrf_graph_destroy(graph);
}

static void inputs_that_are_no_numbers_and_constant_outputs_are_refused(void **state)
{
    (void)state;
    const struct hrf_session_config config = { .device = "ref", .precision = HRF_FP32 };
    struct build b = build_start(1);
    int32_t x = build_input(&b, SHAPE(1, 3, 4, 4));
    const int32_t constant = build_constant(&b, SHAPE(2), 0, 1);
    struct hrf_graph *graph = build_finish(
        &b, (int32_t[]){ build_unary(&b, HRF_OP_RELU, x), constant }, 2);
    refused(graph, config, HRF_E_UNSUPPORTED, "is the same for every input");
    hrf_graph_destroy(graph);
    b = build_start(1);
    x = build_input(&b, SHAPE(1, 3, 4, 4));
    graph = build_finish(&b, (int32_t[]){ build_unary(&b, HRF_OP_RELU, x) }, 1);
    graph->values[x].dtype = HRF_S64;
    refused(graph, config, HRF_E_UNSUPPORTED, "only float32 is computed");
    hrf_graph_destroy(graph);
}

static void the_callers_graph_is_left_as_it_was(void **state)
{
    (void)state;
    char before[65], after[65];
    struct hrf_graph *graph = small_net();
    struct hrf_session *session = NULL;
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    assert_int_equal(hrf_graph_hash(graph, before, NULL), HRF_OK);
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    assert_int_equal(hrf_graph_hash(graph, after, NULL), HRF_OK);
    assert_string_equal(before, after);
    hrf_graph_destroy(graph); /* the session has its own */
    float *input = hrf_session_input(session, 0);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    for (int run = 0; run < 2; run++) {
        for (int64_t i = 0; i < n; i++)
            input[i] = (float)(i % 7) - 3;
        assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
        assert_ptr_equal(hrf_session_input(session, 0), input);
        const float *y = hrf_session_output(session, 0);
        for (int i = 0; i < 2; i++) /* softmax of two images */
            assert_float_equal(y[2 * i] + y[2 * i + 1], 1, 1e-6);
    }
    hrf_session_destroy(session);
}

/* Noise, then white from row 64 on. */
static enum hrf_status read_half_white(void *context, int32_t input, int64_t first, int64_t n,
                                       const struct hrf_box *box, float *out, struct hrf_error *err)
{
    (void)context, (void)input, (void)err;
    assert_true(first == 0 && n == 1);
    for (int64_t y = box->lo[0]; y < box->hi[0]; y++)
        for (int64_t i = box->lo[1] * 3; i < box->hi[1] * 3; i++)
            *out++ = y < 64 ? (float)((y * 31 + i * 7) % 11) - 5 : 1.5F;
    return HRF_OK;
}

/* 16 bands of 16 rows: from the sixth (rows 80 ..) on nothing of one comes from noise, and the last
 * one sees the border. Of the white ones that are alike the first is computed; where rows are kept
 * by every run, as they are the ones before. */
static void check_one_colour(enum hrf_bands_rows rows, int64_t n_first, int64_t n_second)
{
    struct build b = build_start(5);
    int32_t y = build_input(&b, SHAPE(1, 3, 256, 32));
    for (int i = 0; i < 3; i++)
        y = build_plain_conv(&b, y, i == 0 ? 3 : 8, 8, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    HRF_AUTO(hrf_session) whole = NULL;
    const struct hrf_banded_options options = { .n_bands = 16, .rows = rows };
    HRF_AUTO(hrf_banded) banded = NULL;
    struct hrf_error err = { .status = HRF_OK };
    char text[HRF_BANDED_TEXT], expected[64];
    assert_int_equal(hrf_session_create(graph, &config, &whole, NULL), HRF_OK);
    const struct hrf_box all = hrf_box_whole(hrf_session_input_shape(whole, 0));
    assert_int_equal(read_half_white(NULL, 0, 0, 1, &all, hrf_session_input(whole, 0), NULL),
                     HRF_OK);
    assert_int_equal(hrf_session_run(whole, NULL), HRF_OK);
    assert_int_equal(hrf_banded_create(graph, &config, &options, &banded, &err), HRF_OK);
    for (int run = 1; run <= 2; run++) {
        assert_int_equal(hrf_banded_run(banded, read_half_white, NULL, &err), HRF_OK);
        for (int i = 0; i < 8; i++)
            assert_float_equal(hrf_banded_output(banded, 0)[i], hrf_session_output(whole, 0)[i],
                               1e-5);
        assert_int_equal(hrf_banded_facts(banded).n_constant,
                         run == 1 ? n_first : n_first + n_second);
    }
    hrf_banded_text(banded, n_first, text);
    assert_non_null(strstr(text, "in 16 bands, "));
    snprintf(expected, sizeof expected, ", %d not computed again (one colour)", (int)n_second);
    assert_non_null(strstr(text, expected));
}

static void bands_of_one_colour_are_computed_once(void **state)
{
    (void)state;
    /* Bands 5 to 14 are alike; in the second run nothing of them, nor of the last one, is computed
     * again where no rows are kept. */
    check_one_colour(HRF_BANDS_RECOMPUTE, 9, 11);
    check_one_colour(HRF_BANDS_KEEP, 9, 9);
}

struct seen {
    int n;
    int64_t n_elements;
    bool fails;
};

static enum hrf_status look(void *context, const char *value, const struct hrf_shape *shape,
                            const float *data, struct hrf_error *err)
{
    struct seen *seen = context;
    assert_non_null(data);
    seen->n++;
    seen->n_elements += hrf_shape_count(shape);
    return seen->fails && seen->n == 3 ? hrf_error_set(err, HRF_E_EXTERNAL, "no more of %s", value)
                                       : HRF_OK;
}

static void an_observer_sees_the_input_and_every_value_and_may_say_no(void **state)
{
    (void)state;
    struct hrf_graph *graph = small_net();
    struct hrf_session *session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    struct seen seen = { .n = 0 };
    const struct hrf_session_config config = { .device = "ref", .precision = HRF_FP32 };
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    hrf_session_observe(session, look, &seen);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    /* x, conv+relu, conv+residual, pooled, flat, product, softmax */
    assert_int_equal(seen.n, 7);
    assert_int_equal(seen.n_elements, 2 * (192 + 128 + 128 + 8 + 8 + 2 + 2));
    seen = (struct seen){ .fails = true };
    assert_int_equal(hrf_session_run(session, &err), HRF_E_EXTERNAL);
    assert_non_null(strstr(err.text, "no more of "));
    hrf_session_observe(session, NULL, NULL);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    assert_int_equal(seen.n, 3);
    hrf_session_destroy(session);
    hrf_graph_destroy(graph);
}

/* Every allocation of creating a session fails once. Under a sanitizer this also shows that
 * nothing is lost on the way back. */
static void fail_each(const struct hrf_graph *graph, const struct hrf_session_config *config)
{
    for (int64_t n = 1;; n++) {
        struct hrf_session *session = NULL;
        struct hrf_error err = { .status = HRF_OK };
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_session_create(graph, config, &session, &err);
        const bool failed = hrf_alloc_count() >= n;
        hrf_alloc_fail_after(0);
        if (status == HRF_OK)
            status = hrf_session_run(session, &err);
        hrf_session_destroy(session);
        if (status != (failed ? HRF_E_NOMEM : HRF_OK))
            fail_msg("%s %s, allocation %d: status %d, %s", config->device,
                     hrf_precision_name(config->precision), (int)n, (int)status, err.text);
        if (!failed) {
            printf("%s %s: %d allocations\n", config->device, hrf_precision_name(config->precision),
                   (int)n - 1);
            assert_true(n > 30);
            return;
        }
    }
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    struct hrf_range ranges[64];
    struct hrf_graph *graph = small_net();
    int32_t n_ranges = 0;
    for (int32_t v = 0; v < graph->n_values && n_ranges < 64; v++)
        if (graph->values[v].data == NULL)
            ranges[n_ranges++] = (struct hrf_range){ .value = graph->values[v].name,
                                                     .low = -4,
                                                     .high = 4 };
    const struct hrf_session_config cases[] = {
        { .device = "ref", .precision = HRF_FP32, .n_threads = 1 },
        { .device = "cpu", .precision = HRF_FP32, .n_threads = 1 },
        { .device = "cpu", .precision = HRF_BF16, .n_threads = 1 },
        { .device = "cpu",
          .precision = HRF_INT8,
          .n_threads = 1,
          .ranges = ranges,
          .n_ranges = n_ranges },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        fail_each(graph, &cases[i]);
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_this_build_lacks_is_named),
        cmocka_unit_test(a_layout_that_does_not_fit_the_network_is_refused),
        cmocka_unit_test(a_limit_is_kept_to_the_byte),
        cmocka_unit_test(a_spent_graph_is_emptied_and_the_numbers_stay),
        cmocka_unit_test(an_input_in_the_networks_own_type_gives_the_same_bits),
        cmocka_unit_test(a_batch_that_is_fed_gives_the_bits_of_one_that_is_copied),
        cmocka_unit_test(inputs_that_are_no_numbers_and_constant_outputs_are_refused),
        cmocka_unit_test(weights_that_16_bits_do_not_hold_stay_in_float32),
        cmocka_unit_test(the_callers_graph_is_left_as_it_was),
        cmocka_unit_test(bands_of_one_colour_are_computed_once),
        cmocka_unit_test(an_observer_sees_the_input_and_every_value_and_may_say_no),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
