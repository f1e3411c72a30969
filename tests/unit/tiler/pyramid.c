#include "tests/unit/tiler/pyramid.h"

#include "base/alloc.h"
#include "base/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "pyramid: %s '%s'\n", what, path);
    _exit(1);
}

unsigned char pyramid_noise(int level, uint32_t x, uint32_t y, int channel)
{
    uint64_t v = (uint64_t)x * 0x9e3779b97f4a7c15u + (uint64_t)y * 0xc2b2ae3d27d4eb4fu +
                 (uint64_t)(level * 4 + channel) * 0x165667b19e3779f9u;
    v = (v ^ v >> 29) * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(v >> 40);
}

void pyramid_halve(struct pyramid *pyramid, uint32_t width, uint32_t height, uint32_t smallest)
{
    pyramid->n_levels = 0;
    while (pyramid->n_levels < PYRAMID_MAX_LEVELS && width > 0 && height > 0) {
        pyramid->level[pyramid->n_levels].width = width;
        pyramid->level[pyramid->n_levels++].height = height;
        if (width <= smallest && height <= smallest)
            break;
        width /= 2;
        height /= 2;
    }
}

static void set_tags(TIFF *tiff, const struct pyramid *p, int level, uint32_t tile)
{
    uint16_t n_samples = p->alpha ? 4 : 3, extra = EXTRASAMPLE_UNASSALPHA;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, p->level[level].width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, p->level[level].height);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, tile);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, n_samples);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, p->jpeg ? COMPRESSION_JPEG : COMPRESSION_ADOBE_DEFLATE);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC,
                 p->jpeg && !p->rgb ? PHOTOMETRIC_YCBCR : PHOTOMETRIC_RGB);
    if (p->jpeg)
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    if (p->alpha)
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &extra);
    if (level > 0)
        TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE);
    if (level == 0 && p->description != NULL)
        TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, p->description);
    if (level == 0 && p->software != NULL)
        TIFFSetField(tiff, TIFFTAG_SOFTWARE, p->software);
    if (level == 0 && p->x_resolution > 0) {
        TIFFSetField(tiff, TIFFTAG_XRESOLUTION, p->x_resolution);
        TIFFSetField(tiff, TIFFTAG_YRESOLUTION, p->y_resolution);
    }
    if (level == 0 && p->resolution_unit != 0)
        TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, p->resolution_unit);
}

static void fill_pixel(const struct pyramid *p, int level, uint32_t x, uint32_t y,
                       unsigned char *out)
{
    unsigned char rgba[4] = { 0, 0, 0, 255 };
    if (p->pixel != NULL)
        p->pixel(p->context, level, x, y, rgba);
    else
        for (int c = 0; c < 3; c++)
            rgba[c] = pyramid_noise(level, x, y, c);
    memcpy(out, rgba, p->alpha ? 4 : 3);
}

static void write_level(TIFF *tiff, const struct pyramid *p, int level, const char *path)
{
    uint32_t tile = p->tile > 0 ? p->tile : 64, n_samples = p->alpha ? 4 : 3;
    set_tags(tiff, p, level, tile);
    unsigned char *pixels = hrf_calloc((size_t)tile * tile, n_samples);
    if (pixels == NULL)
        stop("no memory for", path);
    for (uint32_t y = 0; y < p->level[level].height; y += tile) {
        for (uint32_t x = 0; x < p->level[level].width; x += tile) {
            if (p->is_sparse != NULL && p->is_sparse(p->context, level, x / tile, y / tile))
                continue;
            for (uint32_t v = 0; v < tile; v++)
                for (uint32_t u = 0; u < tile; u++)
                    fill_pixel(p, level, x + u, y + v, pixels + (v * tile + u) * n_samples);
            if (TIFFWriteTile(tiff, pixels, x, y, 0, 0) < 0)
                stop("cannot write", path);
        }
    }
    hrf_free(pixels);
    if (!TIFFWriteDirectory(tiff))
        stop("cannot write", path);
}

void pyramid_write(const struct pyramid *p, const char *path)
{
    TIFF *tiff = TIFFOpen(path, p->big ? "w8" : "w");
    if (tiff == NULL)
        stop("cannot create", path);
    for (int level = 0; level < p->n_levels; level++)
        write_level(tiff, p, level, path);
    TIFFClose(tiff);
}

void pyramid_folder(char out[64])
{
    snprintf(out, 64, "/tmp/hrf-tiler-XXXXXX");
    if (mkdtemp(out) == NULL)
        stop("cannot create", out);
}

void pyramid_path(const char *folder, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
}

void pyramid_remove_folder(const char *folder)
{
    if (hrf_path_remove_tree(folder, NULL) != HRF_OK)
        stop("cannot remove", folder);
}

char test_folder[64];

int make_test_folder(void **state)
{
    (void)state;
    pyramid_folder(test_folder);
    return 0;
}

int remove_test_folder(void **state)
{
    (void)state;
    pyramid_remove_folder(test_folder);
    return 0;
}
