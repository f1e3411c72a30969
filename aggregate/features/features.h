/* features.h - writes the embeddings of one slide as a file that other tools read.
 *
 * Row i is patch i of the tile plan. The forms are those of the tools that give them their names,
 * with the data sets, number types and attributes that their readers look for:
 *
 *   trident     /features [n][width], attributes name, savetodir, encoder; /coords int64 [n][2],
 *               level-0 px, with the attributes of TRIDENT's coordinates
 *   clam        /features float32 [n][width], /coords int32 [n][2], level-0 px
 *   stamp       /feats float16 [n][width], /coords float32 [n][2] in um; attributes of the file
 *   atlaspatch  /features/ENCODER float32 [n][width], /coords int32 [n][5]: x, y, width, height in
 *               level-0 px, and the level, which is 0
 *   npy         NumPy's file format, [n][width] alone: the coordinates are in the table of patches
 *
 * Attributes of the embeddings that are ours, and that no tool reads but the slide heads here:
 * model_sha256, precision, mpp (um/px of a patch), tiling (hash of the patches' size, resolution,
 * stride and tissue method, equal for all slides of a run) and tile_plan (hash of this slide's tile
 * plan).
 *
 * HDF5 files are compressed (shuffle and deflate) and hold no time, so that equal embeddings give
 * equal bytes. The rows are read and written a block at a time: memory holds the coordinates and
 * one block, whatever the slide.
 */
#ifndef HRF_AGGREGATE_FEATURES_FEATURES_H
#define HRF_AGGREGATE_FEATURES_FEATURES_H

#include "base/error.h"
#include "image/preparation.h"
#include "schema/record/tile_plan.h"

#include <stdbool.h>
#include <stdint.h>

enum hrf_features_form {
    HRF_FEATURES_TRIDENT,
    HRF_FEATURES_CLAM,
    HRF_FEATURES_STAMP,
    HRF_FEATURES_ATLASPATCH,
    HRF_FEATURES_NPY
};
/* ".h5" or ".npy" */
const char *hrf_features_suffix(enum hrf_features_form form);

/* All borrowed. */
struct hrf_features {
    const struct hrf_tile_plan *plan;
    const char *slide;                  /* its name */
    const char *encoder;                /* the model's file name without its suffix */
    const char *precision;              /* of the computation: "fp32" ...; NULL: not stated */
    const char *model;                  /* SHA-256 of the model; NULL: not stated */
    struct hrf_preparation preparation; /* how patches were resized and cropped */
    int64_t width;
    /* Returns the next rows, [*n][width], valid until the next call; called until all
     * plan->n_patches rows were returned. */
    enum hrf_status (*next)(void *rows, const float **values, int64_t *n, struct hrf_error *err);
    void *rows;
};

/* Writes the file at `path`; it appears only when it is complete. `is_half` writes float16, which
 * form stamp always has; clam and atlaspatch are float32 and refuse it. HRF_E_USER: a number is too
 * large for float16. */
HRF_CHECKED enum hrf_status hrf_features_write(enum hrf_features_form form, bool is_half,
                                               const struct hrf_features *features,
                                               const char *path, struct hrf_error *err);

/* Writes a file of form trident, in float32, without the numbers: they stay in `parts` (relative to
 * the folder of `path`), whose hashes the attribute embeddings_sha256 names. hrf_bag_read() reads
 * it. features->next is not called. */
struct hrf_features_part {
    const char *path, *sha256;
    int64_t n_bytes;
};
HRF_CHECKED enum hrf_status hrf_features_refer(const struct hrf_features *features,
                                               const struct hrf_features_part *parts,
                                               size_t n_parts, const char *path,
                                               struct hrf_error *err);

#endif
