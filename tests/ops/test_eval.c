/* `hires-engine eval` on small models: outputs of other types than float32, several outputs, CLIP
 * with crossed bounds. The bytes of the array that it writes are what is looked at. */

#include "base/file.h"
#include "base/path.h"
#include "base/process.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
    char directory[64], model[96], input[96], output[96];
};

static struct place make_place(void)
{
    struct place p = { .directory = "/tmp/hrf-eval-XXXXXX" };
    assert_non_null(mkdtemp(p.directory));
    snprintf(p.model, sizeof p.model, "%s/m.onnx", p.directory);
    snprintf(p.input, sizeof p.input, "%s/x.npy", p.directory);
    snprintf(p.output, sizeof p.output, "%s/y.npy", p.directory);
    return p;
}

static void remove_place(const struct place *p)
{
    unlink(p->model);
    unlink(p->input);
    unlink(p->output);
    rmdir(p->directory);
}

/* Writes the model and its input. */
static void store(const struct place *p, struct hrf_graph *graph, const struct hrf_shape *shape,
                  const float *x)
{
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_onnx_write(graph, p->model, &err) != HRF_OK ||
        hrf_npy_write(p->input, HRF_F32, shape, x, &err) != HRF_OK)
        fail_msg("%s", err.text);
    hrf_graph_destroy(graph);
}

/* The exit status; what it says on stderr is added to `said`. */
static int eval(const struct place *p, const char *name, const char *device, const char *layout,
                struct hrf_strbuf *said)
{
    const char *bin = getenv("HRF_BIN_DIR");
    assert_non_null(bin);
    HRF_AUTO_FREE char *program = hrf_path_join(bin, "hires-engine");
    const char *argv[20] = { program,    "eval",    p->model,   "--input", p->input,
                             "--output", p->output, "--device", device };
    int n = 9;
    if (name != NULL) {
        argv[n++] = "--output-name";
        argv[n++] = name;
    }
    if (layout != NULL) {
        argv[n++] = "--layout";
        argv[n++] = layout;
    }
    struct hrf_process_result result;
    assert_int_equal(hrf_process_run(argv, NULL, NULL, 600000, 1 << 16, NULL, said, &result, NULL),
                     HRF_OK);
    assert_true(result.exited);
    return result.exit_code;
}

/* The last n bytes of the array, and what the header says of their type. */
static void check_array(const struct place *p, const char *type, const void *want, size_t n)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    assert_int_equal(hrf_file_read(p->output, 1 << 20, &bytes, &n_bytes, NULL), HRF_OK);
    assert_true(n_bytes > n);
    assert_memory_equal(bytes + 6, "\x01\x00", 2);
    HRF_AUTO_FREE char *header = hrf_strndup(bytes + 10, n_bytes - n - 10);
    assert_non_null(strstr(header, type));
    assert_memory_equal(bytes + n_bytes - n, want, n);
}

