/* Errors, string buffers, CSV, JSON and nearest words: what turns bytes into messages. */
#include "base/args.h"
#include "base/csv.h"
#include "base/error_record.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_error_keeps_the_outermost_context_first(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_error_set_errno(&err, ENOSPC, "cannot write '%s'", "a"), HRF_E_NOSPACE);
    assert_string_equal(err.text, "cannot write 'a': No space left on device");
    assert_int_equal(hrf_error_wrap(&err, HRF_E_NOSPACE, "slide %d", 7), HRF_E_NOSPACE);
    assert_string_equal(err.text, "slide 7: cannot write 'a': No space left on device");
    assert_string_equal(err.domain, "errno");
    assert_int_equal(hrf_error_set(NULL, HRF_E_USER, "nobody listens"), HRF_E_USER);
}

/* Every row is whole, and found by its name; what another version wrote keeps its text. */
static void an_error_crosses_processes_as_a_record(void **state)
{
    (void)state;
    for (int i = 0; i < HRF_N_ERROR_IDS; i++) {
        const struct hrf_error_row *row = hrf_error_row((enum hrf_error_id)i);
        struct hrf_error err = { .status = HRF_OK }, back;
        assert_int_equal(hrf_error_id_find(row->name), i);
        assert_int_equal(hrf_error_raise(&err, (enum hrf_error_id)i, "'{engine.batch}' %d", i),
                         row->status);
        assert_int_not_equal(row->status, HRF_OK);
        HRF_AUTO_JSON record = hrf_error_to_json(&err);
        assert_true(hrf_error_from_json(record, &back));
        assert_int_equal(back.id, i);
        assert_int_equal(back.status, err.status);
        assert_string_equal(back.setting, "engine.batch");
        assert_string_equal(back.text, err.text);
        HRF_AUTO_FREE char *line = hrf_json_text(record);
        HRF_AUTO_FREE char *said = hrf_format("a warning\n%s\n", line);
        assert_int_equal(hrf_error_parse(said, "it", &back), err.status);
        assert_int_equal(back.id, i);
    }
    struct hrf_error told;
    assert_int_equal(
        hrf_error_parse("{\"status\":\"user\",\"id\":\"of-2031\",\"text\":\"no\"}\n", "it", &told),
        HRF_E_USER);
    assert_int_equal(told.id, HRF_ERROR_OTHER);
    assert_string_equal(told.text, "no");
    assert_int_equal(hrf_error_parse("one\nKilled by {us}\n\n", "it", &told), HRF_E_EXTERNAL);
    assert_int_equal(told.id, HRF_ERROR_NO_ANSWER);
    assert_string_equal(told.text, "Killed by {us}");
    (void)hrf_error_parse("\n", "it", &told);
    assert_string_equal(told.text, "it ended without a message");
}

static void a_small_allocation_that_fails_ends_the_process_with_one_line(void **state)
{
    (void)state;
    int ends[2], end = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        volatile size_t count = SIZE_MAX / 2; /* its bytes do not fit into a size_t */
        _exit(hrf_alloc_array(count, 8) == NULL ? 0 : 1);
    }
    close(ends[1]);
    char line[200] = "";
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFEXITED(end));
    assert_int_equal(WEXITSTATUS(end), HRF_EXIT_NO_MEMORY);
    assert_non_null(strstr(line, "out of memory"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_null(hrf_try_alloc_array(SIZE_MAX / 2, 8)); /* what the input sizes is told */
}

static void csv_reads_quotes_newlines_and_crlf(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "a,\"b \"\"q\"\"\",\r\n\n\"two\nlines\",x,y\n,last";
    struct hrf_csv *csv = NULL;
    assert_int_equal(hrf_csv_parse(text, sizeof text - 1, "t.csv", &csv, NULL), HRF_OK);
    assert_int_equal(csv->n_rows, 3);
    assert_int_equal(csv->rows[0].n_fields, 3);
    assert_string_equal(csv->rows[0].fields[0], "a");
    assert_string_equal(csv->rows[0].fields[1], "b \"q\"");
    assert_string_equal(csv->rows[0].fields[2], "");
    assert_string_equal(csv->rows[1].fields[0], "two\nlines");
    assert_int_equal(csv->rows[1].line, 3);
    assert_string_equal(csv->rows[2].fields[1], "last");
    assert_int_equal(csv->rows[2].line, 5);
    hrf_csv_destroy(csv);
}

static void csv_names_the_line_of_an_open_quote(void **state)
{
    (void)state;
    struct hrf_csv *csv = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_csv_parse("a,b\nc,\"d", 8, "t.csv", &csv, &err), HRF_E_USER);
    assert_string_equal(err.text, "t.csv:2: a quote is opened and never closed");
    assert_int_equal(hrf_csv_parse("a\0b", 3, "t.csv", &csv, &err), HRF_E_USER);
    assert_null(csv);
}

