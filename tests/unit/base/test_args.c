/* The command line: what is parsed, what is refused, and what is said about it. */
#include "base/args.h"
#include "base/strbuf.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct values {
    bool flag;
    const char *text;
    int64_t number;
    double real;
    struct hrf_option_list list;
    enum { RED, GREEN, BLUE } colour;
};
static const char *const colours[] = { "red", "green", "blue", NULL };

static int unused(const struct hrf_command *command, int argc, char **argv)
{
    (void)command;
    (void)argv;
    return 40 + argc;
}

static const struct hrf_command command = {
    .name = "cut",
    .operands = "FILE",
    .summary = "cuts a file",
    .details = "kept as it is\n  where it is short; where it is wide, "
               "it goes on in the line below this one, "
               "broken between two of its words",
    .min_operands = 1,
    .max_operands = 2,
    .run = unused
};

static struct hrf_args parse(struct values *v, int argc, const char *const *words)
{
    const struct hrf_option options[] = {
        { "flag", NULL, "a flag", HRF_OPTION(&v->flag) },
        { "text", "TEXT", "a text", HRF_OPTION(&v->text) },
        { "number", "N", "a number", HRF_OPTION_NUMBER(&v->number, -10, 10) },
        { "real", "X", "a real", HRF_OPTION_NUMBER(&v->real, 0, HRF_UNBOUNDED) },
        { "item", "I",
          "again and again, in words that go on for longer than the line of a terminal is wide",
          HRF_OPTION(&v->list) },
        { "colour", "C", "", HRF_OPTION_WORDS(&v->colour, colours) },
        { NULL },
    };
    return hrf_args_parse("prog", &command, options, argc, (char **)(uintptr_t)words);
}
#define PARSE(v, ...)                                                                              \
    parse(v, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)),                      \
          (const char *[]){ __VA_ARGS__ })

/* What `stream` gets while a test runs, at most 4095 bytes. */
struct capture {
    int stream, saved, pipe[2];
    char text[4096];
};

static void capture_start(struct capture *c, int stream)
{
    fflush(stdout);
    fflush(stderr);
    c->stream = stream;
    assert_int_equal(pipe(c->pipe), 0);
    c->saved = dup(stream);
    dup2(c->pipe[1], stream);
    close(c->pipe[1]);
}

static void capture_stop(struct capture *c)
{
    fflush(stdout);
    fflush(stderr);
    dup2(c->saved, c->stream);
    close(c->saved);
    const ssize_t n = read(c->pipe[0], c->text, sizeof c->text - 1);
    c->text[n > 0 ? n : 0] = '\0';
    close(c->pipe[0]);
}

static void values_follow_a_space_or_an_equal_sign(void **state)
{
    (void)state;
    struct values v = { .number = 7 };
    const struct hrf_args args = PARSE(&v, "--text", "a b", "in", "--real=2.5", "--flag",
                                       "--item=x", "--item", "y", "--number", "-3", "--colour",
                                       "blue", "out");
    assert_int_equal(v.colour, BLUE);
    assert_false(args.done);
    assert_int_equal(args.n_operands, 2);
    assert_string_equal(args.operands[0], "in");
    assert_string_equal(args.operands[1], "out");
    assert_string_equal(v.text, "a b");
    assert_true(v.flag);
    assert_int_equal(v.number, -3);
    assert_float_equal(v.real, 2.5, 0);
    assert_int_equal(v.list.n_items, 2);
    assert_string_equal(v.list.items[0], "x");
    assert_string_equal(v.list.items[1], "y");
}

/* A request that is written as words and parsed again is the same; what is as by default is left
 * out. */
