/* slide.c - OpenSlide behind slide.h. This folder alone includes openslide.h. */
#include "tiler/slide/slide.h"

#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "tiler/slide/level_read.h"
#include "tiler/slide/slide_private.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Decoded tiles that are kept: a row of tiles of 512 px across 128,000 px of tissue. */
enum { CACHE_BYTES = 192 << 20 };

/* The user can correct a path that does not exist; a file system that fails may recover. */
static enum hrf_status cannot_open(const char *name, int native, struct hrf_error *err)
{
    switch (native) {
    case ENOENT:
    case ENOTDIR:
        return hrf_error_set_foreign(err, HRF_E_USER, "errno", native, "slide '%s' does not exist",
                                     name);
    case EACCES:
    case EPERM:
        return hrf_error_set_foreign(err, HRF_E_USER, "errno", native,
                                     "slide '%s' may not be read by this user", name);
    default:
        return hrf_error_set_errno(err, native, "cannot open '%s'", name);
    }
}

/* Opens the file; what is no file that can be read is refused with its reason. */
static enum hrf_status open_file(const char *path, const char *name, int *out,
                                 struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct hrf_error why = { .status = HRF_OK };
    if (hrf_file_open(path, &fd, &why) != HRF_OK) {
        if (why.native != 0)
            return cannot_open(name, why.native, err);
        if (hrf_path_is_directory(path))
            return hrf_error_set(err, HRF_E_USER, "'%s' is a folder, not a slide", name);
        return hrf_error_set(err, why.status, "%s", why.text);
    }
    struct stat st;
    if (fstat(fd, &st) != 0)
        return cannot_open(name, errno, err);
    if (st.st_size == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' is empty (0 bytes)", name);
    *out = fd;
    fd = -1;
    return HRF_OK;
}

/* OpenSlide knows no format for the file, most often because it is an ordinary picture. */
static enum hrf_status refuse_unknown(const char *path, const char *name, struct hrf_error *err)
{
    static const struct {
        const char *magic, *word;
    } pictures[] = { { "II*", "TIFF" },
                     { "MM", "TIFF" },
                     { "II+", "BigTIFF" },
                     { "\x89PNG", "PNG" },
                     { "\xff\xd8", "JPEG" } };
    char head[8] = { 0 };
    char cut[128];
    if (hrf_slide_is_cut_short(path, cut, sizeof cut))
        return hrf_error_set(err, HRF_E_USER, "'%s' %s; copy it again", name, cut);
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, head, sizeof head - 1) > 0)
        for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++)
            if (strncmp(head, pictures[i].magic, strlen(pictures[i].magic)) == 0)
                return hrf_error_set(
                    err, HRF_E_USER,
                    "'%s' is a %s that cannot be read as a slide: it is damaged (cut "
                    "short?), or not tiled, which OpenSlide %s needs; copy it "
                    "again, or convert it with 'vips tiffsave --tile --pyramid'",
                    name, pictures[i].word, openslide_get_version());
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is not a whole-slide image: OpenSlide %s knows no format for it",
                         name, openslide_get_version());
}

const char *hrf_slide_openslide(void)
{
    return openslide_get_version();
}

static void fill_scanner(struct hrf_slide *slide)
{
    static const char *const names[] = {
        "tiff.Model",           "philips.DICOM_MANUFACTURERS_MODEL_NAME",
        "hamamatsu.Product",    "leica.device-model",
        "ventana.ScannerModel", "mirax.NONHIERLAYER_0_SECTION.SCANNER_HARDWARE_ID",
        "aperio.ScanScope ID"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0] && slide->info.scanner[0] == '\0'; i++) {
        const char *value = openslide_get_property_value(slide->handle, names[i]);
        HRF_AUTO_FREE char *shown = value != NULL ? hrf_text_printable(value) : NULL;
        snprintf(slide->info.scanner, sizeof slide->info.scanner, "%s", shown != NULL ? shown : "");
    }
}

static enum hrf_status fill_info(struct hrf_slide *slide, struct hrf_error *err)
{
    struct hrf_slide_info *info = &slide->info;
    openslide_t *os = slide->handle;
    const char *vendor = openslide_get_property_value(os, OPENSLIDE_PROPERTY_NAME_VENDOR);
    const char *hash = openslide_get_property_value(os, OPENSLIDE_PROPERTY_NAME_QUICKHASH1);
    snprintf(info->vendor, sizeof info->vendor, "%s", vendor != NULL ? vendor : "unknown");
    snprintf(info->quickhash, sizeof info->quickhash, "%s", hash != NULL ? hash : "");
    fill_scanner(slide);
    openslide_get_level0_dimensions(os, &info->width, &info->height);
    info->n_levels = openslide_get_level_count(os);
    if (info->n_levels > HRF_SLIDE_MAX_LEVELS)
        info->n_levels = HRF_SLIDE_MAX_LEVELS;
    for (int32_t i = 0; i < info->n_levels; i++) {
        openslide_get_level_dimensions(os, i, &info->level[i].width, &info->level[i].height);
        info->level[i].downsample = openslide_get_level_downsample(os, i);
    }
    const char *error = openslide_get_error(os);
    if (error != NULL || info->width < 1 || info->height < 1 || info->n_levels < 1)
        return hrf_error_set(err, HRF_E_USER, "'%s' cannot be read: %s", slide->shown,
                             error != NULL ? error : "it has no pixels");
    if (info->width > INT32_MAX || info->height > INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' is %lld x %lld px; 2^31 px a side are the limit", slide->shown,
                             (long long)info->width, (long long)info->height);
    return HRF_OK;
}

