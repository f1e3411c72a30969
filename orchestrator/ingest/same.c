/* same.c - finds slides that a dataset contains twice: by two paths, by a link, or as a copy.
 *
 * Such a slide is used once, with a note; if it has two labels or two resolutions, that is an
 * error. Two files are the same if they are one file of the file system, or if their sizes and all
 * bytes are equal. Bytes are compared only if the sizes are equal: first some of them, then all.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct entry {
    const struct hrf_slide_row *row;
    struct ingest_file file;
    char hash[HRF_HASH_HEX];
    size_t index;   /* of the row */
    bool of_sample; /* a row of calibrate.slides, not of the cohort */
};

struct entries {
    struct entry *items;
    size_t n_items;
    bool *is_dropped; /* [rows] */
};

static void entries_release(struct entries *e)
{
    hrf_free(e->items);
    hrf_free(e->is_dropped);
    *e = (struct entries){ .items = NULL };
}

/* Lists the rows that were not dropped and for which `is_wanted` is true. */
static enum hrf_status entries_make(const struct ingest *ingest,
                                    bool (*is_wanted)(const struct hrf_slide_row *row,
                                                      const struct ingest_file *file),
                                    struct entries *out, struct hrf_error *err)
{
    const size_t n = ingest->rows.n_items;
    *out = (struct entries){ .items = hrf_calloc(n + 1, sizeof *out->items),
                             .is_dropped = hrf_calloc(n + 1, sizeof *out->is_dropped) };
    if (out->items == NULL || out->is_dropped == NULL) {
        entries_release(out);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to compare %zu slides", n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct hrf_slide_row *row = &ingest->rows.items[i];
        struct ingest_file file = { .is_regular = false };
        if (ingest->files != NULL)
            file = ingest->files[i];
        if (is_wanted(row, &file))
            out->items[out->n_items++] = (struct entry){ .row = row, .file = file, .index = i };
    }
    return HRF_OK;
}