static void a_request_becomes_words_and_back(void **state)
{
    (void)state;
    static const struct hrf_request_option table[] = {
        { "text", "T", "", HRF_OPTION_OF(struct values, text) },
        { "number", "N", "", HRF_OPTION_NUMBER_OF(struct values, number, -10, 10) },
        { "real", "R", "", HRF_OPTION_NUMBER_OF(struct values, real, 0, 1) },
        { "flag", NULL, "", HRF_OPTION_OF(struct values, flag) },
        { "item", "I", "", HRF_OPTION_OF(struct values, list) },
        { "colour", "C", "", HRF_OPTION_WORD_OF(struct values, colour, colours) },
        { NULL },
    };
    const struct values initial = { .number = 7, .real = 0.1 };
    const struct values asked = { .text = "--flag",
                                  .number = 7,
                                  .real = 1.0 / 3,
                                  .flag = true,
                                  .list = { { "x", "y=z" }, 2 },
                                  .colour = GREEN };
    static const char *const first[] = { "model", "check", NULL };
    char **words = hrf_args_write_request(first, table, &asked, &initial, NULL);
    static const char *const wanted[] = { "model",  "check",  "--text",
                                          "--flag", "--real", "0.33333333333333331",
                                          "--flag", "--item", "x",
                                          "--item", "y=z",    "--colour",
                                          "green" };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_string_equal(words[i], wanted[i]);
    assert_null(words[sizeof wanted / sizeof wanted[0]]);
    struct values back = initial;
    const struct hrf_command asked_command = {
        .name = "model", .operands = "", .summary = "", .max_operands = -1
    };
    assert_false(hrf_args_parse_request("t", &asked_command, table, &back, 13, words).done);
    assert_int_equal(back.colour, GREEN);
    assert_string_equal(back.text, asked.text);
    assert_true(back.real >= asked.real && back.real <= asked.real && back.number == 7 &&
                back.flag);
    assert_int_equal(back.list.n_items, 2);
    assert_string_equal(back.list.items[1], "y=z");
    hrf_args_free_words(words);
}

static void an_option_not_given_keeps_its_default(void **state)
{
    (void)state;
    struct values v = { .number = 7, .real = 0.5 };
    assert_false(PARSE(&v, "in").done);
    assert_int_equal(v.number, 7);
    assert_float_equal(v.real, 0.5, 0);
    assert_null(v.text);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    struct values v = { .number = 0 };
    const struct hrf_args args = PARSE(&v, "--", "--flag");
    assert_false(args.done);
    assert_false(v.flag);
    assert_string_equal(args.operands[0], "--flag");
}

static void an_empty_value_is_a_value(void **state)
{
    (void)state;
    struct values v = { .number = 0 };
    assert_false(PARSE(&v, "in", "--text=").done);
    assert_string_equal(v.text, "");
}

