/* Encoders out of safetensors give timm's outputs (tests/golden/encoder, written by
 * tools/reference/check_encoders.py), from one file or two; files that are damaged, hostile or of
 * another network are refused in a sentence. */
#include "tests/unit/unit.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "engine/backend/compute.h"
#include "engine/encoder/encoder.h"
#include "engine/encoder/safetensors.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char folder[] = "tests/golden/encoder";

static void must(enum hrf_status status, const struct hrf_error *err)
{
    if (status != HRF_OK)
        fail_msg("%s", err->text);
}

/* "uni --size 56 --heads 3": what the engine's command line takes. */
static void read_words(char *text, const char **encoder, struct hrf_encoder_options *out)
{
    char *left = NULL;
    *encoder = strtok_r(text, " \n", &left);
    for (char *word; (word = strtok_r(NULL, " \n", &left)) != NULL;) {
        const char *value = strtok_r(NULL, " \n", &left);
        assert_non_null(value);
        if (strcmp(word, "--size") == 0)
            out->size = strtoll(value, NULL, 10);
        else if (strcmp(word, "--heads") == 0)
            out->n_heads = strtoll(value, NULL, 10);
        else
            out->pool = hrf_encoder_pool_find(value);
    }
}

static float *run_model(const char *path, const struct hrf_shape *shape, const float *x, int64_t *n)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_session *session = NULL;
    const struct hrf_session_config config = { .device = "ref",
                                               .precision = "fp32",
                                               .n_threads = 1 };
    must(hrf_onnx_read(path, &graph, &err), &err);
    must(hrf_graph_set_input_shape(graph, 0, shape, &err), &err);
    must(hrf_session_create(graph, &config, &session, &err), &err);
    hrf_layout_from_onnx(shape, sizeof *x, x, hrf_session_input(session, 0));
    must(hrf_session_run(session, &err), &err);
    *n = hrf_shape_count(hrf_session_output_shape(session, 0));
    float *y = hrf_alloc_array((size_t)*n, sizeof *y);
    memcpy(y, hrf_session_output(session, 0), (size_t)*n * sizeof *y);
    hrf_session_destroy(session);
    return y;
}

static void check_model(const char *path, const char *name)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_shape shape, result;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO_FREE char *in = hrf_format("%s/%s.x.npy", folder, name);
    HRF_AUTO_FREE char *out = hrf_format("%s/%s.y.npy", folder, name);
    int64_t n;
    double most = 0, difference = 0;
    must(hrf_npy_read(in, &shape, &x, &err), &err);
    must(hrf_npy_read(out, &result, &want, &err), &err);
    HRF_AUTO_FREE float *got = run_model(path, &shape, x, &n);
    assert_int_equal(n, hrf_shape_count(&result));
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        difference = fmax(difference, fabs((double)got[i] - (double)want[i]));
    }
    if (!(difference <= 1e-4 * most))
        fail_msg("%s: %g of the largest output apart", name, difference / most);
}

/* Makes the encoder of a row of the goldens. */
static enum hrf_status make(const char *name, const char *weights, struct hrf_graph **graph,
                            struct hrf_encoder_input *input, struct hrf_error *err)
{
    HRF_AUTO_FREE char *words = hrf_format("%s/%s.words", folder, name), *text = NULL;
    HRF_AUTO_FREE char *file = hrf_format("%s/%s.safetensors%s", folder, name,
                                          strstr(name, "sharded") != NULL ? ".index.json" : "");
    struct hrf_encoder_options options = { .size = 0 };
    const char *encoder;
    size_t n;
    must(hrf_file_read(words, 4096, &text, &n, err), err);
    read_words(text, &encoder, &options);
    return hrf_encoder_make(encoder, weights != NULL ? weights : file, &options, graph, input, err);
}