static int32_t add_quantize(struct build *b, int32_t x, enum hrf_dtype type, float scale)
{
    const struct hrf_shape one = { .rank = 0 };
    const int8_t zero = 0;
    int32_t inputs[3] = { x };
    assert_int_equal(
        hrf_graph_add_value(b->graph, "scale", HRF_F32, &one, &scale, &inputs[1], NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(b->graph, "zero", type, &one, &zero, &inputs[2], NULL),
                     HRF_OK);
    return build_node(b, HRF_OP_QUANTIZE, inputs, 3, NULL);
}

static void an_8_bit_output_is_written_as_8_bits(void **state)
{
    (void)state;
    static const float x[] = { -1, 0.3f, 1.5f, 400 };
    static const uint8_t want[] = { 0, 3, 15, 255 };
    static const int8_t want_signed[] = { -10, 3, 15, 127 };
    static const char *const devices[] = { "ref", "cpu" };
    const struct hrf_shape shape = SHAPE(1, 1, 2, 2);
    for (int i = 0; i < 4; i++) {
        const bool is_unsigned = i < 2;
        const struct place p = make_place();
        struct build b = build_start(1);
        const int32_t in = build_input(&b, shape);
        const int32_t y = add_quantize(&b, in, is_unsigned ? HRF_U8 : HRF_S8, 0.1f);
        store(&p, build_finish(&b, &y, 1), &shape, x);
        assert_int_equal(eval(&p, NULL, devices[i % 2], NULL, NULL), 0);
        check_array(&p, is_unsigned ? "'|u1'" : "'|i1'",
                    is_unsigned ? (const void *)want : want_signed, sizeof want);
        remove_place(&p);
    }
}

static void ranks_give_the_same_8_bits(void **state)
{
    (void)state;
    enum { SIDE = 8 };
    static float x[SIDE * SIDE];
    static uint8_t want[SIDE * SIDE];
    const struct hrf_shape shape = SHAPE(1, 1, SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = (float)(i - 3);
        want[i] = (uint8_t)(i < 3 ? 0 : i - 3);
    }
    const struct place p = make_place();
    struct build b = build_start(1);
    const int32_t relu = build_unary(&b, HRF_OP_RELU, build_input(&b, shape));
    const int32_t y = add_quantize(&b, relu, HRF_U8, 1);
    store(&p, build_finish(&b, &y, 1), &shape, x);
    assert_int_equal(eval(&p, NULL, "cpu", "spatial=2", NULL), 0);
    check_array(&p, "'|u1'", want, sizeof want);
    remove_place(&p);
}

static void of_several_outputs_one_is_chosen_by_name(void **state)
{
    (void)state;
    static const float x[] = { -1, 2 }, want[] = { 0, 2 };
    const struct hrf_shape shape = SHAPE(1, 2);
    const struct place p = make_place();
    struct build b = build_start(1);
    const int32_t in = build_input(&b, shape);
    const int32_t outputs[] = { build_unary(&b, HRF_OP_NEG, in), build_unary(&b, HRF_OP_RELU, in) };
    HRF_AUTO_FREE char *first = hrf_strdup(b.graph->values[outputs[0]].name);
    HRF_AUTO_FREE char *second = hrf_strdup(b.graph->values[outputs[1]].name);
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    store(&p, build_finish(&b, outputs, 2), &shape, x);
    assert_int_equal(eval(&p, NULL, "cpu", NULL, &said), 2);
    assert_non_null(strstr(said.text, "has 2 outputs"));
    assert_non_null(strstr(said.text, first));
    assert_non_null(strstr(said.text, second));
    assert_non_null(strstr(said.text, "--output-name"));
    assert_false(hrf_path_exists(p.output));
    assert_int_equal(eval(&p, "none of them", "cpu", NULL, &said), 2);
    assert_non_null(strstr(said.text, "has no output 'none of them'"));
    assert_int_equal(eval(&p, second, "cpu", NULL, NULL), 0);
    check_array(&p, "'<f4'", want, sizeof want);
    remove_place(&p);
}

/* Source: ONNX Clip, "when min is greater than max, all becomes max". */
static void clip_with_min_above_max_gives_max(void **state)
{
    (void)state;
    static const float x[] = { -1, 2, 3.5f, 9 }, want[] = { 1, 1, 1, 1 };
    static const char *const devices[] = { "ref", "cpu" };
    const struct hrf_shape shape = SHAPE(1, 1, 2, 2);
    struct hrf_attributes a = hrf_attributes_default();
    a.activation_min = 3;
    a.activation_max = 1;
    for (int fused = 0; fused < 2; fused++)
        for (int i = 0; i < 2; i++) {
            const struct place p = make_place();
            struct build b = build_start(1);
            int32_t at = build_input(&b, shape);
            if (fused)
                at = build_plain_conv(&b, at, 1, 1, 1, 1, true);
            const int32_t y = build_node(&b, HRF_OP_CLIP, &at, 1, &a);
            store(&p, build_finish(&b, &y, 1), &shape, x);
            assert_int_equal(eval(&p, NULL, devices[i], NULL, NULL), 0);
            check_array(&p, "'<f4'", want, sizeof want);
            remove_place(&p);
        }
}

/* Two images at a time and no other number, because of the Reshape: means of their channels. */
static void a_batch_that_the_file_fixes_is_filled_up(void **state)
{
    (void)state;
    enum { N = 5, AREA = 16 };
    static const int64_t file_shape[] = { 2, 3 };
    static float x[N * 3 * AREA], want[N * 3];
    const struct hrf_shape fixed = SHAPE(2, 3, 4, 4), shape = SHAPE(N, 3, 4, 4);
    for (int i = 0; i < N * 3 * AREA; i++)
        x[i] = want[i / AREA] = (float)(i / AREA);
    const struct place p = make_place();
    struct build b = build_start(1);
    const int32_t mean = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, build_input(&b, fixed));
    const int32_t inputs[] = { mean, build_integers(&b, 2, file_shape) };
    const int32_t y = build_node(&b, HRF_OP_RESHAPE, inputs, 2, NULL);
    store(&p, build_finish(&b, &y, 1), &shape, x);
    assert_int_equal(eval(&p, NULL, "cpu", NULL, NULL), 0);
    check_array(&p, "(5, 3,)", want, sizeof want);
    remove_place(&p);
}

/* The window covers all of the file's 4 x 4 px, as an exported adaptive pooling does. */
static void a_size_that_the_network_stands_for_is_refused(void **state)
{
    (void)state;
    enum { SIDE = 8 };
    static float x[3 * SIDE * SIDE];
    static const float zeros[3];
    const struct hrf_shape fixed = SHAPE(1, 3, 4, 4), other = SHAPE(1, 3, SIDE, SIDE);
    struct hrf_attributes a = hrf_attributes_default();
    a.window.kernel[0] = a.window.kernel[1] = a.window.stride[0] = a.window.stride[1] = 4;
    for (int is_free = 0; is_free < 2; is_free++) {
        const struct place p = make_place();
        struct build b = build_start(1);
        HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
        const int32_t in = build_input(&b, fixed);
        const int32_t y = is_free ? build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, in)
                                  : build_node(&b, HRF_OP_AVERAGE_POOL, &in, 1, &a);
        store(&p, build_finish(&b, &y, 1), &other, x);
        assert_int_equal(eval(&p, NULL, "cpu", NULL, &said), is_free ? 0 : 2);
        if (is_free)
            check_array(&p, "(1, 3, 1, 1,)", zeros, sizeof zeros);
        else
            assert_non_null(strstr(said.text, "is 1x3x4x4; it cannot take images of 8x8 px"));
        remove_place(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_8_bit_output_is_written_as_8_bits),
        cmocka_unit_test(ranks_give_the_same_8_bits),
        cmocka_unit_test(of_several_outputs_one_is_chosen_by_name),
        cmocka_unit_test(clip_with_min_above_max_gives_max),
        cmocka_unit_test(a_batch_that_the_file_fixes_is_filled_up),
        cmocka_unit_test(a_size_that_the_network_stands_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
