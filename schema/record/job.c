/* job.c - spec.json, and the status, record and progress files of a task (job.h). */
#include "schema/record/job.h"

#include "base/crash.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/precision.h"
#include "schema/record/container.h"
#include "schema/record/fields.h"
#include "schema/record/label_maps.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Version 1 of a spec had one network, whose keys stood in "engine". */
enum { SPEC_VERSION = 2, STATUS_VERSION = 1 };
enum { MOST_TISSUE_SIDE = 8192 }; /* px, of the images of a network that finds tissue */

static const char *const job_kinds[] = { "tile", "infer", "calibrate", "head", "train", NULL };

const char *hrf_job_kind_name(enum hrf_job_kind kind)
{
    return job_kinds[kind];
}

static const struct hrf_field spec_fields[] = {
    HRF_FIELD(struct hrf_job_spec, "run_id", run_id, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_job_spec, "job_id", job_id, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_job_spec, "attempt", attempt, HRF_FIELD_INT),
    HRF_FIELD_ENUM(struct hrf_job_spec, "kind", kind, job_kinds),
};

static const struct hrf_field tiler_fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_job_tiler, #key, key, HRF_FIELD_##type)
    FIELD(mode, NEEDED),
    FIELD(patch_size, INT),
    FIELD(patch_stride, INT),
    FIELD(patch_mpp, REAL),
    FIELD(min_tissue, REAL),
    FIELD(min_patches, INT),
    FIELD(tissue_method, NEEDED),
    HRF_FIELD_NEW(struct hrf_job_tiler, "coords", coords, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "outline_classes", outline_classes, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "on_bad_tile", on_bad_tile, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "edge", edge, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_model", tissue.model_file, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_model_sha256", tissue.model_sha256, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_mpp", tissue.mpp, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_threshold", tissue.threshold, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_size", tissue.size, HRF_FIELD_INT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_class", tissue.class, HRF_FIELD_INT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_mean", tissue.mean, HRF_FIELD_REALS),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_std", tissue.std, HRF_FIELD_REALS),
    HRF_FIELD_NEW(struct hrf_job_tiler, "tissue_threads", tissue.n_threads, HRF_FIELD_INT),
    HRF_FIELD_NEW(struct hrf_job_tiler, "most_pen", quality.pen, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_tiler, "most_bubble", quality.bubble, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_tiler, "most_fold", quality.fold, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_tiler, "most_blur", quality.blur, HRF_FIELD_REAL),
#undef FIELD
};

static const struct hrf_field engine_fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_job_engine, #key, key, HRF_FIELD_##type)
#define NEW(key, type)   HRF_FIELD_NEW(struct hrf_job_engine, #key, key, HRF_FIELD_##type)
    FIELD(model_file, NEEDED), FIELD(model_sha256, NEEDED), FIELD(n_classes, INT),
    FIELD(mean, REALS),        FIELD(std, REALS),           FIELD(device, NEEDED),
    FIELD(batch, INT),         FIELD(memory_bytes, INT),    FIELD(n_threads, INT),
    FIELD(class_map, BOOL),    FIELD(layout, TEXT),         NEW(n_ranks, INT),
    NEW(embedding, BOOL),      NEW(max_memory_bytes, INT),  NEW(max_operations, REAL),
    NEW(activation, TEXT),     NEW(layer_loss, TEXT),       NEW(fit_method, TEXT),
    NEW(fit_min_sqnr, REAL),   NEW(input_size, INT),        NEW(input_resize, INT),
    NEW(interpolation, TEXT),  NEW(decode, TEXT),
#undef NEW
#undef FIELD
};

static const struct hrf_field network_fields[] = {
    HRF_FIELD(struct hrf_job_network, "precision", precision, HRF_FIELD_NEEDED),
    HRF_FIELD(struct hrf_job_network, "scales", scales, HRF_FIELD_TEXT),
    HRF_FIELD_NEW(struct hrf_job_network, "stain_jitter", stain_jitter, HRF_FIELD_REAL),
    HRF_FIELD_NEW(struct hrf_job_network, "jitter_seed", jitter_seed, HRF_FIELD_INT),
};

const char *hrf_job_network_name(const struct hrf_job_network *network)
{
    return network->stain_jitter > 0 ? HRF_JITTER : network->precision;
}

