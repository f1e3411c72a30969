/* workflow.c - a workflow file into the typed struct: defaults, the file, --set, then the checks
 * of check.c. */
#include "schema/workflow/workflow.h"

#include "base/args.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/settings/precision.h"
#include "schema/workflow/reader.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 256 };

/* The two short forms: `spatial: N` stands for N rows, `parallel: auto` lets the plan choose. */
static bool read_short_form(struct hrf_reader *r, const char *path,
                            const struct hrf_yaml_node *node)
{
    if (node->kind != HRF_YAML_SCALAR)
        return false;
    if (strcmp(path, "engine.parallel.spatial") == 0) {
        hrf_reader_value(r, hrf_reader_index(r, "engine.parallel.spatial.rows"), node);
        return true;
    }
    if (strcmp(path, "engine.parallel") == 0 && strcmp(node->text, "auto") == 0) {
        r->workflow->engine.parallel.is_auto = true;
        r->lines[hrf_reader_index(r, "engine.parallel.auto")] = r->is_override ? -1 : node->line;
        return true;
    }
    return false;
}

/* Reports the first part of the path that is unknown there. */
static void unknown_path(struct hrf_reader *r, const char *path)
{
    char prefix[PATH_SIZE] = "", longer[PATH_SIZE];
    for (const char *part = path;;) {
        size_t n = strcspn(part, ".");
        snprintf(longer, sizeof longer, "%.*s", (int)(part - path + (ptrdiff_t)n), path);
        if (part[n] == '\0' || !hrf_reader_is_prefix(r, longer)) {
            const char *name = prefix[0] != '\0' ? longer + strlen(prefix) + 1 : longer;
            hrf_reader_unknown(r, prefix, name, 0, 0);
            return;
        }
        memcpy(prefix, longer, sizeof prefix);
        part += n + 1;
    }
}

static void read_override(struct hrf_reader *r, const char *text, const char *file)
{
    const char *equal = strchr(text, '=');
    char path[PATH_SIZE], where[PATH_SIZE + 16];
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_yaml) yaml = NULL;
    snprintf(path, sizeof path, "%.*s", equal != NULL ? (int)(equal - text) : 0, text);
    const char *anchor = r->anchor;
    hrf_reader_name_override(equal != NULL ? path : text, where, sizeof where);
    r->where = where;
    r->is_override = true;
    r->anchor = r->here;
    if (equal == NULL)
        hrf_reader_find(r, 0, 0, "'%s' is not KEY=VALUE, e.g. engine.batch=64", text);
    else if (hrf_yaml_parse(equal + 1, strlen(equal + 1), where, &yaml, &err) != HRF_OK)
        hrf_reader_find(r, 0, 0, "%s", err.text);
    else if (r->part == HRF_PART_EXECUTOR && strncmp(path, "executor.", 9) != 0)
        hrf_reader_find(r, 0, 0, "only keys of 'executor' can be set here");
    else if (hrf_reader_index(r, path) >= r->table.n && !hrf_reader_is_prefix(r, path))
        unknown_path(r, path);
    else
        hrf_reader_node(r, path, hrf_yaml_root(yaml));
    r->where = file;
    r->is_override = false;
    r->anchor = anchor;
}

static char *join_profile(const char *folder, const char *name)
{
    return name[0] != '\0' ? hrf_path_join(folder, name) : NULL;
}

/* The path of the profile that the overrides or the file name, on the heap; NULL: none. */
static char *find_profile(const struct hrf_reader *r, const struct hrf_yaml_node *root,
                          const char *const overrides[], size_t n_overrides)
{
    static const char key[] = "executor.slurm.profile=";
    for (size_t i = n_overrides; i > 0; i--)
        if (strncmp(overrides[i - 1], key, strlen(key)) == 0)
            return join_profile(r->here, overrides[i - 1] + strlen(key));
    const struct hrf_yaml_node *node = hrf_yaml_find(root, "executor");
    node = node != NULL && node->kind == HRF_YAML_MAP ? hrf_yaml_find(node, "slurm") : NULL;
    node = node != NULL && node->kind == HRF_YAML_MAP ? hrf_yaml_find(node, "profile") : NULL;
    return node != NULL && node->kind == HRF_YAML_SCALAR ? join_profile(r->anchor, node->text)
                                                         : NULL;
}

/* A site's file has keys of executor.slurm. It is read first, so that the workflow's keys override
 * it. Its errors are findings with their own position. */
static void read_profile(struct hrf_reader *r, const char *path)
{
    static const char section[] = "executor.slurm.";
    const char *where = r->where;
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO(hrf_yaml) yaml = NULL;
    struct hrf_error cause = { .status = HRF_OK };
    size_t n_bytes = 0;
    if (hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n_bytes, &cause) != HRF_OK ||
        hrf_yaml_parse(text, n_bytes, path, &yaml, &cause) != HRF_OK) {
        hrf_reader_find(r, 0, 0, "the profile cannot be read: %s", cause.text);
        return;
    }
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    r->where = path;
    if (root->kind != HRF_YAML_MAP)
        hrf_reader_find(r, root->line, root->column,
                        "a profile is a map of the keys of executor.slurm, e.g. 'partition: gpu'");
    else if (hrf_yaml_find(root, "profile") != NULL)
        hrf_reader_find(r, root->line, root->column, "a profile cannot name another profile");
    else
        hrf_reader_map(r, "executor.slurm", root);
    r->where = where;
    for (size_t i = 0; i < hrf_n_settings; i++) /* the value was set by the profile, not here */
        if (strncmp(hrf_settings[i].key, section, strlen(section)) == 0)
            r->lines[i] = 0;
}

