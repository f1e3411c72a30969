/* main.c - hires-flow: a cohort of slides to labels and a report. */
#include "orchestrator/cli/cli.h"

static const struct hrf_command *const commands[] = {
    &hrf_cli_run,     &hrf_cli_infer,     &hrf_cli_calibrate, &hrf_cli_check,
    &hrf_cli_plan,    &hrf_cli_status,    &hrf_cli_why,       &hrf_cli_throttle,
    &hrf_cli_cancel,  &hrf_cli_aggregate, &hrf_cli_report,    &hrf_cli_compare,
    &hrf_cli_view,    &hrf_cli_evaluate,  &hrf_cli_forest,    &hrf_cli_head,
    &hrf_cli_tile,    &hrf_cli_demo,      &hrf_cli_demo_data, &hrf_cli_model,
    &hrf_cli_bench,   &hrf_cli_profile,   &hrf_cli_tune_comm, &hrf_cli_doctor,
    &hrf_cli_version, &hrf_cli_launch,    &hrf_cli_tile_job,  NULL,
};

int main(int argc, char **argv)
{
    return hrf_args_main(HRF_PROGRAM, "from a cohort of slides to labels and a report", commands,
                         argc, argv);
}
