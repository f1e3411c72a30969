/* batches.c - which tasks go into one job. The tasks of one shard in several precisions go
 * together: the engine reads the patches once for all of them. */
#include "base/clock.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"

#include <dirent.h>
#include <string.h>

enum { TILE_GROUPS_PER_JOB = 8, MAX_GROUPS_PER_JOB = 256 };

void run_batches_release(struct run_batches *batches)
{
    for (size_t i = 0; i < batches->n; i++)
        hrf_free(batches->items[i].tasks);
    hrf_free(batches->items);
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
    size_t tasks[HRF_MOST_VARIANTS]; /* indices into run.tasks */
    size_t n;
    unsigned precisions; /* a bit for each */
};

/* A search for groups. */
struct search {
    const struct run *run;
    bool shares, looks_at_parts;
    int64_t now;
    size_t begin, end; /* of the tasks of the kind: indices into run.tasks */
    bool *taken;       /* [run->tasks.n_items]: is in a group */
};

static bool is_ready(const struct run *run, size_t i, int64_t now)
{
    return run->tasks.items[i].state == HRF_TASK_PENDING &&
           run->task_states[i].not_before_ms <= now;
}

static unsigned precision_bit(const struct run *run, const struct hrf_task_row *task)
{
    const size_t p = hrf_workflow_find_variant(run->workflow, task->precision);
    return p < HRF_MOST_VARIANTS ? 1U << p : 0;
}

/* True if interrupted attempts left parts of any task: then each task is looked at. */
static bool are_parts_there(const struct run *run)
{
    HRF_AUTO_FREE char *path = run->directory != NULL ? hrf_path_join(run->directory, "parts")
                                                      : NULL;
    DIR *parts = path != NULL ? opendir(path) : NULL;
    bool is_any = false;
    for (const struct dirent *e; parts != NULL && !is_any && (e = readdir(parts)) != NULL;)
        is_any = e->d_name[0] != '.';
    if (parts != NULL)
        closedir(parts);
    return is_any;
}

static bool has_part(const struct run *run, const struct hrf_task_row *task)
{
    HRF_AUTO_FREE char *part = run_part_path(run, task->key);
    return part != NULL && hrf_path_exists(part);
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
           (!search->looks_at_parts || has_part(search->run, a) == has_part(search->run, b));
}

/* The task at `first` and those after it that are scored with it; they are marked as taken. The
 * tasks of a slide stand next to each other. */
static struct group find_group(const struct search *search, size_t first)
{
    const struct run *run = search->run;
    const struct hrf_task_row *items = run->tasks.items;
    struct group group = { .tasks = { first },
                           .n = 1,
                           .precisions = precision_bit(run, &items[first]) };
    search->taken[first] = true;
    for (size_t i = first + 1;
         search->shares && i < run->tasks.n_items && items[i].kind == items[first].kind &&
         items[i].slide_id == items[first].slide_id;
         i++) {
        const unsigned bit = precision_bit(run, &items[i]);
        if (search->taken[i] || bit == 0 || (group.precisions & bit) != 0 ||
            !is_ready(run, i, search->now) || !shares_reading(search, &items[first], &items[i]))
            continue;
        group.tasks[group.n++] = i;
        group.precisions |= bit;
        search->taken[i] = true;
    }
    return group;
}

/* ---- groups into batches ---- */

/* How many groups one job may hold, so that all executor.max_jobs jobs get some. */
static int64_t groups_per_job(const struct search *search, enum hrf_task_kind kind)
{
    const struct run *run = search->run;
    struct search all = *search;
    all.now = INT64_MAX;
    all.looks_at_parts = false;
    int64_t n_pending = 0, places = run->workflow->executor.max_jobs;
    const int64_t limit = kind == HRF_TASK_TILE    ? TILE_GROUPS_PER_JOB
                          : kind == HRF_TASK_TRAIN ? 1 /* it takes as long as many slides */
                                                   : MAX_GROUPS_PER_JOB;
    for (size_t i = search->begin; i < search->end && n_pending < limit * places; i++) {
        const struct hrf_task_row *task = &run->tasks.items[i];
        if (task->kind != kind || task->state != HRF_TASK_PENDING || all.taken[i])
            continue;
        find_group(&all, i);
        n_pending++;
    }
    memset(all.taken, 0, run->tasks.n_items * sizeof *all.taken);
    const int64_t share = (n_pending + places - 1) / places;
    return share < limit ? share : limit;
}

static bool fits(const struct run *run, const struct run_batch *batch,
                 const struct hrf_task_row *task, int64_t limit)
{
    return (int64_t)batch->n_groups < limit &&
           (task->kind != HRF_TASK_INFER ||
            batch->n_patches + task->n_patches <= run->workflow->executor.patches_per_job);
}

static bool goes_into(const struct run *run, const struct run_batch *batch,
                      const struct group *group)
{
    const struct hrf_task_row *a = &run->tasks.items[batch->tasks[0]];
    const struct hrf_task_row *b = &run->tasks.items[group->tasks[0]];
    return batch->precisions == group->precisions && a->time_level == b->time_level &&
           a->memory_level == b->memory_level;
}