enum hrf_status hrf_slide_open(const char *path, struct hrf_slide **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = hrf_calloc(1, sizeof *slide);
    if (slide == NULL || (slide->path = hrf_strdup(path)) == NULL ||
        (slide->shown = hrf_text_printable(path)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to open a slide");
    slide->fd = -1;
    pthread_mutex_init(&slide->lock, NULL);
    pthread_rwlock_init(&slide->handle_lock, NULL);
    HRF_TRY(open_file(path, slide->shown, &slide->fd, err));
    hrf_tiff_take_messages();
    slide->handle = openslide_open(path);
    if (slide->handle == NULL)
        return refuse_unknown(path, slide->shown, err);
    const char *error = openslide_get_error(slide->handle);
    char cut[128];
    if (error != NULL && hrf_slide_is_cut_short(path, cut, sizeof cut))
        return hrf_error_set(err, HRF_E_USER, "slide '%s' %s; copy it again", slide->shown, cut);
    if (error != NULL)
        return hrf_error_set(err, HRF_E_USER, "slide '%s' cannot be opened: %s", slide->shown,
                             error);
    HRF_TRY(fill_info(slide, err));
    HRF_TRY(hrf_generic_tiff_load(path, slide, err));
    HRF_TRY(hrf_tile_table_load(&slide->info, slide->fd, slide->shown, &slide->table, err));
    slide->info.n_cut_off = slide->table.n_cut_off;
    HRF_TRY(hrf_tile_cache_create(CACHE_BYTES, &slide->cache, err));
    HRF_MOVE(*out, slide);
    return HRF_OK;
}

void hrf_slide_close(struct hrf_slide *slide)
{
    if (slide == NULL)
        return;
    if (slide->handle != NULL)
        openslide_close(slide->handle);
    if (slide->shown != NULL) {
        pthread_mutex_destroy(&slide->lock);
        pthread_rwlock_destroy(&slide->handle_lock);
    }
    hrf_sparse_destroy(slide->sparse);
    hrf_bad_list_destroy(slide->bad);
    hrf_tile_table_release(&slide->table);
    hrf_tile_cache_destroy(slide->cache);
    if (slide->shown != NULL && slide->fd >= 0)
        close(slide->fd);
    hrf_free(slide->path);
    hrf_free(slide->shown);
    hrf_free(slide);
}

const struct hrf_slide_info *hrf_slide_info(const struct hrf_slide *slide)
{
    return &slide->info;
}

/* Premultiplied ARGB words over white: out = colour + (255 - alpha). */
static void composite(const uint32_t *argb, int64_t n, unsigned char *rgb)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t p = argb[i], white = 255 - (p >> 24);
        rgb[3 * i] = (unsigned char)((p >> 16 & 255) + white);
        rgb[3 * i + 1] = (unsigned char)((p >> 8 & 255) + white);
        rgb[3 * i + 2] = (unsigned char)((p & 255) + white);
    }
}

enum hrf_status hrf_slide_report_damage(struct hrf_slide *slide, const struct hrf_bad_tile *tile,
                                        struct hrf_error *err)
{
    char place[400];
    hrf_bad_tile_text(tile, place, sizeof place);
    pthread_mutex_lock(&slide->lock);
    if (slide->damage[0] == '\0')
        snprintf(slide->damage, sizeof slide->damage, "at x %lld, y %lld, %s", (long long)tile->x,
                 (long long)tile->y, place);
    pthread_mutex_unlock(&slide->lock);
    return hrf_error_set(err, HRF_E_USER, "slide '%s' is damaged: reading fails %s", slide->shown,
                         slide->damage);
}

enum hrf_status hrf_slide_check_damage(struct hrf_slide *slide, struct hrf_error *err)
{
    pthread_mutex_lock(&slide->lock);
    const bool is_damaged = slide->damage[0] != '\0';
    pthread_mutex_unlock(&slide->lock);
    return is_damaged ? hrf_error_set(err, HRF_E_USER, "slide '%s' is damaged: reading fails %s",
                                      slide->shown, slide->damage)
                      : HRF_OK;
}

/* Opens the handle again if it has an error. Called with the lock for writing. */
static bool renew_handle(struct hrf_slide *slide)
{
    if (openslide_get_error(slide->handle) == NULL)
        return true;
    openslide_t *fresh = openslide_open(slide->path);
    if (fresh != NULL && openslide_get_error(fresh) == NULL) {
        openslide_close(slide->handle);
        slide->handle = fresh;
        return true;
    }
    if (fresh != NULL)
        openslide_close(fresh);
    return false;
}

