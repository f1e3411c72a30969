/* The files of a report: goldens byte for byte, hostile names, repeatability, leftovers, notes,
 * and what a browser makes of the page. HRF_REFRESH_GOLDEN=1 rewrites labels.csv and report.json
 * (the patch tables come from tools/reference/make_report_goldens.py). */
#include "aggregate/report/report_files.h"

#include "aggregate/plot/out.h"
#include "aggregate/report/page.h"
#include "aggregate/report/tables.h"
#include "aggregate/study/figure_rows.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "base/process.h"
#include "base/strbuf.h"
#include "tests/unit/aggregate/report/fixture.h"
#include "tests/unit/figure_docs.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define GOLDEN "tests/golden/report/"

static const struct hrf_report_options everything = {
    .heatmaps = true, .geojson = true, .csv = true, .html = true, .made_at = "2026-01-31T23:59:59Z"
};

static char *read_path(const char *path, size_t *n_bytes)
{
    char *text = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_file_read(path, (size_t)64 << 20, &text, n_bytes, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return text;
}

static char *read_below(const char *directory, const char *name, size_t *n_bytes)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    return read_path(path, n_bytes);
}

static void write_report(const struct fixture *f, const struct hrf_report_options *options)
{
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_report_write(f->cohort, &f->source, options, f->directory, NULL, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

static void same_as_golden(const char *text, size_t n, const char *name, bool refreshable)
{
    HRF_AUTO_FREE char *path = hrf_path_join(GOLDEN, name);
    struct hrf_error err;
    if (refreshable && getenv("HRF_REFRESH_GOLDEN") != NULL &&
        hrf_file_write_atomic(path, text, n, &err) != HRF_OK)
        fail_msg("%s", err.text);
    size_t n_golden = 0;
    HRF_AUTO_FREE char *golden = read_path(path, &n_golden);
    assert_string_equal(text, golden);
    assert_int_equal(n, n_golden);
}

static char *unzip(const char *path, size_t *n_bytes)
{
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    char *text = hrf_alloc(1 << 20);
    int n = gzread(file, text, (1 << 20) - 1);
    assert_true(n >= 0 && gzeof(file));
    gzclose(file);
    text[n] = '\0';
    *n_bytes = (size_t)n;
    return text;
}

/* ---- rows of figures ---- */

static const struct figure_table {
    const struct hrf_figure_row *rows;
    const char *object; /* of report.json; NULL: by part */
} figure_tables[] = { { hrf_precision_rows, NULL },
                      { hrf_class_rows, "classes" },
                      { hrf_confusion_rows, "confusion" },
                      { hrf_region_rows, "segmentation" },
                      { hrf_traffic_rows, "communication" },
                      { hrf_head_study_rows, "slide_heads" },
                      { hrf_job_rows, "jobs" } };

static const char *object_of(const struct figure_table *table, const struct hrf_figure_row *row)
{
    return table->object != NULL                 ? table->object
           : row->part == HRF_FIGURES_TIMING     ? "timing"
           : row->part == HRF_FIGURES_EMBEDDING  ? "embedding"
           : row->part == HRF_FIGURES_REGRESSION ? "regression"
           : row->part == HRF_FIGURES_LESIONS    ? "froc"
                                                 : "";
}

static void every_figure_states_what_it_is(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof figure_tables / sizeof figure_tables[0]; t++) {
        const struct hrf_figure_row *rows = figure_tables[t].rows;
        for (const struct hrf_figure_row *row = rows; row->key != NULL; row++) {
            if (row->unit == 0 || row->better == 0 || row->shown == 0 || row->column == 0 ||
                row->type == 0 || row->help == NULL ||
                (rows == hrf_precision_rows) != (row->part > 0))
                fail_msg("the row of '%s' does not state its part, unit, direction, places or help",
                         row->key);
            const bool is_column = (row->shown & HRF_IN_PAGE) != 0 && row->below_at == 0;
            if (is_column != (row->heading != NULL) ||
                ((row->shown & HRF_IN_TEXT) != 0) != (row->short_heading != NULL))
                fail_msg("the row of '%s' has no heading where it is shown, or one where not",
                         row->key);
            for (const struct hrf_figure_row *other = rows; other < row; other++)
                if (other->column == row->column ||
                    (other->part == row->part && strcmp(other->key, row->key) == 0))
                    fail_msg("'%s' and '%s' have one place or one name", other->key, row->key);
        }
    }
}

static void the_page_of_results_has_every_figure(void **state)
{
    (void)state;
    struct hrf_strbuf rows = HRF_STRBUF_INIT;
    for (size_t t = 0; t < sizeof figure_tables / sizeof figure_tables[0]; t++)
        for (const struct hrf_figure_row *row = figure_tables[t].rows; row->key != NULL; row++)
            docs_add_figure(&rows, object_of(&figure_tables[t], row), row);
    docs_compare("docs/results.md", "test_report",
                 "| in `report.json` | in `study.csv` | unit | | what |", &rows);
    hrf_strbuf_release(&rows);
}

static void the_small_cohort_gives_the_golden_files(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_small(&f);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *labels = read_below(f.directory, "results/labels.csv", &n);
    same_as_golden(labels, n, "labels.csv", true);
    HRF_AUTO_FREE char *json = read_below(f.directory, "report/report.json", &n);
    same_as_golden(json, n, "report.json", true);
    HRF_AUTO_FREE char *study = read_below(f.directory, "report/study.csv", &n);
    same_as_golden(study, n, "study.csv", true);
    HRF_AUTO_FREE char *flips = read_below(f.directory, "results/patch-flips.csv", &n);
    same_as_golden(flips, n, "patch-flips.csv", true);
    HRF_AUTO_FREE char *csv = read_below(f.directory,
                                         "results/fp32/model-outputs-csv/tumor%2C%20one.csv", &n);
    same_as_golden(csv, n, "model.csv", false);
    HRF_AUTO_FREE char *zipped = hrf_path_join(
        f.directory, "results/fp32/model-outputs-geojson/tumor%2C%20one.geojson.gz");
    HRF_AUTO_FREE char *geojson = unzip(zipped, &n);
    same_as_golden(geojson, n, "model.geojson", false);
    HRF_AUTO_FREE char *gz = read_path(zipped, &n);
    assert_memory_equal(gz + 3, "\0\0\0\0\0", 5); /* no name, no time */
    fixture_release(&f);
}

/* As in WSInfer's own reference files: a float widened to double, fewest digits. */
static void numbers_are_written_as_python_writes_them(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 0.0, "0.0" },
                  { 1.0, "1.0" },
                  { 0.5, "0.5" },
                  { (double)0.9108285307884216f, "0.9108285307884216" },
                  { 3.427372535086404e-12, "3.427372535086404e-12" },
                  { (double)3.4273725e-12f, "3.4273725350864037e-12" },
                  { 1e-5, "1e-05" },
                  { 0.0001, "0.0001" },
                  { 123456.75, "123456.75" },
                  { 1e16, "1e+16" },
                  { 9007199254740992.0, "9007199254740992.0" },
                  { 5.960464477539063e-08, "5.960464477539063e-08" }, /* 2^-24: lopsided */
                  { 5.684341886080802e-14, "5.684341886080802e-14" }, /* 2^-44 */
                  { 0.1, "0.1" },
                  { 2.0 / 3.0, "0.6666666666666666" },
                  { -0.25, "-0.25" },
                  { NAN, "nan" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        hrf_number_text(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

static size_t count_files(const char *directory, const char *folder)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, folder);
    const char *const argv[] = { "find", path, "-type", "f", "-printf", ".", NULL };
    struct hrf_process_result result;
    struct hrf_strbuf dots = HRF_STRBUF_INIT;
    assert_int_equal(hrf_process_run(argv, NULL, NULL, 60000, 1 << 20, &dots, NULL, &result, NULL),
                     HRF_OK);
    size_t n = dots.length;
    hrf_strbuf_release(&dots);
    return n;
}

static bool same_trees(const char *a, const char *b)
{
    const char *const argv[] = { "diff", "-r", a, b, NULL };
    struct hrf_process_result result;
    assert_int_equal(hrf_process_run(argv, NULL, NULL, 60000, 0, NULL, NULL, &result, NULL),
                     HRF_OK);
    return result.exited && result.exit_code == 0;
}

static void markup_escapes_texts_and_nothing_else(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_small(&f);
    HRF_AUTO_FREE char *path = hrf_path_join(f.directory, "markup.html");
    HRF_AUTO(hrf_out) out = NULL;
    assert_int_equal(hrf_out_create(path, HRF_OUT_PLAIN, &out, NULL), HRF_OK);
    hrf_out_markup(out, "<b title=\"%s\">%d of %zu, %02lld</b>100 %% %.1f %g%s", "\"<&'\xff", -3,
                   (size_t)7, 5LL, 0.25, 1e-7, "<i>");
    assert_int_equal(hrf_out_commit(out, NULL), HRF_OK);
    size_t n_bytes = 0;
    HRF_AUTO_FREE char *text = read_path(path, &n_bytes);
    assert_string_equal(text, "<b title=\"&quot;&lt;&amp;&#39;\ufffd\">-3 of 7, 05</b>100 % 0.2 "
                              "1e-07&lt;i&gt;");
    fixture_release(&f);
}

static void two_runs_write_the_same_bytes_and_stale_files_go(void **state)
{
    (void)state;
    struct fixture f, g;
    fixture_init(&f, 7, 2, true);
    fixture_init(&g, 7, 2, true);
    write_report(&f, &everything);
    write_report(&g, &everything);
    HRF_AUTO_FREE char *a = hrf_path_join(f.directory, "results");
    HRF_AUTO_FREE char *b = hrf_path_join(g.directory, "results");
    assert_true(same_trees(a, b));
    assert_int_equal(count_files(f.directory, "results"), 2 + 2 * 3 * 4); /* 4 slides are done */
    /* A writer that was killed, a slide that is done no more, a form not wanted any longer. */
    HRF_AUTO_FREE char *left = hrf_path_join(g.directory,
                                             "results/int8/heatmaps/test_004.png.tmp.0123456789ab");
    HRF_AUTO_FREE char *random = NULL; /* as hrf_file_temporary() names them */
    int fd = -1;
    HRF_AUTO_FREE char *map = hrf_path_join(g.directory, "results/int8/heatmaps/test_004.png");
    assert_int_equal(hrf_file_temporary(map, &random, &fd, NULL), HRF_OK);
    close(fd);
    assert_int_equal(hrf_file_write_atomic(left, "x", 1, NULL), HRF_OK);
    g.cohort->slides[6].state = HRF_SLIDE_FAILED;
    g.cohort->slides[6].scores[0].known = g.cohort->slides[6].scores[1].known = false;
    struct hrf_report_options fewer = everything;
    fewer.geojson = false;
    write_report(&g, &fewer);
    assert_false(hrf_path_exists(left));
    assert_false(hrf_path_exists(random));
    assert_int_equal(count_files(g.directory, "results"), 2 + 2 * 2 * 3);
    /* A slide of an earlier cohort, a precision that is not asked for now; what is not ours stays.
     */
    HRF_AUTO_FREE char *gone = hrf_path_join(g.directory, "results/int8/heatmaps/gone.png");
    HRF_AUTO_FREE char *tables = hrf_path_join(g.directory, "results/bf16/model-outputs-csv");
    HRF_AUTO_FREE char *old = hrf_path_join(tables, "test_001.csv");
    HRF_AUTO_FREE char *mine = hrf_path_join(g.directory, "results/int8/heatmaps/notes.txt");
    assert_int_equal(hrf_path_make_directories(tables, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(gone, "x", 1, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(old, "x", 1, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(mine, "x", 1, NULL), HRF_OK);
    fewer.html = false;
    write_report(&g, &fewer);
    assert_false(hrf_path_exists(gone));
    assert_true(hrf_path_exists(mine));
    HRF_AUTO_FREE char *precision = hrf_path_directory(tables);
    assert_false(hrf_path_exists(precision));
    HRF_AUTO_FREE char *page = hrf_path_join(g.directory, "report/index.html");
    assert_false(hrf_path_exists(page));
    assert_int_equal(count_files(g.directory, "results"), 2 + 2 * 2 * 3 + 1);
    fixture_release(&f);
    fixture_release(&g);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void the_page_is_alone_and_no_name_gets_out_of_its_place(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 7, 2, true);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *page = read_below(f.directory, "report/index.html", &n);
    assert_int_equal(strlen(page), n);
    assert_int_equal(count(page, "<script"), 1);
    assert_null(strstr(page, "alert('"));
    assert_non_null(strstr(page, "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\\n"
                                 "&amp;amp; \xf0\x9f\x98\x90, \xef\xbf\xbd"));
    assert_non_null(strstr(page, "<h1>camelyon16 &lt;precision&gt; &amp; &quot;quotes&quot;</h1>"));
    assert_non_null(strstr(page, "JPEG &lt;damaged&gt; data"));
    /* The file name's own % is escaped in links. */
    assert_non_null(strstr(page, "../results/fp32/heatmaps/%2522%253E%253Cscript%253Ealert"));
    /* Nothing is loaded from elsewhere. */
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "src=\"//"));
    assert_null(strstr(page, "@import"));
    assert_null(strstr(page, "url("));
    assert_int_equal(count(page, "src=\"data:image/png;base64,"), 5); /* 4 done, 1 empty */
    assert_int_equal(count(page, "<tr data-n="), 7);
    fixture_release(&f);
}

static void the_report_says_why_a_figure_is_missing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 7, 1, false);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *json = read_below(f.directory, "report/report.json", &n);
    assert_non_null(strstr(json, "\"slide_auc\": null"));
    assert_non_null(strstr(json, "\"slide_auc_reason\": \"no slide with a label was scored\""));
    assert_non_null(strstr(json, "\"slide_auc_ci\": null"));
    assert_non_null(strstr(json, "\"slide_accuracy\": null"));
    assert_non_null(strstr(json, "\"confusion\": null"));
    HRF_AUTO_FREE char *page = read_below(f.directory, "report/index.html", &n);
    assert_null(strstr(page, "<b>–</b>")); /* no card without a number */
    assert_non_null(strstr(page, "no label is known: accuracy cannot be told"));
    fixture_release(&f);
}

