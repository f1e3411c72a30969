/* cli.h - the subcommands of hires-engine, one file each. */
#ifndef HRF_ENGINE_CLI_CLI_H
#define HRF_ENGINE_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"

/* What usage and errors call this program: "hires-engine", or what handed over to it. Set once. */
extern const char *hrf_engine_program;
#define HRF_ENGINE_PROGRAM hrf_engine_program

extern const struct hrf_command hrf_engine_eval, hrf_engine_infer, hrf_engine_observe,
    hrf_engine_model, hrf_engine_bench, hrf_engine_profile, hrf_engine_plan, hrf_engine_tune_comm,
    hrf_engine_version, hrf_engine_ranks, hrf_engine_sweep, hrf_engine_check, hrf_engine_head,
    hrf_engine_score_bags, hrf_engine_train_heads, hrf_engine_tile;

/* Prints the error and gives the exit code: 2 when the request was wrong or is not in this
 * build, 4 when the environment lacks something, else 1. */
int hrf_engine_fail(const char *command, const struct hrf_error *err);

#endif
