/* main.c - hires-engine: runs networks. It knows nothing of cohorts, stores or schedulers. */
#include "engine/cli/cli.h"

#include <stdio.h>
#include <string.h>

const char *hrf_engine_program = "hires-engine";

int hrf_engine_fail(const char *command, const struct hrf_error *err)
{
    fprintf(stderr, "%s %s: %s\n", HRF_ENGINE_PROGRAM, command, err->text);
    if (err->status == HRF_E_USER || err->status == HRF_E_UNSUPPORTED)
        return 2;
    return 1;
}

static const struct hrf_command *const commands[] = { &hrf_engine_eval,
                                                      &hrf_engine_infer,
                                                      &hrf_engine_observe,
                                                      &hrf_engine_model,
                                                      &hrf_engine_bench,
                                                      &hrf_engine_profile,
                                                      &hrf_engine_plan,
                                                      &hrf_engine_sweep,
                                                      &hrf_engine_tune_comm,
                                                      &hrf_engine_ranks,
                                                      &hrf_engine_check,
                                                      &hrf_engine_head,
                                                      &hrf_engine_version,
                                                      &hrf_engine_score_bags,
                                                      &hrf_engine_train_heads,
                                                      &hrf_engine_tile,
                                                      NULL };

int main(int argc, char **argv)
{
    static const char caller[] = "hires-flow";
    if (argc > 0 && strncmp(argv[0], caller, sizeof caller - 1) == 0)
        hrf_engine_program = argv[0];
    return hrf_args_main(HRF_ENGINE_PROGRAM, "the inference engine of hires-flow", commands, argc,
                         argv);
}
