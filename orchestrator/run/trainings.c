/* trainings.c - slide_head.train: trains slide heads on the run's embeddings, as tasks.
 *
 * Once every slide has its embeddings, each precision gets a folder heads/PRECISION with the file
 * that `head train` reads and the labels, in which the features are named by their hashes. A train
 * task is one fold and seed of it, keyed by the bytes of both files. Heads that have ended their
 * training score the slides that test them.
 */
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/run/head_table.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/trained_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char training_version[] = "hires-flow train 1";

static bool wants_trainings(const struct run *run)
{
    return run->workflow->slide_head.train != HRF_TRAIN_NONE && !run->calibrate_only;
}

bool run_waits_for_heads(const struct run *run)
{
    return wants_trainings(run) && !run->heads_known;
}

int32_t run_class_of(const struct hrf_workflow *w, const struct hrf_slide_row *slide)
{
    const struct hrf_text_list *classes = &w->model.classes;
    const size_t n = slide->label_text != NULL ? strcspn(slide->label_text, ",") : 0;
    int32_t positive = -1, other = -1;
    for (size_t i = 0; i < classes->n_items; i++) {
        if (n > 0 && strlen(classes->items[i]) == n &&
            strncasecmp(classes->items[i], slide->label_text, n) == 0)
            return (int32_t)i;
        *(strcmp(classes->items[i], w->model.positive) == 0 ? &positive : &other) = (int32_t)i;
    }
    return slide->truth == HRF_TRUTH_POSITIVE                            ? positive
           : slide->truth == HRF_TRUTH_NEGATIVE && classes->n_items == 2 ? other
                                                                         : -1;
}

/* ---- the file that `head train` reads ---- */

/* A word in single quotes, as YAML has it. */
static void add_quoted(struct hrf_strbuf *out, const char *text)
{
    hrf_strbuf_addc(out, '\'');
    for (; *text != '\0'; text++)
        hrf_strbuf_adds(out, *text == '\'' ? "''" : (const char[]){ *text, '\0' });
    hrf_strbuf_addc(out, '\'');
}

static void add_recipe(const struct hrf_workflow *w, struct hrf_strbuf *out)
{
    const struct hrf_workflow_slide_head *h = &w->slide_head;
    hrf_strbuf_adds(out, "labels: {csv: labels.csv, classes: [");
    for (size_t i = 0; i < w->model.classes.n_items; i++) {
        hrf_strbuf_adds(out, i > 0 ? ", " : "");
        add_quoted(out, w->model.classes.items[i]);
    }
    hrf_strbuf_addf(out, "]}\nhead: {kind: %s, hidden: %lld", hrf_head_choice_name(h->train),
                    (long long)h->hidden);
    if (h->attention > 0)
        hrf_strbuf_addf(out, ", attention: %lld", (long long)h->attention);
    if (h->dropout >= 0)
        hrf_strbuf_addf(out, ", dropout: %.17g", h->dropout);
    hrf_strbuf_addf(out, "}\nsplit: {by: %s, folds: %lld, seed: %lld, validation: %.17g}\n",
                    h->split == HRF_HEADS_BY_FOLDS ? "folds" : "column", (long long)h->folds,
                    (long long)h->seed, h->validation);
    hrf_strbuf_adds(out, "train: {seeds: [");
    for (int64_t i = 0; i < h->repeats; i++)
        hrf_strbuf_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)(h->seed + i));
    hrf_strbuf_addf(out,
                    "], epochs: %lld, patience: %lld, learning_rate: %.17g, weight_decay: %.17g, "
                    "class_weights: %s}\n",
                    (long long)h->epochs, (long long)h->patience, h->learning_rate, h->weight_decay,
                    h->balanced ? "balanced" : "none");
}

/* ---- the labels ---- */

