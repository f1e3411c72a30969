/* bench_feed - whether the engine waits for patches: decoding alone, computing alone, both at once.
 *
 * bench_feed [--model FILE] [--size PX] [--batch N] [--patches N] [--threads N] [--precision P]
 *
 * The slide is made: a tiled JPEG of tissue-like noise at the model's own resolution, so a patch
 * costs what it costs on a scan. Prints one JSON object: patches per second and cores in use
 * (processor time over time) of one reader and of all readers without a consumer, there with the
 * patches and the processor time of each reader by itself; of the network on one batch again and
 * again, and of both together, with the part of the time that the network waited. Where
 * compute is slower than decoding, that part should be small; where it is not, all cores should be
 * decoding.
 */
#include "base/args.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own_process.h"
#include "engine/input/feed.h"
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"
#include "tests/unit/tiler/pyramid.h"
#include "tiler/slide/patch_reader.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct bench {
    const char *model, *precision;
    int64_t size, batch, n_patches, n_threads;
    struct hrf_slide *slide;
    struct hrf_tile_plan plan;
    struct hrf_session *session;
};

/* What each reader thread has used since it began, kept at the end of every read: the linker puts
 * __wrap_ in the place of what the feed calls. */
enum { MOST_READERS = 256 };
struct reader_use {
    double seconds; /* of a processor */
    int64_t n_patches;
};
static struct reader_use uses[MOST_READERS];
static atomic_int n_uses;

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum hrf_status __real_hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0,
                                             int64_t y0, unsigned char *rgb, int64_t *decode_ns,
                                             int64_t *resample_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0,
                                             int64_t y0, unsigned char *rgb, int64_t *decode_ns,
                                             int64_t *resample_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0,
                                             int64_t y0, unsigned char *rgb, int64_t *decode_ns,
                                             int64_t *resample_ns, struct hrf_error *err)
{
    static _Thread_local int who = -1;
    if (who < 0)
        who = atomic_fetch_add(&n_uses, 1);
    const enum hrf_status status = __real_hrf_patch_reader_read(reader, x0, y0, rgb, decode_ns,
                                                                resample_ns, err);
    if (who < MOST_READERS) {
        uses[who].seconds = thread_seconds();
        uses[who].n_patches++;
    }
    return status;
}

/* The threads from `first` on, in the order in which they began; they are done. */
static json_t *reader_uses(int first)
{
    json_t *list = json_array();
    const int end = atomic_load(&n_uses) < MOST_READERS ? atomic_load(&n_uses) : MOST_READERS;
    for (int i = first; i < end; i++) {
        json_t *use = json_pack("{sI}", "patches", (json_int_t)uses[i].n_patches);
        json_object_set_new(use, "processor_seconds", hrf_json_number(uses[i].seconds));
        json_array_append_new(list, use);
    }
    return list;
}

struct watch {
    double wall;
    clock_t processor;
};

static struct watch watch_start(void)
{
    return (struct watch){ .wall = hrf_clock_seconds(), .processor = clock() };
}

/* {"patches_per_second", "seconds", "cores"} of `n` patches since. */
static json_t *watch_stop(struct watch since, int64_t n)
{
    const double seconds = hrf_clock_seconds() - since.wall;
    const double used = (double)(clock() - since.processor) / CLOCKS_PER_SEC;
    json_t *result = json_object();
    json_object_set_new(result, "patches_per_second", hrf_json_number((double)n / seconds));
    json_object_set_new(result, "seconds", hrf_json_number(seconds));
    json_object_set_new(result, "cores", hrf_json_number(used / seconds));
    return result;
}

static void tissue(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context;
    const int noise = pyramid_noise(level, x / 2, y / 2, 0);
    const double wave = sin(x * 0.013) + sin(y * 0.017);
    rgba[0] = (unsigned char)(180 + noise / 12 + 10 * wave);
    rgba[1] = (unsigned char)(110 + noise / 5 + 20 * wave);
    rgba[2] = (unsigned char)(165 + noise / 10);
}

