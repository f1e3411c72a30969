/* Content keys: exactly the phases that a setting's row names have other keys when it changes, and
 * every input of a task counts; and shards that cover. */
#include "tests/unit/settings.h"

#include "orchestrator/dag/dag.h"

#include <stdio.h>
#include <string.h>

/* ---- settings ---- */

/* The hash of the settings of each phase, without what is BY_TASK. */
static void hash_phase(const struct hrf_workflow *settings, unsigned phase, char out[HRF_HASH_HEX])
{
    HRF_AUTO(hrf_hash) hash = NULL;
    assert_int_equal(hrf_hash_create(&hash, NULL), HRF_OK);
    hrf_settings_hash(settings, phase, hash);
    hrf_hash_hex(hash, out);
}

/* Puts the settings into the case in which this one counts. */
static void prepare(struct hrf_workflow *w, const struct hrf_setting *setting)
{
    if (hrf_setting_counts(setting, w))
        return;
    if (strncmp(setting->key, "tiler.slide.", 12) == 0)
        w->tiler.mode = HRF_TILER_SLIDE;
    else if (strncmp(setting->key, "tiler.tissue.", 13) == 0)
        w->tiler.tissue.method = HRF_TISSUE_ONNX;
    if (!hrf_setting_counts(setting, w)) {
        set_text(&w->calibrate.slides.root, "root");
        w->dataset.layout = HRF_LAYOUT_FILES;
        change_setting(w, hrf_setting_find("calibrate.slides.files"));
    }
    assert_true(hrf_setting_counts(setting, w));
}

static void a_setting_changes_the_keys_of_exactly_its_phases(void **state)
{
    (void)state;
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *setting = &hrf_settings[i];
        const bool is_content = setting->type == HRF_SETTING_PATH ||
                                setting->type == HRF_SETTING_PATHS ||
                                (setting->flags & HRF_SETTING_BY_TASK) != 0;
        HRF_AUTO(hrf_workflow) before = default_settings();
        HRF_AUTO(hrf_workflow) after = default_settings();
        set_text(&before->tiler.coords, "coords"); /* it is the case of another setting, too */
        set_text(&after->tiler.coords, "coords");
        prepare(before, setting);
        prepare(after, setting);
        change_setting(after, setting);
        for (unsigned phase = HRF_FOR_TILES; phase < HRF_FOR_REPORT; phase *= 2) {
            char a[HRF_HASH_HEX], b[HRF_HASH_HEX];
            hash_phase(before, phase, a);
            hash_phase(after, phase, b);
            const bool differs = strcmp(a, b) != 0;
            if (differs != ((setting->phases & phase) != 0 && !is_content))
                fail_msg("%s: phase %u has %s key", setting->key, phase,
                         differs ? "another" : "the same");
        }
    }
}

static void every_row_says_what_it_must(void **state)
{
    (void)state;
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *s = &hrf_settings[i];
        if (s->phases == 0 || s->help == NULL || s->help[0] == '\0' || s->type == 0)
            fail_msg("%s: phases, help and type must be stated", s->key);
        if ((s->phases & HRF_FOR_NOTHING) != 0 && s->phases != HRF_FOR_NOTHING)
            fail_msg("%s: changes nothing, and something", s->key);
        const bool is_word = s->type == HRF_SETTING_WORD || s->type == HRF_SETTING_PRECISIONS;
        if (is_word != (s->words != NULL))
            fail_msg("%s: words belong to words", s->key);
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->key, hrf_settings[k].key) == 0 ||
                (s->option != NULL && hrf_settings[k].option != NULL &&
                 strcmp(s->option, hrf_settings[k].option) == 0 && s->when == hrf_settings[k].when))
                fail_msg("%s: the key or the option stands twice", s->key);
    }
}

/* ---- inputs ---- */

static struct hrf_tile_inputs tile_inputs(void)
{
    return (struct hrf_tile_inputs){ .slide = "0a" };
}

