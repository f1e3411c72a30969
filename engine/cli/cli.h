/* cli.h - what the commands of hires-engine do, one file each; their words stand in
 * schema/command/engine_commands.c. */
#ifndef HRF_ENGINE_CLI_CLI_H
#define HRF_ENGINE_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"
#include "schema/command/engine_commands.h"

/* What usage and errors call this program: "hires-engine", or what handed over to it. Set once. */
extern const char *hrf_engine_program;
#define HRF_ENGINE_PROGRAM hrf_engine_program

/* The commands and the functions that run them; hrf_engine_work() runs every worker. */
#define HRF_ENGINE_RUNS(RUN)                                                                       \
    RUN(HRF_ENGINE_EVAL, hrf_engine_eval)                                                          \
    RUN(HRF_ENGINE_GRADIENT, hrf_engine_gradient)                                                  \
    RUN(HRF_ENGINE_MODEL, hrf_engine_model)                                                        \
    RUN(HRF_ENGINE_BENCH, hrf_engine_bench)                                                        \
    RUN(HRF_ENGINE_SWEEP, hrf_engine_sweep)                                                        \
    RUN(HRF_ENGINE_PROFILE, hrf_engine_profile)                                                    \
    RUN(HRF_ENGINE_TUNE_COMM, hrf_engine_tune_comm)                                                \
    RUN(HRF_ENGINE_PLAN, hrf_engine_plan)                                                          \
    RUN(HRF_ENGINE_TRAIN, hrf_engine_train)                                                        \
    RUN(HRF_ENGINE_HEAD, hrf_engine_head)                                                          \
    RUN(HRF_ENGINE_CHECK, hrf_engine_check)                                                        \
    RUN(HRF_ENGINE_RANKS, hrf_engine_ranks)                                                        \
    RUN(HRF_ENGINE_VERSION, hrf_engine_version)                                                    \
    RUN(HRF_ENGINE_WORKERS, hrf_engine_work)
typedef int hrf_engine_run(const struct hrf_command *command, int argc, char **argv);
#define HRF_DECLARE_RUN(command, run) hrf_engine_run run;
HRF_ENGINE_RUNS(HRF_DECLARE_RUN)
#undef HRF_DECLARE_RUN

/* Tells the error (error_record.h) and gives the exit code. */
int hrf_engine_fail(const char *command, const struct hrf_error *err);

#endif
