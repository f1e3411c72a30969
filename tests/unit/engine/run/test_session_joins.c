/* Networks whose concatenations have nothing to copy: the bits are those of dense images, for any
 * number of threads, and ranks and bands give what one session gives. */
#include "tests/unit/unit.h"

#include "engine/backend/cpu/instructions.h"
#include "engine/plan/bands.h"
#include "engine/run/session_private.h"
#include "tests/ops/build.h"

#include <string.h>

enum { N_NETWORKS = 24, MOST = 5 };

static int32_t concat(struct build *b, const int32_t *parts, int32_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    return build_node(b, HRF_OP_CONCAT, parts, n, &a);
}

static int32_t pool(struct build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t pad = build_pick(b, 0, 1), stride = build_pick(b, 1, 2);
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = 1 + 2 * pad;
        a.window.stride[i] = stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = pad;
    }
    return build_node(b, build_pick(b, 0, 1) ? HRF_OP_MAX_POOL : HRF_OP_AVERAGE_POOL, &x, 1, &a);
}

/* Mostly of whole lines of the cache. */
static int64_t pick_channels(struct build *b)
{
    return build_pick(b, 0, 3) == 0 ? build_pick(b, 1, 40) : 32 * build_pick(b, 1, 3);
}

static int32_t conv(struct build *b, int32_t x, int64_t in, int64_t out)
{
    const int64_t kernel = 1 + 2 * build_pick(b, 0, 1);
    const int32_t y = build_plain_conv(b, x, in, out, kernel, 1, build_pick(b, 0, 1) == 0);
    return build_pick(b, 0, 1) ? build_unary(b, HRF_OP_RELU, y) : y;
}

/* Inception's: convolutions, a pool before one, a concatenation in another. */
static int32_t branches(struct build *b, int32_t x, int64_t *channels)
{
    int32_t parts[MOST];
    const int64_t in = *channels, n = build_pick(b, 2, MOST - 1);
    *channels = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t out = pick_channels(b);
        parts[i] = conv(b, x, in, out);
        *channels += out;
    }
    const int32_t all = concat(b, parts, (int32_t)n);
    if (build_pick(b, 0, 1))
        return all;
    const int64_t out = pick_channels(b);
    const int32_t outer[] = { conv(b, x, in, out), all };
    *channels += out;
    return concat(b, outer, 2);
}

/* DenseNet's: each convolution reads all before it, through a normalisation. */
static int32_t dense_block(struct build *b, int32_t x, int64_t *channels)
{
    int32_t parts[MOST] = { conv(b, x, *channels, 64) }, all = parts[0];
    const int64_t growth = 32 * build_pick(b, 1, 2);
    *channels = 64;
    for (int32_t i = 1; i < MOST; i++) {
        const int32_t y = build_unary(b, HRF_OP_RELU, build_batch_norm(b, all, *channels));
        parts[i] = conv(b, conv(b, y, *channels, 48), 48, growth);
        all = concat(b, parts, i + 1);
        *channels += growth;
    }
    return all;
}

/* Twice as many rows and columns. */
static int32_t enlarge(struct build *b, int32_t x, int64_t in, int64_t out)
{
    struct hrf_attributes a = hrf_attributes_default();
    if (build_pick(b, 0, 1)) {
        const int32_t y = conv(b, x, in, 4 * out);
        a.block.size = 2;
        a.block.column_row_depth = build_pick(b, 0, 1) == 0;
        return build_node(b, HRF_OP_DEPTH_TO_SPACE, &y, 1, &a);
    }
    const int32_t y = conv(b, x, in, out);
    a.resize.mode = HRF_RESIZE_LINEAR;
    for (int i = 0; i < 4; i++)
        a.resize.scales[i] = i < 2 ? 1 : 2;
    return build_node(b, HRF_OP_RESIZE, &y, 1, &a);
}

/* U-Net's: an image beside one that came from half as many rows and columns. */
static int32_t add_skip(struct build *b, int32_t x, int64_t *channels)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++)
        a.window.kernel[i] = a.window.stride[i] = 2;
    const int64_t out = pick_channels(b);
    const int32_t kept = conv(b, x, *channels, out);
    const int32_t half = build_node(b, HRF_OP_MAX_POOL, &kept, 1, &a);
    const int32_t parts[] = { kept, enlarge(b, half, out, out) };
    *channels = 2 * out;
    return concat(b, parts, 2);
}