/* One line of labels.csv for a slide that has a truth and embeddings. */
static enum hrf_status add_slide(struct run *run, const struct hrf_slide_row *slide,
                                 const char *precision, const struct run_head_table *table,
                                 struct hrf_strbuf *out, struct hrf_error *err)
{
    struct run_bag bag;
    const struct hrf_csv_row *line = NULL;
    const int32_t class = run_class_of(run->workflow, slide);
    if (class < 0 || slide->calibrates)
        return HRF_OK;
    const enum hrf_status status = run_find_bag(run, slide, precision, &bag, err);
    HRF_AUTO_FREE char *path = bag.path;
    HRF_TRY(status);
    if (path == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *name = hrf_path_stem(path);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for a name");
    HRF_TRY(run_head_table_find(run->workflow, table, slide->name, &line, err));
    hrf_csv_add_cell(out, name);
    hrf_strbuf_addc(out, ',');
    hrf_csv_add_cell(out, run->workflow->model.classes.items[class]);
    hrf_strbuf_addc(out, ',');
    hrf_csv_add_cell(out, run_head_table_cell(line, table->patient));
    hrf_strbuf_addf(out, ",%s,%s\n", run_head_table_part(run->workflow, table, slide->name, line),
                    bag.sha256);
    return HRF_OK;
}

static enum hrf_status make_labels(struct run *run, const char *precision,
                                   const struct run_head_table *table, struct hrf_strbuf *out,
                                   struct hrf_error *err)
{
    hrf_strbuf_adds(out, "slide,label,patient,split,sha256\n");
    for (size_t i = 0; i < run->slides.n_items; i++)
        HRF_TRY(add_slide(run, &run->slides.items[i], precision, table, out, err));
    return hrf_strbuf_status(out, err);
}

/* ---- planning ---- */

static char *heads_folder(const struct run *run, const char *precision)
{
    return hrf_format("%s/heads/%s", run->directory, precision);
}

static enum hrf_status write_text(const char *folder, const char *name,
                                  const struct hrf_strbuf *text, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    return hrf_file_write_atomic(path, text->text, text->length, err);
}

static enum hrf_status write_files(const struct run *run, const char *precision,
                                   const struct hrf_strbuf *recipe, const struct hrf_strbuf *labels,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) whole = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *folder = heads_folder(run, precision);
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    HRF_TRY(hrf_path_make_directories(folder, err));
    hrf_strbuf_adds(&whole, "version: 1\nfeatures: {folder: ");
    hrf_strbuf_addf(&whole, "../../bags/%s}\n%sout: .\n", precision, recipe->text);
    HRF_TRY(hrf_strbuf_status(&whole, err));
    HRF_TRY(write_text(folder, "labels.csv", labels, err));
    return write_text(folder, "head.yaml", &whole, err);
}

static int64_t n_folds(const struct hrf_workflow *w)
{
    return w->slide_head.split == HRF_HEADS_BY_FOLDS ? w->slide_head.folds : 1;
}

int64_t run_n_trainings(const struct hrf_workflow *w)
{
    return w->slide_head.train != HRF_TRAIN_NONE ? n_folds(w) * w->slide_head.repeats : 0;
}

size_t run_training_precisions(const struct hrf_workflow *w)
{
    return w->slide_head.each_precision ? w->n_precisions : 1;
}

static enum hrf_status plan_precision(struct run *run, const char *precision,
                                      const struct run_head_table *table, struct hrf_task_row *rows,
                                      size_t *n, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) recipe = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) labels = HRF_STRBUF_INIT;
    add_recipe(run->workflow, &recipe);
    HRF_TRY(hrf_strbuf_status(&recipe, err));
    HRF_TRY(make_labels(run, precision, table, &labels, err));
    HRF_TRY(write_files(run, precision, &recipe, &labels, err));
    for (int64_t i = 0; i < run_n_trainings(run->workflow); i++) {
        HRF_AUTO(hrf_hash) hash = NULL;
        struct hrf_task_row *row = &rows[(*n)++];
        HRF_TRY(hrf_hash_create(&hash, err));
        hrf_hash_text(hash, training_version);
        hrf_hash_text(hash, recipe.text);
        hrf_hash_text(hash, labels.text);
        hrf_hash_int(hash, i);
        *row = (struct hrf_task_row){ .kind = HRF_TASK_TRAIN, .first_patch = i };
        snprintf(row->precision, sizeof row->precision, "%s", precision);
        hrf_hash_hex(hash, row->key);
    }
    return HRF_OK;
}

static enum hrf_status plan_trainings(struct run *run, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    const size_t n_precisions = run_training_precisions(w);
    struct run_head_table table;
    size_t n = 0;
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(
        n_precisions * (size_t)run_n_trainings(w) + 1, sizeof *rows);
    HRF_CHECK_MEMORY(rows != NULL, err, "no memory for the trainings");
    enum hrf_status status = run_head_table_read(w, &table, err);
    for (size_t p = 0; p < n_precisions && status == HRF_OK; p++)
        status = plan_precision(run, hrf_precision_name(w->precision[p]), &table, rows, &n, err);
    run_head_table_release(&table);
    HRF_TRY(status);
    HRF_TRY(hrf_store_plan_tasks(run->store, 0, HRF_TASK_TRAIN, rows, n, err));
    run->trainings_planned = true;
    return HRF_OK;
}

/* ---- trained heads ---- */

/* The slides whose part is testing, from predictions.csv. */
static enum hrf_status read_testing(const struct hrf_trained_head *trained, struct run_head *head,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    const struct hrf_bytes *text = &trained->files[HRF_TRAINED_PREDICTIONS];
    HRF_TRY(hrf_csv_parse((const char *)text->data, text->n_bytes, "predictions.csv", &csv, err));
    const int slide = run_head_table_column(csv, "slide"),
              part = run_head_table_column(csv, "part");
    head->testing = hrf_calloc(csv->n_rows + 1, sizeof *head->testing);
    HRF_CHECK_MEMORY(head->testing != NULL, err, "no memory for the slides of a head");
    for (size_t i = 1; i < csv->n_rows; i++) {
        if (strcmp(run_head_table_cell(&csv->rows[i], part), "testing") != 0)
            continue;
        head->testing[head->n_testing] = hrf_strdup(run_head_table_cell(&csv->rows[i], slide));
        HRF_CHECK_MEMORY(head->testing[head->n_testing] != NULL, err, "no memory for a name");
        head->n_testing++;
    }
    return HRF_OK;
}

