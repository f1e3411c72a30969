/* args.c - parses command lines by a table of options, and prints their help (args.h). */
#include "base/args.h"

#include "base/alloc.h"
#include "base/guard.h"
#include "base/strbuf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein distance; words of 63 bytes or more are never near. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[64];
    if (n >= 64 || m >= 64)
        return 64;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            row[j] = min3(row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

const char *hrf_nearest_word(const char *word, const char *const words[])
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 1;
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t d = distance(word, words[i]);
        if (d < best_distance || (d == best_distance && best == NULL)) {
            best = words[i];
            best_distance = d;
        }
    }
    return best;
}

int hrf_word_index(const char *word, const char *const words[])
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

void hrf_words_list(const char *const words[], char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; words[i] != NULL && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : words[i + 1] == NULL ? " or "
                                                        : ", ",
                                 words[i]);
}

enum { HELP_COLUMNS = 100, HELP_INDENT = 31 };

/* A text whose lines are broken at spaces where they would be wider than the help; those after a
 * break stand at `indent`. The cursor is at `column`. */
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text != '\0') {
        const size_t spaces = strspn(text, " "), word = strcspn(text + spaces, " \n");
        if (column > indent && column + (int)(spaces + word) > HELP_COLUMNS) {
            printf("\n%*s%.*s", indent, "", (int)word, text + spaces);
            column = indent + (int)word;
        } else {
            printf("%.*s", (int)(spaces + word), text);
            column += (int)(spaces + word);
        }
        text += spaces + word;
        if (*text == '\n') {
            putchar('\n');
            column = 0;
            text++;
        }
    }
    putchar('\n');
}

/* Appends range and default of an option to its help: "; 1 to 64, default 8". */
static void add_facts(const struct hrf_option *option, struct hrf_strbuf *help)
{
    const bool is_number = option->type == HRF_OPTION_INT || option->type == HRF_OPTION_REAL;
    const char *separator = help->length > 0 ? "; " : "";
    if (is_number) {
        const struct hrf_option_range r = option->range;
        hrf_strbuf_addf(help, "%s%s", separator, hrf_range_text(r.min, r.max).text);
        const double initial = option->type == HRF_OPTION_INT
                                   ? (double)*(const int64_t *)option->value
                                   : *(const double *)option->value;
        if (initial != 0 && initial >= r.min && initial <= r.max)
            hrf_strbuf_addf(help, ", default %.12g", initial);
    } else if (option->type == HRF_OPTION_TEXT && *(const char **)option->value != NULL) {
        hrf_strbuf_addf(help, "%sdefault %s", separator, *(const char **)option->value);
    } else if (option->type == HRF_OPTION_WORD) {
        const struct hrf_option_word *word = option->value;
        const unsigned initial = *(const unsigned *)word->value;
        unsigned n = 0;
        while (word->words[n] != NULL)
            n++;
        if (initial < n)
            hrf_strbuf_addf(help, "%sdefault %s", separator, word->words[initial]);
    }
}

static void print_options(const struct hrf_option *options)
{
    printf("\noptions:\n");
    for (; options->name != NULL; options++) {
        HRF_AUTO_RELEASE(hrf_strbuf) help = HRF_STRBUF_INIT;
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", options->name, options->argument != NULL ? " " : "",
                 options->argument != NULL ? options->argument : "");
        const int column = printf("  %-28s ", left);
        if (options->type == HRF_OPTION_WORD) {
            const struct hrf_option_word *word = options->value;
            char list[256];
            hrf_words_list(word->words, list, sizeof list);
            hrf_strbuf_addf(&help, "%s%s", list, options->help[0] != '\0' ? ": " : "");
        }
        hrf_strbuf_adds(&help, options->help);
        add_facts(options, &help);
        print_wrapped(help.text, column, HELP_INDENT);
    }
    printf("  %-28s %s\n", "--help", "print this");
}