static enum hrf_status make_slide(struct bench *b, const char *path, struct hrf_error *err)
{
    const int64_t columns = (int64_t)ceil(sqrt((double)b->n_patches));
    const uint32_t side = (uint32_t)(columns * b->size);
    const struct pyramid p = { .n_levels = 1,
                               .level = { { side, side } },
                               .tile = 512,
                               .big = true,
                               .jpeg = true,
                               .pixel = tissue };
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

static enum hrf_status start_feed(const struct bench *b, int64_t n_readers, struct hrf_feed **out,
                                  struct hrf_error *err)
{
    const struct hrf_feed_config config = { .slide = b->slide,
                                            .plan = &b->plan,
                                            .n_patches = b->n_patches,
                                            .batch = b->batch,
                                            .mean = { 0.5, 0.5, 0.5 },
                                            .std = { 0.25, 0.25, 0.25 },
                                            .n_readers = (int32_t)n_readers,
                                            .n_ahead = 4 };
    return hrf_feed_create(&config, out, err);
}

static enum hrf_status measure_decoding(const struct bench *b, int64_t n_readers, json_t *list,
                                        struct hrf_error *err)
{
    HRF_AUTO(hrf_feed) feed = NULL;
    struct hrf_feed_batch batch = { .n = 1 };
    const int first = atomic_load(&n_uses);
    const struct watch since = watch_start();
    HRF_TRY(start_feed(b, n_readers, &feed, err));
    while (batch.n > 0)
        HRF_TRY(hrf_feed_next(feed, &batch, err));
    json_t *result = watch_stop(since, b->n_patches);
    json_object_set_new(result, "readers", json_integer(n_readers));
    json_object_set_new(result, "each_reader", reader_uses(first));
    json_array_append_new(list, result);
    return HRF_OK;
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
    HRF_TRY(start_feed(b, b->n_threads, &feed, err));
    for (int64_t done = 0; done < b->n_patches;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        if (done == 0)
            first_wait = hrf_feed_times(feed).wait;
        memcpy(hrf_session_input(b->session, 0), batch.pixels,
               (size_t)(batch.n * b->size * b->size * 3) * sizeof(float));
        HRF_TRY(hrf_session_run(b->session, err));
        done += batch.n;
    }
    const double seconds = hrf_clock_seconds() - since.wall;
    const struct hrf_feed_times times = hrf_feed_times(feed);
    *out = watch_stop(since, b->n_patches);
    json_object_set_new(*out, "decode_seconds", hrf_json_number(times.decode));
    json_object_set_new(*out, "prepare_seconds", hrf_json_number(times.prepare));
    json_object_set_new(*out, "wait_fraction", hrf_json_number(times.wait / seconds));
    /* There is nothing to do before the first batch is there. */
    json_object_set_new(*out, "wait_fraction_after_the_first_batch",
                        hrf_json_number((times.wait - first_wait) / seconds));
    return HRF_OK;
}

static enum hrf_status measure(struct bench *b, const char *path, json_t *result,
                               struct hrf_error *err)
{
    json_t *decoding = json_array(), *part = NULL;
    json_object_set_new(result, "decoding", decoding);
    HRF_TRY(make_slide(b, path, err));
    HRF_TRY(make_session(b, err));
    HRF_TRY(measure_decoding(b, 1, decoding, err));
    if (b->n_threads > 1)
        HRF_TRY(measure_decoding(b, b->n_threads, decoding, err));
    HRF_TRY(measure_compute(b, &part, err));
    json_object_set_new(result, "compute", part);
    HRF_TRY(measure_both(b, &part, err));
    json_object_set_new(result, "both", part);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct bench b = { .model = "models/demo.onnx",
                       .precision = "fp32",
                       .size = 256,
                       .batch = 16,
                       .n_patches = 256,
                       .n_threads = hrf_process_cpu_count() };
    const struct hrf_option options[] = {
        { "model", "FILE", "ONNX (models/demo.onnx)", HRF_OPTION_TEXT, &b.model },
        { "precision", "P", "fp32, fp16 or bf16", HRF_OPTION_TEXT, &b.precision },
        { "size", "PX", "of a patch (256)", HRF_OPTION_INT, &b.size },
        { "batch", "N", "patches at once (16)", HRF_OPTION_INT, &b.batch },
        { "patches", "N", "in all (256)", HRF_OPTION_INT, &b.n_patches },
        { "threads", "N", "readers, and of the network (all cores)", HRF_OPTION_INT, &b.n_threads },
        { NULL },
    };
    const struct hrf_args args = hrf_args_parse("bench_feed", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (b.size < 16 || b.size > 4096 || b.batch < 1 || b.n_patches < 1 || b.n_patches > 10000 ||
        b.n_threads < 1) {
        fprintf(stderr, "bench_feed: a size of 16 to 4096 px, 1 to 10000 patches, a batch and "
                        "threads from 1\n");
        return 2;
    }
    char folder[64], path[128];
    struct hrf_error err = { .status = HRF_OK };
    pyramid_folder(folder);
    pyramid_path(folder, "slide.tif", path);
    HRF_AUTO_JSON result = json_pack("{sosssIsIsIsI}", "model", hrf_json_string(b.model),
                                     "precision", b.precision, "size", (json_int_t)b.size, "batch",
                                     (json_int_t)b.batch, "patches", (json_int_t)b.n_patches,
                                     "threads", (json_int_t)b.n_threads);
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
