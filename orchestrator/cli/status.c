/* status.c - `hires-flow status DIR [--watch]`: where a run stands, read beside its driver. */
#include "base/clock.h"
#include "base/json.h"
#include "orchestrator/cli/cli.h"
#include "schema/record/throttle_record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct facts {
    int64_t slides[HRF_N_SLIDE_STATES];                 /* by state */
    int64_t tasks[HRF_N_TASK_KINDS][HRF_N_TASK_STATES]; /* by kind and state */
    int64_t patches_done, patches_total, driver;
    size_t n_slides;
    int64_t throttle;  /* -1: none */
    char queue[1024];  /* where jobs stand in the scheduler's queue; "": unknown */
    char silent[1024]; /* a line "infer-0003: ..." for each job without signs of life */
};

/* The jobs without signs of life, among the first that have not ended. */
static enum hrf_status find_silent(struct hrf_store *store, const char *directory, struct facts *f,
                                   struct hrf_error *err)
{
    enum { MOST = 256 };
    struct hrf_attempt_rows open = { NULL, 0 };
    size_t used = 0;
    HRF_TRY(hrf_store_get_attempts(store, true, &open, err));
    for (size_t i = 0; i < open.n_items && i < MOST; i++) {
        HRF_AUTO_FREE char *silence = hrf_cli_silence(directory, &open.items[i]);
        const char *job = open.items[i].job_id;
        if (silence != NULL && used + strlen(job) + strlen(silence) + 4 < sizeof f->silent)
            used += (size_t)snprintf(f->silent + used, sizeof f->silent - used, "%s: %s\n", job,
                                     silence);
    }
    hrf_attempt_rows_release(&open);
    return HRF_OK;
}

static enum hrf_status gather(const char *directory, struct facts *f, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    struct hrf_slide_rows slides;
    struct hrf_task_rows tasks;
    *f = (struct facts){ .driver = 0 };
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_AUTO_FREE char *queue = NULL;
    if (hrf_throttle_read(directory, &f->throttle, NULL) != HRF_OK)
        f->throttle = -1;
    HRF_TRY(find_silent(store, directory, f, err));
    HRF_TRY(hrf_store_lease_owner(store, &f->driver, err));
    HRF_TRY(hrf_store_get_fact(store, "queue", &queue, err));
    snprintf(f->queue, sizeof f->queue, "%s", queue != NULL ? queue : "");
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    f->n_slides = slides.n_items;
    for (size_t i = 0; i < slides.n_items; i++)
        f->slides[slides.items[i].state]++;
    hrf_slide_rows_release(&slides);
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (size_t i = 0; i < tasks.n_items; i++) {
        const struct hrf_task_row *t = &tasks.items[i];
        f->tasks[t->kind][t->state]++;
        if (t->kind == HRF_TASK_INFER) {
            f->patches_total += t->n_patches;
            f->patches_done += t->state == HRF_TASK_FINISHED ? t->n_patches : 0;
        }
    }
    hrf_task_rows_release(&tasks);
    return HRF_OK;
}

/* What it means that there is no driver. */
static const char *without_driver(const struct facts *f)
{
    int64_t n_open = 0, n_broken = 0;
    for (int k = 0; k < HRF_N_TASK_KINDS; k++) {
        n_open += f->tasks[k][HRF_TASK_PENDING] + f->tasks[k][HRF_TASK_RUNNING];
        n_broken += f->tasks[k][HRF_TASK_BROKEN];
    }
    return n_open > 0     ? "none; start the run again to continue"
           : n_broken > 0 ? "none; the run has ended; start it again to retry what failed"
                          : "none; the run has ended";
}

static bool has_any(const int64_t by_state[])
{
    return by_state[HRF_TASK_PENDING] + by_state[HRF_TASK_RUNNING] + by_state[HRF_TASK_FINISHED] +
               by_state[HRF_TASK_BROKEN] >
           0;
}