enum hrf_status hrf_slide_reopen(struct hrf_slide *slide, struct hrf_error *err)
{
    pthread_rwlock_wrlock(&slide->handle_lock);
    const bool is_good = renew_handle(slide);
    pthread_rwlock_unlock(&slide->handle_lock);
    return is_good ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER,
                                   "slide '%s' cannot be opened again after a tile that does not "
                                   "decode",
                                   slide->shown);
}

/* With the lock, for reading or for writing. */
static enum hrf_status try_read(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                int64_t width, int64_t height, uint32_t *argb, char reason[256])
{
    enum hrf_status status = HRF_OK;
    hrf_tiff_take_messages();
    if (!hrf_sparse_read(slide, level, x0, y0, width, height, argb, &status))
        openslide_read_region(slide->handle, argb, x0, y0, level, width, height);
    const char *error = openslide_get_error(slide->handle), *detail = hrf_tiff_message();
    reason[0] = '\0';
    if (error != NULL)
        snprintf(reason, 256, "%s%s%s", error, detail[0] != '\0' ? "; " : "", detail);
    return status;
}

enum hrf_status hrf_slide_read_once(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                    int64_t width, int64_t height, uint32_t *argb,
                                    unsigned char *rgb, char reason[256], struct hrf_error *err)
{
    pthread_rwlock_rdlock(&slide->handle_lock);
    enum hrf_status status = try_read(slide, level, x0, y0, width, height, argb, reason);
    pthread_rwlock_unlock(&slide->handle_lock);
    if (status == HRF_OK && reason[0] != '\0') { /* the error may be another thread's */
        pthread_rwlock_wrlock(&slide->handle_lock);
        if (renew_handle(slide))
            status = try_read(slide, level, x0, y0, width, height, argb, reason);
        pthread_rwlock_unlock(&slide->handle_lock);
    }
    if (status != HRF_OK)
        return hrf_error_set(err, status, "no memory for a tile of '%s'", slide->shown);
    if (reason[0] == '\0')
        composite(argb, width * height, rgb);
    return HRF_OK;
}

enum hrf_status hrf_slide_read_argb(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                    int64_t width, int64_t height, uint32_t *argb,
                                    unsigned char *rgb, struct hrf_error *err)
{
    struct hrf_bad_tile tile;
    HRF_TRY(hrf_slide_check_damage(slide, err));
    HRF_TRY(hrf_slide_read_once(slide, level, x0, y0, width, height, argb, rgb, tile.reason, err));
    if (tile.reason[0] == '\0')
        return HRF_OK;
    if (slide->bad_policy == HRF_BAD_TILES_ARE_WHITE)
        return hrf_slide_read_around(slide, level, x0, y0, width, height, argb, rgb, err);
    char reason[sizeof tile.reason];
    memcpy(reason, tile.reason, sizeof reason);
    hrf_bad_tile_find(slide, level, x0, y0, width, height, &tile);
    memcpy(tile.reason, reason, sizeof tile.reason);
    return hrf_slide_report_damage(slide, &tile, err);
}

/* The level pixel at which a read from x0 begins. False: it lies between two pixels, by more than
 * rounding to a pixel of level 0 explains. */
static bool whole_pixel(int64_t x0, double downsample, int64_t *out)
{
    const double exact = (double)x0 / downsample;
    *out = llround(exact);
    return fabs(exact - (double)*out) <= 0.5 / downsample * (downsample > 1);
}

enum hrf_status hrf_slide_read(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                               int64_t width, int64_t height, unsigned char *rgb,
                               struct hrf_error *err)
{
    enum { CHUNK_PIXELS = 1 << 20 }; /* 4 MiB of ARGB at a time */
    if (level < 0 || level >= slide->info.n_levels || width < 1 || height < 1)
        return hrf_error_set(err, HRF_E_BUG, "slide '%s': a read of %lld x %lld px of level %d",
                             slide->shown, (long long)width, (long long)height, level);
    double downsample = slide->info.level[level].downsample;
    struct hrf_level_region region = { .grid = { level, 1 }, .width = width, .height = height };
    if (hrf_level_has_tiles(slide, level, 1) && whole_pixel(x0, downsample, &region.x) &&
        whole_pixel(y0, downsample, &region.y))
        return hrf_level_read(slide, &region, rgb, err);
    int64_t rows = width < CHUNK_PIXELS ? CHUNK_PIXELS / width : 1;
    rows = rows < height ? rows : height;
    HRF_AUTO_FREE uint32_t *argb = hrf_alloc_array((size_t)(rows * width), sizeof *argb);
    HRF_CHECK_MEMORY(argb != NULL, err, "no memory for %lld x %lld px of '%s'", (long long)width,
                     (long long)rows, slide->shown);
    for (int64_t y = 0; y < height; y += rows) {
        int64_t n = height - y < rows ? height - y : rows;
        int64_t at = y0 + llround((double)y * downsample);
        HRF_TRY(
            hrf_slide_read_argb(slide, level, x0, at, width, n, argb, rgb + y * width * 3, err));
    }
    return HRF_OK;
}
