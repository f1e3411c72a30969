/* slide.c - OpenSlide behind slide.h. This folder alone includes openslide.h. */
#include "tiler/slide/slide.h"

#include "base/file.h"
#include "base/guard.h"
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

static bool is_dicom(int fd)
{
    char word[4];
    return pread(fd, word, sizeof word, 128) == sizeof word && memcmp(word, "DICM", 4) == 0;
}

/* Neither OpenSlide nor the readers of other images can read the file. */
static enum hrf_status slide_refuse(const struct hrf_slide *slide, const char *openslide_error,
                                    const char *raster_error, struct hrf_error *err)
{
    char cut[128];
    if (hrf_slide_is_cut_short(slide->path, cut, sizeof cut))
        return hrf_error_set(err, HRF_E_USER, "slide '%s' %s; copy it again", slide->shown, cut);
    if (openslide_error[0] != '\0')
        return hrf_error_set(err, HRF_E_USER, "slide '%s' cannot be opened: %s", slide->shown,
                             openslide_error);
    if (hrf_openslide()->is_3 && is_dicom(slide->fd))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is DICOM, which OpenSlide 4 reads, and OpenSlide %s is used "
                             "here: install it ('pip install openslide-bin'), and set "
                             "HRF_OPENSLIDE to its libopenslide.so.1",
                             slide->shown, hrf_openslide()->version);
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is not a whole-slide image: OpenSlide %s knows no format for it, "
                         "and %s",
                         slide->shown, hrf_openslide()->version, raster_error);
}

const char *hrf_slide_property(const struct hrf_slide *slide, const char *name)
{
    const struct hrf_raster *raster = slide->raster;
    if (raster == NULL)
        return hrf_openslide()->property(slide->handle, name);
    const bool has_unit = raster->unit != NULL && raster->resolution[0][0] != '\0';
    if (strcmp(name, "tiff.ImageDescription") == 0)
        return raster->description;
    if (has_unit && strcmp(name, "tiff.ResolutionUnit") == 0)
        return raster->unit;
    if (has_unit && strcmp(name, "tiff.XResolution") == 0)
        return raster->resolution[0];
    if (has_unit && strcmp(name, "tiff.YResolution") == 0)
        return raster->resolution[1];
    return NULL;
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
        const char *value = hrf_slide_property(slide, names[i]);
        HRF_AUTO_FREE char *shown = value != NULL ? hrf_text_escaped(value) : NULL;
        snprintf(slide->info.scanner, sizeof slide->info.scanner, "%s", shown != NULL ? shown : "");
    }
}

static enum hrf_status fill_info(struct hrf_slide *slide, struct hrf_error *err)
{
    struct hrf_slide_info *info = &slide->info;
    openslide_t *os = slide->handle;
    const char *vendor = hrf_openslide()->property(os, OPENSLIDE_PROPERTY_NAME_VENDOR);
    snprintf(info->vendor, sizeof info->vendor, "%s", vendor != NULL ? vendor : "unknown");
    fill_scanner(slide);
    hrf_openslide()->level0_dimensions(os, &info->width, &info->height);
    info->n_levels = hrf_openslide()->level_count(os);
    if (info->n_levels > HRF_SLIDE_MAX_LEVELS)
        info->n_levels = HRF_SLIDE_MAX_LEVELS;
    for (int32_t i = 0; i < info->n_levels; i++) {
        hrf_openslide()->level_dimensions(os, i, &info->level[i].width, &info->level[i].height);
        info->level[i].downsample = hrf_openslide()->level_downsample(os, i);
    }
    const char *error = hrf_openslide()->error(os);
    if (error != NULL || info->width < 1 || info->height < 1 || info->n_levels < 1)
        return hrf_error_set(err, HRF_E_USER, "'%s' cannot be read: %s", slide->shown,
                             error != NULL ? error : "it has no pixels");
    if (info->width > INT32_MAX || info->height > INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' is %lld x %lld px; 2^31 px a side are the limit", slide->shown,
                             (long long)info->width, (long long)info->height);
    return HRF_OK;
}

static void fill_raster_info(struct hrf_slide *slide)
{
    const struct hrf_raster *raster = slide->raster;
    struct hrf_slide_info *info = &slide->info;
    snprintf(info->vendor, sizeof info->vendor, "%s", raster->vendor);
    info->width = raster->level[0].width;
    info->height = raster->level[0].height;
    info->n_levels = raster->n_levels;
    for (int32_t i = 0; i < raster->n_levels; i++) {
        const int64_t width = raster->level[i].width, height = raster->level[i].height;
        info->level[i].width = width;
        info->level[i].height = height;
        info->level[i].downsample = ((double)info->width / (double)width +
                                     (double)info->height / (double)height) /
                                    2; /* as OpenSlide has it */
        struct hrf_level_table *table = &slide->table.level[i];
        table->width = width;
        table->height = height;
        table->tile_width = raster->level[i].tile_width;
        table->tile_height = raster->level[i].tile_height;
        table->columns = (width + table->tile_width - 1) / table->tile_width;
        table->rows = (height + table->tile_height - 1) / table->tile_height;
    }
}

