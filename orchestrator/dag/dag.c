/* dag.c - computes content keys and splits slides into shards. */
#include "orchestrator/dag/dag.h"

#include <assert.h>

/* Raise a version if a task's result changes for the same inputs; all its keys change with it. */
static const char tile_version[] = "hires-flow tile 1";
static const char infer_version[] = "hires-flow infer 1";
static const char head_version[] = "hires-flow head 1";

static void hash_slide(struct hrf_hash *hash, const struct hrf_slide_identity *slide)
{
    hrf_hash_text(hash, slide->path);
    hrf_hash_int(hash, slide->n_bytes);
    hrf_hash_int(hash, slide->mtime_ns);
}

static void hash_tissue(struct hrf_hash *hash, const struct hrf_tissue_inputs *tissue)
{
    if (tissue->model_sha256 == NULL)
        return;
    hrf_hash_text(hash, tissue->model_sha256);
    hrf_hash_double(hash, tissue->mpp);
    hrf_hash_double(hash, tissue->threshold);
    hrf_hash_int(hash, tissue->size);
    hrf_hash_int(hash, tissue->class);
    for (int i = 0; i < 3; i++) {
        hrf_hash_double(hash, tissue->mean[i]);
        hrf_hash_double(hash, tissue->std[i]);
    }
}

enum hrf_status hrf_dag_tile_key(const struct hrf_tile_inputs *inputs, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, tile_version);
    hash_slide(hash, &inputs->slide);
    hrf_hash_text(hash, inputs->mode);
    hrf_hash_text(hash, inputs->tissue_method);
    hrf_hash_int(hash, inputs->size);
    hrf_hash_int(hash, inputs->stride);
    hrf_hash_int(hash, inputs->min_patches);
    hrf_hash_double(hash, inputs->mpp);
    hrf_hash_double(hash, inputs->min_tissue);
    hrf_hash_double(hash, inputs->csv_mpp);
    hrf_hash_double(hash, inputs->workflow_mpp);
    if (inputs->coords != NULL) /* without them the key is that of earlier versions */
        hrf_hash_text(hash, inputs->coords);
    if (inputs->bad_tiles_are_white)
        hrf_hash_text(hash, "bad tiles are white");
    if (inputs->edge != NULL)
        hrf_hash_text(hash, inputs->edge);
    for (int i = 0; i < 4; i++)
        if (inputs->quality[i] > 0) {
            hrf_hash_int(hash, i);
            hrf_hash_double(hash, inputs->quality[i]);
        }
    hash_tissue(hash, &inputs->tissue);
    if (inputs->outline_classes != NULL) {
        hrf_hash_text(hash, "outlines");
        hrf_hash_text(hash, inputs->outline_classes);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

void hrf_dag_hash_preparation(struct hrf_hash *hash, const struct hrf_preparation *preparation)
{
    if (preparation->size == 0) /* the key is that of earlier versions */
        return;
    hrf_hash_text(hash, "preparation 1");
    hrf_hash_int(hash, preparation->size);
    hrf_hash_int(hash, preparation->resize);
    hrf_hash_text(hash, hrf_interpolation_names[preparation->interpolation]);
}

enum hrf_status hrf_dag_infer_key(const struct hrf_infer_inputs *inputs, char out[HRF_HASH_HEX],
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, infer_version);
    hash_slide(hash, &inputs->slide);
    hrf_hash_text(hash, inputs->tiling);
    hrf_hash_text(hash, inputs->model_sha256);
    hrf_hash_text(hash, inputs->precision);
    hrf_hash_text(hash, inputs->device);
    if (inputs->scales != NULL)
        hrf_hash_text(hash, inputs->scales);
    hrf_hash_int(hash, inputs->n_classes);
    for (int i = 0; i < 3; i++) {
        hrf_hash_double(hash, inputs->mean[i]);
        hrf_hash_double(hash, inputs->std[i]);
    }
    hrf_hash_int(hash, inputs->first_patch);
    hrf_hash_int(hash, inputs->n_patches);
    if (inputs->class_map) /* without a class map the key is that of earlier versions */
        hrf_hash_text(hash, "class map");
    if (inputs->embedding)
        hrf_hash_text(hash, "embedding");
    if (inputs->activation != NULL)
        hrf_hash_text(hash, inputs->activation);
    hrf_dag_hash_preparation(hash, &inputs->preparation);
    if (inputs->decode != NULL) { /* without it the key is that of earlier versions */
        hrf_hash_text(hash, "decode 1");
        hrf_hash_text(hash, inputs->decode);
    }
    if (inputs->stain_jitter > 0) {
        hrf_hash_text(hash, "stain jitter 1");
        hrf_hash_double(hash, inputs->stain_jitter);
        hrf_hash_int(hash, inputs->jitter_seed);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status hrf_dag_head_key(const struct hrf_head_inputs *inputs, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, head_version);
    hash_slide(hash, &inputs->slide);
    hrf_hash_text(hash, inputs->features_sha256);
    hrf_hash_text(hash, inputs->head_sha256);
    hrf_hash_text(hash, inputs->classes);
    hrf_hash_int(hash, inputs->mixed);
    hrf_hash_int(hash, inputs->any_precision);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

int64_t hrf_dag_shard_count(int64_t n_patches, int64_t limit)
{
    assert(limit >= 1);
    return (n_patches + limit - 1) / limit;
}

void hrf_dag_shard(int64_t n_patches, int64_t n_shards, int64_t i, int64_t *first, int64_t *n)
{
    assert(n_shards >= 1 && i >= 0 && i < n_shards);
    int64_t each = n_patches / n_shards, larger = n_patches % n_shards;
    *first = i * each + (i < larger ? i : larger);
    *n = each + (i < larger);
}
