#include "orchestrator/ingest/ingest.h"

#include "base/path.h"
#include "orchestrator/ingest/ingest_private.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void ingest_warn(struct ingest *ingest, const char *format, ...)
{
    if (ingest->warnings == NULL)
        return;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(ingest->warnings, format, args);
    va_end(args);
    hrf_strbuf_addc(ingest->warnings, '\n');
}

enum hrf_truth ingest_truth(const char *word, bool *known)
{
    static const char *const positive[] = { "tumor", "tumour", "positive", "1", "yes", "true" };
    static const char *const negative[] = { "normal", "negative", "0", "no", "false" };
    *known = true;
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++)
        if (strcasecmp(word, positive[i]) == 0)
            return HRF_TRUTH_POSITIVE;
    for (size_t i = 0; i < sizeof negative / sizeof negative[0]; i++)
        if (strcasecmp(word, negative[i]) == 0)
            return HRF_TRUTH_NEGATIVE;
    *known = word[0] == '\0';
    return HRF_TRUTH_UNKNOWN;
}

static bool is_taken(const struct ingest *ingest, const char *name)
{
    for (size_t i = 0; i < ingest->rows.n_items; i++)
        if (strcmp(ingest->rows.items[i].name, name) == 0)
            return true;
    return false;
}

/* The stem, or stem.2, stem.3 ... when another slide has it. */
static char *unique_name(const struct ingest *ingest, const char *path)
{
    HRF_AUTO_FREE char *stem = hrf_path_stem(path);
    if (stem == NULL || !is_taken(ingest, stem)) {
        char *name = stem;
        stem = NULL;
        return name;
    }
    for (int i = 2;; i++) {
        char *name = hrf_format("%s.%d", stem, i);
        if (name == NULL || !is_taken(ingest, name))
            return name;
        hrf_free(name);
    }
}

static bool is_excluded(const struct ingest *ingest, const char *name)
{
    const struct hrf_text_list *list = &ingest->dataset->exclude;
    for (size_t i = 0; i < list->n_items; i++)
        if (strcasecmp(list->items[i], name) == 0)
            return true;
    return false;
}

static enum hrf_status fingerprint(struct hrf_slide_row *row, struct hrf_error *err)
{
    struct stat st;
    const int error = stat(row->path, &st) != 0 ? errno : 0;
    if (error == 0 && !S_ISDIR(st.st_mode)) {
        row->n_bytes = (int64_t)st.st_size;
        row->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        return HRF_OK;
    }
    HRF_AUTO_FREE char *shown = hrf_text_printable(row->path);
    row->state = HRF_SLIDE_FAILED;
    if (shown != NULL)
        row->reason = error == ENOENT ? hrf_format("the file '%s' does not exist", shown)
                      : error != 0    ? hrf_format("the file '%s' cannot be looked at", shown)
                                      : hrf_format("'%s' is a directory, not a slide", shown);
    return row->reason != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide");
}