static enum hrf_status open_by_openslide(struct hrf_slide *slide, struct hrf_error *err)
{
    HRF_TRY(fill_info(slide, err));
    HRF_TRY(hrf_generic_tiff_load(slide->path, slide, err));
    HRF_TRY(hrf_tile_table_load(&slide->info, slide->fd, slide->shown, &slide->table, err));
    slide->info.n_cut_off = slide->table.n_cut_off;
    return HRF_OK;
}

/* Opens the file by OpenSlide if that can read it, except OME-TIFFs, of which it sees the largest
 * level alone; else by the readers of raster.h. */
static enum hrf_status open_pixels(struct hrf_slide *slide, struct hrf_error *err)
{
    struct hrf_error why = { .text = "" };
    char openslide_error[256] = "";
    if (hrf_openslide()->trouble[0] != '\0')
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "slides cannot be read without OpenSlide: %s",
                             hrf_openslide()->trouble);
    hrf_tiff_take_messages();
    slide->handle = hrf_openslide()->open(slide->path);
    const char *error = slide->handle != NULL ? hrf_openslide()->error(slide->handle) : NULL;
    const char *vendor = slide->handle != NULL && error == NULL
                             ? hrf_slide_property(slide, OPENSLIDE_PROPERTY_NAME_VENDOR)
                             : NULL;
    const bool is_generic = vendor != NULL && strcmp(vendor, "generic-tiff") == 0;
    if (vendor != NULL && !(is_generic && hrf_raster_has_sub_levels(slide->path)))
        return open_by_openslide(slide, err);
    if (error != NULL)
        snprintf(openslide_error, sizeof openslide_error, "%s", error);
    char cut[128];
    const enum hrf_status status = hrf_slide_is_cut_short(slide->path, cut, sizeof cut)
                                       ? HRF_E_USER
                                       : hrf_raster_open(slide->path, &slide->raster, &why);
    if (status != HRF_OK && vendor != NULL)
        return open_by_openslide(slide, err);
    if (slide->handle != NULL)
        hrf_openslide()->close(slide->handle);
    slide->handle = NULL;
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, status, "%s", why.text);
    if (status != HRF_OK)
        return slide_refuse(slide, openslide_error, why.text, err);
    fill_raster_info(slide);
    return HRF_OK;
}

bool hrf_slide_is_named(const char *name)
{
    static const char *const known[] = { "svs", "tif", "tiff", "ndpi", "mrxs",
                                         "scn", "vms", "vmu",  "bif",  "svslide" };
    HRF_AUTO_FREE char *extension = hrf_path_extension(name);
    return hrf_text_is_among(extension, known, sizeof known / sizeof known[0]);
}

enum hrf_status hrf_slide_open(const char *path, struct hrf_slide **out, struct hrf_error *err)
{
    HRF_GUARD_NOTE(path);
    HRF_AUTO(hrf_slide) slide = hrf_calloc(1, sizeof *slide);
    slide->path = hrf_strdup(path);
    slide->shown = hrf_text_escaped(path);
    slide->fd = -1;
    pthread_mutex_init(&slide->lock, NULL);
    pthread_rwlock_init(&slide->handle_lock, NULL);
    pthread_rwlock_init(&slide->ahead_lock, NULL);
    HRF_TRY(open_file(path, slide->shown, &slide->fd, err));
    HRF_TRY(open_pixels(slide, err));
    hrf_tile_cache_create(CACHE_BYTES, &slide->cache);
    HRF_MOVE(*out, slide);
    return HRF_OK;
}

void hrf_slide_close(struct hrf_slide *slide)
{
    if (slide == NULL)
        return;
    if (slide->handle != NULL)
        hrf_openslide()->close(slide->handle);
    pthread_mutex_destroy(&slide->lock);
    pthread_rwlock_destroy(&slide->handle_lock);
    pthread_rwlock_destroy(&slide->ahead_lock);
    hrf_raster_close(slide->raster);
    hrf_sparse_destroy(slide->sparse);
    hrf_bad_list_destroy(slide->bad);
    hrf_tile_table_release(&slide->table);
    hrf_read_ahead_destroy(slide->ahead);
    hrf_tile_cache_destroy(slide->cache);
    if (slide->fd >= 0)
        close(slide->fd);
    hrf_free(slide->path);
    hrf_free(slide->shown);
    hrf_free(slide);
}

