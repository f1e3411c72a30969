/* dag.h - content keys of tasks, and how a slide's patches are split into tasks. Pure functions.
 *
 * A content key is a hash of exactly what a result depends on; a task whose key is known is not run
 * again. A slide is identified by its content, a tiling by its hash. Threshold, slide score, report
 * settings, job sizes and the run directory are not part of a key, so that changing them causes no
 * work.
 */
#ifndef HRF_ORCHESTRATOR_DAG_DAG_H
#define HRF_ORCHESTRATOR_DAG_DAG_H

#include "base/error.h"
#include "base/hash.h"
#include "schema/settings/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* The inputs of a task besides the settings. */
struct hrf_tile_inputs {
    const char *slide;            /* its content (tiler/slide/content.h) */
    double csv_mpp, workflow_mpp; /* 0 = not given */
    const char *tissue_sha256;    /* of the network that finds tissue; NULL: none does */
    const char *coords_sha256;    /* of the file of foreign patches; NULL: none */
};

struct hrf_infer_inputs {
    const char *slide;        /* its content (tiler/slide/content.h) */
    const char *tiling;       /* hash of the tile plan */
    const char *model_sha256; /* of the file */
    const char *scales;       /* key of the int8 calibration; NULL for other precisions */
    size_t variant;           /* hrf_workflow_variant() */
    int64_t first_patch, n_patches;
};

struct hrf_head_inputs {
    const char *slide;                         /* its content (tiler/slide/content.h) */
    const char *features_sha256, *head_sha256; /* of the files */
    bool any_precision;                        /* hrf_job_bag */
};

/* Each hashes the settings whose rows name the phase (schema/settings) and these inputs. */
HRF_CHECKED enum hrf_status hrf_dag_tile_key(const struct hrf_workflow *settings,
                                             const struct hrf_tile_inputs *inputs,
                                             char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_dag_infer_key(const struct hrf_workflow *settings,
                                              const struct hrf_infer_inputs *inputs,
                                              char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_dag_head_key(const struct hrf_workflow *settings,
                                             const struct hrf_head_inputs *inputs,
                                             char out[HRF_HASH_HEX], struct hrf_error *err);
/* Computes the key of a training of a slide head. `labels` lists the slides with their class, part
 * and features' hash. */
HRF_CHECKED enum hrf_status hrf_dag_training_key(const struct hrf_workflow *settings,
                                                 const char *labels, int64_t fold, int64_t seed,
                                                 char out[HRF_HASH_HEX], struct hrf_error *err);

/* Splits a slide's patches into shards: as few as possible with at most `limit` patches each, and
 * as equal as possible. Shard i holds the patches [*first, *first + *n). */
int64_t hrf_dag_shard_count(int64_t n_patches, int64_t limit);
void hrf_dag_shard(int64_t n_patches, int64_t n_shards, int64_t i, int64_t *first, int64_t *n);

#endif
