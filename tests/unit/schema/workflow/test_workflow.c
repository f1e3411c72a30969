/* The workflow as a struct: defaults by value, written and read back key by key, differences,
 * overrides, places of findings, the JSON Schema. What is said about faults is in
 * tests/golden/workflow. */
#include "base/json.h"
#include "schema/workflow/keys.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "tests/golden/workflow/unit.yaml"; /* model.onnx lies beside it */
#define HEAD "version: 1\ndataset: {layout: files, files: ['*.svs']}\nmodel: {file: model.onnx}\n"

static struct hrf_workflow *parse(const char *text, const char *const overrides[], size_t n,
                                  struct hrf_findings *findings)
{
    struct hrf_workflow *workflow = NULL;
    struct hrf_error err = { .status = HRF_OK };
    *findings = (struct hrf_findings)HRF_FINDINGS_INIT;
    const enum hrf_status status = hrf_workflow_parse(text, strlen(text), where, overrides, n,
                                                      &workflow, findings, &err);
    assert_int_equal(status == HRF_OK, workflow != NULL);
    assert_int_equal(status == HRF_E_USER, findings->n_items > 0);
    return workflow;
}

static struct hrf_workflow *parse_good(const char *text, const char *const overrides[], size_t n)
{
    struct hrf_findings findings;
    struct hrf_workflow *workflow = parse(text, overrides, n, &findings);
    if (workflow == NULL)
        fail_msg("%s", findings.text.text);
    hrf_findings_release(&findings);
    return workflow;
}

static void a_short_file_gets_every_default(void **state)
{
    (void)state;
    HRF_AUTO(hrf_workflow) w = parse_good(HEAD, NULL, 0);
    assert_string_equal(w->name, "run");
    assert_int_equal(w->dataset.layout, HRF_LAYOUT_FILES);
    assert_int_equal(w->tiler.mode, HRF_TILER_PATCH);
    assert_int_equal(w->tiler.patch.size, 256);
    assert_int_equal(w->tiler.patch.stride, 256);
    assert_float_equal(w->tiler.patch.mpp, 0.5, 0);
    assert_int_equal(w->model.classes.n_items, 2);
    assert_string_equal(w->model.positive, "tumor");
    assert_float_equal(w->model.input.std[2], 0.225, 0);
    assert_int_equal(w->n_precisions, 1);
    assert_int_equal(w->precision[0], HRF_FP32);
    assert_int_equal(w->calibrate.method, HRF_FIT_MSE);
    assert_int_equal(w->engine.batch, 32);
    assert_int_equal(w->executor.max_jobs, 2);
    assert_int_equal(w->aggregate.slide_score, HRF_SCORE_MAX_SMOOTHED);
    assert_true(w->report.html);
    assert_null(w->cache);
}

/* Another value than the default for a key, as YAML text. */
static const char *other_value(const struct hrf_key *key)
{
    static char text[64];
    switch (key->type) {
    case HRF_KEY_WORD:
        return key->words[1];
    case HRF_KEY_INT:
        if (strcmp(key->path, "engine.parallel.spatial.rows") == 0) /* no more than a patch has */
            return "7";
        snprintf(text, sizeof text, "%.0f", key->max < 1e15 ? key->max : 123456789012.0);
        return text;
    case HRF_KEY_REAL:
        snprintf(text, sizeof text, "%.17g", (key->min + key->max) / 3);
        return text;
    case HRF_KEY_BOOL:
        return strcmp(key->initial, "true") == 0 ? "false" : "true";
    case HRF_KEY_TEXT:
        return "'a: \"b\" # \xf0\x9f\x94\xac\\'";
    case HRF_KEY_PATH:
        return "/tests/a folder/'%'";
    case HRF_KEY_TEXTS:
        return "['no', '1', ' a b ', 'x\ty']";
    case HRF_KEY_PATHS:
        return "['/a b/*.svs', '/[c]/?.tif']";
    case HRF_KEY_SIZE:
        return "3.5GiB";
    case HRF_KEY_TRIPLE:
        return "[0.1, 0.2, 0.30000000000000004]";
    case HRF_KEY_PRECISIONS:
        return "[int8, fp32, bf16]";
    case HRF_KEY_DURATION:
        return "'1-02:03:04'";
    }
    return "";
}