static void every_encoder_gives_what_timm_gives(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_name_list names = { .items = NULL };
    char temporary[] = "/tmp/hrf-encoder-XXXXXX";
    int n_checked = 0;
    assert_non_null(mkdtemp(temporary));
    must(hrf_name_list_read(folder, &names, &err), &err);
    HRF_AUTO_FREE char *model = hrf_path_join(temporary, "model.onnx");
    for (size_t i = 0; i < names.n_items; i++) {
        char *end = strstr(names.items[i], ".words");
        if (end == NULL)
            continue;
        *end = '\0';
        for (int splits = 0; splits < 2; splits++, n_checked++) {
            HRF_AUTO(hrf_graph) graph = NULL;
            struct hrf_encoder_input input;
            HRF_AUTO_FREE char *said = NULL;
            must(make(names.items[i], NULL, &graph, &input, &err), &err);
            HRF_AUTO_FREE char *text = hrf_encoder_input_text(&input);
            const struct hrf_onnx_entry entry = { HRF_ENCODER_INPUT_KEY, text };
            must(hrf_onnx_write_with(graph, &entry, 1, splits, model, &err), &err);
            HRF_AUTO_FREE char *data = hrf_format("%s.data", model);
            assert_int_equal(access(data, R_OK) == 0, splits);
            must(hrf_onnx_read_entry(model, HRF_ENCODER_INPUT_KEY, &said, &err), &err);
            assert_string_equal(said, text);
            check_model(model, names.items[i]);
            (void)unlink(data);
        }
    }
    assert_true(n_checked >= 18);
    hrf_name_list_release(&names);
    must(hrf_path_remove_tree(temporary, &err), &err);
}

/* ---- what is refused ---- */

static void expect(enum hrf_status status, const struct hrf_error *err, const char *words)
{
    if (status == HRF_OK || strstr(err->text, words) == NULL)
        fail_msg("expected an error with '%s', got '%s'", words,
                 status == HRF_OK ? "success" : err->text);
}

static void expect_refusal(const char *encoder, const char *weights,
                           const struct hrf_encoder_options *options, const char *words)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    struct hrf_encoder_input input;
    expect(hrf_encoder_make(encoder, weights, options, &graph, &input, &err), &err, words);
    assert_null(graph);
}

static void options_and_weights_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const char vit[] = "tests/golden/encoder/gelu_smaller.safetensors";
    const char resnet[] = "tests/golden/encoder/bottleneck.safetensors";
    const struct hrf_encoder_options plain = { .size = 56, .n_heads = 3 };
    struct hrf_encoder_options o = plain;
    expect_refusal("unni", vit, &plain, "did you mean 'uni'");
    expect_refusal("uni", resnet, &plain, "no 'patch_embed.proj.weight'");
    expect_refusal("resnet", vit, &plain, "no 'conv1.weight'");
    expect_refusal("convnext", vit, &plain, "no 'stem.0.weight'");
    o.size = 57;
    expect_refusal("uni", vit, &o, "images of 57 px cannot be cut into patches of 8 px");
    o.size = 20;
    expect_refusal("uni", vit, &o, "32 to 16384 are possible");
    o = plain;
    o.n_heads = 5;
    expect_refusal("uni", vit, &o, "24 channels cannot be shared by 5 heads");
    o = plain;
    o.pool = HRF_POOL_LOGITS;
    expect_refusal("uni", vit, &o, "bring no classifier");
    o.pool = HRF_POOL_STAGE3;
    expect_refusal("uni", vit, &o, "stage3 is an output of ResNets");
    o.pool = HRF_POOL_CLASS;
    expect_refusal("resnet", resnet, &o, "no class token");
    expect_refusal("uni", "tests/golden/encoder/logits_of_mean.safetensors", &plain, "fc_norm");
}