static void print_help(const char *program, const struct hrf_command *command,
                       const struct hrf_option *options)
{
    printf("usage: %s %s [options]%s%s\n\n%s\n", program, command->name,
           command->operands[0] != '\0' ? " " : "", command->operands, command->summary);
    if (command->details != NULL) {
        putchar('\n');
        print_wrapped(command->details, 0, 0);
    }
    print_options(options);
}

static struct hrf_args usage_error(const char *program, const struct hrf_command *command,
                                   const char *what, const char *which)
{
    fprintf(stderr, "%s %s: %s '%s'; see '%s %s --help'\n", program, command->name, what, which,
            program, command->name);
    return (struct hrf_args){ .done = true, .exit_code = 2 };
}

static const struct hrf_option *find_option(const struct hrf_option *options, const char *name,
                                            size_t n)
{
    for (; options->name != NULL; options++)
        if (strlen(options->name) == n && strncmp(options->name, name, n) == 0)
            return options;
    return NULL;
}

static bool is_in_range(const struct hrf_option *option, double number)
{
    return number >= option->range.min &&
           (number <= option->range.max || option->range.max >= HRF_UNBOUNDED) && isfinite(number);
}

static bool store_int(const struct hrf_option *option, const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return false;
    if (!is_in_range(option, (double)number))
        return false;
    *(int64_t *)option->value = number;
    return true;
}

static bool store_real(const struct hrf_option *option, const char *text)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !is_in_range(option, number))
        return false;
    *(double *)option->value = number;
    return true;
}

static bool store_value(const struct hrf_option *option, const char *text)
{
    switch (option->type) {
    case HRF_OPTION_TEXT:
        *(const char **)option->value = text;
        return true;
    case HRF_OPTION_INT:
        return store_int(option, text);
    case HRF_OPTION_REAL:
        return store_real(option, text);
    case HRF_OPTION_WORD: {
        const struct hrf_option_word *word = option->value;
        const int index = hrf_word_index(text, word->words);
        if (index >= 0)
            *(unsigned *)word->value = (unsigned)index;
        return index >= 0;
    }
    case HRF_OPTION_LIST: {
        struct hrf_option_list *list = option->value;
        if (list->n_items == HRF_OPTION_LIST_MAX)
            return false;
        list->items[list->n_items++] = text;
        return true;
    }
    case HRF_OPTION_FLAG:
        break;
    }
    return false;
}

static struct hrf_args bad_value(const char *program, const struct hrf_command *command,
                                 const struct hrf_option *option, const char *value)
{
    char what[320], list[256];
    if (option->type == HRF_OPTION_WORD) {
        const struct hrf_option_word *word = option->value;
        const char *near = hrf_nearest_word(value, word->words);
        hrf_words_list(word->words, list, sizeof list);
        snprintf(what, sizeof what, "--%s takes %s, not", option->name, list);
        const struct hrf_args args = usage_error(program, command, what, value);
        if (near != NULL)
            fprintf(stderr, "did you mean '%s'?\n", near);
        return args;
    }
    if (option->type == HRF_OPTION_LIST)
        snprintf(what, sizeof what, "--%s is given too often:", option->name);
    else
        snprintf(what, sizeof what, "--%s takes a %snumber, %s, not", option->name,
                 option->type == HRF_OPTION_INT ? "whole " : "",
                 hrf_range_text(option->range.min, option->range.max).text);
    return usage_error(program, command, what, value);
}

static struct hrf_args unknown_option(const char *program, const struct hrf_command *command,
                                      const struct hrf_option *options, const char *given)
{
    const char *names[64] = { "help" };
    size_t n = 1;
    for (const struct hrf_option *o = options; o->name != NULL && n < 63; o++)
        names[n++] = o->name;
    names[n] = NULL;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    const char *near = hrf_nearest_word(name, names);
    struct hrf_args args = usage_error(program, command, "unknown option", given);
    if (near != NULL)
        fprintf(stderr, "did you mean --%s?\n", near);
    return args;
}

