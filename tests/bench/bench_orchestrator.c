/* bench_orchestrator - what the run loop costs: ingest, planning, a tick, coming back, memory.
 *
 * bench_orchestrator [--slides N] [--tasks N] [--jobs N] [--ticks N]
 *
 * Takes in a csv of N slides of one stem in N folders, and one of N stems in one folder; the files
 * are empty.
 * Plans N infer tasks of tiled slides that are not there (their tile plans are). Then makes as many
 * running jobs of a Slurm that is a script printing a prepared answer, which counts its calls, and
 * runs the loop's own functions on them: a driver that comes back finds its jobs and hears of them
 * once, then ticks as it would for hours. Prints one JSON object. Processor time is this process's
 * own.
 */
#include "base/args.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/run/run_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARDS_PER_SLIDE = 100 };

struct bench {
    int64_t n_slides, n_tasks, n_jobs, n_ticks;
    char directory[256];
    struct hrf_workflow *workflow;
    struct run run;
};

static double own_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- a run that stands in its store ---- */

static enum hrf_status put_plan(struct bench *b, struct hrf_slide_row *slide, int64_t task_id,
                                const char *key, struct hrf_error *err)
{
    struct hrf_patch patches[SHARDS_PER_SLIDE];
    char name[] = "slide", text[] = "", source[] = "file", method[] = "otsu";
    struct hrf_tile_plan plan = { .slide_path = name,
                                  .vendor = text,
                                  .width = 100000,
                                  .height = 100000,
                                  .n_levels = 1,
                                  .mpp_x = 0.5,
                                  .mpp_y = 0.5,
                                  .mpp_source = source,
                                  .patch_size = 256,
                                  .patch_mpp = 0.5,
                                  .patch_stride = 256,
                                  .patch_width0 = 256,
                                  .patch_height0 = 256,
                                  .grid_columns = 390,
                                  .grid_rows = 390,
                                  .stride_x0 = 256,
                                  .stride_y0 = 256,
                                  .read_downsample = 1,
                                  .tissue_method = method,
                                  .thumbnail_downsample = 100,
                                  .n_patches = SHARDS_PER_SLIDE,
                                  .patches = patches };
    struct hrf_bytes bytes;
    bool is_new;
    for (int32_t i = 0; i < SHARDS_PER_SLIDE; i++)
        patches[i] = (struct hrf_patch){ 256 * i, (int32_t)slide->id };
    HRF_TRY(hrf_tile_plan_seal(&plan, err));
    plan.identity = hrf_slide_expect(slide, HRF_TASK_TILE, key);
    HRF_TRY(hrf_tile_plan_encode(&plan, &bytes, err));
    enum hrf_status status = hrf_store_finish_task(b->run.setup.store, task_id, key, bytes.data,
                                                   bytes.n_bytes, &is_new, err);
    hrf_bytes_release(&bytes);
    return status;
}

