/* bench_tiler - what it costs to find the tissue of a large slide and to read its patches.
 *
 * bench_tiler [--side PX] [--runs N]   a made pyramid of PX x PX level-0 px (default 100,000) at
 *                                      0.25 um/px: mask and plan by each method
 * bench_tiler SLIDE [MPP]              patches of a slide of yours: decode and resample per patch
 *
 * Prints one JSON object. The pyramid is a tiled JPEG BigTIFF; its levels finer than 8 um/px hold a
 * few tiles only (the others are left out), since no plan reads them: 20 MB for 10 gigapixels. It
 * is written by a child process, so that the peak memory is the tiler's own.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "tests/unit/tiler/pyramid.h"
#include "tiler/plan/tile.h"
#include "tiler/slide/slide.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RUNS = 99 };
static const double slide_mpp = 0.25, overview_mpp = 8;

/* Blobs of tissue about 4 mm across, with nuclei-like noise. */
static void tissue(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    const struct pyramid *p = context;
    double d = p->level[0].width / (double)p->level[level].width * slide_mpp / 1000; /* mm */
    double wave = sin(x * d * 1.1) + sin(y * d * 0.9) + 0.5 * sin((x + y) * d * 2.3);
    int noise = pyramid_noise(level, x, y, 0);
    bool inside = wave > 0.6;
    rgba[0] = (unsigned char)(inside ? 190 + noise / 16 : 242 + noise / 64);
    rgba[1] = (unsigned char)(inside ? 110 + noise / 5 : 241 + noise / 64);
    rgba[2] = (unsigned char)(inside ? 175 + noise / 16 : 243 + noise / 64);
}

static bool is_left_out(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context; /* each level has its first tile: one without any is no level to OpenSlide */
    return column + row > 0 && slide_mpp * (1 << level) < overview_mpp &&
           (column % 16 != 3 || row % 16 != 5);
}

