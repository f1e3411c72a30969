/* png_write.c - encodes PNG with libpng (png_write.h). libpng reports errors by calling back; this
 * ends in a longjmp to the one function that set the place.
 *
 * Large pictures are written with zlib's level 1 and the filter Up for every row: half the time of
 * letting libpng choose among all filters, within 4 % of its bytes on pictures of tissue (832 x 888
 * px: 23 ms for 44; level 6: 125). Small pictures take little time, and pages hold many of them:
 * level 6, and filters by choice.
 */
#include "base/png_write.h"

#include "base/alloc.h"

#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SMALL_PIXELS = 1 << 18, SMALL_LEVEL = 6, LARGE_LEVEL = 1 };

struct writing {
    unsigned char *bytes;
    size_t n_bytes, capacity;
    char message[80];
    jmp_buf failed;
};

static void fail(png_structp png, png_const_charp message)
{
    struct writing *w = png_get_error_ptr(png);
    snprintf(w->message, sizeof w->message, "%s", message);
    longjmp(w->failed, 1);
}

static void say_nothing(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void append(png_structp png, png_bytep data, size_t n)
{
    struct writing *w = png_get_io_ptr(png);
    if (n > w->capacity - w->n_bytes)
        png_error(png, "it is larger than libpng says that it can be");
    memcpy(w->bytes + w->n_bytes, data, n);
    w->n_bytes += n;
}

static void flush(png_structp png)
{
    (void)png;
}

/* Everything between creating and destroying, which an error of libpng leaves. */
static void encode(png_structp png, png_infop info, const unsigned char *pixels, png_uint_32 width,
                   png_uint_32 height, int n_channels)
{
    png_set_IHDR(png, info, width, height, 8,
                 n_channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    const bool is_small = (uint64_t)width * height <= SMALL_PIXELS;
    png_set_compression_level(png, is_small ? SMALL_LEVEL : LARGE_LEVEL);
    png_set_filter(png, PNG_FILTER_TYPE_BASE,
                   n_channels != 3 ? PNG_FILTER_NONE
                   : is_small      ? PNG_ALL_FILTERS
                                   : PNG_FILTER_UP);
    png_write_info(png, info);
    for (png_uint_32 y = 0; y < height; y++)
        png_write_row(png, pixels + (size_t)y * width * (size_t)n_channels);
    png_write_end(png, info);
}

static enum hrf_status encode_all(struct writing *w, const unsigned char *pixels, int64_t width,
                                  int64_t height, int n_channels, struct hrf_error *err)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, w, fail, say_nothing);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    volatile bool is_written = false;
    if (info != NULL && setjmp(w->failed) == 0) {
        png_set_write_fn(png, w, append, flush);
        encode(png, info, pixels, (png_uint_32)width, (png_uint_32)height, n_channels);
        is_written = true;
    }
    png_destroy_write_struct(&png, &info);
    if (is_written)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_EXTERNAL, "libpng cannot write a picture of %lld x %lld px: %s",
                         (long long)width, (long long)height,
                         w->message[0] != '\0' ? w->message : "no memory");
}

enum hrf_status hrf_png_write(const unsigned char *pixels, int64_t width, int64_t height,
                              int n_channels, unsigned char **out, size_t *n_bytes,
                              struct hrf_error *err)
{
    const png_image size = { .width = (png_uint_32)width,
                             .height = (png_uint_32)height,
                             .format = n_channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
    struct writing w = { .capacity = PNG_IMAGE_PNG_SIZE_MAX(size) };
    HRF_AUTO_FREE unsigned char *bytes = hrf_alloc(w.capacity);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for a PNG of %lld x %lld px", (long long)width,
                     (long long)height);
    w.bytes = bytes;
    HRF_TRY(encode_all(&w, pixels, width, height, n_channels, err));
    *n_bytes = w.n_bytes;
    HRF_MOVE(*out, bytes);
    return HRF_OK;
}
