/* infer.c - `hires-engine infer SPEC.json` and `observe SPEC.json`: the workers of infer and
 * calibrate jobs. SIGTERM and SIGUSR1 end the job after the present batch with exit code 75.
 */
#include "base/crash.h"
#include "engine/cli/cli.h"
#include "engine/worker/worker.h"

#include <signal.h>

enum { EXIT_TRY_AGAIN = 75 }; /* EX_TEMPFAIL of sysexits.h */

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct sigaction action = { .sa_handler = hrf_worker_stop };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct hrf_worker job = { .spec = NULL };
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_worker_run_job(
        &job, args.operands[0], command == &hrf_engine_observe ? HRF_JOB_CALIBRATE : HRF_JOB_INFER,
        &err);
    int code = status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
    if (status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_NOMEM)
        code = EXIT_TRY_AGAIN;
    code = hrf_worker_end_rank(&job, status, code, &err);
    hrf_worker_release(&job);
    hrf_crash_point("engine.end");
    return code;
}

const struct hrf_command hrf_engine_infer = {
    .name = "infer",
    .operands = "SPEC.json",
    .summary = "score the patches of a job (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};

const struct hrf_command hrf_engine_observe = {
    .name = "observe",
    .operands = "SPEC.json",
    .summary = "collect histograms of tensors on the patches of a job (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
