/* patch_reader.h - reads patches as the model sees them, from the best level of the slide.
 *
 * A patch is `size` x `size` px at `mpp` um/px with its top-left at (x0, y0) in level-0 px. It is
 * read from the coarsest level that is not coarser than wanted (2 % slack) and resampled with
 * aligned pixel centres: output pixel j covers the interval [j, j + 1) * scale of that level,
 * counted from the patch's own origin in the level. x and y have separate scales. If scale >= 1,
 * the pixel is the area average over the interval; if scale < 1, the bilinear value at its centre.
 *
 * If the patch's extent in the level differs from `size` by less than one pixel, the patch is not
 * resampled: its bytes are the level's own pixels, centred to the nearest pixel. So a slide of
 * 0.499 um/px is not blurred for a model that wants 0.5.
 *
 * A level that is JPEG in the file is first read at 1/2 or 1/4 of its resolution where that is not
 * coarser than wanted (level_read.h).
 *
 * One reader per thread; many readers may share one slide, which must outlive them. Everything
 * outside the image is white. Memory: some rows of the patch and about 15 MiB at most for the
 * level's pixels, whatever the scale.
 */
#ifndef HRF_TILER_SLIDE_PATCH_READER_H
#define HRF_TILER_SLIDE_PATCH_READER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Takes n rows of pixels, the first of which is `row`, counted from the first row that is read:
 * each rgb[width][3], `stride` bytes after the one before, valid during the call. */
typedef void hrf_take_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                           int64_t stride);
/* Rows of a patch are short and lie a tile's width apart, where the processor's own prefetching
 * does not follow them. Whoever takes rows one by one prefetches so many ahead; the first rows of
 * each call are prefetched already. */
enum { HRF_ROWS_AHEAD = 2 };
static inline void hrf_prefetch_row(const unsigned char *row, int64_t n_bytes)
{
    for (int64_t at = 0; at < n_bytes; at += 64)
        __builtin_prefetch(row + at);
}

struct hrf_level_region; /* level_read.h */
struct hrf_slide;
struct hrf_patch_reader; /* opaque: geometry and scratch of one thread */

/* mpp_x, mpp_y: the slide's resolution at level 0. HRF_E_UNSUPPORTED: even the coarsest level is
 * more than 64 times finer than wanted. */
HRF_CHECKED enum hrf_status hrf_patch_reader_create(struct hrf_slide *slide, double mpp_x,
                                                    double mpp_y, int64_t size, double mpp,
                                                    struct hrf_patch_reader **out,
                                                    struct hrf_error *err);
/* The same of pixels that are only compared: JPEG 2000 tiles are decoded at a coarser resolution
 * where that is enough, which gives other pixels than a reduced tile. */
HRF_CHECKED enum hrf_status hrf_patch_reader_create_for_comparing(struct hrf_slide *slide,
                                                                  double mpp_x, double mpp_y,
                                                                  int64_t size, double mpp,
                                                                  struct hrf_patch_reader **out,
                                                                  struct hrf_error *err);
void hrf_patch_reader_destroy(struct hrf_patch_reader *reader);
HRF_DEFINE_AUTO(hrf_patch_reader)
/* Reads a patch into rgb[size][size][3]. The times taken are added to *decode_ns and *resample_ns,
 * which may be NULL. */
HRF_CHECKED enum hrf_status hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0,
                                                  int64_t y0, unsigned char *rgb,
                                                  int64_t *decode_ns, int64_t *resample_ns,
                                                  struct hrf_error *err);
/* Reads the rows [first_row, first_row + n_rows) of that patch into rgb[n_rows][size][3], byte for
 * byte the same as in the whole patch. Only the part of the slide under these rows is read, and a
 * strip around it. */
HRF_CHECKED enum hrf_status hrf_patch_reader_read_rows(struct hrf_patch_reader *reader, int64_t x0,
                                                       int64_t y0, int64_t first_row,
                                                       int64_t n_rows, unsigned char *rgb,
                                                       int64_t *decode_ns, int64_t *resample_ns,
                                                       struct hrf_error *err);
/* Reads the same rows and passes them to `take` in order, a few at a time, as soon as they are
 * ready. Rows that lie in one tile are not copied. Adds the time of reading and decoding to
 * *decode_ns. The call may fail after `take` got some of the rows. */
HRF_CHECKED enum hrf_status hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x0,
                                                   int64_t y0, int64_t first_row, int64_t n_rows,
                                                   hrf_take_rows *take, void *context,
                                                   int64_t *decode_ns, struct hrf_error *err);
/* True if a tile under the rows that were read last does not decode and was read as white
 * (bad_tiles.h). */
bool hrf_patch_reader_met_white(const struct hrf_patch_reader *reader);
/* hrf_patch_reader_expect() announces the rows [first_row, first_row + n_rows) of a patch that
 * readers like this one will read; hrf_patch_reader_done() tells that they were read, or will not
 * be. In between, each tile of the slide is decoded once and kept until the last announced patch on
 * it is done. All patches have to be announced before the first is read;
 * hrf_patch_reader_expect_none() ends this. */
HRF_CHECKED enum hrf_status hrf_patch_reader_expect(const struct hrf_patch_reader *reader,
                                                    int64_t x0, int64_t y0, int64_t first_row,
                                                    int64_t n_rows, struct hrf_error *err);
void hrf_patch_reader_done(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                           int64_t first_row, int64_t n_rows);
/* Begins to read the tiles of announced patches from the file, ahead of the readers, who then have
 * to read the patches in the order in which they were announced. */
HRF_CHECKED enum hrf_status hrf_patch_reader_read_ahead(const struct hrf_patch_reader *reader,
                                                        struct hrf_error *err);
/* Returns NULL if patches are the level's own pixels, in tiles that can be given as streams
 * (hrf_level_no_streams()); otherwise the reason why they cannot, a static text. */
const char *hrf_patch_reader_no_streams(const struct hrf_patch_reader *reader);
/* Returns the region of the level that consists of those rows of such a patch. */
struct hrf_level_region hrf_patch_reader_region(const struct hrf_patch_reader *reader, int64_t x0,
                                                int64_t y0, int64_t first_row, int64_t n_rows);
/* Moves a patch whose exact place does not matter by up to half of its size so that it lies in one
 * tile of the slide, if it fits into one. Reading it then decodes no second tile. */
void hrf_patch_reader_move_into_tile(const struct hrf_patch_reader *reader, int64_t *x0,
                                     int64_t *y0);
void hrf_patch_reader_expect_none(const struct hrf_patch_reader *reader);
int32_t hrf_patch_reader_level(const struct hrf_patch_reader *reader);
/* Gives the number of level pixels per patch pixel: exactly 1 and 1 if patches are not
 * resampled. */
void hrf_patch_reader_scale(const struct hrf_patch_reader *reader, double *scale_x,
                            double *scale_y);

#endif
