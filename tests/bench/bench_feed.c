/* bench_feed - whether the engine waits for patches: decoding alone, computing alone, both at once.
 *
 * bench_feed [--slide FILE --slide-mpp UM --mpp UM] [--model FILE|none] [--size PX] [--batch N]
 *            [--patches N] [--threads N] [--precision P] [--turns N] [--no-read-ahead]
 *
 * A disk that answers late: LD_PRELOAD=.../libslow_pread.so (tests/bench/slow_pread.c).
 *
 * Without --slide the slide is made: a tiled JPEG of tissue-like noise at the model's own
 * resolution, so a patch costs what it costs on a scan. Prints one JSON object of patches per
 * second, per processor second, and cores in use (processor time over time): of libjpeg-turbo
 * alone, which decodes every tile of the level in one thread and does nothing else (its patches are
 * the pixels of a patch in the level); of one reader and of all readers without a consumer, once
 * for bytes (what a GPU is fed) and once for floats; of the network on one batch again and again;
 * and of both together, with the part of the time that the network waited. Where compute is slower
 * than decoding, that part should be small; where it is not, all cores should be decoding.
 *
 * Decoding is measured --turns times, in turns with libjpeg-turbo alone: figures are medians, and
 * "of_decoder" is the median of a turn's patches per processor second over libjpeg-turbo's of the
 * same turn, so that it holds on a machine whose speed changes from second to second.
 */
#include "base/args.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/sort.h"
#include "engine/input/feed.h"
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"
#include "tests/unit/tiler/pyramid.h"
#include "tiler/slide/level_check.h"
#include "tiler/slide/patch_reader.h"
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_TURNS = 99 };

struct bench {
    const char *model, *path;
    enum hrf_precision precision;
    double slide_mpp, mpp;
    int64_t size, batch, n_patches, n_threads, n_turns;
    int64_t n_levels; /* of a slide that is made, each four times as coarse as the one before */
    bool no_read_ahead;
    struct hrf_slide *slide;
    struct hrf_tile_plan plan;
    struct hrf_session *session;
};

struct watch {
    double wall;
    clock_t processor;
};

static struct watch watch_start(void)
{
    return (struct watch){ .wall = hrf_clock_seconds(), .processor = clock() };
}

/* {"patches_per_second", "per_processor_second", "seconds", "cores"} of `n` patches since. */
static json_t *watch_stop(struct watch since, int64_t n)
{
    const double seconds = hrf_clock_seconds() - since.wall;
    const double used = (double)(clock() - since.processor) / CLOCKS_PER_SEC;
    json_t *result = json_object();
    hrf_json_put_number(result, "patches_per_second", (double)n / seconds);
    hrf_json_put_number(result, "per_processor_second", (double)n / used);
    hrf_json_put_number(result, "seconds", seconds);
    hrf_json_put_number(result, "cores", used / seconds);
    return result;
}

/* Levels 1, 4, 16 and 64 of the same waves, each with noise of its own. */
static void tissue(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context;
    const int noise = pyramid_noise(level, x / 2, y / 2, 0);
    const double side = (double)(1 << 2 * level);
    const double wave = sin((x + 0.5) * side * 0.013) + sin((y + 0.5) * side * 0.017);
    rgba[0] = (unsigned char)(180 + noise / 12 + 10 * wave);
    rgba[1] = (unsigned char)(110 + noise / 5 + 20 * wave);
    rgba[2] = (unsigned char)(165 + noise / 10);
}

