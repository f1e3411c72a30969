/* dag.h - what the tasks of a run are named by and cut into: pure.
 *
 * A content key hashes exactly what a result depends on. A slide is known by its path, size and
 * modification time: the cheap identity that needs no reading; the tiling by its hash. What is
 * not in a key does not cause work: threshold, slide score and report settings, job sizes, the
 * run directory.
 */
#ifndef HRF_ORCHESTRATOR_DAG_DAG_H
#define HRF_ORCHESTRATOR_DAG_DAG_H

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_slide_identity {
    const char *path;
    int64_t n_bytes, mtime_ns;
};

struct hrf_tile_inputs {
    struct hrf_slide_identity slide;
    const char *mode, *tissue_method;
    int64_t size, stride, min_patches;
    double mpp, min_tissue;
    double csv_mpp, workflow_mpp; /* 0 = not given */
};

struct hrf_infer_inputs {
    struct hrf_slide_identity slide;
    const char *tiling; /* hash of the tile plan */
    const char *scales; /* int8: key of the calibration; NULL otherwise */
    const char *model_sha256, *precision, *device;
    int64_t n_classes;
    const double *mean, *std; /* [3] */
    int64_t first_patch, n_patches;
    bool class_map; /* slide mode */
};

HRF_CHECKED enum hrf_status hrf_dag_tile_key(const struct hrf_tile_inputs *inputs,
                                             char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_dag_infer_key(const struct hrf_infer_inputs *inputs,
                                              char out[HRF_HASH_HEX], struct hrf_error *err);

/* Shards of a slide: as few as hold n_patches at most `limit` each, as even as can be. */
int64_t hrf_dag_shard_count(int64_t n_patches, int64_t limit);
void hrf_dag_shard(int64_t n_patches, int64_t n_shards, int64_t i, int64_t *first, int64_t *n);

#endif
