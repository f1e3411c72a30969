/* trainings.c - slide_head.train: trains slide heads on the run's embeddings, as tasks.
 *
 * Once every slide has its embeddings, each precision gets a folder heads/PRECISION with the file
 * that `head train` reads and the labels, in which the features are named by their hashes. A train
 * task is one fold and seed of it, keyed by the labels and the settings that change trainings.
 * Heads that have ended their training score the slides that test them.
 */
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/dag/dag.h"
#include "orchestrator/run/head_table.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/trained_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool run_waits_for_heads(const struct run *run)
{
    return run->setup.workflow->slide_head.train != HRF_TRAIN_NONE && !run->setup.calibrate_only &&
           !run->heads.are_known;
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

static void trainings_put(json_t *recipe, const char *key, json_t *value)
{
    char section[32];
    const size_t n = strcspn(key, ".");
    snprintf(section, sizeof section, "%.*s", (int)n, key);
    if (json_object_get(recipe, section) == NULL)
        hrf_json_put(recipe, section, json_object());
    hrf_json_put(json_object_get(recipe, section), key + n + 1, value);
}

/* Makes the file. The rows of settings say which of them it contains. */
static json_t *make_recipe(const struct hrf_workflow *w, const char *precision)
{
    const struct hrf_workflow_slide_head *h = &w->slide_head;
    json_t *recipe = hrf_json_document();
    hrf_json_put_text(recipe, "out", ".");
    json_t *classes = json_array(), *seeds = json_array();
    for (size_t i = 0; i < hrf_n_settings; i++)
        if (hrf_settings[i].recipe != NULL)
            trainings_put(recipe, hrf_settings[i].recipe, hrf_setting_value(&hrf_settings[i], w));
    for (size_t i = 0; i < w->model.classes.n_items; i++)
        hrf_json_add(classes, hrf_json_string(w->model.classes.items[i]));
    for (int64_t i = 0; i < h->repeats; i++)
        hrf_json_add(seeds, json_integer(h->seed + i));
    HRF_AUTO_FREE char *features = hrf_format("../../bags/%s", precision);
    trainings_put(recipe, "features.folder", json_string(features));
    trainings_put(recipe, "labels.csv", json_string("labels.csv"));
    trainings_put(recipe, "labels.classes", classes);
    trainings_put(recipe, "split.by",
                  json_string(h->split == HRF_HEADS_BY_FOLDS ? "folds" : "column"));
    trainings_put(recipe, "train.seeds", seeds);
    trainings_put(recipe, "train.class_weights", json_string(h->balanced ? "balanced" : "none"));
    return recipe;
}

/* ---- the labels ---- */

/* Adds the line of labels.csv of a slide that has a truth and embeddings. */
static enum hrf_status add_slide(struct run *run, const struct hrf_slide_row *slide,
                                 const char *precision, const struct run_head_table *table,
                                 struct hrf_strbuf *out, struct hrf_error *err)
{
    struct run_bag bag;
    const struct hrf_csv_row *line = NULL;
    const int32_t class = run_class_of(run->setup.workflow, slide);
    if (class < 0 || slide->calibrates)
        return HRF_OK;
    const enum hrf_status status = run_bag_find(&bag, &run->setup, &run->tasks, slide, precision,
                                                err);
    HRF_AUTO_FREE char *path = bag.path;
    HRF_TRY(status);
    if (path == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *name = hrf_path_stem(path);
    HRF_TRY(run_head_table_find(run->setup.workflow, table, slide->name, &line, err));
    hrf_csv_add_cell(out, name);
    hrf_strbuf_addc(out, ',');
    hrf_csv_add_cell(out, run->setup.workflow->model.classes.items[class]);
    hrf_strbuf_addc(out, ',');
    hrf_csv_add_cell(out, run_head_table_cell(line, table->patient));
    hrf_strbuf_addf(out, ",%s,%s\n",
                    run_head_table_part(run->setup.workflow, table, slide->name, line), bag.sha256);
    return HRF_OK;
}

/* ---- planning ---- */

/* Writes labels.csv and head.yaml; the latter as JSON, which is YAML, too. */
static enum hrf_status write_files(const struct run *run, const char *precision,
                                   const struct hrf_strbuf *labels, struct hrf_error *err)
{
    HRF_AUTO_JSON recipe = make_recipe(run->setup.workflow, precision);
    HRF_AUTO_FREE char *folder = hrf_format("%s/heads/%s", run->setup.directory, precision);
    HRF_AUTO_FREE char *table = hrf_path_join(folder, "labels.csv");
    HRF_AUTO_FREE char *file = hrf_path_join(folder, "head.yaml");
    HRF_TRY(hrf_path_make_directories(folder, err));
    HRF_TRY(hrf_file_write_atomic(table, labels->text, labels->length, err));
    return hrf_json_write_file(file, recipe, err);
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
    HRF_AUTO_RELEASE(hrf_strbuf) labels = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&labels, "slide,label,patient,split,sha256\n");
    for (size_t i = 0; i < run->slides.n_items; i++)
        HRF_TRY(add_slide(run, &run->slides.items[i], precision, table, &labels, err));
    HRF_TRY(write_files(run, precision, &labels, err));
    for (int64_t i = 0; i < run_n_trainings(run->setup.workflow); i++) {
        struct hrf_task_row *row = &rows[(*n)++];
        *row = (struct hrf_task_row){ .kind = HRF_TASK_TRAIN, .first_patch = i };
        snprintf(row->precision, sizeof row->precision, "%s", precision);
        HRF_TRY(hrf_dag_training_key(
            run->setup.workflow, labels.text, i % n_folds(run->setup.workflow),
            run->setup.workflow->slide_head.seed + i / n_folds(run->setup.workflow), row->key,
            err));
    }
    return HRF_OK;
}

static enum hrf_status plan_trainings(struct run *run, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->setup.workflow;
    const size_t n_precisions = run_training_precisions(w);
    struct run_head_table table;
    size_t n = 0;
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(
        n_precisions * (size_t)run_n_trainings(w) + 1, sizeof *rows);
    enum hrf_status status = run_head_table_read(w, &table, err);
    for (size_t p = 0; p < n_precisions && status == HRF_OK; p++)
        status = plan_precision(run, hrf_precision_name(w->precision[p]), &table, rows, &n, err);
    run_head_table_release(&table);
    HRF_TRY(status);
    HRF_TRY(hrf_store_plan_tasks(run->setup.store, 0, HRF_TASK_TRAIN, rows, n, err));
    run->heads.trainings_are_planned = true;
    return HRF_OK;
}

/* ---- trained heads ---- */

/* Reads the slides whose part is testing from predictions.csv. */
static enum hrf_status read_testing(const struct hrf_trained_head *trained, struct run_head *head,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    const struct hrf_bytes *text = &trained->files[HRF_TRAINED_PREDICTIONS];
    HRF_TRY(hrf_csv_parse((const char *)text->data, text->n_bytes, "predictions.csv", &csv, err));
    const int slide = run_head_table_column(csv, "slide"),
              part = run_head_table_column(csv, "part");
    head->testing = hrf_calloc(csv->n_rows + 1, sizeof *head->testing);
    for (size_t i = 1; i < csv->n_rows; i++) {
        if (strcmp(run_head_table_cell(&csv->rows[i], part), "testing") != 0)
            continue;
        head->testing[head->n_testing] = hrf_strdup(run_head_table_cell(&csv->rows[i], slide));
        head->n_testing++;
    }
    return HRF_OK;
}

static enum hrf_status export_files(const struct run *run, const struct hrf_trained_head *trained,
                                    const struct hrf_task_row *row, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->setup.workflow;
    HRF_AUTO_FREE char *folder = hrf_format(
        "%s/results/%s/heads/fold-%lld-seed-%lld", run->setup.directory, row->precision,
        (long long)(row->first_patch % n_folds(w)),
        (long long)(w->slide_head.seed + row->first_patch / n_folds(w)));
    HRF_TRY(hrf_path_make_directories(folder, err));
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_trained_files[i]);
        HRF_TRY(
            hrf_file_write_atomic(path, trained->files[i].data, trained->files[i].n_bytes, err));
    }
    return HRF_OK;
}