/* Returns the number of lines. */
static int print_text(const struct facts *f)
{
    int lines = 0;
    hrf_cli_printf("driver   ");
    if (f->driver > 0)
        hrf_cli_printf("process %lld\n", (long long)f->driver);
    else
        hrf_cli_printf("%s\n", without_driver(f));
    hrf_cli_printf("slides   %zu:", f->n_slides);
    for (int s = 0; s < HRF_N_SLIDE_STATES; s++)
        if (f->slides[s] > 0)
            hrf_cli_printf(" %lld %s", (long long)f->slides[s],
                           hrf_slide_state_text((enum hrf_slide_state)s));
    hrf_cli_printf("\n");
    for (int k = 0; k < HRF_N_TASK_KINDS; k++) {
        if ((k == HRF_TASK_CALIBRATE || k == HRF_TASK_HEAD) && !has_any(f->tasks[k]))
            continue; /* no int8, or no slide head, in this run */
        lines++;
        hrf_cli_printf("%-9s", hrf_task_kind_name((enum hrf_task_kind)k));
        for (int s = 0; s < HRF_N_TASK_STATES; s++)
            if (f->tasks[k][s] > 0)
                hrf_cli_printf(" %lld %s", (long long)f->tasks[k][s],
                               hrf_task_state_name((enum hrf_task_state)s));
        hrf_cli_printf("\n");
    }
    hrf_cli_printf("patches  %lld of %lld scored\n", (long long)f->patches_done,
                   (long long)f->patches_total);
    if (f->queue[0] != '\0')
        hrf_cli_printf("queue    %s%s\n", f->queue,
                       f->driver > 0 ? "" : " (when a driver last asked)");
    if (f->throttle >= 0)
        hrf_cli_printf("throttle at most %lld job%s at a time (hires-flow throttle)\n",
                       (long long)f->throttle, f->throttle == 1 ? "" : "s");
    for (const char *at = f->silent; *at != '\0'; at += strcspn(at, "\n") + 1, lines++)
        hrf_cli_printf("silent   %.*s\n", (int)strcspn(at, "\n"), at);
    return lines + 3 + (f->queue[0] != '\0') + (f->throttle >= 0);
}

static json_t *json_of(const struct facts *f)
{
    return json_pack("{sisIsssosos{sIsIsIsIsI}s{sIsI}}", "version", 1, "driver",
                     (json_int_t)f->driver, "queue", f->queue, "throttle",
                     f->throttle >= 0 ? json_integer((json_int_t)f->throttle) : json_null(),
                     "silent", hrf_cli_lines_json(f->silent), "slides", "pending",
                     (json_int_t)f->slides[HRF_SLIDE_PENDING], "done",
                     (json_int_t)f->slides[HRF_SLIDE_DONE], "failed",
                     (json_int_t)f->slides[HRF_SLIDE_FAILED], "no_tissue",
                     (json_int_t)f->slides[HRF_SLIDE_NO_TISSUE], "excluded",
                     (json_int_t)f->slides[HRF_SLIDE_EXCLUDED], "patches", "done",
                     (json_int_t)f->patches_done, "total", (json_int_t)f->patches_total);
}

json_t *hrf_cli_status_json(const char *directory)
{
    struct facts facts;
    return gather(directory, &facts, NULL) == HRF_OK ? json_of(&facts) : NULL;
}

static void print_json(const struct facts *f)
{
    HRF_AUTO_JSON value = json_of(f);
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool watch = false, json = false;
    const struct hrf_option options[] = {
        { "watch", NULL, "update the display every second until the driver ends", HRF_OPTION_FLAG,
          &watch },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct facts facts;
    for (int lines = 0;;) {
        if (gather(args.operands[0], &facts, &err) != HRF_OK)
            return hrf_cli_fail(command->name, &err);
        if (lines > 0 && isatty(STDOUT_FILENO) == 1)
            fprintf(stdout, "\033[%dA\033[J", lines);
        if (json)
            print_json(&facts);
        else
            lines = print_text(&facts);
        fflush(stdout);
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
    .run = run,
};
