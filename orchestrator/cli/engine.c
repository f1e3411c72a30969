/* engine.c - `model ...`, `bench ...`, `head ...`: handed over to hires-engine; and `version`. */
#include "orchestrator/cli/cli.h"

#include <stdio.h>
#include <string.h>

static int run_model(const struct hrf_command *command, int argc, char **argv)
{
    return hrf_cli_exec_engine(HRF_PROGRAM, command->name, "model", argc, argv);
}

const struct hrf_command hrf_cli_model = {
    .name = "model",
    .operands = "make|inspect|check NAME|FILE",
    .summary = "write a built-in architecture as ONNX, or inspect a model",
    .min_operands = 2,
    .max_operands = 2,
    .run = run_model,
};

static int run_bench(const struct hrf_command *command, int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "engine") == 0)
        return hrf_cli_exec_engine(HRF_PROGRAM, command->name, "bench", argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "sweep") == 0)
        return hrf_cli_exec_engine(HRF_PROGRAM " bench", command->name, "sweep", argc - 1,
                                   argv + 1);
    return hrf_cli_exec_engine(HRF_PROGRAM, command->name, "bench", argc, argv);
}

const struct hrf_command hrf_cli_bench = {
    .name = "bench",
    .operands = "MODEL|sweep",
    .summary = "measure images per second; compare ranks and layouts",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_bench,
};

static int run_same_name(const struct hrf_command *command, int argc, char **argv)
{
    return hrf_cli_exec_engine(HRF_PROGRAM, command->name, command->name, argc, argv);
}

const struct hrf_command hrf_cli_tune_comm = {
    .name = "tune-comm",
    .operands = "",
    .summary = "measure the cost of messages between ranks, for 'plan'",
    .max_operands = -1,
    .run = run_same_name,
};

const struct hrf_command hrf_cli_profile = {
    .name = "profile",
    .operands = "",
    .summary = "measure the cost of every node of a network, for 'plan'",
    .max_operands = -1,
    .run = run_same_name,
};

const struct hrf_command hrf_cli_head = {
    .name = "head",
    .operands = "train FILE.yaml | score HEAD.onnx FEATURES...",
    .summary = "train a slide head on embeddings, or score slides with one",
    .min_operands = 2,
    .max_operands = -1,
    .run = run_same_name,
};

static int run_version(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    const struct hrf_args args = hrf_cli_parse_json(command, argc, argv, &json);
    if (args.done)
        return args.exit_code;
    if (json)
        hrf_cli_printf("{\"program\": \"%s\", \"release\": \"%s\", \"version\": 1}\n", HRF_PROGRAM,
                       HRF_VERSION);
    else
        hrf_cli_printf("%s %s\n", HRF_PROGRAM, HRF_VERSION);
    return 0;
}

const struct hrf_command hrf_cli_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .run = run_version,
};