static void json_errors_name_document_key_and_types(void **state)
{
    (void)state;
    json_t *value = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const char *text;
    int64_t number = 7;
    assert_int_equal(hrf_json_parse("{\"a\": 1.5}", 10, "x.json", &value, NULL), HRF_OK);
    assert_int_equal(hrf_json_get_int(value, "a", "x.json", &number, &err), HRF_E_USER);
    assert_string_equal(err.text, "x.json: 'a' must be an integer, it is a number");
    assert_int_equal(number, 7);
    assert_int_equal(hrf_json_get_text(value, "b", "x.json", &text, &err), HRF_E_USER);
    assert_string_equal(err.text, "x.json: 'b' must be a string, it is missing");
    json_decref(value);
    assert_int_equal(hrf_json_parse("{", 1, "x.json", &value, &err), HRF_E_USER);
    assert_memory_equal(err.text, "x.json:1:", 9);
}

static void json_numbers_read_back_exactly_and_nan_is_null(void **state)
{
    (void)state;
    json_t *value = hrf_json_number(0.1);
    char *text = hrf_json_text(value);
    assert_true(strtod(text, NULL) == 0.1);
    hrf_free(text);
    json_decref(value);
    value = hrf_json_number(NAN);
    assert_true(json_is_null(value));
    json_decref(value);
}

static void json_takes_any_bytes_as_text_line_and_key(void **state)
{
    (void)state;
    HRF_AUTO_JSON object = json_object();
    hrf_json_put_int(object, "scanner \xff", 1);
    hrf_json_put_text(object, "none", NULL);
    hrf_json_put(object, "lines", hrf_json_lines("a\nb\xff\n\nc"));
    hrf_json_put(object, "numbers", hrf_json_numbers((const double[]){ 0.5, NAN }, 2));
    hrf_json_put(object, "ints", hrf_json_ints((const int64_t[]){ -1, INT64_MAX }, 2));
    HRF_AUTO_FREE char *text = hrf_json_text(object);
    assert_string_equal(text, "{\"ints\":[-1,9223372036854775807],"
                              "\"lines\":[\"a\",\"b\xef\xbf\xbd\",\"\",\"c\"],"
                              "\"none\":null,\"numbers\":[0.5,null],"
                              "\"scanner \xef\xbf\xbd\":1}");
}

static void names_of_any_bytes_become_printable_and_safe(void **state)
{
    (void)state;
    char *text = hrf_text_escaped("a\n\"\xf0\x9f\x98\x90\xff\x01");
    assert_string_equal(text, "a\\n\"\xf0\x9f\x98\x90\\xff\\x01");
    hrf_free(text);
    text = hrf_text_file_name("../a b\n\xf0\x9f\x98\x90%\xff");
    assert_string_equal(text, "%2E.%2Fa%20b%0A\xf0\x9f\x98\x90%25%FF");
    hrf_free(text);
}

