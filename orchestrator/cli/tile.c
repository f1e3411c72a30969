/* tile.c - `hires-flow tile SLIDE`: the tile plan of one slide, to look at; and the workers. */
#include "tiler/plan/tile.h"

#include "aggregate/report/kept.h"
#include "base/file.h"
#include "base/json.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/setting_options.h"
#include "orchestrator/cli/tile_by_engine.h"
#include "orchestrator/launch/launch.h"
#include "tiler/plan/tile_job.h"

#include <stdio.h>

struct request {
    const char *mask, *thumbnail, *kept;
    bool json;
};

static enum hrf_status write_picture(const char *path, const struct hrf_bytes *png,
                                     struct hrf_error *err)
{
    return path != NULL ? hrf_file_write_atomic(path, png->data, png->n_bytes, err) : HRF_OK;
}

static enum hrf_status write_kept(const char *path, const struct hrf_tile_plan *plan,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_bytes) png = { NULL, 0 };
    HRF_TRY(hrf_kept_draw(plan, &png, err));
    return write_picture(path, &png, err);
}

static void print_plan(const struct hrf_tile_plan *p, bool is_frame)
{
    hrf_cli_printf("%s: %lld x %lld px, %d levels, %.4f x %.4f um/px (%s)\n", p->vendor,
                   (long long)p->width, (long long)p->height, p->n_levels, p->mpp_x, p->mpp_y,
                   p->mpp_source);
    if (is_frame && p->n_patches == 1)
        hrf_cli_printf(
            "frame of %lld x %lld level-0 px at %d, %d: white outside the slide's %lld x %lld\n",
            (long long)p->patch_width0, (long long)p->patch_height0, p->patches[0].x,
            p->patches[0].y, (long long)p->width, (long long)p->height);
    hrf_cli_printf(
        "tissue %.1f %% (%s, threshold %g), %lld patches of %lld px at %g um/px, read from "
        "level %d\n",
        100 * p->tissue_fraction, p->tissue_method, p->tissue_threshold, (long long)p->n_patches,
        (long long)p->patch_size, p->patch_mpp, p->read_level);
    hrf_cli_printf("tiling %s, %.2f s\n", p->hash, p->seconds);
    if (p->warning != NULL)
        hrf_cli_printf("warning: %s\n", p->warning);
}

static void print_tile_json(const struct hrf_tile_plan *p)
{
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "vendor", p->vendor);
    hrf_json_put_text(value, "mpp_source", p->mpp_source);
    hrf_json_put_text(value, "tissue_method", p->tissue_method);
    hrf_json_put_text(value, "warning", p->warning);
    hrf_json_put_int(value, "width", p->width);
    hrf_json_put_int(value, "height", p->height);
    hrf_json_put_int(value, "levels", p->n_levels);
    hrf_json_put_number(value, "mpp_x", p->mpp_x);
    hrf_json_put_number(value, "mpp_y", p->mpp_y);
    hrf_json_put_number(value, "tissue_fraction", p->tissue_fraction);
    hrf_json_put_number(value, "tissue_threshold", (double)p->tissue_threshold);
    hrf_json_put_number(value, "patch_mpp", p->patch_mpp);
    hrf_json_put_int(value, "patches", p->n_patches);
    hrf_json_put_int(value, "patch_size", p->patch_size);
    hrf_json_put_int(value, "read_level", p->read_level);
    hrf_json_put_number(value, "seconds", p->seconds);
    hrf_json_put_bool(value, "has_tissue", p->n_patches > 0);
    hrf_json_put_int(value, "stride", p->patch_stride);
    hrf_json_put_int(value, "white_patches", p->n_white);
    for (int reason = 0; reason < HRF_N_DROP_REASONS; reason++) {
        int64_t n = 0;
        for (int64_t i = 0; i < p->n_dropped; i++)
            n += p->dropped[i].reason == reason;
        HRF_AUTO_FREE char *key = hrf_format("left_out_%s",
                                             hrf_drop_reason_name((enum hrf_drop_reason)reason));
        hrf_json_put_int(value, key, n);
    }
    hrf_json_put_text(value, "tiling", p->hash);
    hrf_json_print(value);
}

/* Makes the settings from the options, and prints what is wrong with them. */
static enum hrf_status read_options(const struct hrf_setting_options *options,
                                    struct hrf_workflow **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_text_list) given = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    enum hrf_status status = hrf_setting_options_given(options, &given, err);
    if (status == HRF_OK)
        status = hrf_workflow_parse_tiler((const char *const *)given.items, given.n_items, out,
                                          &findings, err);
    for (size_t i = 0; i < findings.n_items; i++)
        fprintf(stderr, "%s tile: %s\n", HRF_PROGRAM, findings.items[i].message);
    return status;
}

static int tile_main(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .json = false };
    const struct hrf_option own[] = {
        { "kept", "FILE.png", "draw what is kept (green) and left out (by reason)",
          HRF_OPTION(&r.kept) },
        { "mask", "FILE.png", "write the tissue mask", HRF_OPTION(&r.mask) },
        { "thumbnail", "FILE.png", "write the thumbnail", HRF_OPTION(&r.thumbnail) },
        { "json", NULL, "print JSON", HRF_OPTION(&r.json) },
        { NULL },
    };
    static struct hrf_setting_options options;
    hrf_setting_options_init(&options, HRF_FOR_TILES, own);
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options.table, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_workflow) settings = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    if (read_options(&options, &settings, &err) != HRF_OK) {
        fprintf(stderr, "%s tile: %s; see '%s tile --help'\n", HRF_PROGRAM, err.text, HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    enum hrf_status status = settings->tiler.tissue.method == HRF_TISSUE_ONNX
                                 ? hrf_cli_tile_by_engine(args.operands[0], settings, &plan, &err)
                                 : hrf_tile_slide(args.operands[0], &settings->tiler, 0,
                                                  settings->dataset.mpp, NULL, &plan, &err);
    if (status == HRF_OK)
        status = write_picture(r.mask, &plan->mask_png, &err);
    if (status == HRF_OK)
        status = write_picture(r.thumbnail, &plan->thumbnail_png, &err);
    if (status == HRF_OK && r.kept != NULL)
        status = write_kept(r.kept, plan, &err);
    if (status != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (r.json)
        print_tile_json(plan);
    else
        print_plan(plan, hrf_workflow_is_slides(settings));
    return 0;
}

const struct hrf_command hrf_cli_tile = {
    .name = "tile",
    .operands = "SLIDE",
    .summary = "tile one slide and show what was found",
    .min_operands = 1,
    .max_operands = 1,
    .run = tile_main,
};

static int run_launch(const struct hrf_command *command, int argc, char **argv)
{
    (void)command;
    return argc == 1 ? hrf_launch(argv[0]) : HRF_EXIT_USAGE;
}

static int run_tile_job(const struct hrf_command *command, int argc, char **argv)
{
    (void)command;
    return argc == 1 ? hrf_tile_job_main(argv[0]) : HRF_EXIT_USAGE;
}

/* Workers have no summary and stay out of the list: `run` starts their jobs. */
const struct hrf_command hrf_cli_launch = { .name = "launch",
                                            .operands = "SPEC.json",
                                            .run = run_launch };
const struct hrf_command hrf_cli_tile_job = {
    .name = "tile-job", .operands = "SPEC.json", .is_worker = true, .run = run_tile_job
};
