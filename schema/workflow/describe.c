/* describe.c - every key of a workflow file as a table for people. */
#include "schema/workflow/keys.h"

#include <stdio.h>
#include <string.h>

static void add_range(const struct hrf_key *key, struct hrf_strbuf *out)
{
    const bool has_most = key->max > 0 && key->max < 1e15;
    if (has_most)
        hrf_strbuf_addf(out, ", %.12g to %.12g", key->min, key->max);
    else
        hrf_strbuf_addf(out, ", at least %.12g", key->min);
}

static void add_kind(const struct hrf_key *key, struct hrf_strbuf *out)
{
    static const char *const kinds[] = {
        [HRF_KEY_INT] = "whole number",
        [HRF_KEY_REAL] = "number",
        [HRF_KEY_BOOL] = "true or false",
        [HRF_KEY_TEXT] = "text",
        [HRF_KEY_PATH] = "path",
        [HRF_KEY_TEXTS] = "list of texts",
        [HRF_KEY_PATHS] = "list of paths",
        [HRF_KEY_SIZE] = "bytes",
        [HRF_KEY_TRIPLE] = "three numbers",
        [HRF_KEY_DURATION] = "duration",
    };
    if (key->type == HRF_KEY_WORD || key->type == HRF_KEY_PRECISIONS) {
        hrf_strbuf_adds(out, key->type == HRF_KEY_PRECISIONS ? "list of " : "");
        for (size_t i = 0; key->words[i] != NULL; i++)
            hrf_strbuf_addf(out, "%s%s", i > 0 ? ", " : "", key->words[i]);
        return;
    }
    hrf_strbuf_adds(out, kinds[key->type]);
    if (key->type == HRF_KEY_INT || key->type == HRF_KEY_REAL || key->type == HRF_KEY_TRIPLE)
        add_range(key, out);
}

void hrf_workflow_describe(struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "| key | value | default | |\n|---|---|---|---|\n"
                         "| `version` | 1 | | required: the version of the file format |\n");
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const struct hrf_key *key = &hrf_keys[i];
        const bool is_needed = strcmp(key->path, "dataset.layout") == 0 ||
                               strcmp(key->path, "model.file") == 0;
        hrf_strbuf_addf(out, "| `%s` | ", key->path);
        add_kind(key, out);
        hrf_strbuf_addf(out, " | %s%s%s | %s%s |\n", key->initial != NULL ? "`" : "",
                        key->initial != NULL ? key->initial : "", key->initial != NULL ? "`" : "",
                        is_needed ? "required: " : "", key->help);
    }
}
