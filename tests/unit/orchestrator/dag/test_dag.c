/* Content keys: every input counts, nothing else does; and shards that cover. */
#include "tests/unit/unit.h"

#include "orchestrator/dag/dag.h"

#include <stdio.h>
#include <string.h>

static const double mean[3] = { 0.485, 0.456, 0.406 }, std[3] = { 0.229, 0.224, 0.225 };
static const double other_mean[3] = { 0.485, 0.456, 0.407 };

static struct hrf_tile_inputs tile_inputs(void)
{
    return (struct hrf_tile_inputs){ .slide = { .path = "/s/a.tif", .n_bytes = 5, .mtime_ns = 7 },
                                     .mode = "patch",
                                     .tissue_method = "otsu",
                                     .size = 256,
                                     .stride = 256,
                                     .min_patches = 16,
                                     .mpp = 0.5,
                                     .min_tissue = 0.5 };
}

static struct hrf_infer_inputs infer_inputs(void)
{
    return (struct hrf_infer_inputs){ .slide = { .path = "/s/a.tif", .n_bytes = 5, .mtime_ns = 7 },
                                      .tiling = "t",
                                      .model_sha256 = "m",
                                      .precision = "fp32",
                                      .device = "cpu",
                                      .n_classes = 2,
                                      .mean = mean,
                                      .std = std,
                                      .first_patch = 0,
                                      .n_patches = 100 };
}

/* Keys so far; a new one must differ from all of them. */
struct keys {
    char items[40][HRF_HASH_HEX];
    int n;
};

static void add_key(struct keys *keys, const char *key)
{
    assert_int_equal(strlen(key), HRF_HASH_HEX - 1);
    for (int i = 0; i < keys->n; i++)
        if (strcmp(keys->items[i], key) == 0)
            fail_msg("key %d is key %d again", keys->n, i);
    snprintf(keys->items[keys->n++], HRF_HASH_HEX, "%s", key);
}

static void every_input_of_a_tiling_is_in_its_key(void **state)
{
    (void)state;
    struct keys keys = { .n = 0 };
    char key[HRF_HASH_HEX], again[HRF_HASH_HEX];
#define WITH(change)                                                                               \
    do {                                                                                           \
        struct hrf_tile_inputs in = tile_inputs();                                                 \
        change;                                                                                    \
        assert_int_equal(hrf_dag_tile_key(&in, key, NULL), HRF_OK);                                \
        add_key(&keys, key);                                                                       \
    } while (0)
    WITH((void)0);
    WITH(in.slide.path = "/s/b.tif");
    WITH(in.slide.n_bytes = 6);
    WITH(in.slide.mtime_ns = 8);
    WITH(in.mode = "slide");
    WITH(in.tissue_method = "clam");
    WITH(in.size = 128);
    WITH(in.stride = 128);
    WITH(in.min_patches = 0);
    WITH(in.mpp = 0.25);
    WITH(in.min_tissue = 0.25);
    WITH(in.csv_mpp = 0.25);
    WITH(in.workflow_mpp = 0.25);
#define NETWORK .model_sha256 = "m", .mpp = 8, .threshold = 0.5, .class = -1
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std }));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = other_mean, .std = std }));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = other_mean }));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std },
          in.tissue.model_sha256 = "n"));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std },
          in.tissue.mpp = 4));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std },
          in.tissue.threshold = 0.25));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std },
          in.tissue.size = 512));
    WITH((in.tissue = (struct hrf_tissue_inputs){ NETWORK, .mean = mean, .std = std },
          in.tissue.class = 0));
    WITH(in.outline_classes = "Tissue\n");
#undef NETWORK
#undef WITH
    struct hrf_tile_inputs same = tile_inputs();
    assert_int_equal(hrf_dag_tile_key(&same, again, NULL), HRF_OK);
    assert_string_equal(again, keys.items[0]);
}

static void every_input_of_an_inference_is_in_its_key(void **state)
{
    (void)state;
    struct keys keys = { .n = 0 };
    char key[HRF_HASH_HEX];
#define WITH(change)                                                                               \
    do {                                                                                           \
        struct hrf_infer_inputs in = infer_inputs();                                               \
        change;                                                                                    \
        assert_int_equal(hrf_dag_infer_key(&in, key, NULL), HRF_OK);                               \
        add_key(&keys, key);                                                                       \
    } while (0)
    WITH((void)0);
    WITH(in.slide.path = "/s/b.tif");
    WITH(in.slide.n_bytes = 6);
    WITH(in.slide.mtime_ns = 8);
    WITH(in.tiling = "u");
    WITH(in.scales = "s");
    WITH(in.scales = "t");
    WITH(in.model_sha256 = "n");
    WITH(in.precision = "bf16");
    WITH(in.device = "cuda");
    WITH(in.n_classes = 3);
    WITH(in.mean = other_mean);
    WITH(in.std = mean);
    WITH(in.first_patch = 1);
    WITH(in.n_patches = 99);
    WITH(in.class_map = true);
    WITH((in.preparation = (struct hrf_preparation){ 224, 224, HRF_BICUBIC }));
    WITH((in.preparation = (struct hrf_preparation){ 224, 256, HRF_BICUBIC }));
    WITH((in.preparation = (struct hrf_preparation){ 224, 224, HRF_BILINEAR }));
    /* Texts do not run into each other. */
    WITH((in.tiling = "tm", in.model_sha256 = ""));
    WITH((in.tiling = "", in.model_sha256 = "tm"));
#undef WITH
}

static void keys_are_what_they_were(void **state)
{
    (void)state;
    /* A change here makes every run in the world compute everything again: raise the version in
     * dag.c only when the results have changed, and this value with it. */
    static const char known_tile[] =
        "1562b7b35215976b133f437f7052969043417bd685d45d85383a84618bda5033";
    static const char known_infer[] =
        "3ff50f3063e68eefbcd765cef15f74adc714f60b0409ea32e7bfb1c21a55077c";
    char key[HRF_HASH_HEX];
    const struct hrf_tile_inputs tile = tile_inputs();
    const struct hrf_infer_inputs infer = infer_inputs();
    assert_int_equal(hrf_dag_tile_key(&tile, key, NULL), HRF_OK);
    assert_string_equal(key, known_tile);
    assert_int_equal(hrf_dag_infer_key(&infer, key, NULL), HRF_OK);
    assert_string_equal(key, known_infer);
}

static void shards_cover_in_order_and_are_even(void **state)
{
    (void)state;
    static const struct {
        int64_t n, limit, shards;
    } cases[] = { { 0, 10, 0 },  { 1, 10, 1 },  { 10, 10, 1 },        { 11, 10, 2 },
                  { 20, 10, 2 }, { 21, 10, 3 }, { 100003, 7, 14287 }, { 5, 1, 5 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t shards = hrf_dag_shard_count(cases[i].n, cases[i].limit);
        assert_int_equal(shards, cases[i].shards);
        int64_t next = 0, least = INT64_MAX, most = 0;
        for (int64_t k = 0; k < shards; k++) {
            int64_t first, n;
            hrf_dag_shard(cases[i].n, shards, k, &first, &n);
            assert_int_equal(first, next);
            next = first + n;
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
        assert_int_equal(next, cases[i].n);
        assert_true(most <= cases[i].limit && (shards == 0 || most - least <= 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_input_of_a_tiling_is_in_its_key),
        cmocka_unit_test(every_input_of_an_inference_is_in_its_key),
        cmocka_unit_test(keys_are_what_they_were),
        cmocka_unit_test(shards_cover_in_order_and_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
