/* Records come back as they were, and nothing that was cut, changed or made by a newer program is
 * taken for one. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "schema/record/container.h"
#include "schema/record/scores.h"
#include "schema/record/tile_plan.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A newline, quotes, a backslash, an emoji, and a byte that is not UTF-8. */
static const char odd_name[] = "/a b/\"q\"'\\\n\xF0\x9F\x94\xAC\xFF.svs";

static struct hrf_patch patches[] = { { 0, 0 }, { 0, 512 }, { -3, 2147483647 } };
static unsigned char thumbnail[] = { 0x89, 'P', 'N', 'G', 0, 1, 2 }, mask[] = { 9 };

/* Borrows everything: not for hrf_tile_plan_destroy. */
static struct hrf_tile_plan example_plan(void)
{
    static char path[sizeof odd_name], vendor[] = "aperio", source[] = "file";
    static char method[] = "otsu", warning[] = "only 3 patches of tissue (minimum 16)";
    memcpy(path, odd_name, sizeof odd_name);
    return (struct hrf_tile_plan){ .slide_path = path,
                                   .vendor = vendor,
                                   .width = 100001,
                                   .height = 99999,
                                   .n_levels = 3,
                                   .mpp_x = 0.2431,
                                   .mpp_y = 0.1 + 0.2,
                                   .mpp_source = source,
                                   .patch_size = 256,
                                   .patch_mpp = 0.5,
                                   .patch_stride = 256,
                                   .patch_width0 = 527,
                                   .patch_height0 = 427,
                                   .stride_x0 = 526.5323734,
                                   .stride_y0 = 426.6666667,
                                   .grid_columns = 190,
                                   .grid_rows = 235,
                                   .read_level = 1,
                                   .read_downsample = 4.00012,
                                   .tissue_method = method,
                                   .tissue_fraction = 1.0 / 3,
                                   .tissue_threshold = 17,
                                   .warning = warning,
                                   .n_patches = 3,
                                   .patches = patches,
                                   .thumbnail_downsample = 97.65,
                                   .thumbnail_png = { thumbnail, sizeof thumbnail },
                                   .mask_png = { mask, sizeof mask },
                                   .seconds = 1.25 };
}

static struct hrf_bytes encoded_plan(void)
{
    struct hrf_tile_plan plan = example_plan();
    struct hrf_bytes bytes = { NULL, 0 };
    assert_int_equal(hrf_tile_plan_seal(&plan, NULL), HRF_OK);
    assert_int_equal(hrf_tile_plan_encode(&plan, &bytes, NULL), HRF_OK);
    return bytes;
}

static void a_tile_plan_comes_back_as_it_was(void **state)
{
    (void)state;
    struct hrf_tile_plan plan = example_plan(), *back = NULL;
    struct hrf_bytes bytes = encoded_plan();
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_tile_plan_seal(&plan, &err), HRF_OK);
    assert_int_equal(hrf_tile_plan_decode(bytes.data, bytes.n_bytes, NULL, "p", &back, &err),
                     HRF_OK);
    assert_string_equal(back->slide_path, odd_name);
    assert_string_equal(back->vendor, "aperio");
    assert_string_equal(back->warning, plan.warning);
    assert_string_equal(back->hash, plan.hash);
    /* everything between the texts: the same bits */
    assert_memory_equal(&back->mpp_x, &plan.mpp_x, 2 * sizeof plan.mpp_x);
    assert_memory_equal(&back->patch_size, &plan.patch_size,
                        offsetof(struct hrf_tile_plan, tissue_method) -
                            offsetof(struct hrf_tile_plan, patch_size));
    assert_true(back->tissue_fraction == plan.tissue_fraction && back->seconds == plan.seconds &&
                back->tissue_threshold == plan.tissue_threshold &&
                back->thumbnail_downsample == plan.thumbnail_downsample);
    assert_int_equal(back->n_patches, 3);
    assert_memory_equal(back->patches, patches, sizeof patches);
    assert_int_equal(back->thumbnail_png.n_bytes, sizeof thumbnail);
    assert_memory_equal(back->thumbnail_png.data, thumbnail, sizeof thumbnail);
    assert_memory_equal(back->mask_png.data, mask, sizeof mask);
    hrf_tile_plan_destroy(back);
    hrf_bytes_release(&bytes);
}