static enum hrf_status make_slide(struct bench *b, const char *path, struct hrf_error *err)
{
    const int64_t columns = (int64_t)ceil(sqrt((double)b->n_patches));
    const uint32_t side = (uint32_t)(columns * b->size);
    struct pyramid p = { .tile = 512, .big = true, .jpeg = true, .pixel = tissue };
    for (int64_t s = side; p.n_levels < b->n_levels && s >= 1; s /= 4) {
        p.level[p.n_levels].width = p.level[p.n_levels].height = (uint32_t)s;
        p.n_levels++;
    }
    pyramid_write(&p, path);
    b->plan = (struct hrf_tile_plan){ .mpp_x = 0.5,
                                      .mpp_y = 0.5,
                                      .patch_mpp = 0.5,
                                      .patch_size = b->size,
                                      .n_patches = b->n_patches };
    b->plan.patches = hrf_alloc_array((size_t)b->n_patches, sizeof b->plan.patches[0]);
    if (b->plan.patches == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the patches");
    for (int64_t i = 0; i < b->n_patches; i++)
        b->plan.patches[i] = (struct hrf_patch){ .x = (int32_t)(i % columns * b->size),
                                                 .y = (int32_t)(i / columns * b->size) };
    return hrf_slide_open(path, &b->slide, err);
}

/* Patches side by side all over a slide that is there. */
static enum hrf_status take_slide(struct bench *b, struct hrf_error *err)
{
    HRF_TRY(hrf_slide_open(b->path, &b->slide, err));
    const struct hrf_slide_info *info = hrf_slide_info(b->slide);
    const int64_t step = llround((double)b->size * b->mpp / b->slide_mpp);
    const int64_t columns = info->width / step, rows = info->height / step;
    if (columns * rows < b->n_patches)
        b->n_patches = columns * rows;
    b->plan = (struct hrf_tile_plan){ .mpp_x = b->slide_mpp,
                                      .mpp_y = b->slide_mpp,
                                      .patch_mpp = b->mpp,
                                      .patch_size = b->size,
                                      .n_patches = b->n_patches };
    b->plan.patches = hrf_alloc_array((size_t)b->n_patches, sizeof b->plan.patches[0]);
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_CHECK_MEMORY(b->plan.patches != NULL, err, "no memory for the patches");
    HRF_TRY(hrf_patch_reader_create(b->slide, b->slide_mpp, b->slide_mpp, b->size, b->mpp, &reader,
                                    err));
    b->plan.read_level = hrf_patch_reader_level(reader);
    b->plan.read_downsample = info->level[b->plan.read_level].downsample;
    for (int64_t i = 0; i < b->n_patches; i++)
        b->plan.patches[i] = (struct hrf_patch){ .x = (int32_t)(i % columns * step),
                                                 .y = (int32_t)(i / columns * step) };
    return HRF_OK;
}

/* libjpeg-turbo on every tile of the level that patches are read from, in this thread. */
static enum hrf_status measure_decoder(const struct bench *b, json_t **out, struct hrf_error *err)
{
    const struct hrf_level_table *table = &b->slide->table.level[b->plan.read_level];
    const double scale = b->plan.patch_mpp /
                         (b->plan.mpp_x * b->slide->info.level[b->plan.read_level].downsample);
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc(
        (size_t)(table->tile_width * table->tile_height * 3));
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for a tile");
    if (table->offsets == NULL)
        return HRF_OK;
    const struct watch since = watch_start();
    for (int64_t i = 0; i < table->columns * table->rows; i++)
        if (table->lengths[i] > 0 &&
            !hrf_tile_table_decode(&b->slide->table, b->plan.read_level, i % table->columns,
                                   i / table->columns, 1, rgb))
            return hrf_error_set(err, HRF_E_USER, "tile %lld is damaged", (long long)i);
    const double side = (double)b->size * scale;
    *out = watch_stop(since, (int64_t)((double)table->width * (double)table->height / side / side));
    return HRF_OK;
}

static enum hrf_status make_session(struct bench *b, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    const struct hrf_shape shape = { .rank = 4, .dims = { b->batch, 3, b->size, b->size } };
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = b->precision,
                                               .n_threads = (int32_t)b->n_threads };
    HRF_TRY(hrf_onnx_read(b->model, &graph, err));
    HRF_TRY(hrf_graph_set_input_shape(graph, 0, &shape, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    return hrf_session_create(graph, &config, &b->session, err);
}

static enum hrf_status start_feed(const struct bench *b, int64_t n_readers, bool raw,
                                  struct hrf_feed **out, struct hrf_error *err)
{
    const struct hrf_feed_config config = { .slide = b->slide,
                                            .plan = &b->plan,
                                            .n_patches = b->n_patches,
                                            .batch = b->batch,
                                            .mean = { 0.5, 0.5, 0.5 },
                                            .std = { 0.25, 0.25, 0.25 },
                                            .forms = { { .raw = raw } },
                                            .n_readers = (int32_t)n_readers,
                                            .n_ahead = 4,
                                            .reads_ahead = !b->no_read_ahead };
    return hrf_feed_create(&config, out, err);
}

static enum hrf_status measure_decoding(const struct bench *b, int64_t n_readers, bool raw,
                                        json_t **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_feed) feed = NULL;
    struct hrf_feed_batch batch = { .n = 1 };
    const struct hrf_tile_counts before = hrf_tile_cache_counts(b->slide->cache);
    const struct watch since = watch_start();
    HRF_TRY(start_feed(b, n_readers, raw, &feed, err));
    while (batch.n > 0)
        HRF_TRY(hrf_feed_next(feed, &batch, err));
    *out = watch_stop(since, b->n_patches);
    hrf_json_put_int(*out, "readers", n_readers);
    hrf_json_put_text(*out, "form", raw ? "bytes" : "floats");
    const struct hrf_tile_counts counts = hrf_tile_cache_counts(b->slide->cache);
    hrf_json_put_int(*out, "tiles_decoded", counts.loads - before.loads);
    hrf_json_put_int(*out, "peak_tile_bytes", counts.peak_bytes);
    return HRF_OK;
}

/* ---- what comparing levels costs ---- */

struct showing {
    struct hrf_level_check *check;
    unsigned char *rgb;
    int64_t row_bytes;
};

static void show_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    const struct showing *showing = context;
    for (int64_t k = 0; k < n; k++) {
        if (k + HRF_ROWS_AHEAD < n)
            hrf_prefetch_row(rgb + (k + HRF_ROWS_AHEAD) * stride, showing->row_bytes);
        memcpy(showing->rgb + (row + k) * showing->row_bytes, rgb + k * stride,
               (size_t)showing->row_bytes);
    }
    hrf_level_check_take(showing->check, row, n, rgb, stride);
}

