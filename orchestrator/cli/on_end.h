/* on_end.h - tells somebody else that a run has ended: the workflow's `on_end`, or --notify. */
#ifndef HRF_ORCHESTRATOR_CLI_ON_END_H
#define HRF_ORCHESTRATOR_CLI_ON_END_H

#include "orchestrator/cli/cli.h"
#include "orchestrator/run/run.h"

struct hrf_end {
    const char *command;                   /* the subcommand, for messages */
    const struct hrf_workflow *workflow;   /* on_end, name, report */
    const char *directory;                 /* of the run */
    const struct hrf_run_summary *summary; /* as far as the run got */
    const char *error; /* why it could not finish; NULL: it did, or was stopped */
    int exit_code;     /* of the subcommand */
};

/* "mail -s 'run ended' me" as --set on_end=[...]: words are divided at spaces, quotes of both kinds
 * keep spaces, a backslash the next character; nothing else is special. Heap in *out. HRF_E_USER: a
 * quote is not closed, or there is no word. */
HRF_CHECKED enum hrf_status hrf_cli_notify_setting(const char *text, char **out,
                                                   struct hrf_error *err);
/* The summary that the command gets. New reference. */
json_t *hrf_cli_end_json(const struct hrf_end *end);
/* Starts the command of workflow->on_end with the summary as its input and waits for it, at most
 * ten minutes. What goes wrong is said on stderr and changes nothing else. */
void hrf_cli_tell_end(const struct hrf_end *end);

#endif
