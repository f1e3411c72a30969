/* dag.h - content keys of tasks, and how a slide's patches are split into tasks. Pure functions.
 *
 * A content key is a hash of exactly what a result depends on; a task whose key is known is not run
 * again. A slide is identified by its path, size and modification time, because that needs no
 * reading of the file; a tiling is identified by its hash. Threshold, slide score, report settings,
 * job sizes and the run directory are not part of a key, so that changing them causes no work.
 */
#ifndef HRF_ORCHESTRATOR_DAG_DAG_H
#define HRF_ORCHESTRATOR_DAG_DAG_H

#include "base/error.h"
#include "base/hash.h"
#include "base/preparation.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_slide_identity {
    const char *path;
    int64_t n_bytes, mtime_ns;
};

/* A network that finds tissue. */
struct hrf_tissue_inputs {
    const char *model_sha256; /* NULL: no network finds it */
    double mpp, threshold;
    int64_t size, class;
    const double *mean, *std; /* [3] */
};

struct hrf_tile_inputs {
    struct hrf_slide_identity slide;
    const char *mode, *tissue_method;
    int64_t size, stride, min_patches;
    double mpp, min_tissue;
    double csv_mpp, workflow_mpp; /* 0 = not given */
    bool bad_tiles_are_white;
    const char *edge;  /* NULL: drop */
    double quality[4]; /* the limits for pen, bubble, fold and blur; 0: not looked for */
    struct hrf_tissue_inputs tissue;
    const char *outline_classes; /* a line each; NULL: all */
    const char *coords;          /* SHA-256 of the file of foreign patches; NULL: none */
};

struct hrf_infer_inputs {
    struct hrf_slide_identity slide;
    const char *tiling; /* hash of the tile plan */
    const char *scales; /* key of the int8 calibration; NULL for other precisions */
    const char *model_sha256, *precision, *device;
    int64_t n_classes;
    const double *mean, *std; /* [3] */
    int64_t first_patch, n_patches;
    bool class_map;         /* slide mode */
    bool embedding;         /* n_classes is 0 */
    const char *activation; /* as in a job; NULL: by what the model ends in */
    double stain_jitter;    /* 0: none */
    int64_t jitter_seed;
    struct hrf_preparation preparation; /* of patches before the network */
    const char *decode;                 /* what decodes tiles; NULL: the CPU */
};

struct hrf_head_inputs {
    struct hrf_slide_identity slide;
    const char *features_sha256, *head_sha256; /* of the files */
    const char *classes;                       /* that the head must have, a line each */
    bool mixed, any_precision;                 /* what is not refused: hrf_job_bag */
};

HRF_CHECKED enum hrf_status hrf_dag_tile_key(const struct hrf_tile_inputs *inputs,
                                             char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_dag_infer_key(const struct hrf_infer_inputs *inputs,
                                              char out[HRF_HASH_HEX], struct hrf_error *err);

/* Adds what becomes of patches to a key, if anything does. */
void hrf_dag_hash_preparation(struct hrf_hash *hash, const struct hrf_preparation *preparation);

HRF_CHECKED enum hrf_status hrf_dag_head_key(const struct hrf_head_inputs *inputs,
                                             char out[HRF_HASH_HEX], struct hrf_error *err);

/* Splits a slide's patches into shards: as few as possible with at most `limit` patches each, and
 * as equal as possible. Shard i holds the patches [*first, *first + *n). */
int64_t hrf_dag_shard_count(int64_t n_patches, int64_t limit);
void hrf_dag_shard(int64_t n_patches, int64_t n_shards, int64_t i, int64_t *first, int64_t *n);

#endif
