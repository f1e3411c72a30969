/* slide_private.h - the definition of struct hrf_slide, for the files of this folder. */
#ifndef HRF_TILER_SLIDE_SLIDE_PRIVATE_H
#define HRF_TILER_SLIDE_SLIDE_PRIVATE_H

#include "tiler/slide/openslide_library.h"
#include "tiler/slide/raster.h"
#include "tiler/slide/read_ahead.h"
#include "tiler/slide/slide.h"
#include "tiler/slide/tile_cache.h"
#include "tiler/slide/tile_table.h"

#include <pthread.h>
#include <stdbool.h>

struct hrf_sparse;   /* which tiles are left out; see generic_tiff.c */
struct hrf_bad_list; /* tiles that do not decode; see bad_tiles.c */

struct hrf_slide {
    struct hrf_raster *raster; /* what OpenSlide does not read; else NULL */
    openslide_t *handle; /* thread-safe; under handle_lock, because it is replaced; NULL: raster */
    pthread_rwlock_t handle_lock;
    struct hrf_sparse *sparse; /* NULL = none that OpenSlide does not know of */
    char *path;
    char *shown; /* the path as printable text, for messages */
    struct hrf_slide_info info;
    struct hrf_tile_table table;  /* of levels that are read in tiles */
    struct hrf_tile_cache *cache; /* of those tiles */
    int fd;                       /* of raw tiles; -1 = none */
    struct hrf_read_ahead *ahead; /* under ahead_lock; NULL: nothing is read ahead */
    struct hrf_tile_grid ahead_grid;
    pthread_rwlock_t ahead_lock;
    enum hrf_bad_tiles bad_policy;
    pthread_mutex_t lock;     /* guards the rest */
    char damage[512];         /* where and how reading failed first; "" = it did not */
    struct hrf_bad_list *bad; /* NULL: none yet */
};

/* Returns a property by OpenSlide's name of it, NULL if the slide has none. */
const char *hrf_slide_property(const struct hrf_slide *slide, const char *name);

/* Reads a region once. *reason gets what OpenSlide says if a part does not decode, else "".
 * HRF_E_NOMEM is the only failure. After an error the handle is opened again, here or by the next
 * read. */
HRF_CHECKED enum hrf_status hrf_slide_read_once(struct hrf_slide *slide, int32_t level, int64_t x0,
                                                int64_t y0, int64_t width, int64_t height,
                                                uint32_t *argb, unsigned char *rgb,
                                                char reason[256], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_slide_reopen(struct hrf_slide *slide, struct hrf_error *err);
/* Reads a region in smaller and smaller parts. What cannot be read is white and listed, and
 * *met_white (if not NULL) becomes true. */
HRF_CHECKED enum hrf_status hrf_slide_read_around(struct hrf_slide *slide, int32_t level,
                                                  int64_t x0, int64_t y0, int64_t width,
                                                  int64_t height, uint32_t *argb,
                                                  unsigned char *rgb, bool *met_white,
                                                  struct hrf_error *err);
/* Finds the first of the region's tiles that does not decode; *out has no reason yet. */
void hrf_bad_tile_find(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                       int64_t width, int64_t height, struct hrf_bad_tile *out);
/* Lists a bad tile unless it is listed. HRF_E_USER: there are too many. */
HRF_CHECKED enum hrf_status
hrf_bad_tile_add(struct hrf_slide *slide, const struct hrf_bad_tile *tile, struct hrf_error *err);
bool hrf_bad_tile_is_listed(struct hrf_slide *slide, int32_t level, int64_t column, int64_t row);
void hrf_bad_list_destroy(struct hrf_bad_list *list);
/* Remembers where reading failed, and says it. */
enum hrf_status hrf_slide_report_damage(struct hrf_slide *slide, const struct hrf_bad_tile *tile,
                                        struct hrf_error *err);

/* hrf_slide_read in one piece, with the caller's scratch: argb[height][width]. What does not decode
 * fails, or is white, by the slide's policy; *met_white (if not NULL) then becomes true, and argb
 * is of no use. */
HRF_CHECKED enum hrf_status hrf_slide_read_argb(struct hrf_slide *slide, int32_t level, int64_t x0,
                                                int64_t y0, int64_t width, int64_t height,
                                                uint32_t *argb, unsigned char *rgb, bool *met_white,
                                                struct hrf_error *err);

/* HRF_E_USER if an earlier read has failed. */
HRF_CHECKED enum hrf_status hrf_slide_check_damage(struct hrf_slide *slide, struct hrf_error *err);

/* For a generic TIFF: fills slide->sparse, and removes levels that read as blank from slide->info.
 * HRF_E_UNSUPPORTED: level 0 is one of them. */
HRF_CHECKED enum hrf_status hrf_generic_tiff_load(const char *path, struct hrf_slide *slide,
                                                  struct hrf_error *err);
void hrf_sparse_destroy(struct hrf_sparse *sparse);
/* If the region touches a missing tile, reads it and returns true; otherwise does nothing and
 * returns false. The pixels are the level's own; the origin is rounded to the nearest pixel. */
bool hrf_sparse_read(const struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                     int64_t width, int64_t height, uint32_t *argb, enum hrf_status *status);

/* By default libtiff prints its errors on stderr. From the first call on, the last error of each
 * thread is kept instead, for our own messages. Each call clears this thread's error. */
void hrf_tiff_take_messages(void);
const char *hrf_tiff_message(void); /* "" = none */

/* um/px of level 0 from the XML that Philips writes into ImageDescription: one
 * DICOM_PIXEL_SPACING per level, in mm, row spacing (y) before column spacing (x); level 0 has
 * the smallest. false: none (NULL too), outputs untouched. */
bool hrf_philips_spacing(const char *xml, double *mpp_x, double *mpp_y);

/* um/px from the first Pixels of an OME-XML; false: it states none, outputs untouched. */
bool hrf_ome_spacing(const char *xml, double *mpp_x, double *mpp_y);

#endif
