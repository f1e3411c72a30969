/* work.c - the workers of jobs, `hires-engine
 * infer|observe|tile|score-bags|train-heads|train-networks SPEC.json`. SIGTERM and SIGUSR1 end the
 * job after the present batch, slide, epoch or step with the exit code HRF_EXIT_TRY_AGAIN. */
#include "base/crash.h"
#include "engine/cli/cli.h"
#include "engine/head_worker/head_worker.h"
#include "engine/tile_worker/tile_worker.h"
#include "engine/train_worker/train_worker.h"
#include "engine/worker/worker.h"

#include <signal.h>
#include <string.h>

static void take_signals(void (*stop)(int))
{
    const struct sigaction action = { .sa_handler = stop };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* Jobs that may have several ranks. With several each of them has a record of its own that says how
 * it ended. */
static int work_on_ranks(const char *name, const char *spec_path, enum hrf_job_kind kind)
{
    HRF_AUTO_RELEASE(hrf_worker) job = { .spec = NULL };
    struct hrf_error err = { .status = HRF_OK };
    take_signals(hrf_worker_stop);
    const enum hrf_status status = kind == HRF_JOB_TRAIN_NETWORK
                                       ? hrf_train_worker_run(&job, spec_path, &err)
                                       : hrf_worker_run_job(&job, spec_path, kind, &err);
    int code = job.ranks == NULL
                   ? hrf_job_worker_end(HRF_ENGINE_PROGRAM, name, spec_path, status, &err)
                   : hrf_status_row(status)->worker_exit_code;
    if (job.ranks != NULL && status != HRF_OK)
        (void)hrf_engine_fail(name, &err);
    code = hrf_worker_end_rank(&job, status, code, &err);
    hrf_crash_point("engine.end");
    return code;
}

int hrf_engine_work(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    const char *spec_path = args.operands[0];
    enum hrf_job_kind kind = HRF_JOB_TILE;
    while (strcmp(hrf_engine_commands[HRF_ENGINE_WORKERS + kind].name, command->name) != 0)
        kind++;
    if (kind == HRF_JOB_INFER || kind == HRF_JOB_CALIBRATE || kind == HRF_JOB_TRAIN_NETWORK)
        return work_on_ranks(command->name, spec_path, kind);
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status;
    if (kind == HRF_JOB_TILE) {
        status = hrf_tile_worker_run(spec_path, &err);
    } else {
        take_signals(hrf_head_worker_stop);
        status = hrf_head_worker_run(spec_path, kind, &err);
    }
    const int code = hrf_job_worker_end(HRF_ENGINE_PROGRAM, command->name, spec_path, status, &err);
    hrf_crash_point("head.end");
    return code;
}
