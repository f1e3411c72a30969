/* fuzz_raster.c - files of any bytes as TIFF, PNG or JPEG: they are opened or refused, and every
 * tile is decoded or found to be damaged. A first byte chooses JPEG 2000 alone. */
#include "base/alloc.h"
#include "tiler/slide/jp2k_tile.h"
#include "tiler/slide/raster.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TILES = 8, MOST_PIXELS = 1 << 20, SIDE = 64 };

static void decode_level(struct hrf_raster *raster, int32_t level)
{
    const int64_t width = raster->level[level].tile_width;
    const int64_t height = raster->level[level].tile_height;
    const int64_t columns = (raster->level[level].width + width - 1) / width;
    const int64_t rows = (raster->level[level].height + height - 1) / height;
    if (width * height > MOST_PIXELS)
        return;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)(width * height), 3);
    for (int64_t i = 0; i < columns * rows && i < MOST_TILES && rgb != NULL; i++) {
        char reason[256];
        (void)raster->read(raster, level, i % columns, i / columns, rgb, reason);
    }
}

static void read_file(const char *path)
{
    HRF_AUTO(hrf_raster) raster = NULL;
    if (hrf_raster_open(path, &raster, NULL) != HRF_OK ||
        raster->level[0].width > MOST_PIXELS / raster->level[0].height)
        return;
    for (int32_t i = 0; i < raster->n_levels; i++)
        decode_level(raster, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/hrf-fuzz-XXXXXX", reason[256];
    if (size > 0 && data[0] == 0xff) { /* a codestream begins so */
        static unsigned char rgb[SIDE * SIDE * 3];
        const struct hrf_jp2k_form form = { SIDE, SIDE, size % 2 == 0, size % 4 < 2 };
        (void)hrf_jp2k_tile_decode(&form, data, size, rgb, reason);
    }
    const int fd = mkstemp(path);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size)
        read_file(path);
    close(fd);
    unlink(path);
    return 0;
}
