/* engine.c - `model ...`, `bench engine ...`: handed over to hires-engine; doctor and version. */
#include "base/path.h"
#include "base/process.h"
#include "base/strbuf.h"
#include "orchestrator/cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

static int run_model(const struct hrf_command *command, int argc, char **argv)
{
    return hrf_cli_exec_engine(command->name, "model", argc, argv);
}

const struct hrf_command hrf_cli_model = {
    .name = "model",
    .operands = "make|inspect NAME",
    .summary = "write a built-in architecture as ONNX, or look into a model",
    .min_operands = 2,
    .max_operands = 2,
    .run = run_model,
};

static int run_bench(const struct hrf_command *command, int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "engine") == 0)
        return hrf_cli_exec_engine(command->name, "bench", argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "--help") == 0)
        return hrf_cli_exec_engine(command->name, "bench", argc, argv);
    fprintf(stderr, "%s bench: there is 'bench engine'; see '%s bench --help'\n", HRF_PROGRAM,
            HRF_PROGRAM);
    return HRF_EXIT_USAGE;
}

const struct hrf_command hrf_cli_bench = {
    .name = "bench",
    .operands = "engine",
    .summary = "measure images per second",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_bench,
};

static int run_version(const struct hrf_command *command, int argc, char **argv)
{
    (void)command;
    (void)argc;
    (void)argv;
    printf("%s %s\n", HRF_PROGRAM, HRF_VERSION);
    return 0;
}

const struct hrf_command hrf_cli_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .run = run_version,
};

static bool print_engine(void)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL, *program = NULL;
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_process_result result = { .exited = false };
    struct hrf_error err = { .text = "no memory" };
    bool good = false;
    if (hrf_process_self(&self, &err) == HRF_OK && (directory = hrf_path_directory(self)) != NULL &&
        (program = hrf_path_join(directory, "hires-engine")) != NULL) {
        const char *const argv[] = { program, "version", NULL };
        good = hrf_process_run(argv, NULL, NULL, 30000, 4096, &out, NULL, &result, &err) ==
                   HRF_OK &&
               result.exited && result.exit_code == 0;
    }
    printf("engine     %s", good ? out.text : "");
    if (!good)
        printf("does not start: %s\n", err.text);
    hrf_strbuf_release(&out);
    return good;
}

static int run_doctor(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct statvfs fs;
    bool good = print_engine();
    printf("cores      %d\n", hrf_process_cpu_count());
    if (statvfs(".", &fs) == 0)
        printf("disk here  %.1f GiB free\n", (double)fs.f_bavail * (double)fs.f_frsize / 0x1p30);
    printf("%s\n", good ? "all that a local run needs is there" : "a run cannot work like this");
    return good ? 0 : HRF_EXIT_LACKS;
}

const struct hrf_command hrf_cli_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "tell whether this machine has what a run needs",
    .run = run_doctor,
};
