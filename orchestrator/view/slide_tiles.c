/* slide_tiles.c - tiles of a zoomable map through the patch reader, in children that a damaged
 * slide may end. Each keeps the slides open that it read last. */
#include "orchestrator/view/slide_tiles.h"

#include "base/guard.h"
#include "tiler/slide/jpeg_errors.h"
#include "tiler/slide/slide.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_SLIDES = 2, QUALITY = 85, DEEPEST = 20, REDUCED_AT_MOST = 64 };

struct open_slide {
    char *path; /* NULL: free */
    struct hrf_slide *slide;
    uint64_t used_at;
};

/* The open slides of a child; the parent's stays empty. */
struct reader {
    struct open_slide open[OPEN_SLIDES];
    uint64_t clock;
};

struct hrf_slide_tiles {
    pthread_mutex_t lock;
    pthread_cond_t one_is_free;
    struct hrf_guard *guards[HRF_VIEW_READERS];
    bool is_busy[HRF_VIEW_READERS];
    struct reader reader;
};

/* A question about a tile, or about the range of zooms. The path follows, with its NUL. */
struct question {
    bool is_tile;
    int64_t zoom, column, row;
};

/* ---- in a child ---- */

static void close_slide(struct open_slide *entry)
{
    hrf_slide_close(entry->slide);
    hrf_free(entry->path);
    *entry = (struct open_slide){ .path = NULL };
}

/* Opens the slide, which then stays open in place of the one that was used least recently. */
static enum hrf_status find_slide(struct reader *reader, const char *path, struct hrf_slide **out,
                                  struct hrf_error *err)
{
    struct open_slide *entry = &reader->open[0];
    for (int i = 0; i < OPEN_SLIDES; i++) {
        if (reader->open[i].used_at < entry->used_at)
            entry = &reader->open[i];
        if (reader->open[i].path != NULL && strcmp(reader->open[i].path, path) == 0) {
            entry = &reader->open[i];
            break;
        }
    }
    if (entry->path == NULL || strcmp(entry->path, path) != 0) {
        close_slide(entry);
        HRF_TRY(hrf_slide_open(path, &entry->slide, err));
        entry->path = hrf_strdup(path);
    }
    entry->used_at = ++reader->clock;
    *out = entry->slide;
    return HRF_OK;
}

static struct hrf_zoom_range range_of(const struct hrf_slide_info *info)
{
    struct hrf_zoom_range range = { .width = info->width, .height = info->height };
    const int64_t side = info->width > info->height ? info->width : info->height;
    const double coarsest = info->level[info->n_levels - 1].downsample * REDUCED_AT_MOST;
    while (range.highest < DEEPEST && (int64_t)HRF_VIEW_TILE << range.highest < side)
        range.highest++;
    while (range.lowest < range.highest &&
           (double)((int64_t)1 << (range.highest - range.lowest)) > coarsest)
        range.lowest++;
    return range;
}

static bool encode_jpeg(const unsigned char *rgb, unsigned char **out, unsigned long *n_bytes)
{
    struct hrf_jpeg_errors errors;
    struct jpeg_compress_struct jpeg = { .err = hrf_jpeg_errors_init(&errors, NULL) };
    if (setjmp(errors.failed) != 0) {
        jpeg_destroy_compress(&jpeg);
        return false;
    }
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, out, n_bytes);
    jpeg.image_width = jpeg.image_height = HRF_VIEW_TILE;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, QUALITY, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)jpeg.next_scanline * HRF_VIEW_TILE * 3);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return true;
}

static enum hrf_status read_tile(struct hrf_slide *slide, int64_t zoom, int64_t column, int64_t row,
                                 unsigned char *rgb, struct hrf_error *err)
{
    const struct hrf_zoom_range range = range_of(hrf_slide_info(slide));
    const int64_t reduced = (int64_t)1 << (range.highest - zoom);
    const int64_t side = HRF_VIEW_TILE * reduced;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    if (column < 0 || row < 0 || column > range.width / side || row > range.height / side)
        return hrf_error_set(err, HRF_E_USER, "there is no tile %lld, %lld at zoom %lld",
                             (long long)column, (long long)row, (long long)zoom);
    /* Lengths in px of level 0 instead of um: a slide of unknown resolution is shown, too. */
    HRF_TRY(hrf_patch_reader_create(slide, 1, 1, HRF_VIEW_TILE, (double)reduced, &reader, err));
    return hrf_patch_reader_read(reader, column * side, row * side, rgb, NULL, NULL, err);
}

