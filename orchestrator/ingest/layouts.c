/* layouts.c - the layouts `files` and `csv`. */
#include "base/csv.h"
#include "base/path.h"
#include "orchestrator/ingest/ingest_private.h"
#include "orchestrator/ingest/slide_folder.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
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
    return ingest_add(context, path, NULL, err);
}

/* A folder that is named gives its slides; one that a pattern matches does if subfolders are asked
 * for. */
static enum hrf_status add_match(struct ingest *ingest, const char *pattern, const char *path,
                                 struct hrf_passed_over *passed, struct hrf_error *err)
{
    const bool is_recursive = ingest->dataset->recursive;
    const size_t before = ingest->rows.n_items;
    if (!hrf_path_is_directory(path))
        return ingest_add(ingest, path, NULL, err);
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

static void tell_passed_over(struct ingest *ingest, const struct hrf_passed_over *passed)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_passed_over_text(passed, &text);
    if (text.length > 0)
        ingest_warn(ingest, "%s.files: passed over: %s%s", ingest->section, text.text,
                    passed->n_folders > 0 ? " (recursive: true searches folders)" : "");
    hrf_strbuf_release(&text);
}

enum hrf_status ingest_files(struct ingest *ingest, struct hrf_error *err)
{
    struct hrf_passed_over passed = { .n_kinds = 0 };
    const struct hrf_text_list *globs = &ingest->dataset->files;
    for (size_t i = 0; i < globs->n_items; i++) {
        glob_t found;
        errno = 0;
        int code = glob(globs->items[i], GLOB_ERR, NULL, &found);
        const int why = errno;
        if (code == GLOB_NOSPACE)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory for what '%s' matches",
                                 globs->items[i]);
        /* With GLOB_ERR, glob() fails both at folders that do not exist and at those that may not
         * be read. */
        if (code == GLOB_NOMATCH || (code != 0 && (why == ENOENT || why == ENOTDIR)))
            return hrf_error_set(err, HRF_E_USER, "%s.files: '%s' matches no file", ingest->section,
                                 globs->items[i]);
        if (code != 0)
            return hrf_error_set_errno(err, why, "%s.files: '%s': a folder cannot be read",
                                       ingest->section, globs->items[i]);
        enum hrf_status status = HRF_OK;
        for (size_t k = 0; k < found.gl_pathc && status == HRF_OK; k++)
            status = add_match(ingest, globs->items[i], found.gl_pathv[k], &passed, err);
        globfree(&found);
        HRF_TRY(status);
    }
    tell_passed_over(ingest, &passed);
    return HRF_OK;
}

struct columns {
    int slide, label, mpp, annotation; /* -1 = not there */
};

static enum hrf_status find_columns(const struct hrf_csv *csv, const char *path,
                                    struct columns *out, struct hrf_error *err)
{
    *out = (struct columns){ -1, -1, -1, -1 };
    const struct hrf_csv_row *row = csv->n_rows > 0 ? &csv->rows[0] : NULL;
    for (size_t i = 0; row != NULL && i < row->n_fields; i++) {
        int *place = strcasecmp(row->fields[i], "slide") == 0        ? &out->slide
                     : strcasecmp(row->fields[i], "label") == 0      ? &out->label
                     : strcasecmp(row->fields[i], "mpp") == 0        ? &out->mpp
                     : strcasecmp(row->fields[i], "annotation") == 0 ? &out->annotation
                                                                     : NULL;
        if (place == NULL || *place >= 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s:%d: column '%s' is %s; the header is "
                                 "slide,label[,mpp][,annotation]",
                                 path, row->line, row->fields[i],
                                 place == NULL ? "not known" : "there twice");
        *place = (int)i;
    }
    if (out->slide < 0 || out->label < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: the first line must be the header slide,label[,mpp]"
                             "[,annotation]",
                             path);
    return HRF_OK;
}

static const char *field(const struct hrf_csv_row *row, int column)
{
    return column >= 0 && (size_t)column < row->n_fields ? row->fields[column] : "";
}

static char *beside(const char *csv_path, const char *name)
{
    HRF_AUTO_FREE char *directory = hrf_path_directory(csv_path);
    return directory != NULL ? hrf_path_join(directory, name) : NULL;
}

/* Collects what is wrong with the lines of a label file: the first few as text, the rest as a
 * number. */
enum { SHOWN = 4 };
struct wrong {
    const char *path;
    struct hrf_strbuf text;
    int n;
};

