/* same.c - finds slides that a dataset contains twice: by two paths, by a link, or as a copy.
 *
 * Such a slide is used once, with a note; if it has two labels or two resolutions, that is an
 * error. Two slides are the same if they are one file of the file system, or if all bytes of their
 * files are equal. They are read only if the named files' sizes are equal: first the blocks that
 * name a slide (tiler/slide/content.h), then all bytes.
 */
#include "base/hash.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"
#include "tiler/slide/content.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct entry {
    const struct hrf_slide_row *row;
    struct ingest_file file;
    char hash[HRF_HASH_HEX];
    size_t index;   /* of the row */
    bool of_sample; /* a row of calibrate.slides, not of the cohort */
};

struct entries {
    struct entry *items; /* heap */
    size_t n_items;
};

/* A way in which two rows can be the same slide. */
struct sameness {
    const char *text; /* what is equal, for users */
    /* Which rows are compared; `file` is zero until the files were looked at. */
    bool (*is_compared)(const struct hrf_slide_row *row, const struct ingest_file *file);
    int (*compare)(const struct entry *a, const struct entry *b);
    int (*sort)(const void *a, const void *b); /* the same for qsort(), equal ones by index */
    bool reads_content; /* `compare` needs hashes, which are computed only where sizes are equal */
};

static bool is_any(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    (void)row, (void)file;
    return true;
}

static bool is_included(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    (void)file;
    return row->state != HRF_SLIDE_EXCLUDED;
}

static bool is_there(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    return row->state == HRF_SLIDE_PENDING && file->is_regular;
}

static bool has_content(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    return is_there(row, file) && row->n_bytes > 0;
}

static int compare_paths(const struct entry *a, const struct entry *b)
{
    return strcmp(a->row->path, b->row->path);
}

static int compare_files(const struct entry *a, const struct entry *b)
{
    if (a->file.device != b->file.device)
        return a->file.device < b->file.device ? -1 : 1;
    return (a->file.inode > b->file.inode) - (a->file.inode < b->file.inode);
}

static int compare_content(const struct entry *a, const struct entry *b)
{
    if (a->row->n_bytes != b->row->n_bytes)
        return a->row->n_bytes < b->row->n_bytes ? -1 : 1;
    return strcmp(a->hash, b->hash);
}

static int by_index(int order, const struct entry *a, const struct entry *b)
{
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static int sort_by_path(const void *a, const void *b)
{
    return by_index(compare_paths(a, b), a, b);
}

static int sort_by_file(const void *a, const void *b)
{
    return by_index(compare_files(a, b), a, b);
}

static int sort_by_content(const void *a, const void *b)
{
    return by_index(compare_content(a, b), a, b);
}

static const struct sameness same_path = { .text = "one path",
                                           .is_compared = is_any,
                                           .compare = compare_paths,
                                           .sort = sort_by_path },
                             same_included_path = { .text = "one path",
                                                    .is_compared = is_included,
                                                    .compare = compare_paths,
                                                    .sort = sort_by_path },
                             same_file = { .text = "the same file",
                                           .is_compared = is_there,
                                           .compare = compare_files,
                                           .sort = sort_by_file },
                             same_content = { .text = "the same content",
                                              .is_compared = has_content,
                                              .compare = compare_content,
                                              .sort = sort_by_content,
                                              .reads_content = true };

/* Refuses two slides with one identity: results are stored by it. */
static enum hrf_status cannot_tell_apart(const struct entry *a, const struct entry *b,
                                         struct hrf_error *err)
{
    HRF_AUTO_FREE char *one = hrf_text_escaped(a->row->path);
    HRF_AUTO_FREE char *other = hrf_text_escaped(b->row->path);
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' and '%s' are not the same, but have the same size (%lld bytes) and "
                         "the same 32 blocks of 8 KiB spread over them, by which slides are told "
                         "apart; put one of them into 'exclude', and into a run of its own",
                         one, other, (long long)a->row->n_bytes);
}

/* Compares more of the rows that have been equal so far: leaves the entries that have an equal. A
 * file that cannot be read equals no other; its own job reports the error. */
