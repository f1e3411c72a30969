/* names.c - gives the slides of a cohort unique names, and applies the list of excluded names.
 *
 * A slide's name is its file's stem. Slides with equal stems get as many parent directories as
 * distinguish them: "case1/slide", "case2/slide". Files of one directory that differ only in their
 * extension keep the extension. A name depends on the set of paths, not on their order.
 */
#include "aggregate/camelyon16/exclusions.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A path; names are taken from the end of path[0, length). */
struct slide_path {
    const char *path;
    size_t length, row;
};

/* Compares from the end, so that paths with equal ends become neighbours. */
static int compare_endings(const void *a, const void *b)
{
    const struct slide_path *x = a, *y = b;
    size_t i = x->length, k = y->length;
    while (i > 0 && k > 0 && x->path[i - 1] == y->path[k - 1]) {
        i--;
        k--;
    }
    if (i == 0 || k == 0)
        return (i > 0) - (k > 0);
    return (unsigned char)x->path[i - 1] < (unsigned char)y->path[k - 1] ? -1 : 1;
}

static struct slide_path *make_paths(const struct ingest *ingest)
{
    struct slide_path *paths = hrf_alloc_array(ingest->rows.n_items + 1, sizeof *paths);
    for (size_t i = 0; i < ingest->rows.n_items; i++) {
        const char *path = ingest->rows.items[i].path;
        HRF_AUTO_FREE char *stem = hrf_path_stem(path);
        const size_t length = (size_t)(hrf_path_name(path) - path) + strlen(stem);
        paths[i] = (struct slide_path){ .path = path, .length = length, .row = i };
    }
    return paths;
}

/* Sorts the paths. Paths that are equal without their extensions keep them; since all paths differ,
 * this ends. */
static void sort_paths(struct slide_path *paths, size_t n)
{
    for (bool is_new = true; is_new;) {
        is_new = false;
        qsort(paths, n, sizeof *paths, compare_endings);
        for (size_t i = 1; i < n; i++) {
            if (compare_endings(&paths[i - 1], &paths[i]) != 0)
                continue;
            for (size_t k = i - 1; k <= i; k++) {
                const size_t whole = strlen(paths[k].path);
                is_new |= paths[k].length < whole;
                paths[k].length = whole;
            }
        }
    }
}

/* The number of equal path components, counted from the last one. */
static size_t common_parts(const struct slide_path *a, const struct slide_path *b)
{
    size_t i = a->length, k = b->length, n = 0;
    while (i > 0 && k > 0 && a->path[i - 1] == b->path[k - 1]) {
        n += a->path[i - 1] == '/';
        i--;
        k--;
    }
    return n;
}

/* Returns the last n components of a path; heap. */
static char *last_parts(const struct slide_path *slide, size_t n)
{
    size_t from = slide->length;
    while (from > 0 && (slide->path[from - 1] != '/' || --n > 0))
        from--;
    if (from == 0 && slide->path[0] == '/') /* there are no more */
        from = 1;
    return hrf_strndup(slide->path + from, slide->length - from);
}

void ingest_name(struct ingest *ingest)
{
    const size_t n = ingest->rows.n_items;
    HRF_AUTO_FREE struct slide_path *paths = make_paths(ingest);
    sort_paths(paths, n);
    size_t before = 0; /* components in common with the previous path */
    for (size_t i = 0; i < n; i++) {
        struct hrf_slide_row *row = &ingest->rows.items[paths[i].row];
        const size_t after = i + 1 < n ? common_parts(&paths[i], &paths[i + 1]) : 0;
        hrf_free(row->name);
        row->name = last_parts(&paths[i], 1 + (before > after ? before : after));
        before = after;
    }
}

void ingest_warn_of_long_names(struct ingest *ingest)
{
    for (size_t i = 0; i < ingest->rows.n_items; i++) {
        const char *name = ingest->rows.items[i].name;
        if (strlen(name) < 60) /* long enough even if every byte is escaped to three */
            continue;
        HRF_AUTO_FREE char *file = hrf_text_cut_file_name(name);
        HRF_AUTO_FREE char *shown = hrf_text_escaped(name);
        if (file != NULL)
            ingest_warn(ingest,
                        "the name '%s' is too long for the names of files: its results are called "
                        "'%s'",
                        shown, file);
    }
}

/* ---- what is excluded ---- */

/* A name that `exclude` lists. */
struct word {
    const char *text;
    size_t n_names, n_stems; /* slides with that name; slides with that stem */
};

static int compare_words(const void *a, const void *b)
{
    return strcasecmp(((const struct word *)a)->text, ((const struct word *)b)->text);
}

static struct word *find_word(struct word *words, size_t n, const char *text)
{
    const struct word wanted = { .text = text };
    return n > 0 ? bsearch(&wanted, words, n, sizeof *words, compare_words) : NULL;
}

static void exclude_row(struct hrf_slide_row *row, struct word *words, size_t n)
{
    HRF_AUTO_FREE char *stem = hrf_path_stem(row->path);
    struct word *by_name = find_word(words, n, row->name), *by_stem = find_word(words, n, stem);
    if (by_name == NULL && by_stem == NULL)
        return;
    if (by_name != NULL)
        by_name->n_names++;
    else
        by_stem->n_stems++;
    row->state = HRF_SLIDE_EXCLUDED;
    row->reason = hrf_strdup("excluded by the workflow");
}

/* A word that matches no slide is most likely a typing error. A stem that matches several slides
 * may be meant to exclude all of them. */
static void warn_of_words(struct ingest *ingest, const struct word *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        HRF_AUTO_FREE char *shown = hrf_text_escaped(words[i].text);
        const bool is_repeated = i > 0 && compare_words(&words[i - 1], &words[i]) == 0;
        if (words[i].n_names + words[i].n_stems == 0 && !is_repeated)
            ingest_warn(ingest, "%s.exclude names '%s', which is none of its slides",
                        ingest->section, shown);
        if (words[i].n_stems > 0)
            ingest_warn(ingest, "%s.exclude names '%s', the stem of %zu slides: all are excluded",
                        ingest->section, shown, words[i].n_stems);
    }
}

/* Slides of CAMELYON16 that are known to be wrong, unless the workflow keeps them. What is wrong
 * for the lesion task alone stays. */
static void exclude_known(struct ingest *ingest)
{
    const bool is_asked_for = ingest->dataset->layout == HRF_LAYOUT_CAMELYON16 &&
                              ingest->dataset->known_exclusions;
    for (size_t i = 0; is_asked_for && i < ingest->rows.n_items; i++) {
        struct hrf_slide_row *row = &ingest->rows.items[i];
        const struct hrf_exclusion *known = hrf_camelyon16_exclusion(row->name);
        if (known == NULL || known->lesions_only || row->state == HRF_SLIDE_EXCLUDED)
            continue;
        row->state = HRF_SLIDE_EXCLUDED;
        row->reason = hrf_format("%s (dataset.known_exclusions)", known->reason);
    }
}

void ingest_exclude(struct ingest *ingest)
{
    const struct hrf_text_list *list = &ingest->dataset->exclude;
    HRF_AUTO_FREE struct word *words = hrf_calloc(list->n_items + 1, sizeof *words);
    for (size_t i = 0; i < list->n_items; i++)
        words[i].text = list->items[i];
    qsort(words, list->n_items, sizeof *words, compare_words);
    for (size_t i = 0; i < ingest->rows.n_items && list->n_items > 0; i++)
        exclude_row(&ingest->rows.items[i], words, list->n_items);
    warn_of_words(ingest, words, list->n_items);
    exclude_known(ingest);
}