static enum hrf_status answer_tile(struct hrf_slide *slide, const struct question *q,
                                   struct hrf_strbuf *answer, struct hrf_error *err)
{
    const struct hrf_zoom_range range = range_of(hrf_slide_info(slide));
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)HRF_VIEW_TILE * HRF_VIEW_TILE * 3);
    unsigned char *jpeg = NULL;
    unsigned long n_bytes = 0;
    if (q->zoom < range.lowest || q->zoom > range.highest)
        return hrf_error_set(err, HRF_E_USER, "there is no zoom %lld; %d to %d are there",
                             (long long)q->zoom, range.lowest, range.highest);
    HRF_TRY(read_tile(slide, q->zoom, q->column, q->row, rgb, err));
    const bool is_made = encode_jpeg(rgb, &jpeg, &n_bytes);
    if (is_made)
        hrf_strbuf_add(answer, jpeg, n_bytes);
    free(jpeg); /* ci-allow: libjpeg's */
    return is_made ? HRF_OK : hrf_error_set(err, HRF_E_EXTERNAL, "libjpeg makes no tile of it");
}

static enum hrf_status answer_question(void *context, const void *question,
                                       struct hrf_strbuf *answer, struct hrf_error *err)
{
    struct question q;
    struct hrf_slide *slide = NULL;
    memcpy(&q, question, sizeof q);
    HRF_TRY(find_slide(context, (const char *)question + sizeof q, &slide, err));
    if (q.is_tile)
        return answer_tile(slide, &q, answer, err);
    const struct hrf_zoom_range range = range_of(hrf_slide_info(slide));
    hrf_strbuf_add(answer, &range, sizeof range);
    return HRF_OK;
}

/* ---- in the viewer ---- */

enum hrf_status hrf_slide_tiles_create(struct hrf_slide_tiles **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide_tiles) tiles = hrf_calloc(1, sizeof *tiles);
    pthread_mutex_init(&tiles->lock, NULL);
    pthread_cond_init(&tiles->one_is_free, NULL);
    for (int i = 0; i < HRF_VIEW_READERS; i++)
        HRF_TRY(hrf_guard_create(answer_question, &tiles->reader, &tiles->guards[i], err));
    HRF_MOVE(*out, tiles);
    return HRF_OK;
}

void hrf_slide_tiles_destroy(struct hrf_slide_tiles *tiles)
{
    if (tiles == NULL)
        return;
    for (int i = 0; i < HRF_VIEW_READERS; i++)
        hrf_guard_destroy(tiles->guards[i]);
    pthread_cond_destroy(&tiles->one_is_free);
    pthread_mutex_destroy(&tiles->lock);
    hrf_free(tiles);
}

static int find_free(const struct hrf_slide_tiles *tiles)
{
    int i = 0;
    while (i < HRF_VIEW_READERS && tiles->is_busy[i])
        i++;
    return i;
}

static enum hrf_status ask_child(struct hrf_slide_tiles *tiles, const char *path,
                                 const struct question *q, struct hrf_strbuf *answer,
                                 struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) question = HRF_STRBUF_INIT;
    hrf_strbuf_add(&question, q, sizeof *q);
    hrf_strbuf_add(&question, path, strlen(path) + 1);
    pthread_mutex_lock(&tiles->lock);
    while (find_free(tiles) == HRF_VIEW_READERS)
        pthread_cond_wait(&tiles->one_is_free, &tiles->lock);
    const int i = find_free(tiles);
    tiles->is_busy[i] = true;
    pthread_mutex_unlock(&tiles->lock);
    const enum hrf_status status = hrf_guard_ask(tiles->guards[i], path, question.text,
                                                 question.length, answer, err);
    pthread_mutex_lock(&tiles->lock);
    tiles->is_busy[i] = false;
    pthread_cond_signal(&tiles->one_is_free);
    pthread_mutex_unlock(&tiles->lock);
    return status;
}

enum hrf_status hrf_slide_tiles_range(struct hrf_slide_tiles *tiles, const char *path,
                                      struct hrf_zoom_range *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    HRF_TRY(ask_child(tiles, path, &(struct question){ .is_tile = false }, &answer, err));
    memcpy(out, answer.text, sizeof *out);
    return HRF_OK;
}

enum hrf_status hrf_slide_tiles_read(struct hrf_slide_tiles *tiles, const char *path, int64_t zoom,
                                     int64_t column, int64_t row, unsigned char **jpeg,
                                     size_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    const struct question question = { true, zoom, column, row };
    HRF_TRY(ask_child(tiles, path, &question, &answer, err));
    *n_bytes = answer.length;
    *jpeg = (unsigned char *)hrf_strbuf_detach(&answer);
    return HRF_OK;
}
