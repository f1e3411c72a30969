/* The feed on slides whose pixels say where they are: every patch once, in one order whatever the
 * threads do, and a clear end when a place cannot be read or nobody wants more. */
#include "tests/unit/unit.h"

#include "base/clock.h"
#include "engine/input/feed.h"
#include "engine/input/image_resize.h"
#include "engine/ir/number.h"
#include "tests/unit/tiler/pyramid.h"
#include "tiler/slide/patch_reader.h"
#include "tiler/slide/slide_private.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

enum { SIDE = 3000, PATCH = 32, COLUMNS = 17, N_PATCHES = COLUMNS * 13 };

static struct hrf_patch patches[N_PATCHES];
static struct hrf_tile_plan plan = { .mpp_x = 0.5,
                                     .mpp_y = 0.5,
                                     .patch_size = PATCH,
                                     .patch_mpp = 0.5,
                                     .n_patches = N_PATCHES,
                                     .patches = patches };

/* Two readers that wait for each other inside of a read: the linker puts __wrap_ in the place of
 * what the feed calls. Were decoding done by one at a time, the first would wait for ever. */
enum { MEETINGS = 16 };
static struct {
    bool is_on;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int n_threads;
    int64_t n_reads[2]; /* begun, by thread in the order of coming */
} meeting = { .lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER };

static void meet(void)
{
    static _Thread_local int who = -1;
    pthread_mutex_lock(&meeting.lock);
    if (who < 0)
        who = meeting.n_threads++;
    if (who < 2) {
        const int64_t n = ++meeting.n_reads[who];
        pthread_cond_broadcast(&meeting.came);
        while (n <= MEETINGS && meeting.n_reads[1 - who] < n)
            pthread_cond_wait(&meeting.came, &meeting.lock);
    }
    pthread_mutex_unlock(&meeting.lock);
}

enum hrf_status __real_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err);
enum hrf_status __wrap_hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x, int64_t y,
                                              int64_t first_row, int64_t n_rows,
                                              hrf_take_rows *take, void *context,
                                              int64_t *decode_ns, struct hrf_error *err)
{
    if (meeting.is_on)
        meet();
    return __real_hrf_patch_reader_visit(reader, x, y, first_row, n_rows, take, context, decode_ns,
                                         err);
}

static void place_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    (void)context;
    (void)level;
    rgba[0] = (unsigned char)x;
    rgba[1] = (unsigned char)y;
    rgba[2] = (unsigned char)((x >> 8) * 16 + (y >> 8));
}

static int make_folder(void **state)
{
    (void)state;
    struct pyramid p = {
        .n_levels = 1, .level = { { SIDE, SIDE } }, .tile = 128, .pixel = place_pixel
    };
    char path[128];
    pyramid_folder(test_folder);
    pyramid_path(test_folder, "place.tif", path);
    pyramid_write(&p, path);
    for (int i = 0; i < N_PATCHES; i++) /* rows of patches, not on the tiles' grid */
        patches[i] = (struct hrf_patch){ .x = i % COLUMNS * 171 + 5, .y = i / COLUMNS * 227 + 3 };
    return 0;
}

