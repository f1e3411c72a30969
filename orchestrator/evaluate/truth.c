/* truth.c - finds the truth's files, and joins what they say by slide. */
#include "orchestrator/evaluate/truth.h"

#include "aggregate/camelyon16/exclusions.h"
#include "base/array.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/path.h"
#include "base/text.h"
#include "tiler/slide/mask_read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_DEPTH = 8 };
#define XML_LIMIT ((size_t)256 << 20)

/* The state of a walk through the folders. */
struct finding {
    struct hrf_truth_set *set;
    struct hrf_strbuf *warnings;
    struct hrf_error *err;
};

void hrf_truth_set_destroy(struct hrf_truth_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->n_slides; i++) {
        struct hrf_truth_slide *s = &set->slides[i];
        hrf_free(s->name);
        hrf_free(s->histology);
        hrf_free(s->xml);
        hrf_free(s->mask);
        hrf_free(s->image);
    }
    for (size_t i = 0; i < set->n_zips; i++)
        hrf_zip_destroy(set->zips[i]);
    hrf_free(set->zips);
    hrf_free(set->slides);
    hrf_free(set->reference);
    hrf_free(set);
}

static void truth_warn(const struct finding *f, const char *text, const char *path)
{
    HRF_AUTO_FREE char *shown = hrf_text_escaped(path);
    if (f->warnings != NULL)
        hrf_strbuf_addf(f->warnings, "%s: %s\n", shown, text);
}

