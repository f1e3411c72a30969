/* ingest.c - makes the cohort from the dataset section of a workflow. */
#include "orchestrator/ingest/ingest.h"

#include "base/array.h"
#include "base/guard.h"
#include "base/path.h"
#include "base/sort.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"
#include "tiler/slide/content.h"

#include <errno.h>
#include <math.h>
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

/* Reads the label of classes that do not exclude each other: "er;pr". "none" and "negative" stand
 * for no class. */
static enum hrf_truth several_labels(const struct hrf_workflow_model *model, const char *text,
                                     bool *known)
{
    enum hrf_truth truth = HRF_TRUTH_NEGATIVE;
    *known = true;
    if (text[0] == '\0')
        return HRF_TRUTH_UNKNOWN;
    if (strcasecmp(text, "none") == 0 || strcasecmp(text, "negative") == 0)
        return truth;
    for (size_t n; *text != '\0'; text += n + (text[n] == ';')) {
        bool is_class = false;
        n = strcspn(text, ";");
        for (size_t i = 0; i < model->classes.n_items; i++) {
            const char *class = model->classes.items[i];
            if (strlen(class) != n || strncasecmp(class, text, n) != 0)
                continue;
            is_class = true;
            truth = strcmp(class, model->positive) == 0 ? HRF_TRUTH_POSITIVE : truth;
        }
        *known &= is_class;
    }
    return *known ? truth : HRF_TRUTH_UNKNOWN;
}

enum hrf_truth ingest_label(const struct ingest *ingest, const char *word, bool *known)
{
    const struct hrf_workflow_model *model = ingest->model;
    char *end;
    *known = true;
    if (model != NULL && model->output == HRF_OUTPUT_NONE) { /* the truth is a number */
        *known = word[0] == '\0' || (isfinite(strtod(word, &end)) && *end == '\0');
        return HRF_TRUTH_UNKNOWN;
    }
    if (model != NULL && model->output == HRF_OUTPUT_SIGMOID && model->classes.n_items > 1)
        return several_labels(model, word, known);
    for (size_t i = 0; model != NULL && i < model->classes.n_items; i++)
        if (strcasecmp(word, model->classes.items[i]) == 0)
            return strcmp(model->classes.items[i], model->positive) == 0 ? HRF_TRUTH_POSITIVE
                                                                         : HRF_TRUTH_NEGATIVE;
    return ingest_truth(word, known);
}

struct hrf_slide_row *ingest_add(struct ingest *ingest, const char *path)
{
    HRF_RESERVE(ingest->rows.items, ingest->capacity, ingest->rows.n_items + 1);
    struct hrf_slide_row *row = &ingest->rows.items[ingest->rows.n_items];
    *row = (struct hrf_slide_row){ .name = hrf_path_stem(path),
                                   .path = hrf_strdup(path),
                                   .truth = HRF_TRUTH_UNKNOWN };
    ingest->rows.n_items++;
    hrf_path_tidy(row->path);
    return row;
}

/* ---- after all rows have been collected ---- */

/* Reads size, time and identity of a slide's file. A row whose file is missing has FAILED. */
static void stat_slide(struct hrf_slide_row *row, struct ingest_file *file)
{
    struct stat st;
    const int error = stat(row->path, &st) != 0 ? errno : 0;
    if (error == 0 && !S_ISDIR(st.st_mode)) {
        row->n_bytes = (int64_t)st.st_size;
        row->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        *file = (struct ingest_file){ .device = (uint64_t)st.st_dev,
                                      .inode = (uint64_t)st.st_ino,
                                      .is_regular = S_ISREG(st.st_mode) };
        return;
    }
    HRF_AUTO_FREE char *shown = hrf_text_escaped(row->path);
    row->state = HRF_SLIDE_FAILED;
    row->reason = error == ENOENT ? hrf_format("the file '%s' does not exist", shown)
                  : error != 0    ? hrf_format("the file '%s' cannot be looked at", shown)
                                  : hrf_format("'%s' is a directory, not a slide", shown);
}

/* ---- what a slide is named by ---- */

struct identifying {
    struct hrf_slide_row *rows;
    const struct hrf_slide_row **known; /* sorted by path */
    size_t n_known;
};

/* A row's `seen` and `content`, as a child found them. */
struct identity {
    char seen[HRF_HASH_HEX], content[HRF_HASH_HEX];
};

