/* main.c - hires-engine: runs networks. It knows nothing of cohorts, stores or schedulers. */
#include "base/error_record.h"
#include "engine/cli/cli.h"
#include "schema/settings/settings.h"

#include <string.h>

const char *hrf_engine_program = "hires-engine";

int hrf_engine_fail(const char *command, const struct hrf_error *err)
{
    return hrf_error_report(HRF_ENGINE_PROGRAM, command, err);
}

#define ROW(command, run) [command] = run,
static hrf_engine_run *const runs[HRF_ENGINE_WORKERS + 1] = { HRF_ENGINE_RUNS(ROW) };
#undef ROW

int main(int argc, char **argv)
{
    static const char caller[] = "hires-flow";
    struct hrf_command commands[HRF_N_ENGINE_COMMANDS];
    const struct hrf_command *list[HRF_N_ENGINE_COMMANDS + 1] = { NULL };
    for (int i = 0; i < HRF_N_ENGINE_COMMANDS; i++) {
        commands[i] = hrf_engine_commands[i];
        commands[i].run = runs[i < HRF_ENGINE_WORKERS ? i : HRF_ENGINE_WORKERS];
        list[i] = &commands[i];
    }
    if (argc > 0 && strncmp(argv[0], caller, sizeof caller - 1) == 0)
        hrf_engine_program = argv[0];
    if (argc > 1 && strcmp(argv[argc - 1], HRF_ASKED) == 0) {
        hrf_error_report_as_record();
        argc--;
    }
    hrf_settings_name_as_caller();
    hrf_settings_describe_in_errors();
    return hrf_args_main(HRF_ENGINE_PROGRAM, "the inference engine of hires-flow", list, argc,
                         argv);
}
