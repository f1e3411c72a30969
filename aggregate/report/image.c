/* image.c - a small RGB image: PNG, blending, lines, digits, downsampling, colour map. */
#include "aggregate/report/image.h"

#include "image/downsample.h"

#include <math.h>
#include <png.h>
#include <string.h>

enum { MAX_SIDE = 8192 };

void hrf_image_release(struct hrf_image *image)
{
    hrf_free(image->pixels);
    *image = (struct hrf_image){ 0 };
}

enum hrf_status hrf_image_create(int32_t width, int32_t height, int32_t channels,
                                 struct hrf_image *out, struct hrf_error *err)
{
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE)
        return hrf_error_set(err, HRF_E_USER,
                             "a picture of %d x %d px; 1 to %d a side are possible", width, height,
                             MAX_SIDE);
    size_t n_bytes = (size_t)width * (size_t)height * (size_t)channels;
    unsigned char *pixels = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(pixels != NULL, err, "no memory for a picture of %d x %d px", width, height);
    memset(pixels, 255, n_bytes);
    *out = (struct hrf_image){ width, height, channels, pixels };
    return HRF_OK;
}

enum hrf_status hrf_image_decode(const struct hrf_bytes *bytes, int32_t channels,
                                 struct hrf_image *out, struct hrf_error *err)
{
    png_image png = { .version = PNG_IMAGE_VERSION };
    if (!png_image_begin_read_from_memory(&png, bytes->data, bytes->n_bytes))
        return hrf_error_set(err, HRF_E_USER, "not a PNG picture: %s", png.message);
    struct hrf_image image = { 0 };
    int32_t width = png.width <= MAX_SIDE ? (int32_t)png.width : MAX_SIDE + 1;
    int32_t height = png.height <= MAX_SIDE ? (int32_t)png.height : MAX_SIDE + 1;
    enum hrf_status status = hrf_image_create(width, height, channels, &image, err);
    if (status != HRF_OK) {
        png_image_free(&png);
        return status;
    }
    png.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    png_color white = { 255, 255, 255 };
    if (!png_image_finish_read(&png, &white, image.pixels, 0, NULL)) {
        status = hrf_error_set(err, HRF_E_USER, "damaged PNG picture: %s", png.message);
        png_image_free(&png);
        hrf_image_release(&image);
        return status;
    }
    *out = image;
    return HRF_OK;
}

enum hrf_status hrf_image_encode(const struct hrf_image *image, enum hrf_png_kind kind,
                                 struct hrf_bytes *out, struct hrf_error *err)
{
    return hrf_png_write(image->pixels, image->width, image->height, image->channels, kind,
                         &out->data, &out->n_bytes, err);
}

static unsigned char mix(unsigned char below, unsigned char above, double alpha)
{
    return (unsigned char)lround((double)below + ((double)above - (double)below) * alpha);
}

void hrf_image_fade(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1)
{
    x0 = x0 > 0 ? x0 : 0;
    y0 = y0 > 0 ? y0 : 0;
    x1 = x1 < image->width ? x1 : image->width;
    y1 = y1 < image->height ? y1 : image->height;
    for (int32_t y = y0; y < y1; y++) {
        unsigned char *p = image->pixels + ((size_t)y * (size_t)image->width + (size_t)x0) * 3;
        for (int32_t x = x0; x < x1; x++, p += 3)
            p[0] = p[1] = p[2] = (unsigned char)((299 * p[0] + 587 * p[1] + 114 * p[2]) / 1000);
    }
}

void hrf_image_blend(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1,
                     struct hrf_rgb colour, double alpha)
{
    x0 = x0 > 0 ? x0 : 0;
    y0 = y0 > 0 ? y0 : 0;
    x1 = x1 < image->width ? x1 : image->width;
    y1 = y1 < image->height ? y1 : image->height;
    for (int32_t y = y0; y < y1; y++) {
        unsigned char *p = image->pixels + ((size_t)y * (size_t)image->width + (size_t)x0) * 3;
        for (int32_t x = x0; x < x1; x++, p += 3) {
            p[0] = mix(p[0], colour.r, alpha);
            p[1] = mix(p[1], colour.g, alpha);
            p[2] = mix(p[2], colour.b, alpha);
        }
    }
}