static enum hrf_status export_files(const struct run *run, const struct hrf_trained_head *trained,
                                    const struct hrf_task_row *row, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    HRF_AUTO_FREE char *folder = hrf_format(
        "%s/results/%s/heads/fold-%lld-seed-%lld", run->directory, row->precision,
        (long long)(row->first_patch % n_folds(w)),
        (long long)(w->slide_head.seed + row->first_patch / n_folds(w)));
    HRF_CHECK_MEMORY(folder != NULL, err, "no memory for a path");
    HRF_TRY(hrf_path_make_directories(folder, err));
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_trained_files[i]);
        HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
        HRF_TRY(
            hrf_file_write_atomic(path, trained->files[i].data, trained->files[i].n_bytes, err));
    }
    return HRF_OK;
}

static enum hrf_status load_head(struct run *run, const struct hrf_task_row *row,
                                 struct run_head *head, struct hrf_error *err)
{
    struct hrf_record_identity expected = { .task = "" };
    struct hrf_bytes record;
    HRF_AUTO(hrf_trained_head) trained = NULL;
    snprintf(expected.task, sizeof expected.task, "%s", row->key);
    HRF_TRY(hrf_store_get_record(run->store, HRF_TASK_TRAIN, &expected, &record, err));
    const enum hrf_status status = hrf_trained_head_decode(record.data, record.n_bytes, &expected,
                                                           "a head in the store", &trained, err);
    hrf_bytes_release(&record);
    HRF_TRY(status);
    while (head->precision < run->workflow->n_precisions &&
           strcmp(hrf_precision_name(run->workflow->precision[head->precision]), row->precision) !=
               0)
        head->precision++;
    head->index = row->first_patch;
    HRF_TRY(read_testing(trained, head, err));
    HRF_TRY(export_files(run, trained, row, err));
    head->onnx = trained->files[HRF_TRAINED_ONNX];
    trained->files[HRF_TRAINED_ONNX] = (struct hrf_bytes){ NULL, 0 };
    HRF_TRY(hrf_hash_buffer(head->onnx.data, head->onnx.n_bytes, head->sha256, err));
    head->path = hrf_format("%s/heads/%.16s.onnx", run->directory, head->sha256);
    HRF_CHECK_MEMORY(head->path != NULL, err, "no memory for a path");
    return HRF_OK;
}

static enum hrf_status load_heads(struct run *run, struct hrf_error *err)
{
    const char *failure = "";
    run_heads_release(run);
    run->heads = hrf_calloc(run->tasks.n_items + 1, sizeof *run->heads);
    HRF_CHECK_MEMORY(run->heads != NULL, err, "no memory for the slide heads");
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *row = &run->tasks.items[i];
        if (row->kind == HRF_TASK_TRAIN && row->state == HRF_TASK_FINISHED)
            HRF_TRY(load_head(run, row, &run->heads[run->n_heads++], err));
        else if (row->kind == HRF_TASK_TRAIN && row->reason != NULL && failure[0] == '\0')
            failure = row->reason;
    }
    run->heads_known = true;
    return hrf_store_set_fact(run->store, "head_failure", failure, err);
}

/* ---- what the loop calls ---- */

static bool has_open(const struct run *run, bool of_trainings)
{
    if (of_trainings)
        return run_count_open(run, HRF_TASK_TRAIN) > 0;
    return run->needs_reload || run_count_open(run, HRF_TASK_TILE) > 0 ||
           run_count_open(run, HRF_TASK_INFER) > 0 || run_count_open(run, HRF_TASK_CALIBRATE) > 0;
}

enum hrf_status run_tend_trainings(struct run *run, struct hrf_error *err)
{
    if (!run_waits_for_heads(run) || run_waits_for_calibration(run) || has_open(run, false))
        return HRF_OK;
    if (!run->trainings_planned) {
        HRF_TRY(hrf_store_begin(run->store, err));
        HRF_TRY(plan_trainings(run, err));
        HRF_TRY(hrf_store_commit(run->store, err));
        run_warn_dropped(run);
        HRF_TRY(run_reload_tasks(run, err));
    }
    if (has_open(run, true))
        return HRF_OK;
    HRF_TRY(load_heads(run, err));
    return run_plan_all_heads(run, err);
}

enum hrf_status run_fill_training(struct run *run, const struct hrf_task_row *row,
                                  struct hrf_job_training *out, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    for (size_t i = 0; i < run->slides.n_items; i++) {
        struct run_bag bag;
        enum hrf_status status = run_find_bag(run, &run->slides.items[i], row->precision, &bag,
                                              err);
        if (status == HRF_OK && bag.path != NULL)
            status = run_restore_bag(run, &bag, err);
        hrf_free(bag.path);
        HRF_TRY(status);
    }
    out->recipe = hrf_format("%s/heads/%s/head.yaml", run->directory, row->precision);
    out->fold = row->first_patch % n_folds(w);
    out->seed = w->slide_head.seed + row->first_patch / n_folds(w);
    HRF_CHECK_MEMORY(out->recipe != NULL, err, "no memory for a job spec");
    return HRF_OK;
}
