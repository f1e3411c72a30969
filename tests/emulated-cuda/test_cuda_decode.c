/* Tiles of a slide decoded by the (emulated) GPU: the network's outputs have the bits of those
 * whose tiles the CPU decodes, and whatever nvJPEG does wrong is told. HRF_EMULATED_NVJPEG says
 * what. */
#include "tests/unit/unit.h"

#include "engine/input/feed.h"
#include "engine/input/normalise.h"
#include "engine/model/model.h"
#include "engine/run/session.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/unit/tiler/pyramid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATCH = 32, N_PATCHES = 22, BATCH = 4, CLASSES = 2, SIDE = 400 };
enum { OUTPUTS = CLASSES * PATCH * PATCH }; /* of a patch: a map */

static struct hrf_patch patches[N_PATCHES];
static struct hrf_tile_plan plan = { .slide_path = (char *)(uintptr_t) "a slide",
                                     .mpp_x = 0.5,
                                     .mpp_y = 0.5,
                                     .patch_size = PATCH,
                                     .patch_mpp = 0.5,
                                     .n_patches = N_PATCHES,
                                     .patches = patches };
static const double mean[3] = { 0.7, 0.5, 0.6 }, deviation[3] = { 0.2, 0.3, 0.25 };

static void stained_pixel(const void *context, int level, uint32_t x, uint32_t y,
                          unsigned char rgba[4])
{
    (void)context;
    (void)level;
    const bool is_nucleus = (x / 9 + y / 7) % 5 == 0;
    const int light = pyramid_noise(0, x, y, 0) / 6 - (is_nucleus ? 60 : 0);
    rgba[0] = (unsigned char)(200 + light);
    rgba[1] = (unsigned char)(140 + light + (int)x % 30);
    rgba[2] = (unsigned char)(170 + light - (int)y % 30);
}

static struct hrf_graph *make_network(void)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_model_make("unet:2,4", CLASSES, PATCH, 1, &graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    struct hrf_shape shape = graph->values[graph->inputs[0]].shape;
    shape.dims[0] = BATCH;
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, &err), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, &err), HRF_OK);
    assert_int_equal(hrf_shape_count(&graph->values[graph->outputs[0]].shape), BATCH * OUTPUTS);
    return graph;
}

static int make_slide(void **state)
{
    struct pyramid p = {
        .n_levels = 1, .level = { { SIDE, SIDE } }, .tile = 64, .jpeg = true, .pixel = stained_pixel
    };
    char path[128];
    make_test_folder(NULL);
    pyramid_path(test_folder, "slide.tif", path);
    pyramid_write(&p, path);
    p.rgb = true;
    pyramid_path(test_folder, "rgb.tif", path);
    pyramid_write(&p, path);
    for (int i = 0; i < N_PATCHES; i++) /* on one to four tiles, and over the edge */
        patches[i] = (struct hrf_patch){ .x = i % 5 * 91 - 9, .y = i / 5 * 83 + 2 };
    setenv("HRF_NVJPEG", HRF_EMULATED_NVJPEG_FILE, 1);
    return put_it_in_place(state);
}

static int remove_all(void **state)
{
    return remove_test_folder(NULL) + tidy_up(state);
}

static struct hrf_session *make_session(enum hrf_precision precision)
{
    const struct hrf_pixel_form form = hrf_normalise_form(mean, deviation);
    HRF_AUTO(hrf_graph) graph = make_network();
    struct hrf_session *session = NULL;
    struct hrf_error err = { .text = "" };
    const struct hrf_session_config config = {
        .device = "cuda", .precision = precision, .pixels = &form, .borrows_pixels = true
    };
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return session;
}

static enum hrf_status take(void *session, size_t n, void **out, struct hrf_error *err)
{
    return hrf_session_take_host(session, n, out, err);
}

static void give(void *session, void *memory)
{
    hrf_session_give_host(session, memory);
}

static enum hrf_status finish(struct hrf_session *session, const struct hrf_feed_batch *batch,
                              float *out, struct hrf_error *err)
{
    HRF_TRY(hrf_session_finish(session, err));
    for (int64_t i = 0; i < batch->n; i++)
        memcpy(out + batch->patches[i] * OUTPUTS, hrf_session_output(session, 0) + i * OUTPUTS,
               OUTPUTS * sizeof *out);
    return HRF_OK;
}

/* All patches, two batches under way, as a worker scores them. */
static enum hrf_status run_feed(struct hrf_session *session, struct hrf_feed *feed, float *out,
                                struct hrf_error *err)
{
    struct hrf_feed_batch oldest = { .n = 0 };
    for (;;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        if (batch.n > 0) {
            if (batch.tiles != NULL)
                hrf_session_feed_tiles(session, batch.tiles);
            else
                hrf_session_feed(session, batch.pixels[0]);
            HRF_TRY(hrf_session_start(session, err));
        }
        if (oldest.n > 0)
            HRF_TRY(finish(session, &oldest, out, err));
        if (batch.n == 0)
            return HRF_OK;
        oldest = batch;
    }
}

static const char *slide_name = "slide.tif";