struct hrf_args hrf_args_parse(const char *program, const struct hrf_command *command,
                               const struct hrf_option *options, int argc, char **argv)
{
    struct hrf_args args = { .done = false };
    bool only_operands = false;
    /* The help comes before any value is stored: it prints the defaults. */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0) {
            print_help(program, command, options);
            args.done = true;
            return args;
        }
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_operands && strcmp(word, "-o") == 0 && find_option(options, "output", 6) != NULL)
            word = "--output"; /* as everywhere */
        if (only_operands || strncmp(word, "--", 2) != 0) {
            if (args.n_operands == (int)(sizeof args.operands / sizeof args.operands[0]) ||
                (command->max_operands >= 0 && args.n_operands == command->max_operands))
                return usage_error(program, command, "one argument too many:", word);
            args.operands[args.n_operands++] = word;
            continue;
        }
        if (word[2] == '\0') {
            only_operands = true;
            continue;
        }
        size_t n = strcspn(word + 2, "=");
        const struct hrf_option *option = find_option(options, word + 2, n);
        const char *value = word[2 + n] == '=' ? word + 3 + n : NULL;
        if (option == NULL)
            return unknown_option(program, command, options, word);
        if (option->type == HRF_OPTION_FLAG) {
            if (value != NULL)
                return usage_error(program, command, "takes no value:", word);
            *(bool *)option->value = true;
            continue;
        }
        if (value == NULL && ++i < argc)
            value = argv[i];
        if (value == NULL)
            return usage_error(program, command, "a value must follow", word);
        if (!store_value(option, value))
            return bad_value(program, command, option, value);
    }
    if (args.n_operands < command->min_operands)
        return usage_error(program, command, "it needs", command->operands);
    return args;
}

enum { MAX_OPTIONS = 64 };

struct hrf_args hrf_args_parse_request(const char *program, const struct hrf_command *command,
                                       const struct hrf_request_option *options, void *request,
                                       int argc, char **argv)
{
    struct hrf_option bound[MAX_OPTIONS] = { { .name = NULL } };
    struct hrf_option_word word[MAX_OPTIONS];
    for (size_t i = 0; options[i].name != NULL; i++) {
        assert(i + 1 < MAX_OPTIONS);
        const struct hrf_request_option *o = &options[i];
        word[i] = (struct hrf_option_word){ (char *)request + o->at, o->words };
        bound[i] = (struct hrf_option){
            o->name, o->argument, o->help, o->type, o->words != NULL ? &word[i] : word[i].value,
            o->range
        };
    }
    return hrf_args_parse(program, command, bound, argc, argv);
}

/* ---- requests as words ---- */

struct words {
    char **items;
    size_t n;
};

static void add_word(struct words *words, char *word)
{
    words->items = hrf_realloc_array(words->items, words->n + 2, sizeof(char *));
    words->items[words->n++] = word;
    words->items[words->n] = NULL;
}

static void add_option(struct words *words, const char *name, char *value)
{
    add_word(words, hrf_format("--%s", name));
    if (value != NULL)
        add_word(words, value);
}

static void write_option(struct words *words, const struct hrf_request_option *option,
                         const char *request, const char *initial)
{
    const void *at = request + option->at, *before = initial + option->at;
    switch (option->type) {
    case HRF_OPTION_FLAG:
        if (*(const bool *)at && !*(const bool *)before)
            add_option(words, option->name, NULL);
        break;
    case HRF_OPTION_TEXT: {
        const char *text = *(const char *const *)at, *old = *(const char *const *)before;
        if (text != NULL && (old == NULL || strcmp(text, old) != 0))
            add_option(words, option->name, hrf_strdup(text));
        break;
    }
    case HRF_OPTION_INT: {
        const int64_t number = *(const int64_t *)at;
        if (number != *(const int64_t *)before)
            add_option(words, option->name, hrf_format("%lld", (long long)number));
        break;
    }
    case HRF_OPTION_REAL: {
        const double number = *(const double *)at, old = *(const double *)before;
        if (number < old || number > old)
            add_option(words, option->name, hrf_format("%.17g", number));
        break;
    }
    case HRF_OPTION_WORD: {
        const unsigned index = *(const unsigned *)at;
        if (index != *(const unsigned *)before)
            add_option(words, option->name, hrf_strdup(option->words[index]));
        break;
    }
    case HRF_OPTION_LIST: {
        const struct hrf_option_list *list = at;
        for (size_t i = 0; i < list->n_items; i++)
            add_option(words, option->name, hrf_strdup(list->items[i]));
        break;
    }
    }
}

