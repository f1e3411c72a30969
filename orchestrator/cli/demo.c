/* demo.c - `hires-flow demo [DIR]`: makes the synthetic cohort in DIR and runs the demo's workflow.
 */
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "orchestrator/cli/drive.h"
#include "schema/yaml/tree.h"

#include <stdio.h>

static const char details[] =
    "Makes a small synthetic cohort in DIR/cohort (default: hires-flow-demo), runs the demo's\n"
    "workflow on it in FP32, BF16 and INT8, writes the results to DIR/run and says what the lower\n"
    "precisions cost and gain. One slide of the cohort is damaged on purpose, to show what a run\n"
    "does about it. The same command again continues where it ended.";

/* Finds the demo's workflow: of the installation, or of the source tree that this program was built
 * in. */
static enum hrf_status find_workflow(char **out, struct hrf_error *err)
{
    static const char *const places[] = { "../share/hires-flow/workflows/demo.yaml",
                                          "../../../workflows/demo.yaml" };
    HRF_AUTO_FREE char *self = NULL;
    HRF_TRY(hrf_process_self(&self, err));
    HRF_AUTO_FREE char *directory = hrf_path_directory(self);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(directory, places[i]);
        if (hrf_path_exists(path))
            return hrf_path_absolute(path, out, err);
    }
    return hrf_error_set(
        err, HRF_E_EXTERNAL,
        "the demo's workflow is in neither '%s/%s' nor '%s/%s'; install hires-flow "
        "again, or run the program where it was built",
        directory, places[0], directory, places[1]);
}

/* Returns the number of slides that failed; -1: not known. */
static int count_failed(const char *run)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    int n = 0;
    if (hrf_store_open_run(run, &store, NULL) != HRF_OK ||
        hrf_store_get_slides(store, &slides, NULL) != HRF_OK)
        return -1;
    for (size_t i = 0; i < slides.n_items; i++)
        n += slides.items[i].state == HRF_SLIDE_FAILED;
    return n;
}

/* Returns the exit code: 0 if the only slide that failed is the damaged one. */
static int report_damaged(int exit_code, const char *run, bool json)
{
    if (exit_code != HRF_EXIT_PARTIAL || count_failed(run) != 1)
        return exit_code;
    fputs("one slide of this cohort was damaged on purpose: a run names such a slide, goes on with "
          "the others, and ends with exit code 3 (the demo with 0)\n",
          json ? stderr : stdout);
    return 0;
}

/* Prints a figure after `before`, if the report has it: ", 1.90 x that of the job". */
static void print_figure(const json_t *precision, const char *key, const char *before,
                         const char *format, double scale)
{
    const json_t *value = json_object_get(precision, key);
    char text[64];
    if (!json_is_number(value))
        return;
    snprintf(text, sizeof text, format, scale * json_number_value(value));
    hrf_cli_printf("%s%s", before, text);
}

/* Prints what each precision costs and gains against the first one, and where the page is. */
static void print_costs(const char *run)
{
    HRF_AUTO_FREE char *path = hrf_path_join(run, "report/report.json");
    HRF_AUTO_FREE char *page = hrf_path_join(run, "report/index.html");
    HRF_AUTO_JSON report = NULL;
    if (hrf_json_read_file(path, &report, NULL) != HRF_OK)
        return;
    const json_t *precisions = json_object_get(report, "precisions"), *p;
    const char *first = json_string_value(
        json_object_get(json_array_get(precisions, 0), "precision"));
    size_t i;
    json_array_foreach(precisions, i, p)
    {
        if (i == 0 || first == NULL)
            continue;
        hrf_cli_printf("%s against %s:", json_string_value(json_object_get(p, "precision")), first);
        print_figure(p, "compute_speedup", " gains ", "%.2f x the speed of the network", 1);
        print_figure(p, "speedup", ", ", "%.2f x that of the job", 1);
        print_figure(p, "memory_ratio", " in ", "%.2f x the memory", 1);
        print_figure(p, "patch_agreement", "; costs: ", "%.2f %% of patches keep their label", 100);
        print_figure(p, "auc_difference", ", slide AUC ", "%+.4f", 1);
        print_figure(p, "delong_p", " (DeLong p ", "%.3f)", 1);
        hrf_cli_printf("\n");
    }
    if (hrf_path_exists(page))
        hrf_cli_printf("page: %s\n", page);
}

static enum hrf_status run_demo(const struct hrf_cli_drive *drive, const char *directory,
                                const struct hrf_option_list *set, int *exit_code,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *workflow = NULL, *base = NULL;
    HRF_TRY(find_workflow(&workflow, err));
    HRF_TRY(hrf_path_absolute(directory, &base, err));
    HRF_AUTO_FREE char *cohort = hrf_path_join(base, "cohort"), *out = hrf_path_join(base, "run");
    HRF_AUTO_FREE char *labels = hrf_path_join(cohort, "testing/reference.csv");
    if (!hrf_path_exists(labels)) /* it is written last */
        HRF_TRY(hrf_cli_make_demo_cohort(cohort, err));
    HRF_AUTO_FREE char *quoted = hrf_yaml_quote(cohort);
    HRF_AUTO_FREE char *root = hrf_format("dataset.root=%s", quoted);
    struct hrf_option_list all = { .items = { root }, .n_items = 1 };
    for (size_t i = 0; i < set->n_items; i++)
        all.items[all.n_items++] = set->items[i];
    HRF_AUTO(hrf_workflow) loaded = NULL;
    HRF_TRY(hrf_cli_load(workflow, &all, &loaded, err));
    *exit_code = hrf_cli_prepare(drive, loaded);
    if (*exit_code != 0)
        return HRF_OK;
    *exit_code = report_damaged(hrf_cli_drive(drive, loaded, out), out, drive->json);
    if (!drive->json && (*exit_code == 0 || *exit_code == HRF_EXIT_PARTIAL))
        print_costs(out);
    return HRF_OK;
}

static int demo_main(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_option_list set = { .n_items = 0 };
    bool json = false;
    const struct hrf_option options[] = {
        { "set", "KEY=VALUE", "override a key of the workflow; may be repeated", HRF_OPTION(&set) },
        { "json", NULL, "print the summary as JSON", HRF_OPTION(&json) },
        { NULL },
    };
    const struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    int exit_code = 0;
    HRF_AUTO_FREE char *again = hrf_cli_command_line(command->name, argc, argv);
    const struct hrf_cli_drive drive = { .command = command->name, .again = again, .json = json };
    if (run_demo(&drive, args.n_operands > 0 ? args.operands[0] : "hires-flow-demo", &set,
                 &exit_code, &err) != HRF_OK) {
        const int failed = hrf_cli_fail(command->name, &err);
        return err.status == HRF_E_EXTERNAL ? HRF_EXIT_LACKS : failed;
    }
    return exit_code;
}

const struct hrf_command hrf_cli_demo = {
    .name = "demo",
    .operands = "[DIR]",
    .summary = "make a synthetic cohort and run it: what a run looks like",
    .details = details,
    .max_operands = 1,
    .run = demo_main,
};