/* Reads every patch in this thread; `check` NULL: without comparing. Processor seconds. */
static enum hrf_status read_all(const struct bench *b, struct hrf_patch_reader *reader,
                                struct hrf_level_check *check, double *seconds,
                                struct hrf_error *err)
{
    int64_t ignored = 0;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)(b->size * b->size), 3);
    struct showing showing = { check, rgb, 3 * b->size };
    for (int64_t i = 0; i < b->n_patches; i++)
        HRF_TRY(hrf_patch_reader_expect(reader, b->plan.patches[i].x, b->plan.patches[i].y, 0,
                                        b->size, err));
    const clock_t start = clock();
    for (int64_t i = 0; i < b->n_patches; i++) {
        const struct hrf_patch *patch = &b->plan.patches[i];
        hrf_level_check_begin(check, 0);
        HRF_TRY(hrf_patch_reader_visit(reader, patch->x, patch->y, 0, b->size, show_rows, &showing,
                                       &ignored, err));
        HRF_TRY(hrf_level_check_end(check, patch->x, patch->y, err));
        hrf_patch_reader_done(reader, patch->x, patch->y, 0, b->size);
    }
    *seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    hrf_patch_reader_expect_none(reader);
    return HRF_OK;
}

/* The median of what comparing adds to reading, as a share of it. */
static enum hrf_status measure_check(const struct bench *b, json_t *result, struct hrf_error *err)
{
    double shares[MAX_TURNS];
    for (int64_t i = 0; i < b->n_turns; i++) {
        HRF_AUTO(hrf_patch_reader) reader = NULL;
        HRF_AUTO(hrf_level_check) check = NULL;
        double alone = 0, both = 0;
        HRF_TRY(hrf_patch_reader_create(b->slide, b->plan.mpp_x, b->plan.mpp_y, b->size,
                                        b->plan.patch_mpp, &reader, err));
        HRF_TRY(hrf_level_check_create(b->slide, b->plan.mpp_x, b->plan.mpp_y, b->size,
                                       b->plan.patch_mpp, &check, err));
        if (check == NULL)
            return HRF_OK;
        HRF_TRY(read_all(b, reader, NULL, &alone, err));
        HRF_TRY(read_all(b, reader, check, &both, err));
        shares[i] = both / alone - 1;
    }
    hrf_json_put_number(result, "level_check_share", hrf_median(shares, (size_t)b->n_turns));
    return HRF_OK;
}

/* ---- turns ---- */

enum { N_FORMS = 5 }; /* libjpeg-turbo, bytes and floats by one reader and by all */

static double figure(const json_t *result, const char *key)
{
    return json_number_value(json_object_get(result, key));
}

