/* jpeg_tile.c - see jpeg_tile.h. */
#include "tiler/slide/jpeg_tile.h"

#include "tiler/slide/jpeg_errors.h"

/* Decodes with an object that the caller created and destroys; an error of libjpeg leaves this
 * function by longjmp. */
static bool jpeg_tile_decode(struct jpeg_decompress_struct *jpeg, const struct hrf_jpeg_form *form,
                             const void *data, size_t n_bytes, int32_t reduction,
                             unsigned char *rgb)
{
    const JDIMENSION width = (JDIMENSION)(form->width / reduction);
    const JDIMENSION height = (JDIMENSION)(form->height / reduction);
    if (form->tables != NULL) {
        jpeg_mem_src(jpeg, form->tables, (unsigned long)form->n_tables);
        if (jpeg_read_header(jpeg, FALSE) != JPEG_HEADER_TABLES_ONLY)
            return false;
    }
    jpeg_mem_src(jpeg, data, (unsigned long)n_bytes);
    if (jpeg_read_header(jpeg, TRUE) != JPEG_HEADER_OK || jpeg->num_components != 3 ||
        jpeg->image_width != (JDIMENSION)form->width ||
        jpeg->image_height != (JDIMENSION)form->height)
        return false;
    jpeg->jpeg_color_space = form->is_ycc ? JCS_YCbCr : JCS_RGB;
    jpeg->out_color_space = JCS_RGB;
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned int)reduction;
    if (!jpeg_start_decompress(jpeg) || jpeg->output_width != width ||
        jpeg->output_height != height || jpeg->output_components != 3)
        return false;
    while (jpeg->output_scanline < height) {
        enum { AT_ONCE = 16 };
        JSAMPROW rows[AT_ONCE];
        const JDIMENSION left = height - jpeg->output_scanline;
        const JDIMENSION n = left < AT_ONCE ? left : AT_ONCE;
        for (JDIMENSION i = 0; i < n; i++)
            rows[i] = rgb + (size_t)(jpeg->output_scanline + i) * width * 3;
        jpeg_read_scanlines(jpeg, rows, n);
    }
    return jpeg_finish_decompress(jpeg) != FALSE;
}

bool hrf_jpeg_tile_decode(const struct hrf_jpeg_form *form, const void *data, size_t n_bytes,
                          int32_t reduction, unsigned char *rgb)
{
    struct jpeg_decompress_struct jpeg = { .mem = NULL };
    struct hrf_jpeg_errors errors;
    volatile bool is_sound = false;
    jpeg.err = hrf_jpeg_errors_init(&errors, NULL);
    if (setjmp(errors.failed) == 0) {
        jpeg_create_decompress(&jpeg);
        is_sound = jpeg_tile_decode(&jpeg, form, data, n_bytes, reduction, rgb);
    }
    jpeg_destroy_decompress(&jpeg);
    return is_sound;
}