/* Keys that only go with others, or that the file of this test sets by need. */
#define HAS_FILES "dataset: {layout: files, files: ['*.svs']}\n"
#define NETWORK   "tiler: {tissue: {method: onnx, model: model.onnx, mpp: 8}}\n"
static const char *companions(const char *path)
{
    static const struct {
        const char *path, *with;
    } all[] = {
        { "dataset.layout", "dataset: {layout: csv, csv: s.csv}\n" }, /* words[1] is files */
        { "dataset.root", "dataset: {layout: camelyon16}\n" },
        { "dataset.split", "dataset: {layout: camelyon16, root: /r}\n" },
        { "dataset.csv", "dataset: {layout: csv}\n" },
        { "calibrate.slides.root", HAS_FILES "calibrate: {slides: {layout: camelyon16}}\n" },
        { "calibrate.slides.split",
          HAS_FILES "calibrate: {slides: {layout: camelyon16, root: /r}}\n" },
        { "calibrate.slides.files", HAS_FILES "calibrate: {slides: {layout: files}}\n" },
        { "calibrate.slides.recursive",
          HAS_FILES "calibrate: {slides: {layout: files, files: [a]}}\n" },
        { "calibrate.slides.csv", HAS_FILES "calibrate: {slides: {layout: csv}}\n" },
        { "calibrate.slides.exclude", HAS_FILES "calibrate: {slides: {layout: csv, csv: c}}\n" },
        { "calibrate.slides.mpp", HAS_FILES "calibrate: {slides: {layout: csv, csv: c}}\n" },
        { "aggregate.tune.specificity", HAS_FILES "aggregate: {tune: {slides: [a]}}\n" },
        { "slide_head.file", NULL }, /* must be there */
        { "tiler.tissue.classes", HAS_FILES "tiler: {coords: outlines}\n" },
        { "tiler.tissue.model", NULL },
        { "tiler.tissue.mpp", HAS_FILES NETWORK },
        { "tiler.tissue.threshold", HAS_FILES NETWORK },
        { "tiler.tissue.size", HAS_FILES NETWORK },
        { "tiler.tissue.class", HAS_FILES NETWORK },
        { "tiler.tissue.mean", HAS_FILES NETWORK },
        { "tiler.tissue.std", HAS_FILES NETWORK },
        { "slide_head.table", NULL },
        { "slide_head.split", NULL },
        { "slide_head.forest", NULL },
        { "engine.parallel.microbatches", NULL },
        { "engine.parallel.bidirectional", NULL },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].path, path) == 0)
            return all[i].with;
    return HAS_FILES;
}

static void every_key_is_written_and_read_back(void **state)
{
    (void)state;
    int n_tried = 0;
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const struct hrf_key *key = &hrf_keys[i];
        const char *with = companions(key->path);
        char text[512], set[256];
        /* The model and the profile must be there, positive one of the classes. */
        if (with == NULL || strcmp(key->path, "model.file") == 0 ||
            strcmp(key->path, "executor.slurm.profile") == 0 ||
            strcmp(key->path, "model.positive") == 0 || strcmp(key->path, "dataset.layout") == 0 ||
            strcmp(key->path, "calibrate.slides.layout") == 0)
            continue;
        snprintf(text, sizeof text, "version: 1\n%smodel: {file: model.onnx}\n", with);
        snprintf(set, sizeof set, "%s=%s", key->path, other_value(key));
        const bool is_head = strncmp(key->path, "slide_head.", 11) == 0;
        const char *overrides[] = { set, "engine.batch=65536",
                                    is_head ? "model.output=embedding" : "version=1" };
        const size_t n = is_head ? 3 : 2;
        HRF_AUTO(hrf_workflow) w = parse_good(text, overrides, n);
        struct hrf_strbuf written = HRF_STRBUF_INIT, differences = HRF_STRBUF_INIT;
        hrf_workflow_write(w, &written);
        HRF_AUTO(hrf_workflow) again = parse_good(written.text, NULL, 0);
        hrf_workflow_differences(again, w, &differences);
        if (differences.length > 0)
            fail_msg("%s%s", differences.text, written.text);
        /* It is really another value: the writer cannot have lost it on both sides. */
        if (strncmp(key->path, "dataset.", 8) != 0 &&
            strncmp(key->path, "calibrate.slides.", 17) != 0) {
            HRF_AUTO(hrf_workflow) plain = parse_good(text, overrides + 1, n - 1);
            hrf_workflow_differences(w, plain, &differences);
            if (strncmp(differences.text, key->path, strlen(key->path)) != 0 &&
                strcmp(key->path, "engine.batch") != 0)
                fail_msg("%s: '%s'", key->path, differences.text);
        }
        hrf_strbuf_release(&written);
        hrf_strbuf_release(&differences);
        n_tried++;
    }
    assert_true(n_tried > (int)hrf_n_keys - 13);
}

