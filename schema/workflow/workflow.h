/* workflow.h - reads the workflow file with every check, writes it, and describes it.
 *
 * The settings themselves are schema/settings/settings.h. Paths are relative to the file that names
 * them, and absolute after loading.
 */
#ifndef HRF_SCHEMA_WORKFLOW_WORKFLOW_H
#define HRF_SCHEMA_WORKFLOW_WORKFLOW_H

#include "schema/settings/settings.h"

struct hrf_finding {
    int line, column; /* from 1; 0 = about something that is not there, or about a --set */
    char *where;      /* the file, "--set KEY", or a table that the workflow names */
    char *message;    /* "what is wrong; what would be right" */
};

/* All that is wrong with a file, in file order. `text` is printable: one finding per line,
 * "where:line:column: message". */
struct hrf_findings {
    struct hrf_finding *items;
    size_t n_items, capacity;
    struct hrf_strbuf text;
};
#define HRF_FINDINGS_INIT                                                                          \
    {                                                                                              \
        .text = HRF_STRBUF_INIT                                                                    \
    }
void hrf_findings_release(struct hrf_findings *findings);
/* Adds a finding about another file, and its line of `text`. line 0: about the whole file. */
void hrf_findings_add(struct hrf_findings *findings, const char *where, int line,
                      const char *message);

/* `overrides`: n texts "key.path=value" from --set, checked like the file ("--set key.path").
 * HRF_E_USER with *findings filled when the file has errors. Files that the workflow names (the
 * model) are checked for existence. */
HRF_CHECKED enum hrf_status hrf_workflow_load(const char *path, const char *const overrides[],
                                              size_t n_overrides, struct hrf_workflow **out,
                                              struct hrf_findings *findings, struct hrf_error *err);
/* hrf_workflow_load() for `check`: *out is also set for a file with findings, with what could be
 * read, so that the files that it names can be checked, too. */
HRF_CHECKED enum hrf_status
hrf_workflow_load_with_errors(const char *path, const char *const overrides[], size_t n_overrides,
                              struct hrf_workflow **out, struct hrf_findings *findings,
                              struct hrf_error *err);
/* Loads the workflow.yaml of an existing run: the model that it names may be gone. */
HRF_CHECKED enum hrf_status hrf_workflow_load_of_run(const char *path,
                                                     const char *const overrides[],
                                                     size_t n_overrides, struct hrf_workflow **out,
                                                     struct hrf_findings *findings,
                                                     struct hrf_error *err);
/* hrf_workflow_load() from memory; `path` names the text in messages and anchors relative paths. */
HRF_CHECKED enum hrf_status hrf_workflow_parse(const char *text, size_t n_bytes, const char *path,
                                               const char *const overrides[], size_t n_overrides,
                                               struct hrf_workflow **out,
                                               struct hrf_findings *findings,
                                               struct hrf_error *err);
/* Creates a workflow in code, with the default of every key that has one. It is not checked, and
 * owns what is set in it. */
HRF_CHECKED enum hrf_status hrf_workflow_create(struct hrf_workflow **out, struct hrf_error *err);

/* Parses settings of the tiler alone from texts "key=value": neither a dataset nor a model is
 * needed. */
HRF_CHECKED enum hrf_status hrf_workflow_parse_tiler(const char *const overrides[],
                                                     size_t n_overrides, struct hrf_workflow **out,
                                                     struct hrf_findings *findings,
                                                     struct hrf_error *err);

/* Reads the section `executor` of a file that is no workflow (the recipe of `train`), or that need
 * not be a valid one; `overrides` as above, of that section alone. All else has its default. */
HRF_CHECKED enum hrf_status
hrf_workflow_load_executor(const char *path, const char *const overrides[], size_t n_overrides,
                           struct hrf_workflow **out, struct hrf_findings *findings,
                           struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_workflow_parse_executor(const char *text, size_t n_bytes,
                                                        const char *path, struct hrf_workflow **out,
                                                        struct hrf_findings *findings,
                                                        struct hrf_error *err);

/* Writes the resolved form, with every key and absolute paths. Loading it gives an equal struct. */
void hrf_workflow_write(const struct hrf_workflow *workflow, struct hrf_strbuf *out);
/* Writes the keys that differ from `defaults`. */
void hrf_workflow_write_changes(const struct hrf_workflow *workflow,
                                const struct hrf_workflow *defaults, struct hrf_strbuf *out);
/* Writes the keys in which two workflows differ, one a line: "tiler.patch.size: 256, was 128". */
void hrf_workflow_differences(const struct hrf_workflow *now, const struct hrf_workflow *before,
                              struct hrf_strbuf *out);
/* Writes the JSON Schema (draft 2020-12) of the file, which is made from the rows that also check
 * it. */
void hrf_workflow_json_schema(struct hrf_strbuf *out);
/* A Markdown table of every key: what it takes, its default, what it is. */
void hrf_settings_describe(struct hrf_setting_table table, struct hrf_strbuf *out);
/* What this build cannot run yet, one sentence per line naming the key and its value; empty
 * when it can run all of it. `run` refuses a workflow for which this is not empty. */
void hrf_workflow_unsupported(const struct hrf_workflow *workflow, struct hrf_strbuf *out);

#endif
