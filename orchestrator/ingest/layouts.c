/* layouts.c - the layouts `files` and `csv`. */
#include "aggregate/camelyon16/asap.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/message.h"
#include "base/path.h"
#include "orchestrator/ingest/ingest_private.h"
#include "orchestrator/ingest/slide_folder.h"
#include "tiler/slide/slide.h"

#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool has_wildcard(const char *pattern)
{
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        else if (strchr("*?[", *at) != NULL)
            return true;
    }
    return false;
}

static enum hrf_status take_slide(void *context, const char *path, struct hrf_error *err)
{
    (void)err;
    ingest_add(context, path);
    return HRF_OK;
}

/* A folder that is named gives its slides; one that a pattern matches does if subfolders are asked
 * for. */
static enum hrf_status add_match(struct ingest *ingest, const char *pattern, const char *path,
                                 struct hrf_skipped_files *passed, struct hrf_error *err)
{
    const bool is_recursive = ingest->dataset->recursive;
    const size_t before = ingest->rows.n_items;
    if (!hrf_path_is_directory(path)) {
        ingest_add(ingest, path);
        return HRF_OK;
    }
    if (has_wildcard(pattern) && !is_recursive) {
        passed->n_folders++;
        return HRF_OK;
    }
    const int64_t n_folders = passed->n_folders;
    HRF_TRY(hrf_slide_folder_list(path, is_recursive, take_slide, ingest, passed, err));
    if (has_wildcard(pattern) || ingest->rows.n_items > before)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER, "%s.files: folder '%s' contains no slide%s",
                         ingest->section, path,
                         passed->n_folders > n_folders
                             ? ", only folders; set recursive (infer --recursive) to search them"
                             : "");
}

static void warn_of_passed_over(struct ingest *ingest, const struct hrf_skipped_files *passed)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_skipped_files_text(passed, &text);
    if (text.length > 0)
        ingest_warn(ingest, "%s.files: passed over: %s%s", ingest->section, text.text,
                    passed->n_folders > 0 ? " (recursive: true searches folders)" : "");
}

enum hrf_status ingest_files(struct ingest *ingest, struct hrf_error *err)
{
    struct hrf_skipped_files passed = { .n_kinds = 0 };
    const struct hrf_text_list *globs = &ingest->dataset->files;
    for (size_t i = 0; i < globs->n_items; i++) {
        glob_t found;
        errno = 0;
        int code = glob(globs->items[i], GLOB_ERR, NULL, &found);
        const int why = errno;
        if (code == GLOB_NOSPACE)
            hrf_out_of_memory(strlen(globs->items[i]));
        /* With GLOB_ERR, glob() fails both at folders that do not exist and at those that may not
         * be read. */
        char key[64], name[64];
        snprintf(key, sizeof key, "%s.files", ingest->section);
        hrf_message_name(key, name, sizeof name);
        if (code == GLOB_NOMATCH || (code != 0 && (why == ENOENT || why == ENOTDIR)))
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: '%s' matches no file (of slides that were moved, the new "
                                 "place is given by --set %s.files=PATH)",
                                 name, globs->items[i], ingest->section);
        if (code != 0)
            return hrf_error_set_errno(err, why, "%s: '%s': a folder cannot be read", name,
                                       globs->items[i]);
        enum hrf_status status = HRF_OK;
        for (size_t k = 0; k < found.gl_pathc && status == HRF_OK; k++)
            status = add_match(ingest, globs->items[i], found.gl_pathv[k], &passed, err);
        globfree(&found);
        HRF_TRY(status);
    }
    warn_of_passed_over(ingest, &passed);
    return HRF_OK;
}

struct columns {
    int slide, label, mpp, annotation; /* -1 = not there */
};

static const char header[] = "the header is slide,label[,mpp][,annotation]";

/* The mistakes of a label file: the first few are findings, the others are only counted.
 */
struct mistakes {
    const char *path;
    struct hrf_findings *findings;
    int n;
};
enum { SHOWN = 4 };

static void HRF_PRINTF(3, 4) note(struct mistakes *mistakes, int line, const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (++mistakes->n > SHOWN)
        return;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&text, format, args);
    va_end(args);
    hrf_findings_add(mistakes->findings, mistakes->path, line, text.text);
}

/* True if all required columns are there. */
static bool find_columns(const struct hrf_csv *csv, struct columns *out, struct mistakes *mistakes)
{
    *out = (struct columns){ -1, -1, -1, -1 };
    const int before = mistakes->n;
    const struct hrf_csv_row *row = csv->n_rows > 0 ? &csv->rows[0] : NULL;
    for (size_t i = 0; row != NULL && i < row->n_fields; i++) {
        const char *name = row->fields[i];
        int *column = strcasecmp(name, "slide") == 0        ? &out->slide
                      : strcasecmp(name, "label") == 0      ? &out->label
                      : strcasecmp(name, "mpp") == 0        ? &out->mpp
                      : strcasecmp(name, "annotation") == 0 ? &out->annotation
                                                            : NULL;
        if (column != NULL && *column < 0)
            *column = (int)i;
        else if (strpbrk(name, ";\t") != NULL)
            note(mistakes, row->line, "column '%s' is not known: columns are separated by ','; %s",
                 name, header);
        else
            note(mistakes, row->line, "column '%s' is %s; %s", name,
                 column == NULL ? "not known" : "there twice", header);
    }
    if (mistakes->n == before && (out->slide < 0 || out->label < 0))
        note(mistakes, row != NULL ? row->line : 1, "there is no column '%s'; %s",
             out->slide < 0 ? "slide" : "label", header);
    return mistakes->n == before;
}

