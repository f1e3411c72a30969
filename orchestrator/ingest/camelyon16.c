/* camelyon16.c - the layout of the CAMELYON16 release, old names and new.
 *
 * ROOT/training/{normal,tumor}/NAME.tif, ROOT/testing/images/NAME.tif, ROOT/testing/reference.csv
 * (no header: name, Tumor|Normal, histology, Macro|Micro|None); a flat ROOT/images/ as on some
 * mirrors. Masks (NAME_Mask.tif) are not slides. Annotations are NAME.xml in a folder
 * lesion_annotations (or annotations) beside the images, or NAME_Mask.tif in masks (or mask) or
 * among the images, any case; outlines go first.
 */
#include "base/csv.h"
#include "base/directory.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns the entry of `directory` with that name, ignoring case; NULL: there is none. */
static char *find_child(const char *directory, const char *name)
{
    HRF_AUTO_RELEASE(hrf_text_list) list = { .items = NULL };
    char *found = NULL;
    if (hrf_path_list_directory(directory, &list, NULL) != HRF_OK)
        return NULL;
    for (size_t i = 0; i < list.n_items && found == NULL; i++)
        if (strcasecmp(list.items[i], name) == 0)
            found = hrf_path_join(directory, list.items[i]);
    return found;
}

static bool is_slide_file(const char *name)
{
    HRF_AUTO_FREE char *extension = hrf_path_extension(name);
    HRF_AUTO_FREE char *stem = hrf_path_stem(name);
    size_t n = strlen(stem);
    bool mask = n > 5 && strcasecmp(stem + n - 5, "_mask") == 0;
    return !mask && (strcmp(extension, "tif") == 0 || strcmp(extension, "tiff") == 0);
}

/* A folder of annotations; it is listed once for all slides. */
struct annotations {
    const char *suffix; /* of a slide's file */
    char *folder;       /* heap; NULL: there is none */
    struct hrf_text_list
        files; /* ignoring case; names that differ only in case are ordered by their bytes */
};

static int compare_any_case(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    const int order = strcasecmp(x, y);
    return order != 0 ? order : strcmp(x, y);
}

/* The folders in the order in which they are looked into. */
enum { N_ANNOTATION_FOLDERS = 6 };
static const struct {
    const char *name, *suffix;
} annotation_folders[N_ANNOTATION_FOLDERS] = {
    { "lesion_annotations", ".xml" }, { "annotations", ".xml" }, { "masks", "_mask.tif" },
    { "mask", "_mask.tif" },          { "images", "_mask.tif" }, { "tumor", "_mask.tif" }
};

/* A folder that cannot be read counts as empty. */
static void annotations_list(const char *top, size_t index, struct annotations *out)
{
    *out = (struct annotations){ .suffix = annotation_folders[index].suffix,
                                 .folder = find_child(top, annotation_folders[index].name) };
    if (out->folder != NULL && hrf_path_list_directory(out->folder, &out->files, NULL) == HRF_OK &&
        out->files.n_items > 0)
        qsort(out->files.items, out->files.n_items, sizeof out->files.items[0], compare_any_case);
}

static void annotations_release(struct annotations *annotations)
{
    hrf_free(annotations->folder);
    hrf_text_list_release(&annotations->files);
}

static char *find_annotation(const struct annotations *annotations, const char *slide)
{
    HRF_AUTO_FREE char *file = hrf_format("%s%s", slide, annotations->suffix);
    size_t low = 0, high = annotations->files.n_items;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcasecmp(annotations->files.items[middle], file) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const bool is_there = low < annotations->files.n_items &&
                          strcasecmp(annotations->files.items[low], file) == 0;
    return is_there ? hrf_path_join(annotations->folder, annotations->files.items[low]) : NULL;
}

static enum hrf_status add_folder(struct ingest *ingest, const char *folder, const char *top,
                                  enum hrf_truth truth, struct hrf_error *err)
{
    struct annotations annotations[N_ANNOTATION_FOLDERS];
    HRF_AUTO_RELEASE(hrf_text_list) list = { .items = NULL };
    HRF_TRY(hrf_path_list_directory(folder, &list, err));
    for (size_t i = 0; i < N_ANNOTATION_FOLDERS; i++)
        annotations_list(top, i, &annotations[i]);
    for (size_t i = 0; i < list.n_items; i++) {
        if (!is_slide_file(list.items[i]))
            continue;
        HRF_AUTO_FREE char *path = hrf_path_join(folder, list.items[i]);
        struct hrf_slide_row *row = ingest_add(ingest, path);
        row->truth = truth;
        for (size_t k = 0; k < N_ANNOTATION_FOLDERS && row->annotation == NULL; k++)
            row->annotation = find_annotation(&annotations[k], row->name);
    }
    for (size_t i = 0; i < N_ANNOTATION_FOLDERS; i++)
        annotations_release(&annotations[i]);
    return HRF_OK;
}

