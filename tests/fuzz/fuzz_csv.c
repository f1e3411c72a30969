/* fuzz_csv.c - tables of any bytes are read or refused; what is read, written again with every
 * field in quotes, reads the same. */
#include "base/csv.h"
#include "base/strbuf.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_quoted(const struct hrf_csv *csv, struct hrf_strbuf *out)
{
    for (size_t i = 0; i < csv->n_rows; i++)
        for (size_t k = 0; k < csv->rows[i].n_fields; k++) {
            hrf_strbuf_addc(out, '"');
            for (const char *c = csv->rows[i].fields[k]; *c != '\0'; c++)
                hrf_strbuf_adds(out, *c == '"' ? "\"\"" : (const char[]){ *c, '\0' });
            hrf_strbuf_adds(out, k + 1 < csv->rows[i].n_fields ? "\"," : "\"\r\n");
        }
}

static void compare(const struct hrf_csv *a, const struct hrf_csv *b)
{
    bool same = a->n_rows == b->n_rows;
    for (size_t i = 0; i < a->n_rows && same; i++) {
        same = a->rows[i].n_fields == b->rows[i].n_fields;
        for (size_t k = 0; k < a->rows[i].n_fields && same; k++)
            same = strcmp(a->rows[i].fields[k], b->rows[i].fields[k]) == 0;
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
    write_quoted(csv, &text);
    if (hrf_csv_parse(text.text, text.length, "again.csv", &again, &err) != HRF_OK)
        __builtin_trap(); /* a finding */
    compare(csv, again);
    hrf_strbuf_release(&text);
    return 0;
}
