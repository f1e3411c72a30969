/* fuzz_csv.c - tables of any bytes are read or refused; what is read, written again by
 * hrf_csv_add_cell(), reads the same. */
#include "base/csv.h"
#include "base/strbuf.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With a line of titles, as every table that the programs write has. */
static void write(const struct hrf_csv *csv, struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "titles\r\n");
    for (size_t i = 0; i < csv->n_rows; i++)
        for (size_t k = 0; k < csv->rows[i].n_fields; k++) {
            if (csv->rows[i].fields[k][0] == '\0')
                hrf_strbuf_adds(out, "\"\""); /* a line of nothing would be no row */
            else
                hrf_csv_add_cell(out, csv->rows[i].fields[k]);
            hrf_strbuf_adds(out, k + 1 < csv->rows[i].n_fields ? "," : "\r\n");
        }
}

/* b: a with titles. */
static void compare(const struct hrf_csv *a, const struct hrf_csv *b)
{
    bool same = a->n_rows + 1 == b->n_rows;
    for (size_t i = 0; i < a->n_rows && same; i++) {
        same = a->rows[i].n_fields == b->rows[i + 1].n_fields;
        for (size_t k = 0; k < a->rows[i].n_fields && same; k++)
            same = strcmp(a->rows[i].fields[k], b->rows[i + 1].fields[k]) == 0;
    }
    if (!same)
        __builtin_trap(); /* a finding */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_AUTO(hrf_csv) again = NULL;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    struct hrf_error err;
    if (hrf_csv_parse((const char *)data, size, "fuzz.csv", &csv, &err) != HRF_OK)
        return 0;
    write(csv, &text);
    if (hrf_csv_parse(text.text, text.length, "again.csv", &again, &err) != HRF_OK)
        __builtin_trap(); /* a finding */
    compare(csv, again);
    hrf_strbuf_release(&text);
    return 0;
}