static void a_plan_without_patches_pictures_or_warning_comes_back(void **state)
{
    (void)state;
    struct hrf_tile_plan plan = example_plan(), *back = NULL;
    struct hrf_bytes bytes = { NULL, 0 };
    plan.n_patches = 0;
    plan.patches = NULL;
    plan.warning = NULL;
    plan.thumbnail_png = plan.mask_png = (struct hrf_bytes){ NULL, 0 };
    assert_int_equal(hrf_tile_plan_seal(&plan, NULL), HRF_OK);
    assert_int_equal(hrf_tile_plan_encode(&plan, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_tile_plan_decode(bytes.data, bytes.n_bytes, NULL, "p", &back, NULL),
                     HRF_OK);
    assert_null(back->warning);
    assert_int_equal(back->n_patches, 0);
    assert_int_equal(back->thumbnail_png.n_bytes, 0);
    hrf_tile_plan_destroy(back);
    hrf_bytes_release(&bytes);
}

static void the_hash_names_the_tiling_and_nothing_else(void **state)
{
    (void)state;
    struct hrf_tile_plan plan = example_plan(), other = example_plan();
    struct hrf_patch moved[] = { { 0, 0 }, { 0, 513 }, { -3, 2147483647 } };
    char nowhere[] = "/nowhere";
    assert_int_equal(hrf_tile_plan_seal(&plan, NULL), HRF_OK);
    other.slide_path = nowhere;
    other.seconds = 99;
    other.thumbnail_png.n_bytes = 0;
    other.warning = NULL;
    assert_int_equal(hrf_tile_plan_seal(&other, NULL), HRF_OK);
    assert_string_equal(plan.hash, other.hash);
    other.patches = moved;
    assert_int_equal(hrf_tile_plan_seal(&other, NULL), HRF_OK);
    assert_string_not_equal(plan.hash, other.hash);
    other = example_plan();
    other.patch_mpp = 0.25;
    assert_int_equal(hrf_tile_plan_seal(&other, NULL), HRF_OK);
    assert_string_not_equal(plan.hash, other.hash);
}

static struct hrf_scores example_scores(float probabilities[6])
{
    static char precision[] = "fp32", device[] = "cpu", host[] = "n1";
    for (int i = 0; i < 6; i++)
        probabilities[i] = 1.0f / (float)(i + 3);
    return (struct hrf_scores){ .identity = { "k", "s", "p" },
                                .precision = precision,
                                .device = device,
                                .host = host,
                                .first_patch = 20000,
                                .n_patches = 3,
                                .n_classes = 2,
                                .probabilities = probabilities,
                                .timing = { 1, 2, 3, 4, 5, 6, 7, 8, 0.1 },
                                .hardware = { "NVIDIA H200", "compute capability 9.0",
                                              "580.82.07 (CUDA 13.0)", "cuDNN 9.19.0" },
                                .notes = "node 'fc' (Gemm) stays in float32\n",
                                .device_memory_bytes = 1LL << 33,
                                .gpu_energy_joules = 0.25,
                                .peak_memory_bytes = 1LL << 40,
                                .peak_process_bytes = 1LL << 41,
                                .energy_joules = 12.5,
                                .traffic = { "mpi", { { "exchange", 12, 3456, 0.25, 0.5 } }, 1 },
                                .n_threads = 2,
                                .n_readers = 1 };
}

static void label_maps_come_back_as_they_were(void **state)
{
    (void)state;
    float probabilities[6] = { 0 };
    unsigned char map[9] = { 0, 1, 2, 2, 1, 0, 1, 1, 1 }, read[9];
    struct hrf_scores scores = example_scores(probabilities), *back = NULL;
    struct hrf_bytes bytes;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_label_maps_init(&scores.labels, 3, scores.n_patches, NULL), HRF_OK);
    for (int64_t i = 0; i + 1 < scores.n_patches; i++) /* the last one is not scored yet */
        assert_int_equal(hrf_label_maps_put(&scores.labels, i, map, NULL), HRF_OK);
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, NULL), HRF_OK);
    assert_int_equal(back->labels.side, 3);
    assert_int_equal(back->labels.n, scores.n_patches);
    assert_int_equal(hrf_label_maps_get(&back->labels, 0, 2, read, NULL), HRF_OK);
    assert_memory_equal(read, map, sizeof map);
    assert_int_equal(hrf_label_maps_get(&back->labels, scores.n_patches - 1, 2, read, &err),
                     HRF_E_USER);
    hrf_scores_destroy(back);
    hrf_bytes_release(&bytes);
    hrf_label_maps_release(&scores.labels);
}