/* Returns the index of the slide, or the one where it has to be inserted. */
static size_t index_of(const struct hrf_truth_set *set, const char *name, bool *found)
{
    size_t low = 0, high = set->n_slides;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(set->slides[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < set->n_slides && strcmp(set->slides[low].name, name) == 0;
    return low;
}

const struct hrf_truth_slide *hrf_truth_set_find(const struct hrf_truth_set *set, const char *name)
{
    char key[HRF_CAMELYON16_NAME];
    bool found;
    hrf_camelyon16_name(name, key);
    const size_t at = index_of(set, key, &found);
    return found ? &set->slides[at] : NULL;
}

/* Returns the slide of that name, and adds it if it is new. It is valid until the next call. */
static struct hrf_truth_slide *get_slide(const struct finding *f, const char *name)
{
    struct hrf_truth_set *set = f->set;
    char key[HRF_CAMELYON16_NAME];
    bool found;
    hrf_camelyon16_name(name, key);
    const size_t at = index_of(set, key, &found);
    if (!found) {
        HRF_RESERVE(set->slides, set->capacity, set->n_slides + 1);
        struct hrf_truth_slide slide = { .name = hrf_strdup(key), .truth = HRF_TRUTH_UNKNOWN };
        memmove(&set->slides[at + 1], &set->slides[at], (set->n_slides - at) * sizeof slide);
        set->slides[at] = slide;
        set->n_slides++;
    }
    return &set->slides[at];
}

static bool begins_with(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (; *text != '\0'; text++)
        if (strncasecmp(text, word, n) == 0)
            return true;
    return false;
}

/* Keeps the first of two files for one slide. */
static void keep_path(const struct finding *f, char **kept, const char *path)
{
    if (*kept == NULL) {
        *kept = hrf_strdup(path);
        return;
    }
    HRF_AUTO_FREE char *shown = hrf_text_escaped(*kept);
    HRF_AUTO_FREE char *text = hrf_format("it is not used, because '%s' is for the same slide",
                                          shown);
    truth_warn(f, text, path);
}

/* ---- files ---- */

/* Adds an archive. They are few, so the list grows by one. */
static enum hrf_status add_zip(const struct finding *f, const char *path)
{
    struct hrf_truth_set *set = f->set;
    HRF_AUTO(hrf_zip) zip = NULL;
    HRF_TRY(hrf_zip_read(path, &zip, f->err));
    set->zips = hrf_realloc_array(set->zips, set->n_zips + 1, sizeof *set->zips);
    const struct hrf_zip *kept = set->zips[set->n_zips++] = zip;
    zip = NULL;
    for (size_t i = 0; i < kept->n_items; i++) {
        HRF_AUTO_FREE char *extension = hrf_path_extension(kept->items[i].name);
        if (strcmp(extension, "xml") != 0 || has_word(kept->items[i].name, "__MACOSX"))
            continue;
        struct hrf_truth_slide *slide = get_slide(f, hrf_path_name(kept->items[i].name));
        if (slide->entry == NULL) {
            slide->zip = kept;
            slide->entry = &kept->items[i];
        }
    }
    return HRF_OK;
}

static void add_tiff(const struct finding *f, const char *folder, const char *name,
                     const char *path)
{
    HRF_AUTO_FREE char *stem = hrf_path_stem(name);
    const size_t n = strlen(stem);
    const bool is_mask = (n > 5 && strcasecmp(stem + n - 5, "_mask") == 0) ||
                         has_word(folder, "mask") || has_word(folder, "evaluation");
    struct hrf_truth_slide *slide = get_slide(f, name);
    if (!is_mask && slide->truth == HRF_TRUTH_UNKNOWN)
        slide->truth = strcasecmp(folder, "tumor") == 0    ? HRF_TRUTH_POSITIVE
                       : strcasecmp(folder, "normal") == 0 ? HRF_TRUTH_NEGATIVE
                                                           : HRF_TRUTH_UNKNOWN;
    keep_path(f, is_mask ? &slide->mask : &slide->image, path);
}

/* Adds a file by its name. folder: the name of the folder that it lies in. */
static enum hrf_status add_file(const struct finding *f, const char *folder, const char *name,
                                const char *path)
{
    HRF_AUTO_FREE char *extension = hrf_path_extension(name);
    const bool is_zip = strcmp(extension, "zip") == 0;
    if (is_zip && has_word(name, "annotation"))
        return add_zip(f, path);
    if (strcasecmp(name, "reference.csv") == 0)
        keep_path(f, &f->set->reference, path);
    else if (strcmp(extension, "tif") == 0 || strcmp(extension, "tiff") == 0)
        add_tiff(f, folder, name, path);
    else if (strcmp(extension, "xml") == 0)
        keep_path(f, &get_slide(f, name)->xml, path);
    else if (is_zip && has_word(name, "mask"))
        truth_warn(f, "masks in an archive are not read: unpack it, or rely on the outlines", path);
    return HRF_OK;
}

static enum hrf_status walk_folder(const struct finding *f, const char *directory, int depth)
{
    HRF_AUTO_RELEASE(hrf_text_list) list = { .items = NULL };
    HRF_TRY(hrf_path_list_directory(directory, &list, f->err));
    for (size_t i = 0; i < list.n_items; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(directory, list.items[i]);
        if (!hrf_path_is_directory(path))
            HRF_TRY(add_file(f, hrf_path_name(directory), list.items[i], path));
        else if (depth < MAX_DEPTH)
            HRF_TRY(walk_folder(f, path, depth + 1));
    }
    return HRF_OK;
}

/* ---- reference.csv ---- */

static enum hrf_truth truth_of(const char *word)
{
    return strcasecmp(word, "tumor") == 0 || strcasecmp(word, "tumour") == 0 ? HRF_TRUTH_POSITIVE
           : strcasecmp(word, "normal") == 0                                 ? HRF_TRUTH_NEGATIVE
                                                                             : HRF_TRUTH_UNKNOWN;
}

static enum hrf_status take_line(const struct finding *f, const struct hrf_csv_row *row)
{
    const char *label = hrf_csv_cell(row, 1);
    const char *size = hrf_csv_cell(row, 3);
    const enum hrf_truth truth = truth_of(label);
    if (truth == HRF_TRUTH_UNKNOWN)
        return hrf_error_set(f->err, HRF_E_USER, "%s:%d: '%.60s' is neither Tumor nor Normal",
                             f->set->reference, row->line, label);
    struct hrf_truth_slide *slide = get_slide(f, row->fields[0]);
    if (slide->line > 0 && slide->truth != truth)
        return hrf_error_set(f->err, HRF_E_USER, "%s: %s is %s in line %d and %s in line %d",
                             f->set->reference, slide->name,
                             truth == HRF_TRUTH_POSITIVE ? "Normal" : "Tumor", slide->line, label,
                             row->line);
    slide->truth = truth;
    slide->line = row->line;
    slide->size = strcasecmp(size, "macro") == 0   ? HRF_METASTASIS_MACRO
                  : strcasecmp(size, "micro") == 0 ? HRF_METASTASIS_MICRO
                                                   : HRF_METASTASIS_UNKNOWN;
    hrf_free(slide->histology);
    slide->histology = row->n_fields > 2 ? hrf_strdup(row->fields[2]) : NULL;
    return HRF_OK;
}

static enum hrf_status read_reference(const struct finding *f)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(f->set->reference, &csv, f->err));
    for (size_t i = 0; i < csv->n_rows; i++) {
        const char *label = hrf_csv_cell(&csv->rows[i], 1);
        if (i == 0 && csv->n_rows > 1 && truth_of(label) == HRF_TRUTH_UNKNOWN)
            continue; /* some copies have a header */
        HRF_TRY(take_line(f, &csv->rows[i]));
    }
    return HRF_OK;
}