static enum hrf_status make_slides(struct bench *b, struct hrf_error *err)
{
    const int64_t n = b->n_tasks / SHARDS_PER_SLIDE;
    struct hrf_slide_rows *slides = &b->run.slides;
    slides->items = hrf_calloc((size_t)n, sizeof *slides->items);
    if (slides->items == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory");
    for (; slides->n_items < (size_t)n; slides->n_items++) {
        struct hrf_slide_row *slide = &slides->items[slides->n_items];
        struct hrf_task_row tile = { .kind = HRF_TASK_TILE };
        slide->id = tile.slide_id = (int64_t)slides->n_items + 1;
        slide->name = hrf_format("slide_%05lld", (long long)slide->id);
        slide->path = hrf_format("/nowhere/%s.svs", slide->name);
        HRF_TRY(hrf_store_put_slide(b->run.setup.store, slide, err));
        snprintf(tile.key, sizeof tile.key, "%064lld", (long long)slide->id);
        HRF_TRY(hrf_store_plan_tasks(b->run.setup.store, slide->id, HRF_TASK_TILE, &tile, 1, err));
    }
    HRF_TRY(run_tasks_reload(&b->run.tasks, &b->run.setup, &b->run.slides, err));
    for (size_t i = 0; i < b->run.tasks.rows.n_items; i++)
        HRF_TRY(put_plan(b, &slides->items[i], b->run.tasks.rows.items[i].id,
                         b->run.tasks.rows.items[i].key, err));
    return run_tasks_reload(&b->run.tasks, &b->run.setup, &b->run.slides, err);
}

static enum hrf_status make_run(struct bench *b, struct hrf_error *err)
{
    HRF_AUTO_FREE char *db = hrf_format("%s/run.db", b->directory);
    struct hrf_workflow *w = b->workflow;
    w->model.classes = (struct hrf_text_list){ hrf_calloc(2, sizeof(char *)), 2 };
    HRF_CHECK_MEMORY(w->model.classes.items != NULL, err, "no memory for two classes");
    w->model.classes.items[0] = hrf_strdup("normal");
    w->model.classes.items[1] = hrf_strdup("tumor");
    w->executor.type = HRF_EXECUTOR_SLURM;
    w->executor.patches_per_job = 1; /* a patch a task */
    w->executor.max_jobs = b->n_jobs;
    w->executor.slurm.cpus_per_rank = 1;
    b->run.setup.workflow = w;
    b->run.setup.directory = b->directory;
    snprintf(b->run.setup.run_id, sizeof b->run.setup.run_id, "bench");
    HRF_TRY(hrf_store_open(db, HRF_STORE_WRITE, &b->run.setup.store, err));
    HRF_TRY(hrf_store_take_lease(b->run.setup.store, err));
    HRF_TRY(hrf_store_begin(b->run.setup.store, err));
    HRF_TRY(make_slides(b, err));
    return hrf_store_commit(b->run.setup.store, err);
}

/* ---- jobs, and a Slurm that shows them as running ---- */

static enum hrf_status make_jobs(struct bench *b, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(b->run.setup.store, err));
    int64_t k = 0;
    for (size_t i = 0; i < b->run.tasks.rows.n_items && k < b->n_jobs; i++) {
        const struct hrf_task_row *t = &b->run.tasks.rows.items[i];
        if (t->kind != HRF_TASK_INFER)
            continue;
        struct hrf_attempt_row row = { .kind = HRF_TASK_INFER,
                                       .state = HRF_ATTEMPT_LIVE,
                                       .attempt = 1,
                                       .pid = 7,
                                       .submission = 1 + k / 1000 * 1000,
                                       .array_index = k % 1000 };
        row.job_id = hrf_format("infer-%04lld", (long long)k);
        row.directory = hrf_format("jobs/infer-%04lld.a1", (long long)k);
        row.task_ids = hrf_alloc_array(1, sizeof row.task_ids[0]);
        if (row.task_ids == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory");
        row.task_ids[row.n_task_ids++] = t->id;
        HRF_AUTO_FREE char *path = hrf_path_join(b->directory, row.directory);
        HRF_TRY(hrf_path_make_directories(path, err));
        HRF_TRY(hrf_store_set_task(b->run.setup.store, t->id, HRF_TASK_RUNNING, 0, NULL, err));
        HRF_TRY(hrf_store_put_attempt(b->run.setup.store, &row, err));
        hrf_attempt_row_release(&row);
        k++;
    }
    return hrf_store_commit(b->run.setup.store, err);
}

static enum hrf_status make_slurm(struct bench *b, struct hrf_error *err)
{
    struct hrf_strbuf answer = HRF_STRBUF_INIT, script = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *bin = hrf_path_join(b->directory, "bin");
    HRF_AUTO_FREE char *file = hrf_path_join(b->directory, "answer");
    HRF_AUTO_FREE char *squeue = hrf_path_join(bin, "squeue");
    HRF_TRY(hrf_path_make_directories(bin, err));
    for (int64_t k = 0; k < b->n_jobs; k++)
        hrf_strbuf_addf(&answer, "%lld_%lld|RUNNING|None|n%lld|hf-bench-%lld\n",
                        (long long)(1000000 + k / 1000), (long long)(k % 1000), (long long)(k % 64),
                        (long long)(1 + k / 1000 * 1000));
    hrf_strbuf_addf(&script, "#!/bin/sh\necho >>'%s/calls'\nexec cat '%s'\n", b->directory, file);
    HRF_TRY(hrf_file_write_atomic(file, answer.text, answer.length, err));
    HRF_TRY(hrf_file_write_atomic(squeue, script.text, script.length, err));
    chmod(squeue, 0755);
    hrf_strbuf_clear(&script);
    hrf_strbuf_addf(&script, "%s:%s", bin, getenv("PATH"));
    setenv("PATH", script.text, 1);
    setenv("XDG_CACHE_HOME", b->directory, 1); /* nobody's answers but its own */
    hrf_strbuf_release(&answer);
    hrf_strbuf_release(&script);
    return HRF_OK;
}

static int64_t calls(const struct bench *b)
{
    HRF_AUTO_FREE char *path = hrf_path_join(b->directory, "calls");
    const int64_t n = hrf_path_size(path);
    return n > 0 ? n : 0;
}

/* ---- what is measured ---- */

/* A csv of the slides, which are made. */
static enum hrf_status make_dataset(const struct bench *b, bool is_one_stem, const char *csv,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&text, "slide,label\n");
    for (int64_t i = 0; i < b->n_slides; i++) {
        char name[64];
        snprintf(name, sizeof name, is_one_stem ? "cases/%lld/slide.svs" : "flat/%lld.svs",
                 (long long)i);
        HRF_AUTO_FREE char *path = hrf_path_join(b->directory, name);
        HRF_AUTO_FREE char *folder = path != NULL ? hrf_path_directory(path) : NULL;
        if (folder == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory");
        if (is_one_stem || i == 0)
            HRF_TRY(hrf_path_make_directories(folder, err));
        FILE *file = fopen(path, "w");
        if (file == NULL || fclose(file) != 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "cannot make '%s'", path);
        hrf_strbuf_addf(&text, "%s,%d\n", name, (int)(i % 2));
    }
    return hrf_file_write_atomic(csv, text.text, text.length, err);
}

static enum hrf_status measure_ingest(struct bench *b, bool is_one_stem, const char *key,
                                      json_t *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *csv = hrf_path_join(b->directory, is_one_stem ? "one.csv" : "many.csv");
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) rows = { .items = NULL };
    HRF_TRY(make_dataset(b, is_one_stem, csv, err));
    HRF_TRY(hrf_workflow_create(&workflow, err));
    workflow->dataset.layout = HRF_LAYOUT_CSV;
    HRF_MOVE(workflow->dataset.csv, csv);
    const double start = hrf_clock_seconds();
    HRF_TRY(hrf_ingest(workflow, NULL, &rows, NULL, err));
    hrf_json_put_number(out, key, hrf_clock_seconds() - start);
    hrf_json_put_int(out, "slides", (int64_t)rows.n_items);
    return HRF_OK;
}

