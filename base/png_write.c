/* png_write.c - encodes PNG with libpng (png_write.h). */
#include "base/png_write.h"

#include "base/alloc.h"

#include <png.h>

enum hrf_status hrf_png_write(const unsigned char *pixels, int64_t width, int64_t height,
                              int n_channels, unsigned char **out, size_t *n_bytes,
                              struct hrf_error *err)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)width,
                        .height = (png_uint_32)height,
                        .format = n_channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
    png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(image);
    HRF_AUTO_FREE unsigned char *bytes = hrf_alloc(n);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for a PNG of %lld x %lld px", (long long)width,
                     (long long)height);
    if (!png_image_write_to_memory(&image, bytes, &n, 0, pixels, 0, NULL))
        return hrf_error_set(err, HRF_E_EXTERNAL, "libpng cannot write a picture: %s",
                             image.message);
    *out = bytes;
    *n_bytes = n;
    bytes = NULL;
    return HRF_OK;
}