static enum hrf_status score(struct hrf_session *session, bool gives_tiles,
                             float out[N_PATCHES * OUTPUTS], struct hrf_error *err)
{
    char path[128];
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_feed) feed = NULL;
    pyramid_path(test_folder, slide_name, path);
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    struct hrf_feed_config config = { .slide = slide,
                                      .plan = &plan,
                                      .n_patches = N_PATCHES,
                                      .batch = BATCH,
                                      .forms = { hrf_session_feed_form(session) },
                                      .n_forms = 1,
                                      .n_readers = 2,
                                      .n_held = hrf_session_depth(session),
                                      .memory = { take, give, session },
                                      .gives_tiles = gives_tiles };
    memcpy(config.mean, mean, sizeof mean);
    memcpy(config.std, deviation, sizeof deviation);
    assert_int_equal(hrf_feed_create(&config, &feed, NULL), HRF_OK);
    const enum hrf_status status = run_feed(session, feed, out, err);
    if (status != HRF_OK)
        hrf_session_drop(session);
    return status;
}

static void check_decoded(enum hrf_precision precision)
{
    static float by_cpu[N_PATCHES * OUTPUTS], by_gpu[N_PATCHES * OUTPUTS];
    HRF_AUTO(hrf_session) session = make_session(precision);
    struct hrf_error err = { .text = "" };
    const char *name = NULL;
    setenv("HRF_EMULATED_NVJPEG", "", 1);
    assert_int_equal(hrf_session_open_decoder(session, &name, &err), HRF_OK);
    assert_string_equal(name, "nvJPEG 13.3.2 (JPEG engines)");
    assert_int_equal(score(session, false, by_cpu, &err), HRF_OK);
    for (int again = 0; again < 2; again++) { /* kernel by kernel, and replayed */
        memset(by_gpu, 0, sizeof by_gpu);
        if (score(session, true, by_gpu, &err) != HRF_OK)
            fail_msg("%s", err.text);
        assert_memory_equal(by_cpu, by_gpu, sizeof by_cpu);
    }
    assert_int_equal(score(session, false, by_gpu, &err), HRF_OK); /* and pixels again */
    assert_memory_equal(by_cpu, by_gpu, sizeof by_cpu);
}

static void outputs_have_the_bits_of_tiles_that_the_cpu_decodes(void **state)
{
    (void)state;
    check_decoded(HRF_FP32);
    slide_name = "rgb.tif";
    check_decoded(HRF_BF16);
    slide_name = "slide.tif";
}

static void another_decoder_passes_and_a_wrong_one_is_told(void **state)
{
    static const struct {
        const char *how, *text; /* NULL: it passes */
    } rows[] = { { "plain", NULL },
                 { "swapped", "nvJPEG's red of a patch differs by " },
                 { "shifted", "of 255 in the mean" },
                 { "skips=1",
                   "nvJPEG says that it has decoded tile 1, 0, and has not written all" },
                 { "half=2", "and has not written all of it" },
                 { "black=3", "and gives black for a picture" },
                 { "bad=3", "nvJPEG, decoding a batch of tiles: BAD_JPEG (3)" },
                 { "init-fails", "IMPLEMENTATION_NOT_SUPPORTED (9)" } };
    (void)state;
    HRF_AUTO(hrf_session) session = make_session(HRF_FP32);
    const char *name = NULL;
    static float out[N_PATCHES * OUTPUTS], sound[N_PATCHES * OUTPUTS];
    setenv("HRF_EMULATED_NVJPEG", "", 1);
    assert_int_equal(hrf_session_open_decoder(session, &name, NULL), HRF_OK);
    assert_int_equal(score(session, true, sound, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hrf_error err = { .text = "" };
        setenv("HRF_EMULATED_NVJPEG", rows[i].how, 1);
        const enum hrf_status status = score(session, true, out, &err);
        printf("%-10s %s\n", rows[i].how, err.text);
        assert_int_equal(status == HRF_OK, rows[i].text == NULL);
        if (rows[i].text != NULL)
            assert_non_null(strstr(err.text, rows[i].text));
        else
            assert_memory_not_equal(out, sound, sizeof out);
        setenv("HRF_EMULATED_NVJPEG", "", 1); /* the next slide is not harmed */
        assert_int_equal(score(session, true, out, &err), HRF_OK);
        assert_memory_equal(out, sound, sizeof out);
    }
}

static void what_cannot_be_started_says_why(void **state)
{
    (void)state;
    HRF_AUTO(hrf_session) session = make_session(HRF_FP32);
    const char *name = NULL;
    struct hrf_error err = { .text = "" };
    setenv("HRF_NVJPEG", "/nowhere/libnvjpeg.so", 1);
    assert_int_equal(hrf_session_open_decoder(session, &name, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "nvJPEG cannot be loaded (/nowhere/libnvjpeg.so"));
    setenv("HRF_NVJPEG", HRF_EMULATED_NVJPEG_FILE, 1);
    setenv("HRF_EMULATED_NVJPEG", "refuses", 1);
    assert_int_equal(hrf_session_open_decoder(session, &name, &err), HRF_E_UNSUPPORTED);
    assert_string_equal(err.text, "nvJPEG 13.3.2: nvJPEG, starting it: ARCH_MISMATCH (7)");
    setenv("HRF_EMULATED_NVJPEG", "no-engines", 1);
    assert_int_equal(hrf_session_open_decoder(session, &name, &err), HRF_OK);
    assert_string_equal(name, "nvJPEG 13.3.2 (kernels)");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_have_the_bits_of_tiles_that_the_cpu_decodes),
        cmocka_unit_test(another_decoder_passes_and_a_wrong_one_is_told),
        cmocka_unit_test(what_cannot_be_started_says_why),
    };
    return cmocka_run_group_tests(tests, make_slide, remove_all);
}