void hrf_slide_library(struct hrf_slide_library *out)
{
    const struct hrf_openslide *openslide = hrf_openslide();
    *out = (struct hrf_slide_library){ .version = openslide->version,
                                       .file = openslide->file,
                                       .trouble = openslide->trouble,
                                       .reads_dicom = !openslide->is_3 };
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
    if (hrf_openslide()->error(slide->handle) == NULL)
        return true;
    openslide_t *fresh = hrf_openslide()->open(slide->path);
    if (fresh != NULL && hrf_openslide()->error(fresh) == NULL) {
        hrf_openslide()->close(slide->handle);
        slide->handle = fresh;
        return true;
    }
    if (fresh != NULL)
        hrf_openslide()->close(fresh);
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

/* Called with the lock, for reading or for writing. */
static enum hrf_status try_read(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                int64_t width, int64_t height, uint32_t *argb, char reason[256])
{
    enum hrf_status status = HRF_OK;
    hrf_tiff_take_messages();
    if (!hrf_sparse_read(slide, level, x0, y0, width, height, argb, &status))
        hrf_openslide()->read_region(slide->handle, argb, x0, y0, level, width, height);
    const char *error = hrf_openslide()->error(slide->handle), *detail = hrf_tiff_message();
    reason[0] = '\0';
    if (error != NULL)
        snprintf(reason, 256, "%s%s%s", error, detail[0] != '\0' ? "; " : "", detail);
    return status;
}

enum hrf_status hrf_slide_read_once(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                    int64_t width, int64_t height, uint32_t *argb,
                                    unsigned char *rgb, char reason[256], struct hrf_error *err)
{
    HRF_GUARD_NOTE(slide->path);
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

/* Reads a region of an image that OpenSlide does not read: opaque, and white outside. */
static enum hrf_status read_raster_argb(struct hrf_slide *slide, int32_t level, int64_t x0,
                                        int64_t y0, int64_t width, int64_t height, uint32_t *argb,
                                        unsigned char *rgb, bool *met_white, struct hrf_error *err)
{
    const double downsample = slide->info.level[level].downsample;
    const struct hrf_level_region region = { .grid = { level, 1 },
                                             .x = llround((double)x0 / downsample),
                                             .y = llround((double)y0 / downsample),
                                             .width = width,
                                             .height = height };
    HRF_TRY(hrf_level_read(slide, &region, rgb, met_white, err));
    for (int64_t i = 0; i < width * height; i++)
        argb[i] = 0xff000000u | (uint32_t)rgb[3 * i] << 16 | (uint32_t)rgb[3 * i + 1] << 8 |
                  rgb[3 * i + 2];
    return HRF_OK;
}

enum hrf_status hrf_slide_read_argb(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                                    int64_t width, int64_t height, uint32_t *argb,
                                    unsigned char *rgb, bool *met_white, struct hrf_error *err)
{
    struct hrf_bad_tile tile;
    if (slide->raster != NULL)
        return read_raster_argb(slide, level, x0, y0, width, height, argb, rgb, met_white, err);
    HRF_TRY(hrf_slide_check_damage(slide, err));
    HRF_TRY(hrf_slide_read_once(slide, level, x0, y0, width, height, argb, rgb, tile.reason, err));
    if (tile.reason[0] == '\0')
        return HRF_OK;
    if (slide->bad_policy == HRF_BAD_TILES_ARE_WHITE)
        return hrf_slide_read_around(slide, level, x0, y0, width, height, argb, rgb, met_white,
                                     err);
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
                               int64_t width, int64_t height, unsigned char *rgb, bool *met_white,
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
        return hrf_level_read(slide, &region, rgb, met_white, err);
    int64_t rows = width < CHUNK_PIXELS ? CHUNK_PIXELS / width : 1;
    rows = rows < height ? rows : height;
    HRF_AUTO_FREE uint32_t *argb = hrf_try_alloc_array((size_t)(rows * width), sizeof *argb);
    HRF_CHECK_MEMORY(argb != NULL, err, "no memory for %lld x %lld px of '%s'", (long long)width,
                     (long long)rows, slide->shown);
    for (int64_t y = 0; y < height; y += rows) {
        int64_t n = height - y < rows ? height - y : rows;
        int64_t at = y0 + llround((double)y * downsample);
        HRF_TRY(hrf_slide_read_argb(slide, level, x0, at, width, n, argb, rgb + y * width * 3,
                                    met_white, err));
    }
    return HRF_OK;
}
