/* Encoders out of safetensors give timm's outputs (tests/golden/encoder, written by
 * tools/reference/check_encoders.py), from one file or two; files that are damaged, hostile or of
 * another network are refused in a sentence. */
#include "schema/record/input_entry.h"
#include "tests/unit/must.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/strbuf.h"
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
                                               .precision = HRF_FP32,
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
    struct hrf_text_list names = { .items = NULL };
    char temporary[] = "/tmp/hrf-encoder-XXXXXX";
    int n_checked = 0;
    assert_non_null(mkdtemp(temporary));
    must(hrf_path_list_directory(folder, &names, &err), &err);
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
            HRF_AUTO_FREE char *text = hrf_encoder_input_text(&input, 0);
            const struct hrf_onnx_entry entry = { HRF_MODEL_INPUT_KEY, text };
            must(hrf_onnx_write_with(graph, &entry, 1, splits, model, &err), &err);
            HRF_AUTO_FREE char *data = hrf_format("%s.data", model);
            assert_int_equal(access(data, R_OK) == 0, splits);
            must(hrf_onnx_read_entry(model, HRF_MODEL_INPUT_KEY, &said, &err), &err);
            assert_string_equal(said, text);
            check_model(model, names.items[i]);
            (void)unlink(data);
        }
    }
    assert_true(n_checked >= 18);
    hrf_text_list_release(&names);
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
    expect_refusal("vit", resnet, &plain, "no 'patch_embed.proj.weight'");
    expect_refusal("resnet", vit, &plain, "no 'conv1.weight'");
    expect_refusal("convnext", vit, &plain, "no 'stem.0.weight'");
    o.size = 57;
    expect_refusal("vit", vit, &o, "images of 57 px cannot be cut into patches of 8 px");
    o.size = 20;
    expect_refusal("vit", vit, &o, "32 to 16384 are possible");
    o = plain;
    o.n_heads = 5;
    expect_refusal("vit", vit, &o, "24 channels cannot be shared by 5 heads");
    o = plain;
    o.pool = HRF_POOL_LOGITS;
    expect_refusal("vit", vit, &o, "bring no classifier");
    o.pool = HRF_POOL_STAGE3;
    expect_refusal("vit", vit, &o, "stage3 is an output of ResNets");
    o.pool = HRF_POOL_CLASS;
    expect_refusal("resnet", resnet, &o, "no class token");
    expect_refusal("vit", "tests/golden/encoder/logits_of_mean.safetensors", &plain, "fc_norm");
    /* A name stands for one network, even if its weights could be read as another. */
    static const char *const names[] = { "uni",         "uni2-h",     "virchow",  "virchow2",
                                         "phikon",      "phikon-v2",  "gigapath", "h-optimus-0",
                                         "h-optimus-1", "lunit-vits8" };
    const struct hrf_encoder_options own = { .size = 56 };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        expect_refusal(names[k], vit, &plain, "24 channels, 1 blocks, 3 heads, patches of 8 px, 0");
        expect_refusal(names[k], vit, &own, "24 channels");
    }
    const struct hrf_encoder_options any = { .size = 0 };
    expect_refusal("lunit-resnet50", resnet, &any,
                   "stages of 1, 1, 1 and 1 blocks of three convolutions from 4 channels on, where "
                   "lunit-resnet50, of 50 layers, has 3, 4, 6 and 3 of three from 64 on");
    expect_refusal("clam-resnet50", resnet, &any,
                   "where clam-resnet50, of 50 layers, has 3, 4, 6 and 3");
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

/* A tensor of zeros more in the header of a safetensors file. */
static void put_tensor(struct hrf_strbuf *out, size_t *n_bytes, const char *name, const char *part,
                       int64_t n, int64_t in, int64_t kernel)
{
    const size_t size = (size_t)(n * in * kernel * kernel) * 2;
    hrf_strbuf_addf(out, "%s\"%s.%s\":{\"dtype\":\"F16\",\"shape\":[%lld", *n_bytes > 0 ? "," : "{",
                    name, part, (long long)n);
    if (in > 1) /* of a convolution */
        hrf_strbuf_addf(out, ",%lld,%lld,%lld", (long long)in, (long long)kernel,
                        (long long)kernel);
    hrf_strbuf_addf(out, "],\"data_offsets\":[%zu,%zu]}", *n_bytes, *n_bytes + size);
    *n_bytes += size;
}

