/* describe.c - the keys of a file as a table for people. */
#include "schema/workflow/workflow.h"

void hrf_settings_describe(struct hrf_setting_table table, struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "| key | value | default | |\n|---|---|---|---|\n"
                         "| `version` | 1 | | required: the version of the file format |\n");
    for (size_t i = 0; i < table.n; i++) {
        const struct hrf_setting *key = &table.rows[i];
        const char *quote = key->initial != NULL ? "`" : "";
        hrf_strbuf_addf(out, "| `%s` | ", key->key);
        hrf_setting_add_type(key, out);
        hrf_strbuf_addf(out, " | %s%s%s | %s%s |\n", quote,
                        key->initial != NULL ? key->initial : "", quote,
                        (key->flags & HRF_SETTING_REQUIRED) != 0 ? "required: " : "", key->help);
    }
}