static char *beside(const char *csv_path, const char *name)
{
    HRF_AUTO_FREE char *directory = hrf_path_directory(csv_path);
    return hrf_path_join(directory, name);
}

static void read_mpp(const char *text, const struct hrf_csv_row *line, struct hrf_slide_row *row,
                     struct mistakes *mistakes)
{
    char *end;
    if (text[0] == '\0')
        return;
    row->mpp_csv = strtod(text, &end);
    if (end == text || *end != '\0')
        note(mistakes, line->line, "mpp '%s' is not a number of um/px", text);
    else if (!(row->mpp_csv >= HRF_MPP_MIN && row->mpp_csv <= HRF_MPP_MAX))
        note(mistakes, line->line, "mpp '%s' cannot be right; %g to %g um/px are accepted", text,
             HRF_MPP_MIN, HRF_MPP_MAX);
}

enum hrf_status hrf_ingest_check_annotation(const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_outlines) outlines = NULL;
    return hrf_annotation_is_mask(path) ? hrf_file_check(path, err)
                                        : hrf_outlines_read(path, &outlines, err);
}

static void note_label(const struct ingest *ingest, const char *label,
                       const struct hrf_csv_row *line, struct mistakes *mistakes)
{
    HRF_AUTO_RELEASE(hrf_strbuf) classes = HRF_STRBUF_INIT;
    if (ingest->model != NULL && ingest->model->output == HRF_OUTPUT_NONE) {
        note(mistakes, line->line, "label '%s' is not a number, which model.output 'none' needs",
             label);
        return;
    }
    if (ingest->model != NULL && ingest->model->output == HRF_OUTPUT_SIGMOID &&
        ingest->model->classes.n_items > 1) {
        note(mistakes, line->line,
             "label '%s' is not a list of classes of model.classes with ';' between them, e.g. "
             "'%s;%s', nor 'none'",
             label, ingest->model->classes.items[0], ingest->model->classes.items[1]);
        return;
    }
    for (size_t i = 0; ingest->model != NULL && i < ingest->model->classes.n_items; i++)
        hrf_strbuf_addf(&classes, "%s, ", ingest->model->classes.items[i]);
    note(mistakes, line->line, "label '%s' is not known; use %s1, 0 or leave it empty", label,
         classes.text);
}

/* Adds the slide of a line, also of one with mistakes. */
static void add_line(struct ingest *ingest, const char *path, size_t n_columns,
                     const struct columns *columns, const struct hrf_csv_row *line,
                     struct mistakes *mistakes)
{
    const char *slide = hrf_csv_cell(line, columns->slide),
               *label = hrf_csv_cell(line, columns->label);
    const char *annotation = hrf_csv_cell(line, columns->annotation);
    struct hrf_error why = { .status = HRF_OK };
    bool known;
    if (slide[0] == '\0') {
        note(mistakes, line->line, "the slide is empty");
        return;
    }
    if (line->n_fields >
        n_columns) /* after an unquoted comma in a name all later columns are wrong */
        note(mistakes, line->line, "%zu fields, the header has %zu; quote a text that has a comma",
             line->n_fields, n_columns);
    HRF_AUTO_FREE char *full = beside(path, slide);
    struct hrf_slide_row *row = ingest_add(ingest, full);
    row->truth = ingest_label(ingest, label, &known);
    row->label_text = label[0] != '\0' ? hrf_strdup(label) : NULL;
    if (!known)
        note_label(ingest, label, line, mistakes);
    read_mpp(hrf_csv_cell(line, columns->mpp), line, row, mistakes);
    if (annotation[0] != '\0') {
        row->annotation = beside(path, annotation);
        /* It is reported before a run, not missed after it. */
        if (hrf_ingest_check_annotation(row->annotation, &why) != HRF_OK)
            note(mistakes, line->line, "the annotation cannot be used: %s", why.text);
    }
}

enum hrf_status ingest_csv_read(struct ingest *ingest, struct hrf_findings *findings,
                                struct hrf_error *err)
{
    const char *path = ingest->dataset->csv;
    HRF_AUTO(hrf_csv) csv = NULL;
    struct columns columns;
    struct mistakes mistakes = { .path = path, .findings = findings };
    HRF_TRY(hrf_csv_read(path, &csv, err));
    if (find_columns(csv, &columns, &mistakes))
        for (size_t i = 1; i < csv->n_rows; i++)
            add_line(ingest, path, csv->rows[0].n_fields, &columns, &csv->rows[i], &mistakes);
    if (mistakes.n > SHOWN) {
        HRF_AUTO_FREE char *rest = hrf_format("(and %d more)", mistakes.n - SHOWN);
        hrf_findings_add(findings, path, 0, rest);
    }
    return HRF_OK;
}

enum hrf_status ingest_csv(struct ingest *ingest, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_TRY(ingest_csv_read(ingest, &findings, err));
    if (findings.n_items > 0)
        HRF_TRY(hrf_error_set(err, HRF_E_USER, "%.*s", (int)findings.text.length - 1,
                              findings.text.text));
    return HRF_OK;
}
