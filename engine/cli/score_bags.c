/* score_bags.c - `hires-engine score-bags SPEC.json` and `train-heads`: the workers of head and
 * train jobs. SIGTERM and SIGUSR1 end the job after the present slide or epoch with exit code 75.
 */
#include "base/crash.h"
#include "engine/cli/cli.h"
#include "engine/head_worker/head_worker.h"

#include <signal.h>

enum { EXIT_TRY_AGAIN = 75 }; /* EX_TEMPFAIL of sysexits.h */

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct sigaction action = { .sa_handler = hrf_head_worker_stop };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_head_worker_run(
        args.operands[0], command == &hrf_engine_train_heads ? HRF_JOB_TRAIN : HRF_JOB_HEAD, &err);
    int code = status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
    if (status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_NOMEM)
        code = EXIT_TRY_AGAIN;
    hrf_crash_point("head.end");
    return code;
}

const struct hrf_command hrf_engine_score_bags = {
    .name = "score-bags",
    .operands = "SPEC.json",
    .summary = "score the slides of a job by their embeddings (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};

const struct hrf_command hrf_engine_train_heads = {
    .name = "train-heads",
    .operands = "SPEC.json",
    .summary = "train the slide heads of a job (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
