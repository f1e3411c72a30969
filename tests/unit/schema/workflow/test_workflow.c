/* The workflow as a struct: defaults by value, written and read back key by key, differences,
 * overrides, places of findings, the JSON Schema. What is said about faults is in
 * tests/golden/workflow. */
#include "base/error_record.h"
#include "base/json.h"
#include "base/message.h"
#include "base/path.h"
#include "schema/workflow/workflow.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
static const char *other_value(const struct hrf_setting *key)
{
    static char text[64];
    switch (key->type) {
    case HRF_SETTING_WORD:
        return key->words[1];
    case HRF_SETTING_INT:
        if (strcmp(key->key, "engine.parallel.spatial.rows") == 0) /* no more than a patch has */
            return "7";
        snprintf(text, sizeof text, "%.0f", key->max < 1e15 ? key->max : 123456789012.0);
        return text;
    case HRF_SETTING_REAL:
        snprintf(text, sizeof text, "%.17g", (key->min + key->max) / 3);
        return text;
    case HRF_SETTING_BOOL:
        return strcmp(key->initial, "true") == 0 ? "false" : "true";
    case HRF_SETTING_TEXT:
        return "'a: \"b\" # \xf0\x9f\x94\xac\\'";
    case HRF_SETTING_PATH:
        return "/tests/a folder/'%'";
    case HRF_SETTING_TEXTS:
        return "['no', '1', ' a b ', 'x\ty']";
    case HRF_SETTING_PATHS:
        return "['/a b/*.svs', '/[c]/?.tif']";
    case HRF_SETTING_SIZE:
        return "3.5GiB";
    case HRF_SETTING_TRIPLE:
        return "[0.1, 0.2, 0.30000000000000004]";
    case HRF_SETTING_PRECISIONS:
        return "[int8, fp32, bf16]";
    case HRF_SETTING_DURATION:
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
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *key = &hrf_settings[i];
        const char *with = companions(key->key);
        char text[512], set[256];
        /* The model and the profile must be there, positive one of the classes. */
        if (with == NULL || strcmp(key->key, "model.file") == 0 ||
            strcmp(key->key, "executor.slurm.profile") == 0 ||
            strcmp(key->key, "model.positive") == 0 || strcmp(key->key, "dataset.layout") == 0 ||
            strcmp(key->key, "calibrate.slides.layout") == 0)
            continue;
        snprintf(text, sizeof text, "version: 1\n%smodel: {file: model.onnx}\n", with);
        snprintf(set, sizeof set, "%s=%s", key->key, other_value(key));
        const bool is_head = strncmp(key->key, "slide_head.", 11) == 0;
        const bool is_frame = strncmp(key->key, "tiler.slide.", 12) == 0;
        const char *overrides[] = { set, "engine.batch=65536",
                                    is_head ? "model.output=embedding" : "tiler.mode=slide" };
        const size_t n = is_head || is_frame ? 3 : 2;
        HRF_AUTO(hrf_workflow) w = parse_good(text, overrides, n);
        struct hrf_strbuf written = HRF_STRBUF_INIT, differences = HRF_STRBUF_INIT;
        hrf_workflow_write(w, &written);
        HRF_AUTO(hrf_workflow) again = parse_good(written.text, NULL, 0);
        hrf_workflow_differences(again, w, &differences);
        if (differences.length > 0)
            fail_msg("%s%s", differences.text, written.text);
        /* It is really another value: the writer cannot have lost it on both sides. */
        if (strncmp(key->key, "dataset.", 8) != 0 &&
            strncmp(key->key, "calibrate.slides.", 17) != 0) {
            HRF_AUTO(hrf_workflow) plain = parse_good(text, overrides + 1, n - 1);
            hrf_workflow_differences(w, plain, &differences);
            if (strncmp(differences.text, key->key, strlen(key->key)) != 0 &&
                strcmp(key->key, "engine.batch") != 0)
                fail_msg("%s: '%s'", key->key, differences.text);
        }
        hrf_strbuf_release(&written);
        hrf_strbuf_release(&differences);
        n_tried++;
    }
    assert_true(n_tried > (int)hrf_n_settings - 13);
}

/* Paths of the file are relative to it, those of an override to where the command is given. Files
 * need no layout, and one of them no list. */