static void scores_come_back_as_they_were(void **state)
{
    (void)state;
    float probabilities[6];
    struct hrf_scores scores = example_scores(probabilities), *back = NULL;
    struct hrf_bytes bytes = { NULL, 0 };
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, NULL), HRF_OK);
    assert_memory_equal(&back->identity, &scores.identity, sizeof scores.identity);
    assert_string_equal(back->host, "n1");
    assert_int_equal(back->first_patch, 20000);
    assert_int_equal(back->n_patches, 3);
    assert_int_equal(back->n_classes, 2);
    assert_memory_equal(back->probabilities, probabilities, sizeof probabilities);
    assert_memory_equal(&back->timing, &scores.timing, sizeof scores.timing);
    assert_true(back->peak_memory_bytes == 1LL << 40 && back->n_threads == 2 &&
                back->n_readers == 1);
    assert_true(back->peak_process_bytes == 1LL << 41 && back->energy_joules == 12.5);
    assert_true(back->device_memory_bytes == 1LL << 33 && back->gpu_energy_joules == 0.25);
    assert_string_equal(back->hardware.model, "NVIDIA H200");
    assert_string_equal(back->notes, "node 'fc' (Gemm) stays in float32\n");
    assert_string_equal(back->hardware.path, "compute capability 9.0");
    assert_string_equal(back->hardware.driver, "580.82.07 (CUDA 13.0)");
    assert_string_equal(back->hardware.libraries, "cuDNN 9.19.0");
    hrf_traffics_add(&back->traffic, &back->traffic);
    assert_string_equal(back->traffic.transport, "mpi");
    assert_int_equal(back->traffic.n_items, 1);
    assert_string_equal(back->traffic.items[0].operation, "exchange");
    assert_true(back->traffic.items[0].messages == 24 && back->traffic.items[0].bytes == 6912 &&
                back->traffic.items[0].sending == 0.5 && back->traffic.items[0].receiving == 1);
    assert_null(back->class_map.values);
    hrf_scores_destroy(back);
    hrf_bytes_release(&bytes);
}

/* A complete record has the hash of the file of embeddings, a part a sum of each row. */
static void embeddings_come_back_as_they_were_named(void **state)
{
    (void)state;
    float probabilities[6];
    uint64_t sums[3] = { 5, 0, 7 };
    for (int is_part = 0; is_part < 2; is_part++) {
        struct hrf_scores scores = example_scores(probabilities), *back = NULL;
        struct hrf_bytes bytes = { NULL, 0 };
        scores.probabilities = NULL;
        scores.embeddings.is_set = true;
        scores.embeddings.row_sums = is_part ? sums : NULL;
        snprintf(scores.embeddings.sha256, HRF_HASH_HEX, "%s", is_part ? "" : "abc");
        assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
        assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, NULL),
                         HRF_OK);
        assert_true(back->embeddings.is_set && back->probabilities == NULL);
        assert_true(back->n_patches == 3 && back->n_classes == 2);
        assert_string_equal(back->embeddings.sha256, scores.embeddings.sha256);
        assert_true((back->embeddings.row_sums != NULL) == is_part);
        if (is_part)
            assert_memory_equal(back->embeddings.row_sums, sums, sizeof sums);
        hrf_scores_destroy(back);
        hrf_bytes_release(&bytes);
    }
}