static void write_slide(const char *path, uint32_t side)
{
    struct pyramid p = { .tile = 512,
                         .big = true,
                         .jpeg = true,
                         .x_resolution = 10000 / slide_mpp,
                         .y_resolution = 10000 / slide_mpp,
                         .resolution_unit = 3,
                         .pixel = tissue,
                         .is_sparse = is_left_out,
                         .context = &p };
    pyramid_halve(&p, side, side, 512);
    pid_t child = fork();
    if (child == 0) {
        pyramid_write(&p, path);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
        fprintf(stderr, "bench_tiler: cannot write '%s'\n", path);
        _exit(1);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *measure_method(const char *path, enum hrf_tissue_method method, int n_runs)
{
    const struct hrf_workflow_tiler params = {
        .patch = { .size = 256, .stride = 256, .mpp = 0.5 },
        .tissue = { .method = method, .min_tissue = 0.5, .min_patches = 16 }
    };
    double seconds[MAX_RUNS];
    json_t *result = json_object();
    clock_t processor = clock();
    for (int i = 0; i < n_runs; i++) {
        HRF_AUTO(hrf_tile_plan) plan = NULL;
        struct hrf_error err = { .status = HRF_OK };
        double start = hrf_clock_seconds();
        if (hrf_tile_slide(path, &params, 0, 0, NULL, &plan, &err) != HRF_OK) {
            fprintf(stderr, "bench_tiler: %s\n", err.text);
            _exit(1);
        }
        seconds[i] = hrf_clock_seconds() - start;
        hrf_json_put_int(result, "patches", plan->n_patches);
        hrf_json_put_number(result, "tissue_fraction", plan->tissue_fraction);
    }
    double used = (double)(clock() - processor) / CLOCKS_PER_SEC / n_runs;
    qsort(seconds, (size_t)n_runs, sizeof seconds[0], compare_doubles);
    hrf_json_put_text(result, "method", hrf_tissue_method_name(method));
    hrf_json_put_number(result, "seconds", seconds[n_runs / 2]);
    hrf_json_put_number(result, "seconds_min", seconds[0]);
    hrf_json_put_number(result, "seconds_max", seconds[n_runs - 1]);
    hrf_json_put_number(result, "processor_seconds", used);
    /* Of the process so far: methods run in the order of what they need. */
    hrf_json_put_int(result, "peak_memory_bytes", hrf_process_peak_memory());
    return result;
}

static json_t *bench_plans(uint32_t side, int n_runs)
{
    static const enum hrf_tissue_method methods[] = { HRF_TISSUE_CLAM, HRF_TISSUE_NCRF,
                                                      HRF_TISSUE_WSINFER, HRF_TISSUE_OTSU };
    char folder[64], path[128];
    pyramid_folder(folder);
    pyramid_path(folder, "large.tif", path);
    write_slide(path, side);
    json_t *result = json_object(), *plans = json_array();
    hrf_json_put_int(result, "side", side);
    hrf_json_put_number(result, "mpp", slide_mpp);
    hrf_json_put_int(result, "file_bytes", hrf_path_size(path));
    hrf_json_put_int(result, "runs", n_runs);
    for (int i = 0; i < 4; i++)
        hrf_json_add(plans, measure_method(path, methods[i], n_runs));
    hrf_json_put(result, "plans", plans);
    pyramid_remove_folder(folder);
    return result;
}

static enum hrf_status read_patches(struct hrf_slide *slide, double mpp, double want,
                                    json_t *result, struct hrf_error *err)
{
    enum { SIZE = 256, MAX = 200 };
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)SIZE * SIZE * 3);
    if (rgb == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a patch");
    HRF_TRY(hrf_patch_reader_create(slide, mpp, mpp, SIZE, want, &reader, err));
    int64_t step = (int64_t)(SIZE * want / mpp), decode = 0, resample = 0, n = 0;
    for (int64_t y = 0; y + step <= info->height && n < MAX; y += step)
        for (int64_t x = 0; x + step <= info->width && n < MAX; x += step, n++)
            HRF_TRY(hrf_patch_reader_read(reader, x, y, rgb, &decode, &resample, err));
    n = n > 0 ? n : 1;
    hrf_json_put_number(result, "mpp", want);
    hrf_json_put_int(result, "level", hrf_patch_reader_level(reader));
    hrf_json_put_int(result, "patches", n);
    hrf_json_put_number(result, "decode_ms", (double)decode / 1e6 / (double)n);
    hrf_json_put_number(result, "resample_ms", (double)resample / 1e6 / (double)n);
    return HRF_OK;
}

static enum hrf_status bench_patches(const char *path, double mpp, json_t *list,
                                     struct hrf_error *err)
{
    static const double ratios[] = { 1, 1.3, 2, 0.7 };
    HRF_AUTO(hrf_slide) slide = NULL;
    enum hrf_mpp_source source;
    double mpp_x, mpp_y;
    HRF_TRY(hrf_slide_open(path, &slide, err));
    HRF_TRY(hrf_slide_resolution(slide, mpp, 0, &mpp_x, &mpp_y, &source, err));
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        json_t *result = json_object();
        hrf_json_add(list, result);
        HRF_TRY(read_patches(slide, mpp_x, mpp_x * ratios[i], result, err));
    }
    return HRF_OK;
}

int main(int argc, char **argv)
{
    uint32_t side = 100000;
    int n_runs = 5, i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        long value = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--side") == 0 && value >= 512 && value <= 1000000)
            side = (uint32_t)value;
        else if (strcmp(argv[i], "--runs") == 0 && value >= 1 && value <= MAX_RUNS)
            n_runs = (int)value;
        else
            break;
    }
    if (i < argc && strncmp(argv[i], "--", 2) == 0) {
        fprintf(stderr, "usage: bench_tiler [--side PX] [--runs N] | SLIDE [MPP]\n");
        return 2;
    }
    HRF_AUTO_JSON result = NULL;
    if (i < argc) {
        struct hrf_error err = { .status = HRF_OK };
        result = json_array();
        double mpp = i + 1 < argc ? strtod(argv[i + 1], NULL) : 0;
        if (bench_patches(argv[i], mpp, result, &err) != HRF_OK) {
            fprintf(stderr, "bench_tiler: %s\n", err.text);
            return 1;
        }
    } else {
        result = bench_plans(side, n_runs);
    }
    return json_dumpf(result, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 && puts("") >= 0
               ? 0
               : 1;
}
