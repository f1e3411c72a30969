/* engine.c - what is handed over to hires-engine (`model`, `bench`, `head` ...), and `version`. */
#include "orchestrator/cli/cli.h"

#include <stdio.h>
#include <string.h>

static int hand_over(const struct hrf_command *command, int argc, char **argv)
{
    const bool is_bench = strcmp(command->name, "bench") == 0 && argc > 0;
    if (is_bench && strcmp(argv[0], "sweep") == 0)
        return hrf_cli_exec_engine(HRF_PROGRAM " bench", command->name, "sweep", argc - 1,
                                   argv + 1);
    const int n_skipped = is_bench && strcmp(argv[0], "engine") == 0;
    return hrf_cli_exec_engine(HRF_PROGRAM, command->name, command->name, argc - n_skipped,
                               argv + n_skipped);
}

size_t hrf_cli_handed_over(struct hrf_command *out)
{
    size_t n = 0;
    for (int i = 0; i < HRF_N_ENGINE_COMMANDS; i++)
        if (hrf_engine_is_handed_over((enum hrf_engine_command)i)) {
            out[n] = hrf_engine_commands[i];
            out[n++].run = hand_over;
        }
    return n;
}

static int run_version(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    const struct hrf_args args = hrf_cli_parse_json(command, argc, argv, &json);
    if (args.done)
        return args.exit_code;
    if (json) {
        HRF_AUTO_JSON answer = hrf_json_document();
        hrf_json_put_text(answer, "program", HRF_PROGRAM);
        hrf_json_put_text(answer, "release", HRF_VERSION);
        hrf_json_print(answer);
    } else {
        hrf_cli_printf("%s %s\n", HRF_PROGRAM, HRF_VERSION);
    }
    return 0;
}

const struct hrf_command hrf_cli_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .run = run_version,
};