static void the_provenance_names_what_was_used_and_made(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 12, 2, true);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *text = read_below(f.directory, "report/provenance.json", &n);
    HRF_AUTO_JSON root = NULL;
    assert_int_equal(hrf_json_parse(text, n, "provenance.json", &root, NULL), HRF_OK);
    const json_t *entities = json_object_get(root, "entity"), *relation;
    const char *name;
    /* All slides, a collection for each precision, and what relations speak of is there. */
    for (size_t i = 0; i < f.cohort->n_slides; i++) {
        char id[32];
        snprintf(id, sizeof id, "hf:slide-%zu", i + 1);
        const json_t *slide = json_object_get(entities, id);
        HRF_AUTO_JSON wanted = hrf_json_string(f.cohort->slides[i].name); /* valid UTF-8 */
        assert_true(json_equal(json_object_get(slide, "prov:label"), wanted));
    }
    assert_non_null(json_object_get(entities, "hf:results-int8"));
    json_object_foreach(json_object_get(root, "wasGeneratedBy"), name, relation)
    {
        const char *id = json_string_value(json_object_get(relation, "prov:entity"));
        assert_non_null(json_object_get(entities, id));
    }
    /* The hash of a table is that of its bytes. */
    char hex[HRF_HASH_HEX];
    HRF_AUTO_FREE char *labels = hrf_path_join(f.directory, "results/labels.csv");
    assert_int_equal(hrf_hash_file(labels, hex, NULL), HRF_OK);
    const json_t *table = json_object_get(entities, "hf:file-1");
    assert_string_equal(json_string_value(json_object_get(table, "hf:sha256")), hex);
    fixture_release(&f);
}