enum hrf_status ingest_add(struct ingest *ingest, const char *path, struct hrf_slide_row **out,
                           struct hrf_error *err)
{
    HRF_TRY(hrf_array_reserve((void **)&ingest->rows.items, &ingest->capacity,
                              ingest->rows.n_items + 1, sizeof ingest->rows.items[0], err));
    struct hrf_slide_row *row = &ingest->rows.items[ingest->rows.n_items];
    *row = (struct hrf_slide_row){ .id = (int64_t)ingest->rows.n_items + 1,
                                   .name = unique_name(ingest, path),
                                   .path = hrf_strdup(path),
                                   .truth = HRF_TRUTH_UNKNOWN };
    ingest->rows.n_items++;
    if (row->name == NULL || row->path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide");
    if (is_excluded(ingest, row->name)) {
        row->state = HRF_SLIDE_EXCLUDED;
        row->reason = hrf_strdup("excluded by the workflow");
    } else {
        HRF_TRY(fingerprint(row, err));
    }
    if (out != NULL)
        *out = row;
    return HRF_OK;
}

void ingest_list_release(struct name_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        hrf_free(list->items[i]);
    hrf_free(list->items);
    *list = (struct name_list){ NULL, 0 };
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum hrf_status ingest_list(const char *directory, struct name_list *out, struct hrf_error *err)
{
    struct name_list list = { NULL, 0 };
    size_t capacity = 0;
    DIR *stream = opendir(directory);
    if (stream == NULL)
        return hrf_error_set_errno(err, errno, "cannot open the folder '%s'", directory);
    enum hrf_status status = HRF_OK;
    for (const struct dirent *e; status == HRF_OK && (e = readdir(stream)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        status = hrf_array_reserve((void **)&list.items, &capacity, list.n_items + 1,
                                   sizeof list.items[0], err);
        if (status == HRF_OK && (list.items[list.n_items] = hrf_strdup(e->d_name)) == NULL)
            status = hrf_error_set(err, HRF_E_NOMEM, "no memory to list '%s'", directory);
        else if (status == HRF_OK)
            list.n_items++;
    }
    closedir(stream);
    if (status != HRF_OK) {
        ingest_list_release(&list);
        return status;
    }
    if (list.n_items > 1)
        qsort(list.items, list.n_items, sizeof list.items[0], compare_names);
    *out = list;
    return HRF_OK;
}

/* A name under `exclude` that is no slide is most likely a typing error. */
static void warn_unknown_excludes(struct ingest *ingest)
{
    const struct hrf_text_list *list = &ingest->dataset->exclude;
    for (size_t i = 0; i < list->n_items; i++) {
        bool found = false;
        for (size_t k = 0; k < ingest->rows.n_items; k++)
            found |= strcasecmp(ingest->rows.items[k].name, list->items[i]) == 0;
        HRF_AUTO_FREE char *shown = hrf_text_printable(list->items[i]);
        if (!found)
            ingest_warn(ingest, "%s.exclude names '%s', which is none of its slides",
                        ingest->section, shown != NULL ? shown : "?");
    }
}

static enum hrf_status read_dataset(struct ingest *ingest, struct hrf_error *err)
{
    static enum hrf_status (*const readers[])(struct ingest *, struct hrf_error *) = {
        [HRF_LAYOUT_CAMELYON16] = ingest_camelyon16,
        [HRF_LAYOUT_FILES] = ingest_files,
        [HRF_LAYOUT_CSV] = ingest_csv,
    };
    HRF_TRY(readers[ingest->dataset->layout](ingest, err));
    if (ingest->rows.n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "%s has no slides", ingest->section);
    warn_unknown_excludes(ingest);
    return HRF_OK;
}

/* The same file, by whichever path. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat u, v;
    return strcmp(a, b) == 0 ||
           (stat(a, &u) == 0 && stat(b, &v) == 0 && u.st_dev == v.st_dev && u.st_ino == v.st_ino);
}

/* What a scale was fitted on says too good things of it. */
static enum hrf_status leave_out(struct ingest *cohort, size_t n_slides,
                                 const struct hrf_slide_row *sample, struct hrf_error *err)
{
    for (size_t i = 0; i < n_slides; i++) {
        struct hrf_slide_row *row = &cohort->rows.items[i];
        if (row->state == HRF_SLIDE_EXCLUDED || !is_same_file(row->path, sample->path))
            continue;
        hrf_free(row->reason);
        row->state = HRF_SLIDE_EXCLUDED;
        row->reason = hrf_strdup("it is one of calibrate.slides: not evaluated");
        if (row->reason == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory for a slide");
    }
    return HRF_OK;
}

static bool wants_int8(const struct hrf_workflow *workflow)
{
    for (size_t i = 0; i < workflow->n_precisions; i++)
        if (workflow->precision[i] == HRF_INT8)
            return true;
    return false;
}

/* Puts the rows of `sample` behind the cohort's, without labels and those excluded. */
static enum hrf_status append(struct ingest *cohort, const struct ingest *sample, bool is_used,
                              struct hrf_error *err)
{
    const size_t n_items = cohort->rows.n_items;
    for (size_t i = 0; i < sample->rows.n_items; i++) {
        const struct hrf_slide_row *from = &sample->rows.items[i];
        struct hrf_slide_row *row;
        if (from->state == HRF_SLIDE_EXCLUDED)
            continue;
        HRF_TRY(leave_out(cohort, n_items, from, err));
        if (!is_used)
            continue;
        HRF_TRY(ingest_add(cohort, from->path, &row, err));
        row->mpp_csv = from->mpp_csv;
        row->calibrates = true;
        if (row->state == HRF_SLIDE_FAILED)
            ingest_warn(cohort, "%s: not in the sample: %s", sample->section, row->reason);
    }
    cohort->rows.n_sample = cohort->rows.n_items - n_items;
    cohort->rows.n_items = n_items;
    return cohort->rows.n_sample > 0 || !is_used
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "%s: every slide is excluded", sample->section);
}

static enum hrf_status ingest_both(struct ingest *cohort, const struct hrf_workflow *workflow,
                                   struct hrf_error *err)
{
    static const struct hrf_workflow_dataset nothing = { .layout = HRF_LAYOUT_FILES };
    struct ingest sample = { .dataset = &workflow->calibrate.slides,
                             .section = "calibrate.slides",
                             .warnings = cohort->warnings };
    HRF_TRY(read_dataset(cohort, err));
    if (!hrf_dataset_is_given(sample.dataset))
        return HRF_OK;
    enum hrf_status status = read_dataset(&sample, err);
    cohort->dataset = &nothing; /* whose exclude is not the sample's */
    if (status == HRF_OK)
        status = append(cohort, &sample, wants_int8(workflow), err);
    hrf_slide_rows_release(&sample.rows);
    return status;
}

enum hrf_status hrf_ingest(const struct hrf_workflow *workflow, struct hrf_slide_rows *out,
                           struct hrf_strbuf *warnings, struct hrf_error *err)
{
    struct ingest ingest = { .dataset = &workflow->dataset,
                             .section = "dataset",
                             .warnings = warnings };
    enum hrf_status status = ingest_both(&ingest, workflow, err);
    if (status != HRF_OK) {
        hrf_slide_rows_release(&ingest.rows);
        return status;
    }
    *out = ingest.rows;
    return HRF_OK;
}