static enum hrf_status measure_plan(struct bench *b, json_t *out, struct hrf_error *err)
{
    const double start = hrf_clock_seconds(), cpu = own_seconds();
    HRF_TRY(run_plan_all_infer(&b->run, err));
    hrf_json_put_number(out, "plan_cpu_seconds", own_seconds() - cpu);
    hrf_json_put_number(out, "plan_seconds", hrf_clock_seconds() - start);
    hrf_json_put_int(out, "tasks", (int64_t)b->run.tasks.rows.n_items);
    return HRF_OK;
}

static bool has_heard(const struct run *run)
{
    return run->jobs.n > 0 && run->jobs.live[run->jobs.n - 1].view.observed == HRF_JOB_RUNNING;
}

static enum hrf_status measure_return(struct bench *b, json_t *out, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    bool changed;
    HRF_TRY(
        hrf_executor_slurm_create(&b->workflow->executor, "bench", &b->run.setup.executor, err));
    HRF_TRY(run_jobs_recover(&b->run.jobs, &b->run.setup, &b->run.tasks, err));
    while (!has_heard(&b->run)) {
        HRF_TRY(run_observe(&b->run, &changed, err));
        hrf_clock_sleep_ms(1);
    }
    hrf_json_put_number(out, "return_seconds", hrf_clock_seconds() - start);
    hrf_json_put_int(out, "return_calls", calls(b));
    hrf_json_put_int(out, "jobs", (int64_t)b->run.jobs.n);
    return HRF_OK;
}

