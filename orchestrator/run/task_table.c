/* task_table.c - see task_table.h. */
#include "orchestrator/run/task_table.h"

#include <stdlib.h>

void run_tasks_release(struct run_tasks *tasks)
{
    hrf_task_rows_release(&tasks->rows);
    hrf_free(tasks->states);
    hrf_free(tasks->by_id);
    hrf_free(tasks->slide_notes);
    hrf_free(tasks->unsettled);
}

static int compare_indices(const void *a, const void *b)
{
    const int64_t x = ((const struct run_task_index *)a)->id;
    const int64_t y = ((const struct run_task_index *)b)->id;
    return x < y ? -1 : x > y;
}

static const struct run_task_index *find_index(const struct run_task_index *by_id, size_t n,
                                               int64_t task_id)
{
    const struct run_task_index wanted = { .id = task_id };
    return n > 0 ? bsearch(&wanted, by_id, n, sizeof *by_id, compare_indices) : NULL;
}

struct hrf_task_row *run_tasks_find(const struct run_tasks *tasks, int64_t task_id)
{
    const struct run_task_index *found = find_index(tasks->by_id, tasks->rows.n_items, task_id);
    return found != NULL ? &tasks->rows.items[found->index] : NULL;
}

size_t run_tasks_kind_end(const struct run_tasks *tasks, enum hrf_task_kind kind)
{
    size_t first;
    (void)hrf_task_rows_of(&tasks->rows, (enum hrf_task_kind)(kind + 1), 0, &first);
    return first;
}

/* ---- states ---- */

static void add_to_counts(struct run_tasks *tasks, const struct hrf_task_row *task, int64_t n)
{
    tasks->counts.n[task->kind][task->state] += n;
    if (task->kind == HRF_TASK_INFER)
        tasks->counts.patches[task->state] += n * task->n_patches;
}

void run_tasks_set_state(struct run_tasks *tasks, struct hrf_task_row *task,
                         enum hrf_task_state state)
{
    const size_t index = (size_t)(task - tasks->rows.items);
    add_to_counts(tasks, task, -1);
    task->state = state;
    add_to_counts(tasks, task, 1);
    if (state == HRF_TASK_PENDING && index < tasks->first_pending[task->kind])
        tasks->first_pending[task->kind] = index;
    const bool has_ended = state == HRF_TASK_FINISHED || state == HRF_TASK_BROKEN;
    if (!has_ended || tasks->slide_notes[task->slide_id].is_unsettled)
        return;
    tasks->slide_notes[task->slide_id].is_unsettled = true;
    tasks->unsettled[tasks->n_unsettled++] = task->slide_id;
}

enum hrf_status run_tasks_free(struct run_tasks *tasks, struct hrf_store *store,
                               struct hrf_task_row *task, const char *reason, struct hrf_error *err)
{
    run_tasks_set_state(tasks, task, HRF_TASK_PENDING);
    return hrf_store_set_task(store, task->id, HRF_TASK_PENDING, task->n_attempts, reason, err);
}

int64_t run_tasks_count_open(const struct run_tasks *tasks, enum hrf_task_kind kind)
{
    return tasks->counts.n[kind][HRF_TASK_PENDING] + tasks->counts.n[kind][HRF_TASK_RUNNING];
}

/* ---- reading them ---- */

void run_tasks_note_new(struct run_tasks *tasks)
{
    tasks->needs_reload = true;
    tasks->n_new++;
}

/* Reading all tasks again for each slide that is tiled would take a time that grows with the square
 * of their number. So it is done when a sixteenth is new (sixteen times for twice as many tasks),
 * or when jobs could be made of the new ones. */
bool run_tasks_is_reload_due(const struct run_tasks *tasks)
{
    return tasks->needs_reload && (size_t)tasks->n_new * 16 >= tasks->rows.n_items;
}

static enum hrf_status index_tasks(const struct hrf_task_rows *rows, const struct run_setup *setup,
                                   const struct hrf_slide_rows *slides, struct run_task_index **out,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE struct run_task_index *by_id = hrf_alloc_array(rows->n_items + 1, sizeof *by_id);
    for (size_t i = 0; i < rows->n_items; i++) {
        by_id[i] = (struct run_task_index){ rows->items[i].id, i };
        if (rows->items[i].kind != HRF_TASK_TRAIN &&
            hrf_slide_rows_find(slides, rows->items[i].slide_id) == NULL)
            return hrf_error_set(
                err, HRF_E_USER,
                "the run's database in '%s' is damaged: task %lld belongs to slide %lld, which "
                "does not exist; move run.db away to start again",
                setup->directory, (long long)rows->items[i].id, (long long)rows->items[i].slide_id);
    }
    qsort(by_id, rows->n_items, sizeof *by_id, compare_indices);
    HRF_MOVE(*out, by_id);
    return HRF_OK;
}

/* Counts the rows that were read. All that was noted of tasks and slides since the last time is
 * settled by that. */
static void count_rows(struct run_tasks *tasks, size_t n_slides)
{
    tasks->counts = (struct run_task_counts){ .n = { { 0 } } };
    for (size_t i = 0; i < tasks->rows.n_items; i++)
        add_to_counts(tasks, &tasks->rows.items[i], 1);
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++)
        (void)hrf_task_rows_of(&tasks->rows, (enum hrf_task_kind)kind, 0,
                               &tasks->first_pending[kind]);
    for (size_t i = 0; i <= n_slides; i++)
        tasks->slide_notes[i].is_unread = false;
    tasks->needs_reload = false;
    tasks->n_new = 0;
    tasks->all_unsettled = true;
}

enum hrf_status run_tasks_reload(struct run_tasks *tasks, const struct run_setup *setup,
                                 const struct hrf_slide_rows *slides, struct hrf_error *err)
{
    const size_t n_slides = slides->n_items + slides->n_sample;
    HRF_AUTO_RELEASE(hrf_task_rows) fresh = { NULL, 0 };
    struct run_task_index *by_id = NULL;
    HRF_TRY(hrf_store_get_tasks(setup->store, &fresh, err));
    HRF_TRY(index_tasks(&fresh, setup, slides, &by_id, err));
    struct run_task_state *states = hrf_calloc(fresh.n_items + 1, sizeof *states);
    for (size_t i = 0; i < tasks->rows.n_items; i++) {
        const struct run_task_index *found = find_index(by_id, fresh.n_items,
                                                        tasks->rows.items[i].id);
        if (found != NULL)
            states[found->index] = tasks->states[i];
    }
    hrf_task_rows_release(&tasks->rows);
    hrf_free(tasks->states);
    hrf_free(tasks->by_id);
    tasks->rows = fresh;
    fresh = (struct hrf_task_rows){ NULL, 0 };
    tasks->states = states;
    tasks->by_id = by_id;
    if (tasks->slide_notes == NULL) {
        tasks->slide_notes = hrf_calloc(n_slides + 1, sizeof *tasks->slide_notes);
        tasks->unsettled = hrf_alloc_array(n_slides + 1, sizeof *tasks->unsettled);
    }
    count_rows(tasks, n_slides);
    return HRF_OK;
}
