/* jpeg_picture.c - JPEG files by libjpeg-turbo (picture.h). */
#include "tiler/slide/jpeg_errors.h"
#include "tiler/slide/picture.h"

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

static bool jpeg_picture_decode(struct jpeg_decompress_struct *jpeg, FILE *file,
                                struct hrf_picture_header *header, unsigned char *rgb,
                                char reason[256])
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
    struct hrf_jpeg_errors errors;
    volatile bool is_read = false;
    jpeg.err = hrf_jpeg_errors_init(&errors, reason);
    if (setjmp(errors.failed) == 0) {
        jpeg_create_decompress(&jpeg);
        is_read = jpeg_picture_decode(&jpeg, file, header, rgb, reason);
    }
    jpeg_destroy_decompress(&jpeg);
    return is_read;
}
