/* cli.h - the subcommands of hires-flow, one file each, and what they share. */
#ifndef HRF_ORCHESTRATOR_CLI_CLI_H
#define HRF_ORCHESTRATOR_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"
#include "base/json.h"
#include "schema/command/engine_commands.h"
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

/* The commands, in the order of the help; hrf_cli_NAME stands in the file of the command. */
#define HRF_CLI_COMMANDS(COMMAND)                                                                  \
    COMMAND(run)                                                                                   \
    COMMAND(infer)                                                                                 \
    COMMAND(calibrate)                                                                             \
    COMMAND(check)                                                                                 \
    COMMAND(plan)                                                                                  \
    COMMAND(status)                                                                                \
    COMMAND(why)                                                                                   \
    COMMAND(throttle)                                                                              \
    COMMAND(cancel)                                                                                \
    COMMAND(aggregate)                                                                             \
    COMMAND(report)                                                                                \
    COMMAND(compare)                                                                               \
    COMMAND(view)                                                                                  \
    COMMAND(evaluate)                                                                              \
    COMMAND(forest)                                                                                \
    COMMAND(tile)                                                                                  \
    COMMAND(demo)                                                                                  \
    COMMAND(demo_data)                                                                             \
    COMMAND(doctor)                                                                                \
    COMMAND(version)                                                                               \
    COMMAND(launch)                                                                                \
    COMMAND(tile_job)                                                                              \
    COMMAND(train)
#define HRF_DECLARE_COMMAND(name) extern const struct hrf_command hrf_cli_##name;
HRF_CLI_COMMANDS(HRF_DECLARE_COMMAND)
#undef HRF_DECLARE_COMMAND
/* Fills in the commands that are the engine's: at most HRF_N_ENGINE_COMMANDS. Returns how many. */
size_t hrf_cli_handed_over(struct hrf_command *out);

/* printf() for texts from stores and records: everything that a terminal would obey, except line
 * ends, is escaped (base/text.h). */
void hrf_cli_printf(const char *format, ...) HRF_PRINTF(1, 2);

/* Parses the command line of a command whose only option is --json. */
struct hrf_args hrf_cli_parse_json(const struct hrf_command *command, int argc, char **argv,
                                   bool *json);

/* Prints "hires-flow COMMAND: text" and gives the exit code for the status. */
int hrf_cli_fail(const char *command, const struct hrf_error *err);
/* Replaces defaults of the workflow by the preprocessing that the model's metadata state (mean,
 * std, size, and how patches of another size are resized). It says so on stderr if the workflow's
 * own settings differ, and if patches are resized. hrf_cli_load() calls it. */
HRF_CHECKED enum hrf_status hrf_cli_adopt_input(struct hrf_workflow *workflow,
                                                struct hrf_error *err);
/* Opens the store as hrf_store_open_run() does, and warns on stderr if the run's disk is full. */
HRF_CHECKED enum hrf_status hrf_cli_open_run(const char *directory, struct hrf_store **out,
                                             struct hrf_error *err);
void hrf_cli_warn_of_full_disk(const char *directory);
/* If it was a full disk that made a command fail, adds a line with the way out: to make room, and
 * then what `again` says. */
void hrf_cli_print_way_out_of_full_disk(const struct hrf_error *err, const char *again);
/* Loads a workflow and prints its findings on stderr. */
HRF_CHECKED enum hrf_status hrf_cli_load(const char *path, const struct hrf_option_list *set,
                                         struct hrf_workflow **out, struct hrf_error *err);
/* Loads the workflow.yaml of an existing run. Only the keys of `sections` (NULL ends them) may be
 * overridden, because the caller uses no others: HRF_E_USER for any other. */
HRF_CHECKED enum hrf_status hrf_cli_load_of_run(const char *path, const struct hrf_option_list *set,
                                                const char *const sections[],
                                                struct hrf_workflow **out, struct hrf_error *err);
/* Checks that the engine can score the workflow's patches with its model. This is done before there
 * are jobs, because a model that does not fit is one fault, and not a fault of every slide.
 * HRF_E_USER or HRF_E_UNSUPPORTED: the text says what does not fit. HRF_E_EXTERNAL: there is no
 * engine. `shapes_only` leaves out the check of the memory, which takes as long as preparing the
 * network. */
HRF_CHECKED enum hrf_status hrf_cli_check_model(const struct hrf_workflow *workflow,
                                                bool shapes_only, struct hrf_error *err);
/* Checks that Slurm can run jobs of these kinds (executor.h), as far as Slurm answers; NULL: those
 * of a workflow; else NULL ends the list. HRF_E_USER: the text says
 * what the jobs request and what the partition's nodes have. HRF_E_EXTERNAL: sbatch cannot be
 * started here. HRF_OK if the executor is another one, or if the controller does not answer. */
HRF_CHECKED enum hrf_status hrf_cli_check_slurm(const struct hrf_workflow *workflow,
                                                const char *const kinds[], struct hrf_error *err);
/* Checks that jobs of several ranks can be started; on Slurm only as far as the login node can
 * know. HRF_E_EXTERNAL: the text says what is missing and what to do. HRF_OK if one rank is asked
 * for. */
HRF_CHECKED enum hrf_status hrf_cli_check_ranks(const struct hrf_workflow *workflow,
                                                struct hrf_error *err);
/* Asks the engine for its release and its parts on this machine. HRF_E_EXTERNAL: it cannot be
 * asked. */
HRF_CHECKED enum hrf_status hrf_cli_ask_version(struct hrf_engine_version *out,
                                                struct hrf_error *err);
/* Reads a sentinel ("start", "beat" or "done") of the newest start of an attempt. False: the
 * attempt has not begun, or has not written that sentinel. */
bool hrf_cli_read_sentinel(const char *directory, const struct hrf_attempt_row *attempt,
                           const char *name, struct hrf_sentinel *out);
/* Returns why an attempt that has not ended counts as hung (heap), or NULL if it does not. */
char *hrf_cli_silence(const char *directory, const struct hrf_attempt_row *attempt);
/* Returns the directory of a workflow's run if --out is not given: runs/<name>. Heap. */
char *hrf_cli_default_directory(const struct hrf_workflow *workflow);
/* Prints AUC and accuracy from report.json, one line for each precision. */
void hrf_cli_print_figures(const json_t *report);
/* Prints a line "failed: SLIDE: REASON" for each failed slide. */
void hrf_cli_print_failed(const char *directory);
/* Makes the cohort that demo-data makes without options. */
HRF_CHECKED enum hrf_status hrf_cli_make_demo_cohort(const char *directory, struct hrf_error *err);
/* Returns what `status --json` prints, or NULL if the run cannot be read. New reference. */
json_t *hrf_cli_status_json(const char *directory);
/* Replaces this process by the hires-engine beside this program, with these arguments, under the
 * name `caller`. It returns only on failure. */
int hrf_cli_exec_engine(const char *caller, const char *command, const char *verb, int argc,
                        char **argv);

#endif