static int compare_known(const void *a, const void *b)
{
    const struct hrf_slide_row *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

static const char *path_of(void *context, size_t i)
{
    const struct identifying *all = context;
    return all->rows[i].path;
}

/* Runs in a child process: many wait for the file system side by side. */
static enum hrf_status identify_one(void *context, const void *question, struct hrf_strbuf *answer,
                                    struct hrf_error *err)
{
    const struct identifying *all = context;
    const struct hrf_slide_row *const row = &all->rows[*(const size_t *)question];
    struct identity identity = { .seen = "" };
    if (row->state == HRF_SLIDE_PENDING) {
        HRF_TRY(hrf_slide_content(row->path, HRF_CONTENT_SEEN, identity.seen, err));
        const struct hrf_slide_row **found = bsearch(&row, all->known, all->n_known,
                                                     sizeof *all->known, compare_known);
        if (found != NULL && strcmp((*found)->seen, identity.seen) == 0)
            memcpy(identity.content, (*found)->content, sizeof identity.content);
        else
            HRF_TRY(hrf_slide_content(row->path, HRF_CONTENT_SPREAD, identity.content, err));
    }
    hrf_strbuf_add(answer, &identity, sizeof identity);
    return HRF_OK;
}

/* A slide that cannot be read has failed: nothing may be reused for it. */
static void take_identity(void *context, size_t i, enum hrf_status status,
                          const struct hrf_strbuf *answer, const struct hrf_error *err)
{
    const struct identifying *all = context;
    struct hrf_slide_row *row = &all->rows[i];
    struct identity identity = { .seen = "" };
    if (status == HRF_OK) {
        memcpy(&identity, answer->text, sizeof identity);
    } else {
        row->state = HRF_SLIDE_FAILED;
        row->reason = hrf_text_escaped(err->text);
    }
    memcpy(row->seen, identity.seen, sizeof row->seen);
    memcpy(row->content, identity.content, sizeof row->content);
}

static enum hrf_status ingest_identify(struct ingest *ingest, struct hrf_error *err)
{
    enum { CHILDREN = 16 };
    const size_t n_known = ingest->known->n_items + ingest->known->n_sample;
    HRF_AUTO_FREE const struct hrf_slide_row **known = hrf_alloc_array(n_known + 1, sizeof *known);
    struct identifying all = { .rows = ingest->rows.items, .known = known };
    for (size_t i = 0; i < n_known; i++)
        if (ingest->known->items[i].content[0] != '\0')
            known[all.n_known++] = &ingest->known->items[i];
    qsort(known, all.n_known, sizeof *known, compare_known);
    const struct hrf_guard_batch batch = { .n_items = ingest->rows.n_items,
                                           .n_children = CHILDREN,
                                           .work = identify_one,
                                           .path = path_of,
                                           .take = take_identity,
                                           .context = &all };
    return hrf_guard_ask_all(&batch, err);
}

/* Names the slides, then finds those that are excluded, missing, or there twice. An excluded slide
 * does not count as the twin of another one. */
static enum hrf_status name_and_check(struct ingest *ingest, struct hrf_error *err)
{
    HRF_TRY(ingest_merge_paths(ingest, err));
    ingest_name(ingest);
    ingest_exclude(ingest);
    ingest->files = hrf_calloc(ingest->rows.n_items + 1, sizeof *ingest->files);
    for (size_t i = 0; i < ingest->rows.n_items; i++)
        if (ingest->rows.items[i].state != HRF_SLIDE_EXCLUDED)
            stat_slide(&ingest->rows.items[i], &ingest->files[i]);
    if (ingest->known != NULL)
        HRF_TRY(ingest_identify(ingest, err));
    HRF_TRY(ingest_merge_files(ingest, err));
    for (size_t i = 0; i < ingest->rows.n_items; i++)
        ingest->rows.items[i].id = (int64_t)i + 1;
    ingest_warn_of_long_names(ingest);
    return HRF_OK;
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
    return name_and_check(ingest, err);
}

/* Renames a slide of the sample that has the name of a slide of the cohort. `names`: the cohort's,
 * sorted. */
static void name_sample(struct hrf_slide_row *row, const char *section, const char *const *names,
                        size_t n_names)
{
    if (bsearch(&row->name, names, n_names, sizeof *names, hrf_compare_texts) == NULL)
        return;
    char *name = hrf_format("%s/%s", section, row->name);
    hrf_free(row->name);
    row->name = name;
}

/* Adds a slide of the sample after the cohort's slides, without its label. */
static void append_row(struct ingest *cohort, struct hrf_slide_row *from)
{
    struct hrf_slide_rows *rows = &cohort->rows;
    const size_t index = rows->n_items + rows->n_sample;
    HRF_RESERVE(rows->items, cohort->capacity, index + 1);
    hrf_free(from->label_text);
    hrf_free(from->annotation);
    from->label_text = from->annotation = NULL;
    from->truth = HRF_TRUTH_UNKNOWN;
    from->calibrates = true;
    from->id = (int64_t)index + 1;
    rows->items[index] = *from;
    rows->n_sample++;
    *from = (struct hrf_slide_row){ .id = 0 };
}

/* Adds the rows of `sample` after the cohort's, except those that are excluded. */
static enum hrf_status append(struct ingest *cohort, struct ingest *sample, bool is_used,
                              struct hrf_error *err)
{
    const size_t n = cohort->rows.n_items;
    HRF_AUTO_FREE const char **names = hrf_alloc_array(n + 1, sizeof *names);
    /* INT8 must not be judged by slides that it was calibrated on. */
    HRF_TRY(ingest_leave_out(cohort, sample, err));
    for (size_t i = 0; i < n; i++)
        names[i] = cohort->rows.items[i].name;
    qsort(names, n, sizeof *names, hrf_compare_texts);
    for (size_t i = 0; i < sample->rows.n_items; i++) {
        struct hrf_slide_row *from = &sample->rows.items[i];
        if (from->state == HRF_SLIDE_EXCLUDED || !is_used)
            continue;
        if (from->state == HRF_SLIDE_FAILED)
            ingest_warn(cohort, "%s: not in the sample: %s", sample->section, from->reason);
        name_sample(from, sample->section, names, n);
        append_row(cohort, from);
    }
    return cohort->rows.n_sample > 0 || !is_used
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "%s: every slide is excluded", sample->section);
}

