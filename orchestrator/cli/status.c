/* status.c - `hires-flow status DIR [--watch]`: where a run stands, read beside its driver. */
#include "base/clock.h"
#include "base/json.h"
#include "base/quantity.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/live_jobs.h"
#include "schema/record/throttle_record.h"

#include <stdio.h>
#include <unistd.h>

struct facts {
    int64_t slides[HRF_N_SLIDE_STATES];                 /* by state */
    int64_t tasks[HRF_N_TASK_KINDS][HRF_N_TASK_STATES]; /* by kind and state, as the store has it */
    int64_t patches_imported, patches_total, driver;
    size_t n_slides;
    int64_t throttle; /* -1: none */
    struct hrf_live_jobs jobs;
    char queue[1024]; /* where jobs stand in the scheduler's queue; "": unknown */
};

static enum hrf_status gather_tasks(struct hrf_store *store, const char *directory, struct facts *f,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { NULL, 0 };
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (size_t i = 0; i < tasks.n_items; i++) {
        const struct hrf_task_row *t = &tasks.items[i];
        f->tasks[t->kind][t->state]++;
        if (t->kind == HRF_TASK_INFER) {
            f->patches_total += t->n_patches;
            f->patches_imported += t->state == HRF_TASK_FINISHED ? t->n_patches : 0;
        }
    }
    return hrf_live_jobs_read(store, directory, &tasks, &f->jobs, err);
}

static enum hrf_status gather_facts(const char *directory, struct facts *f, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    *f = (struct facts){ .driver = 0 };
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_AUTO_FREE char *queue = NULL;
    if (hrf_throttle_read(directory, &f->throttle, NULL) != HRF_OK)
        f->throttle = -1;
    HRF_TRY(hrf_store_lease_owner(store, &f->driver, err));
    HRF_TRY(hrf_store_get_fact(store, "queue", &queue, err));
    snprintf(f->queue, sizeof f->queue, "%s", queue != NULL ? queue : "");
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    f->n_slides = slides.n_items;
    for (size_t i = 0; i < slides.n_items; i++)
        f->slides[slides.items[i].state]++;
    return gather_tasks(store, directory, f, err);
}

/* Prints what it means that there is no driver. */
static void print_no_driver(const struct facts *f)
{
    const int64_t n = hrf_live_jobs_alive(&f->jobs);
    int64_t n_open = 0, n_broken = 0;
    for (int k = 0; k < HRF_N_TASK_KINDS; k++) {
        n_open += f->tasks[k][HRF_TASK_PENDING] + f->tasks[k][HRF_TASK_RUNNING];
        n_broken += f->tasks[k][HRF_TASK_BROKEN];
    }
    if (n > 0)
        hrf_cli_printf("none; %lld job%s without it: start the run again to import the results\n",
                       (long long)n, n == 1 ? " goes on" : "s go on");
    else
        hrf_cli_printf("none; %s\n", n_open > 0 ? "start the run again to continue"
                                     : n_broken > 0
                                         ? "the run has ended; start it again to retry what failed"
                                         : "the run has ended");
}

/* The states of a phase's tasks: what the store calls running is divided by what its job reports.
 */
enum { N_WORDS = 7 };
static const struct {
    const char *key, *text; /* in JSON; on a terminal */
} words[N_WORDS] = {
    { "pending", "pending" },
    { "in_queue", "in the queue" },
    { "running", "running" },
    { "silent", "silent" },
    { "not_imported", "done and not imported" },
    { "done", "done" },
    { "failed", "failed" },
};

