/* main.c - hires-flow: a cohort of slides to labels and a report. */
#include "orchestrator/cli/cli.h"

static const struct hrf_command *const own[] = {
    &hrf_cli_run,    &hrf_cli_infer,    &hrf_cli_calibrate, &hrf_cli_check,    &hrf_cli_plan,
    &hrf_cli_status, &hrf_cli_why,      &hrf_cli_throttle,  &hrf_cli_cancel,   &hrf_cli_aggregate,
    &hrf_cli_report, &hrf_cli_compare,  &hrf_cli_view,      &hrf_cli_evaluate, &hrf_cli_forest,
    &hrf_cli_tile,   &hrf_cli_demo,     &hrf_cli_demo_data, &hrf_cli_doctor,   &hrf_cli_version,
    &hrf_cli_launch, &hrf_cli_tile_job, &hrf_cli_train,
};
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
