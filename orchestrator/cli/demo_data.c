/* demo_data.c - `hires-flow demo-data DIR`: a small made-up cohort in the CAMELYON16 layout. */
#include "base/json.h"
#include "orchestrator/cli/cli.h"
#include "tiler/synth/synth.h"

#include <stdio.h>
#include <unistd.h>

static void show_share(int done, int total)
{
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "\rslide %d of %d%s", done, total, done == total ? "\n" : "");
}

static const struct hrf_synth_params standard = {
    .n_slides = 42, .seed = 1, .size = 2800, .difficulty = 1
};

enum hrf_status hrf_cli_make_demo_cohort(const char *directory, struct hrf_error *err)
{
    return hrf_synth_cohort(directory, &standard, show_share, err);
}

static int demo_data_main(const struct hrf_command *command, int argc, char **argv)
{
    int64_t slides = standard.n_slides, seed = (int64_t)standard.seed, size = standard.size;
    double difficulty = standard.difficulty;
    bool json = false;
    const struct hrf_option options[] = {
        { "slides", "N", "number of slides", HRF_OPTION_NUMBER(&slides, 4, 999) },
        { "seed", "N", "random seed", HRF_OPTION_NUMBER(&seed, 0, HRF_UNBOUNDED) },
        { "size", "PX", "approximate height and width of a slide in px",
          HRF_OPTION_NUMBER(&size, 1024, 60000) },
        { "difficulty", "D",
          "0: lesions are plain, and nothing else resembles them; up to 2: lesions and benign "
          "look-alikes overlap",
          HRF_OPTION_NUMBER(&difficulty, 0, 2) },
        { "json", NULL, "print JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_synth_params params = {
        .n_slides = (int)slides, .seed = (uint64_t)seed, .size = size, .difficulty = difficulty
    };
    if (hrf_synth_cohort(args.operands[0], &params, show_share, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (!json) {
        hrf_cli_printf("cohort: %s\n", args.operands[0]);
        return 0;
    }
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "directory", args.operands[0]);
    hrf_json_put_int(value, "slides", slides);
    hrf_json_print(value);
    return 0;
}

const struct hrf_command hrf_cli_demo_data = {
    .name = "demo-data",
    .operands = "DIR",
    .summary = "write a small synthetic cohort in the CAMELYON16 layout",
    .min_operands = 1,
    .max_operands = 1,
    .run = demo_data_main,
};