static void the_methods_say_and_cite_what_was_done(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 12, 2, true);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *text = read_below(f.directory, "report/methods.md", &n);
    assert_non_null(strstr(text, "OpenSlide [1]. "));
    assert_non_null(strstr(text, "was evaluated at fp32 and int8"));
    assert_non_null(strstr(text, "Newcombe's method 5 ["));
    assert_non_null(strstr(text, "DeLong's paired test ["));
    assert_null(strstr(text, "Lesions were judged")); /* they were not */
    /* Every number that is cited is in the list, and no more than these. */
    size_t n_cited = 0;
    char mark[16], line[16];
    for (int i = 1;; i++) {
        snprintf(mark, sizeof mark, " [%d]", i);
        snprintf(line, sizeof line, "\n%d. ", i);
        if (strstr(text, mark) == NULL) {
            assert_null(strstr(text, line));
            break;
        }
        assert_int_equal(count(text, line), 1);
        n_cited++;
    }
    assert_true(n_cited >= 4);
    fixture_release(&f);
}

static void an_unreadable_annotation_is_a_note(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 6, 1, true);
    assert_int_equal(hrf_file_write_atomic(f.cohort->slides[5].annotation, "<kml/>", 6, NULL),
                     HRF_OK);
    write_report(&f, &everything);
    size_t n = 0;
    HRF_AUTO_FREE char *page = read_below(f.directory, "report/index.html", &n);
    assert_non_null(strstr(page, "no lesion outlines: "));
    assert_non_null(strstr(page, "the outermost element is &#39;kml&#39;"));
    assert_int_equal(count_files(f.directory, "results/fp32/heatmaps"), 3);
    fixture_release(&f);
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_small(&f);
    HRF_AUTO_FREE char *blocked = hrf_path_join(f.directory, "file");
    assert_int_equal(hrf_file_write_atomic(blocked, "x", 1, NULL), HRF_OK);
    struct hrf_error err = { .status = HRF_OK };
    assert_int_not_equal(hrf_report_write(f.cohort, &f.source, &everything, blocked, NULL, &err),
                         HRF_OK);
    assert_non_null(strstr(err.text, blocked));
    fixture_release(&f);
}