static void a_slide_head_is_of_embeddings(void **state)
{
    (void)state;
    const char *overrides[] = { "slide_head.file=model.onnx", "model.output=embedding" };
    HRF_AUTO(hrf_workflow) w = parse_good(HEAD, overrides, 2);
    assert_true(hrf_slide_head_is_given(&w->slide_head));
    HRF_AUTO(hrf_workflow) none = parse_good(HEAD, NULL, 0);
    assert_false(hrf_slide_head_is_given(&none->slide_head));
    struct hrf_findings findings;
    assert_null(parse(HEAD, overrides, 1, &findings));
    assert_non_null(strstr(findings.text.text, "a slide head scores embeddings"));
    hrf_findings_release(&findings);
}

static void parallel_auto_and_short_forms_are_read_back(void **state)
{
    (void)state;
    HRF_AUTO(hrf_workflow) w = parse_good(HEAD "engine: {parallel: auto}\n", NULL, 0);
    assert_true(w->engine.parallel.is_auto);
    struct hrf_strbuf written = HRF_STRBUF_INIT;
    hrf_workflow_write(w, &written);
    HRF_AUTO(hrf_workflow) again = parse_good(written.text, NULL, 0);
    assert_true(again->engine.parallel.is_auto);
    hrf_strbuf_release(&written);
    HRF_AUTO(hrf_workflow) rows = parse_good(HEAD "engine: {parallel: {spatial: 3}}\n", NULL, 0);
    assert_int_equal(rows->engine.parallel.spatial_rows, 3);
    assert_int_equal(rows->engine.parallel.spatial_cols, 1);
}

static void parallel_is_what_the_engine_reads_as_a_layout(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "auto", "auto" },
        { "{data: 1}", "single" },
        { "{data: 2, spatial: {rows: 3, cols: 4}, halos: overlap}",
          "data=2,spatial=3x4,halos=overlap" },
        { "{stages: 2, microbatches: 4, bidirectional: true}",
          "stages=2,microbatches=4,bidirectional" },
        { "{spatial: 2, tensor: 3}", "spatial=2x1,tensor=3" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD "engine: {parallel: %s}\n", pairs[i][0]);
        HRF_AUTO(hrf_workflow) w = parse_good(text, NULL, 0);
        HRF_AUTO_FREE char *layout = hrf_workflow_layout(w);
        assert_string_equal(layout, pairs[i][1]);
        struct hrf_strbuf written = HRF_STRBUF_INIT;
        hrf_workflow_write(w, &written);
        HRF_AUTO(hrf_workflow) again = parse_good(written.text, NULL, 0);
        HRF_AUTO_FREE char *same = hrf_workflow_layout(again);
        assert_string_equal(same, pairs[i][1]);
        hrf_strbuf_release(&written);
    }
}

static void differences_name_the_key_and_both_values(void **state)
{
    (void)state;
    const char *set[] = { "tiler.patch.size=128", "engine.memory=1GiB", "model.positive=normal" };
    HRF_AUTO(hrf_workflow) before = parse_good(HEAD, NULL, 0);
    HRF_AUTO(hrf_workflow) now = parse_good(HEAD, set, 3);
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_workflow_differences(now, before, &text);
    assert_string_equal(text.text, "tiler.patch.size: 128, was 256\n"
                                   "tiler.patch.stride: 128, was 256\n"
                                   "model.positive: normal, was tumor\n"
                                   "engine.memory: 1073741824, was not given\n");
    hrf_strbuf_release(&text);
}

