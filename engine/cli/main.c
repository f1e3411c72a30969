/* main.c - hires-engine: runs networks. It knows nothing of cohorts, stores or schedulers. */
#include "engine/cli/cli.h"

#include <string.h>

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
                                                      &hrf_engine_version,
                                                      NULL };

int main(int argc, char **argv)
{
    static const char caller[] = "hires-flow";
    if (argc > 0 && strncmp(argv[0], caller, sizeof caller - 1) == 0)
        hrf_engine_program = argv[0];
    return hrf_args_main(HRF_ENGINE_PROGRAM, "the inference engine of hires-flow", commands, argc,
                         argv);
}
