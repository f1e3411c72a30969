/* png_picture.c - PNG by libpng, which reports errors by longjmp (picture.h). */
#include "base/alloc.h"
#include "tiler/slide/picture.h"

#include <png.h>

static void png_picture_fail(png_structp png, png_const_charp text)
{
    char *reason = png_get_error_ptr(png);
    snprintf(reason, 256, "%s", text);
    png_longjmp(png, 1);
}

static void say_nothing(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void take_header(png_structp png, png_infop info, struct hrf_picture_header *out)
{
    png_uint_32 x = 0, y = 0;
    int unit = PNG_RESOLUTION_UNKNOWN;
    *out = (struct hrf_picture_header){ .width = png_get_image_width(png, info),
                                        .height = png_get_image_height(png, info) };
    if (png_get_pHYs(png, info, &x, &y, &unit) && unit == PNG_RESOLUTION_METER) {
        out->per_cm_x = x / 100.0;
        out->per_cm_y = y / 100.0;
    }
}

/* Everything becomes 8 bits of red, green, blue and alpha. */
static void ask_for_rgba(png_structp png, png_infop info)
{
    const int type = png_get_color_type(png, info);
    if (png_get_bit_depth(png, info) == 16)
        png_set_strip_16(png);
    png_set_expand(png); /* palettes, few bits, transparent colours */
    if ((type & PNG_COLOR_MASK_COLOR) == 0)
        png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

static void put_row(const unsigned char *rgba, int64_t width, unsigned char *rgb)
{
    for (int64_t i = 0; i < width; i++, rgba += 4, rgb += 3)
        for (int c = 0; c < 3; c++)
            rgb[c] = (unsigned char)((rgba[c] * rgba[3] + 255 * (255 - rgba[3]) + 127) / 255);
}

/* An interlaced picture is read as a whole, in a buffer of RGBA; others row by row. */
static void read_rows(png_structp png, png_infop info, unsigned char *rgba, unsigned char *rgb)
{
    const int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    const bool is_whole = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    const int n_passes = is_whole ? 7 : 1;
    for (int pass = 0; pass < n_passes; pass++)
        for (int64_t y = 0; y < height; y++) {
            unsigned char *row = rgba + (is_whole ? y * width * 4 : 0);
            png_read_row(png, row, NULL);
            if (pass == n_passes - 1)
                put_row(row, width, rgb + y * width * 3);
        }
}

bool hrf_png_read(FILE *file, struct hrf_picture_header *header, unsigned char *rgb,
                  char reason[256])
{
    unsigned char *volatile rgba = NULL;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reason, png_picture_fail,
                                             say_nothing);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    volatile bool is_read = false;
    if (info == NULL) {
        snprintf(reason, 256, "no memory");
    } else if (setjmp(png_jmpbuf(png)) == 0) {
        png_set_user_limits(png, 1 << 30, 1 << 30);
        png_init_io(png, file);
        png_read_info(png, info);
        take_header(png, info, header);
        if (rgb != NULL) {
            ask_for_rgba(png, info);
            const bool is_whole = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
            rgba = hrf_try_alloc_array((size_t)header->width * 4,
                                       is_whole ? (size_t)header->height : 1);
            if (rgba == NULL)
                png_error(png, "no memory for its pixels");
            read_rows(png, info, rgba, rgb);
            png_read_end(png, NULL);
        }
        is_read = true;
    }
    hrf_free(rgba);
    png_destroy_read_struct(&png, &info, NULL);
    return is_read;
}
