/* raster_picture.c - a PNG or JPEG as an image of one level (raster.h). The lock guards its pixels
 * until they are decoded; then they do not change. */
#include "tiler/slide/picture.h"
#include "tiler/slide/raster.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TILE = 512 };

struct picture {
    struct hrf_raster base; /* first: callers have a pointer to it */
    char *path;
    bool is_png;
    pthread_mutex_t lock;
    unsigned char *rgb; /* NULL: not decoded yet */
    char failure[256];  /* why it cannot be decoded */
};

static void close_picture(struct hrf_raster *raster)
{
    struct picture *p = (struct picture *)(void *)raster;
    pthread_mutex_destroy(&p->lock);
    hrf_free(p->rgb);
    hrf_free(p->path);
    hrf_free(p);
}

static bool read_file(const struct picture *p, struct hrf_picture_header *header,
                      unsigned char *rgb, char reason[256])
{
    FILE *file = fopen(p->path, "rbe");
    if (file == NULL) {
        snprintf(reason, 256, "it cannot be opened any more (errno %d)", errno);
        return false;
    }
    const bool is_read = (p->is_png ? hrf_png_read : hrf_jpeg_read)(file, header, rgb, reason);
    fclose(file);
    return is_read;
}

/* Called with the lock. */
static enum hrf_status raster_picture_decode(struct picture *p)
{
    struct hrf_picture_header header;
    const int64_t width = p->base.level[0].width, height = p->base.level[0].height;
    unsigned char *rgb = hrf_try_alloc_array((size_t)width * (size_t)height, 3);
    if (rgb == NULL)
        return HRF_E_NOMEM;
    if (!read_file(p, &header, rgb, p->failure)) {
        hrf_free(rgb);
        return HRF_E_USER;
    }
    p->rgb = rgb;
    return HRF_OK;
}

static enum hrf_status read_picture(struct hrf_raster *raster, int32_t level, int64_t column,
                                    int64_t row, unsigned char *rgb, char reason[256])
{
    struct picture *p = (struct picture *)(void *)raster;
    (void)level;
    pthread_mutex_lock(&p->lock);
    enum hrf_status status = p->failure[0] != '\0' ? HRF_E_USER
                             : p->rgb != NULL      ? HRF_OK
                                                   : raster_picture_decode(p);
    memcpy(reason, p->failure, sizeof p->failure);
    pthread_mutex_unlock(&p->lock);
    if (status != HRF_OK)
        return status;
    const int64_t width = raster->level[0].width, height = raster->level[0].height;
    const int64_t n = width - column * TILE < TILE ? width - column * TILE : TILE;
    for (int64_t y = row * TILE; y < (row + 1) * TILE && y < height; y++)
        memcpy(rgb + (y - row * TILE) * TILE * 3, p->rgb + (y * width + column * TILE) * 3,
               (size_t)n * 3);
    return HRF_OK;
}

static void take_resolution(const struct hrf_picture_header *header, struct hrf_raster *raster)
{
    if (header->per_cm_x <= 0 || header->per_cm_y <= 0)
        return;
    raster->unit = "centimeter";
    snprintf(raster->resolution[0], sizeof raster->resolution[0], "%.9g", header->per_cm_x);
    snprintf(raster->resolution[1], sizeof raster->resolution[1], "%.9g", header->per_cm_y);
}

enum hrf_status hrf_raster_open_picture(const char *path, bool is_png, struct hrf_raster **out,
                                        struct hrf_error *err)
{
    struct hrf_picture_header header = { .width = 0 };
    char reason[256] = "";
    struct picture *p = hrf_calloc(1, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    p->base.close = close_picture;
    p->base.read = read_picture;
    p->is_png = is_png;
    HRF_AUTO(hrf_raster) raster = &p->base;
    p->path = hrf_strdup(path);
    if (!read_file(p, &header, NULL, reason))
        return hrf_error_set(err, HRF_E_USER, "it is damaged: %s", reason);
    if (header.width < 1 || header.height < 1)
        return hrf_error_set(err, HRF_E_USER, "it has no pixels");
    if (header.width > HRF_RASTER_MAX_PICTURE / header.height)
        return hrf_error_set(err, HRF_E_USER,
                             "it is %lld x %lld px, and a %s is decoded as a whole: %d Mpx are the "
                             "limit; store it in tiles ('vips tiffsave --tile --pyramid')",
                             (long long)header.width, (long long)header.height,
                             is_png ? "PNG" : "JPEG", HRF_RASTER_MAX_PICTURE >> 20);
    snprintf(raster->vendor, sizeof raster->vendor, "%s", is_png ? "png" : "jpeg");
    raster->n_levels = 1;
    raster->level[0].width = header.width;
    raster->level[0].height = header.height;
    raster->level[0].tile_width = raster->level[0].tile_height = TILE;
    take_resolution(&header, raster);
    HRF_MOVE(*out, raster);
    return HRF_OK;
}
