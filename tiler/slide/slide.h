/* slide.h - one whole-slide image, read by OpenSlide (no other folder includes it), or by the
 * readers of raster.h if OpenSlide does not support it (striped TIFFs, OME-TIFF's SubIFDs, JPEG
 * 2000 in TIFF, PNG, JPEG).
 *
 * An open slide may be read by any number of threads at once. Pixels are 8-bit RGB, row-major,
 * composited on white: sparse tiles, transparent pixels and everything outside the image are
 * white. Once a read has failed, every later read fails too, with a message that names the place
 * that failed first (level, tile and bytes of the file, as far as they are known); bad_tiles.h has
 * the other way.
 */
#ifndef HRF_TILER_SLIDE_SLIDE_H
#define HRF_TILER_SLIDE_SLIDE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_slide; /* opaque */

#define HRF_SLIDE_MAX_LEVELS 32
struct hrf_slide_info {
    char vendor[64];
    char scanner[64];      /* the scanner's model, "" if the file does not state it */
    int64_t n_cut_off;     /* tiles whose data lies beyond the end of the file, as far as known */
    int64_t width, height; /* level-0 px */
    int32_t n_levels;
    struct {
        int64_t width, height;
        double downsample; /* relative to level 0, as OpenSlide computes it */
    } level[HRF_SLIDE_MAX_LEVELS];
};

/* The version of OpenSlide that is used (openslide_library.h). */
struct hrf_slide_library {
    const char *version; /* "3.4.1" */
    const char *file;    /* "libopenslide.so.0" */
    const char *trouble; /* why none is used; "": one is */
    bool reads_dicom;
};
void hrf_slide_library(struct hrf_slide_library *out);

/* True if the file's extension is one of a slide's; pictures (png, jpg) and DICOM are not. */
bool hrf_slide_is_named(const char *name);

/* HRF_E_USER: the file is missing, not readable, not a slide, or cannot be read; the text says
 * which. HRF_E_EXTERNAL or HRF_E_AGAIN: the file system failed. */
HRF_CHECKED enum hrf_status hrf_slide_open(const char *path, struct hrf_slide **out,
                                           struct hrf_error *err);
/* True for a TIFF whose directories or tiles lie beyond the end of the file; the text says which
 * ("is cut short: ..."). */
bool hrf_slide_is_cut_short(const char *path, char *text, size_t n_text);
void hrf_slide_close(struct hrf_slide *slide);
static inline void hrf_slide_destroy(struct hrf_slide *slide)
{
    hrf_slide_close(slide);
}
HRF_DEFINE_AUTO(hrf_slide)
const struct hrf_slide_info *hrf_slide_info(const struct hrf_slide *slide);

/* Reads into rgb[height][width][3] the region of `level` whose top-left is (x0, y0) in level-0 px,
 * which may be negative. Width and height are px of that level. Read in pieces of 4 MiB, so memory
 * does not grow with the region. An origin between two pixels of the level is interpolated by
 * OpenSlide. *met_white (if not NULL) becomes true where a tile does not decode and is white
 * (bad_tiles.h). HRF_E_USER when the slide's data is damaged: the text names the place. */
HRF_CHECKED enum hrf_status hrf_slide_read(struct hrf_slide *slide, int32_t level, int64_t x0,
                                           int64_t y0, int64_t width, int64_t height,
                                           unsigned char *rgb, bool *met_white,
                                           struct hrf_error *err);

enum hrf_mpp_source {
    HRF_MPP_NONE,
    HRF_MPP_FILE,        /* openslide.mpp-x, -y */
    HRF_MPP_OME_XML,     /* PhysicalSizeX, -Y */
    HRF_MPP_TIFF_TAGS,   /* XResolution, YResolution with a unit */
    HRF_MPP_PNG,         /* pHYs, in metres */
    HRF_MPP_JPEG,        /* the density of a JFIF header, with a unit */
    HRF_MPP_PHILIPS_XML, /* DICOM_PIXEL_SPACING */
    HRF_MPP_CSV,
    HRF_MPP_WORKFLOW,
    HRF_MPP_OBJECTIVE /* a guess from the objective's power: 40x is 0.25 um/px */
};
const char *hrf_mpp_source_name(enum hrf_mpp_source source);

/* The resolutions of possible microscope slides, in um/px. Scanners that do not know it write 72
 * dpi, which is 353. */
#define HRF_MPP_MIN 0.05
#define HRF_MPP_MAX 10.0

/* Finds the resolution in um/px at level 0, from the first source that has one, in the order of the
 * enum; csv and workflow: 0 = not given. Outside 0.05..10 um/px it is refused (HRF_E_USER, naming
 * value and source), and so is a slide for which no source has any. Only TIFF tags outside that
 * range are ignored, because writers that do not know the resolution put 72 dpi (353 um/px) there;
 * if nothing else is found, they are quoted. */
HRF_CHECKED enum hrf_status hrf_slide_resolution(struct hrf_slide *slide, double csv_mpp,
                                                 double workflow_mpp, double *mpp_x, double *mpp_y,
                                                 enum hrf_mpp_source *source,
                                                 struct hrf_error *err);

#include "tiler/slide/bad_tiles.h"
#include "tiler/slide/content.h"
#include "tiler/slide/level_check.h"
#include "tiler/slide/patch_reader.h" /* the patches of a slide */

#endif