static void put_conv_norm(struct hrf_strbuf *out, size_t *n_bytes, const char *block,
                          const char *conv, const char *norm, int64_t n, int64_t in, int64_t kernel)
{
    static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
    char name[64];
    snprintf(name, sizeof name, "%s%s", block, conv);
    put_tensor(out, n_bytes, name, "weight", n, in, kernel);
    snprintf(name, sizeof name, "%s%s", block, norm);
    for (int i = 0; i < 4; i++)
        put_tensor(out, n_bytes, name, parts[i], n, 1, 1);
}

/* Weights of a ResNet of blocks of three convolutions, all zeros: a file with a hole. */
static void write_resnet(const char *path, const int64_t blocks[4], int64_t width)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    size_t n_bytes = 0;
    int64_t in = 64;
    put_conv_norm(&out, &n_bytes, "", "conv1", "bn1", 64, 3, 7);
    for (int stage = 0; stage < 4; stage++)
        for (int64_t i = 0; i < blocks[stage]; i++) {
            const int64_t inner = width << stage, last = (int64_t)256 << stage;
            char block[32];
            snprintf(block, sizeof block, "layer%d.%lld.", stage + 1, (long long)i);
            put_conv_norm(&out, &n_bytes, block, "conv1", "bn1", inner, in, 1);
            put_conv_norm(&out, &n_bytes, block, "conv2", "bn2", inner, inner, 3);
            put_conv_norm(&out, &n_bytes, block, "conv3", "bn3", last, inner, 1);
            if (i == 0)
                put_conv_norm(&out, &n_bytes, block, "downsample.0", "downsample.1", last, in, 1);
            in = last;
        }
    hrf_strbuf_addc(&out, '}');
    write_file(path, out.text, "\0\0\0", 4);
    assert_int_equal(truncate(path, (off_t)(8 + out.length + n_bytes)), 0);
}

/* A name of a ResNet stands for its number of blocks and their width, too. */
static void another_resnet_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t blocks[4], width;
        const char *words[2]; /* of lunit-resnet50, of clam-resnet50, which has three stages */
    } cases[] = {
        { { 3, 4, 6, 3 }, 64, { NULL, NULL } },
        { { 3, 4, 23, 3 }, 64, { "stages of 3, 4, 23 and 3 blocks", "stages of 3, 4, 23 and 0" } },
        { { 3, 4, 6, 2 }, 64, { "stages of 3, 4, 6 and 2 blocks", NULL } },
        { { 3, 4, 6, 3 },
          128,
          { "three convolutions from 128 channels on, where lunit-resnet50, of 50 layers, has "
            "3, 4, 6 and 3 of three from 64",
            "where clam-resnet50, of 50 layers, has" } },
    };
    static const char *const names[] = { "lunit-resnet50", "clam-resnet50" };
    const struct hrf_encoder_options own = { .size = 32 };
    char path[] = "/tmp/hrf-weights-XXXXXX";
    const int fd = mkstemp(path); /* ci-allow: a test's own */
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_resnet(path, cases[i].blocks, cases[i].width);
        for (int k = 0; k < 2; k++) {
            struct hrf_error err = { .status = HRF_OK };
            HRF_AUTO(hrf_graph) graph = NULL;
            struct hrf_encoder_input input;
            if (cases[i].words[k] != NULL)
                expect_refusal(names[k], path, &own, cases[i].words[k]);
            else
                must(hrf_encoder_make(names[k], path, &own, &graph, &input, &err), &err);
        }
    }
    unlink(path);
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
    static const char turned[] = /* its axes are in the other order */
        "{\"patch_embed.proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,3,8,8],"
        "\"data_offsets\":[0,6144]},\"pos_embed\":{\"dtype\":\"F32\",\"shape\":[8,16,1],"
        "\"data_offsets\":[6144,6656]}}";
    write_file(path, turned, &one, 6656);
    expect_refusal("vit", path, &options, "'pos_embed' is 8x16x1 where 16 rows of 8 channels");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoder_gives_what_timm_gives),
        cmocka_unit_test(options_and_weights_that_do_not_fit_are_refused),
        cmocka_unit_test(another_resnet_is_refused),
        cmocka_unit_test(hostile_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