static const struct hrf_field task_fields[] = {
#define FIELD(key, member, type) HRF_FIELD(struct hrf_job_task, key, member, HRF_FIELD_##type)
#define NEW(key, member, type)   HRF_FIELD_NEW(struct hrf_job_task, key, member, HRF_FIELD_##type)
    FIELD("id", id, NEEDED),
    FIELD("key", identity.task, HASH),
    NEW("slide_fingerprint", identity.slide, HASH),
    NEW("tile_plan_hash", identity.plan, HASH),
    FIELD("slide_name", slide_name, NEEDED),
    FIELD("slide_path", slide_path, NEEDED),
    FIELD("mpp_override", mpp_override, REAL),
    FIELD("mpp_fallback", mpp_fallback, REAL),
    FIELD("tile_plan", tile_plan, TEXT),
    NEW("partial", partial, TEXT),
    FIELD("first_patch", first_patch, INT),
    FIELD("n_patches", n_patches, INT),
    NEW("measures_layers", measures_layers, BOOL),
    NEW("features", bag.features, TEXT),
    NEW("features_sha256", bag.features_sha256, TEXT),
    NEW("head", bag.head, TEXT),
    NEW("head_sha256", bag.head_sha256, TEXT),
    NEW("classes", bag.classes, TEXT),
    NEW("mixed", bag.mixed, BOOL),
    NEW("any_precision", bag.any_precision, BOOL),
    NEW("recipe", training.recipe, TEXT),
    NEW("fold", training.fold, INT),
    NEW("seed", training.seed, INT),
    NEW("network", network, INT),
#undef NEW
#undef FIELD
};

void hrf_job_spec_destroy(struct hrf_job_spec *spec)
{
    if (spec == NULL)
        return;
    for (size_t i = 0; i < spec->n_tasks; i++)
        hrf_fields_release(HRF_FIELDS(task_fields), &spec->tasks[i]);
    hrf_free(spec->tasks);
    for (size_t i = 0; i < spec->n_wrap; i++)
        hrf_free(spec->wrap[i]);
    hrf_free(spec->wrap);
    hrf_fields_release(HRF_FIELDS(tiler_fields), &spec->tiler);
    hrf_fields_release(HRF_FIELDS(engine_fields), &spec->engine);
    for (size_t i = 0; i < spec->n_networks; i++)
        hrf_fields_release(HRF_FIELDS(network_fields), &spec->networks[i]);
    hrf_free(spec->networks);
    hrf_fields_release(HRF_FIELDS(spec_fields), spec);
    hrf_free(spec);
}

bool hrf_job_tasks_share_patches(const struct hrf_job_task *a, const struct hrf_job_task *b)
{
    return a->network != b->network && a->first_patch == b->first_patch &&
           a->n_patches == b->n_patches && strcmp(a->slide_path, b->slide_path) == 0 &&
           strcmp(a->tile_plan, b->tile_plan) == 0 &&
           strcmp(a->identity.slide, b->identity.slide) == 0 &&
           strcmp(a->identity.plan, b->identity.plan) == 0;
}

/* Puts an array of records into `root`; false when memory ran out. */
static bool put_array(json_t *root, const char *key, const struct hrf_field *fields,
                      size_t n_fields, const void *records, size_t size, size_t n)
{
    json_t *array = json_array(); /* root's from here on */
    bool good = json_object_set_new(root, key, array) == 0;
    for (size_t i = 0; i < n && good; i++)
        good = json_array_append_new(
                   array, hrf_fields_json(fields, n_fields, (const char *)records + i * size, 0)) ==
               0;
    return good;
}

enum hrf_status hrf_job_spec_write(const struct hrf_job_spec *spec, const char *path,
                                   struct hrf_error *err)
{
    const bool is_tile = spec->kind == HRF_JOB_TILE;
    HRF_AUTO_JSON root = hrf_fields_json(HRF_FIELDS(spec_fields), spec, SPEC_VERSION);
    json_t *wrap = json_array(); /* root's from here on */
    bool failed = json_object_set_new(root, "wrap", wrap) != 0;
    failed |= !put_array(root, "tasks", HRF_FIELDS(task_fields), spec->tasks, sizeof *spec->tasks,
                         spec->n_tasks);
    for (size_t i = 0; i < spec->n_wrap && !failed; i++)
        failed = json_array_append_new(wrap, hrf_json_bytes(spec->wrap[i])) != 0;
    json_t *settings = is_tile ? hrf_fields_json(HRF_FIELDS(tiler_fields), &spec->tiler, 0)
                               : hrf_fields_json(HRF_FIELDS(engine_fields), &spec->engine, 0);
    failed |= json_object_set_new(root, is_tile ? "tiler" : "engine", settings) != 0;
    failed |= !is_tile && !put_array(root, "networks", HRF_FIELDS(network_fields), spec->networks,
                                     sizeof *spec->networks, spec->n_networks);
    if (failed)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to write '%s'", path);
    HRF_TRY(hrf_fields_seal(root, path, err));
    return hrf_json_write_file(path, root, err);
}

