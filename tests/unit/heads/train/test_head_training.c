/* Figures of trainings of heads: as JSON and back, and in docs/heads.md. */
#include "heads/train/train.h"
#include "tests/unit/figure_docs.h"

#include <math.h>
#include <string.h>

static void a_training_reads_back_what_it_wrote(void **state)
{
    (void)state;
    const struct hrf_training_figures figures = {
        5, 4, 3, 12, 9, { .auc = 0.875, .balanced_accuracy = (double)NAN, .why = "one class" }
    };
    HRF_AUTO_JSON json = hrf_training_figures_json(hrf_training_of_slides_rows, HRF_LABEL_CLASS, 2,
                                                   7, &figures);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    assert_string_equal(
        text, "{\"auc\":0.875,\"balanced_accuracy\":null,\"best_epoch\":9,\"epochs\":12,\"fold\":2,"
              "\"seed\":7,\"testing_slides\":3,\"training_slides\":5,\"validation_slides\":4,"
              "\"why_no_figure\":\"one class\"}");
    struct hrf_training_figures back = { .n_training = 0 };
    assert_int_equal(hrf_figures_get(json, hrf_training_of_slides_rows, "x", &back, NULL), HRF_OK);
    assert_int_equal(hrf_figures_get(json, hrf_scored_figure_rows, "x", &back.testing, NULL),
                     HRF_OK);
    assert_true(back.n_training == 5 && back.n_validation == 4 && back.n_testing == 3 &&
                back.n_epochs == 12 && back.best_epoch == 9);
    assert_true(back.testing.auc == 0.875 && isnan(back.testing.balanced_accuracy));
    struct hrf_error err;
    json_object_del(json, "epochs");
    assert_int_equal(hrf_figures_get(json, hrf_training_of_slides_rows, "x", &back, &err),
                     HRF_E_USER);
    assert_string_equal(err.text, "x: 'epochs' must be an integer, it is missing");
}

static void the_page_of_heads_has_every_figure(void **state)
{
    (void)state;
    static const struct hrf_figure_row *const tables[] = { hrf_training_of_slides_rows,
                                                           hrf_scored_figure_rows,
                                                           hrf_epoch_of_slides_rows };
    struct hrf_strbuf rows = HRF_STRBUF_INIT;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct hrf_figure_row *row = tables[t]; row->key != NULL; row++)
            docs_add_figure(&rows, "", row);
    docs_compare("docs/heads.md", "test_head_training",
                 "| in `result.json` | in `history.csv` | unit | | what |", &rows);
    hrf_strbuf_release(&rows);
}

/* A recipe with one more setting, described. */
static char *described(const char *more)
{
    HRF_AUTO(hrf_recipe) recipe = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *file = hrf_format(
        "version: 1\nlabels: {csv: l.csv, classes: [a, b]}\n%s%s%s", more,
        strstr(more, "features") != NULL ? "" : "features: {folder: f}\n",
        strstr(more, "out") != NULL ? "" : "out: o\n");
    assert_int_equal(hrf_recipe_parse(file, strlen(file), "t", ".", &recipe, &findings, NULL),
                     HRF_OK);
    hrf_recipe_describe(recipe, &text);
    return hrf_strbuf_detach(&text);
}

static void what_changes_a_head_is_in_its_key(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool counts;
    } cases[] = {
        { "features: {folder: g}\n", false }, /* the files' contents count */
        { "features: {folder: f, mixed: true}\n", false },
        { "train: {seeds: [4]}\n", false }, /* a seed names its own training */
        { "out: p\n", false },
        { "features: {folder: f, set: coarse}\n", true },
        { "head: {kind: clam_sb}\n", true },
        { "head: {samples: 4}\n", true },
        { "split: {validation: 0.2}\n", true },
        { "train: {optimizer: adamw}\n", true },
        { "train: {class_weights: balanced}\n", true },
        { "train: {shuffle: false}\n", true },
    };
    HRF_AUTO_FREE char *before = described("");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO_FREE char *after = described(cases[i].more);
        if ((strcmp(before, after) != 0) != cases[i].counts)
            fail_msg("%schanges what names a training, or does not", cases[i].more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_reads_back_what_it_wrote),
        cmocka_unit_test(the_page_of_heads_has_every_figure),
        cmocka_unit_test(what_changes_a_head_is_in_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