static enum hrf_status measure_ticks(struct bench *b, json_t *out, struct hrf_error *err)
{
    double sum = 0, worst = 0;
    int64_t max_calls = 0;
    for (int64_t i = 0; i < b->n_ticks; i++) {
        bool changed, submitted;
        const int64_t before = calls(b);
        const double start = own_seconds();
        HRF_TRY(run_observe(&b->run, &changed, err));
        HRF_TRY(run_submit(&b->run, &submitted, err));
        const double took = own_seconds() - start;
        sum += took;
        worst = took > worst ? took : worst;
        hrf_clock_sleep_ms(b->run.setup.executor->tick_ms / 5);
        max_calls = calls(b) - before > max_calls ? calls(b) - before : max_calls;
    }
    hrf_json_put_int(out, "ticks", b->n_ticks);
    hrf_json_put_number(out, "tick_cpu_ms_mean", 1000 * sum / (double)b->n_ticks);
    hrf_json_put_number(out, "tick_cpu_ms_max", 1000 * worst);
    hrf_json_put_int(out, "queries", calls(b));
    hrf_json_put_int(out, "queries_per_tick_max", max_calls);
    return HRF_OK;
}

static enum hrf_status measure(struct bench *b, json_t *out, struct hrf_error *err)
{
    snprintf(b->directory, sizeof b->directory, "%s/bench-orchestrator-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(b->directory) == NULL)
        return hrf_error_set(err, HRF_E_EXTERNAL, "cannot make '%s'", b->directory);
    HRF_TRY(measure_ingest(b, true, "ingest_one_stem_seconds", out, err));
    HRF_TRY(measure_ingest(b, false, "ingest_many_stems_seconds", out, err));
    HRF_TRY(hrf_workflow_create(&b->workflow, err));
    HRF_TRY(make_run(b, err));
    HRF_TRY(measure_plan(b, out, err));
    HRF_TRY(make_jobs(b, err));
    HRF_TRY(make_slurm(b, err));
    HRF_TRY(run_tasks_reload(&b->run.tasks, &b->run.setup, &b->run.slides, err));
    HRF_TRY(measure_return(b, out, err));
    HRF_TRY(measure_ticks(b, out, err));
    hrf_json_put_int(out, "peak_memory_bytes", hrf_process_peak_memory());
    return HRF_OK;
}

static int run_bench(const struct hrf_command *command, int argc, char **argv)
{
    struct bench b = { .n_slides = 10000, .n_tasks = 100000, .n_jobs = 10000, .n_ticks = 200 };
    const struct hrf_option options[] = {
        { "slides", "N", "slides to take in", HRF_OPTION_NUMBER(&b.n_slides, 1, HRF_UNBOUNDED) },
        { "tasks", "N", "infer tasks to plan", HRF_OPTION_NUMBER(&b.n_tasks, 1, HRF_UNBOUNDED) },
        { "jobs", "N", "running jobs", HRF_OPTION_NUMBER(&b.n_jobs, 1, HRF_UNBOUNDED) },
        { "ticks", "N", "of the loop", HRF_OPTION_NUMBER(&b.n_ticks, 1, HRF_UNBOUNDED) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse("bench_orchestrator", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_JSON out = json_object();
    const enum hrf_status status = measure(&b, out, &err);
    hrf_executor_destroy(b.run.setup.executor);
    run_jobs_release(&b.run.jobs);
    hrf_slide_rows_release(&b.run.slides);
    run_tasks_release(&b.run.tasks);
    hrf_store_close(b.run.setup.store);
    hrf_workflow_destroy(b.workflow);
    if (hrf_path_remove_tree(b.directory, NULL) != HRF_OK)
        fprintf(stderr, "'%s' is left\n", b.directory);
    if (status != HRF_OK) {
        fprintf(stderr, "bench_orchestrator: %s\n", err.text);
        return 1;
    }
    HRF_AUTO_FREE char *text = hrf_json_text(out);
    printf("%s\n", text != NULL ? text : "{}");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct hrf_command command = {
        .name = "", .operands = "", .summary = "what the run loop costs", .run = run_bench
    };
    return command.run(&command, argc - 1, argv + 1);
}
