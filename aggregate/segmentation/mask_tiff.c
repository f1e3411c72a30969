/* mask_tiff.c - see mask_tiff.h. */
#include "aggregate/segmentation/mask_tiff.h"

#include "base/file.h"
#include "base/strbuf.h"

#include <string.h>
#include <tiffio.h>
#include <unistd.h>

/* A TIFF's offsets have 32 bits. A mask is compressed to a hundredth, seldom to less than a tenth.
 */
#define MAX_PIXELS ((int64_t)1 << 34)

static void describe(const struct hrf_mask *mask, const char *const *classes,
                     struct hrf_strbuf *text)
{
    hrf_strbuf_adds(text, "hires-flow segmentation\n0: none\n");
    for (int32_t i = 0; i < mask->n_classes; i++)
        hrf_strbuf_addf(text, "%d: %s\n", i + 1, classes[i]);
}

static void set_fields(TIFF *tiff, const struct hrf_mask *mask, int32_t level,
                       const char *description)
{
    const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
    const double per_cm = 10000.0 / (mask->mpp * (double)((int64_t)1 << level));
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, (uint32_t)size.width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, (uint32_t)size.height);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, (uint32_t)mask->tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, (uint32_t)mask->tile);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
    TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    TIFFSetField(tiff, TIFFTAG_XRESOLUTION, (float)per_cm);
    TIFFSetField(tiff, TIFFTAG_YRESOLUTION, (float)per_cm);
    TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, level > 0 ? FILETYPE_REDUCEDIMAGE : 0);
    if (level == 0)
        TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, description);
}

static bool write_tiles(TIFF *tiff, const unsigned char *labels, int64_t row, int64_t n,
                        int64_t width, int32_t side)
{
    unsigned char tile[HRF_MASK_TILE * HRF_MASK_TILE];
    for (int64_t x = 0; x < width; x += side) {
        const int64_t left = width - x, wide = left < side ? left : side;
        memset(tile, 0, sizeof tile);
        for (int64_t y = 0; y < n; y++)
            memcpy(tile + y * side, labels + y * width + x, (size_t)wide);
        if (TIFFWriteTile(tiff, tile, (uint32_t)x, (uint32_t)row, 0, 0) < 0)
            return false;
    }
    return true;
}

static enum hrf_status write_level(TIFF *tiff, const struct hrf_mask *mask, int32_t level,
                                   const char *path, struct hrf_error *err)
{
    const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
    HRF_AUTO_FREE unsigned char *labels = hrf_try_alloc_array((size_t)size.width,
                                                              (size_t)mask->tile);
    HRF_CHECK_MEMORY(labels != NULL, err, "no memory for %d rows of a mask", mask->tile);
    for (int64_t row = 0; row < size.height; row += mask->tile) {
        const int64_t left = size.height - row, n = left < mask->tile ? left : mask->tile;
        HRF_TRY(hrf_mask_rows(mask, level, row, n, labels, err));
        if (!write_tiles(tiff, labels, row, n, size.width, mask->tile))
            return hrf_error_set(err, HRF_E_NOSPACE, "cannot write '%s'", path);
    }
    return TIFFWriteDirectory(tiff) == 1
               ? HRF_OK
               : hrf_error_set(err, HRF_E_NOSPACE, "cannot write '%s'", path);
}

static enum hrf_status write_levels(TIFF *tiff, const struct hrf_mask *mask,
                                    const char *const *classes, const char *path,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) description = HRF_STRBUF_INIT;
    describe(mask, classes, &description);
    for (int32_t level = 0; level < mask->n_levels; level++) {
        set_fields(tiff, mask, level, description.text);
        HRF_TRY(write_level(tiff, mask, level, path, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_mask_tiff_write(const struct hrf_mask *mask, const char *const *classes,
                                    const char *path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *temporary = NULL;
    int fd = -1;
    const bool is_large = mask->width * mask->height > MAX_PIXELS;
    HRF_TRY(hrf_file_temporary(path, &temporary, &fd, err));
    close(fd); /* it can only be written, and libtiff reads what it has written of directories */
    TIFF *tiff = TIFFOpen(temporary, is_large ? "w8" : "w");
    enum hrf_status status = HRF_OK;
    if (tiff == NULL) {
        status = hrf_error_set(err, HRF_E_EXTERNAL, "cannot write '%s'", path);
    } else {
        status = write_levels(tiff, mask, classes, path, err);
        TIFFClose(tiff);
    }
    if (status == HRF_OK)
        return hrf_file_commit(temporary, path, err);
    unlink(temporary);
    return status;
}