static void findings_stand_in_file_order_with_their_places(void **state)
{
    (void)state;
    static const char text[] = "version: 1\n"
                               "precision: [fp99]\n"
                               "tiler: {patch: {size: small}}\n"
                               "dataset: {layout: files, files: [a.tif]}\n"
                               "model: {file: model.onnx}\n";
    const char *set[] = { "engine.batch=0", "engine.parallel.microbatches=2" };
    struct hrf_findings findings;
    assert_null(parse(text, set, 2, &findings));
    assert_int_equal(findings.n_items, 4);
    assert_int_equal(findings.items[0].line, 2);
    assert_int_equal(findings.items[0].column, 13);
    assert_string_equal(findings.items[0].where, where);
    assert_int_equal(findings.items[1].line, 3);
    assert_int_equal(findings.items[1].column, 23);
    for (int i = 2; i < 4; i++)
        assert_int_equal(findings.items[i].line, 0);
    assert_non_null(strstr(findings.text.text, "--set engine.parallel.microbatches: 'microbatches' "
                                               "needs pipeline stages"));
    assert_non_null(strstr(findings.text.text, "unit.yaml:2:13: "));
    assert_non_null(strstr(findings.text.text, "--set engine.batch: "));
    hrf_findings_release(&findings);
}

static void a_budget_needs_what_it_is_measured_on(void **state)
{
    (void)state;
    static const struct {
        const char *set[3], *wanted;
    } cases[] = {
        { { "calibrate.budget.cosine=0.999", "calibrate.budget.agreement=0.99" },
          "a budget is a cosine or an agreement" },
        { { "calibrate.budget.agreement=0.99", "model.output=embedding" }, "classes agree, and" },
        { { "calibrate.budget.cosine=0.999", "engine.device=cuda" }, "measured on processors" },
        { { "calibrate.budget.cosine=0.999", "tiler.mode=slide" }, "measured on patches" },
        { { "calibrate.budget.cosine=0.1", "model.output=embedding" }, "0.5" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_findings findings;
        assert_null(parse(HEAD, cases[i].set, 2, &findings));
        if (strstr(findings.text.text, cases[i].wanted) == NULL)
            fail_msg("no '%s' in: %s", cases[i].wanted, findings.text.text);
        hrf_findings_release(&findings);
    }
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        HRF_AUTO(hrf_workflow) w = NULL;
        struct hrf_findings findings = HRF_FINDINGS_INIT;
        struct hrf_error err = { .status = HRF_OK };
        hrf_alloc_fail_after(n);
        const enum hrf_status status = hrf_workflow_parse(HEAD, strlen(HEAD), where, NULL, 0, &w,
                                                          &findings, &err);
        const bool failed = hrf_alloc_count() >= n;
        hrf_alloc_fail_after(0);
        hrf_findings_release(&findings);
        if (!failed) {
            assert_int_equal(status, HRF_OK);
            assert_true(n > 100);
            return;
        }
        assert_int_equal(status, HRF_E_NOMEM);
        assert_null(w);
    }
}

static void the_schema_knows_every_key_and_both_short_forms(void **state)
{
    (void)state;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    assert_int_equal(hrf_workflow_json_schema(&text, NULL), HRF_OK);
    HRF_AUTO_JSON schema = json_loads(text.text, 0, NULL);
    assert_non_null(schema);
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const json_t *at = schema;
        char path[128];
        snprintf(path, sizeof path, "%s", hrf_keys[i].path);
        for (char *part = path; part != NULL;) {
            char *dot = strchr(part, '.');
            if (dot != NULL)
                *dot = '\0';
            at = json_object_get(json_object_get(at, "properties"), part);
            if (at == NULL)
                fail_msg("the schema lacks %s", hrf_keys[i].path);
            part = dot != NULL ? dot + 1 : NULL;
        }
    }
    const json_t *engine = json_object_get(json_object_get(schema, "properties"), "engine");
    const json_t *parallel = json_object_get(json_object_get(engine, "properties"), "parallel");
    assert_string_equal(json_string_value(json_object_get(parallel, "pattern")), "^auto$");
    hrf_strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_file_gets_every_default),
        cmocka_unit_test(every_key_is_written_and_read_back),
        cmocka_unit_test(a_slide_head_is_of_embeddings),
        cmocka_unit_test(parallel_auto_and_short_forms_are_read_back),
        cmocka_unit_test(parallel_is_what_the_engine_reads_as_a_layout),
        cmocka_unit_test(differences_name_the_key_and_both_values),
        cmocka_unit_test(findings_stand_in_file_order_with_their_places),
        cmocka_unit_test(a_budget_needs_what_it_is_measured_on),
        cmocka_unit_test(no_allocation_may_fail_unseen),
        cmocka_unit_test(the_schema_knows_every_key_and_both_short_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