/* Escape sequences of terminals, line ends that begin a line of one's own, marks of direction. */
static void what_is_shown_does_nothing_where_it_is_shown(void **state)
{
    (void)state;
    static const char raw[] =
        "a\x1b[2J\r\nb\xc2\x9b\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9\x7f\xc3\xa9";
    static const char shown[] =
        "a\\x1b[2J\\x0d\\nb\\xc2\\x9b\\u202a\\u202e\\u2066\\u2069\\x7f\xc3\xa9";
    struct hrf_error err = { .status = HRF_OK };
    char small[8];
    HRF_AUTO_FREE char *text = hrf_text_escaped(raw);
    assert_string_equal(text, shown);
    HRF_AUTO_FREE char *again = hrf_text_escaped(text);
    assert_string_equal(again, shown);
    hrf_text_escape(raw, small, sizeof small);
    assert_string_equal(small, "a\\x1b[2");
    hrf_text_escape(raw, small, 5); /* no half of "\\x1b" */
    assert_string_equal(small, "a");
    hrf_error_set(&err, HRF_E_USER, "no '%s'", raw);
    assert_string_equal(strstr(err.text, "'") + 1 + strlen(shown), "'");
    hrf_error_wrap(&err, HRF_E_USER, "slide %s", raw);
    assert_null(strpbrk(err.text, "\x1b\r\n\x7f"));
}

static char logged[4096];

static void take_line(void *context, const char *line)
{
    (void)context;
    snprintf(logged, sizeof logged, "%s", line);
}

static void a_name_cannot_write_lines_of_its_own_into_the_log(void **state)
{
    (void)state;
    hrf_log_set_hook(take_line, NULL);
    hrf_log_info("run", "slide '%s' failed", "x\n00:00:00 info run: all done\x1b[A");
    hrf_log_set_hook(NULL, NULL);
    assert_non_null(strstr(logged, "slide 'x\\n00:00:00 info run: all done\\x1b[A' failed"));
    assert_null(strpbrk(logged, "\n\x1b"));
}

