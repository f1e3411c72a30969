/* task_table.c - the run's copy of the store's tasks: found by id, counted by state, read again.
 *
 * With 100,000 slides the copy has as many rows and more, and the loop turns as often: it does not
 * walk over all tasks, nor read them all again, for each job that ends. */
#include "orchestrator/run/run_private.h"

#include <stdlib.h>

static int compare_places(const void *a, const void *b)
{
    const int64_t x = ((const struct run_task_place *)a)->id;
    const int64_t y = ((const struct run_task_place *)b)->id;
    return x < y ? -1 : x > y;
}

static const struct run_task_place *find_place(const struct run_task_place *places, size_t n,
                                               int64_t task_id)
{
    const struct run_task_place wanted = { .id = task_id };
    return n > 0 ? bsearch(&wanted, places, n, sizeof *places, compare_places) : NULL;
}

struct hrf_task_row *run_find_task(struct run *run, int64_t task_id)
{
    const struct run_task_place *found = find_place(run->task_places, run->tasks.n_items, task_id);
    return found != NULL ? &run->tasks.items[found->place] : NULL;
}

size_t run_kind_end(const struct run *run, enum hrf_task_kind kind)
{
    size_t first;
    (void)hrf_task_rows_of(&run->tasks, (enum hrf_task_kind)(kind + 1), 0, &first);
    return first;
}

/* ---- states ---- */

static void add_to_counts(struct run *run, const struct hrf_task_row *task, int64_t n)
{
    run->counts.n[task->kind][task->state] += n;
    if (task->kind == HRF_TASK_INFER)
        run->counts.patches[task->state] += n * task->n_patches;
}

void run_unsettle(struct run *run, int64_t slide_id)
{
    if (run->slide_notes == NULL || run->slide_notes[slide_id].is_unsettled)
        return;
    run->slide_notes[slide_id].is_unsettled = true;
    run->unsettled[run->n_unsettled++] = slide_id;
}

void run_set_state(struct run *run, struct hrf_task_row *task, enum hrf_task_state state)
{
    const size_t place = (size_t)(task - run->tasks.items);
    add_to_counts(run, task, -1);
    task->state = state;
    add_to_counts(run, task, 1);
    if (state == HRF_TASK_PENDING && place < run->first_pending[task->kind])
        run->first_pending[task->kind] = place;
    if (state == HRF_TASK_FINISHED || state == HRF_TASK_BROKEN)
        run_unsettle(run, task->slide_id);
}

int64_t run_count_open(const struct run *run, enum hrf_task_kind kind)
{
    return run->counts.n[kind][HRF_TASK_PENDING] + run->counts.n[kind][HRF_TASK_RUNNING];
}

/* ---- reading them ---- */

void run_note_new(struct run *run)
{
    run->needs_reload = true;
    run->n_new++;
}

/* Reading all tasks again for each slide that is tiled would take a time that grows with the square
 * of their number. So it is done when a sixteenth is new (sixteen times for twice as many tasks),
 * or when jobs could be made of the new ones. */
bool run_is_reload_due(const struct run *run)
{
    return run->needs_reload && (size_t)run->n_new * 16 >= run->tasks.n_items;
}

static enum hrf_status make_notes(struct run *run, struct hrf_error *err)
{
    const size_t n = run->slides.n_items + run->slides.n_sample + 1;
    if (run->slide_notes != NULL)
        return HRF_OK;
    run->slide_notes = hrf_calloc(n, sizeof *run->slide_notes);
    run->unsettled = hrf_alloc_array(n, sizeof *run->unsettled);
    HRF_CHECK_MEMORY(run->slide_notes != NULL && run->unsettled != NULL, err,
                     "no memory for %zu slides", n);
    return HRF_OK;
}

static enum hrf_status index_tasks(struct run *run, const struct hrf_task_rows *rows,
                                   struct run_task_place **out, struct hrf_error *err)
{
    struct run_task_place *places = hrf_alloc_array(rows->n_items + 1, sizeof *places);
    HRF_CHECK_MEMORY(places != NULL, err, "no memory for %zu tasks", rows->n_items);
    *out = places;
    for (size_t i = 0; i < rows->n_items; i++) {
        places[i] = (struct run_task_place){ rows->items[i].id, i };
        if (rows->items[i].kind != HRF_TASK_TRAIN &&
            run_find_slide(run, rows->items[i].slide_id) == NULL)
            return hrf_error_set(
                err, HRF_E_USER,
                "the run's database in '%s' is damaged: task %lld belongs to slide %lld, which "
                "does not exist; move run.db away to start again",
                run->directory, (long long)rows->items[i].id, (long long)rows->items[i].slide_id);
    }
    qsort(places, rows->n_items, sizeof *places, compare_places);
    return HRF_OK;
}

/* Counts the tasks that were read. All that the run noted of tasks and slides since the last time
 * is settled by that. */
static void count_tasks(struct run *run)
{
    const size_t n_slides = run->slides.n_items + run->slides.n_sample;
    run->counts = (struct run_counts){ .n = { { 0 } } };
    for (size_t i = 0; i < run->tasks.n_items; i++)
        add_to_counts(run, &run->tasks.items[i], 1);
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++) {
        size_t first;
        (void)hrf_task_rows_of(&run->tasks, (enum hrf_task_kind)kind, 0, &first);
        run->first_pending[kind] = first;
    }
    for (size_t i = 0; i <= n_slides; i++)
        run->slide_notes[i].is_unread = false;
    run->needs_reload = false;
    run->n_new = 0;
    run->all_unsettled = true;
}

enum hrf_status run_reload_tasks(struct run *run, struct hrf_error *err)
{
    struct hrf_task_rows fresh = { NULL, 0 };
    struct run_task_place *places = NULL;
    HRF_TRY(make_notes(run, err));
    HRF_TRY(hrf_store_get_tasks(run->store, &fresh, err));
    struct run_task_state *states = hrf_calloc(fresh.n_items + 1, sizeof *states);
    enum hrf_status status = states != NULL
                                 ? index_tasks(run, &fresh, &places, err)
                                 : hrf_error_set(err, HRF_E_NOMEM, "no memory for the tasks");
    if (status != HRF_OK) {
        hrf_task_rows_release(&fresh);
        hrf_free(states);
        hrf_free(places);
        return status;
    }
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct run_task_place *place = find_place(places, fresh.n_items,
                                                        run->tasks.items[i].id);
        if (place != NULL)
            states[place->place] = run->task_states[i];
    }
    hrf_task_rows_release(&run->tasks);
    hrf_free(run->task_states);
    hrf_free(run->task_places);
    run->tasks = fresh;
    run->task_states = states;
    run->task_places = places;
    count_tasks(run);
    return HRF_OK;
}