static void energy_that_was_not_measured_stays_unmeasured(void **state)
{
    (void)state;
    float probabilities[6];
    struct hrf_scores scores = example_scores(probabilities), *back = NULL;
    struct hrf_bytes bytes = { NULL, 0 };
    scores.energy_joules = scores.gpu_energy_joules = scores.timing.copy = NAN;
    scores.hardware = (struct hrf_hardware){ .model = "" };
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, NULL), HRF_OK);
    assert_true(isnan(back->energy_joules) && isnan(back->gpu_energy_joules));
    assert_true(isnan(back->timing.copy) && back->timing.kernels == 6);
    assert_string_equal(back->hardware.model, "");
    hrf_scores_destroy(back);
    hrf_bytes_release(&bytes);
}

static void a_class_map_comes_back_and_a_false_one_is_refused(void **state)
{
    (void)state;
    float probabilities[6], values[6] = { 1, -2, 3.5f, 4, 5, 6 };
    struct hrf_scores scores = example_scores(probabilities), *back = NULL;
    struct hrf_bytes bytes = { NULL, 0 };
    struct hrf_error err = { .status = HRF_OK };
    scores.class_map = (struct hrf_class_map){ 1, 2, 3, values };
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, NULL), HRF_OK);
    assert_int_equal(back->class_map.class_index, 1);
    assert_int_equal(back->class_map.rows, 2);
    assert_int_equal(back->class_map.columns, 3);
    assert_memory_equal(back->class_map.values, values, sizeof values);
    hrf_scores_destroy(back);
    hrf_bytes_release(&bytes);
    scores.class_map.class_index = 2;
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(hrf_scores_decode(bytes.data, bytes.n_bytes, NULL, "s", &back, &err),
                     HRF_E_USER);
    assert_string_equal(err.text, "s: it claims a class map of 2 x 3 for class 2");
    hrf_bytes_release(&bytes);
}

static void a_record_that_was_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct hrf_bytes bytes = encoded_plan();
    for (size_t n = 0; n < bytes.n_bytes; n++) {
        struct hrf_tile_plan *back = NULL;
        struct hrf_error err = { .status = HRF_OK };
        assert_int_equal(hrf_tile_plan_decode(bytes.data, n, NULL, "x.rec", &back, &err),
                         HRF_E_USER);
        assert_null(back);
        assert_non_null(strstr(err.text, "x.rec: damaged record: "));
    }
    hrf_bytes_release(&bytes);
}

static void a_record_with_any_bit_changed_is_refused(void **state)
{
    (void)state;
    struct hrf_bytes bytes = encoded_plan();
    for (size_t bit = 0; bit < 8 * bytes.n_bytes; bit++) {
        struct hrf_tile_plan *back = NULL;
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(hrf_tile_plan_decode(bytes.data, bytes.n_bytes, NULL, "x", &back, NULL),
                         HRF_E_USER);
        assert_null(back);
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    hrf_bytes_release(&bytes);
}

static void a_record_of_another_task_slide_or_plan_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct hrf_record_identity expected;
        const char *text;
    } cases[] = {
        { { "k", "s", "p" }, NULL },
        { { "", "s", "p" }, NULL },
        { { "k", "", "" }, NULL },
        { { "kk", "s", "p" }, "x: it is the record of another task (k..., expected kk...)" },
        { { "k", "t", "p" }, "x: it is the record of another slide (s..., expected t...)" },
        { { "k", "s", "q" }, "x: it is the record of another tile plan (p..., expected q...)" },
    };
    float probabilities[6];
    struct hrf_scores scores = example_scores(probabilities), *back = NULL;
    struct hrf_bytes bytes = { NULL, 0 };
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_error err = { .text = "" };
        const enum hrf_status status = hrf_scores_decode(bytes.data, bytes.n_bytes,
                                                         &cases[i].expected, "x", &back, &err);
        assert_int_equal(status, cases[i].text != NULL ? HRF_E_USER : HRF_OK);
        if (cases[i].text != NULL)
            assert_string_equal(err.text, cases[i].text);
        else
            hrf_scores_destroy(back);
        assert_int_equal(hrf_record_check(bytes.data, bytes.n_bytes, HRF_SCORES_KIND,
                                          &cases[i].expected, "x", NULL),
                         status);
    }
    hrf_bytes_release(&bytes);
}

