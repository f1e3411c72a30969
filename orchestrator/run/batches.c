/* batches.c - see batches.h. */
#include "orchestrator/run/batches.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/path.h"
#include "schema/record/job.h"

#include <dirent.h>
#include <string.h>

enum { TILE_GROUPS_PER_JOB = 8, MAX_GROUPS_PER_JOB = 256 };

void run_batches_release(struct run_batches *batches)
{
    for (size_t i = 0; i < batches->n; i++)
        hrf_free(batches->items[i].tasks);
    hrf_free(batches->items);
}

char *run_part_path(const struct run_setup *setup, const char *key)
{
    return hrf_format("%s/parts/%s.rec", setup->directory, key);
}

bool hrf_run_shares_reading(const struct hrf_workflow *w)
{
    const bool is_slurm = w->executor.type == HRF_EXECUTOR_SLURM;
    const int64_t n_ranks = is_slurm ? w->executor.slurm.nodes * w->executor.slurm.ranks_per_node
                                     : w->executor.local.ranks;
    return hrf_workflow_n_variants(w) > 1 && w->tiler.mode == HRF_TILER_PATCH &&
           !(w->engine.parallel.is_auto && n_ranks > 1);
}

/* ---- groups: the tasks of one shard that are scored side by side ---- */

struct group {
    size_t tasks[HRF_MOST_VARIANTS]; /* indices into the rows */
    size_t n;
    unsigned precisions; /* one bit for each */
};

/* A search for groups. */
struct search {
    const struct run_setup *setup;
    const struct run_tasks *tasks;
    bool shares, looks_at_parts;
    int64_t now;
    size_t begin, end; /* range of the tasks of the kind: indices into the rows */
    bool *taken;       /* [rows.n_items]: the task is in a group */
};

static bool is_ready(const struct search *search, size_t i)
{
    return search->tasks->rows.items[i].state == HRF_TASK_PENDING &&
           search->tasks->states[i].not_before_ms <= search->now;
}

static unsigned precision_bit(const struct search *search, const struct hrf_task_row *task)
{
    const size_t p = hrf_workflow_find_variant(search->setup->workflow, task->precision);
    return p < HRF_MOST_VARIANTS ? 1U << p : 0;
}

/* True if interrupted attempts left parts of any task. Only then is each task looked at. */
static bool are_parts_there(const struct run_setup *setup)
{
    if (setup->directory == NULL) /* a preview */
        return false;
    HRF_AUTO_FREE char *path = hrf_path_join(setup->directory, "parts");
    DIR *parts = opendir(path);
    bool is_any = false;
    for (const struct dirent *e; parts != NULL && !is_any && (e = readdir(parts)) != NULL;)
        is_any = e->d_name[0] != '.';
    if (parts != NULL)
        closedir(parts);
    return is_any;
}

static bool has_part(const struct search *search, const struct hrf_task_row *task)
{
    HRF_AUTO_FREE char *part = run_part_path(search->setup, task->key);
    return hrf_path_exists(part);
}

/* True if the two tasks can be scored side by side. A task that has failed before is tried alone,
 * so that what fails is known and one precision does not use up the tries of another. A task that
 * is half done does not read again what another has yet to read. */
static bool shares_reading(const struct search *search, const struct hrf_task_row *a,
                           const struct hrf_task_row *b)
{
    return a->kind == b->kind && a->slide_id == b->slide_id && a->first_patch == b->first_patch &&
           a->n_patches == b->n_patches && strcmp(a->precision, b->precision) != 0 &&
           a->n_attempts == 0 && b->n_attempts == 0 && a->time_level == b->time_level &&
           a->memory_level == b->memory_level &&
           (!search->looks_at_parts || has_part(search, a) == has_part(search, b));
}

/* Returns the task at `first` with those after it that are scored with it, and marks them as taken.
 * The tasks of a slide stand next to each other. */