static enum hrf_status ingest_both(struct ingest *cohort, const struct hrf_workflow *workflow,
                                   struct hrf_error *err)
{
    struct ingest sample = { .dataset = &workflow->calibrate.slides,
                             .model = &workflow->model,
                             .section = "calibrate.slides",
                             .known = cohort->known,
                             .warnings = cohort->warnings };
    HRF_TRY(read_dataset(cohort, err));
    if (!hrf_dataset_is_given(sample.dataset))
        return HRF_OK;
    enum hrf_status status = read_dataset(&sample, err);
    if (status == HRF_OK)
        status = append(cohort, &sample, hrf_workflow_has_precision(workflow, HRF_INT8), err);
    hrf_slide_rows_release(&sample.rows);
    hrf_free(sample.files);
    return status;
}

enum hrf_status hrf_ingest(const struct hrf_workflow *workflow, const struct hrf_slide_rows *known,
                           struct hrf_slide_rows *out, struct hrf_strbuf *warnings,
                           struct hrf_error *err)
{
    struct ingest ingest = { .dataset = &workflow->dataset,
                             .model = &workflow->model,
                             .section = "dataset",
                             .known = known,
                             .warnings = warnings };
    enum hrf_status status = ingest_both(&ingest, workflow, err);
    hrf_free(ingest.files);
    if (status != HRF_OK) {
        hrf_slide_rows_release(&ingest.rows);
        return status;
    }
    *out = ingest.rows;
    return HRF_OK;
}

void hrf_ingest_check(const struct hrf_workflow *workflow, struct hrf_findings *findings)
{
    struct ingest both[] = {
        { .dataset = &workflow->dataset, .model = &workflow->model, .section = "dataset.csv" },
        { .dataset = &workflow->calibrate.slides,
          .model = &workflow->model,
          .section = "calibrate.slides.csv" },
    };
    for (size_t i = 0; i < 2; i++) {
        struct ingest *ingest = &both[i];
        struct hrf_error why = { .status = HRF_OK };
        const size_t before = findings->n_items;
        if (ingest->dataset->layout != HRF_LAYOUT_CSV || ingest->dataset->csv == NULL)
            continue;
        enum hrf_status status = ingest_csv_read(ingest, findings, &why);
        if (status == HRF_OK && findings->n_items == before)
            status = ingest_merge_paths(ingest, &why);
        if (status == HRF_OK && ingest->rows.n_items == 0 && findings->n_items == before)
            status = hrf_error_set(&why, HRF_E_USER, "'%s' has no slides", ingest->dataset->csv);
        hrf_slide_rows_release(&ingest->rows);
        if (status != HRF_OK)
            hrf_findings_add(findings, ingest->section, 0, why.text);
    }
}
