/* main.c - hires-flow: a cohort of slides to labels and a report. */
#include "orchestrator/cli/cli.h"

#define ADDRESS(name) &hrf_cli_##name,
static const struct hrf_command *const own[] = { HRF_CLI_COMMANDS(ADDRESS) };
enum { N_OWN = sizeof own / sizeof own[0] };

int main(int argc, char **argv)
{
    struct hrf_command engines[HRF_N_ENGINE_COMMANDS];
    const struct hrf_command *list[N_OWN + HRF_N_ENGINE_COMMANDS + 1] = { NULL };
    const size_t n_engines = hrf_cli_handed_over(engines);
    for (size_t i = 0; i < N_OWN; i++)
        list[i] = own[i];
    for (size_t i = 0; i < n_engines; i++)
        list[N_OWN + i] = &engines[i];
    hrf_settings_describe_in_errors();
    return hrf_args_main(HRF_PROGRAM, "from a cohort of slides to labels and a report", list, argc,
                         argv);
}