static struct hrf_slide *open_slide(const char *name)
{
    char path[128];
    struct hrf_slide *slide = NULL;
    struct hrf_error err = { .status = HRF_OK };
    pyramid_path(test_folder, name, path);
    if (hrf_slide_open(path, &slide, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return slide;
}

/* Values are bytes again: mean 0, std 1/255. */
static struct hrf_feed *make_feed(struct hrf_slide *slide, int64_t first, int64_t n, int64_t batch,
                                  int32_t n_readers, int32_t n_ahead)
{
    struct hrf_feed *feed = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_feed_config config = { .slide = slide,
                                            .plan = &plan,
                                            .first_patch = first,
                                            .n_patches = n,
                                            .batch = batch,
                                            .std = { 1 / 255.0, 1 / 255.0, 1 / 255.0 },
                                            .n_readers = n_readers,
                                            .n_ahead = n_ahead };
    if (hrf_feed_create(&config, &feed, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return feed;
}

static void check_patch(const struct hrf_patch *patch, const float *pixels)
{
    for (int v = 0; v < PATCH; v++)
        for (int u = 0; u < PATCH; u++) {
            unsigned char want[4];
            place_pixel(NULL, 0, (uint32_t)(patch->x + u), (uint32_t)(patch->y + v), want);
            for (int c = 0; c < 3; c++)
                if (fabsf(pixels[(v * PATCH + u) * 3 + c] - (float)want[c]) > 1e-3F)
                    fail_msg("patch at %d, %d: pixel %d, %d is another", patch->x, patch->y, u, v);
        }
}

/* Reads all there is; order[i] is the i-th patch that came. */
static void read_all(struct hrf_feed *feed, int64_t first, int64_t n, int64_t batch, int64_t *order)
{
    int seen[N_PATCHES] = { 0 };
    int64_t at = 0;
    for (;;) {
        struct hrf_feed_batch b;
        assert_int_equal(hrf_feed_next(feed, &b, NULL), HRF_OK);
        if (b.n == 0)
            break;
        assert_int_equal(b.n, n - at < batch ? n - at : batch);
        for (int64_t i = 0; i < b.n; i++) {
            order[at++] = b.patches[i];
            seen[b.patches[i]]++;
            check_patch(&patches[first + b.patches[i]],
                        (const float *)b.pixels[0] + i * PATCH * PATCH * 3);
        }
    }
    assert_int_equal(at, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(seen[i], 1);
}

static void every_patch_comes_once_in_an_order_that_threads_do_not_change(void **state)
{
    (void)state;
    static const struct {
        int64_t first, n, batch;
        int32_t n_readers, n_ahead;
    } cases[] = { { 0, N_PATCHES, 16, 1, 2 }, { 0, N_PATCHES, 16, 4, 2 },
                  { 0, N_PATCHES, 16, 3, 7 }, { 0, N_PATCHES, 7, 2, 3 },
                  { 50, 60, 64, 4, 2 },       { N_PATCHES - 1, 1, 8, 4, 2 },
                  { 3, 5, 1, 4, 2 } };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    int64_t first_order[N_PATCHES], order[N_PATCHES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_feed)
        feed = make_feed(slide, cases[i].first, cases[i].n, cases[i].batch, cases[i].n_readers,
                         cases[i].n_ahead);
        read_all(feed, cases[i].first, cases[i].n, cases[i].batch, i == 0 ? first_order : order);
        if (i == 1 || i == 2)
            assert_memory_equal(order, first_order, sizeof order);
        const struct hrf_feed_times times = hrf_feed_times(feed);
        assert_true(times.decode > 0 && times.prepare > 0 && times.wait > 0);
        assert_int_equal(times.n_patches, cases[i].n);
        struct hrf_feed_batch b; /* the end stays the end */
        assert_int_equal(hrf_feed_next(feed, &b, NULL), HRF_OK);
        assert_int_equal(b.n, 0);
    }
}

/* Memory that somebody else gives to a feed, and has back. */
struct lent {
    int32_t n_taken, n_given;
    bool is_full;
};

static enum hrf_status take_lent(void *context, size_t n_bytes, void **out, struct hrf_error *err)
{
    struct lent *lent = context;
    if (lent->is_full && lent->n_taken == 2)
        return hrf_error_set(err, HRF_E_NOMEM, "no more pinned memory");
    *out = hrf_alloc_aligned(n_bytes, 64);
    assert_non_null(*out);
    lent->n_taken++;
    return HRF_OK;
}

static void give_lent(void *context, void *memory)
{
    ((struct lent *)context)->n_given++;
    hrf_free(memory);
}

static void check_bytes(const struct hrf_feed_batch *b)
{
    const unsigned char *rgb = b->pixels[1];
    for (int64_t i = 0; i < b->n; i++)
        for (int k = 0; k < PATCH * PATCH; k++, rgb += 3) {
            const struct hrf_patch *patch = &patches[b->patches[i]];
            unsigned char want[4];
            place_pixel(NULL, 0, (uint32_t)(patch->x + k % PATCH), (uint32_t)(patch->y + k / PATCH),
                        want);
            assert_memory_equal(rgb, want, 3);
        }
}

/* A device still reads a batch when the next one is asked for. */
static void bytes_for_a_device_lie_in_its_memory_and_stay_while_they_are_held(void **state)
{
    (void)state;
    struct lent lent = { .n_taken = 0 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    struct hrf_feed *feed = NULL;
    struct hrf_feed_config config = { .slide = slide,
                                      .plan = &plan,
                                      .n_patches = N_PATCHES,
                                      .batch = 8,
                                      .std = { 1 / 255.0, 1 / 255.0, 1 / 255.0 },
                                      .forms = { { .type = HRF_F32 }, { .raw = true } },
                                      .n_forms = 2,
                                      .n_readers = 3,
                                      .n_ahead = 3,
                                      .n_held = 2,
                                      .memory = { take_lent, give_lent, &lent } };
    assert_int_equal(hrf_feed_create(&config, &feed, NULL), HRF_OK);
    struct hrf_feed_batch held = { .n = 0 }, b = { .n = 0 };
    int64_t n = 0;
    do {
        assert_int_equal(hrf_feed_next(feed, &b, NULL), HRF_OK);
        hrf_clock_sleep_ms(1); /* readers would be at it by now */
        check_bytes(&held);
        check_bytes(&b);
        n += b.n;
        held = b;
    } while (b.n > 0);
    assert_int_equal(n, N_PATCHES);
    assert_int_equal(lent.n_taken, 3); /* the floats lie on the heap */
    assert_int_equal(lent.n_given, 0);
    hrf_feed_destroy(feed);
    assert_int_equal(lent.n_given, 3);

    lent = (struct lent){ .is_full = true };
    assert_int_equal(hrf_feed_create(&config, &feed, &err), HRF_E_NOMEM);
    assert_string_equal(err.text, "no more pinned memory");
    assert_int_equal(lent.n_given, 2);
}

/* A rank of a spatial split is fed some rows of every patch: the same numbers, and none of the
 * others are decoded. */
static void rows_of_patches_are_those_of_the_whole_ones(void **state)
{
    (void)state;
    enum { FIRST = 5, ROWS = 7, N = 20, BATCH = 8 };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    HRF_AUTO(hrf_feed) feed = NULL;
    const struct hrf_feed_config config = { .slide = slide,
                                            .plan = &plan,
                                            .n_patches = N,
                                            .batch = BATCH,
                                            .first_row = FIRST,
                                            .n_rows = ROWS,
                                            .std = { 1 / 255.0, 1 / 255.0, 1 / 255.0 },
                                            .n_readers = 2,
                                            .n_ahead = 2 };
    assert_int_equal(hrf_feed_create(&config, &feed, NULL), HRF_OK);
    int64_t n_seen = 0;
    for (struct hrf_feed_batch b; hrf_feed_next(feed, &b, NULL) == HRF_OK && b.n > 0;)
        for (int64_t i = 0; i < b.n; i++, n_seen++)
            for (int v = 0; v < ROWS; v++)
                for (int u = 0; u < PATCH; u++) {
                    const struct hrf_patch *patch = &patches[b.patches[i]];
                    const float *pixel = (const float *)b.pixels[0] +
                                         ((i * ROWS + v) * PATCH + u) * 3;
                    unsigned char want[4];
                    place_pixel(NULL, 0, (uint32_t)(patch->x + u), (uint32_t)(patch->y + FIRST + v),
                                want);
                    for (int c = 0; c < 3; c++)
                        assert_true(fabsf(pixel[c] - (float)want[c]) <= 1e-3F);
                }
    assert_int_equal(n_seen, N);
}

/* Where the rows of a resized patch go. */
struct resized {
    unsigned char rgb[PATCH][3 * PATCH];
};

static void keep_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    struct resized *resized = context;
    for (int64_t k = 0; k < n; k++)
        memcpy(resized->rgb[row + k], rgb + k * stride, sizeof resized->rgb[row]);
}

static void resize_patch(const struct hrf_patch *patch, struct hrf_image_resizer *resizer,
                         int64_t first, int64_t n, struct resized *resized)
{
    int64_t from, n_from;
    hrf_image_resizer_needs(resizer, first, n, &from, &n_from);
    hrf_image_resizer_begin(resizer, first, n, keep_rows, resized);
    for (int64_t v = from; v < from + n_from; v++) {
        unsigned char row[PATCH][3];
        for (int u = 0; u < PATCH; u++) {
            unsigned char rgba[4];
            place_pixel(NULL, 0, (uint32_t)(patch->x + u), (uint32_t)(patch->y + (int32_t)v), rgba);
            memcpy(row[u], rgba, 3);
        }
        hrf_image_resizer_put(resizer, row[0]);
    }
}

/* All of them, and some rows as a rank of a spatial split is fed them. */
static void patches_are_resized_and_cropped(void **state)
{
    (void)state;
    enum { SIZE = 24, N = 20, BATCH = 8 };
    static const struct hrf_preparation how = { SIZE, 27, HRF_BICUBIC };
    static const struct {
        int64_t first, n;
    } rows[] = { { 0, SIZE }, { 9, 10 } };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    HRF_AUTO(hrf_image_resizer) resizer = NULL;
    struct resized want;
    hrf_image_resizer_create(PATCH, &how, &resizer);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        HRF_AUTO(hrf_feed) feed = NULL;
        const struct hrf_feed_config config = { .slide = slide,
                                                .plan = &plan,
                                                .n_patches = N,
                                                .batch = BATCH,
                                                .preparation = how,
                                                .first_row = rows[k].first,
                                                .n_rows = rows[k].n,
                                                .forms = { { .raw = true } },
                                                .n_forms = 1,
                                                .n_readers = 2 };
        int64_t n_seen = 0;
        assert_int_equal(hrf_feed_create(&config, &feed, NULL), HRF_OK);
        for (struct hrf_feed_batch b; hrf_feed_next(feed, &b, NULL) == HRF_OK && b.n > 0;)
            for (int64_t i = 0; i < b.n; i++, n_seen++) {
                resize_patch(&patches[b.patches[i]], resizer, rows[k].first, rows[k].n, &want);
                for (int64_t v = 0; v < rows[k].n; v++)
                    assert_memory_equal((const uint8_t *)b.pixels[0] +
                                            ((i * rows[k].n + v) * SIZE) * 3,
                                        want.rgb[v], 3 * (size_t)SIZE);
            }
        assert_int_equal(n_seen, N);
    }
}

/* Nobody takes a batch until both have read MEETINGS patches side by side: decoding runs ahead of
 * a consumer by itself, on every reader. */
static void two_readers_decode_at_the_same_moment_and_share_the_patches(void **state)
{
    (void)state;
    enum { N = 4 * MEETINGS, BATCH = MEETINGS };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    int64_t order[N_PATCHES];
    meeting.is_on = true;
    HRF_AUTO(hrf_feed) feed = make_feed(slide, 0, N, BATCH, 2, 2);
    pthread_mutex_lock(&meeting.lock);
    while (meeting.n_reads[0] < MEETINGS || meeting.n_reads[1] < MEETINGS)
        pthread_cond_wait(&meeting.came, &meeting.lock);
    pthread_mutex_unlock(&meeting.lock);
    read_all(feed, 0, N, BATCH, order);
    hrf_feed_destroy(feed); /* joins the readers */
    feed = NULL;
    meeting.is_on = false;
    assert_int_equal(meeting.n_threads, 2);
    assert_int_equal(meeting.n_reads[0] + meeting.n_reads[1], N);
    assert_true(meeting.n_reads[0] >= N / 4 && meeting.n_reads[1] >= N / 4);
}

/* Bytes are quantised (the scale's half for every step) or rounded as the network would; one feed
 * lays out each patch in all types. */
static void patches_come_in_the_types_that_the_networks_compute_in(void **state)
{
    (void)state;
    enum { N_TYPES = 5 };
    static const struct hrf_quantization q = { .scale = 2, .zero_point = -3 };
    static const enum hrf_dtype types[N_TYPES] = { HRF_S8, HRF_U8, HRF_F16, HRF_B16, HRF_F32 };
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    HRF_AUTO(hrf_feed) floats = make_feed(slide, 10, 9, 4, 2, 2);
    HRF_AUTO(hrf_feed) feed = NULL;
    struct hrf_feed_config config = { .slide = slide,
                                      .plan = &plan,
                                      .first_patch = 10,
                                      .n_patches = 9,
                                      .batch = 4,
                                      .n_forms = N_TYPES + 1,
                                      .std = { 1 / 255.0, 1 / 255.0, 1 / 255.0 },
                                      .n_readers = 2,
                                      .n_ahead = 2 };
    for (int t = 0; t < N_TYPES; t++)
        config.forms[t] = (struct hrf_feed_form){ .type = types[t], .quantization = q };
    config.forms[N_TYPES].raw = true;
    assert_int_equal(hrf_feed_create(&config, &feed, NULL), HRF_OK);
    for (struct hrf_feed_batch a, b;;) {
        assert_int_equal(hrf_feed_next(floats, &a, NULL), HRF_OK);
        assert_int_equal(hrf_feed_next(feed, &b, NULL), HRF_OK);
        assert_int_equal(a.n, b.n);
        if (a.n == 0)
            break;
        const int64_t n = a.n * PATCH * PATCH * 3;
        const float *wanted = a.pixels[0];
        assert_memory_equal(b.pixels[4], wanted, (size_t)n * sizeof *wanted);
        for (int64_t i = 0; i < n; i++) {
            for (int t = 0; t < 2; t++)
                assert_int_equal(((const uint8_t *)b.pixels[t])[i],
                                 (uint8_t)hrf_quantize(wanted[i], types[t], &q));
            for (int t = 2; t < 4; t++) {
                uint16_t half = 0;
                hrf_floats_to(types[t], &wanted[i], &half, 1);
                assert_int_equal(((const uint16_t *)b.pixels[t])[i], half);
            }
            assert_int_equal(((const uint8_t *)b.pixels[N_TYPES])[i], lrintf(wanted[i]));
        }
    }
}

/* JPEG tiles come from the file in a few large reads, and the patches are the same. */
static void what_is_read_ahead_comes_in_large_reads_and_is_the_same(void **state)
{
    (void)state;
    enum { BATCH = 16 };
    struct pyramid p = {
        .n_levels = 1, .level = { { SIDE, SIDE } }, .tile = 128, .jpeg = true, .pixel = place_pixel
    };
    char path[128];
    pyramid_path(test_folder, "jpeg.tif", path);
    pyramid_write(&p, path);
    HRF_AUTO(hrf_slide) slide = open_slide("jpeg.tif");
    HRF_AUTO(hrf_slide) other = open_slide("jpeg.tif");
    HRF_AUTO(hrf_feed) plain = make_feed(other, 0, N_PATCHES, BATCH, 2, 2);
    HRF_AUTO(hrf_feed) ahead = NULL;
    const struct hrf_feed_config config = { .slide = slide,
                                            .plan = &plan,
                                            .n_patches = N_PATCHES,
                                            .batch = BATCH,
                                            .std = { 1 / 255.0, 1 / 255.0, 1 / 255.0 },
                                            .n_readers = 2,
                                            .n_ahead = 2,
                                            .reads_ahead = true };
    assert_int_equal(hrf_feed_create(&config, &ahead, NULL), HRF_OK);
    struct hrf_feed_batch a, b;
    do {
        assert_int_equal(hrf_feed_next(plain, &a, NULL), HRF_OK);
        assert_int_equal(hrf_feed_next(ahead, &b, NULL), HRF_OK);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.pixels[0], b.pixels[0],
                            (size_t)a.n * PATCH * PATCH * 3 * sizeof(float));
    } while (a.n > 0);
    const struct hrf_read_counts counts = hrf_read_ahead_counts(slide->ahead);
    assert_true(counts.n_taken >= N_PATCHES); /* tiles: a patch lies on one to four */
    assert_true(counts.n_reads * 20 < counts.n_taken);
    assert_true(counts.peak_bytes <= HRF_READ_AHEAD_BYTES);
}

/* Two neighbours in the order of visiting are near each other: the tiles between are decoded
 * once. The tile plan's own order would cross the whole slide for every row. */
static void patches_are_visited_block_by_block(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    HRF_AUTO(hrf_feed) feed = make_feed(slide, 0, N_PATCHES, 32, 2, 2);
    int64_t order[N_PATCHES];
    read_all(feed, 0, N_PATCHES, 32, order);
    int changes = 0;
    for (int i = 1; i < N_PATCHES; i++) {
        const struct hrf_patch *a = &patches[order[i - 1]], *b = &patches[order[i]];
        changes += a->x / 512 != b->x / 512 || a->y / 512 != b->y / 512;
    }
    assert_int_equal(changes, 35); /* of 36 blocks */
}

/* Zeros over the tile's data: no deflate stream begins so. */
static void damage(const char *path, uint32_t x, uint32_t y)
{
    TIFF *tiff = TIFFOpen(path, "r");
    assert_non_null(tiff);
    const uint32_t tile = TIFFComputeTile(tiff, x, y, 0, 0);
    const uint64_t offset = TIFFGetStrileOffset(tiff, tile);
    const uint64_t n_bytes = TIFFGetStrileByteCount(tiff, tile);
    TIFFClose(tiff);
    static const unsigned char zeros[4096];
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    const size_t n = n_bytes < sizeof zeros ? (size_t)n_bytes : sizeof zeros;
    assert_int_equal(pwrite(fd, zeros, n, (off_t)offset), (ssize_t)n);
}

static void a_place_that_cannot_be_read_ends_the_feed_and_is_named(void **state)
{
    (void)state;
    struct pyramid p = {
        .n_levels = 1, .level = { { SIDE, SIDE } }, .tile = 128, .pixel = place_pixel
    };
    char path[128];
    pyramid_path(test_folder, "bad.tif", path);
    pyramid_write(&p, path);
    damage(path, (uint32_t)patches[7 * COLUMNS + 9].x, (uint32_t)patches[7 * COLUMNS + 9].y);
    for (int32_t n_readers = 1; n_readers <= 4; n_readers++) {
        HRF_AUTO(hrf_slide) slide = open_slide("bad.tif");
        HRF_AUTO(hrf_feed) feed = make_feed(slide, 0, N_PATCHES, 16, n_readers, 3);
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_feed_batch batch = { .n = 1 };
        enum hrf_status status = HRF_OK;
        int n = 0;
        while (status == HRF_OK && batch.n > 0) {
            status = hrf_feed_next(feed, &batch, &err);
            n++;
        }
        assert_int_equal(status, HRF_E_USER);
        assert_true(n > 1 && n < N_PATCHES / 16);
        assert_non_null(strstr(err.text, "bad.tif' is damaged: reading fails at x "));
        /* Asked again it says the same again. */
        struct hrf_error again = { .status = HRF_OK };
        assert_int_equal(hrf_feed_next(feed, &batch, &again), HRF_E_USER);
        assert_string_equal(again.text, err.text);
    }
}

static void a_feed_may_be_left_at_any_time(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    for (int n_taken = 0; n_taken < 6; n_taken++)
        for (int32_t n_readers = 1; n_readers <= 4; n_readers += 3) {
            HRF_AUTO(hrf_feed) feed = make_feed(slide, 0, N_PATCHES, 8, n_readers, 2);
            struct hrf_feed_batch batch;
            for (int i = 0; i < n_taken; i++)
                assert_int_equal(hrf_feed_next(feed, &batch, NULL), HRF_OK);
        }
}

/* A level that is 100 times finer than wanted is refused by the readers, in their threads. */
static void what_a_reader_cannot_start_with_is_said_by_next(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_feed_batch batch;
    plan.patch_mpp = 50;
    HRF_AUTO(hrf_feed) feed = make_feed(slide, 0, 4, 4, 3, 2);
    assert_int_equal(hrf_feed_next(feed, &batch, &err), HRF_E_UNSUPPORTED);
    hrf_feed_destroy(feed); /* joins the readers before the plan is put right */
    feed = NULL;
    plan.patch_mpp = 0.5;
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_slide("place.tif");
    struct hrf_feed_config config = { .slide = slide,
                                      .plan = &plan,
                                      .n_patches = 8,
                                      .batch = 4,
                                      .std = { 1, 1, 1 },
                                      .n_readers = 1,
                                      .n_ahead = 2 };
    for (int64_t n = 1;; n++) {
        struct hrf_feed *feed = NULL;
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_feed_batch batch = { .n = 1 };
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_feed_create(&config, &feed, &err);
        while (status == HRF_OK && batch.n > 0) /* readers allocate too */
            status = hrf_feed_next(feed, &batch, &err);
        hrf_feed_destroy(feed);
        const bool failed = hrf_alloc_count() >= n;
        hrf_alloc_fail_after(0);
        assert_int_equal(status, failed ? HRF_E_NOMEM : HRF_OK);
        if (!failed) {
            assert_true(n > 8);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_patch_comes_once_in_an_order_that_threads_do_not_change),
        cmocka_unit_test(bytes_for_a_device_lie_in_its_memory_and_stay_while_they_are_held),
        cmocka_unit_test(rows_of_patches_are_those_of_the_whole_ones),
        cmocka_unit_test(patches_are_resized_and_cropped),
        cmocka_unit_test(two_readers_decode_at_the_same_moment_and_share_the_patches),
        cmocka_unit_test(patches_come_in_the_types_that_the_networks_compute_in),
        cmocka_unit_test(what_is_read_ahead_comes_in_large_reads_and_is_the_same),
        cmocka_unit_test(patches_are_visited_block_by_block),
        cmocka_unit_test(a_place_that_cannot_be_read_ends_the_feed_and_is_named),
        cmocka_unit_test(a_feed_may_be_left_at_any_time),
        cmocka_unit_test(what_a_reader_cannot_start_with_is_said_by_next),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_test_folder);
}
