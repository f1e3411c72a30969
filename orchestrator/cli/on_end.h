/* on_end.h - notifies somebody that a run has ended, by the workflow's `on_end` or --notify. */
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

/* The option --notify; `text`: a const char *. */
#define HRF_NOTIFY_OPTION(text)                                                                    \
    {                                                                                              \
        "notify", "COMMAND",                                                                       \
            "start this at the end, with a summary as JSON on its standard input (sets on_end)",   \
            HRF_OPTION(&(text))                                                                    \
    }
/* Adds to `set` the setting on_end=[...] of a command line such as "mail -s 'run ended' me"; *owned
 * is heap, and `set` refers to it. Words are divided at spaces, quotes of both kinds keep spaces, a
 * backslash keeps the next character; nothing else is special. `text` NULL: nothing is added.
 * HRF_E_USER: a quote is not closed, or there is no word. */
HRF_CHECKED enum hrf_status hrf_cli_add_notify(const char *text, struct hrf_option_list *set,
                                               char **owned, struct hrf_error *err);
/* Starts the command of workflow->on_end with the summary on its standard input and waits for it,
 * at most ten minutes. A failure is reported on stderr and has no other effect. */
void hrf_cli_run_on_end(const struct hrf_end *end);

/* Puts "end", how the run ended, and "slides", the number of slides by their state. */
void hrf_cli_put_summary(json_t *object, const struct hrf_run_summary *summary);

#endif