/* The median of a figure over the turns; of its ratio to the decoder's if there is `over`. */
static double median(json_t *const *turns, json_t *const *over, int64_t n, const char *key)
{
    double values[MAX_TURNS];
    for (int64_t i = 0; i < n; i++)
        values[i] = figure(turns[i], key) / (over != NULL ? figure(over[i], key) : 1);
    return hrf_median(values, (size_t)n);
}

/* The last turn's result with the medians of all. */
static json_t *summary(json_t *const *turns, json_t *const *decoder, int64_t n)
{
    static const char *const keys[] = { "patches_per_second", "per_processor_second", "seconds",
                                        "cores" };
    json_t *result = json_copy(turns[n - 1]);
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        hrf_json_put_number(result, keys[k], median(turns, NULL, n, keys[k]));
    if (decoder != NULL)
        hrf_json_put_number(result, "of_decoder",
                            median(turns, decoder, n, "per_processor_second"));
    return result;
}

static enum hrf_status measure_turn(const struct bench *b, int64_t turn,
                                    json_t *found[N_FORMS][MAX_TURNS], struct hrf_error *err)
{
    HRF_TRY(measure_decoder(b, &found[0][turn], err));
    for (int form = 1; form < N_FORMS; form++)
        if (form % 2 == 1 || b->n_threads > 1)
            HRF_TRY(measure_decoding(b, form % 2 == 1 ? 1 : b->n_threads, form < 3,
                                     &found[form][turn], err));
    return HRF_OK;
}

static enum hrf_status measure_turns(const struct bench *b, json_t *result, struct hrf_error *err)
{
    json_t *found[N_FORMS][MAX_TURNS] = { { NULL } };
    json_t *decoding = json_array();
    enum hrf_status status = HRF_OK;
    for (int64_t turn = 0; turn < b->n_turns && status == HRF_OK; turn++)
        status = measure_turn(b, turn, found, err);
    const bool has_decoder = status == HRF_OK && found[0][0] != NULL;
    hrf_json_put(result, "decoder",
                 has_decoder ? summary(found[0], NULL, b->n_turns) : json_null());
    for (int form = 1; form < N_FORMS && status == HRF_OK; form++)
        if (found[form][0] != NULL)
            hrf_json_add(decoding, summary(found[form], has_decoder ? found[0] : NULL, b->n_turns));
    hrf_json_put(result, "decoding", decoding);
    for (int form = 0; form < N_FORMS; form++)
        for (int64_t turn = 0; turn < b->n_turns; turn++)
            json_decref(found[form][turn]);
    return status;
}

static enum hrf_status measure_compute(const struct bench *b, json_t **out, struct hrf_error *err)
{
    const int64_t n = (b->n_patches + b->batch - 1) / b->batch;
    HRF_TRY(hrf_session_run(b->session, err)); /* the first one warms up */
    const struct watch since = watch_start();
    for (int64_t i = 0; i < n; i++)
        HRF_TRY(hrf_session_run(b->session, err));
    *out = watch_stop(since, n * b->batch);
    return HRF_OK;
}

static enum hrf_status measure_both(const struct bench *b, json_t **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_feed) feed = NULL;
    double first_wait = 0;
    const struct watch since = watch_start();
    HRF_TRY(start_feed(b, b->n_threads, false, &feed, err));
    for (int64_t done = 0; done < b->n_patches;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        if (done == 0)
            first_wait = hrf_feed_times(feed).wait;
        hrf_session_feed(b->session, batch.pixels[0]);
        HRF_TRY(hrf_session_run(b->session, err));
        done += batch.n;
    }
    const double seconds = hrf_clock_seconds() - since.wall;
    const struct hrf_feed_times times = hrf_feed_times(feed);
    *out = watch_stop(since, b->n_patches);
    hrf_json_put_number(*out, "decode_seconds", times.decode);
    hrf_json_put_number(*out, "prepare_seconds", times.prepare);
    hrf_json_put_number(*out, "wait_fraction", times.wait / seconds);
    /* There is nothing to do before the first batch is there. */
    hrf_json_put_number(*out, "wait_fraction_after_the_first_batch",
                        (times.wait - first_wait) / seconds);
    return HRF_OK;
}

