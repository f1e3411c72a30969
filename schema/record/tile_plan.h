/* tile_plan.h - the result of tiling a slide: its resolution, tissue and list of patches.
 *
 * Written by a tile job, imported into the run store, read by the engine and the report.
 * Coordinates are level-0 pixels of the slide, x to the right, y down. Patches are ordered x
 * outer, y fastest (the order of WSInfer's CSV). Immutable once written.
 */
#ifndef HRF_SCHEMA_RECORD_TILE_PLAN_H
#define HRF_SCHEMA_RECORD_TILE_PLAN_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_patch {
    int32_t x, y; /* top-left, level-0 px */
};

/* Why a patch of tissue is not scored (tiler.quality), in the order in which they are looked for.
 */
enum hrf_drop_reason {
    HRF_DROP_PEN,
    HRF_DROP_BUBBLE,
    HRF_DROP_FOLD,
    HRF_DROP_BLUR,
    HRF_N_DROP_REASONS
};
const char *hrf_drop_reason_name(enum hrf_drop_reason reason); /* "pen" */
struct hrf_dropped_patch {
    struct hrf_patch at;
    int32_t reason; /* enum hrf_drop_reason */
};

#define HRF_TILE_PLAN_KIND "tile-plan" /* in its record's header */

struct hrf_tile_plan {
    struct hrf_record_identity identity; /* of its record; `plan` is `hash` in a record */
    char *slide_path;
    char *vendor;          /* OpenSlide's word: "aperio", "generic-tiff", ... */
    int64_t width, height; /* level-0 px */
    int32_t n_levels;
    double mpp_x, mpp_y; /* um/px at level 0 */
    char *mpp_source;    /* hrf_mpp_source_name: "file", "tiff-tags", "csv", ... */

    int64_t patch_size;                  /* px that the model sees */
    double patch_mpp;                    /* um/px that the model sees */
    int64_t patch_stride;                /* px at patch_mpp */
    int64_t patch_width0, patch_height0; /* extent of a patch in level-0 px */
    double stride_x0, stride_y0;         /* distance of neighbours in level-0 px */
    int32_t grid_columns, grid_rows;     /* of the whole grid; patches are a subset */
    char *edge;         /* the strip where no whole patch fits: "pad" or "shift"; NULL: "drop" */
    int32_t read_level; /* the level that patches are read from, then resampled */
    double read_downsample; /* of that level */

    char *tissue_method;
    double tissue_fraction;  /* of the slide's area */
    double tissue_threshold; /* as found by the method */
    char *warning;           /* NULL = none; e.g. "only 9 patches of tissue (minimum 16)" */

    int64_t n_patches;
    struct hrf_patch *patches;

    /* The numbers, ascending, of patches on a tile that does not decode, which is white there
     * (tiler.on_bad_tile). Every tile of the other patches decoded when the slide was tiled. */
    int64_t n_white;
    int32_t *white;

    int64_t n_dropped; /* patches of tissue that are left out */
    struct hrf_dropped_patch *dropped;

    double thumbnail_downsample;    /* level-0 px per thumbnail px */
    struct hrf_bytes thumbnail_png; /* RGB, longest side <= 1024 */
    struct hrf_bytes mask_png;      /* 8-bit gray 0/255, same size as the thumbnail */

    double seconds;          /* time spent on tiling; not part of the hash */
    char hash[HRF_HASH_HEX]; /* hash of geometry, method and patches, but not of paths and time */
};

void hrf_tile_plan_destroy(struct hrf_tile_plan *plan);
HRF_DEFINE_AUTO(hrf_tile_plan)
/* The column and row of a patch on the grid, whose strides are at least 1. */
struct hrf_grid_cell {
    int64_t column, row;
};
struct hrf_grid_cell hrf_tile_plan_cell(const struct hrf_tile_plan *plan,
                                        const struct hrf_patch *patch);
/* By column, then row, which is the order of a tile plan; for qsort(). */
int hrf_compare_grid_cells(const void *a, const void *b);
bool hrf_tile_plan_is_white(const struct hrf_tile_plan *plan, int64_t patch);
/* Removes the patches on white tiles from the plan. */
void hrf_tile_plan_drop_white(struct hrf_tile_plan *plan);
/* Fills plan->hash. */
HRF_CHECKED enum hrf_status hrf_tile_plan_seal(struct hrf_tile_plan *plan, struct hrf_error *err);

HRF_CHECKED enum hrf_status hrf_tile_plan_encode(const struct hrf_tile_plan *plan,
                                                 struct hrf_bytes *out, struct hrf_error *err);
/* HRF_E_USER: the record is damaged, truncated, newer, or has another identity than `expected`
 * (hrf_container_decode); the text says which. */
HRF_CHECKED enum hrf_status hrf_tile_plan_decode(const void *bytes, size_t n_bytes,
                                                 const struct hrf_record_identity *expected,
                                                 const char *where, struct hrf_tile_plan **out,
                                                 struct hrf_error *err);
#endif
