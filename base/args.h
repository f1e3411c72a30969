/* args.h - the command line: one option table per subcommand gives parsing and --help.
 *
 * --help prints to stdout and ends with 0; a usage error prints to stderr and ends with 2.
 * Long options only, "--name value" or "--name=value"; "--" ends the options. A number out of its
 * option's range is a usage error that names the option, the number and the range.
 */
#ifndef HRF_BASE_ARGS_H
#define HRF_BASE_ARGS_H

#include "base/error.h"
#include "base/quantity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_option_type {
    HRF_OPTION_FLAG, /* bool * */
    HRF_OPTION_TEXT, /* const char ** */
    HRF_OPTION_INT,  /* int64_t *, in the row's range */
    HRF_OPTION_REAL, /* double *, in the row's range */
    HRF_OPTION_WORD, /* struct hrf_option_word * */
    HRF_OPTION_LIST  /* struct hrf_option_list *, may be given more than once */
};

#define HRF_OPTION_LIST_MAX 64 /* on a command line; beyond them is room for the command's own */
struct hrf_option_list {
    const char *items[HRF_OPTION_LIST_MAX + 4]; /* borrowed, from argv */
    size_t n_items;
};

/* What a number may be. The parser refuses all else, and the help prints it. */
struct hrf_option_range {
    double min, max; /* max HRF_UNBOUNDED (base/quantity.h): no upper limit */
};

/* What a count of images, rows, classes or runs may be at most: it fits an int32_t, and a larger
 * one is a slip of the hand. */
#define HRF_COUNT_LIMIT 1048576

/* An enum whose values have the words, in this order; NULL ends them. The help lists them. */
struct hrf_option_word {
    void *value;
    const char *const *words;
};

/* A row says all that there is to say of an option. Its default is what `value` points to when the
 * table is parsed; the help prints it, unless it is 0, NULL or out of the range: then it means "not
 * given", and the row's help says what that comes to. HRF_OPTION and its sisters give the type by
 * that of the variable; a number without a range does not compile. */
struct hrf_option {
    const char *name;     /* without the dashes; NULL ends the table */
    const char *argument; /* "DIR" in the help; NULL for flags */
    const char *help;
    enum hrf_option_type type;
    void *value;
    struct hrf_option_range range; /* of INT and REAL */
};
#define HRF_OPTION(pointer)                                                                        \
    .type = _Generic((pointer),                                                                    \
                     bool *: HRF_OPTION_FLAG,                                                      \
                     const char **: HRF_OPTION_TEXT,                                               \
                     struct hrf_option_list *: HRF_OPTION_LIST),                                   \
    .value = (pointer)
#define HRF_OPTION_NUMBER(pointer, least, most)                                                    \
    .type = _Generic((pointer), int64_t *: HRF_OPTION_INT, double *: HRF_OPTION_REAL),             \
    .value = (pointer), .range = { least, most }
#define HRF_OPTION_WORDS(pointer, list)                                                            \
    .type = HRF_OPTION_WORD, .value = &(struct hrf_option_word)                                    \
    {                                                                                              \
        pointer, list                                                                              \
    }

/* An option whose value is a member of a request. A request is a struct that holds the values of
 * all options of a command; because the table gives offsets, not addresses, two programs can share
 * it. HRF_OPTION_OF gives type and offset of a member. */
struct hrf_request_option {
    const char *name, *argument, *help; /* as in struct hrf_option */
    enum hrf_option_type type;
    size_t at;                /* offset of the member in the request */
    const char *const *words; /* WORD */
    struct hrf_option_range range;
};
#define HRF_OPTION_OF(request, member)                                                             \
    .type = _Generic(((request *)0)->member,                                                       \
                     bool: HRF_OPTION_FLAG,                                                        \
                     const char *: HRF_OPTION_TEXT,                                                \
                     struct hrf_option_list: HRF_OPTION_LIST),                                     \
    .at = offsetof(request, member)

/* The same for a number and its range, and for an enum. */
#define HRF_OPTION_NUMBER_OF(request, member, least, most)                                         \
    .type = _Generic(((request *)0)->member, int64_t                                               \
                     : HRF_OPTION_INT, double                                                      \
                     : HRF_OPTION_REAL),                                                           \
    .at = offsetof(request, member), .range = { least, most }
#define HRF_OPTION_WORD_OF(request, member, list)                                                  \
    .type = HRF_OPTION_WORD, .at = offsetof(request, member), .words = list

struct hrf_command {
    const char *name;               /* "run" */
    const char *operands;           /* "FILE.yaml" */
    const char *summary;            /* one line */
    const char *details;            /* paragraphs for --help; NULL = none */
    int min_operands, max_operands; /* max -1 = any number */
    bool is_worker;                 /* a job's launcher starts it, and has to see how it ends */
    /* argc/argv without program and subcommand; returns the exit code. */
    int (*run)(const struct hrf_command *command, int argc, char **argv);
};

/* The result of hrf_args_parse(): the operands, or `done` with the code to exit with (--help was
 * printed, or the usage was wrong). */
struct hrf_args {
    bool done;
    int exit_code;
    const char *operands[256]; /* borrowed from argv */
    int n_operands;
};

struct hrf_args hrf_args_parse(const char *program, const struct hrf_command *command,
                               const struct hrf_option *options, int argc, char **argv);
/* Parses into `request`. Options that are not given leave their members as they are. */
struct hrf_args hrf_args_parse_request(const char *program, const struct hrf_command *command,
                                       const struct hrf_request_option *options, void *request,
                                       int argc, char **argv);
/* The inverse: returns a command line that turns `initial` into `request` when it is parsed. It
 * consists of the words of `first`, the options that differ, and `last` (NULL: none). `first` and
 * the result end with NULL. The result is on the heap: hrf_args_free_words(). */
char **hrf_args_write_request(const char *const first[], const struct hrf_request_option *options,
                              const void *request, const void *initial, const char *last);
void hrf_args_free_words(char **words);
/* Runs the whole program: picks the subcommand and runs it, or prints the list of subcommands for
 * --help. Returns the exit code. */
int hrf_args_main(const char *program, const char *summary,
                  const struct hrf_command *const commands[], int argc, char **argv);
/* Returns the entry of `words` (NULL-terminated) with the least edit distance to `word`, or NULL if
 * every distance is more than a third of the word's length. */
const char *hrf_nearest_word(const char *word, const char *const words[]);
/* Returns the position of `word` in `words`, or -1. */
int hrf_word_index(const char *word, const char *const words[]);
/* Writes "fp32, fp16 or int8". */
void hrf_words_list(const char *const words[], char *out, size_t size);

#endif
