/* args.h - the command line: one option table per subcommand gives parsing and --help.
 *
 * --help prints to stdout and ends with 0; a usage error prints to stderr and ends with 2.
 * Long options only, "--name value" or "--name=value"; "--" ends the options.
 */
#ifndef HRF_BASE_ARGS_H
#define HRF_BASE_ARGS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_option_type {
    HRF_OPTION_FLAG, /* bool * */
    HRF_OPTION_TEXT, /* const char ** */
    HRF_OPTION_INT,  /* int64_t * */
    HRF_OPTION_REAL, /* double * */
    HRF_OPTION_LIST  /* struct hrf_option_list *, may be given more than once */
};

#define HRF_OPTION_LIST_MAX 64
struct hrf_option_list {
    const char *items[HRF_OPTION_LIST_MAX]; /* borrowed from argv */
    size_t n_items;
};

struct hrf_option {
    const char *name;     /* without the dashes; NULL ends the table */
    const char *argument; /* "DIR" in the help; NULL for flags */
    const char *help;
    enum hrf_option_type type;
    void *value;
};

struct hrf_command {
    const char *name;               /* "run" */
    const char *operands;           /* "FILE.yaml" */
    const char *summary;            /* one line */
    const char *details;            /* paragraphs for --help; NULL = none */
    int min_operands, max_operands; /* max -1 = any number */
    /* argc/argv without program and subcommand; returns the exit code. */
    int (*run)(const struct hrf_command *command, int argc, char **argv);
};

/* What hrf_args_parse says: go on, or end with this exit code. */
struct hrf_args {
    bool done;
    int exit_code;
    const char *operands[256]; /* borrowed from argv */
    int n_operands;
};

struct hrf_args hrf_args_parse(const char *program, const struct hrf_command *command,
                               const struct hrf_option *options, int argc, char **argv);
/* The whole program: picks the subcommand, prints the list of them for --help. */
int hrf_args_main(const char *program, const char *summary,
                  const struct hrf_command *const commands[], int argc, char **argv);
/* The entry of `words` (NULL-terminated) nearest to `word` by edit distance, NULL when none is
 * near (more than a third of its length away). */
const char *hrf_nearest_word(const char *word, const char *const words[]);

#endif
