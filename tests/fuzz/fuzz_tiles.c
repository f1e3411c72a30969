/* fuzz_tiles.c - TIFFs of any bytes: the table of their tiles is made or not, and every tile is
 * decoded or found to be damaged. A sound tile that becomes a stream keeps its pixels. */
#include "base/alloc.h"
#include "tiler/slide/jpeg_stream.h"
#include "tiler/slide/slide.h"
#include "tiler/slide/tile_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TILES = 64, MOST_PIXELS = 1 << 20 };

/* The levels as OpenSlide would find them: the tiled directories in their order. */
static void describe(int fd, struct hrf_slide_info *info)
{
    const int own = dup(fd);
    TIFF *tiff = own >= 0 ? TIFFFdOpen(own, "fuzz", "rm") : NULL;
    if (tiff == NULL) {
        close(own);
        return;
    }
    do {
        uint32_t width = 0, height = 0;
        TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
        if (!TIFFIsTiled(tiff) || width < 1 || height < 1 || width > 1 << 16 || height > 1 << 16)
            continue;
        info->level[info->n_levels].width = width;
        info->level[info->n_levels].height = height;
        info->level[info->n_levels].downsample = info->n_levels + 1;
        info->n_levels++;
    } while (info->n_levels < 4 && TIFFReadDirectory(tiff));
    TIFFClose(tiff);
}

static void check_stream(const struct hrf_tile_table *table, int32_t level, int64_t i,
                         unsigned char *rgb)
{
    const struct hrf_level_table *t = &table->level[level];
    const struct hrf_jpeg_form own = { .is_ycc = t->form.is_ycc,
                                       .width = t->tile_width,
                                       .height = t->tile_height };
    const int64_t column = i % t->columns, row = i / t->columns;
    const size_t n = (size_t)(t->tile_width * t->tile_height) * 3;
    HRF_AUTO_FREE unsigned char *stream = hrf_alloc(hrf_jpeg_stream_max(&t->form, t->lengths[i]));
    HRF_AUTO_FREE unsigned char *again = hrf_alloc(n);
    if (stream == NULL || again == NULL)
        return;
    const size_t length = hrf_tile_table_stream(table, level, column, row, stream);
    if (length > 0 && hrf_tile_table_decode(table, level, column, row, 1, rgb) &&
        (!hrf_jpeg_tile_decode(&own, stream, length, 1, again) || memcmp(rgb, again, n) != 0))
        __builtin_trap();
}

static void decode_all(const struct hrf_tile_table *table, int32_t level)
{
    const struct hrf_level_table *t = &table->level[level];
    const int64_t n = t->columns * t->rows;
    if (t->width == 0 || t->offsets == NULL || t->tile_width * t->tile_height > MOST_PIXELS)
        return;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array((size_t)(t->tile_width * t->tile_height), 3);
    for (int64_t i = 0; i < n && i < MOST_TILES && rgb != NULL; i++) {
        if (t->lengths[i] > 0)
            check_stream(table, level, i, rgb);
        for (int32_t r = 1; r <= HRF_JPEG_MAX_REDUCTION; r *= 2)
            if (t->lengths[i] > 0 && t->tile_width % r == 0 && t->tile_height % r == 0)
                (void)hrf_tile_table_decode(table, level, i % t->columns, i / t->columns, r, rgb);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const vendors[] = { "generic-tiff", "aperio", "philips", "ventana" };
    static bool is_quiet = false;
    char path[] = "/tmp/hrf-fuzz-XXXXXX";
    if (!is_quiet) {
        TIFFSetErrorHandler(NULL);
        TIFFSetWarningHandler(NULL);
        is_quiet = true;
    }
    const int fd = mkstemp(path);
    if (fd < 0)
        return 0;
    unlink(path);
    if (write(fd, data, size) == (ssize_t)size) {
        struct hrf_slide_info info = { .n_levels = 0 };
        struct hrf_tile_table table;
        snprintf(info.vendor, sizeof info.vendor, "%s", vendors[size % 4]);
        describe(fd, &info);
        if (hrf_tile_table_load(&info, fd, "fuzz", &table, NULL) == HRF_OK) {
            for (int32_t i = 0; i < info.n_levels; i++)
                decode_all(&table, i);
            hrf_tile_table_release(&table);
        }
    }
    close(fd);
    return 0;
}
