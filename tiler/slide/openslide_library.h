/* openslide_library.h - OpenSlide's functions, of the newest version that is found.
 *
 * It is loaded at the first call, because loading it with its dependencies takes longer than the
 * rest of a program's start, and most processes of a run open no slide. The file is the one that
 * $HRF_OPENSLIDE names, else version 4, which reads DICOM, if the loader finds it (Debian 13; the
 * wheel `openslide-bin` of PyPI has it as a file), else Debian 12's version 3.4.
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
    const char *file;    /* the file that it was loaded from */
    /* Why there is none, or why the file that $HRF_OPENSLIDE names is not used; then no function
     * may be called. "": nothing went wrong. */
    char trouble[512];
    bool is_3; /* version 3, whose errors generic_tiff.c works around */
};

/* Any thread. Never NULL. */
const struct hrf_openslide *hrf_openslide(void);

#endif