char **hrf_args_write_request(const char *const first[], const struct hrf_request_option *options,
                              const void *request, const void *initial, const char *last)
{
    struct words words = { .items = NULL };
    for (size_t i = 0; first[i] != NULL; i++)
        add_word(&words, hrf_strdup(first[i]));
    for (; options != NULL && options->name != NULL; options++)
        write_option(&words, options, request, initial);
    if (last != NULL)
        add_word(&words, hrf_strdup(last));
    return words.items;
}

void hrf_args_free_words(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        hrf_free(words[i]);
    hrf_free(words);
}

static void print_commands(const char *program, const char *summary,
                           const struct hrf_command *const commands[])
{
    printf("%s - %s\n\nusage: %s COMMAND [options] [operands]\n\ncommands:\n", program, summary,
           program);
    for (size_t i = 0; commands[i] != NULL; i++)
        if (commands[i]->summary != NULL)
            printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n'%s help COMMAND' or '%s COMMAND --help' tells more of each.\n", program, program);
}

/* A program may be started with 0, 1 or 2 closed; the next file opened would take that number, and
 * what is printed would be written into it. */
static void fill_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

/* Results that did not reach their reader are no success. */
static int finish_output(const char *program, int code)
{
    errno = 0; /* an error that printf() met leaves nothing to flush, and its number is lost */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    char reason[128] = "";
    if (errno != 0 && strerror_r(errno, reason, sizeof reason) != 0)
        reason[0] = '\0';
    fprintf(stderr, "%s: the output cannot be written%s%s\n", program,
            reason[0] != '\0' ? ": " : "", reason);
    return code == 0 ? 1 : code;
}

static int run_command(const char *program, const char *summary,
                       const struct hrf_command *const commands[], int argc, char **argv)
{
    static char help[] = "--help";
    char *only_help[] = { help };
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
        print_commands(program, summary, commands);
        return 0;
    }
    int n_words = argc > 2 ? argc - 2 : 0;
    char **words = argv + argc - n_words;
    if (strcmp(name, "help") == 0) { /* "help CMD" is "CMD --help" */
        name = argv[2];
        n_words = 1;
        words = only_help;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; commands[i] != NULL; i++)
        if (strcmp(commands[i]->name, name) == 0) {
            hrf_guard_begin(program, commands[i]->name, !commands[i]->is_worker);
            return commands[i]->run(commands[i], n_words, words);
        }
    if (argc < 2) {
        fprintf(stderr, "%s: a command is needed; see '%s --help'\n", program, program);
        return 2;
    }
    const char *names[64];
    size_t n = 0;
    for (; commands[n] != NULL && n < 63; n++)
        names[n] = commands[n]->name;
    names[n] = NULL;
    const char *near = hrf_nearest_word(name, names);
    fprintf(stderr, "%s: unknown command '%s'%s%s%s; see '%s --help'\n", program, name,
            near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
            near != NULL ? "'?" : "", program);
    return 2;
}

int hrf_args_main(const char *program, const char *summary,
                  const struct hrf_command *const commands[], int argc, char **argv)
{
    fill_standard_files();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    return finish_output(program, run_command(program, summary, commands, argc, argv));
}
