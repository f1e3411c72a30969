/* run.c - `hires-flow run`: runs a workflow, or continues what stands in its directory. */
#include "orchestrator/run/run.h"

#include "base/json.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/ingest/ingest.h"

#include <stdio.h>
#include <string.h>

static const char details[] =
    "Running again on the same directory continues the run: finished work is kept, failed work is\n"
    "tried again, and jobs that are still running are found. Ctrl-C stops the command but leaves\n"
    "the jobs running; a second Ctrl-C ends them. Without --out, the run directory is\n"
    "runs/<name of the workflow>.";

struct request {
    const char *out, *executor;
    struct hrf_option_list set;
    bool dry_run, json;
};

static const char *end_name(enum hrf_run_end end)
{
    static const char *const names[] = { "done", "detached", "cancelled" };
    return names[end];
}

static void print_json(const struct hrf_run_summary *s, const char *directory)
{
    HRF_AUTO_JSON value = json_pack(
        "{sisssos{sIsIsIsIsI}sIsI}", "version", 1, "end", end_name(s->end), "directory",
        hrf_json_string(directory), "slides", "total", (json_int_t)s->n_slides, "done",
        (json_int_t)s->n_done, "failed", (json_int_t)s->n_failed, "no_tissue",
        (json_int_t)s->n_no_tissue, "excluded", (json_int_t)s->n_excluded, "tasks_run",
        (json_int_t)s->n_tasks_run, "tasks_cached", (json_int_t)s->n_tasks_cached);
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
}

static void print_figures(const char *directory)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "report/report.json");
    HRF_AUTO_JSON report = NULL;
    if (path != NULL && hrf_json_read_file(path, &report, NULL) == HRF_OK)
        hrf_cli_print_figures(report);
}

static int print_summary(const struct hrf_run_summary *s, const char *directory,
                         const struct hrf_workflow *w, const struct request *request)
{
    HRF_AUTO_FREE char *labels = hrf_path_join(directory, "results/labels.csv");
    HRF_AUTO_FREE char *page = hrf_path_join(directory, "report/index.html");
    if (request->json) {
        print_json(s, directory);
    } else if (s->end != HRF_RUN_DONE) {
        hrf_cli_printf("%s; to continue: %s run %s --out %s\n",
                       s->end == HRF_RUN_CANCELLED ? "cancelled" : "detached, jobs continue",
                       HRF_PROGRAM, w->path, directory);
    } else {
        hrf_cli_printf("%lld slides: %lld done, %lld failed, %lld without tissue, %lld excluded\n",
                       (long long)s->n_slides, (long long)s->n_done, (long long)s->n_failed,
                       (long long)s->n_no_tissue, (long long)s->n_excluded);
        hrf_cli_print_failed(directory);
        print_figures(directory);
        hrf_cli_printf("labels: %s\nreport: %s\n", labels != NULL ? labels : "?",
                       w->report.html && page != NULL ? page : "(not requested)");
    }
    if (s->end != HRF_RUN_DONE)
        return HRF_EXIT_INTERRUPTED;
    return s->n_failed > 0 ? HRF_EXIT_PARTIAL : 0;
}

static enum hrf_status refuse_unsupported(const struct hrf_workflow *w, struct hrf_error *err)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_workflow_unsupported(w, &text);
    enum hrf_status status = HRF_OK;
    if (text.length > 0) {
        text.text[text.length - 1] = '\0';
        for (char *end = text.text; (end = strchr(end, '\n')) != NULL;)
            *end = ';';
        status = hrf_error_set(err, HRF_E_UNSUPPORTED,
                               "'%s' needs something that this build lacks: %s", w->path,
                               text.text);
    }
    hrf_strbuf_release(&text);
    return status;
}

/* A pattern that matches nothing or a wrong label file is reported before anything is written, as
 * by `plan`. The run reads the dataset again. */
static enum hrf_status check_dataset(const struct hrf_workflow *w, struct hrf_error *err)
{
    struct hrf_slide_rows slides = { .items = NULL };
    const enum hrf_status status = hrf_ingest(w, &slides, NULL, err);
    hrf_slide_rows_release(&slides);
    return status;
}

/* Calls `plan` with the same options. */
static int dry_run(const struct request *request, const char *file)
{
    const char *argv[2 * HRF_OPTION_LIST_MAX + 8];
    int argc = 0;
    argv[argc++] = file;
    if (request->out != NULL) {
        argv[argc++] = "--out";
        argv[argc++] = request->out;
    }
    for (size_t i = 0; i < request->set.n_items; i++) {
        argv[argc++] = "--set";
        argv[argc++] = request->set.items[i];
    }
    if (request->json)
        argv[argc++] = "--json";
    return hrf_cli_plan.run(&hrf_cli_plan, argc, (char **)(uintptr_t)argv);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = { .out = NULL };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory", HRF_OPTION_TEXT, &request.out },
        { "set", "KEY=VALUE", "override a key of the file; may be repeated", HRF_OPTION_LIST,
          &request.set },
        { "executor", "local|slurm", "override executor.type", HRF_OPTION_TEXT, &request.executor },
        { "dry-run", NULL, "check and plan, but start nothing", HRF_OPTION_FLAG, &request.dry_run },
        { "json", NULL, "print the summary as JSON", HRF_OPTION_FLAG, &request.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    char executor[64];
    if (request.executor != NULL && request.set.n_items == HRF_OPTION_LIST_MAX) {
        fprintf(stderr, "%s %s: at most %d --set are allowed; --executor counts as one\n",
                HRF_PROGRAM, command->name, HRF_OPTION_LIST_MAX);
        return HRF_EXIT_USAGE;
    }
    if (request.executor != NULL) {
        snprintf(executor, sizeof executor, "executor.type=%s", request.executor);
        request.set.items[request.set.n_items++] = executor;
    }
    if (request.dry_run)
        return dry_run(&request, args.operands[0]);
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *standard = NULL;
    struct hrf_run_summary summary;
    enum hrf_status status = hrf_cli_load(args.operands[0], &request.set, &workflow, &err);
    if (status == HRF_OK)
        status = refuse_unsupported(workflow, &err);
    if (status == HRF_OK)
        status = check_dataset(workflow, &err);
    if (status == HRF_OK)
        status = hrf_cli_check_model(workflow, false, &err);
    if (status != HRF_OK) {
        int code = hrf_cli_fail(command->name, &err);
        return status == HRF_E_EXTERNAL ? HRF_EXIT_LACKS : code;
    }
    const char *directory = request.out;
    if (directory == NULL && (directory = standard = hrf_cli_default_directory(workflow)) == NULL)
        return HRF_EXIT_FAILED;
    hrf_run_catch_signals();
    struct hrf_run_options run_options = { .quiet = false };
    status = hrf_run(workflow, directory, &run_options, &summary, &err);
    if (status != HRF_OK) {
        hrf_cli_fail(command->name, &err);
        if (status == HRF_E_NOSPACE)
            fputs("finished work is kept: free some space on that disk and run the same command "
                  "again\n",
                  stderr);
        return status == HRF_E_UNSUPPORTED ? HRF_EXIT_USAGE : HRF_EXIT_FAILED;
    }
    return print_summary(&summary, directory, workflow, &request);
}

const struct hrf_command hrf_cli_run = {
    .name = "run",
    .operands = "FILE.yaml",
    .summary = "run a workflow, or continue it",
    .details = details,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
