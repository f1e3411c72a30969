/* jpeg_picture.c - JPEG files by libjpeg-turbo, which reports errors by calling back (picture.h).
 */
#include "tiler/slide/picture.h"

#include <setjmp.h>

#include <jpeglib.h>

struct failure {
    struct jpeg_error_mgr base; /* first: libjpeg passes a pointer to it */
    jmp_buf place;
    char *reason;
};

static void leave(j_common_ptr jpeg)
{
    struct failure *failure = (struct failure *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    failure->base.format_message(jpeg, text);
    snprintf(failure->reason, 256, "%s", text);
    longjmp(failure->place, 1);
}

static void take_message(j_common_ptr jpeg, int level)
{
    if (level < 0) /* data that is damaged, which libjpeg would replace by guesses */
        leave(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void take_header(const struct jpeg_decompress_struct *jpeg, struct hrf_picture_header *out)
{
    enum { PER_INCH = 1, PER_CM = 2 };
    const double unit = jpeg->density_unit == PER_INCH ? 1 / 2.54
                        : jpeg->density_unit == PER_CM ? 1
                                                       : 0;
    *out = (struct hrf_picture_header){ .width = jpeg->image_width, .height = jpeg->image_height };
    if (jpeg->saw_JFIF_marker && unit > 0) {
        out->per_cm_x = jpeg->X_density * unit;
        out->per_cm_y = jpeg->Y_density * unit;
    }
}

static bool decode(struct jpeg_decompress_struct *jpeg, FILE *file,
                   struct hrf_picture_header *header, unsigned char *rgb, char reason[256])
{
    jpeg_stdio_src(jpeg, file);
    jpeg_read_header(jpeg, TRUE);
    take_header(jpeg, header);
    if (jpeg->num_components != 1 && jpeg->num_components != 3) {
        snprintf(reason, 256, "it has %d channels; RGB and gray are read", jpeg->num_components);
        return false;
    }
    if (rgb == NULL)
        return true;
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = rgb + (size_t)jpeg->output_scanline * jpeg->output_width * 3;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return true;
}

bool hrf_jpeg_read(FILE *file, struct hrf_picture_header *header, unsigned char *rgb,
                   char reason[256])
{
    struct jpeg_decompress_struct jpeg = { .mem = NULL };
    struct failure failure = { .reason = reason };
    volatile bool is_read = false;
    jpeg.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = leave;
    failure.base.emit_message = take_message;
    failure.base.output_message = say_nothing;
    if (setjmp(failure.place) == 0) {
        jpeg_create_decompress(&jpeg);
        is_read = decode(&jpeg, file, header, rgb, reason);
    }
    jpeg_destroy_decompress(&jpeg);
    return is_read;
}