static enum hrf_status add_group(const struct run *run, struct run_batch *batch,
                                 const struct group *group, struct hrf_error *err)
{
    void *tasks = batch->tasks;
    HRF_TRY(hrf_array_reserve(&tasks, &batch->capacity, batch->n + group->n, sizeof *batch->tasks,
                              err));
    batch->tasks = tasks;
    for (size_t k = 0; k < group->n; k++)
        batch->tasks[batch->n++] = group->tasks[k];
    batch->n_groups++;
    batch->precisions = group->precisions;
    batch->n_patches += run->tasks.items[group->tasks[0]].n_patches;
    return HRF_OK;
}

static enum hrf_status add_batch(struct run_batches *batches, struct hrf_error *err)
{
    void *items = batches->items;
    HRF_TRY(
        hrf_array_reserve(&items, &batches->capacity, batches->n + 1, sizeof *batches->items, err));
    batches->items = items;
    batches->items[batches->n++] = (struct run_batch){ .tasks = NULL };
    return HRF_OK;
}

/* One pass over the tasks: each class of groups (the same precisions and resources) has one open
 * batch, its newest, which takes the groups that fit. */
static enum hrf_status gather(const struct search *search, enum hrf_task_kind kind, size_t most,
                              struct run_batches *out, struct hrf_error *err)
{
    const struct run *run = search->run;
    /* CLASSES: open batches at a time; with more classes there are more batches. LOOK_AHEAD: how
     * far a group is looked for that still fits, so that 100,000 are not walked over for each job.
     */
    enum { CLASSES = 32, LOOK_AHEAD = 1000 };
    const int64_t limit = groups_per_job(search, kind);
    size_t open[CLASSES], n_open = 0;
    int n_passed = 0; /* groups since the last one that found a place */
    for (size_t i = search->begin; i < search->end && n_passed < LOOK_AHEAD; i++) {
        const struct hrf_task_row *task = &run->tasks.items[i];
        if (task->kind != kind || search->taken[i] || !is_ready(run, i, search->now))
            continue;
        const struct group group = find_group(search, i);
        size_t c = 0;
        while (c < n_open && !goes_into(run, &out->items[open[c]], &group))
            c++;
        if (c == n_open || !fits(run, &out->items[open[c]], task, limit)) {
            if (out->n == most) {
                n_passed++;
                if (c < n_open)
                    continue; /* a later group may still fit into an open batch */
                break;
            }
            HRF_TRY(add_batch(out, err));
            c = c < CLASSES ? c : 0;
            n_open = c == n_open ? n_open + 1 : n_open;
            open[c] = out->n - 1;
        }
        HRF_TRY(add_group(run, &out->items[open[c]], &group, err));
        n_passed = 0;
    }
    return HRF_OK;
}

/* Patches in a batch of the task's slide. A slide of several shards has whole batches. */
static int64_t batch_of(const struct run *run, size_t i)
{
    const struct hrf_task_row *task = &run->tasks.items[i];
    const int64_t batch = run->workflow->engine.batch;
    return task->first_patch > 0 ? batch : hrf_job_batch(batch, task->n_patches);
}

/* The tasks of each job by the size of their batches, the largest first and otherwise in order: the
 * engine makes its networks again for every other size. Groups stay together. */
static void order_tasks(const struct run *run, struct run_batches *batches)
{
    for (size_t b = 0; b < batches->n; b++) {
        size_t *tasks = batches->items[b].tasks;
        for (size_t i = 1; i < batches->items[b].n; i++) {
            const size_t task = tasks[i];
            size_t k = i;
            for (; k > 0 && batch_of(run, tasks[k - 1]) < batch_of(run, task); k--)
                tasks[k] = tasks[k - 1];
            tasks[k] = task;
        }
    }
}

/* Of the tasks from `begin` on, before `end`. */
static enum hrf_status gather_from(const struct run *run, enum hrf_task_kind kind, size_t begin,
                                   size_t end, size_t most, struct run_batches *out,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE bool *taken = hrf_calloc(run->tasks.n_items + 1, sizeof *taken);
    HRF_CHECK_MEMORY(taken != NULL, err, "no memory for %zu tasks", run->tasks.n_items);
    const bool shares = kind == HRF_TASK_INFER && hrf_run_shares_reading(run->workflow);
    const struct search search = { .run = run,
                                   .shares = shares,
                                   .looks_at_parts = shares && are_parts_there(run),
                                   .now = hrf_clock_ms(),
                                   .begin = begin,
                                   .end = end,
                                   .taken = taken };
    HRF_TRY(gather(&search, kind, most, out, err));
    if (kind == HRF_TASK_INFER)
        order_tasks(run, out);
    return HRF_OK;
}

enum hrf_status run_gather(const struct run *run, enum hrf_task_kind kind, size_t most,
                           struct run_batches *out, struct hrf_error *err)
{
    return gather_from(run, kind, run->first_pending[kind], run_kind_end(run, kind), most, out,
                       err);
}

enum hrf_status run_count_jobs(const struct hrf_workflow *workflow, struct hrf_task_row *rows,
                               size_t n_rows, enum hrf_task_kind kind, int64_t *out,
                               struct hrf_error *err)
{
    struct run_batches batches = { .items = NULL };
    HRF_AUTO_FREE struct run_task_state *states = hrf_calloc(n_rows + 1, sizeof *states);
    HRF_CHECK_MEMORY(states != NULL, err, "no memory for %zu tasks", n_rows);
    struct run run = { .workflow = workflow, .tasks = { rows, n_rows }, .task_states = states };
    const enum hrf_status status = gather_from(&run, kind, 0, n_rows, SIZE_MAX, &batches, err);
    *out = (int64_t)batches.n;
    run_batches_release(&batches);
    return status;
}
