/* tile.c - `hires-flow tile SLIDE`: the tile plan of one slide, to look at; and the workers. */
#include "tiler/plan/tile.h"

#include "aggregate/report/kept.h"
#include "base/file.h"
#include "base/json.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/tile_by_engine.h"
#include "orchestrator/launch/launch.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/tile_job.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *mask, *thumbnail, *method, *mode, *coords, *on_bad_tile, *edge;
    const char *kept;
    struct hrf_job_quality quality;
    const char *tissue_model;
    struct hrf_option_list classes;
    struct hrf_job_tissue tissue;
    int64_t size, stride, min_patches;
    double mpp, min_tissue, slide_mpp;
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
    struct hrf_bytes png = { NULL, 0 };
    HRF_TRY(hrf_kept_draw(plan, &png, err));
    const enum hrf_status status = write_picture(path, &png, err);
    hrf_bytes_release(&png);
    return status;
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

static void print_json(const struct hrf_tile_plan *p)
{
    HRF_AUTO_JSON value = json_pack(
        "{sissssssss?sIsIsisosososososIsIsisosbsI}", "version", 1, "vendor", p->vendor,
        "mpp_source", p->mpp_source, "tissue_method", p->tissue_method, "warning", p->warning,
        "width", (json_int_t)p->width, "height", (json_int_t)p->height, "levels", p->n_levels,
        "mpp_x", hrf_json_number(p->mpp_x), "mpp_y", hrf_json_number(p->mpp_y), "tissue_fraction",
        hrf_json_number(p->tissue_fraction), "tissue_threshold",
        hrf_json_number((double)p->tissue_threshold), "patch_mpp", hrf_json_number(p->patch_mpp),
        "patches", (json_int_t)p->n_patches, "patch_size", (json_int_t)p->patch_size, "read_level",
        p->read_level, "seconds", hrf_json_number(p->seconds), "has_tissue",
        (int)(p->n_patches > 0), "stride", (json_int_t)p->patch_stride);
    if (value != NULL)
        json_object_set_new(value, "white_patches", json_integer((json_int_t)p->n_white));
    for (int reason = 0; reason < HRF_N_DROP_REASONS && value != NULL; reason++) {
        int64_t n = 0;
        for (int64_t i = 0; i < p->n_dropped; i++)
            n += p->dropped[i].reason == reason;
        HRF_AUTO_FREE char *key = hrf_format("left_out_%s",
                                             hrf_drop_reason_name((enum hrf_drop_reason)reason));
        if (key != NULL)
            json_object_set_new(value, key, json_integer((json_int_t)n));
    }
    if (value != NULL)
        json_object_set_new(value, "tiling", json_string(p->hash));
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
}