/* What the fuzzer begins with are whole records: each kind passes by its reader. */
static void the_records_of_the_corpus_are_read(void **state)
{
    (void)state;
    static const char *const names[] = { "tile_plan", "no_patches", "scores", "labels" };
    const char *source = getenv("HRF_SOURCE_DIR");
    for (int i = 0; i < 4; i++) {
        HRF_AUTO_FREE char *path = hrf_format("%s/tests/fuzz/corpus/record/%s.rec",
                                              source != NULL ? source : ".", names[i]);
        HRF_AUTO_FREE char *bytes = NULL;
        HRF_AUTO(hrf_tile_plan) plan = NULL;
        HRF_AUTO(hrf_scores) scores = NULL;
        struct hrf_error err = { .text = "" };
        size_t n = 0;
        assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n, NULL), HRF_OK);
        const enum hrf_status status = i < 2
                                           ? hrf_tile_plan_decode(bytes, n, NULL, "x", &plan, &err)
                                           : hrf_scores_decode(bytes, n, NULL, "x", &scores, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(status, HRF_OK);
    }
}

/* A container with a right checksum whose header lies. */
static enum hrf_status decode_text(const char *kind, const char *header, size_t n_patch_bytes,
                                   struct hrf_error *err)
{
    json_t *value = json_loads(header, 0, NULL);
    static const unsigned char zeros[64];
    const struct hrf_section sections[] = { { "patches", zeros, n_patch_bytes },
                                            { "thumbnail.png", zeros, 1 },
                                            { "mask.png", zeros, 1 },
                                            { "white", zeros, 0 },
                                            { "dropped", zeros, 0 } };
    const struct hrf_record_identity identity = { "", "", "" };
    struct hrf_bytes bytes = { NULL, 0 };
    struct hrf_tile_plan *back = NULL;
    assert_non_null(value);
    assert_int_equal(hrf_container_encode(kind, &identity, value, sections, 5, &bytes, NULL),
                     HRF_OK);
    json_decref(value);
    enum hrf_status status = hrf_tile_plan_decode(bytes.data, bytes.n_bytes, NULL, "x.rec", &back,
                                                  err);
    hrf_bytes_release(&bytes);
    hrf_tile_plan_destroy(back);
    return status;
}

#define HASH64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
/* The header of a good plan with some keys given by the case. */
#define HEADER(patches, size, path, hash)                                                          \
    "{\"slide_path\":" path ",\"vendor\":\"v\",\"width\":9,\"height\":9,"                          \
    "\"n_levels\":1,\"mpp_x\":0.5,\"mpp_y\":0.5,\"mpp_source\":\"file\",\"patch_size\":" size ","  \
    "\"patch_mpp\":0.5,\"patch_stride\":2,\"patch_width0\":2,\"patch_height0\":2,"                 \
    "\"stride_x0\":2,\"stride_y0\":2,\"grid_columns\":4,\"grid_rows\":4,\"read_level\":0,"         \
    "\"read_downsample\":1,\"tissue_method\":\"otsu\",\"tissue_fraction\":1,"                      \
    "\"tissue_threshold\":1,\"warning\":null,\"n_patches\":" patches ","                           \
    "\"thumbnail_downsample\":1,\"seconds\":1,\"edge\":null,\"n_white\":0,\"n_dropped\":0,"        \
    "\"hash\":\"" hash "\"}"

