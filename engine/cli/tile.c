/* tile.c - `hires-engine tile SPEC.json`: the worker of tile jobs whose tissue a network finds. */
#include "engine/cli/cli.h"
#include "engine/tile_worker/tile_worker.h"

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    int code = 0;
    if (hrf_tile_worker_run(args.operands[0], &code, &err) != HRF_OK)
        (void)hrf_engine_fail(command->name, &err);
    return code;
}

const struct hrf_command hrf_engine_tile = {
    .name = "tile",
    .operands = "SPEC.json",
    .summary = "tile the slides of a job, with tissue by a network (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
