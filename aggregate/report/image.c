/* image.c - a small RGB image: PNG, blending, lines, digits, shrinking, colour map. */
#include "aggregate/report/image.h"

#include "base/shrink.h"

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
    unsigned char *pixels = hrf_alloc(n_bytes);
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

void hrf_image_line(struct hrf_image *image, double x0, double y0, double x1, double y1,
                    int32_t thickness, struct hrf_rgb colour)
{
    double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
    if (!(length < 1e6)) /* nothing of it can matter on a picture of this size */
        return;
    int32_t steps = (int32_t)ceil(length), before = (thickness - 1) / 2;
    for (int32_t i = 0; i <= steps; i++) {
        double t = steps > 0 ? (double)i / (double)steps : 0.0;
        int32_t x = (int32_t)floor(x0 + (x1 - x0) * t) - before;
        int32_t y = (int32_t)floor(y0 + (y1 - y0) * t) - before;
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

enum hrf_status hrf_image_shrink(const struct hrf_image *image, int32_t longest_side,
                                 struct hrf_image *out, struct hrf_error *err)
{
    int32_t longest = image->width > image->height ? image->width : image->height;
    double scale = longest > longest_side ? (double)longest_side / (double)longest : 1.0;
    int32_t width = (int32_t)fmax(1.0, round((double)image->width * scale));
    int32_t height = (int32_t)fmax(1.0, round((double)image->height * scale));
    struct hrf_image small = { 0 };
    HRF_TRY(hrf_image_create(width, height, image->channels, &small, err));
    const enum hrf_status status = hrf_shrink(image->pixels, image->width, image->height,
                                              image->channels, width, height, small.pixels, err);
    if (status != HRF_OK) {
        hrf_image_release(&small);
        return status;
    }
    *out = small;
    return HRF_OK;
}

struct hrf_rgb hrf_colour_diverging(double t)
{
    static const unsigned char c[7][3] = { { 33, 102, 172 },  { 103, 169, 207 }, { 209, 229, 240 },
                                           { 247, 247, 247 }, { 253, 219, 199 }, { 239, 138, 98 },
                                           { 178, 24, 43 } };
    const double at = fmin(fmax(t, 0.0), 1.0) * 6.0;
    const int i = at < 6.0 ? (int)at : 5;
    return (struct hrf_rgb){ mix(c[i][0], c[i + 1][0], at - i), mix(c[i][1], c[i + 1][1], at - i),
                             mix(c[i][2], c[i + 1][2], at - i) };
}

struct hrf_rgb hrf_colour_map(double t)
{
    static const double c[7][3] = {
        { 0.2777273272234177, 0.005407344544966578, 0.3340998053353061 },
        { 0.1050930431085774, 1.404613529898575, 1.384590162594685 },
        { -0.3308618287255563, 0.214847559468213, 0.09509516302823659 },
        { -4.634230498983486, -5.799100973351585, -19.33244095627987 },
        { 6.228269936347081, 14.17993336680509, 56.69055260068105 },
        { 4.776384997670288, -13.74514537774601, -65.35303263337234 },
        { -5.435455855934631, 4.645852612178535, 26.3124352495832 },
    };
    t = fmin(fmax(t, 0.0), 1.0);
    unsigned char rgb[3];
    for (int k = 0; k < 3; k++) {
        double v = c[6][k];
        for (int i = 5; i >= 0; i--)
            v = v * t + c[i][k];
        rgb[k] = (unsigned char)lround(255.0 * fmin(fmax(v, 0.0), 1.0));
    }
    return (struct hrf_rgb){ rgb[0], rgb[1], rgb[2] };
}