static struct group find_group(const struct search *search, size_t first)
{
    const struct hrf_task_row *items = search->tasks->rows.items;
    struct group group = { .tasks = { first },
                           .n = 1,
                           .precisions = precision_bit(search, &items[first]) };
    search->taken[first] = true;
    for (size_t i = first + 1;
         search->shares && i < search->tasks->rows.n_items && items[i].kind == items[first].kind &&
         items[i].slide_id == items[first].slide_id;
         i++) {
        const unsigned bit = precision_bit(search, &items[i]);
        if (search->taken[i] || bit == 0 || (group.precisions & bit) != 0 || !is_ready(search, i) ||
            !shares_reading(search, &items[first], &items[i]))
            continue;
        group.tasks[group.n++] = i;
        group.precisions |= bit;
        search->taken[i] = true;
    }
    return group;
}

/* ---- groups into batches ---- */

/* Returns how many groups one job may hold, so that all executor.max_jobs jobs get some. */
static int64_t groups_per_job(const struct search *search, enum hrf_task_kind kind)
{
    struct search all = *search;
    all.now = INT64_MAX;
    all.looks_at_parts = false;
    int64_t n_pending = 0, places = search->setup->workflow->executor.max_jobs;
    const int64_t limit = kind == HRF_TASK_TILE    ? TILE_GROUPS_PER_JOB
                          : kind == HRF_TASK_TRAIN ? 1 /* a training takes as long as many slides */
                                                   : MAX_GROUPS_PER_JOB;
    for (size_t i = search->begin; i < search->end && n_pending < limit * places; i++) {
        const struct hrf_task_row *task = &search->tasks->rows.items[i];
        if (task->kind != kind || task->state != HRF_TASK_PENDING || all.taken[i])
            continue;
        find_group(&all, i);
        n_pending++;
    }
    memset(all.taken, 0, search->tasks->rows.n_items * sizeof *all.taken);
    const int64_t share = (n_pending + places - 1) / places;
    return share < limit ? share : limit;
}

static bool has_room_for_task(const struct search *search, const struct run_batch *batch,
                              const struct hrf_task_row *task, int64_t limit)
{
    return (int64_t)batch->n_groups < limit &&
           (task->kind != HRF_TASK_INFER || batch->n_patches + task->n_patches <=
                                                search->setup->workflow->executor.patches_per_job);
}

static bool goes_into(const struct search *search, const struct run_batch *batch,
                      const struct group *group)
{
    const struct hrf_task_row *a = &search->tasks->rows.items[batch->tasks[0]];
    const struct hrf_task_row *b = &search->tasks->rows.items[group->tasks[0]];
    return batch->precisions == group->precisions && a->time_level == b->time_level &&
           a->memory_level == b->memory_level;
}

static void add_group(const struct search *search, struct run_batch *batch,
                      const struct group *group)
{
    HRF_RESERVE(batch->tasks, batch->capacity, batch->n + group->n);
    for (size_t k = 0; k < group->n; k++)
        batch->tasks[batch->n++] = group->tasks[k];
    batch->n_groups++;
    batch->precisions = group->precisions;
    batch->n_patches += search->tasks->rows.items[group->tasks[0]].n_patches;
}

/* One pass over the tasks: each class of groups (the same precisions and resources) has one open
 * batch, its newest, which takes the groups that fit. */