static void count_words(const struct facts *f, int kind, int64_t out[N_WORDS])
{
    const int64_t *live = f->jobs.tasks[kind], *stored = f->tasks[kind];
    const int64_t n_told = live[HRF_LIVE_WAITING] + live[HRF_LIVE_RUNNING] + live[HRF_LIVE_SILENT] +
                           f->jobs.n_written[kind];
    const int64_t n_left = stored[HRF_TASK_RUNNING] - n_told; /* of jobs that ended without it */
    out[1] = live[HRF_LIVE_WAITING];
    out[2] = live[HRF_LIVE_RUNNING];
    out[3] = live[HRF_LIVE_SILENT];
    out[4] = f->jobs.n_written[kind];
    out[5] = stored[HRF_TASK_FINISHED];
    out[6] = stored[HRF_TASK_BROKEN];
    const bool is_unread = f->jobs.n_unread > 0;
    out[0] = stored[HRF_TASK_PENDING] + (is_unread ? 0 : n_left);
    out[2] += is_unread ? n_left : 0; /* as the store has it */
}

/* Returns the number of lines. */
static int print_tasks(const struct facts *f)
{
    int lines = 0;
    for (int k = 0; k < HRF_N_TASK_KINDS; k++) {
        int64_t n[N_WORDS], all = 0;
        count_words(f, k, n);
        for (int i = 0; i < N_WORDS; i++)
            all += n[i];
        if (all == 0 && (f->n_slides == 0 || (k != HRF_TASK_TILE && k != HRF_TASK_INFER)))
            continue; /* this run has no INT8, or no slide head; a run of trainings has no slides */
        lines++;
        hrf_cli_printf("%-9s", hrf_task_kind_name((enum hrf_task_kind)k));
        const char *before = " ";
        for (int i = N_WORDS - 1; i >= 0; i--)
            if (n[i] > 0) {
                hrf_cli_printf("%s%lld %s", before, (long long)n[i], words[i].text);
                before = ", ";
            }
        hrf_cli_printf("%s\n", all == 0 ? " none yet" : "");
    }
    return lines;
}

static void print_patches(const struct facts *f)
{
    const int64_t done = f->patches_imported + f->jobs.n_patches_written;
    const double rate = f->jobs.patches_per_second;
    hrf_cli_printf("patches   %lld of %lld scored", (long long)done, (long long)f->patches_total);
    if (f->jobs.n_patches_written > 0)
        hrf_cli_printf(", %lld of them by jobs that are not imported yet",
                       (long long)f->jobs.n_patches_written);
    if (rate > 0)
        hrf_cli_printf(", %.*f patches/s now", rate < 10 ? 1 : 0, rate);
    if (rate > 0 && f->patches_total > done)
        hrf_cli_printf(", %s left at that rate",
                       hrf_duration_text((double)(f->patches_total - done) / rate).text);
    hrf_cli_printf("\n");
}

/* Returns the number of lines. */
static int print_status_text(const struct facts *f)
{
    int lines = 3;
    hrf_cli_printf("driver    ");
    if (f->driver > 0)
        hrf_cli_printf("process %lld\n", (long long)f->driver);
    else
        print_no_driver(f);
    hrf_cli_printf("slides    %zu:", f->n_slides);
    const char *before = " ";
    for (int s = 0; s < HRF_N_SLIDE_STATES; s++)
        if (f->slides[s] > 0) {
            hrf_cli_printf("%s%lld %s", before, (long long)f->slides[s],
                           hrf_slide_state_text((enum hrf_slide_state)s));
            before = ", ";
        }
    hrf_cli_printf("\n");
    lines += print_tasks(f);
    print_patches(f);
    if (f->queue[0] != '\0' && (f->driver > 0 || hrf_live_jobs_alive(&f->jobs) > 0)) {
        hrf_cli_printf("queue     %s%s\n", f->queue,
                       f->driver > 0 ? "" : " (when a driver last asked)");
        lines++;
    }
    if (f->throttle >= 0) {
        hrf_cli_printf("throttle  at most %lld job%s at a time (hires-flow throttle)\n",
                       (long long)f->throttle, f->throttle == 1 ? "" : "s");
        lines++;
    }
    return lines + hrf_live_jobs_print(&f->jobs);
}

