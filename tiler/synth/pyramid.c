/* pyramid.c - an RGB image as a tiled JPEG BigTIFF pyramid, one directory a level, each half. */
#include "tiler/synth/synth.h"

#include "base/alloc.h"

#include <string.h>
#include <tiffio.h>

enum { TILE = 256, QUALITY = 85, MIN_SIDE = 256 };

static void set_fields(TIFF *tiff, int64_t width, int64_t height, double mpp, int level)
{
    float per_cm = (float)(10000.0 / mpp);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, (uint32_t)width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, (uint32_t)height);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, TILE);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, TILE);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_JPEG);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_YCBCR);
    TIFFSetField(tiff, TIFFTAG_JPEGQUALITY, QUALITY);
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    TIFFSetField(tiff, TIFFTAG_XRESOLUTION, per_cm);
    TIFFSetField(tiff, TIFFTAG_YRESOLUTION, per_cm);
    TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, level > 0 ? FILETYPE_REDUCEDIMAGE : 0);
}

static bool write_level(TIFF *tiff, const unsigned char *rgb, int64_t width, int64_t height,
                        unsigned char *tile)
{
    for (int64_t y = 0; y < height; y += TILE) {
        for (int64_t x = 0; x < width; x += TILE) {
            int64_t n = width - x < TILE ? width - x : TILE;
            memset(tile, 255, (size_t)TILE * TILE * 3);
            for (int64_t r = 0; r < TILE && y + r < height; r++)
                memcpy(tile + r * TILE * 3, rgb + ((y + r) * width + x) * 3, (size_t)n * 3);
            if (TIFFWriteTile(tiff, tile, (uint32_t)x, (uint32_t)y, 0, 0) < 0)
                return false;
        }
    }
    return TIFFWriteDirectory(tiff) == 1;
}

/* Halves the image in place by 2 x 2 means. */
static void halve(unsigned char *rgb, int64_t *width, int64_t *height)
{
    int64_t w = *width / 2, h = *height / 2;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                const unsigned char *p = rgb + (2 * y * *width + 2 * x) * 3 + c;
                int sum = p[0] + p[3] + p[*width * 3] + p[*width * 3 + 3];
                rgb[(y * w + x) * 3 + c] = (unsigned char)((sum + 2) / 4);
            }
    *width = w;
    *height = h;
}

enum hrf_status hrf_synth_write_pyramid(const char *path, unsigned char *rgb, int64_t width,
                                        int64_t height, double mpp, struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *tile = hrf_alloc((size_t)TILE * TILE * 3);
    TIFF *tiff = TIFFOpen(path, "w8");
    if (tiff == NULL)
        return hrf_error_set(err, HRF_E_EXTERNAL, "cannot write '%s'", path);
    bool good = true;
    for (int level = 0; good && width >= 1 && height >= 1; level++) {
        set_fields(tiff, width, height, mpp, level);
        good = write_level(tiff, rgb, width, height, tile);
        if (width < MIN_SIDE && height < MIN_SIDE)
            break;
        mpp *= 2;
        halve(rgb, &width, &height);
    }
    TIFFClose(tiff);
    return good ? HRF_OK
                : hrf_error_set(err, HRF_E_EXTERNAL, "'%s' could not be written whole", path);
}