/* The first slide's table of fp32 cannot be put in place. */
static void a_slide_that_cannot_be_written_keeps_no_other_from_it(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_small(&f);
    HRF_AUTO_FREE char *blocked = hrf_path_join(
        f.directory, "results/fp32/model-outputs-csv/tumor%2C%20one.csv/mine");
    assert_int_equal(hrf_path_make_directories(blocked, NULL), HRF_OK);
    struct hrf_error err = { .status = HRF_OK };
    size_t n_failed = 0, n = 0;
    if (hrf_report_write(f.cohort, &f.source, &everything, f.directory, &n_failed, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n_failed, 1);
    const struct hrf_cohort_slide *slide = &f.cohort->slides[0];
    assert_int_equal(slide->state, HRF_SLIDE_FAILED);
    assert_non_null(strstr(slide->reason, "fp32: its files are not complete: "));
    assert_null(slide->scores[1].failure);
    assert_int_equal(f.cohort->counts.done, 1);
    /* The other's two of each precision, this one's two of int8, the two tables; no pictures. */
    assert_int_equal(count_files(f.directory, "results"), 2 + 2 * 2 + 2);
    HRF_AUTO_FREE char *labels = read_below(f.directory, "results/labels.csv", &n);
    assert_non_null(strstr(labels, ",fp32,tumor,failed,"));
    assert_non_null(strstr(labels, "\"tumor, one\",tumor,0.6379178538918495,int8,tumor,done,,,\n"));
    fixture_release(&f);
}

static void scores_of_other_patches_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init_small(&f);
    struct hrf_tile_plan *plan = NULL;
    struct hrf_scores *scores = NULL;
    assert_int_equal(f.source.tile_plan(NULL, 0, &plan, NULL), HRF_OK);
    assert_int_equal(f.source.scores(NULL, 0, 0, &scores, NULL), HRF_OK);
    scores->n_patches = 3;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_report_check_scores(f.cohort, plan, scores, &err), HRF_E_USER);
    assert_string_equal(err.text, "the scores are of 3 patches from number 0 on, the tile plan "
                                  "has 4");
    hrf_scores_destroy(scores);
    hrf_tile_plan_destroy(plan);
    fixture_release(&f);
}

