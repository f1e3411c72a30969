/* dag.c - computes content keys and splits slides into shards. */
#include "orchestrator/dag/dag.h"

#include "base/fields.h"

#include <assert.h>

/* What an infer task's result depends on in addition to its inputs and the settings of its phase.
 */
struct infer_facts {
    struct hrf_infer_inputs inputs;
    const char *variant, *precision;
    double stain_jitter; /* of the jittered variant; the others have 0 and 0 */
    int64_t seed, n_scores;
};

struct training_facts {
    struct hrf_text_list classes;
    const char *labels;
    int64_t fold, seed;
};

struct head_facts {
    struct hrf_head_inputs inputs;
    struct hrf_text_list classes;
};

#define TEXT(of, member)    HRF_FIELD(struct of, #member, member, HRF_FIELD_TEXT)
#define INTEGER(of, member) HRF_FIELD(struct of, #member, member, HRF_FIELD_INT)
#define REAL(of, member)    HRF_FIELD(struct of, #member, member, HRF_FIELD_REAL)
#define BOOLEAN(of, member) HRF_FIELD(struct of, #member, member, HRF_FIELD_BOOL)
#define TEXTS(of, member)                                                                          \
    HRF_FIELD_COUNTED(struct of, #member, member.items, member.n_items, HRF_FIELD_TEXTS)

static const struct hrf_field tile_fields[] = {
    TEXT(hrf_tile_inputs, slide),         REAL(hrf_tile_inputs, csv_mpp),
    REAL(hrf_tile_inputs, workflow_mpp),  TEXT(hrf_tile_inputs, tissue_sha256),
    TEXT(hrf_tile_inputs, coords_sha256),
};
static const struct hrf_field infer_fields[] = {
    TEXT(infer_facts, inputs.slide),
    TEXT(infer_facts, inputs.tiling),
    TEXT(infer_facts, inputs.model_sha256),
    TEXT(infer_facts, inputs.scales),
    INTEGER(infer_facts, inputs.first_patch),
    INTEGER(infer_facts, inputs.n_patches),
    TEXT(infer_facts, variant),
    TEXT(infer_facts, precision),
    REAL(infer_facts, stain_jitter),
    INTEGER(infer_facts, seed),
    INTEGER(infer_facts, n_scores),
};
static const struct hrf_field head_fields[] = {
    TEXT(head_facts, inputs.slide),       TEXT(head_facts, inputs.features_sha256),
    TEXT(head_facts, inputs.head_sha256), BOOLEAN(head_facts, inputs.any_precision),
    TEXTS(head_facts, classes),
};
static const struct hrf_field training_fields[] = {
    TEXTS(training_facts, classes),
    TEXT(training_facts, labels),
    INTEGER(training_facts, fold),
    INTEGER(training_facts, seed),
};

/* A kind of task: the settings of a phase and these facts make its key. */
struct rule {
    /* Raised if a task's result changes for the same inputs; all its keys change with it. */
    const char *version;
    unsigned phase;
    const struct hrf_field *fields;
    size_t n_fields;
};
static const struct rule tile = { "hires-flow tile 1", HRF_FOR_TILES, HRF_FIELDS(tile_fields) };
static const struct rule infer = { "hires-flow infer 1", HRF_FOR_SCORES, HRF_FIELDS(infer_fields) };
static const struct rule head = { "hires-flow head 1", HRF_FOR_HEADS, HRF_FIELDS(head_fields) };
static const struct rule training = { "hires-flow training 1", HRF_FOR_TRAINING,
                                      HRF_FIELDS(training_fields) };

static enum hrf_status make_key(const struct rule *rule, const struct hrf_workflow *settings,
                                const void *facts, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_JSON object = hrf_fields_json(rule->fields, rule->n_fields, facts);
    HRF_AUTO_FREE char *text = hrf_json_text(object);
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, rule->version);
    hrf_settings_hash(settings, rule->phase, hash);
    hrf_hash_text(hash, text);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status hrf_dag_tile_key(const struct hrf_workflow *settings,
                                 const struct hrf_tile_inputs *inputs, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    return make_key(&tile, settings, inputs, out, err);
}

enum hrf_status hrf_dag_infer_key(const struct hrf_workflow *settings,
                                  const struct hrf_infer_inputs *inputs, char out[HRF_HASH_HEX],
                                  struct hrf_error *err)
{
    const size_t variant = inputs->variant;
    const bool is_jitter = hrf_workflow_is_jitter(settings, variant);
    const struct infer_facts facts = { .inputs = *inputs,
                                       .variant = hrf_workflow_variant_name(settings, variant),
                                       .precision = hrf_precision_name(
                                           hrf_workflow_variant(settings, variant)),
                                       .stain_jitter = is_jitter ? settings->study.stain_jitter : 0,
                                       .seed = is_jitter ? settings->study.seed : 0,
                                       .n_scores = hrf_workflow_n_scores(settings) };
    return make_key(&infer, settings, &facts, out, err);
}

enum hrf_status hrf_dag_head_key(const struct hrf_workflow *settings,
                                 const struct hrf_head_inputs *inputs, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    const struct head_facts facts = { *inputs, settings->model.classes };
    return make_key(&head, settings, &facts, out, err);
}

enum hrf_status hrf_dag_training_key(const struct hrf_workflow *settings, const char *labels,
                                     int64_t fold, int64_t seed, char out[HRF_HASH_HEX],
                                     struct hrf_error *err)
{
    const struct training_facts facts = { settings->model.classes, labels, fold, seed };
    return make_key(&training, settings, &facts, out, err);
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