static enum hrf_status compare_deeper(struct entries *e, enum hrf_content_depth depth,
                                      struct hrf_error *err)
{
    size_t kept = 0;
    for (size_t i = 0, k; i < e->n_items; i = k) {
        const size_t first = kept;
        k = i + 1;
        while (k < e->n_items && compare_content(&e->items[i], &e->items[k]) == 0)
            k++;
        for (size_t at = i; k - i > 1 && at < k; at++) {
            struct entry entry = e->items[at];
            if (depth == HRF_CONTENT_SPREAD && entry.row->content[0] != '\0')
                memcpy(entry.hash, entry.row->content, sizeof entry.hash);
            else if (hrf_slide_content(entry.row->path, depth, entry.hash, NULL) != HRF_OK)
                continue;
            e->items[kept++] = entry;
            if (depth == HRF_CONTENT_WHOLE && strcmp(e->items[first].hash, entry.hash) != 0)
                return cannot_tell_apart(&e->items[first], &entry, err);
        }
    }
    e->n_items = kept;
    qsort(e->items, e->n_items, sizeof *e->items, sort_by_content);
    return HRF_OK;
}

/* Lists the rows of a cohort, and of a sample unless it is NULL, that are compared in this way,
 * sorted, so that equal ones are neighbours. The caller frees out->items, also after a failure. */
static enum hrf_status list_entries(const struct ingest *cohort, const struct ingest *sample,
                                    const struct sameness *way, struct entries *out,
                                    struct hrf_error *err)
{
    const struct ingest *const both[] = { cohort, sample };
    const size_t n = cohort->rows.n_items + (sample != NULL ? sample->rows.n_items : 0);
    *out = (struct entries){ .items = hrf_calloc(n + 1, sizeof *out->items) };
    for (size_t s = 0; s < 2 && both[s] != NULL; s++)
        for (size_t i = 0; i < both[s]->rows.n_items; i++) {
            const struct hrf_slide_row *row = &both[s]->rows.items[i];
            const struct ingest_file file = both[s]->files != NULL
                                                ? both[s]->files[i]
                                                : (struct ingest_file){ .is_regular = false };
            if (way->is_compared(row, &file))
                out->items[out->n_items++] = (struct entry){
                    .row = row, .file = file, .index = i, .of_sample = s == 1
                };
        }
    qsort(out->items, out->n_items, sizeof *out->items, way->sort);
    if (!way->reads_content)
        return HRF_OK;
    HRF_TRY(compare_deeper(out, HRF_CONTENT_SPREAD, err));
    return compare_deeper(out, HRF_CONTENT_WHOLE, err);
}

/* Returns the end of the entries that equal the one at `begin`. */
static size_t end_of_equals(const struct entries *e, size_t begin, const struct sameness *way)
{
    size_t end = begin + 1;
    while (end < e->n_items && way->compare(&e->items[begin], &e->items[end]) == 0)
        end++;
    return end;
}

/* ---- slides that a dataset has twice ---- */

static const char *label_of(const struct hrf_slide_row *row)
{
    return row->label_text != NULL            ? row->label_text
           : row->truth == HRF_TRUTH_POSITIVE ? "positive"
                                              : "negative";
}

/* Fills in what only the second row has. */
static void adopt(struct hrf_slide_row *kept, struct hrf_slide_row *again)
{
    if (kept->truth == HRF_TRUTH_UNKNOWN && again->truth != HRF_TRUTH_UNKNOWN) {
        kept->truth = again->truth;
        hrf_free(kept->label_text);
        kept->label_text = again->label_text;
        again->label_text = NULL;
    }
    if (kept->annotation == NULL) {
        kept->annotation = again->annotation;
        again->annotation = NULL;
    }
    if (!(kept->mpp_csv > 0))
        kept->mpp_csv = again->mpp_csv;
}

/* Of three or more classes two may both be "not positive" and yet differ. */
static bool are_other_classes(const struct ingest *ingest, const struct hrf_slide_row *a,
                              const struct hrf_slide_row *b)
{
    return ingest->model != NULL && ingest->model->classes.n_items > 2 && a->label_text != NULL &&
           b->label_text != NULL && strcasecmp(a->label_text, b->label_text) != 0;
}

