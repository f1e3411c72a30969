/* slide.c - OpenSlide behind slide.h. This folder alone includes openslide.h. */
#include "tiler/slide/slide.h"

#include "base/path.h"
#include "tiler/slide/slide_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum hrf_status check_file(const char *path, struct hrf_error *err)
{
    struct stat st;
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    HRF_AUTO_FREE char *shown = hrf_text_printable(path);
    const char *name = shown != NULL ? shown : "slide";
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", name);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' is empty (0 bytes)", name);
    return HRF_OK;
}

static enum hrf_status fill_info(struct hrf_slide *slide, struct hrf_error *err)
{
    struct hrf_slide_info *info = &slide->info;
    openslide_t *os = slide->handle;
    const char *vendor = openslide_get_property_value(os, OPENSLIDE_PROPERTY_NAME_VENDOR);
    const char *hash = openslide_get_property_value(os, OPENSLIDE_PROPERTY_NAME_QUICKHASH1);
    snprintf(info->vendor, sizeof info->vendor, "%s", vendor != NULL ? vendor : "unknown");
    snprintf(info->quickhash, sizeof info->quickhash, "%s", hash != NULL ? hash : "");
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
    HRF_TRY(check_file(path, err));
    HRF_AUTO(hrf_slide) slide = hrf_calloc(1, sizeof *slide);
    if (slide == NULL || (slide->shown = hrf_text_printable(path)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to open a slide");
    slide->handle = openslide_open(path);
    if (slide->handle == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is not a whole-slide image that OpenSlide %s can read",
                             slide->shown, openslide_get_version());
    const char *error = openslide_get_error(slide->handle);
    if (error != NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' cannot be read: %s", slide->shown, error);
    HRF_TRY(fill_info(slide, err));
    *out = slide;
    slide = NULL;
    return HRF_OK;
}

void hrf_slide_close(struct hrf_slide *slide)
{
    if (slide == NULL)
        return;
    if (slide->handle != NULL)
        openslide_close(slide->handle);
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

enum hrf_status hrf_slide_read(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                               int64_t width, int64_t height, unsigned char *rgb,
                               struct hrf_error *err)
{
    enum { CHUNK_PIXELS = 1 << 20 }; /* 4 MiB of ARGB at a time */
    int64_t rows = width < CHUNK_PIXELS ? CHUNK_PIXELS / width : 1;
    rows = rows < height ? rows : height;
    HRF_AUTO_FREE uint32_t *argb = hrf_alloc_array((size_t)(rows * width), sizeof *argb);
    if (argb == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %lld x %lld px of '%s'",
                             (long long)width, (long long)rows, slide->shown);
    double downsample = slide->info.level[level].downsample;
    for (int64_t y = 0; y < height; y += rows) {
        int64_t n = height - y < rows ? height - y : rows;
        int64_t at = y0 + (int64_t)((double)y * downsample + 0.5);
        openslide_read_region(slide->handle, argb, x0, at, level, width, n);
        const char *error = openslide_get_error(slide->handle);
        if (error != NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s' cannot be read at x %lld, y %lld (level %d): %s",
                                 slide->shown, (long long)x0, (long long)at, level, error);
        composite(argb, n * width, rgb + y * width * 3);
    }
    return HRF_OK;
}