static enum hrf_status read_tiler(const json_t *root, const char *where,
                                  struct hrf_job_tiler *tiler, struct hrf_error *err)
{
    json_t *o;
    HRF_TRY(hrf_json_get_object(root, "tiler", where, &o, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(tiler_fields), o, where, tiler, err));
    const struct hrf_job_tissue *t = &tiler->tissue;
    bool is_good = t->mpp > 0 && t->threshold > 0 && t->threshold <= 1 && t->size >= 0 &&
                   t->size <= MOST_TISSUE_SIDE && t->class >= -1 && t->n_threads >= 0 &&
                   t->n_threads <= 4096 && t->model_sha256 != NULL;
    for (int i = 0; i < 3; i++)
        is_good &= isfinite(t->mean[i]) && t->std[i] > 0;
    if (t->model_file != NULL && !is_good)
        return hrf_error_set(err, HRF_E_USER, "%s: 'tiler' holds a number out of range", where);
    return HRF_OK;
}

static bool is_activation(const char *word)
{
    return word == NULL || strcmp(word, "softmax") == 0 || strcmp(word, "sigmoid") == 0 ||
           strcmp(word, "none") == 0 || strcmp(word, "segmentation") == 0;
}

int64_t hrf_job_batch(int64_t batch, int64_t n_patches)
{
    const int64_t step = batch < 8 ? 1 : batch / 8;
    const int64_t n_batches = n_patches > 0 ? (n_patches + batch - 1) / batch : 1;
    const int64_t each = ((n_patches + n_batches - 1) / n_batches + step - 1) / step * step;
    return each < 1 || each > batch ? batch : each;
}

bool hrf_job_engine_is_segmentation(const struct hrf_job_engine *engine)
{
    return engine->activation != NULL && strcmp(engine->activation, "segmentation") == 0;
}

struct hrf_preparation hrf_job_engine_preparation(const struct hrf_job_engine *engine)
{
    struct hrf_preparation preparation = { .size = engine->input_size };
    if (preparation.size > 0) {
        preparation.resize = engine->input_resize;
        preparation.interpolation = hrf_interpolation_find(engine->interpolation);
    }
    return preparation;
}

static bool is_decode(const char *word)
{
    return word == NULL || strcmp(word, "cpu") == 0 || strcmp(word, "gpu") == 0 ||
           strcmp(word, "auto") == 0;
}

static bool is_preparation(const struct hrf_job_engine *engine)
{
    enum { MOST_SIDE = 1 << 15 }; /* px */
    if (engine->input_size == 0)
        return engine->input_resize == 0 && engine->interpolation == NULL;
    return engine->input_size > 0 && engine->input_size <= engine->input_resize &&
           engine->input_resize <= MOST_SIDE && !engine->class_map &&
           engine->interpolation != NULL &&
           hrf_interpolation_find(engine->interpolation) < HRF_N_INTERPOLATIONS &&
           hrf_interpolation_find(engine->interpolation) != HRF_INTERPOLATION_AUTO;
}

static enum hrf_status read_engine(const json_t *root, const char *where,
                                   struct hrf_job_engine *engine, struct hrf_error *err)
{
    json_t *o;
    HRF_TRY(hrf_json_get_object(root, "engine", where, &o, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(engine_fields), o, where, engine, err));
    if (engine->max_memory_bytes < 0 || !(engine->max_operations >= 0) ||
        engine->n_classes < !engine->embedding || (engine->embedding && engine->class_map) ||
        engine->n_classes > 1 << 16 || engine->batch < 1 || engine->batch > 1 << 16 ||
        !is_activation(engine->activation) || !is_decode(engine->decode) ||
        !is_preparation(engine) ||
        (hrf_job_engine_is_segmentation(engine) &&
         (engine->class_map || engine->embedding || engine->n_classes > HRF_MOST_LABEL_CLASSES)) ||
        engine->n_threads < 0 || engine->n_threads > 4096 || engine->n_ranks < 0 ||
        engine->n_ranks > 1 << 20)
        return hrf_error_set(err, HRF_E_USER, "%s: 'engine' holds a number out of range", where);
    return HRF_OK;
}

