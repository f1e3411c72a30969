/* The file of `train`: defaults, all mistakes at once, and what names a training. */
#include "tests/unit/settings.h"
#include "training/recipe/train_recipe.h"

#include <string.h>

static const char small[] = "version: 1\nmodel: {file: m.onnx}\ndata: {folders: pictures}\n"
                            "classes: [normal, tumor]\nout: o\n";

static enum hrf_status parse(const char *text, struct hrf_train_recipe **out,
                             struct hrf_findings *findings)
{
    return hrf_train_recipe_parse(text, strlen(text), "t.yaml", "/folder", out, findings, NULL);
}

static void a_short_file_has_the_defaults(void **state)
{
    (void)state;
    HRF_AUTO(hrf_train_recipe) r = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    assert_int_equal(parse(small, &r, &findings), HRF_OK);
    assert_string_equal(r->model, "/folder/m.onnx");
    assert_string_equal(r->folders, "/folder/pictures");
    assert_null(r->csv);
    assert_int_equal(r->optimizer, HRF_OPTIMIZER_SGD);
    assert_int_equal(r->sampling, HRF_SAMPLING_BALANCED);
    assert_true(r->augmentation.flips && r->augmentation.turns && !r->has_colours);
    assert_float_equal(r->mean[1], 0.456, 0);
    const struct hrf_optimizer_config o = hrf_train_recipe_optimizer(r);
    assert_float_equal(o.momentum, 0.9, 0);
    assert_float_equal(o.weight_decay, 2e-5, 0);
}

static void all_mistakes_are_told_at_once(void **state)
{
    (void)state;
    static const char text[] = "version: 1\nmodel: {fil: m.onnx, last_layer: new}\n"
                               "data: {folders: a, csv: b}\nclasses: [one]\n"
                               "train: {epochs: 0, seeds: [1, x, 1], optimizer: adam}\n"
                               "augment: {shift: 0.7}\n";
    static const char *const words[] = {
        "t.yaml:2:9: unknown key 'fil' in 'model', did you mean 'file'?",
        "'new' is not a value of 'model.last_layer'",
        "exactly one of 'data.folders', 'data.csv' and 'data.slides' has to be given",
        "'classes' has one class only",
        "'train.epochs' is 0; it must be 1 to 100000",
        "'train.seeds' has 'x'; it must be whole numbers",
        "'train.seeds' has '1' twice",
        "'adam' is not a value of 'train.optimizer', did you mean 'adamw'?",
        "'augment.shift' is 0.7; it must be 0 to 0.5",
        "'out'",
        "'model.file'",
    };
    HRF_AUTO(hrf_train_recipe) r = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    assert_int_equal(parse(text, &r, &findings), HRF_E_USER);
    assert_null(r);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(findings.text.text, words[i]) == NULL)
            fail_msg("not told: %s\nbut: %s", words[i], findings.text.text);
}

static void slides_are_images_with_a_table_of_labels(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "data: {slides: s}\n",
        "data: {csv: t}\n",
        "data: {slides: s, csv: t, folders: f}\n",
        "data: {slides: s, csv: t, annotations: a}\n",
    };
    static const char rest[] = "version: 1\nmodel: {file: m.onnx}\nclasses: [a, b]\nout: o\n"
                               "tiler: {mode: slide, slide: {mpp: 2}}\n"
                               "split: {by: column}\ntrain: {memory: 3MiB}\n";
    HRF_AUTO(hrf_train_recipe) r = NULL;
    HRF_AUTO_RELEASE(hrf_findings) none = HRF_FINDINGS_INIT;
    HRF_AUTO_FREE char *good = hrf_format("%sdata: {slides: s, csv: t}\n", rest);
    assert_int_equal(parse(good, &r, &none), HRF_OK);
    assert_int_equal(r->tiler_mode, HRF_TILER_SLIDE);
    assert_int_equal(r->image_size, 8192); /* as a run's */
    assert_float_equal(r->image_mpp, 2, 0);
    assert_int_equal(r->memory, 3 << 20);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        HRF_AUTO(hrf_train_recipe) other = NULL;
        HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
        HRF_AUTO_FREE char *text = hrf_format("%s%s", rest, wrong[i]);
        assert_int_equal(parse(text, &other, &findings), HRF_E_USER);
        assert_non_null(strstr(findings.text.text, "exactly 'data.slides' and 'data.csv'"));
    }
}