static void files_say_what_their_layout_is(void **state)
{
    (void)state;
    static const char files[] = "version: 1\ndataset: {files: s/*.svs}\n"
                                "model: {file: model.onnx}\n";
    const char *overrides[] = { "dataset.files=s/*.svs", "tiler.coords=patches" };
    HRF_AUTO(hrf_workflow) w = parse_good(files, NULL, 0);
    HRF_AUTO(hrf_workflow) here = parse_good(files, overrides, 2);
    HRF_AUTO_FREE char *slides = NULL, *patches = NULL, *beside = NULL;
    assert_int_equal(w->dataset.layout, HRF_LAYOUT_FILES);
    assert_int_equal(w->dataset.files.n_items, 1);
    assert_int_equal(hrf_path_absolute("tests/golden/workflow/s/*.svs", &beside, NULL), HRF_OK);
    assert_int_equal(hrf_path_absolute("s/*.svs", &slides, NULL), HRF_OK);
    assert_int_equal(hrf_path_absolute("patches", &patches, NULL), HRF_OK);
    assert_string_equal(w->dataset.files.items[0], beside);
    assert_string_equal(here->dataset.files.items[0], slides);
    assert_string_equal(here->tiler.coords, patches);
}

static void a_slide_head_is_of_embeddings(void **state)
{
    (void)state;
    const char *overrides[] = { "slide_head.file=tests/golden/workflow/model.onnx",
                                "model.output=embedding" };
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
        { "{spatial: 2, tensor: 3}", "spatial=2,tensor=3" },
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

/* What a command prints of an error, in `out`. */
static void reported(const char *format, char *out, size_t size)
{
    struct hrf_error err = { .status = HRF_OK };
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    assert_true(file != NULL && before >= 0);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    const enum hrf_status status = hrf_error_set(&err, HRF_E_USER, format, "x");
    const int code = hrf_error_report("hires-flow", "run", &err);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_true(status == HRF_E_USER && code == 2);
    rewind(file);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void an_error_about_a_setting_says_what_the_setting_takes(void **state)
{
    (void)state;
    char text[1024];
    reported("%s does not fit {engine.batch}", text, sizeof text);
    assert_string_equal(text, "hires-flow run: x does not fit engine.batch\n");
    hrf_settings_describe_in_errors();
    reported("%s does not fit {engine.batch}", text, sizeof text);
    assert_non_null(
        strstr(text, "engine.batch\nengine.batch: whole number, 1 to 65536, default 32: "));
    const struct hrf_setting *batch = hrf_setting_find("engine.batch");
    assert_non_null(strstr(text, batch->help));
    reported("%s is about no setting", text, sizeof text);
    assert_string_equal(text, "hires-flow run: x is about no setting\n");
    hrf_settings_name_by(HRF_NAMES_ARE_OPTIONS);
    reported("%s does not fit {model.file}", text, sizeof text);
    assert_non_null(strstr(text, "\n--model: path: "));
    hrf_settings_name_by(HRF_NAMES_ARE_KEYS);
    hrf_message_set_describer(NULL);
}

static void the_schema_knows_every_key_and_both_short_forms(void **state)
{
    (void)state;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_workflow_json_schema(&text);
    HRF_AUTO_JSON schema = json_loads(text.text, 0, NULL);
    assert_non_null(schema);
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const json_t *at = schema;
        char path[128];
        snprintf(path, sizeof path, "%s", hrf_settings[i].key);
        for (char *part = path; part != NULL;) {
            char *dot = strchr(part, '.');
            if (dot != NULL)
                *dot = '\0';
            at = json_object_get(json_object_get(at, "properties"), part);
            if (at == NULL)
                fail_msg("the schema lacks %s", hrf_settings[i].key);
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
        cmocka_unit_test(files_say_what_their_layout_is),
        cmocka_unit_test(a_slide_head_is_of_embeddings),
        cmocka_unit_test(parallel_auto_and_short_forms_are_read_back),
        cmocka_unit_test(parallel_is_what_the_engine_reads_as_a_layout),
        cmocka_unit_test(differences_name_the_key_and_both_values),
        cmocka_unit_test(findings_stand_in_file_order_with_their_places),
        cmocka_unit_test(a_budget_needs_what_it_is_measured_on),
        cmocka_unit_test(an_error_about_a_setting_says_what_the_setting_takes),
        cmocka_unit_test(the_schema_knows_every_key_and_both_short_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