/* Merges the second row into the first, which comes earlier in the dataset. */
static enum hrf_status merge_rows(struct ingest *ingest, const struct entry *first,
                                  const struct entry *second, const struct sameness *way,
                                  struct hrf_error *err)
{
    struct hrf_slide_row *kept = &ingest->rows.items[first->index];
    struct hrf_slide_row *again = &ingest->rows.items[second->index];
    HRF_AUTO_FREE char *a = hrf_text_escaped(kept->path), *b = hrf_text_escaped(again->path);
    HRF_AUTO_FREE char *text = strcmp(a, b) == 0
                                   ? hrf_format("%s: '%s' is there twice", ingest->section, a)
                                   : hrf_format("%s: '%s' and '%s' are one slide (%s)",
                                                ingest->section, a, b, way->text);
    const bool has_labels = kept->truth != HRF_TRUTH_UNKNOWN && again->truth != HRF_TRUTH_UNKNOWN;
    if (has_labels && (kept->truth != again->truth || are_other_classes(ingest, kept, again)))
        return hrf_error_set(err, HRF_E_USER,
                             "%s, with two labels, %s and %s; keep the right one, or exclude the "
                             "other",
                             text, label_of(kept), label_of(again));
    if (kept->mpp_csv > 0 && again->mpp_csv > 0 && kept->mpp_csv != again->mpp_csv)
        return hrf_error_set(err, HRF_E_USER,
                             "%s, with two resolutions, %g and %g um/px; keep the right one", text,
                             kept->mpp_csv, again->mpp_csv);
    adopt(kept, again);
    /* Two glob patterns may match the same file. */
    if (first->file.is_regular || ingest->dataset->layout != HRF_LAYOUT_FILES)
        ingest_warn(ingest, "%s: it is taken once", text);
    return HRF_OK;
}

static void drop_rows(struct ingest *ingest, const bool *is_dropped)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->rows.n_items; i++) {
        if (is_dropped[i]) {
            hrf_slide_row_release(&ingest->rows.items[i]);
            continue;
        }
        ingest->rows.items[kept] = ingest->rows.items[i];
        if (ingest->files != NULL)
            ingest->files[kept] = ingest->files[i];
        kept++;
    }
    ingest->rows.n_items = kept;
}

static enum hrf_status merge_equals(struct ingest *ingest, const struct sameness *way,
                                    struct hrf_error *err)
{
    struct entries e;
    HRF_AUTO_FREE bool *is_dropped = hrf_calloc(ingest->rows.n_items + 1, sizeof *is_dropped);
    enum hrf_status status = list_entries(ingest, NULL, way, &e, err);
    for (size_t i = 0, end; i < e.n_items && status == HRF_OK; i = end) {
        end = end_of_equals(&e, i, way);
        for (size_t k = i + 1; k < end && status == HRF_OK; k++) {
            status = merge_rows(ingest, &e.items[i], &e.items[k], way, err);
            is_dropped[e.items[k].index] = true;
        }
    }
    hrf_free(e.items);
    if (status == HRF_OK)
        drop_rows(ingest, is_dropped);
    return status;
}

enum hrf_status ingest_merge_paths(struct ingest *ingest, struct hrf_error *err)
{
    return merge_equals(ingest, &same_path, err);
}

enum hrf_status ingest_merge_files(struct ingest *ingest, struct hrf_error *err)
{
    HRF_TRY(merge_equals(ingest, &same_file, err));
    return merge_equals(ingest, &same_content, err);
}

/* ---- slides of the cohort that calibrate ---- */

enum hrf_status ingest_leave_out(struct ingest *cohort, const struct ingest *sample,
                                 struct hrf_error *err)
{
    static const struct sameness *const ways[] = { &same_included_path, &same_file, &same_content };
    enum hrf_status status = HRF_OK;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0] && status == HRF_OK; w++) {
        struct entries e;
        status = list_entries(cohort, sample, ways[w], &e, err);
        for (size_t i = 0, end; i < e.n_items && status == HRF_OK; i = end) {
            bool calibrates = false;
            end = end_of_equals(&e, i, ways[w]);
            for (size_t k = i; k < end; k++)
                calibrates |= e.items[k].of_sample;
            for (size_t k = i; calibrates && k < end; k++) {
                struct hrf_slide_row *row = &cohort->rows.items[e.items[k].index];
                if (e.items[k].of_sample)
                    continue;
                hrf_free(row->reason);
                row->state = HRF_SLIDE_EXCLUDED;
                row->reason = hrf_strdup("it is one of calibrate.slides: not evaluated");
            }
        }
        hrf_free(e.items);
    }
    return status;
}