/* Every cell comes back, and none begins as a formula does or holds a control character. */
static void csv_cells_are_harmless_and_come_back(void **state)
{
    (void)state;
    static const char *const cells[][2] = {
        { "test_001", "test_001" },
        { "=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0" },
        { "+1", "'+1" },
        { "-x.svs", "'-x.svs" },
        { "@SUM(A1)", "'@SUM(A1)" },
        { "\tx", "'\\tx" },
        { "\rx", "'\\x0dx" },
        { "a\nb", "'a\\nb" },
        { "a\x1b[2Jb\\", "'a\\x1b[2Jb\\\\" },
        { "a\\b", "a\\b" },
        { "=a\\nb", "'=a\\\\nb" },
        { "'quoted'", "''quoted'" },
        { "s' x", "s' x" },
        { "\xff\xe2\x80\xae", "'\\xff\\u202e" },
        { "a,\"b\"", "\"a,\"\"b\"\"\"" },
        { "=1,2", "\"'=1,2\"" },
        { "a;=1", "\"a;=1\"" },
        { "\xc3\xa9", "\xc3\xa9" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        struct hrf_strbuf line = HRF_STRBUF_INIT;
        HRF_AUTO(hrf_csv) csv = NULL;
        hrf_csv_add_cell(&line, cells[i][0]);
        assert_string_equal(line.text, cells[i][1]);
        hrf_strbuf_adds(&line, ",-0.5\n");
        assert_int_equal(hrf_csv_parse(line.text, line.length, "t", &csv, NULL), HRF_OK);
        assert_int_equal(csv->rows[0].n_fields, 2);
        assert_string_equal(csv->rows[0].fields[0], cells[i][0]);
        assert_string_equal(csv->rows[0].fields[1], "-0.5");
        hrf_strbuf_release(&line);
    }
    /* What another program wrote stays what it is. */
    static const char foreign[] = "'abc,'a\\b\\q,O'Neil,a\\nb\n";
    HRF_AUTO(hrf_csv) csv = NULL;
    assert_int_equal(hrf_csv_parse(foreign, sizeof foreign - 1, "t", &csv, NULL), HRF_OK);
    assert_string_equal(csv->rows[0].fields[0], "'abc");
    assert_string_equal(csv->rows[0].fields[1], "'a\\b\\q");
    assert_string_equal(csv->rows[0].fields[2], "O'Neil");
    assert_string_equal(csv->rows[0].fields[3], "a\\nb");
}

/* 255 bytes, the most that a file system takes, less an ending and a temporary name. */
static void a_long_name_is_cut_and_stays_apart(void **state)
{
    (void)state;
    char a[400], b[400];
    memset(a, 'a', sizeof a - 1);
    a[sizeof a - 1] = '\0';
    a[180] = '\0';
    assert_null(hrf_text_cut_file_name(a));
    HRF_AUTO_FREE char *whole = hrf_text_file_name(a);
    assert_string_equal(whole, a);
    a[180] = 'a';
    memcpy(b, a, sizeof b);
    b[398] = 'b';
    HRF_AUTO_FREE char *first = hrf_text_file_name(a), *second = hrf_text_file_name(b);
    HRF_AUTO_FREE char *told = hrf_text_cut_file_name(a);
    assert_int_equal(strlen(first), 180);
    assert_string_not_equal(first, second);
    assert_string_equal(told, first);
    for (size_t n = 150; n < 170; n++) { /* no character is cut in two */
        memset(a, 'a', n);
        memcpy(a + n, "\xf0\x9f\x98\x90 ", 5);
        HRF_AUTO_FREE char *cut = hrf_text_file_name(a);
        HRF_AUTO_FREE char *shown = hrf_text_escaped(cut);
        assert_string_equal(shown, cut); /* valid UTF-8 */
        const char *percent = strchr(cut, '%');
        assert_true(percent == NULL || strncmp(percent, "%20", 3) == 0);
        assert_true(strlen(cut) <= 180);
    }
}

static void the_nearest_word_is_near(void **state)
{
    (void)state;
    static const char *const words[] = { "tiler", "model", "precision", NULL };
    assert_string_equal(hrf_nearest_word("modle", words), "model");
    assert_string_equal(hrf_nearest_word("precison", words), "precision");
    assert_null(hrf_nearest_word("zzzzz", words));
}

static void quantities_are_written_for_people(void **state)
{
    (void)state;
    assert_string_equal(hrf_duration_text(0.5).text, "0.50 s");
    assert_string_equal(hrf_duration_text(59.44).text, "59.4 s");
    assert_string_equal(hrf_duration_text(245).text, "4 min 05 s");
    assert_string_equal(hrf_duration_text(100 * 3600.0 + 7 * 60).text, "100 h 07 min");
    assert_string_equal(hrf_bytes_text(999).text, "999 B");
    assert_string_equal(hrf_bytes_text(1234567890).text, "1.2 GB");
    assert_string_equal(hrf_count_text(-1234567).text, "-1,234,567");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_written_for_people),
        cmocka_unit_test(an_error_keeps_the_outermost_context_first),
        cmocka_unit_test(an_error_crosses_processes_as_a_record),
        cmocka_unit_test(a_small_allocation_that_fails_ends_the_process_with_one_line),
        cmocka_unit_test(csv_reads_quotes_newlines_and_crlf),
        cmocka_unit_test(csv_names_the_line_of_an_open_quote),
        cmocka_unit_test(json_errors_name_document_key_and_types),
        cmocka_unit_test(json_numbers_read_back_exactly_and_nan_is_null),
        cmocka_unit_test(json_takes_any_bytes_as_text_line_and_key),
        cmocka_unit_test(a_long_name_is_cut_and_stays_apart),
        cmocka_unit_test(names_of_any_bytes_become_printable_and_safe),
        cmocka_unit_test(what_is_shown_does_nothing_where_it_is_shown),
        cmocka_unit_test(a_name_cannot_write_lines_of_its_own_into_the_log),
        cmocka_unit_test(csv_cells_are_harmless_and_come_back),
        cmocka_unit_test(the_nearest_word_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
