/* ingest.c - makes the cohort from the dataset section of a workflow. */
#include "orchestrator/ingest/ingest.h"

#include "base/path.h"
#include "base/sort.h"
#include "base/text.h"
#include "orchestrator/ingest/ingest_private.h"

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

/* Of classes that do not exclude each other: "er;pr". "none" and "negative" are no class at all. */
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

enum hrf_status ingest_add(struct ingest *ingest, const char *path, struct hrf_slide_row **out,
                           struct hrf_error *err)
{
    HRF_TRY(hrf_array_reserve((void **)&ingest->rows.items, &ingest->capacity,
                              ingest->rows.n_items + 1, sizeof ingest->rows.items[0], err));
    struct hrf_slide_row *row = &ingest->rows.items[ingest->rows.n_items];
    *row = (struct hrf_slide_row){ .name = hrf_path_stem(path),
                                   .path = hrf_strdup(path),
                                   .truth = HRF_TRUTH_UNKNOWN };
    ingest->rows.n_items++;
    HRF_CHECK_MEMORY(row->name != NULL && row->path != NULL, err, "no memory for a slide");
    hrf_path_tidy(row->path);
    if (out != NULL)
        *out = row;
    return HRF_OK;
}

/* ---- after all rows have been collected ---- */

static enum hrf_status look_at(struct hrf_slide_row *row, struct ingest_file *file,
                               struct hrf_error *err)
{
    struct stat st;
    const int error = stat(row->path, &st) != 0 ? errno : 0;
    if (error == 0 && !S_ISDIR(st.st_mode)) {
        row->n_bytes = (int64_t)st.st_size;
        row->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        *file = (struct ingest_file){ .device = (uint64_t)st.st_dev,
                                      .inode = (uint64_t)st.st_ino,
                                      .is_regular = S_ISREG(st.st_mode) };
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

/* Names the slides, then finds those that are excluded, missing, or there twice. An excluded slide
 * does not count as the twin of another one. */
static enum hrf_status finish(struct ingest *ingest, struct hrf_error *err)
{
    HRF_TRY(ingest_merge_paths(ingest, err));
    HRF_TRY(ingest_name(ingest, err));
    HRF_TRY(ingest_exclude(ingest, err));
    ingest->files = hrf_calloc(ingest->rows.n_items + 1, sizeof *ingest->files);
    HRF_CHECK_MEMORY(ingest->files != NULL, err, "no memory for the slides");
    for (size_t i = 0; i < ingest->rows.n_items; i++)
        if (ingest->rows.items[i].state != HRF_SLIDE_EXCLUDED)
            HRF_TRY(look_at(&ingest->rows.items[i], &ingest->files[i], err));
    HRF_TRY(ingest_merge_files(ingest, err));
    for (size_t i = 0; i < ingest->rows.n_items; i++)
        ingest->rows.items[i].id = (int64_t)i + 1;
    return ingest_tell_names(ingest, err);
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
    return finish(ingest, err);
}

static bool wants_int8(const struct hrf_workflow *workflow)
{
    for (size_t i = 0; i < workflow->n_precisions; i++)
        if (workflow->precision[i] == HRF_INT8)
            return true;
    return false;
}

/* Renames a slide of the sample that has the name of a slide of the cohort. `names`: the cohort's,
 * sorted. */
static enum hrf_status name_sample(struct hrf_slide_row *row, const char *section,
                                   const char *const *names, size_t n_names, struct hrf_error *err)
{
    if (bsearch(&row->name, names, n_names, sizeof *names, hrf_compare_texts) == NULL)
        return HRF_OK;
    char *name = hrf_format("%s/%s", section, row->name);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for a slide");
    hrf_free(row->name);
    row->name = name;
    return HRF_OK;
}

/* Adds a slide of the sample after the cohort's slides, without its label. */
static enum hrf_status append_row(struct ingest *cohort, struct hrf_slide_row *from,
                                  struct hrf_error *err)
{
    struct hrf_slide_rows *rows = &cohort->rows;
    const size_t place = rows->n_items + rows->n_sample;
    HRF_TRY(hrf_array_reserve((void **)&rows->items, &cohort->capacity, place + 1,
                              sizeof rows->items[0], err));
    hrf_free(from->label_text);
    hrf_free(from->annotation);
    from->label_text = from->annotation = NULL;
    from->truth = HRF_TRUTH_UNKNOWN;
    from->calibrates = true;
    from->id = (int64_t)place + 1;
    rows->items[place] = *from;
    rows->n_sample++;
    *from = (struct hrf_slide_row){ .id = 0 };
    return HRF_OK;
}

/* Adds the rows of `sample` after the cohort's, except those that are excluded. */
static enum hrf_status append(struct ingest *cohort, struct ingest *sample, bool is_used,
                              struct hrf_error *err)
{
    const size_t n = cohort->rows.n_items;
    HRF_AUTO_FREE const char **names = hrf_alloc_array(n + 1, sizeof *names);
    HRF_CHECK_MEMORY(names != NULL, err, "no memory for the calibration sample");
    HRF_TRY(ingest_leave_out(cohort, sample, err)); /* a scale is judged by other slides */
    for (size_t i = 0; i < n; i++)
        names[i] = cohort->rows.items[i].name;
    qsort(names, n, sizeof *names, hrf_compare_texts);
    for (size_t i = 0; i < sample->rows.n_items; i++) {
        struct hrf_slide_row *from = &sample->rows.items[i];
        if (from->state == HRF_SLIDE_EXCLUDED)
            continue;
        if (!is_used)
            continue;
        if (from->state == HRF_SLIDE_FAILED)
            ingest_warn(cohort, "%s: not in the sample: %s", sample->section, from->reason);
        HRF_TRY(name_sample(from, sample->section, names, n, err));
        HRF_TRY(append_row(cohort, from, err));
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
                             .warnings = cohort->warnings };
    HRF_TRY(read_dataset(cohort, err));
    if (!hrf_dataset_is_given(sample.dataset))
        return HRF_OK;
    enum hrf_status status = read_dataset(&sample, err);
    if (status == HRF_OK)
        status = append(cohort, &sample, wants_int8(workflow), err);
    hrf_slide_rows_release(&sample.rows);
    hrf_free(sample.files);
    return status;
}

enum hrf_status hrf_ingest(const struct hrf_workflow *workflow, struct hrf_slide_rows *out,
                           struct hrf_strbuf *warnings, struct hrf_error *err)
{
    struct ingest ingest = { .dataset = &workflow->dataset,
                             .model = &workflow->model,
                             .section = "dataset",
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
