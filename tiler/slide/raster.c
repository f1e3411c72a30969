/* raster.c - which kind of image a file is (raster.h). */
#include "tiler/slide/raster.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum kind { KIND_NONE, KIND_TIFF, KIND_PNG, KIND_JPEG };

static enum kind kind_of(const char *path)
{
    static const struct {
        const char *magic;
        size_t n;
        enum kind kind;
    } kinds[] = { { "II*\0", 4, KIND_TIFF },
                  { "MM\0*", 4, KIND_TIFF },
                  { "II+\0", 4, KIND_TIFF },
                  { "MM\0+", 4, KIND_TIFF },
                  { "\x89PNG\r\n\x1a\n", 8, KIND_PNG },
                  { "\xff\xd8\xff", 3, KIND_JPEG } };
    char head[8] = { 0 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= (ssize_t)kinds[i].n && memcmp(head, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].kind;
    return KIND_NONE;
}

enum hrf_status hrf_raster_open(const char *path, struct hrf_raster **out, struct hrf_error *err)
{
    switch (kind_of(path)) {
    case KIND_TIFF:
        return hrf_raster_open_tiff(path, out, err);
    case KIND_PNG:
        return hrf_raster_open_picture(path, true, out, err);
    case KIND_JPEG:
        return hrf_raster_open_picture(path, false, out, err);
    default:
        return hrf_error_set(err, HRF_E_USER, "it is no TIFF, PNG or JPEG");
    }
}

void hrf_raster_close(struct hrf_raster *raster)
{
    if (raster == NULL)
        return;
    hrf_free(raster->description);
    raster->close(raster);
}
