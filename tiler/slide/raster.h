/* raster.h - images that OpenSlide does not read: TIFFs of any form, PNG and JPEG.
 *
 * TIFFs (striped, or tiled in a form that OpenSlide refuses, and OME-TIFF, whose smaller levels are
 * SubIFDs) are decoded by libtiff one tile, or some strips, at a time. A PNG or JPEG is one level
 * and is decoded as a whole when its first pixel is wanted. Pixels are 8-bit RGB on white.
 *
 * Files come from elsewhere: what is too large to be read is refused in a sentence before memory is
 * taken for it.
 */
#ifndef HRF_TILER_SLIDE_RASTER_H
#define HRF_TILER_SLIDE_RASTER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HRF_RASTER_LEVELS = 32,
    HRF_RASTER_MAX_PIXELS = 1 << 27,  /* of a tile or strip: 400 MB of RGB */
    HRF_RASTER_MAX_PICTURE = 1 << 28, /* of a PNG or JPEG: 800 MB */
    HRF_RASTER_MAX_TILES = 1 << 26
};

struct hrf_raster {
    void (*close)(struct hrf_raster *raster);
    /* Decodes a tile to rgb[tile_height][tile_width][3]; its part beyond the image is unchanged.
     * Any thread. HRF_E_USER: it does not decode, and `reason` says why. HRF_E_NOMEM. */
    enum hrf_status (*read)(struct hrf_raster *raster, int32_t level, int64_t column, int64_t row,
                            unsigned char *rgb, char reason[256]);
    char vendor[16]; /* "tiff", "ome-tiff", "png", "jpeg" */
    int32_t n_levels;
    struct {
        int64_t width, height, tile_width, tile_height; /* px */
    } level[HRF_RASTER_LEVELS];
    char *description;      /* a TIFF's; heap, NULL: none */
    char resolution[2][32]; /* x and y, px per unit, as text; "": none */
    const char *unit;       /* "inch", "centimeter"; NULL: none */
};

/* HRF_E_USER: the file is not such an image or cannot be read; the text says why, without the
 * file's name. */
HRF_CHECKED enum hrf_status hrf_raster_open(const char *path, struct hrf_raster **out,
                                            struct hrf_error *err);
void hrf_raster_close(struct hrf_raster *raster); /* NULL is fine */
static inline void hrf_raster_destroy(struct hrf_raster *raster)
{
    hrf_raster_close(raster);
}
HRF_DEFINE_AUTO(hrf_raster)
/* True for an OME-TIFF with smaller levels in SubIFDs, which OpenSlide does not see. */
bool hrf_raster_has_sub_levels(const char *path);

/* In raster_tiff.c and raster_picture.c: hrf_raster_open() for a file of that format. */
HRF_CHECKED enum hrf_status hrf_raster_open_tiff(const char *path, struct hrf_raster **out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_raster_open_picture(const char *path, bool is_png,
                                                    struct hrf_raster **out, struct hrf_error *err);

#endif
