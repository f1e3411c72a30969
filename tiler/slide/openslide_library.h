/* openslide_library.h - OpenSlide's functions, of the newest version that is found.
 *
 * The programs are linked with Debian's OpenSlide 3.4. OpenSlide 4, which reads DICOM, is used
 * instead where it is found: the file that $HRF_OPENSLIDE names, else libopenslide.so.1 where the
 * loader looks (Debian 13; the wheel `openslide-bin` of PyPI brings it as a file). Looked for once.
 */
#ifndef HRF_TILER_SLIDE_OPENSLIDE_LIBRARY_H
#define HRF_TILER_SLIDE_OPENSLIDE_LIBRARY_H

#include <openslide/openslide.h>
#include <stdbool.h>

struct hrf_openslide {
    openslide_t *(*open)(const char *path);
    void (*close)(openslide_t *slide);
    const char *(*error)(openslide_t *slide);
    const char *(*property)(openslide_t *slide, const char *name);
    int32_t (*level_count)(openslide_t *slide);
    void (*level0_dimensions)(openslide_t *slide, int64_t *width, int64_t *height);
    void (*level_dimensions)(openslide_t *slide, int32_t level, int64_t *width, int64_t *height);
    double (*level_downsample)(openslide_t *slide, int32_t level);
    void (*read_region)(openslide_t *slide, uint32_t *argb, int64_t x, int64_t y, int32_t level,
                        int64_t width, int64_t height);
    const char *version; /* "3.4.1" */
    const char *file;    /* it was loaded from; NULL: the one that the program is linked with */
    /* Why the file that $HRF_OPENSLIDE names is not used; "" where nothing went wrong. */
    char trouble[512];
    bool is_3; /* with what version 3 does wrong (generic_tiff.c) */
};

/* Any thread. Never NULL. */
const struct hrf_openslide *hrf_openslide(void);

#endif
