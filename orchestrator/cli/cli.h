/* cli.h - the subcommands of hires-flow, one file each, and what they share. */
#ifndef HRF_ORCHESTRATOR_CLI_CLI_H
#define HRF_ORCHESTRATOR_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"
#include "base/json.h"
#include "schema/record/sentinel.h"
#include "schema/store/tasks.h"
#include "schema/workflow/workflow.h"

#define HRF_PROGRAM "hires-flow"

/* Exit codes: 0 all slides done, 1 the run could not finish, 2 wrong usage or workflow file, 3
 * finished but some slides failed, 4 the environment lacks something, 130 interrupted. */
enum {
    HRF_EXIT_FAILED = 1,
    HRF_EXIT_USAGE = 2,
    HRF_EXIT_PARTIAL = 3,
    HRF_EXIT_LACKS = 4,
    HRF_EXIT_INTERRUPTED = 130
};

extern const struct hrf_command hrf_cli_run, hrf_cli_infer, hrf_cli_calibrate, hrf_cli_aggregate,
    hrf_cli_check, hrf_cli_plan, hrf_cli_status, hrf_cli_why, hrf_cli_cancel, hrf_cli_report,
    hrf_cli_compare, hrf_cli_tile, hrf_cli_demo_data, hrf_cli_model, hrf_cli_bench, hrf_cli_doctor,
    hrf_cli_version, hrf_cli_launch, hrf_cli_tile_job, hrf_cli_tune_comm, hrf_cli_profile,
    hrf_cli_throttle, hrf_cli_evaluate, hrf_cli_forest, hrf_cli_demo, hrf_cli_view, hrf_cli_head;

/* printf() for what stands in a store or a record: but for line ends, what a terminal would obey is
 * escaped (base/text.h). */
void hrf_cli_printf(const char *format, ...) HRF_PRINTF(1, 2);

/* The words of a command whose only option is --json. */
struct hrf_args hrf_cli_parse_json(const struct hrf_command *command, int argc, char **argv,
                                   bool *json);

/* Prints "hires-flow COMMAND: text" and gives the exit code for the status. */
int hrf_cli_fail(const char *command, const struct hrf_error *err);
/* Puts what the model's metadata say of its images (mean, std, size, and how a patch of another
 * size is brought to it) in the place of defaults; says so on stderr where the workflow's own
 * differ, and where patches are resized. hrf_cli_load() has done it. */
HRF_CHECKED enum hrf_status hrf_cli_adopt_input(struct hrf_workflow *workflow,
                                                struct hrf_error *err);
/* Loads a workflow and prints its findings on stderr. */
HRF_CHECKED enum hrf_status hrf_cli_load(const char *path, const struct hrf_option_list *set,
                                         struct hrf_workflow **out, struct hrf_error *err);
/* Loads the workflow.yaml of a run that stands. Only the keys of `sections` (NULL ends them) may be
 * overridden, for no others are looked at: HRF_E_USER for any other. */
HRF_CHECKED enum hrf_status hrf_cli_load_of_run(const char *path, const struct hrf_option_list *set,
                                                const char *const sections[],
                                                struct hrf_workflow **out, struct hrf_error *err);
/* Whether the engine could score the workflow's patches with its model: asked before there are
 * jobs, for a model that does not fit is one fault, not one of every slide. HRF_E_USER or
 * HRF_E_UNSUPPORTED with what does not fit; HRF_E_EXTERNAL: there is no engine. `shapes_only`: not
 * whether its memory is enough, which takes as long as making it ready. */
HRF_CHECKED enum hrf_status hrf_cli_check_model(const struct hrf_workflow *workflow,
                                                bool shapes_only, struct hrf_error *err);
/* Whether Slurm could run the workflow's jobs, as far as it can be asked: HRF_E_USER with what is
 * asked for and what the partition's nodes have. HRF_E_EXTERNAL: sbatch cannot be started here.
 * HRF_OK where the executor is another one, or the controller does not answer. */
HRF_CHECKED enum hrf_status hrf_cli_check_slurm(const struct hrf_workflow *workflow,
                                                struct hrf_error *err);
/* Whether jobs of several ranks can be started: HRF_E_EXTERNAL with what is missing and what to do.
 * On Slurm only what the login node can know. HRF_OK where one rank is asked for. */
HRF_CHECKED enum hrf_status hrf_cli_check_ranks(const struct hrf_workflow *workflow,
                                                struct hrf_error *err);
/* What the newest start of an attempt says of itself: "start", "beat" or "done"; false: it has not
 * begun, or not said that. */
bool hrf_cli_read_sentinel(const char *directory, const struct hrf_attempt_row *attempt,
                           const char *name, struct hrf_sentinel *out);
/* Why an attempt that has not ended, as far as is known, is taken to be hung: heap; NULL: it is
 * not. */
char *hrf_cli_silence(const char *directory, const struct hrf_attempt_row *attempt);
/* Where `run` puts a workflow's run when --out is not given: runs/<name>. Heap. */
char *hrf_cli_default_directory(const struct hrf_workflow *workflow);
/* AUC and accuracy as report.json has them, a line a precision. */
void hrf_cli_print_figures(const json_t *report);
/* "failed: SLIDE: REASON", a line for each; `reword` as in drive.h, NULL: as it is. */
void hrf_cli_print_failed(const char *directory, char *(*reword)(const char *text));
/* The cohort that demo-data makes without options. */
HRF_CHECKED enum hrf_status hrf_cli_make_demo_cohort(const char *directory, struct hrf_error *err);
/* What `status --json` prints; NULL: it cannot be read. New reference. */
json_t *hrf_cli_status_json(const char *directory);
/* The lines of a text, without their ends. New reference. */
json_t *hrf_cli_lines_json(const char *text);
/* Becomes hires-engine beside this program with these words, under the name `caller`; returns only
 * on failure. */
int hrf_cli_exec_engine(const char *caller, const char *command, const char *verb, int argc,
                        char **argv);

#endif