static enum hrf_status read_all(struct hrf_reader *r, const char *text, size_t n_bytes,
                                const char *path, const char *const overrides[], size_t n_overrides,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    struct hrf_error cause = { .status = HRF_OK };
    HRF_TRY(hrf_reader_defaults(r, err));
    enum hrf_status status = hrf_yaml_parse(text, n_bytes, path, &yaml, &cause);
    if (status == HRF_E_USER) { /* the text already contains the position */
        size_t n = strlen(path);
        char *rest = cause.text, *end = rest;
        bool own = strncmp(rest, path, n) == 0 && rest[n] == ':';
        long line = own ? strtol(rest + n + 1, &end, 10) : 0, column = 0;
        if (line > 0 && *end == ':')
            column = strtol(end + 1, &end, 10);
        rest = line > 0 && end[0] == ':' && end[1] == ' ' ? end + 2 : rest;
        hrf_reader_find(r, (int)line, (int)column, "%s", rest);
        return HRF_OK;
    }
    if (status != HRF_OK) {
        if (err != NULL)
            *err = cause;
        return status;
    }
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    if (!hrf_reader_begin(r, "a workflow", root))
        return HRF_OK;
    HRF_AUTO_FREE char *profile = find_profile(r, root, overrides, n_overrides);
    if (profile != NULL)
        read_profile(r, profile);
    hrf_reader_map(r, "", root);
    for (size_t i = 0; i < n_overrides; i++)
        read_override(r, overrides[i], path);
    hrf_workflow_check(r);
    return HRF_OK;
}

static struct hrf_setting_table table_of_settings(void)
{
    return (struct hrf_setting_table){ hrf_settings, hrf_n_settings };
}

enum hrf_status hrf_workflow_create(struct hrf_workflow **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = hrf_calloc(1, sizeof *workflow);
    HRF_AUTO_RELEASE(hrf_reader) reader;
    hrf_reader_init(&reader, table_of_settings(), workflow, "default", ".");
    reader.workflow = workflow;
    HRF_TRY(hrf_reader_defaults(&reader, err));
    HRF_MOVE(*out, workflow);
    return HRF_OK;
}

static enum hrf_status parse(const char *text, size_t n_bytes, const char *path,
                             const char *const overrides[], size_t n_overrides,
                             enum hrf_reader_part part, struct hrf_workflow **out,
                             struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = hrf_calloc(1, sizeof *workflow);
    HRF_AUTO_FREE char *anchor = NULL, *here = NULL;
    HRF_AUTO_RELEASE(hrf_reader) reader = { .lines = NULL };
    HRF_TRY(hrf_path_absolute(path, &workflow->path, err));
    HRF_TRY(hrf_path_absolute(".", &here, err));
    anchor = hrf_path_directory(workflow->path);
    hrf_reader_init(&reader, table_of_settings(), workflow, path, anchor);
    reader.workflow = workflow;
    reader.here = here;
    reader.part = part;
    reader.read_short_form = read_short_form;
    HRF_TRY(read_all(&reader, text, n_bytes, path, overrides, n_overrides, err));
    const enum hrf_status end = hrf_reader_finish(&reader, findings, err);
    if (end == HRF_OK || (end == HRF_E_USER && part == HRF_PART_TO_CHECK))
        HRF_MOVE(*out, workflow);
    return end;
}

enum hrf_status hrf_workflow_parse_tiler(const char *const overrides[], size_t n_overrides,
                                         struct hrf_workflow **out, struct hrf_findings *findings,
                                         struct hrf_error *err)
{
    static const char text[] = "version: 1\n";
    return parse(text, sizeof text - 1, "options", overrides, n_overrides, HRF_PART_TILER, out,
                 findings, err);
}

enum hrf_status hrf_workflow_parse(const char *text, size_t n_bytes, const char *path,
                                   const char *const overrides[], size_t n_overrides,
                                   struct hrf_workflow **out, struct hrf_findings *findings,
                                   struct hrf_error *err)
{
    return parse(text, n_bytes, path, overrides, n_overrides, HRF_PART_WHOLE, out, findings, err);
}

static enum hrf_status load(const char *path, const char *const overrides[], size_t n_overrides,
                            enum hrf_reader_part part, struct hrf_workflow **out,
                            struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n_bytes, err));
    return parse(text, n_bytes, path, overrides, n_overrides, part, out, findings, err);
}

enum hrf_status hrf_workflow_load(const char *path, const char *const overrides[],
                                  size_t n_overrides, struct hrf_workflow **out,
                                  struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, HRF_PART_WHOLE, out, findings, err);
}

enum hrf_status hrf_workflow_load_with_errors(const char *path, const char *const overrides[],
                                              size_t n_overrides, struct hrf_workflow **out,
                                              struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, HRF_PART_TO_CHECK, out, findings, err);
}

enum hrf_status hrf_workflow_load_of_run(const char *path, const char *const overrides[],
                                         size_t n_overrides, struct hrf_workflow **out,
                                         struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, HRF_PART_OF_A_RUN, out, findings, err);
}

enum hrf_status hrf_workflow_load_executor(const char *path, const char *const overrides[],
                                           size_t n_overrides, struct hrf_workflow **out,
                                           struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, HRF_PART_EXECUTOR, out, findings, err);
}

enum hrf_status hrf_workflow_parse_executor(const char *text, size_t n_bytes, const char *path,
                                            struct hrf_workflow **out,
                                            struct hrf_findings *findings, struct hrf_error *err)
{
    return parse(text, n_bytes, path, NULL, 0, HRF_PART_EXECUTOR, out, findings, err);
}