static enum hrf_status read_networks(const json_t *root, int64_t version, const char *where,
                                     struct hrf_job_spec *spec, struct hrf_error *err)
{
    json_t *array = NULL, *engine;
    size_t n = 1;
    HRF_TRY(hrf_json_get_object(root, "engine", where, &engine, err));
    if (version > 1) {
        HRF_TRY(hrf_json_get_array(root, "networks", where, &array, err));
        n = json_array_size(array);
    }
    if (n < 1 || n > HRF_JOB_MOST_NETWORKS)
        return hrf_error_set(err, HRF_E_USER, "%s: 'networks' has %zu, not 1 to %d", where, n,
                             HRF_JOB_MOST_NETWORKS);
    spec->networks = hrf_calloc(n, sizeof spec->networks[0]);
    HRF_CHECK_MEMORY(spec->networks != NULL, err, "%s: no memory for %zu networks", where, n);
    spec->n_networks = n; /* zeros, so that destroy() accepts a half-read spec */
    for (size_t i = 0; i < n; i++)
        HRF_TRY(hrf_fields_read(HRF_FIELDS(network_fields),
                                array != NULL ? json_array_get(array, i) : engine, where,
                                &spec->networks[i], err));
    return HRF_OK;
}

/* IDs become file names, so they must not lead out of the directory or be hidden. */
bool hrf_job_id_is_good(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 63 && id[n] == '\0';
}

static enum hrf_status check_id(const char *id, const char *where, struct hrf_error *err)
{
    if (hrf_job_id_is_good(id))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "%s: '%.80s' cannot be an id: 1 to 63 letters, digits, '_' and '-'", where,
                         id);
}

static enum hrf_status read_task(const json_t *o, const char *where, struct hrf_job_task *task,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_fields_read(HRF_FIELDS(task_fields), o, where, task, err));
    HRF_TRY(check_id(task->id, where, err));
    if (task->first_patch < 0 || task->n_patches < 0)
        return hrf_error_set(err, HRF_E_USER, "%s: task %s: patches %lld and on, %lld of them",
                             where, task->id, (long long)task->first_patch,
                             (long long)task->n_patches);
    return HRF_OK;
}

