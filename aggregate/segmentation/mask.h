/* mask.h - merges the label maps of a slide's patches into one mask of the slide.
 *
 * A mask pixel has the resolution of the network's output, `mpp`, and covers down_x x down_y
 * level-0 px. A patch's map lies on the mask without resampling: its first pixel is the one nearest
 * to the patch's upper left corner. Where maps overlap, a pixel is taken from the patch whose
 * centre is nearest, by the larger of the distances in x and y; of equally near ones from the one
 * that comes first in the tile plan. Pixels that no patch covers are 0. The mask therefore depends
 * only on the tile plan and the maps, and not on the shards or the order of scoring.
 *
 * A coarser level takes every 2^k-th pixel, the middle one, because labels have no mean. The memory
 * is proportional to the rows that are requested at once, not to the mask. Not thread-safe.
 */
#ifndef HRF_AGGREGATE_SEGMENTATION_MASK_H
#define HRF_AGGREGATE_SEGMENTATION_MASK_H

#include "base/alloc.h"
#include "schema/record/label_maps.h"
#include "schema/record/tile_plan.h"

struct hrf_mask {
    int64_t width, height; /* px */
    double down_x, down_y; /* level-0 px of a mask px */
    double mpp;            /* um of a mask px, each way */
    /* Tile size and levels of the pyramid. No level is smaller than a tile in either direction,
     * because libtiff 4.5, which OpenSlide uses, shifts the rows of images that are narrower than
     * their tiles. */
    int32_t tile, n_levels;
    /* The rest is for mask.c. */
    const struct hrf_label_maps *maps; /* borrowed */
    int32_t n_classes;
    struct hrf_mask_position *positions; /* [maps->n], by row */
};
struct hrf_mask_position {
    int64_t x, y;  /* position of the map's first pixel */
    int64_t patch; /* index in the tile plan */
};
enum { HRF_MASK_TILE = 256, HRF_MASK_MIN_TILE = 16 }; /* the usual tile size, and for tiny masks */

/* Creates the mask. `maps`, of all patches of the plan, is borrowed and must outlive the mask;
 * `plan` need not. HRF_E_USER: the maps are not of this plan. */
HRF_CHECKED enum hrf_status hrf_mask_create(const struct hrf_tile_plan *plan,
                                            const struct hrf_label_maps *maps, int32_t n_classes,
                                            struct hrf_mask **out, struct hrf_error *err);
void hrf_mask_destroy(struct hrf_mask *mask);
HRF_DEFINE_AUTO(hrf_mask)

struct hrf_mask_size {
    int64_t width, height;
};
struct hrf_mask_size hrf_mask_level_size(const struct hrf_mask *mask, int32_t level);
/* Fills labels [n][width of the level] with the rows [row, row + n) of a level, which are there.
 * HRF_E_USER: a map is damaged. */
HRF_CHECKED enum hrf_status hrf_mask_rows(const struct hrf_mask *mask, int32_t level, int64_t row,
                                          int64_t n, unsigned char *labels, struct hrf_error *err);

/* Counts the pixels of the whole mask by label: counts [n_classes + 1], 0 first. */
HRF_CHECKED enum hrf_status hrf_mask_count(const struct hrf_mask *mask, int64_t *counts,
                                           struct hrf_error *err);

#endif