/* Finds a row by its name, ignoring case. */
struct named {
    const char *name; /* the row's */
    size_t row;
};

/* The testing slides: those in the folder, sorted by name. For a slide that only reference.csv
 * names: the first line that names it, and its row. */
struct testing {
    struct named *items; /* heap */
    size_t n_items;
    size_t *first_line; /* [lines], heap; IN_FOLDER: none */
    size_t *row_of;     /* [lines], heap; of first lines, once they were added */
};
#define IN_FOLDER SIZE_MAX

static void testing_release(struct testing *testing)
{
    hrf_free(testing->items);
    hrf_free(testing->first_line);
    hrf_free(testing->row_of);
}

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    const int order = strcasecmp(x->name, y->name);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

static void sort_testing(const struct ingest *ingest, size_t first, struct testing *out)
{
    const size_t n = ingest->rows.n_items - first;
    *out = (struct testing){ .items = hrf_alloc_array(n + 1, sizeof *out->items) };
    for (; out->n_items < n; out->n_items++)
        out->items[out->n_items] = (struct named){
            .name = ingest->rows.items[first + out->n_items].name, .row = first + out->n_items
        };
    qsort(out->items, n, sizeof *out->items, compare_named);
}

/* Returns the first of the slides with that name; NULL: there is none. */
static struct hrf_slide_row *find_name(struct ingest *ingest, const struct testing *testing,
                                       const char *name)
{
    size_t low = 0, high = testing->n_items;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcasecmp(testing->items[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < testing->n_items && strcasecmp(testing->items[low].name, name) == 0)
        return &ingest->rows.items[testing->items[low].row];
    return NULL;
}

/* Returns the slide of a line if it is in the folder. Some copies keep the extension in the first
 * column; *stem (heap) is the name without it. */
static struct hrf_slide_row *find_row(struct ingest *ingest, const struct testing *testing,
                                      const char *name, char **stem)
{
    *stem = is_slide_file(name) ? hrf_path_stem(name) : hrf_strdup(name);
    struct hrf_slide_row *row = find_name(ingest, testing, name);
    return row != NULL ? row : find_name(ingest, testing, *stem);
}

static void find_absent(struct ingest *ingest, const struct hrf_csv *csv, struct testing *testing)
{
    size_t n = 0;
    HRF_AUTO_FREE struct named *items = hrf_alloc_array(csv->n_rows + 1, sizeof *items);
    testing->first_line = hrf_alloc_array(csv->n_rows + 1, sizeof *testing->first_line);
    testing->row_of = hrf_calloc(csv->n_rows + 1, sizeof *testing->row_of);
    for (size_t i = 0; i < csv->n_rows; i++) {
        HRF_AUTO_FREE char *stem = NULL;
        testing->first_line[i] = IN_FOLDER;
        if (find_row(ingest, testing, csv->rows[i].fields[0], &stem) == NULL) {
            items[n++] = (struct named){ .name = stem, .row = i };
            stem = NULL;
        }
    }
    qsort(items, n, sizeof *items, compare_named);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (strcasecmp(items[i].name, items[first].name) != 0)
            first = i;
        testing->first_line[items[i].row] = items[first].row;
    }
    for (size_t i = 0; i < n; i++)
        hrf_free((char *)(uintptr_t)items[i].name);
}

/* Returns the row of a line's slide. One that is listed but missing is added, never dropped
 * silently. */
static struct hrf_slide_row *row_of_line(struct ingest *ingest, struct testing *testing,
                                         const char *images, const char *name, size_t line)
{
    HRF_AUTO_FREE char *stem = NULL;
    const size_t first = testing->first_line[line];
    struct hrf_slide_row *row = find_row(ingest, testing, name, &stem);
    if (first == line) {
        HRF_AUTO_FREE char *file = hrf_format("%s.tif", stem);
        HRF_AUTO_FREE char *full = hrf_path_join(images, file);
        testing->row_of[line] = ingest->rows.n_items;
        return ingest_add(ingest, full);
    }
    return first != IN_FOLDER ? &ingest->rows.items[testing->row_of[first]] : row;
}

static enum hrf_status apply_line(struct ingest *ingest, struct testing *testing,
                                  const char *images, const char *path, const struct hrf_csv *csv,
                                  size_t index, struct hrf_error *err)
{
    bool known = false;
    const struct hrf_csv_row *line = &csv->rows[index];
    const char *label = hrf_csv_cell(line, 1);
    enum hrf_truth truth = ingest_truth(label, &known);
    if (!known || truth == HRF_TRUTH_UNKNOWN)
        return hrf_error_set(err, HRF_E_USER, "%s:%d: '%s' is neither Tumor nor Normal", path,
                             line->line, label);
    struct hrf_slide_row *row = row_of_line(ingest, testing, images, line->fields[0], index);
    row->truth = truth;
    const char *size = hrf_csv_cell(line, 3);
    bool has_size = size[0] != '\0' && strcasecmp(size, "none") != 0;
    hrf_free(row->label_text);
    row->label_text = hrf_format("%s%s%s", label, has_size ? "," : "", has_size ? size : "");
    return HRF_OK;
}