static enum hrf_status read_tasks(const json_t *root, const char *where, struct hrf_job_spec *spec,
                                  struct hrf_error *err)
{
    json_t *array;
    HRF_TRY(hrf_json_get_array(root, "tasks", where, &array, err));
    size_t n = json_array_size(array);
    spec->tasks = hrf_calloc(n, sizeof spec->tasks[0]);
    HRF_CHECK_MEMORY(spec->tasks != NULL, err, "%s: no memory for %zu tasks", where, n);
    for (size_t i = 0; i < n; i++) {
        spec->n_tasks = i + 1; /* the rest is zero, so that destroy() accepts a half-read spec */
        HRF_TRY(read_task(json_array_get(array, i), where, &spec->tasks[i], err));
        if (spec->kind == HRF_JOB_TRAIN && spec->tasks[i].training.recipe == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s: 'recipe' is null", where);
        if (spec->kind != HRF_JOB_TILE && spec->kind != HRF_JOB_TRAIN &&
            spec->tasks[i].tile_plan == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s: 'tile_plan' is null", where);
        const struct hrf_job_bag *bag = &spec->tasks[i].bag;
        if (spec->kind == HRF_JOB_HEAD &&
            (bag->features == NULL || bag->features_sha256 == NULL || bag->head == NULL ||
             bag->head_sha256 == NULL || bag->classes == NULL))
            return hrf_error_set(err, HRF_E_USER, "%s: a head task lacks its files", where);
        if (spec->kind != HRF_JOB_TILE &&
            (spec->tasks[i].network < 0 || spec->tasks[i].network >= (int64_t)spec->n_networks))
            return hrf_error_set(err, HRF_E_USER, "%s: task %s asks for network %lld of %zu", where,
                                 spec->tasks[i].id, (long long)spec->tasks[i].network,
                                 spec->n_networks);
    }
    return HRF_OK;
}

static enum hrf_status read_wrap(const json_t *root, const char *where, struct hrf_job_spec *spec,
                                 struct hrf_error *err)
{
    json_t *words;
    if (json_object_get(root, "wrap") == NULL)
        return HRF_OK;
    HRF_TRY(hrf_json_get_array(root, "wrap", where, &words, err));
    spec->wrap = hrf_calloc(json_array_size(words) + 1, sizeof spec->wrap[0]);
    HRF_CHECK_MEMORY(spec->wrap != NULL, err, "%s: no memory for a command line", where);
    for (; spec->n_wrap < json_array_size(words); spec->n_wrap++) {
        HRF_AUTO_JSON word = json_pack("{sO}", "word", json_array_get(words, spec->n_wrap));
        const struct hrf_field field = { "word", HRF_FIELD_NEEDED, 0, sizeof(char *), false, NULL };
        HRF_TRY(hrf_fields_read(&field, 1, word, where, &spec->wrap[spec->n_wrap], err));
    }
    return HRF_OK;
}

static enum hrf_status read_spec(const json_t *root, const char *where, struct hrf_job_spec *spec,
                                 struct hrf_error *err)
{
    const int64_t version = json_integer_value(json_object_get(root, "version"));
    if (version != 1)
        HRF_TRY(hrf_fields_check_version(root, SPEC_VERSION, "job's spec", where, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(spec_fields), root, where, spec, err));
    HRF_TRY(check_id(spec->job_id, where, err));
    HRF_TRY(spec->kind == HRF_JOB_TILE ? read_tiler(root, where, &spec->tiler, err)
                                       : read_engine(root, where, &spec->engine, err));
    if (spec->kind != HRF_JOB_TILE)
        HRF_TRY(read_networks(root, version, where, spec, err));
    HRF_TRY(read_wrap(root, where, spec, err));
    return read_tasks(root, where, spec, err);
}

/* Earlier versions wrote no checksum. */
static enum hrf_status read_sealed(const char *path, json_t **out, struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_TRY(hrf_json_read_file(path, &root, err));
    if (json_object_get(root, "sha256") != NULL)
        HRF_TRY(hrf_fields_unseal(root, path, err));
    HRF_MOVE(*out, root);
    return HRF_OK;
}

enum hrf_status hrf_job_spec_read(const char *path, struct hrf_job_spec **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    HRF_CHECK_MEMORY(spec != NULL, err, "no memory for the spec '%s'", path);
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = read_sealed(path, &root, &why);
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, status, "%s", why.text);
    if (status != HRF_OK) /* it was whole when the job was submitted */
        return hrf_error_set(err, HRF_E_AGAIN,
                             "the job's file was damaged after it was written (%s); the job is "
                             "submitted again with a new one",
                             why.text);
    HRF_TRY(read_spec(root, path, spec, err));
    HRF_MOVE(*out, spec);
    return HRF_OK;
}

static const char *const outcomes[] = { "done", "no-tissue", "failed", NULL };
static const struct hrf_field status_fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_task_status, #key, key, HRF_FIELD_##type)
    HRF_FIELD_ENUM(struct hrf_task_status, "outcome", outcome, outcomes),
    FIELD(retryable, BOOL),
    FIELD(reason, TEXT),
    FIELD(record_sha256, HASH),
    FIELD(record_bytes, INT),
    FIELD(seconds, REAL),
    HRF_FIELD_NEW(struct hrf_task_status, "task_key", task_key, HRF_FIELD_HASH),
#undef FIELD
};

void hrf_task_status_release(struct hrf_task_status *status)
{
    hrf_free(status->reason);
    *status = (struct hrf_task_status){ .outcome = HRF_TASK_DONE };
}

/* DIRECTORY/ID.SUFFIX, NULL when memory ran out. */
static char *task_file(const char *directory, const char *task_id, const char *suffix)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", task_id, suffix);
    return name != NULL ? hrf_path_join(directory, name) : NULL;
}

bool hrf_task_has_status(const char *directory, const char *task_id)
{
    HRF_AUTO_FREE char *path = task_file(directory, task_id, "json");
    return path != NULL && hrf_path_exists(path);
}

static enum hrf_status check_fence(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *fence = hrf_path_join(directory, "revoked");
    HRF_CHECK_MEMORY(fence != NULL, err, "no memory for a path");
    if (hrf_path_exists(fence))
        return hrf_error_set(err, HRF_E_AGAIN,
                             "this attempt was given up ('%s'): nothing more is committed", fence);
    return HRF_OK;
}