static void wrong_use_ends_with_2_and_says_what(void **state)
{
    (void)state;
    static const struct {
        const char *words[3], *said;
    } cases[] = {
        { { "in", "--number", "3.5" },
          "prog cut: --number takes a whole number, -10 to 10, not '3.5'" },
        { { "in", "--number", "99999999999999999999" }, "--number takes a whole number" },
        { { "in", "--real", "" }, "--real takes a number, at least 0, not ''" },
        { { "in", "--real=fast", "x" }, "--real takes a number, at least 0, not 'fast'" },
        { { "in", "--number", "11" }, "--number takes a whole number, -10 to 10, not '11'" },
        { { "in", "--number", "-11" }, "--number takes a whole number, -10 to 10, not '-11'" },
        { { "in", "--real", "-0.001" }, "--real takes a number, at least 0, not '-0.001'" },
        { { "in", "--real", "nan" }, "--real takes a number, at least 0, not 'nan'" },
        { { "in", "--real", "inf" }, "--real takes a number, at least 0, not 'inf'" },
        { { "in", "--flag=yes", "x" }, "takes no value: '--flag=yes'" },
        { { "in", "out", "--text" }, "a value must follow '--text'" },
        { { "in", "out", "more" }, "one argument too many: 'more'" },
        { { "--flag", "--flag", "--flag" }, "it needs 'FILE'" },
        { { "in", "--colour", "gren" }, "--colour takes red, green or blue, not 'gren'" },
        { { "in", "--colour", "gren" }, "did you mean 'green'?" },
        { { "in", "--numbr", "3" }, "did you mean --number?" },
        { { "in", "--unheard-of", "3" }, "unknown option '--unheard-of'; see 'prog cut --help'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values v = { .number = 0 };
        struct capture c;
        capture_start(&c, STDERR_FILENO);
        const struct hrf_args args = parse(&v, 3, cases[i].words);
        capture_stop(&c);
        assert_true(args.done);
        assert_int_equal(args.exit_code, 2);
        if (strstr(c.text, cases[i].said) == NULL)
            fail_msg("case %zu said: %s", i, c.text);
    }
}

static void too_many_of_a_list_are_refused(void **state)
{
    (void)state;
    struct values v = { .number = 0 };
    const char *words[HRF_OPTION_LIST_MAX + 2] = { "in" };
    for (int i = 1; i < HRF_OPTION_LIST_MAX + 2; i++)
        words[i] = "--item=x";
    assert_false(parse(&v, HRF_OPTION_LIST_MAX + 1, words).done);
    v.list.n_items = 0;
    struct capture c;
    capture_start(&c, STDERR_FILENO);
    const struct hrf_args args = parse(&v, HRF_OPTION_LIST_MAX + 2, words);
    capture_stop(&c);
    assert_int_equal(args.exit_code, 2);
}

static void help_names_operands_and_options_on_stdout(void **state)
{
    (void)state;
    struct values v = { .number = 7 };
    struct capture c;
    capture_start(&c, STDOUT_FILENO);
    const struct hrf_args args = PARSE(&v, "--number", "8", "--help"); /* of the default, not 8 */
    capture_stop(&c);
    assert_true(args.done);
    assert_int_equal(args.exit_code, 0);
    assert_non_null(strstr(c.text, "usage: prog cut [options] FILE\n"));
    assert_non_null(strstr(c.text, "--number N"));
    assert_non_null(strstr(c.text, " a number; -10 to 10, default 7\n"));
    assert_non_null(strstr(c.text, " a real; at least 0\n"));
    assert_non_null(strstr(c.text, " red, green or blue; default red\n"));
    assert_non_null(strstr(c.text, "again and again, in words that go on for longer than the line "
                                   "of a\n                               terminal is wide\n"));
    assert_non_null(
        strstr(c.text, "\nkept as it is\n  where it is short; where it is wide, it goes on in the "
                       "line below this one, broken between two of\nits words\n"));
}

static void the_program_picks_its_command_and_knows_near_words(void **state)
{
    (void)state;
    static const struct hrf_command *const commands[] = { &command, NULL };
    char *words[] = { (char[]){ "prog" }, (char[]){ "cut" }, (char[]){ "a" }, (char[]){ "b" } };
    assert_int_equal(hrf_args_main("prog", "p", commands, 4, words), 42);
    assert_int_equal(hrf_args_main("prog", "p", commands, 2, words), 40);
    char *help[] = { words[0], (char[]){ "help" }, words[1], words[2] };
    assert_int_equal(hrf_args_main("prog", "p", commands, 4, help), 41); /* "cut --help" */
    struct capture c;
    capture_start(&c, STDERR_FILENO);
    assert_int_equal(
        hrf_args_main("prog", "p", commands, 2, (char *[]){ words[0], (char[]){ "cu" } }), 2);
    assert_int_equal(hrf_args_main("prog", "p", commands, 1, words), 2);
    capture_stop(&c);
    assert_non_null(strstr(c.text, "unknown command 'cu', did you mean 'cut'?"));
    assert_non_null(strstr(c.text, "a command is needed"));
}

static void words_are_near_by_a_third_of_their_length(void **state)
{
    (void)state;
    static const char *const words[] = { "spatial", "stages", "data", NULL };
    assert_string_equal(hrf_nearest_word("spacial", words), "spatial");
    assert_string_equal(hrf_nearest_word("stage", words), "stages");
    assert_string_equal(hrf_nearest_word("dta", words), "data");
    assert_null(hrf_nearest_word("microbatches", words));
    assert_null(hrf_nearest_word("", words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_a_space_or_an_equal_sign),
        cmocka_unit_test(a_request_becomes_words_and_back),
        cmocka_unit_test(an_option_not_given_keeps_its_default),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(an_empty_value_is_a_value),
        cmocka_unit_test(wrong_use_ends_with_2_and_says_what),
        cmocka_unit_test(too_many_of_a_list_are_refused),
        cmocka_unit_test(help_names_operands_and_options_on_stdout),
        cmocka_unit_test(the_program_picks_its_command_and_knows_near_words),
        cmocka_unit_test(words_are_near_by_a_third_of_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