static enum hrf_status add_testing(struct ingest *ingest, const char *top, const char *images,
                                   struct hrf_error *err)
{
    size_t first = ingest->rows.n_items;
    HRF_TRY(add_folder(ingest, images, top, HRF_TRUTH_UNKNOWN, err));
    HRF_AUTO_FREE char *reference = find_child(top, "reference.csv");
    if (reference == NULL) {
        ingest_warn(ingest, "'%s' has no reference.csv: the testing slides have no labels", top);
        return HRF_OK;
    }
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(reference, &csv, err));
    struct testing testing;
    sort_testing(ingest, first, &testing);
    find_absent(ingest, csv, &testing);
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < csv->n_rows && status == HRF_OK; i++)
        status = apply_line(ingest, &testing, images, reference, csv, i, err);
    testing_release(&testing);
    HRF_TRY(status);
    for (size_t i = first; i < ingest->rows.n_items; i++) {
        HRF_AUTO_FREE char *shown = hrf_text_escaped(ingest->rows.items[i].name);
        if (ingest->rows.items[i].truth == HRF_TRUTH_UNKNOWN)
            ingest_warn(ingest, "%s is not in reference.csv: it has no label", shown);
    }
    return HRF_OK;
}

static enum hrf_status add_training(struct ingest *ingest, const char *top, struct hrf_error *err)
{
    HRF_AUTO_FREE char *normal = find_child(top, "normal");
    HRF_AUTO_FREE char *tumor = find_child(top, "tumor");
    if (normal == NULL && tumor == NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' has neither normal/ nor tumor/", top);
    if (normal != NULL)
        HRF_TRY(add_folder(ingest, normal, top, HRF_TRUTH_NEGATIVE, err));
    if (tumor != NULL)
        HRF_TRY(add_folder(ingest, tumor, top, HRF_TRUTH_POSITIVE, err));
    return HRF_OK;
}

/* The flat images/ folder of a mirror: the class and the split of a slide follow from its name. */
static enum hrf_status add_flat(struct ingest *ingest, const char *root, const char *images,
                                struct hrf_error *err)
{
    enum hrf_split split = ingest->dataset->split;
    struct ingest all = { .dataset = ingest->dataset,
                          .section = ingest->section,
                          .warnings = ingest->warnings };
    enum hrf_status status = add_testing(&all, root, images, err);
    for (size_t i = 0; i < all.rows.n_items && status == HRF_OK; i++) {
        const struct hrf_slide_row *from = &all.rows.items[i];
        bool test = strncasecmp(from->name, "test", 4) == 0;
        if (split != HRF_SPLIT_ALL && test != (split == HRF_SPLIT_TESTING))
            continue;
        struct hrf_slide_row *row = ingest_add(ingest, from->path);
        row->truth = strncasecmp(row->name, "tumor", 5) == 0    ? HRF_TRUTH_POSITIVE
                     : strncasecmp(row->name, "normal", 6) == 0 ? HRF_TRUTH_NEGATIVE
                                                                : from->truth;
        row->label_text = hrf_strdup(from->label_text);
        row->annotation = hrf_strdup(from->annotation);
    }
    hrf_slide_rows_release(&all.rows);
    return status;
}

enum hrf_status ingest_camelyon16(struct ingest *ingest, struct hrf_error *err)
{
    const char *root = ingest->dataset->root;
    enum hrf_split split = ingest->dataset->split;
    if (!hrf_path_is_directory(root))
        return hrf_error_set(err, HRF_E_USER, "%s.root: '%s' is not a folder", ingest->section,
                             root);
    HRF_AUTO_FREE char *flat = find_child(root, "images");
    HRF_AUTO_FREE char *training = find_child(root, "training");
    HRF_AUTO_FREE char *testing = find_child(root, "testing");
    if (training == NULL && testing == NULL && flat != NULL)
        return add_flat(ingest, root, flat, err);
    if (split != HRF_SPLIT_TESTING) {
        if (training == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s.root: '%s' has no training/", ingest->section,
                                 root);
        HRF_TRY(add_training(ingest, training, err));
    }
    if (split == HRF_SPLIT_TRAINING)
        return HRF_OK;
    HRF_AUTO_FREE char *images = testing != NULL ? find_child(testing, "images") : NULL;
    if (images == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s.root: '%s' has no testing/images/",
                             ingest->section, root);
    return add_testing(ingest, testing, images, err);
}