/* Narrows [*first, *last], the steps of a line from a to b, to those near 0 to `size`. */
static void clip_steps(double a, double b, int32_t n_steps, int32_t size, int32_t thickness,
                       double *first, double *last)
{
    const double slope = (b - a) / n_steps, low = -thickness - 1.0, high = size + thickness + 1.0;
    if (slope != 0.0) {
        *first = fmax(*first, floor(fmin((low - a) / slope, (high - a) / slope)));
        *last = fmin(*last, ceil(fmax((low - a) / slope, (high - a) / slope)));
    } else if (a < low || a > high)
        *last = -1.0;
}

void hrf_image_line(struct hrf_image *image, double x0, double y0, double x1, double y1,
                    int32_t thickness, struct hrf_rgb colour)
{
    const double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
    if (!(length < 2e9)) /* nothing of it can matter on a picture of this size */
        return;
    const int32_t steps = length > 1.0 ? (int32_t)ceil(length) : 1, before = (thickness - 1) / 2;
    double first = 0.0, last = steps;
    clip_steps(x0, x1, steps, image->width, thickness, &first, &last);
    clip_steps(y0, y1, steps, image->height, thickness, &first, &last);
    for (double i = first; i <= last; i++) {
        const double t = i / steps;
        const int32_t x = (int32_t)floor(x0 + (x1 - x0) * t) - before;
        const int32_t y = (int32_t)floor(y0 + (y1 - y0) * t) - before;
        hrf_image_blend(image, x, y, x + thickness, y + thickness, colour, 1.0);
    }
}

/* Rows of 5 bits, top first. */
static const unsigned char glyphs[][8] = {
    { '0', 14, 17, 19, 21, 25, 17, 14 }, { '1', 4, 12, 4, 4, 4, 4, 14 },
    { '2', 14, 17, 1, 6, 8, 16, 31 },    { '3', 31, 2, 4, 2, 1, 17, 14 },
    { '4', 2, 6, 10, 18, 31, 2, 2 },     { '5', 31, 16, 30, 1, 1, 17, 14 },
    { '6', 6, 8, 16, 30, 17, 17, 14 },   { '7', 31, 1, 2, 4, 8, 8, 8 },
    { '8', 14, 17, 17, 14, 17, 17, 14 }, { '9', 14, 17, 17, 15, 1, 2, 12 },
    { '.', 0, 0, 0, 0, 0, 12, 12 },      { '-', 0, 0, 0, 14, 0, 0, 0 },
};

void hrf_image_digits(struct hrf_image *image, int32_t x, int32_t y, const char *text,
                      struct hrf_rgb colour)
{
    for (; *text != '\0'; text++, x += 6)
        for (size_t g = 0; g < sizeof glyphs / sizeof glyphs[0]; g++) {
            if (glyphs[g][0] != (unsigned char)*text)
                continue;
            for (int32_t row = 0; row < 7; row++)
                for (int32_t bit = 0; bit < 5; bit++)
                    if (glyphs[g][row + 1] >> (4 - bit) & 1)
                        hrf_image_blend(image, x + bit, y + row, x + bit + 1, y + row + 1, colour,
                                        1.0);
        }
}

enum hrf_status hrf_image_downsample(const struct hrf_image *image, int32_t longest_side,
                                     struct hrf_image *out, struct hrf_error *err)
{
    int32_t longest = image->width > image->height ? image->width : image->height;
    double scale = longest > longest_side ? (double)longest_side / (double)longest : 1.0;
    int32_t width = (int32_t)fmax(1.0, round((double)image->width * scale));
    int32_t height = (int32_t)fmax(1.0, round((double)image->height * scale));
    struct hrf_image small = { 0 };
    HRF_TRY(hrf_image_create(width, height, image->channels, &small, err));
    const enum hrf_status status = hrf_downsample(image->pixels, image->width, image->height,
                                                  image->channels, width, height, small.pixels,
                                                  err);
    if (status != HRF_OK) {
        hrf_image_release(&small);
        return status;
    }
    *out = small;
    return HRF_OK;
}
