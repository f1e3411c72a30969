/* patch_reader.h - reads patches as the model sees them, from the best level of the slide.
 *
 * A patch is `size` x `size` px at `mpp` um/px with its top-left at (x0, y0) in level-0 px. It is
 * read from the coarsest level that is not coarser than wanted (2 % slack) and resampled with
 * aligned pixel centres: output pixel j covers the interval [j, j + 1) * scale of that level,
 * counted from the patch's own origin in it, x and y each with their own scale. Where scale >= 1
 * it is the area average over the interval, where scale < 1 the bilinear value at its centre.
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

#include <stdint.h>

/* Takes row `row` of what is read, counted from its first: rgb[width][3], valid during the call. */
typedef void hrf_take_row(void *context, int64_t row, const unsigned char *rgb);

struct hrf_level_region; /* level_read.h */
struct hrf_slide;
struct hrf_patch_reader; /* opaque: geometry and scratch of one thread */

/* mpp_x, mpp_y: of the slide's level 0. HRF_E_UNSUPPORTED when even the coarsest level is more
 * than 64 times finer than wanted. */
HRF_CHECKED enum hrf_status hrf_patch_reader_create(struct hrf_slide *slide, double mpp_x,
                                                    double mpp_y, int64_t size, double mpp,
                                                    struct hrf_patch_reader **out,
                                                    struct hrf_error *err);
void hrf_patch_reader_destroy(struct hrf_patch_reader *reader);
HRF_DEFINE_AUTO(hrf_patch_reader)
/* rgb[size][size][3]. The times taken are added to *decode_ns and *resample_ns (may be NULL). */
HRF_CHECKED enum hrf_status hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0,
                                                  int64_t y0, unsigned char *rgb,
                                                  int64_t *decode_ns, int64_t *resample_ns,
                                                  struct hrf_error *err);
/* The rows [first_row, first_row + n_rows) of that patch, byte for byte what the whole patch has
 * there: rgb[n_rows][size][3]. Reads only what they need of the slide, and a strip around it. */
HRF_CHECKED enum hrf_status hrf_patch_reader_read_rows(struct hrf_patch_reader *reader, int64_t x0,
                                                       int64_t y0, int64_t first_row,
                                                       int64_t n_rows, unsigned char *rgb,
                                                       int64_t *decode_ns, int64_t *resample_ns,
                                                       struct hrf_error *err);
/* The same rows, each handed over as soon as it is there: rgb[size][3], valid during the call, and
 * not copied where it lies in one tile. Adds the time of reading and decoding to *decode_ns. A
 * failure may come after some of the rows. */
HRF_CHECKED enum hrf_status hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x0,
                                                   int64_t y0, int64_t first_row, int64_t n_rows,
                                                   hrf_take_row *take, void *context,
                                                   int64_t *decode_ns, struct hrf_error *err);
/* Announces a patch (its rows [first_row, first_row + n_rows)) that readers like this one will
 * read, and says that it has been read or will not be. The slide's tiles are then decoded once and
 * kept until the last announced patch on them is done. Announce all patches before the first is
 * read; expect_none ends it. */
HRF_CHECKED enum hrf_status hrf_patch_reader_expect(const struct hrf_patch_reader *reader,
                                                    int64_t x0, int64_t y0, int64_t first_row,
                                                    int64_t n_rows, struct hrf_error *err);
void hrf_patch_reader_done(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                           int64_t first_row, int64_t n_rows);
/* Announced patches will be read in the order in which they were announced: begins to read their
 * tiles from the file. */
HRF_CHECKED enum hrf_status hrf_patch_reader_read_ahead(const struct hrf_patch_reader *reader,
                                                        struct hrf_error *err);
/* NULL: patches are pixels of the level as it is, in tiles that may be given as streams
 * (hrf_level_no_streams()); else why not, a static text. */
const char *hrf_patch_reader_no_streams(const struct hrf_patch_reader *reader);
/* The region of the level that those rows of such a patch are. */
struct hrf_level_region hrf_patch_reader_region(const struct hrf_patch_reader *reader, int64_t x0,
                                                int64_t y0, int64_t first_row, int64_t n_rows);
/* Moves a patch that may lie anywhere near by up to half of its size into one tile of the slide if
 * it fits into one, so that reading it decodes no second tile. */
void hrf_patch_reader_move_into_tile(const struct hrf_patch_reader *reader, int64_t *x0,
                                     int64_t *y0);
void hrf_patch_reader_expect_none(const struct hrf_patch_reader *reader);
int32_t hrf_patch_reader_level(const struct hrf_patch_reader *reader);
/* Pixels that are read per patch pixel; exactly 1 and 1 where they are the patch's own. */
void hrf_patch_reader_scale(const struct hrf_patch_reader *reader, double *scale_x,
                            double *scale_y);

#endif
