/* report.c - `report DIR` and `aggregate DIR`: results and page again, from the store alone. */
#include "base/json.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/run.h"
#include "schema/store/tasks.h"

#include <stdio.h>

/* Prints report.json, or one line for each precision. */
static void print_figures(const char *directory, bool json)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "report/report.json");
    HRF_AUTO_JSON report = NULL;
    if (hrf_json_read_file(path, &report, NULL) != HRF_OK)
        return;
    if (json)
        hrf_json_print(report);
    else
        hrf_cli_print_figures(report);
}

static enum hrf_status write_again(const char *directory, const struct hrf_option_list *set,
                                   size_t *n_failed, bool *has_page, struct hrf_error *err)
{
    static const char *const sections[] = { "aggregate", "report", "features", NULL };
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_FREE char *file = hrf_path_join(directory, "workflow.yaml");
    HRF_AUTO_FREE char *db = hrf_path_join(directory, "run.db");
    if (!hrf_path_exists(db))
        return hrf_error_set(err, HRF_E_USER, "there is no run in '%s'", directory);
    HRF_TRY(hrf_cli_load_of_run(file, set, sections, &workflow, err));
    *has_page = workflow->report.html;
    HRF_TRY(hrf_store_open(db, HRF_STORE_WRITE, &store, err));
    HRF_TRY(hrf_store_take_lease(store, err));
    enum hrf_status status = hrf_run_report(workflow, store, directory, n_failed, err);
    struct hrf_error ignored; /* the next driver takes over a lease that is left behind */
    if (hrf_store_release_lease(store, &ignored) != HRF_OK)
        fprintf(stderr, "%s\n", ignored.text);
    return status;
}

static int report_main(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_option_list set = { .n_items = 0 };
    bool json = false;
    const struct hrf_option options[] = {
        { "set", "KEY=VALUE",
          "override keys of aggregate, report and features, e.g. aggregate.threshold=0.3; may be "
          "repeated",
          HRF_OPTION(&set) },
        { "json", NULL, "print report.json", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    size_t n_failed = 0;
    bool has_page = false;
    if (write_again(args.operands[0], &set, &n_failed, &has_page, &err) != HRF_OK) {
        if (err.status == HRF_E_NOSPACE)
            hrf_error_wrap(&err, err.status, "the report of '%s' cannot be written",
                           args.operands[0]);
        const int code = hrf_cli_fail(command->name, &err);
        hrf_cli_print_way_out_of_full_disk(
            &err, "give the same command again, or copy the folder of the run to another disk and "
                  "report there");
        return code;
    }
    if (json || command == &hrf_cli_aggregate)
        print_figures(args.operands[0], json);
    if (!json)
        hrf_cli_printf("labels: %s/results/labels.csv\nreport: %s%s\n", args.operands[0],
                       has_page ? args.operands[0] : "(not requested)",
                       has_page ? "/report/index.html" : "");
    if (n_failed == 0) /* slides whose files this command could not write */
        return 0;
    if (!json) /* `slides_not_done` is in there */
        hrf_cli_print_failed(args.operands[0]);
    return HRF_EXIT_PARTIAL;
}

const struct hrf_command hrf_cli_report = {
    .name = "report",
    .operands = "DIR",
    .summary = "write results and report again from the run's database",
    .min_operands = 1,
    .max_operands = 1,
    .run = report_main,
};

const struct hrf_command hrf_cli_aggregate = {
    .name = "aggregate",
    .operands = "DIR",
    .summary = "aggregate patch scores again, e.g. with another rule, and print the figures",
    .min_operands = 1,
    .max_operands = 1,
    .run = report_main,
};
