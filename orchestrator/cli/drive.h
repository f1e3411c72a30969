/* drive.h - the common part of `run`, `infer` and `demo`: the checks before anything is written,
 * the run, and the report of its end. */
#ifndef HRF_ORCHESTRATOR_CLI_DRIVE_H
#define HRF_ORCHESTRATOR_CLI_DRIVE_H

#include "orchestrator/cli/cli.h"

struct hrf_cli_drive {
    const char *command; /* the subcommand that messages name */
    const char *again;   /* the command line that continues the run, as a shell reads it */
    bool json;           /* print the summary as JSON */
};

/* Returns "hires-flow COMMAND WORDS...", with quotes around the words that need them. Heap. */
char *hrf_cli_command_line(const char *command, int argc, char *const *argv);
/* Checks that the run can start: that this build supports it, and its dataset and model. Returns 0,
 * or an exit code with the reason on stderr. Writes nothing. */
int hrf_cli_prepare(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow);
/* Runs or continues a workflow that passed hrf_cli_prepare(), in `directory`. Returns the exit
 * code. */
int hrf_cli_drive(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow,
                  const char *directory);
/* Prints what `plan` prints of the workflow; returns its exit code. */
int hrf_cli_show_plan(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow,
                      const char *directory);

#endif
