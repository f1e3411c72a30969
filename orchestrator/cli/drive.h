/* drive.h - what `run`, `infer` and `demo` share: the checks before anything is written, the run
 * itself, and what is said of its end. */
#ifndef HRF_ORCHESTRATOR_CLI_DRIVE_H
#define HRF_ORCHESTRATOR_CLI_DRIVE_H

#include "orchestrator/cli/cli.h"

struct hrf_cli_drive {
    const char *command; /* the subcommand that messages name */
    const char *again;   /* the command line that continues the run, as a shell reads it */
    bool json;           /* print the summary as JSON */
    /* A message in the words of the subcommand: heap, NULL if memory ran out. A workflow's keys
     * may have other names there. NULL: messages stay as they are. */
    char *(*reword)(const char *text);
};

/* "hires-flow COMMAND WORDS...", with the words that need it in quotes. Heap. */
char *hrf_cli_command_line(const char *command, int argc, char *const *argv);
/* Whether the run could start: what this build lacks, the dataset, the model. Returns an exit code,
 * with the reason on stderr; 0: it could. Writes nothing. */
int hrf_cli_prepare(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow);
/* Runs a workflow that hrf_cli_prepare() let pass, or continues it, in `directory`. Returns the
 * exit code. */
int hrf_cli_drive(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow,
                  const char *directory);
/* What `plan` prints of the workflow; returns its exit code. */
int hrf_cli_show_plan(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow,
                      const char *directory);

#endif