static void a_header_that_lies_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *header, *expected;
        size_t n_bytes;
    } cases[] = {
        { "tile-plan", HEADER("2", "2", "\"s\"", HASH64), NULL, 16 },
        { "tile-plan", HEADER("3", "2", "\"s\"", HASH64),
          "x.rec: section 'patches' has 16 bytes where its header needs 24", 16 },
        { "tile-plan", HEADER("-1", "2", "\"s\"", HASH64), "x.rec: it claims -1 patches", 16 },
        { "tile-plan", HEADER("4611686018427387904", "2", "\"s\"", HASH64),
          "x.rec: it claims 4611686018427387904 patches", 16 },
        { "tile-plan", HEADER("2", "0", "\"s\"", HASH64),
          "x.rec: damaged tile plan: a size, resolution or name is missing", 16 },
        { "tile-plan", HEADER("2", "\"two\"", "\"s\"", HASH64),
          "x.rec: 'patch_size' must be an integer, it is a string", 16 },
        { "tile-plan", HEADER("2", "2", "null", HASH64),
          "x.rec: damaged tile plan: a size, resolution or name is missing", 16 },
        { "tile-plan", HEADER("2", "2", "{\"base16\":\"4g\"}", HASH64),
          "x.rec: 'slide_path' is not base 16", 16 },
        { "tile-plan", HEADER("2", "2", "{\"base16\":\"410\"}", HASH64),
          "x.rec: 'slide_path' is not base 16", 16 },
        { "tile-plan", HEADER("2", "2", "{\"base16\":\"4100\"}", HASH64),
          "x.rec: 'slide_path' is not base 16", 16 },
        { "tile-plan", HEADER("2", "2", "\"s\"", "abc"), "x.rec: 'hash' is not a SHA-256", 16 },
        { "scores", HEADER("2", "2", "\"s\"", HASH64),
          "x.rec: a scores record where a tile-plan record is expected", 16 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_error err = { .status = HRF_OK };
        enum hrf_status status = decode_text(cases[i].kind, cases[i].header, cases[i].n_bytes,
                                             &err);
        assert_int_equal(status, cases[i].expected != NULL ? HRF_E_USER : HRF_OK);
        assert_string_equal(err.text, cases[i].expected != NULL ? cases[i].expected : "");
    }
}

static void records_of_another_version_are_refused_by_a_sentence(void **state)
{
    (void)state;
    struct hrf_bytes bytes = encoded_plan();
    struct hrf_tile_plan *back = NULL;
    struct hrf_error err = { .status = HRF_OK };
    bytes.data[8] = 7;
    assert_int_equal(hrf_tile_plan_decode(bytes.data, bytes.n_bytes, NULL, "x.rec", &back, &err),
                     HRF_E_USER);
    assert_string_equal(err.text,
                        "x.rec: a record of version 7, and this hires-flow reads version 1; "
                        "use the hires-flow that wrote it, or have it made again");
    hrf_bytes_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_plan_comes_back_as_it_was),
        cmocka_unit_test(a_plan_without_patches_pictures_or_warning_comes_back),
        cmocka_unit_test(the_hash_names_the_tiling_and_nothing_else),
        cmocka_unit_test(scores_come_back_as_they_were),
        cmocka_unit_test(label_maps_come_back_as_they_were),
        cmocka_unit_test(embeddings_come_back_as_they_were_named),
        cmocka_unit_test(energy_that_was_not_measured_stays_unmeasured),
        cmocka_unit_test(a_class_map_comes_back_and_a_false_one_is_refused),
        cmocka_unit_test(a_record_that_was_cut_anywhere_is_refused),
        cmocka_unit_test(a_record_with_any_bit_changed_is_refused),
        cmocka_unit_test(a_record_of_another_task_slide_or_plan_is_refused),
        cmocka_unit_test(the_records_of_the_corpus_are_read),
        cmocka_unit_test(a_header_that_lies_is_named),
        cmocka_unit_test(records_of_another_version_are_refused_by_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