static void gather_groups(const struct search *search, enum hrf_task_kind kind, size_t max,
                          struct run_batches *out)
{
    /* CLASSES: open batches at a time; with more classes there are more batches. LOOK_AHEAD: how
     * far a group is looked for that still fits, so that 100,000 are not walked over for each job.
     */
    enum { CLASSES = 32, LOOK_AHEAD = 1000 };
    const int64_t limit = groups_per_job(search, kind);
    size_t open[CLASSES], n_open = 0;
    int n_passed = 0; /* groups since the last one that found a place */
    for (size_t i = search->begin; i < search->end && n_passed < LOOK_AHEAD; i++) {
        const struct hrf_task_row *task = &search->tasks->rows.items[i];
        if (task->kind != kind || search->taken[i] || !is_ready(search, i))
            continue;
        const struct group group = find_group(search, i);
        size_t c = 0;
        while (c < n_open && !goes_into(search, &out->items[open[c]], &group))
            c++;
        if (c == n_open || !has_room_for_task(search, &out->items[open[c]], task, limit)) {
            if (out->n == max) {
                n_passed++;
                if (c < n_open)
                    continue; /* a later group may still fit into an open batch */
                break;
            }
            HRF_RESERVE(out->items, out->capacity, out->n + 1);
            out->items[out->n++] = (struct run_batch){ .tasks = NULL };
            c = c < CLASSES ? c : 0;
            n_open = c == n_open ? n_open + 1 : n_open;
            open[c] = out->n - 1;
        }
        add_group(search, &out->items[open[c]], &group);
        n_passed = 0;
    }
}

/* Returns the number of patches in a batch of the task's slide. A slide of several shards has whole
 * batches. */
static int64_t batch_of(const struct search *search, size_t i)
{
    const struct hrf_task_row *task = &search->tasks->rows.items[i];
    const int64_t batch = search->setup->workflow->engine.batch;
    return task->first_patch > 0 ? batch : hrf_job_batch(batch, task->n_patches);
}

/* Sorts the tasks of each job by the size of their batches, the largest first and otherwise in
 * order, because the engine makes its networks again for every other size. Groups stay together. */
static void order_tasks(const struct search *search, struct run_batches *batches)
{
    for (size_t b = 0; b < batches->n; b++) {
        size_t *tasks = batches->items[b].tasks;
        for (size_t i = 1; i < batches->items[b].n; i++) {
            const size_t task = tasks[i];
            size_t k = i;
            for (; k > 0 && batch_of(search, tasks[k - 1]) < batch_of(search, task); k--)
                tasks[k] = tasks[k - 1];
            tasks[k] = task;
        }
    }
}

/* Gathers batches from the tasks [begin, end). */
static void gather_between(const struct run_setup *setup, const struct run_tasks *tasks,
                           enum hrf_task_kind kind, size_t begin, size_t end, size_t max,
                           struct run_batches *out)
{
    HRF_AUTO_FREE bool *taken = hrf_calloc(tasks->rows.n_items + 1, sizeof *taken);
    const bool shares = kind == HRF_TASK_INFER && hrf_run_shares_reading(setup->workflow);
    const struct search search = { .setup = setup,
                                   .tasks = tasks,
                                   .shares = shares,
                                   .looks_at_parts = shares && are_parts_there(setup),
                                   .now = hrf_clock_ms(),
                                   .begin = begin,
                                   .end = end,
                                   .taken = taken };
    gather_groups(&search, kind, max, out);
    if (kind == HRF_TASK_INFER)
        order_tasks(&search, out);
}

void run_batches_gather(const struct run_setup *setup, const struct run_tasks *tasks,
                        enum hrf_task_kind kind, size_t max, struct run_batches *out)
{
    gather_between(setup, tasks, kind, tasks->first_pending[kind], run_tasks_kind_end(tasks, kind),
                   max, out);
}

int64_t run_batches_count_jobs(const struct hrf_workflow *workflow, struct hrf_task_row *rows,
                               size_t n_rows, enum hrf_task_kind kind)
{
    HRF_AUTO_RELEASE(run_batches) batches = { .items = NULL };
    HRF_AUTO_FREE struct run_task_state *states = hrf_calloc(n_rows + 1, sizeof *states);
    const struct run_setup setup = { .workflow = workflow };
    const struct run_tasks tasks = { .rows = { rows, n_rows }, .states = states };
    gather_between(&setup, &tasks, kind, 0, n_rows, SIZE_MAX, &batches);
    const int64_t n = (int64_t)batches.n;
    return n;
}