static struct hrf_infer_inputs infer_inputs(void)
{
    return (struct hrf_infer_inputs){
        .slide = "0a", .tiling = "t", .model_sha256 = "m", .n_patches = 100
    };
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
    HRF_AUTO(hrf_workflow) w = default_settings();
#define WITH(change)                                                                               \
    do {                                                                                           \
        struct hrf_tile_inputs in = tile_inputs();                                                 \
        change;                                                                                    \
        assert_int_equal(hrf_dag_tile_key(w, &in, key, NULL), HRF_OK);                             \
        add_key(&keys, key);                                                                       \
    } while (0)
    WITH((void)0);
    WITH(in.slide = "0b");
    WITH(in.csv_mpp = 0.25);
    WITH(in.workflow_mpp = 0.25);
    WITH(in.tissue_sha256 = "m");
    WITH(in.coords_sha256 = "m");
#undef WITH
    struct hrf_tile_inputs same = tile_inputs();
    assert_int_equal(hrf_dag_tile_key(w, &same, again, NULL), HRF_OK);
    assert_string_equal(again, keys.items[0]);
}

static void every_input_of_an_inference_is_in_its_key(void **state)
{
    (void)state;
    struct keys keys = { .n = 0 };
    char key[HRF_HASH_HEX];
    HRF_AUTO(hrf_workflow) w = default_settings();
    w->precision[w->n_precisions++] = HRF_BF16;
    w->study.stain_jitter = 0.05;
#define WITH(change)                                                                               \
    do {                                                                                           \
        struct hrf_infer_inputs in = infer_inputs();                                               \
        change;                                                                                    \
        assert_int_equal(hrf_dag_infer_key(w, &in, key, NULL), HRF_OK);                            \
        add_key(&keys, key);                                                                       \
    } while (0)
    WITH((void)0);
    WITH(in.slide = "0b");
    WITH(in.tiling = "u");
    WITH(in.scales = "s");
    WITH(in.scales = "t");
    WITH(in.model_sha256 = "n");
    WITH(in.variant = 1); /* bf16 */
    WITH(in.variant = 2); /* the first precision with other stains */
    WITH((in.variant = 2, w->study.stain_jitter = 0.1));
    WITH((in.variant = 2, w->study.seed = 2));
    WITH(in.first_patch = 1);
    WITH(in.n_patches = 99);
    /* Texts do not run into each other. */
    WITH((in.tiling = "tm", in.model_sha256 = ""));
    WITH((in.tiling = "", in.model_sha256 = "tm"));
    change_setting(w, hrf_setting_find("model.classes")); /* another number of them */
    WITH((void)0);
#undef WITH
}

/* The study of stains is a variant of its own: the others do not depend on it. */
static void stains_are_in_no_other_key(void **state)
{
    (void)state;
    char key[HRF_HASH_HEX], again[HRF_HASH_HEX];
    HRF_AUTO(hrf_workflow) w = default_settings();
    const struct hrf_infer_inputs in = infer_inputs();
    assert_int_equal(hrf_dag_infer_key(w, &in, key, NULL), HRF_OK);
    w->study.stain_jitter = 0.05;
    w->study.seed = 9;
    assert_int_equal(hrf_dag_infer_key(w, &in, again, NULL), HRF_OK);
    assert_string_equal(again, key);
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
        int64_t next = 0, min = INT64_MAX, max = 0;
        for (int64_t k = 0; k < shards; k++) {
            int64_t first, n;
            hrf_dag_shard(cases[i].n, shards, k, &first, &n);
            assert_int_equal(first, next);
            next = first + n;
            min = n < min ? n : min;
            max = n > max ? n : max;
        }
        assert_int_equal(next, cases[i].n);
        assert_true(max <= cases[i].limit && (shards == 0 || max - min <= 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_changes_the_keys_of_exactly_its_phases),
        cmocka_unit_test(every_row_says_what_it_must),
        cmocka_unit_test(every_input_of_a_tiling_is_in_its_key),
        cmocka_unit_test(every_input_of_an_inference_is_in_its_key),
        cmocka_unit_test(stains_are_in_no_other_key),
        cmocka_unit_test(shards_cover_in_order_and_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