/* Returns a line "infer-0003: ..." for each job without signs of life. New reference. */
static json_t *silent_json(const struct hrf_live_jobs *jobs)
{
    json_t *list = json_array();
    for (size_t i = 0; i < jobs->n_items; i++) {
        const struct hrf_live_job *job = &jobs->items[i];
        HRF_AUTO_FREE char *line = job->text != NULL ? hrf_format("%s: %s", job->id, job->text)
                                                     : NULL;
        if (line != NULL)
            hrf_json_add(list, hrf_json_string(line));
    }
    return list;
}

static json_t *tasks_json(const struct facts *f)
{
    json_t *kinds = json_object();
    for (int k = 0; k < HRF_N_TASK_KINDS; k++) {
        int64_t n[N_WORDS];
        json_t *states = json_object();
        count_words(f, k, n);
        for (int i = 0; i < N_WORDS; i++)
            hrf_json_put_int(states, words[i].key, n[i]);
        hrf_json_put(kinds, hrf_task_kind_name((enum hrf_task_kind)k), states);
    }
    return kinds;
}

static json_t *json_of(const struct facts *f)
{
    json_t *slides = json_object();
    for (int i = 0; i < HRF_N_SLIDE_STATES; i++)
        hrf_json_put_int(slides, hrf_slide_state_word((enum hrf_slide_state)i), f->slides[i]);
    json_t *patches = json_object();
    hrf_json_put_int(patches, "done", f->patches_imported + f->jobs.n_patches_written);
    hrf_json_put_int(patches, "imported", f->patches_imported);
    hrf_json_put_int(patches, "total", f->patches_total);
    json_t *value = hrf_json_document();
    hrf_json_put_int(value, "driver", f->driver);
    hrf_json_put_text(value, "queue", f->queue);
    hrf_json_put(value, "throttle", f->throttle >= 0 ? json_integer(f->throttle) : json_null());
    hrf_json_put(value, "silent", silent_json(&f->jobs));
    hrf_json_put(value, "tasks", tasks_json(f));
    hrf_json_put(value, "jobs", hrf_live_jobs_json(&f->jobs));
    hrf_json_put_number(value, "patches_per_second", f->jobs.patches_per_second);
    hrf_json_put(value, "slides", slides);
    hrf_json_put(value, "patches", patches);
    return value;
}

json_t *hrf_cli_status_json(const char *directory)
{
    struct facts facts;
    json_t *value = gather_facts(directory, &facts, NULL) == HRF_OK ? json_of(&facts) : NULL;
    hrf_live_jobs_release(&facts.jobs);
    return value;
}

static int status_main(const struct hrf_command *command, int argc, char **argv)
{
    bool watch = false, json = false;
    const struct hrf_option options[] = {
        { "watch", NULL, "update the display every second until the driver ends",
          HRF_OPTION(&watch) },
        { "json", NULL, "print JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct facts facts;
    bool is_first = true;
    for (int lines = 0;;) {
        if (gather_facts(args.operands[0], &facts, &err) != HRF_OK)
            return hrf_cli_fail(command->name, &err);
        if (is_first)
            hrf_cli_warn_of_full_disk(args.operands[0]);
        is_first = false;
        if (lines > 0 && isatty(STDOUT_FILENO) == 1)
            fprintf(stdout, "\033[%dA\033[J", lines);
        HRF_AUTO_JSON value = json ? json_of(&facts) : NULL;
        if (json)
            hrf_json_print(value);
        else
            lines = print_status_text(&facts);
        fflush(stdout);
        hrf_live_jobs_release(&facts.jobs);
        if (!watch || facts.driver == 0)
            return 0;
        hrf_clock_sleep_ms(1000);
    }
}

const struct hrf_command hrf_cli_status = {
    .name = "status",
    .operands = "DIR",
    .summary = "show the state of a run",
    .min_operands = 1,
    .max_operands = 1,
    .run = status_main,
};
