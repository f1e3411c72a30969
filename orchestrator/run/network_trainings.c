/* network_trainings.c - `train`: the trainings of a file as tasks, one for each fold and seed.
 *
 * A run of trainings has no slides. The engine has checked the file and told the trainings' keys.
 * A training works in a folder of its own, where the model stays, and its record is the result
 * that it wrote there: a training whose folder has the result of its key is done, whoever did it.
 */
#include "orchestrator/run/run_private.h"
#include "schema/record/trained_head.h"

#include <stdio.h>
#include <string.h>

static const struct hrf_listed_training *find_training(const struct run *run, int64_t number)
{
    const struct hrf_listed_trainings *list = run->setup.trainings->list;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].number == number)
            return &list->items[i];
    return NULL;
}

char *run_task_subject(const struct run *run, const struct hrf_task_row *task)
{
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, task->slide_id);
    const struct hrf_listed_training *training = NULL;
    if (slide != NULL)
        return hrf_strdup(slide->name);
    if (run->setup.trainings == NULL)
        return hrf_format("training %lld in %s", (long long)task->first_patch, task->precision);
    training = find_training(run, task->first_patch);
    if (training == NULL)
        return hrf_format("training %lld", (long long)task->first_patch);
    return hrf_format("fold %lld seed %lld", (long long)training->fold, (long long)training->seed);
}

/* Takes the results of trainings that were done without a task, or whose job was not seen to end.
 */
static enum hrf_status take_done(struct run *run, struct hrf_error *err)
{
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *task = &run->tasks.rows.items[i];
        const struct hrf_record_identity identity = run_expect(run, task);
        const struct hrf_listed_training *training = find_training(run, task->first_patch);
        HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
        bool is_new = false;
        if (training == NULL || !training->done || task->state == HRF_TASK_FINISHED)
            continue;
        HRF_TRY(hrf_trained_network_encode(&identity, training->folder, &record, err));
        HRF_TRY(hrf_store_finish_task(run->setup.store, task->id, task->key, record.data,
                                      record.n_bytes, &is_new, err));
        if (is_new)
            HRF_TRY(hrf_store_add_event(run->setup.store, "task", task->key, err));
    }
    return HRF_OK;
}

static enum hrf_status plan_networks(struct run *run, struct hrf_error *err)
{
    const struct hrf_listed_trainings *list = run->setup.trainings->list;
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(list->n + 1, sizeof *rows);
    HRF_TRY(hrf_store_trim_slides(run->setup.store, 0, err));
    for (size_t i = 0; i < list->n; i++) {
        rows[i] = (struct hrf_task_row){ .kind = HRF_TASK_TRAIN,
                                         .first_patch = list->items[i].number };
        memcpy(rows[i].key, list->items[i].key, sizeof rows[i].key);
        if (!list->items[i].done)
            HRF_TRY(hrf_store_forget_result(run->setup.store, &rows[i],
                                            "its folder has no longer its result", err));
    }
    HRF_TRY(hrf_store_plan_tasks(run->setup.store, 0, HRF_TASK_TRAIN, rows, list->n, err));
    HRF_TRY(run_tasks_reload(&run->tasks, &run->setup, &run->slides, err));
    HRF_TRY(take_done(run, err));
    HRF_TRY(run_tasks_reload(&run->tasks, &run->setup, &run->slides, err));
    return run_revive(run, err);
}

enum hrf_status run_plan_networks(struct run *run, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    HRF_TRY(plan_networks(run, err));
    HRF_TRY(run_commit_plan(run, err));
    run->tasks.are_planned = true;
    return HRF_OK;
}

enum hrf_status run_fill_network(struct run *run, const struct hrf_task_row *row,
                                 struct hrf_job_training *out, struct hrf_error *err)
{
    const struct hrf_listed_training *training = find_training(run, row->first_patch);
    if (training == NULL)
        return hrf_error_set(err, HRF_E_BUG, "no training has the number %lld",
                             (long long)row->first_patch);
    out->recipe = hrf_strdup(run->setup.trainings->file);
    out->fold = training->fold;
    out->seed = training->seed;
    return HRF_OK;
}

double run_task_share(const struct run *run, const struct run_job *job, size_t index)
{
    int64_t done = 0, all = 0;
    char id[24];
    HRF_AUTO_FREE char *directory = run_job_start_path(&run->setup, job);
    snprintf(id, sizeof id, "t%04zu", index);
    if (!hrf_task_progress_read(directory, id, &done, &all) || all <= 0)
        return 0;
    return (double)done / (double)all;
}