static enum hrf_status load_head(struct run *run, const struct hrf_task_row *row,
                                 struct run_head *head, struct hrf_error *err)
{
    struct hrf_record_identity expected = { .task = "" };
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    HRF_AUTO(hrf_trained_head) trained = NULL;
    snprintf(expected.task, sizeof expected.task, "%s", row->key);
    HRF_TRY(hrf_store_get_record(run->setup.store, HRF_TASK_TRAIN, &expected, &record, err));
    const enum hrf_status status = hrf_trained_head_decode(record.data, record.n_bytes, &expected,
                                                           "a head in the store", &trained, err);
    HRF_TRY(status);
    while (head->precision < run->setup.workflow->n_precisions &&
           strcmp(hrf_precision_name(run->setup.workflow->precision[head->precision]),
                  row->precision) != 0)
        head->precision++;
    head->index = row->first_patch;
    HRF_TRY(read_testing(trained, head, err));
    HRF_TRY(export_files(run, trained, row, err));
    head->onnx = trained->files[HRF_TRAINED_ONNX];
    trained->files[HRF_TRAINED_ONNX] = (struct hrf_bytes){ NULL, 0 };
    HRF_TRY(hrf_hash_buffer(head->onnx.data, head->onnx.n_bytes, head->sha256, err));
    head->path = hrf_format("%s/heads/%.16s.onnx", run->setup.directory, head->sha256);
    return HRF_OK;
}