static void HRF_PRINTF(3, 4)
    note(struct wrong *wrong, const struct hrf_csv_row *line, const char *format, ...)
{
    if (++wrong->n > SHOWN)
        return;
    hrf_strbuf_addf(&wrong->text, "%s%s:%d: ", wrong->n > 1 ? "\n" : "", wrong->path, line->line);
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&wrong->text, format, args);
    va_end(args);
}

static enum hrf_status tell_wrong(struct wrong *wrong, struct hrf_error *err)
{
    if (wrong->n > SHOWN)
        hrf_strbuf_addf(&wrong->text, "\n(and %d more)", wrong->n - SHOWN);
    enum hrf_status status = wrong->n > 0 ? hrf_error_set(err, HRF_E_USER, "%s", wrong->text.text)
                                          : HRF_OK;
    hrf_strbuf_release(&wrong->text);
    return status;
}

static void read_mpp(const char *text, const struct hrf_csv_row *line, struct hrf_slide_row *row,
                     struct wrong *wrong)
{
    char *end;
    if (text[0] == '\0')
        return;
    row->mpp_csv = strtod(text, &end);
    if (end == text || *end != '\0' || !(row->mpp_csv > 0) || !isfinite(row->mpp_csv))
        note(wrong, line, "mpp '%s' is not a number of um/px", text);
}

static void note_label(const struct ingest *ingest, const char *label,
                       const struct hrf_csv_row *line, struct wrong *wrong)
{
    struct hrf_strbuf classes = HRF_STRBUF_INIT;
    if (ingest->model != NULL && ingest->model->output == HRF_OUTPUT_NONE) {
        note(wrong, line, "label '%s' is not a number, which model.output 'none' needs", label);
        return;
    }
    if (ingest->model != NULL && ingest->model->output == HRF_OUTPUT_SIGMOID &&
        ingest->model->classes.n_items > 1) {
        note(wrong, line,
             "label '%s' is not a list of classes of model.classes with ';' between them, e.g. "
             "'%s;%s', nor 'none'",
             label, ingest->model->classes.items[0], ingest->model->classes.items[1]);
        return;
    }
    for (size_t i = 0; ingest->model != NULL && i < ingest->model->classes.n_items; i++)
        hrf_strbuf_addf(&classes, "%s, ", ingest->model->classes.items[i]);
    note(wrong, line, "label '%s' is not known; use %s1, 0 or leave it empty", label, classes.text);
    hrf_strbuf_release(&classes);
}

/* Notes a problem of a line; its slide is still added. */
static enum hrf_status add_line(struct ingest *ingest, const char *path, size_t n_columns,
                                const struct columns *columns, const struct hrf_csv_row *line,
                                struct wrong *wrong, struct hrf_error *err)
{
    struct hrf_slide_row *row;
    const char *slide = field(line, columns->slide), *label = field(line, columns->label);
    const char *annotation = field(line, columns->annotation);
    bool known;
    if (slide[0] == '\0') {
        note(wrong, line, "the slide is empty");
        return HRF_OK;
    }
    if (line->n_fields >
        n_columns) /* after an unquoted comma in a name all later columns would be wrong */
        note(wrong, line, "%zu fields, the header has %zu; quote a text that has a comma",
             line->n_fields, n_columns);
    HRF_AUTO_FREE char *full = beside(path, slide);
    HRF_CHECK_MEMORY(full != NULL, err, "no memory for a slide");
    HRF_TRY(ingest_add(ingest, full, &row, err));
    row->truth = ingest_label(ingest, label, &known);
    if (label[0] != '\0' && (row->label_text = hrf_strdup(label)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide");
    if (!known)
        note_label(ingest, label, line, wrong);
    read_mpp(field(line, columns->mpp), line, row, wrong);
    if (annotation[0] != '\0' && (row->annotation = beside(path, annotation)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide");
    return HRF_OK;
}

enum hrf_status ingest_csv(struct ingest *ingest, struct hrf_error *err)
{
    const char *path = ingest->dataset->csv;
    HRF_AUTO(hrf_csv) csv = NULL;
    struct columns columns;
    struct wrong wrong = { .path = path, .text = HRF_STRBUF_INIT };
    HRF_TRY(hrf_csv_read(path, &csv, err));
    HRF_TRY(find_columns(csv, path, &columns, err));
    enum hrf_status status = HRF_OK;
    for (size_t i = 1; i < csv->n_rows && status == HRF_OK; i++)
        status = add_line(ingest, path, csv->rows[0].n_fields, &columns, &csv->rows[i], &wrong,
                          err);
    enum hrf_status told = tell_wrong(&wrong, status == HRF_OK ? err : NULL);
    return status != HRF_OK ? status : told;
}