static struct hrf_graph *network(uint64_t seed)
{
    struct build b = build_start(seed);
    int64_t channels = build_pick(&b, 1, 20);
    const int64_t rows = 2 * build_pick(&b, 3, 5), columns = 2 * build_pick(&b, 3, 5);
    int32_t x = build_input(&b, SHAPE(build_pick(&b, 1, 3), channels, rows, columns));
    if (build_pick(&b, 0, 1))
        x = add_skip(&b, x, &channels);
    if (build_pick(&b, 0, 1))
        x = dense_block(&b, x, &channels);
    if (build_pick(&b, 0, 1))
        x = pool(&b, x);
    x = branches(&b, x, &channels);
    if (build_pick(&b, 0, 1))
        x = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, x);
    else
        x = build_plain_conv(&b, x, channels, 8, 1, 1, true);
    return build_finish(&b, &x, 1);
}

struct result {
    float *numbers; /* heap */
    size_t n_bytes;
    int64_t activation_bytes;
    int32_t n_strided; /* images */
};

static struct result run(const struct hrf_graph *graph, enum hrf_precision precision,
                         int32_t n_threads, bool is_dense)
{
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = precision,
                                               .n_threads = n_threads };
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    struct result result = { .n_bytes = 0 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_random random = hrf_random_init(7);
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    double operations;
    assert_int_equal(hrf_session_prepare(graph, &config, &prepared, &operations, &notes, &err),
                     HRF_OK);
    hrf_strbuf_release(&notes);
    for (int32_t v = 0; v < prepared->n_values; v++) {
        if (is_dense)
            prepared->values[v].pixel_stride = 0;
        result.n_strided += prepared->values[v].pixel_stride > 0;
    }
    if (hrf_session_create_prepared(&prepared, &config, NULL, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    for (int64_t i = 0; i < n; i++)
        hrf_session_input(session, 0)[i] = (float)(2 * hrf_random_unit(&random) - 1);
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    result.activation_bytes = hrf_session_memory(session).activation_bytes;
    result.n_bytes = (size_t)hrf_shape_count(hrf_session_output_shape(session, 0)) * sizeof(float);
    result.numbers = hrf_alloc(result.n_bytes);
    assert_non_null(result.numbers);
    memcpy(result.numbers, hrf_session_output(session, 0), result.n_bytes);
    return result;
}

static void nothing_to_copy_changes_no_bit_and_takes_no_memory(void **state)
{
    (void)state;
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_FP16 };
    int32_t n_strided = 0;
    for (uint64_t seed = 0; seed < N_NETWORKS; seed++) {
        enum hrf_precision precision = precisions[seed % 3];
        HRF_AUTO(hrf_graph) graph = network(seed);
        struct result joined = run(graph, precision, 1 + (int32_t)(seed % 4), false);
        struct result dense = run(graph, precision, 1, true);
        assert_int_equal(joined.n_bytes, dense.n_bytes);
        assert_memory_equal(joined.numbers, dense.numbers, joined.n_bytes);
        assert_true(joined.activation_bytes <= dense.activation_bytes);
        n_strided += joined.n_strided;
        hrf_free(joined.numbers);
        hrf_free(dense.numbers);
    }
    if (hrf_cpu_has_avx512())
        assert_true(n_strided > 2 * N_NETWORKS);
}

static void ranks_and_bands_give_what_one_session_gives(void **state)
{
    (void)state;
    static const char *const layouts[] = { "spatial=2", "spatial=2x2,halos=overlap",
                                           "stages=3,microbatches=1", "tensor=2" };
    enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };
    for (uint64_t seed = 0; seed < 3 * N_LAYOUTS; seed++) {
        int64_t n, n_shared, n_banded;
        HRF_AUTO(hrf_graph) graph = network(seed);
        HRF_AUTO_FREE float *alone = run_graph(graph, "cpu", 1, seed, 2, &n);
        HRF_AUTO_FREE float *shared = run_layout_in(
            graph, "cpu", HRF_FP32, layouts[seed % N_LAYOUTS], NULL, seed, &n_shared);
        HRF_AUTO_FREE float *banded = run_bands_in(graph, "cpu", HRF_FP32, 2, HRF_BANDS_AUTO, seed,
                                                   &n_banded);
        HRF_AUTO_FREE float *right = run_unchanged(graph, seed, &n_shared);
        assert_int_equal(n, n_shared);
        assert_true(relative_difference(alone, right, n) <= 1e-4);
        assert_true(relative_difference(shared, alone, n) <= 1e-5);
        assert_true(banded == NULL || relative_difference(banded, alone, n) <= 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_copy_changes_no_bit_and_takes_no_memory),
        cmocka_unit_test(ranks_and_bands_give_what_one_session_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
