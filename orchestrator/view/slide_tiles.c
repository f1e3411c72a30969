/* slide_tiles.c - tiles of a zoomable map through the patch reader, and the slides kept open. */
#include "orchestrator/view/slide_tiles.h"

#include "tiler/slide/slide.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h> /* before jpeglib.h, which uses FILE */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { OPEN_SLIDES = 8, QUALITY = 85, DEEPEST = 20, REDUCED_AT_MOST = 64 };

struct open_slide {
    char *path; /* NULL: free */
    struct hrf_slide *slide;
    int users;
    uint64_t used_at;
};

struct hrf_slide_tiles {
    pthread_mutex_t lock;
    struct open_slide open[OPEN_SLIDES];
    uint64_t clock;
};

enum hrf_status hrf_slide_tiles_create(struct hrf_slide_tiles **out, struct hrf_error *err)
{
    struct hrf_slide_tiles *tiles = hrf_calloc(1, sizeof *tiles);
    HRF_CHECK_MEMORY(tiles != NULL, err, "no memory for the viewer");
    pthread_mutex_init(&tiles->lock, NULL);
    *out = tiles;
    return HRF_OK;
}

static void forget(struct open_slide *entry)
{
    hrf_slide_close(entry->slide);
    hrf_free(entry->path);
    *entry = (struct open_slide){ .path = NULL };
}

void hrf_slide_tiles_destroy(struct hrf_slide_tiles *tiles)
{
    if (tiles == NULL)
        return;
    for (int i = 0; i < OPEN_SLIDES; i++)
        if (tiles->open[i].path != NULL)
            forget(&tiles->open[i]);
    pthread_mutex_destroy(&tiles->lock);
    hrf_free(tiles);
}

/* The slide's entry, or one that is free or was not used for longest; NULL: all are in use. */
static struct open_slide *find_entry(struct hrf_slide_tiles *tiles, const char *path)
{
    struct open_slide *best = NULL;
    for (int i = 0; i < OPEN_SLIDES; i++) {
        struct open_slide *entry = &tiles->open[i];
        if (entry->path != NULL && strcmp(entry->path, path) == 0)
            return entry;
        if (entry->users == 0 && (best == NULL || entry->used_at < best->used_at))
            best = entry;
    }
    return best;
}

static enum hrf_status open_entry(struct open_slide *entry, const char *path, struct hrf_error *err)
{
    if (entry->path != NULL && strcmp(entry->path, path) == 0)
        return HRF_OK;
    if (entry->path != NULL)
        forget(entry);
    entry->path = hrf_strdup(path);
    HRF_CHECK_MEMORY(entry->path != NULL, err, "no memory for a path");
    const enum hrf_status status = hrf_slide_open(path, &entry->slide, err);
    if (status != HRF_OK)
        forget(entry);
    return status;
}

/* An open slide, which release_slide() gives back. */
static enum hrf_status take_slide(struct hrf_slide_tiles *tiles, const char *path,
                                  struct open_slide **out, struct hrf_error *err)
{
    pthread_mutex_lock(&tiles->lock);
    struct open_slide *entry = find_entry(tiles, path);
    enum hrf_status status = entry != NULL ? open_entry(entry, path, err)
                                           : hrf_error_set(err, HRF_E_AGAIN,
                                                           "%d slides are being read", OPEN_SLIDES);
    if (status == HRF_OK) {
        entry->users++;
        entry->used_at = ++tiles->clock;
        *out = entry;
    }
    pthread_mutex_unlock(&tiles->lock);
    return status;
}

static void release_slide(struct hrf_slide_tiles *tiles, struct open_slide *entry)
{
    pthread_mutex_lock(&tiles->lock);
    entry->users--;
    pthread_mutex_unlock(&tiles->lock);
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

enum hrf_status hrf_slide_tiles_range(struct hrf_slide_tiles *tiles, const char *path,
                                      struct hrf_zoom_range *out, struct hrf_error *err)
{
    struct open_slide *entry = NULL;
    HRF_TRY(take_slide(tiles, path, &entry, err));
    *out = range_of(hrf_slide_info(entry->slide));
    release_slide(tiles, entry);
    return HRF_OK;
}

/* libjpeg's way of telling an error: it must not return. */
struct jpeg_errors {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

static void leave(j_common_ptr info)
{
    struct jpeg_errors *errors = (struct jpeg_errors *)(void *)info->err;
    longjmp(errors->back, 1);
}

static bool encode(const unsigned char *rgb, unsigned char **out, unsigned long *n_bytes)
{
    struct jpeg_errors errors;
    struct jpeg_compress_struct jpeg = { .err = jpeg_std_error(&errors.base) };
    errors.base.error_exit = leave;
    if (setjmp(errors.back) != 0) {
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

/* libjpeg's memory is malloc's; ours is counted by hrf_alloc. */
static enum hrf_status make_jpeg(const unsigned char *rgb, unsigned char **out, size_t *n_bytes,
                                 struct hrf_error *err)
{
    unsigned char *jpeg = NULL;
    unsigned long n = 0;
    const bool is_made = encode(rgb, &jpeg, &n);
    *out = is_made ? hrf_alloc(n) : NULL;
    if (*out != NULL)
        memcpy(*out, jpeg, n);
    free(jpeg); /* ci-allow: libjpeg's */
    *n_bytes = n;
    HRF_CHECK_MEMORY(*out != NULL, err, "no memory for a tile");
    return HRF_OK;
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

enum hrf_status hrf_slide_tiles_read(struct hrf_slide_tiles *tiles, const char *path, int64_t zoom,
                                     int64_t column, int64_t row, unsigned char **jpeg,
                                     size_t *n_bytes, struct hrf_error *err)
{
    struct open_slide *entry = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)HRF_VIEW_TILE * HRF_VIEW_TILE * 3);
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for a tile");
    HRF_TRY(take_slide(tiles, path, &entry, err));
    const struct hrf_zoom_range range = range_of(hrf_slide_info(entry->slide));
    enum hrf_status status = zoom >= range.lowest && zoom <= range.highest
                                 ? read_tile(entry->slide, zoom, column, row, rgb, err)
                                 : hrf_error_set(err, HRF_E_USER,
                                                 "there is no zoom %lld; %d to %d are there",
                                                 (long long)zoom, range.lowest, range.highest);
    release_slide(tiles, entry);
    HRF_TRY(status);
    return make_jpeg(rgb, jpeg, n_bytes, err);
}