static enum hrf_status load_heads(struct run *run, struct hrf_error *err)
{
    const char *failure = "";
    run_heads_release(&run->heads);
    run->heads.items = hrf_calloc(run->tasks.rows.n_items + 1, sizeof *run->heads.items);
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *row = &run->tasks.rows.items[i];
        if (row->kind == HRF_TASK_TRAIN && row->state == HRF_TASK_FINISHED)
            HRF_TRY(load_head(run, row, &run->heads.items[run->heads.n++], err));
        else if (row->kind == HRF_TASK_TRAIN && row->reason != NULL && failure[0] == '\0')
            failure = row->reason;
    }
    run->heads.are_known = true;
    return hrf_store_set_fact(run->setup.store, "head_failure", failure, err);
}

/* ---- what the loop calls ---- */

static bool has_open(const struct run *run, bool of_trainings)
{
    if (of_trainings)
        return run_tasks_count_open(&run->tasks, HRF_TASK_TRAIN) > 0;
    return run->tasks.needs_reload || run_tasks_count_open(&run->tasks, HRF_TASK_TILE) > 0 ||
           run_tasks_count_open(&run->tasks, HRF_TASK_INFER) > 0 ||
           run_tasks_count_open(&run->tasks, HRF_TASK_CALIBRATE) > 0;
}

enum hrf_status run_tend_trainings(struct run *run, struct hrf_error *err)
{
    if (!run_waits_for_heads(run) || run_waits_for_calibration(run) || has_open(run, false))
        return HRF_OK;
    if (!run->heads.trainings_are_planned) {
        HRF_TRY(hrf_store_begin(run->setup.store, err));
        HRF_TRY(plan_trainings(run, err));
        HRF_TRY(run_commit_plan(run, err));
    }
    if (has_open(run, true))
        return HRF_OK;
    HRF_TRY(load_heads(run, err));
    return run_plan_all_heads(run, err);
}

enum hrf_status run_fill_training(struct run *run, const struct hrf_task_row *row,
                                  struct hrf_job_training *out, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->setup.workflow;
    for (size_t i = 0; i < run->slides.n_items; i++) {
        struct run_bag bag;
        enum hrf_status status = run_bag_find(&bag, &run->setup, &run->tasks, &run->slides.items[i],
                                              row->precision, err);
        if (status == HRF_OK && bag.path != NULL)
            status = run_bag_restore(&bag, &run->setup, err);
        hrf_free(bag.path);
        HRF_TRY(status);
    }
    out->recipe = hrf_format("%s/heads/%s/head.yaml", run->setup.directory, row->precision);
    out->fold = row->first_patch % n_folds(w);
    out->seed = w->slide_head.seed + row->first_patch / n_folds(w);
    return HRF_OK;
}