/* Takes the dropped rows out. */
static void drop(struct ingest *ingest, const struct entries *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->rows.n_items; i++) {
        if (e->is_dropped[i]) {
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

static const char *label_of(const struct hrf_slide_row *row)
{
    return row->label_text != NULL            ? row->label_text
           : row->truth == HRF_TRUTH_POSITIVE ? "positive"
                                              : "negative";
}

/* Fills in what only the second row knows. */
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

/* *text (heap): "'a' and 'b' are one slide (how)". */
static enum hrf_status describe(const struct ingest *ingest, const struct hrf_slide_row *kept,
                                const struct hrf_slide_row *again, const char *how, char **text,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *a = hrf_text_printable(kept->path), *b = hrf_text_printable(again->path);
    if (a != NULL && b != NULL)
        *text = strcmp(a, b) == 0 ? hrf_format("%s: '%s' is there twice", ingest->section, a)
                                  : hrf_format("%s: '%s' and '%s' are one slide (%s)",
                                               ingest->section, a, b, how);
    return *text != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory to compare slides");
}

/* Of three or more classes two may both be "not positive" and yet differ. */
static bool are_other_classes(const struct ingest *ingest, const struct hrf_slide_row *a,
                              const struct hrf_slide_row *b)
{
    return ingest->model != NULL && ingest->model->classes.n_items > 2 && a->label_text != NULL &&
           b->label_text != NULL && strcasecmp(a->label_text, b->label_text) != 0;
}

/* how: what is equal, as text for users */
static enum hrf_status merge(struct ingest *ingest, struct entries *e, const struct entry *first,
                             const struct entry *second, const char *how, struct hrf_error *err)
{
    struct hrf_slide_row *kept = &ingest->rows.items[first->index];
    struct hrf_slide_row *again = &ingest->rows.items[second->index];
    HRF_AUTO_FREE char *text = NULL;
    HRF_TRY(describe(ingest, kept, again, how, &text, err));
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
    e->is_dropped[second->index] = true;
    /* Two glob patterns may match the same file. */
    if (first->file.is_regular || ingest->dataset->layout != HRF_LAYOUT_FILES)
        ingest_warn(ingest, "%s: it is taken once", text);
    return HRF_OK;
}

typedef int (*comparison)(const struct entry *a, const struct entry *b);

/* Merges runs of equal rows; the row that comes first in the dataset stays. */
static enum hrf_status merge_runs(struct ingest *ingest, struct entries *e, comparison compare,
                                  const char *how, struct hrf_error *err)
{
    for (size_t i = 0, k; i < e->n_items; i = k)
        for (k = i + 1; k < e->n_items && compare(&e->items[i], &e->items[k]) == 0; k++)
            HRF_TRY(merge(ingest, e, &e->items[i], &e->items[k], how, err));
    return HRF_OK;
}

static int by_index(const struct entry *a, const struct entry *b)
{
    return (a->index > b->index) - (a->index < b->index);
}

/* ---- by their paths ---- */

static bool is_any(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    (void)row, (void)file;
    return true;
}

static int compare_paths(const struct entry *a, const struct entry *b)
{
    return strcmp(a->row->path, b->row->path);
}

static int sort_by_path(const void *a, const void *b)
{
    const int order = compare_paths(a, b);
    return order != 0 ? order : by_index(a, b);
}

enum hrf_status ingest_merge_paths(struct ingest *ingest, struct hrf_error *err)
{
    struct entries e;
    HRF_TRY(entries_make(ingest, is_any, &e, err));
    qsort(e.items, e.n_items, sizeof *e.items, sort_by_path);
    const enum hrf_status status = merge_runs(ingest, &e, compare_paths, "one path", err);
    if (status == HRF_OK)
        drop(ingest, &e);
    entries_release(&e);
    return status;
}

/* ---- comparing files, and their contents ---- */

static bool is_there(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    return row->state == HRF_SLIDE_PENDING && file->is_regular;
}

static int compare_files(const struct entry *a, const struct entry *b)
{
    if (a->file.device != b->file.device)
        return a->file.device < b->file.device ? -1 : 1;
    return (a->file.inode > b->file.inode) - (a->file.inode < b->file.inode);
}

static int sort_by_file(const void *a, const void *b)
{
    const int order = compare_files(a, b);
    return order != 0 ? order : by_index(a, b);
}

/* The named file of MIRAX and Hamamatsu VMS slides is only a small index: the pixels are in other
 * files. */
static bool has_all_inside(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    static const char *const parts[] = { "mrxs", "vms", "vmu" };
    HRF_AUTO_FREE char *extension = hrf_path_extension(row->path);
    for (size_t i = 0; extension != NULL && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(extension, parts[i]) == 0)
            return false;
    return is_there(row, file) && row->n_bytes > 0;
}

static int compare_content(const struct entry *a, const struct entry *b)
{
    if (a->row->n_bytes != b->row->n_bytes)
        return a->row->n_bytes < b->row->n_bytes ? -1 : 1;
    return strcmp(a->hash, b->hash);
}

static int sort_by_content(const void *a, const void *b)
{
    const int order = compare_content(a, b);
    return order != 0 ? order : by_index(a, b);
}

/* Hashes 64 KiB of the file, in blocks spread evenly over it. */
static enum hrf_status hash_some(const char *path, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    enum { BLOCKS = 16, BLOCK_BYTES = 4096 };
    char block[BLOCK_BYTES];
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    HRF_TRY(hrf_file_open(path, &fd, err));
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0)
        return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
    HRF_TRY(hrf_hash_create(&hash, err));
    const off_t last = size > BLOCK_BYTES ? size - BLOCK_BYTES : 0;
    for (int i = 0; i < BLOCKS; i++) {
        const ssize_t n = pread(fd, block, sizeof block, last * i / (BLOCKS - 1));
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        hrf_hash_field(hash, block, (size_t)n);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* Compares more of the rows that have been equal so far. A file that cannot be read equals no
 * other; its own job reports the error. */
static enum hrf_status refine(struct entries *e,
                              enum hrf_status (*hash)(const char *path, char out[HRF_HASH_HEX],
                                                      struct hrf_error *err),
                              struct hrf_error *err)
{
    size_t kept = 0;
    for (size_t i = 0, k; i < e->n_items; i = k) {
        k = i + 1;
        while (k < e->n_items && compare_content(&e->items[i], &e->items[k]) == 0)
            k++;
        for (size_t at = i; k - i > 1 && at < k; at++) {
            struct entry entry = e->items[at];
            const enum hrf_status status = hash(entry.row->path, entry.hash, err);
            if (status == HRF_E_NOMEM)
                return status;
            if (status == HRF_OK)
                e->items[kept++] = entry;
        }
    }
    e->n_items = kept;
    qsort(e->items, e->n_items, sizeof *e->items, sort_by_content);
    return HRF_OK;
}

/* Leaves the entries, sorted by content, that have an equal: those of the same size and bytes. */
static enum hrf_status find_equal_content(struct entries *e, struct hrf_error *err)
{
    struct hrf_error unread; /* of a single file: not ours to tell */
    enum hrf_status status = refine(e, hash_some, &unread);
    if (status == HRF_OK)
        status = refine(e, hrf_hash_file, &unread);
    return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", unread.text);
}

static enum hrf_status merge_content(struct ingest *ingest, struct entries *e,
                                     struct hrf_error *err)
{
    qsort(e->items, e->n_items, sizeof *e->items, sort_by_content);
    HRF_TRY(find_equal_content(e, err));
    return merge_runs(ingest, e, compare_content, "the same content", err);
}

enum hrf_status ingest_merge_files(struct ingest *ingest, struct hrf_error *err)
{
    struct entries e;
    HRF_TRY(entries_make(ingest, is_there, &e, err));
    qsort(e.items, e.n_items, sizeof *e.items, sort_by_file);
    enum hrf_status status = merge_runs(ingest, &e, compare_files, "the same file", err);
    if (status == HRF_OK)
        drop(ingest, &e);
    entries_release(&e);
    HRF_TRY(status);
    HRF_TRY(entries_make(ingest, has_all_inside, &e, err));
    status = merge_content(ingest, &e, err);
    if (status == HRF_OK)
        drop(ingest, &e);
    entries_release(&e);
    return status;
}

/* ---- slides of the cohort that calibrate ---- */

static bool is_included(const struct hrf_slide_row *row, const struct ingest_file *file)
{
    (void)file;
    return row->state != HRF_SLIDE_EXCLUDED;
}

/* Entries of both. */
static enum hrf_status entries_join(const struct ingest *cohort, const struct ingest *sample,
                                    bool (*is_wanted)(const struct hrf_slide_row *row,
                                                      const struct ingest_file *file),
                                    struct entries *out, struct hrf_error *err)
{
    struct entries more = { .items = NULL };
    HRF_TRY(entries_make(cohort, is_wanted, out, err));
    enum hrf_status status = entries_make(sample, is_wanted, &more, err);
    size_t capacity = out->n_items;
    if (status == HRF_OK)
        status = hrf_array_reserve((void **)&out->items, &capacity, out->n_items + more.n_items + 1,
                                   sizeof *out->items, err);
    for (size_t i = 0; i < more.n_items && status == HRF_OK; i++) {
        more.items[i].of_sample = true;
        out->items[out->n_items++] = more.items[i];
    }
    entries_release(&more);
    if (status != HRF_OK)
        entries_release(out);
    return status;
}

static enum hrf_status leave_out(struct hrf_slide_row *row, struct hrf_error *err)
{
    hrf_free(row->reason);
    row->state = HRF_SLIDE_EXCLUDED;
    row->reason = hrf_strdup("it is one of calibrate.slides: not evaluated");
    HRF_CHECK_MEMORY(row->reason != NULL, err, "no memory for a slide");
    return HRF_OK;
}

/* Of runs of equal ones with a slide of the sample. */
static enum hrf_status leave_out_runs(struct ingest *cohort, const struct entries *e,
                                      comparison compare, struct hrf_error *err)
{
    for (size_t i = 0, k; i < e->n_items; i = k) {
        bool calibrates = false;
        for (k = i; k < e->n_items && compare(&e->items[i], &e->items[k]) == 0; k++)
            calibrates |= e->items[k].of_sample;
        for (size_t at = i; calibrates && at < k; at++)
            if (!e->items[at].of_sample)
                HRF_TRY(leave_out(&cohort->rows.items[e->items[at].index], err));
    }
    return HRF_OK;
}

static enum hrf_status
leave_out_by(struct ingest *cohort, const struct ingest *sample,
             bool (*is_wanted)(const struct hrf_slide_row *row, const struct ingest_file *file),
             int (*sort)(const void *a, const void *b), comparison compare, struct hrf_error *err)
{
    struct entries e;
    HRF_TRY(entries_join(cohort, sample, is_wanted, &e, err));
    qsort(e.items, e.n_items, sizeof *e.items, sort);
    enum hrf_status status = HRF_OK;
    if (compare == compare_content)
        status = find_equal_content(&e, err);
    if (status == HRF_OK)
        status = leave_out_runs(cohort, &e, compare, err);
    entries_release(&e);
    return status;
}

enum hrf_status ingest_leave_out(struct ingest *cohort, const struct ingest *sample,
                                 struct hrf_error *err)
{
    HRF_TRY(leave_out_by(cohort, sample, is_included, sort_by_path, compare_paths, err));
    HRF_TRY(leave_out_by(cohort, sample, is_there, sort_by_file, compare_files, err));
    return leave_out_by(cohort, sample, has_all_inside, sort_by_content, compare_content, err);
}