static enum hrf_status measure(struct bench *b, const char *path, json_t *result,
                               struct hrf_error *err)
{
    json_t *part = NULL;
    HRF_TRY(b->path != NULL ? take_slide(b, err) : make_slide(b, path, err));
    HRF_TRY(measure_check(b, result, err));
    HRF_TRY(measure_turns(b, result, err));
    if (strcmp(b->model, "none") == 0)
        return HRF_OK;
    HRF_TRY(make_session(b, err));
    HRF_TRY(measure_compute(b, &part, err));
    hrf_json_put(result, "compute", part);
    HRF_TRY(measure_both(b, &part, err));
    hrf_json_put(result, "both", part);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct bench b = { .model = "models/demo.onnx",
                       .precision = HRF_FP32,
                       .slide_mpp = 0.25,
                       .mpp = 0.25,
                       .size = 256,
                       .batch = 16,
                       .n_patches = 256,
                       .n_turns = 1,
                       .n_levels = 1,
                       .n_threads = hrf_process_cpu_count() };
    const struct hrf_option options[] = {
        { "model", "FILE", "ONNX (models/demo.onnx); none: decoding alone", HRF_OPTION(&b.model) },
        { "slide", "FILE", "read this slide (one is made)", HRF_OPTION(&b.path) },
        { "slide-mpp", "UM", "its resolution", HRF_OPTION_NUMBER(&b.slide_mpp, 0.001, 100) },
        { "mpp", "UM", "of patches of it", HRF_OPTION_NUMBER(&b.mpp, 0.001, 100) },
        { "precision", "P", "fp32, fp16 or bf16",
          HRF_OPTION_WORDS(&b.precision, hrf_precision_names) },
        { "size", "PX", "of a patch", HRF_OPTION_NUMBER(&b.size, 1, HRF_COUNT_LIMIT) },
        { "batch", "N", "patches at once", HRF_OPTION_NUMBER(&b.batch, 1, HRF_COUNT_LIMIT) },
        { "patches", "N", "in all", HRF_OPTION_NUMBER(&b.n_patches, 1, HRF_COUNT_LIMIT) },
        { "turns", "N", "measure decoding so often",
          HRF_OPTION_NUMBER(&b.n_turns, 1, HRF_COUNT_LIMIT) },
        { "levels", "N", "of the slide that is made; more are compared",
          HRF_OPTION_NUMBER(&b.n_levels, 1, 16) },
        { "no-read-ahead", NULL, "each reader reads its tiles itself",
          HRF_OPTION(&b.no_read_ahead) },
        { "threads", "N", "readers, and of the network (all cores)",
          HRF_OPTION_NUMBER(&b.n_threads, 0, 4096) },
        { NULL },
    };
    const struct hrf_args args = hrf_args_parse("bench_feed", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (b.size < 16 || b.size > 4096 || b.batch < 1 || b.n_patches < 1 || b.n_patches > 100000 ||
        b.n_threads < 1 || b.n_levels < 1 || b.n_levels > 4 || b.n_turns < 1 ||
        b.n_turns > MAX_TURNS) {
        fprintf(stderr,
                "bench_feed: a size of 16 to 4096 px, 1 to 100000 patches, 1 to %d turns, "
                "1 to 4 levels, a batch and threads from 1\n",
                MAX_TURNS);
        return 2;
    }
    char folder[64], path[128];
    struct hrf_error err = { .status = HRF_OK };
    pyramid_folder(folder);
    pyramid_path(folder, "slide.tif", path);
    HRF_AUTO_JSON result = json_object();
    hrf_json_put_text(result, "model", b.model);
    hrf_json_put_text(result, "precision", hrf_precision_name(b.precision));
    hrf_json_put_int(result, "size", b.size);
    hrf_json_put_int(result, "batch", b.batch);
    hrf_json_put_int(result, "patches", b.n_patches);
    hrf_json_put_int(result, "threads", b.n_threads);
    const enum hrf_status status = measure(&b, path, result, &err);
    hrf_session_destroy(b.session);
    hrf_slide_close(b.slide);
    hrf_free(b.plan.patches);
    pyramid_remove_folder(folder);
    if (status != HRF_OK) {
        fprintf(stderr, "bench_feed: %s\n", err.text);
        return 1;
    }
    HRF_AUTO_FREE char *text = hrf_json_text(result);
    printf("%s\n", text != NULL ? text : "{}");
    return 0;
}

int main(int argc, char **argv)
{
    const struct hrf_command command = {
        .name = "", .operands = "", .summary = "whether the engine waits for patches", .run = run
    };
    return run(&command, argc - 1, argv + 1);
}