enum hrf_status hrf_task_commit(const char *directory, const struct hrf_job_task *task,
                                const void *record, size_t n_bytes, struct hrf_task_status *status,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *record_path = task_file(directory, task->id, "rec");
    HRF_AUTO_FREE char *status_path = task_file(directory, task->id, "json");
    HRF_CHECK_MEMORY(record_path != NULL && status_path != NULL, err, "no memory for a path");
    status->record_sha256[0] = '\0';
    status->record_bytes = 0;
    memcpy(status->task_key, task->identity.task, sizeof status->task_key);
    if (record != NULL) {
        HRF_TRY(hrf_hash_buffer(record, n_bytes, status->record_sha256, err));
        status->record_bytes = (int64_t)n_bytes;
        hrf_crash_point("task.commit.before_record");
        HRF_TRY(hrf_file_write_atomic(record_path, record, n_bytes, err));
    }
    HRF_TRY(check_fence(directory, err));
    HRF_AUTO_JSON value = hrf_fields_json(HRF_FIELDS(status_fields), status, STATUS_VERSION);
    HRF_CHECK_MEMORY(value != NULL, err, "no memory to write '%s'", status_path);
    hrf_crash_point("task.commit.before_status");
    HRF_TRY(hrf_json_write_file(status_path, value, err));
    hrf_crash_point("task.commit.after_status");
    return HRF_OK;
}

static enum hrf_status read_record(const char *path, const struct hrf_task_status *status,
                                   char **record, size_t *n_bytes, struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    HRF_TRY(hrf_file_read(path, (size_t)1 << 32, &bytes, &n, err));
    HRF_TRY(hrf_hash_buffer(bytes, n, sha256, err));
    if ((int64_t)n != status->record_bytes || strcmp(sha256, status->record_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is not what its status names (%zu bytes, %.12s...)", path, n,
                             sha256);
    *record = bytes;
    *n_bytes = n;
    bytes = NULL;
    return HRF_OK;
}

enum hrf_status hrf_task_collect(const char *directory, const char *task_id,
                                 struct hrf_task_status *status, char **record, size_t *n_bytes,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *record_path = task_file(directory, task_id, "rec");
    HRF_AUTO_FREE char *status_path = task_file(directory, task_id, "json");
    HRF_AUTO_JSON value = NULL;
    struct hrf_task_status found = { .outcome = HRF_TASK_DONE };
    HRF_CHECK_MEMORY(record_path != NULL && status_path != NULL, err, "no memory for a path");
    if (!hrf_path_exists(status_path))
        return hrf_error_set(err, HRF_E_AGAIN, "task %s has not ended", task_id);
    HRF_TRY(hrf_json_read_file(status_path, &value, err));
    HRF_TRY(hrf_fields_check_version(value, STATUS_VERSION, "status of a task", status_path, err));
    enum hrf_status result = hrf_fields_read(HRF_FIELDS(status_fields), value, status_path, &found,
                                             err);
    *record = NULL;
    *n_bytes = 0;
    if (result == HRF_OK && found.record_sha256[0] != '\0')
        result = read_record(record_path, &found, record, n_bytes, err);
    if (result != HRF_OK)
        hrf_task_status_release(&found);
    else
        *status = found;
    return result;
}

char *hrf_task_embeddings_path(const char *directory, const char *task_id)
{
    return task_file(directory, task_id, "emb");
}

char *hrf_task_part_path(const char *directory, const char *task_id)
{
    return task_file(directory, task_id, "part");
}

void hrf_task_progress_write(const char *directory, const char *task_id, int64_t done,
                             int64_t total)
{
    HRF_AUTO_FREE char *path = task_file(directory, task_id, "progress");
    char line[64];
    int n = snprintf(line, sizeof line, "%lld %lld\n", (long long)done, (long long)total);
    HRF_AUTO_CLOSE int fd = path != NULL
                                ? open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)
                                : -1;
    if (fd < 0)
        return;
    ssize_t ignored = pwrite(fd, line, (size_t)n, 0);
    (void)ignored; /* only a hint: without it, a reader shows no progress */
}

bool hrf_task_progress_read(const char *directory, const char *task_id, int64_t *done,
                            int64_t *total)
{
    HRF_AUTO_FREE char *path = task_file(directory, task_id, "progress");
    HRF_AUTO_CLOSE int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char line[64], *end;
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    if (n <= 0)
        return false;
    line[n] = '\0';
    int64_t first = strtoll(line, &end, 10);
    if (end == line || *end != ' ')
        return false;
    *done = first;
    *total = strtoll(end + 1, NULL, 10);
    return true;
}