/* Whether the options about a network belong together; if not, says why. */
static bool is_tissue_fit(const struct request *r)
{
    const bool by_network = strcmp(r->method, HRF_TISSUE_BY_NETWORK) == 0;
    const struct hrf_job_tissue *t = &r->tissue;
    const char *wrong = by_network != (r->tissue_model != NULL)
                            ? "--tissue onnx and --tissue-model need each other"
                        : !by_network       ? NULL
                        : !(t->mpp > 0)     ? "--tissue onnx needs --tissue-mpp"
                        : r->coords != NULL ? "--coords and --tissue onnx exclude each other"
                        : !(t->threshold > 0 && t->threshold <= 1)
                            ? "--tissue-threshold is over 0, at most 1"
                        : t->size < 0 || t->size > 8192
                            ? "--tissue-size is 0 (as the model says) to 8192"
                        : t->class < -1 ? "--tissue-class is -1 (the last) or more"
                                        : NULL;
    if (wrong != NULL)
        fprintf(stderr, "%s tile: %s\n", HRF_PROGRAM, wrong);
    return wrong == NULL;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .mode = "patch",
                         .method = "otsu",
                         .on_bad_tile = "fail",
                         .edge = "drop",
                         .tissue = { .threshold = 0.5,
                                     .class = -1,
                                     .mean = { 0.485, 0.456, 0.406 },
                                     .std = { 0.229, 0.224, 0.225 } },
                         .size = 256,
                         .min_patches = 16,
                         .mpp = 0.5,
                         .min_tissue = 0.5 };
    const struct hrf_option options[] = {
        { "mode", "MODE", "patch (default), or slide: the whole slide as one image",
          HRF_OPTION_TEXT, &r.mode },
        { "size", "PX", "patch size (default 256)", HRF_OPTION_INT, &r.size },
        { "mpp", "UM", "resolution of patches in um/px (default 0.5)", HRF_OPTION_REAL, &r.mpp },
        { "stride", "PX", "distance between patches (default: the patch size)", HRF_OPTION_INT,
          &r.stride },
        { "tissue", "METHOD", "otsu, wsinfer, clam, ncrf or onnx (by a network)", HRF_OPTION_TEXT,
          &r.method },
        { "tissue-model", "FILE.onnx", "onnx: the network (tiler.tissue.model)", HRF_OPTION_TEXT,
          &r.tissue_model },
        { "tissue-mpp", "UM", "onnx: resolution of its images in um/px", HRF_OPTION_REAL,
          &r.tissue.mpp },
        { "tissue-threshold", "P", "onnx: a pixel of at least this probability is tissue",
          HRF_OPTION_REAL, &r.tissue.threshold },
        { "tissue-size", "PX", "onnx: height and width of its images (tiler.tissue.size)",
          HRF_OPTION_INT, &r.tissue.size },
        { "tissue-class", "N", "onnx: its output that is tissue, from 0 (default: the last)",
          HRF_OPTION_INT, &r.tissue.class },
        { "min-tissue", "FRACTION", "smallest fraction of tissue in a patch (default 0.5)",
          HRF_OPTION_REAL, &r.min_tissue },
        { "coords", "PLACE",
          "take the patches, or the tissue, of another program: a file, or a folder of files by "
          "slide (HDF5 of CLAM, TRIDENT, AtlasPatch, WSInfer or STAMP; csv; GeoJSON)",
          HRF_OPTION_TEXT, &r.coords },
        { "tissue-class-name", "NAME",
          "--coords with GeoJSON: a class of QuPath whose outlines are tissue; may be repeated "
          "(default: all but ignored ones)",
          HRF_OPTION_LIST, &r.classes },
        { "on-bad-tile", "WHAT",
          "fail (default), or white: what a tile that does not decode is, with the patches on it "
          "listed",
          HRF_OPTION_TEXT, &r.on_bad_tile },
        { "edge", "WHAT",
          "drop (default), pad or shift: the strip where no whole patch fits (tiler.patch.edge)",
          HRF_OPTION_TEXT, &r.edge },
        { "slide-mpp", "UM", "resolution of a slide that states none", HRF_OPTION_REAL,
          &r.slide_mpp },
        { "pen", "FRACTION", "leave out patches with more marker ink (tiler.quality.pen)",
          HRF_OPTION_REAL, &r.quality.pen },
        { "bubble", "FRACTION", "the same for an air bubble (tiler.quality.bubble)",
          HRF_OPTION_REAL, &r.quality.bubble },
        { "fold", "FRACTION", "the same for a fold (tiler.quality.fold)", HRF_OPTION_REAL,
          &r.quality.fold },
        { "blur", "BLUR", "leave out patches with more blur, 0 sharp to 1 (tiler.quality.blur)",
          HRF_OPTION_REAL, &r.quality.blur },
        { "kept", "FILE.png", "draw what is kept (green) and left out (by reason)", HRF_OPTION_TEXT,
          &r.kept },
        { "mask", "FILE.png", "write the tissue mask", HRF_OPTION_TEXT, &r.mask },
        { "thumbnail", "FILE.png", "write the thumbnail", HRF_OPTION_TEXT, &r.thumbnail },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &r.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    if (r.size < 1 || r.stride < 0 || r.mpp <= 0) {
        fprintf(stderr, "%s tile: --size, --stride and --mpp must be positive\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    char mode[32], method[32];
    snprintf(mode, sizeof mode, "%s", r.mode);
    snprintf(method, sizeof method, "%s", r.method);
    enum hrf_grid_edge edge;
    if (!hrf_grid_edge_parse(r.edge, &edge)) {
        fprintf(stderr, "%s tile: --edge is drop, pad or shift\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    char on_bad_tile[32], edge_word[32];
    snprintf(edge_word, sizeof edge_word, "%s", r.edge);
    snprintf(on_bad_tile, sizeof on_bad_tile, "%s", r.on_bad_tile);
    if (strcmp(on_bad_tile, "fail") != 0 && strcmp(on_bad_tile, "white") != 0) {
        fprintf(stderr, "%s tile: --on-bad-tile is fail or white\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    HRF_AUTO_FREE char *coords = hrf_strdup(r.coords), *model = hrf_strdup(r.tissue_model);
    HRF_AUTO_RELEASE(hrf_strbuf) classes = HRF_STRBUF_INIT;
    for (size_t i = 0; i < r.classes.n_items; i++)
        hrf_strbuf_addf(&classes, "%s\n", r.classes.items[i]);
    r.tissue.model_file = model;
    if (!is_tissue_fit(&r))
        return HRF_EXIT_USAGE;
    struct hrf_job_tiler params = { .mode = mode,
                                    .coords = coords,
                                    .outline_classes = classes.length > 0 ? classes.text : NULL,
                                    .on_bad_tile = on_bad_tile,
                                    .edge = edge_word,
                                    .quality = r.quality,
                                    .patch_size = r.size,
                                    .patch_stride = r.stride > 0 ? r.stride : r.size,
                                    .patch_mpp = r.mpp,
                                    .tissue_method = method,
                                    .tissue = r.tissue,
                                    .min_tissue = r.min_tissue,
                                    .min_patches = r.min_patches };
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    enum hrf_status status = r.tissue_model != NULL
                                 ? hrf_cli_tile_by_engine(args.operands[0], &params, r.slide_mpp,
                                                          &plan, &err)
                                 : hrf_tile_slide(args.operands[0], &params, 0, r.slide_mpp, NULL,
                                                  &plan, &err);
    if (status == HRF_OK)
        status = write_picture(r.mask, &plan->mask_png, &err);
    if (status == HRF_OK)
        status = write_picture(r.thumbnail, &plan->thumbnail_png, &err);
    if (status == HRF_OK && r.kept != NULL)
        status = write_kept(r.kept, plan, &err);
    if (status != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (r.json)
        print_json(plan);
    else
        print_plan(plan, strcmp(mode, "slide") == 0);
    return 0;
}

const struct hrf_command hrf_cli_tile = {
    .name = "tile",
    .operands = "SLIDE",
    .summary = "tile one slide and show what was found",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
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

/* Without a summary they stay out of the list: jobs are started by `run`. */
const struct hrf_command hrf_cli_launch = { .name = "launch",
                                            .operands = "SPEC.json",
                                            .run = run_launch };
const struct hrf_command hrf_cli_tile_job = { .name = "tile-job",
                                              .operands = "SPEC.json",
                                              .run = run_tile_job };