/* Every tenth slide is positive; three labels are wrong, by 0.4, 0.1 and 0.2. */
static struct hrf_cohort *make_large_cohort(size_t n, const size_t wrong[3])
{
    static const char *const classes[] = { "normal", "tumor" }, *const precisions[] = { "fp32" };
    const struct hrf_aggregate_params params = { .name = "large",
                                                 .classes = classes,
                                                 .n_classes = 2,
                                                 .positive = 1,
                                                 .precisions = precisions,
                                                 .n_precisions = 1,
                                                 .threshold = 0.5 };
    static const double off[] = { 0.4, 0.1, 0.2 };
    struct hrf_cohort *cohort = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_cohort_create(&params, n, &cohort, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < n; i++) {
        struct hrf_cohort_slide *s = &cohort->slides[i];
        s->name = hrf_format("slide_%05zu", i);
        s->file_name = hrf_strdup(s->name);
        s->path = hrf_strdup(s->name);
        s->state = i % 10 == 3 ? HRF_SLIDE_FAILED : HRF_SLIDE_DONE;
        s->truth = i % 10 == 0 ? HRF_TRUTH_POSITIVE : HRF_TRUTH_NEGATIVE;
        s->truth_class = i % 10 == 0;
        s->n_patches = -1;
        if (s->state == HRF_SLIDE_FAILED) {
            s->reason = hrf_format("'%s' is cut short", s->name);
            continue;
        }
        double value = 0.5 + (i % 10 == 0 ? 0.4 : -0.4) * (double)(i + 1) / (double)n;
        for (int k = 0; k < 3; k++)
            value = i == wrong[k] ? 0.5 + (i % 10 == 0 ? -off[k] : off[k]) : value;
        s->scores[0] = (struct hrf_cohort_score){ .known = true,
                                                  .value = value,
                                                  .positive = value >= 0.5 };
    }
    if (hrf_cohort_finish(cohort, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return cohort;
}

static void a_large_page_shows_what_is_looked_at_first(void **state)
{
    (void)state;
    enum { N = HRF_PAGE_SLIDES + 3000 };
    static const size_t wrong[] = { 4990, 4000, 14 };
    struct fixture f;
    struct hrf_error err = { .status = HRF_OK };
    fixture_init(&f, 6, 2, true);
    HRF_AUTO(hrf_cohort) cohort = make_large_cohort(N, wrong);
    HRF_AUTO_FREE struct hrf_page_slide *extras = hrf_calloc(N, sizeof *extras);
    HRF_AUTO_FREE char *path = hrf_path_join(f.directory, "large.html");
    hrf_page_choose_slides(cohort, extras);
    size_t n_shown = 0;
    for (size_t i = 0; i < N; i++) {
        n_shown += !extras[i].is_left_out;
        if (cohort->slides[i].state == HRF_SLIDE_FAILED)
            assert_false(extras[i].is_left_out);
    }
    assert_int_equal(n_shown, HRF_PAGE_SLIDES);
    for (int k = 0; k < 3; k++)
        assert_false(extras[wrong[k]].is_left_out);
    assert_false(extras[0].is_left_out); /* the scores nearest to the threshold */
    assert_true(extras[N - 1].is_left_out);
    assert_int_equal(hrf_report_page(cohort, extras, "now", path, &err), HRF_OK);
    size_t n_bytes;
    HRF_AUTO_FREE char *page = read_path(path, &n_bytes);
    assert_true(n_bytes < 1500000);
    assert_non_null(strstr(page, "Here are 2,000 of 5,000 slides"));
    assert_non_null(strstr(page, "and 300 more slides: results/labels.csv")); /* of 500 */
    fixture_release(&f);
}

static const char *find_chromium(void)
{
    static const char *const paths[] = { "/usr/bin/chromium", "/usr/bin/chromium-browser",
                                         "/usr/bin/google-chrome" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (hrf_path_exists(paths[i]))
            return paths[i];
    return NULL;
}

/* The DOM after the script ran: the rows are counted by it, the hostile name is one text. */
static void a_browser_shows_the_page(void **state)
{
    (void)state;
    const char *browser = find_chromium();
    if (browser == NULL) {
        print_message("skipped: chromium is not installed\n");
        skip();
    }
    struct fixture f;
    fixture_init(&f, 6, 2, true);
    write_report(&f, &everything);
    HRF_AUTO_FREE char *url = hrf_format("file://%s/report/index.html", f.directory);
    HRF_AUTO_FREE char *profile = hrf_format("--user-data-dir=%s/profile", f.directory);
    const char *const argv[] = {
        browser, "--headless", "--no-sandbox", "--disable-gpu", profile, "--dump-dom", url, NULL
    };
    struct hrf_strbuf dom = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_process_run(argv, NULL, NULL, 300000, (size_t)16 << 20, &dom, NULL, &result, &err) !=
        HRF_OK)
        fail_msg("%s", err.text);
    assert_true(result.exited && result.exit_code == 0);
    assert_non_null(strstr(dom.text, "6 of 6</output>")); /* written by the page's script */
    assert_non_null(strstr(dom.text, "&lt;/script&gt;\\n&amp;amp;"));
    assert_non_null(strstr(dom.text, "<h2>ROC curve"));
    assert_non_null(strstr(dom.text, "test_005"));
    hrf_strbuf_release(&dom);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_states_what_it_is),
        cmocka_unit_test(the_page_of_results_has_every_figure),
        cmocka_unit_test(the_small_cohort_gives_the_golden_files),
        cmocka_unit_test(numbers_are_written_as_python_writes_them),
        cmocka_unit_test(markup_escapes_texts_and_nothing_else),
        cmocka_unit_test(two_runs_write_the_same_bytes_and_stale_files_go),
        cmocka_unit_test(the_page_is_alone_and_no_name_gets_out_of_its_place),
        cmocka_unit_test(the_report_says_why_a_figure_is_missing),
        cmocka_unit_test(the_methods_say_and_cite_what_was_done),
        cmocka_unit_test(the_provenance_names_what_was_used_and_made),
        cmocka_unit_test(an_unreadable_annotation_is_a_note),
        cmocka_unit_test(a_directory_that_cannot_be_made_is_named),
        cmocka_unit_test(a_slide_that_cannot_be_written_keeps_no_other_from_it),
        cmocka_unit_test(scores_of_other_patches_are_refused),
        cmocka_unit_test(a_large_page_shows_what_is_looked_at_first),
        cmocka_unit_test(a_browser_shows_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
