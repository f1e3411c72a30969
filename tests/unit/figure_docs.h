/* figure_docs.h - the tables of figures in docs/, which are written from the rows of figures. */
#ifndef HRF_TESTS_UNIT_FIGURE_DOCS_H
#define HRF_TESTS_UNIT_FIGURE_DOCS_H

#include "base/file.h"
#include "base/strbuf.h"
#include "statistics/figure.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* "| `timing`: `decode` | `decode_seconds` | s | ↓ | reading and decompressing |" */
static void docs_add_figure(struct hrf_strbuf *out, const char *object,
                            const struct hrf_figure_row *row)
{
    static const char *const directions[] = { "", "", "↑", "↓" };
    const char *csv = hrf_figure_csv_name(row);
    hrf_strbuf_adds(out, "| ");
    if ((row->shown & HRF_IN_JSON) != 0) {
        hrf_strbuf_addf(out, object[0] != '\0' ? "`%s`: " : "%s", object);
        hrf_strbuf_addf(out, "`%s`", row->key);
        if (row->interval_at > 0)
            hrf_strbuf_addf(out, ", `%s_ci`", row->key);
    }
    hrf_strbuf_adds(out, " | ");
    if ((row->shown & HRF_IN_CSV) != 0)
        hrf_strbuf_addf(out, "`%s`", csv);
    if ((row->shown & HRF_IN_CSV) != 0 && row->interval_at > 0)
        hrf_strbuf_addf(out, ", `%s_low`, `%s_high`", csv, csv);
    hrf_strbuf_addf(out, " | %s | %s | %s |\n", hrf_unit_symbol(row->unit), directions[row->better],
                    row->help);
}

/* Fails if the page does not have these rows between its two marks; HRF_REFRESH_GOLDEN=1 writes
 * them. */
static void docs_compare(const char *path, const char *test, const char *heading,
                         const struct hrf_strbuf *rows)
{
    static const char end[] = "<!-- end of figures -->";
    HRF_AUTO_FREE char *begin = hrf_format(
        "<!-- figures: written by %s from the rows of figures -->\n", test);
    HRF_AUTO_RELEASE(hrf_strbuf) wanted = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *page = NULL;
    struct hrf_error err;
    size_t n = 0;
    assert_int_equal(hrf_file_read(path, (size_t)1 << 20, &page, &n, &err), HRF_OK);
    const char *from = strstr(page, begin), *to = strstr(page, end);
    assert_true(from != NULL && to != NULL);
    hrf_strbuf_add(&wanted, page, (size_t)(from - page) + strlen(begin));
    hrf_strbuf_addf(&wanted, "%s\n|---|---|---|---|---|\n%s%s", heading, rows->text, to);
    if (getenv("HRF_REFRESH_GOLDEN") != NULL)
        assert_int_equal(hrf_file_write_atomic(path, wanted.text, wanted.length, &err), HRF_OK);
    else if (strcmp(page, wanted.text) != 0)
        fail_msg("%s is not what the rows of figures say: HRF_REFRESH_GOLDEN=1 writes it", path);
}

#endif