/* Derives the labels that no file gives. */
static void derive_truths(const struct hrf_truth_set *set)
{
    for (size_t i = 0; i < set->n_slides; i++) {
        struct hrf_truth_slide *s = &set->slides[i];
        if (s->truth != HRF_TRUTH_UNKNOWN)
            continue;
        if (begins_with(s->name, "tumor_"))
            s->truth = HRF_TRUTH_POSITIVE;
        else if (begins_with(s->name, "normal_"))
            s->truth = HRF_TRUTH_NEGATIVE;
        else if (set->reference == NULL && hrf_truth_has_lesions(s))
            s->truth = HRF_TRUTH_POSITIVE;
    }
}

enum hrf_status hrf_truth_set_read(const char *root, struct hrf_truth_set **out,
                                   struct hrf_strbuf *warnings, struct hrf_error *err)
{
    HRF_AUTO(hrf_truth_set) set = hrf_calloc(1, sizeof *set);
    if (!hrf_path_is_directory(root))
        return hrf_error_set(err, HRF_E_USER, "'%s' is not a folder", root);
    const struct finding f = { .set = set, .warnings = warnings, .err = err };
    HRF_TRY(walk_folder(&f, root, 0));
    if (set->reference != NULL)
        HRF_TRY(read_reference(&f));
    derive_truths(set);
    if (set->n_slides == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has neither reference.csv nor outlines (XML) nor masks", root);
    HRF_MOVE(*out, set);
    return HRF_OK;
}

/* ---- lesions ---- */

bool hrf_truth_has_lesions(const struct hrf_truth_slide *slide)
{
    return slide->mask != NULL || slide->xml != NULL || slide->entry != NULL;
}

static enum hrf_status read_outlines(const struct hrf_truth_slide *slide, struct hrf_outlines **out,
                                     struct hrf_error *err)
{
    if (slide->xml != NULL)
        return hrf_outlines_read(slide->xml, out, err);
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_zip_extract(slide->zip, slide->entry, XML_LIMIT, &text, &n_bytes, err));
    return hrf_outlines_parse(text, n_bytes, slide->entry->name, out, err);
}

/* Reads the slide's size, by which outlines are clipped; zeros if it cannot be opened. */
static void read_size(const struct hrf_truth_slide *slide, int64_t *width, int64_t *height)
{
    HRF_AUTO(hrf_slide) image = NULL;
    *width = *height = 0;
    if (slide->image != NULL && hrf_slide_open(slide->image, &image, NULL) == HRF_OK) {
        *width = hrf_slide_info(image)->width;
        *height = hrf_slide_info(image)->height;
    }
}

static enum hrf_status read_mask(const char *path, struct hrf_lesion_mask **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) mask = NULL;
    HRF_AUTO_FREE unsigned char *pixels = NULL;
    int64_t width = 0, height = 0;
    HRF_TRY(hrf_slide_open(path, &mask, err));
    HRF_TRY(hrf_slide_read_mask(mask, HRF_MASK_STEP, &pixels, &width, &height, err));
    return hrf_lesion_mask_crop(pixels, width, height, out, err);
}

enum hrf_status hrf_truth_lesions(const struct hrf_truth_slide *slide, bool prefer_xml,
                                  struct hrf_lesions **out, int64_t *n_outside,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_lesion_mask) mask = NULL;
    const bool has_xml = slide->xml != NULL || slide->entry != NULL;
    *n_outside = 0;
    if (slide->mask != NULL && !(prefer_xml && has_xml)) {
        HRF_TRY(read_mask(slide->mask, &mask, err));
    } else {
        HRF_AUTO(hrf_outlines) outlines = NULL;
        int64_t width, height;
        HRF_TRY(read_outlines(slide, &outlines, err));
        read_size(slide, &width, &height);
        const enum hrf_status status = hrf_lesion_mask_draw(outlines, width, height, &mask,
                                                            n_outside, err);
        if (status != HRF_OK)
            return hrf_error_wrap(err, status, "%s", slide->name);
    }
    return hrf_lesions_find(mask, out, err);
}