/* A file with this header and data of n_data zeros, but for the first four bytes. */
static void write_file(const char *path, const char *header, const void *first, size_t n_data)
{
    struct hrf_error err = { .status = HRF_OK };
    const size_t n = strlen(header), all = 8 + n + n_data;
    HRF_AUTO_FREE uint8_t *bytes = hrf_calloc(1, all + 4);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(n >> (8 * i));
    memcpy(bytes + 8, header, n);
    memcpy(bytes + 8 + n, first, 4);
    must(hrf_file_write_atomic(path, bytes, all, &err), &err);
}

static void expect_unreadable(const char *path, const char *words)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_safetensors *file = NULL;
    expect(hrf_safetensors_open(path, &file, &err), &err, words);
    assert_null(file);
}

/* `part`: a file with one tensor, "a". */
static void hostile_indexes_are_refused(const char *part)
{
    static const struct {
        const char *format, *words; /* %s: the file's name */
    } cases[] = {
        { "{}", "is no index" },
        { "{\"weight_map\":{\"a\":\"../%s\"}}", "which is no file beside the index" },
        { "{\"weight_map\":{\"a\":\"/tmp/%s\"}}", "which is no file beside the index" },
        { "{\"weight_map\":{\"a\":5}}", "which is no file beside the index" },
        { "{\"weight_map\":{\"b\":\"%s\"}}", "the index does not place it there" },
        { "{\"weight_map\":{\"a\":\"%s\",\"b\":\"%s\"}}", "does not hold tensor 'b'" },
        { "{\"weight_map\":{\"a\":\"%s\",\"b\":\"gone\"}}", "gone" },
    };
    struct hrf_error err = { .status = HRF_OK };
    const float one = 1;
    const char *name = strrchr(part, '/') + 1;
    HRF_AUTO_FREE char *path = hrf_format("%s.index.json", part);
    write_file(part, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", &one, 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        size_t n = 0;
        for (const char *at = cases[i].format; *at != '\0'; at++)
            if (at[0] == '%' && ++at != NULL)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", name);
            else
                text[n++] = *at;
        must(hrf_file_write_atomic(path, text, n, &err), &err);
        expect_unreadable(path, cases[i].words);
    }
    unlink(path);
}

static void hostile_files_are_refused(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    char path[] = "/tmp/hrf-weights-XXXXXX";
    const float nan = NAN, one = 1;
    const int fd = mkstemp(path); /* ci-allow: a test's own */
    assert_true(fd >= 0);
    close(fd);
    expect_unreadable(path, "is no safetensors file");
    hostile_indexes_are_refused(path);
    must(hrf_file_write_atomic(path, "PK\x03\x04 a zip of pickles", 22, &err), &err);
    expect_unreadable(path, "PyTorch's own form");
    write_file(path, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", &one, 4);
    expect_unreadable(path, "bytes 0 to 8 of 4");
    write_file(path, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", &one, 12);
    expect_unreadable(path, "cut short or has something behind it");
    write_file(path, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", &one, 8);
    expect_unreadable(path, "3 numbers of 4 bytes, and takes 8");
    write_file(path,
               "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
               &one, 8);
    expect_unreadable(path, "the one before it ends");
    write_file(path, "{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", &one, 8);
    expect_unreadable(path, "'F33', which the format does not have");
    write_file(path, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", &one, 8);
    expect_unreadable(path, "a shape that is none");
    write_file(path, "[1, 2]", &one, 4);
    expect_unreadable(path, "no list of tensors");
    static const char pos[] = "{\"patch_embed.proj.weight\":{\"dtype\":\"F32\","
                              "\"shape\":[8,3,8,8],\"data_offsets\":[0,6144]}}";
    const struct hrf_encoder_options options = { .size = 32, .n_heads = 2 };
    write_file(path, pos, &nan, 6144);
    expect_refusal("vit", path, &options, "holds nan at place 0");
    write_file(path, pos, &one, 6144);
    expect_refusal("vit", path, &options, "'pos_embed' has 0 places");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoder_gives_what_timm_gives),
        cmocka_unit_test(options_and_weights_that_do_not_fit_are_refused),
        cmocka_unit_test(hostile_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