static void a_head_is_trained_on_slides_with_a_table_of_labels(void **state)
{
    (void)state;
    static const char rest[] = "version: 1\nmodel: {file: m.onnx}\nclasses: [a, b]\nout: o\n";
    static const struct {
        const char *text, *told;
    } wrong[] = {
        { "data: {slides: s}\ntrain: {head: abmil}\n", "exactly 'data.slides' and 'data.csv'" },
        { "data: {slides: s, csv: t}\ntiler: {mode: slide}\ntrain: {head: mean}\n",
          "'tiler.mode' has to be patch" },
        { "data: {slides: s, csv: t}\ntrain: {head: mean, method: knn}\n",
          "'train.method' has to be fine_tuning" },
        { "data: {slides: s, csv: t}\ntrain: {head: mean, batch_norm: batch}\n",
          "'train.batch_norm' has to be frozen" },
        { "data: {slides: s, csv: t}\ntrain: {head: mean, patch_batch: 4, layout: data=9}\n",
          "'train.layout'" },
        { "data: {folders: f}\ntrain: {skip_gradients: 0.1}\n",
          "'train.skip_gradients' goes with" },
        { "data: {folders: f}\ntrain: {bag: 5}\n", "'train.bag' goes with 'train.head'" },
    };
    HRF_AUTO(hrf_train_recipe) r = NULL;
    HRF_AUTO_RELEASE(hrf_findings) none = HRF_FINDINGS_INIT;
    HRF_AUTO_FREE char *good = hrf_format("%sdata: {slides: s, csv: t}\nsplit: {by: column}\n"
                                          "train: {head: transmil, bag: 64}\n",
                                          rest);
    assert_int_equal(parse(good, &r, &none), HRF_OK);
    assert_int_equal(r->head, HRF_TRAIN_TRANSMIL);
    assert_int_equal(r->bag, 64);
    assert_true(hrf_train_recipe_is_of_slides(r));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        HRF_AUTO(hrf_train_recipe) other = NULL;
        HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
        HRF_AUTO_FREE char *text = hrf_format("%s%s", rest, wrong[i].text);
        assert_int_equal(parse(text, &other, &findings), HRF_E_USER);
        if (strstr(findings.text.text, wrong[i].told) == NULL)
            fail_msg("not told: %s\nbut: %s", wrong[i].told, findings.text.text);
    }
}

/* The small file with more settings of `data`, and of others, described. */
static char *described(const char *of_data, const char *more, unsigned phase)
{
    HRF_AUTO(hrf_train_recipe) r = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *file = hrf_format(
        "version: 1\nmodel: {file: m.onnx}\ndata: {folders: pictures%s}\n"
        "classes: [normal, tumor]\nout: o\n%s",
        of_data, more);
    assert_int_equal(parse(file, &r, &findings), HRF_OK);
    hrf_train_recipe_describe(r, phase, &text);
    return hrf_strbuf_detach(&text);
}

enum {
    TRAINING = HRF_FOR_TRAINING,
    TILES = HRF_FOR_TILES,
    IMAGES = HRF_FOR_IMAGES,
    BAGS = HRF_FOR_BAGS
};
static const unsigned phases[] = { TRAINING, TILES, IMAGES, BAGS };

/* These settings change the results of `changed`, phases together, and of no other. */
static void check(const char *of_data, const char *more, unsigned changed)
{
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        HRF_AUTO_FREE char *before = described("", "", phases[i]);
        HRF_AUTO_FREE char *after = described(of_data, more, phases[i]);
        if ((strcmp(before, after) != 0) != ((changed & phases[i]) != 0))
            fail_msg("%s%s changes what names the results of phase %u, or does not", of_data, more,
                     phases[i]);
    }
}

static void what_changes_a_result_names_it(void **state)
{
    (void)state;
    check("", "train: {seeds: [4]}\n", 0); /* a seed names its own training */
    check("", "train: {momentum: 0.9}\n", 0);
    check("", "train: {batch: 16}\n", TRAINING);
    check("", "augment: {stain: 0.1}\n", TRAINING);
    check("", "split: {seed: 2}\n", TRAINING | TILES);
    /* Trainings see these in the pictures. */
    check(", slide_mpp: 0.3", "", TILES | IMAGES | BAGS);
    check(", patch_size: 64", "", TILES | BAGS);
    check(", mpp: 1", "", TILES | BAGS);
    check("", "tiler: {slide: {size: 64}}\n", IMAGES);
    check("", "tiler: {slide: {mpp: 1}}\n", IMAGES);
    static const char *const of_patches[] = { ", min_overlap: 0.1", ", slide_patches: 9",
                                              ", patient_until: _" };
    for (size_t i = 0; i < sizeof of_patches / sizeof of_patches[0]; i++)
        check(of_patches[i], "", TILES);
}

static void a_row_changes_the_keys_of_exactly_its_phases(void **state)
{
    (void)state;
    for (size_t i = 0; i < hrf_train_recipe_settings.n; i++) {
        const struct hrf_setting *row = &hrf_train_recipe_settings.rows[i];
        const unsigned changed = row->phases == 0 ? HRF_FOR_TRAINING : row->phases;
        HRF_AUTO(hrf_train_recipe) before = NULL;
        HRF_AUTO(hrf_train_recipe) after = NULL;
        HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
        assert_int_equal(parse(small, &before, &findings), HRF_OK);
        assert_int_equal(parse(small, &after, &findings), HRF_OK);
        change_setting(after, row);
        for (size_t k = 0; k < sizeof phases / sizeof phases[0]; k++) {
            HRF_AUTO_RELEASE(hrf_strbuf) a = HRF_STRBUF_INIT;
            HRF_AUTO_RELEASE(hrf_strbuf) b = HRF_STRBUF_INIT;
            hrf_train_recipe_describe(before, phases[k], &a);
            hrf_train_recipe_describe(after, phases[k], &b);
            if ((strcmp(a.text, b.text) != 0) != ((changed & phases[k]) != 0))
                fail_msg("%s: phase %u has the wrong key", row->key, phases[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_file_has_the_defaults),
        cmocka_unit_test(all_mistakes_are_told_at_once),
        cmocka_unit_test(slides_are_images_with_a_table_of_labels),
        cmocka_unit_test(a_head_is_trained_on_slides_with_a_table_of_labels),
        cmocka_unit_test(what_changes_a_result_names_it),
        cmocka_unit_test(a_row_changes_the_keys_of_exactly_its_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
