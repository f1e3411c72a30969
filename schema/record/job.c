#include "schema/record/job.h"

#include "base/crash.h"
#include "base/hash.h"
#include "base/path.h"
#include "schema/record/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPEC_VERSION = 1, STATUS_VERSION = 1 };

static void release_task(struct hrf_job_task *task)
{
    hrf_free(task->id);
    hrf_free(task->slide_name);
    hrf_free(task->slide_path);
    hrf_free(task->tile_plan);
    hrf_free(task->partial);
}

const char *hrf_job_kind_name(enum hrf_job_kind kind)
{
    static const char *const names[] = { "tile", "infer", "calibrate" };
    return names[kind];
}

void hrf_job_spec_destroy(struct hrf_job_spec *spec)
{
    if (spec == NULL)
        return;
    for (size_t i = 0; i < spec->n_tasks; i++)
        release_task(&spec->tasks[i]);
    hrf_free(spec->tasks);
    hrf_free(spec->run_id);
    hrf_free(spec->job_id);
    hrf_free(spec->tiler.mode);
    hrf_free(spec->tiler.tissue_method);
    hrf_free(spec->engine.model_file);
    hrf_free(spec->engine.model_sha256);
    hrf_free(spec->engine.scales);
    hrf_free(spec->engine.layout);
    for (size_t i = 0; i < spec->n_wrap; i++)
        hrf_free(spec->wrap[i]);
    hrf_free(spec->wrap);
    hrf_free(spec->engine.precision);
    hrf_free(spec->engine.device);
    hrf_free(spec);
}

static json_t *tiler_json(const struct hrf_job_tiler *tiler)
{
    return json_pack("{sosIsIsosososI}", "mode", hrf_json_bytes(tiler->mode), "patch_size",
                     (json_int_t)tiler->patch_size, "patch_stride", (json_int_t)tiler->patch_stride,
                     "patch_mpp", hrf_json_number(tiler->patch_mpp), "tissue_method",
                     hrf_json_bytes(tiler->tissue_method), "min_tissue",
                     hrf_json_number(tiler->min_tissue), "min_patches",
                     (json_int_t)tiler->min_patches);
}

static json_t *triple_json(const double values[3])
{
    return json_pack("[ooo]", hrf_json_number(values[0]), hrf_json_number(values[1]),
                     hrf_json_number(values[2]));
}

static json_t *engine_json(const struct hrf_job_engine *engine)
{
    json_t *json = json_pack(
        "{sosososIsososososIsIsIsI}", "scales", hrf_json_bytes(engine->scales), "model_file",
        hrf_json_bytes(engine->model_file), "model_sha256", hrf_json_bytes(engine->model_sha256),
        "n_classes", (json_int_t)engine->n_classes, "mean", triple_json(engine->mean), "std",
        triple_json(engine->std), "precision", hrf_json_bytes(engine->precision), "device",
        hrf_json_bytes(engine->device), "batch", (json_int_t)engine->batch, "memory_bytes",
        (json_int_t)engine->memory_bytes, "n_threads", (json_int_t)engine->n_threads, "n_ranks",
        (json_int_t)engine->n_ranks);
    json_object_set_new(json, "max_memory_bytes", json_integer(engine->max_memory_bytes));
    json_object_set_new(json, "max_operations", hrf_json_number(engine->max_operations));
    json_object_set_new(json, "class_map", json_boolean(engine->class_map));
    json_object_set_new(json, "layout", hrf_json_bytes(engine->layout));
    return json;
}

static json_t *task_json(const struct hrf_job_task *task)
{
    return json_pack(
        "{sossssssso sososososIsIso}", "id", hrf_json_bytes(task->id), "key", task->identity.task,
        "slide_fingerprint", task->identity.slide, "tile_plan_hash", task->identity.plan,
        "slide_name", hrf_json_bytes(task->slide_name), "slide_path",
        hrf_json_bytes(task->slide_path), "mpp_override", hrf_json_number(task->mpp_override),
        "mpp_fallback", hrf_json_number(task->mpp_fallback), "tile_plan",
        hrf_json_bytes(task->tile_plan), "first_patch", (json_int_t)task->first_patch, "n_patches",
        (json_int_t)task->n_patches, "partial", hrf_json_bytes(task->partial));
}

static json_t *wrap_json(const struct hrf_job_spec *spec)
{
    json_t *words = json_array();
    for (size_t i = 0; i < spec->n_wrap; i++)
        json_array_append_new(words, hrf_json_bytes(spec->wrap[i]));
    return words;
}

enum hrf_status hrf_job_spec_write(const struct hrf_job_spec *spec, const char *path,
                                   struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_pack("{sisosIssso}", "version", SPEC_VERSION, "run_id",
                                   hrf_json_bytes(spec->run_id), "attempt",
                                   (json_int_t)spec->attempt, "kind", hrf_job_kind_name(spec->kind),
                                   "job_id", hrf_json_bytes(spec->job_id));
    json_t *tasks = json_array();
    bool failed = root == NULL;
    for (size_t i = 0; i < spec->n_tasks; i++)
        failed |= json_array_append_new(tasks, task_json(&spec->tasks[i])) != 0;
    failed |= json_object_set_new(root, "tasks", tasks) != 0;
    failed |= json_object_set_new(root, "wrap", wrap_json(spec)) != 0;
    failed |= (spec->kind == HRF_JOB_TILE
                   ? json_object_set_new(root, "tiler", tiler_json(&spec->tiler))
                   : json_object_set_new(root, "engine", engine_json(&spec->engine))) != 0;
    if (failed)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to write '%s'", path);
    return hrf_json_write_file(path, root, err);
}

static enum hrf_status need(const char *text, const char *key, const char *where,
                            struct hrf_error *err)
{
    return text != NULL ? HRF_OK : hrf_error_set(err, HRF_E_USER, "%s: '%s' is null", where, key);
}

static enum hrf_status get_needed(const json_t *object, const char *key, const char *where,
                                  char **out, struct hrf_error *err)
{
    HRF_TRY(hrf_json_get_bytes(object, key, where, out, err));
    return need(*out, key, where, err);
}

static enum hrf_status read_tiler(const json_t *root, const char *where,
                                  struct hrf_job_tiler *tiler, struct hrf_error *err)
{
    json_t *o;
    HRF_TRY(hrf_json_get_object(root, "tiler", where, &o, err));
    HRF_TRY(get_needed(o, "mode", where, &tiler->mode, err));
    HRF_TRY(hrf_json_get_int(o, "patch_size", where, &tiler->patch_size, err));
    HRF_TRY(hrf_json_get_int(o, "patch_stride", where, &tiler->patch_stride, err));
    HRF_TRY(hrf_json_get_number(o, "patch_mpp", where, &tiler->patch_mpp, err));
    HRF_TRY(get_needed(o, "tissue_method", where, &tiler->tissue_method, err));
    HRF_TRY(hrf_json_get_number(o, "min_tissue", where, &tiler->min_tissue, err));
    return hrf_json_get_int(o, "min_patches", where, &tiler->min_patches, err);
}

static enum hrf_status read_triple(const json_t *object, const char *key, const char *where,
                                   double out[3], struct hrf_error *err)
{
    json_t *array;
    HRF_TRY(hrf_json_get_array(object, key, where, &array, err));
    for (size_t i = 0; i < 3; i++) {
        if (json_array_size(array) != 3 || !json_is_number(json_array_get(array, i)))
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' must be three numbers", where, key);
        out[i] = json_number_value(json_array_get(array, i));
    }
    return HRF_OK;
}

static enum hrf_status read_engine(const json_t *root, const char *where,
                                   struct hrf_job_engine *engine, struct hrf_error *err)
{
    json_t *o;
    HRF_TRY(hrf_json_get_object(root, "engine", where, &o, err));
    HRF_TRY(get_needed(o, "model_file", where, &engine->model_file, err));
    HRF_TRY(get_needed(o, "model_sha256", where, &engine->model_sha256, err));
    HRF_TRY(hrf_json_get_int(o, "n_classes", where, &engine->n_classes, err));
    HRF_TRY(read_triple(o, "mean", where, engine->mean, err));
    HRF_TRY(read_triple(o, "std", where, engine->std, err));
    HRF_TRY(hrf_json_get_bytes(o, "scales", where, &engine->scales, err));
    HRF_TRY(get_needed(o, "precision", where, &engine->precision, err));
    HRF_TRY(get_needed(o, "device", where, &engine->device, err));
    HRF_TRY(hrf_json_get_int(o, "batch", where, &engine->batch, err));
    HRF_TRY(hrf_json_get_int(o, "memory_bytes", where, &engine->memory_bytes, err));
    HRF_TRY(hrf_json_get_int(o, "n_threads", where, &engine->n_threads, err));
    HRF_TRY(hrf_json_get_bool(o, "class_map", where, &engine->class_map, err));
    HRF_TRY(hrf_json_get_bytes(o, "layout", where, &engine->layout, err));
    if (json_object_get(o, "n_ranks") != NULL)
        HRF_TRY(hrf_json_get_int(o, "n_ranks", where, &engine->n_ranks, err));
    if (json_object_get(o, "max_memory_bytes") != NULL)
        HRF_TRY(hrf_json_get_int(o, "max_memory_bytes", where, &engine->max_memory_bytes, err));
    if (json_object_get(o, "max_operations") != NULL)
        HRF_TRY(hrf_json_get_number(o, "max_operations", where, &engine->max_operations, err));
    if (engine->max_memory_bytes < 0 || !(engine->max_operations >= 0) || engine->n_classes < 1 ||
        engine->n_classes > 1 << 16 || engine->batch < 1 || engine->batch > 1 << 16 ||
        engine->n_threads < 0 || engine->n_threads > 4096 || engine->n_ranks < 0 ||
        engine->n_ranks > 1 << 20)
        return hrf_error_set(err, HRF_E_USER, "%s: 'engine' holds a number out of range", where);
    return HRF_OK;
}

/* Ids become file names: nothing that leaves the directory or hides in it. */
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
    HRF_TRY(get_needed(o, "id", where, &task->id, err));
    HRF_TRY(check_id(task->id, where, err));
    HRF_TRY(hrf_json_get_hash(o, "key", where, task->identity.task, err));
    if (json_object_get(o, "slide_fingerprint") != NULL) { /* older specs have neither */
        HRF_TRY(hrf_json_get_hash(o, "slide_fingerprint", where, task->identity.slide, err));
        HRF_TRY(hrf_json_get_hash(o, "tile_plan_hash", where, task->identity.plan, err));
    }
    HRF_TRY(get_needed(o, "slide_name", where, &task->slide_name, err));
    HRF_TRY(get_needed(o, "slide_path", where, &task->slide_path, err));
    HRF_TRY(hrf_json_get_number(o, "mpp_override", where, &task->mpp_override, err));
    HRF_TRY(hrf_json_get_number(o, "mpp_fallback", where, &task->mpp_fallback, err));
    HRF_TRY(hrf_json_get_bytes(o, "tile_plan", where, &task->tile_plan, err));
    if (json_object_get(o, "partial") != NULL)
        HRF_TRY(hrf_json_get_bytes(o, "partial", where, &task->partial, err));
    HRF_TRY(hrf_json_get_int(o, "first_patch", where, &task->first_patch, err));
    HRF_TRY(hrf_json_get_int(o, "n_patches", where, &task->n_patches, err));
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
    if (spec->tasks == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "%s: no memory for %zu tasks", where, n);
    for (size_t i = 0; i < n; i++) {
        spec->n_tasks = i + 1; /* zeroed, so that destroy() takes a half-read one */
        HRF_TRY(read_task(json_array_get(array, i), where, &spec->tasks[i], err));
        if (spec->kind != HRF_JOB_TILE)
            HRF_TRY(need(spec->tasks[i].tile_plan, "tile_plan", where, err));
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
    if (spec->wrap == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "%s: no memory for a command line", where);
    for (; spec->n_wrap < json_array_size(words); spec->n_wrap++) {
        HRF_AUTO_JSON word = json_pack("{sO}", "word", json_array_get(words, spec->n_wrap));
        HRF_TRY(get_needed(word, "word", where, &spec->wrap[spec->n_wrap], err));
    }
    return HRF_OK;
}

static enum hrf_status read_spec(const json_t *root, const char *where, struct hrf_job_spec *spec,
                                 struct hrf_error *err)
{
    int64_t version;
    const char *kind;
    HRF_TRY(hrf_json_get_int(root, "version", where, &version, err));
    if (version != SPEC_VERSION)
        return hrf_error_set(err, HRF_E_USER, "%s: spec version %lld, this build reads %d", where,
                             (long long)version, SPEC_VERSION);
    HRF_TRY(get_needed(root, "run_id", where, &spec->run_id, err));
    HRF_TRY(get_needed(root, "job_id", where, &spec->job_id, err));
    HRF_TRY(check_id(spec->job_id, where, err));
    HRF_TRY(hrf_json_get_int(root, "attempt", where, &spec->attempt, err));
    HRF_TRY(hrf_json_get_text(root, "kind", where, &kind, err));
    for (spec->kind = HRF_JOB_TILE; strcmp(kind, hrf_job_kind_name(spec->kind)) != 0; spec->kind++)
        if (spec->kind == HRF_JOB_CALIBRATE)
            return hrf_error_set(err, HRF_E_USER, "%s: unknown job kind '%s'", where, kind);
    HRF_TRY(spec->kind == HRF_JOB_TILE ? read_tiler(root, where, &spec->tiler, err)
                                       : read_engine(root, where, &spec->engine, err));
    HRF_TRY(read_wrap(root, where, spec, err));
    return read_tasks(root, where, spec, err);
}

enum hrf_status hrf_job_spec_read(const char *path, struct hrf_job_spec **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    if (spec == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the spec '%s'", path);
    HRF_TRY(hrf_json_read_file(path, &root, err));
    HRF_TRY(read_spec(root, path, spec, err));
    *out = spec;
    spec = NULL;
    return HRF_OK;
}

void hrf_task_status_release(struct hrf_task_status *status)
{
    hrf_free(status->reason);
    *status = (struct hrf_task_status){ .outcome = HRF_TASK_DONE };
}

static const char *const outcome_names[] = { "done", "no-tissue", "failed" };

/* DIRECTORY/ID.SUFFIX, NULL when memory ran out. */
static char *task_file(const char *directory, const char *task_id, const char *suffix)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", task_id, suffix);
    return name != NULL ? hrf_path_join(directory, name) : NULL;
}

static enum hrf_status check_fence(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *fence = hrf_path_join(directory, "revoked");
    if (fence == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
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
    if (record_path == NULL || status_path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
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
    HRF_AUTO_JSON value = json_pack(
        "{sisssososssIsoss}", "version", STATUS_VERSION, "outcome", outcome_names[status->outcome],
        "retryable", json_boolean(status->retryable), "reason", hrf_json_bytes(status->reason),
        "record_sha256", status->record_sha256, "record_bytes", (json_int_t)status->record_bytes,
        "seconds", hrf_json_number(status->seconds), "task_key", status->task_key);
    if (value == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to write '%s'", status_path);
    hrf_crash_point("task.commit.before_status");
    HRF_TRY(hrf_json_write_file(status_path, value, err));
    hrf_crash_point("task.commit.after_status");
    return HRF_OK;
}

static enum hrf_status parse_status(const json_t *value, const char *where,
                                    struct hrf_task_status *status, struct hrf_error *err)
{
    const char *outcome;
    int64_t version;
    HRF_TRY(hrf_json_get_int(value, "version", where, &version, err));
    if (version != STATUS_VERSION)
        return hrf_error_set(err, HRF_E_USER, "%s: status version %lld, this build reads %d", where,
                             (long long)version, STATUS_VERSION);
    HRF_TRY(hrf_json_get_text(value, "outcome", where, &outcome, err));
    HRF_TRY(hrf_json_get_bool(value, "retryable", where, &status->retryable, err));
    HRF_TRY(hrf_json_get_bytes(value, "reason", where, &status->reason, err));
    HRF_TRY(hrf_json_get_hash(value, "record_sha256", where, status->record_sha256, err));
    if (json_object_get(value, "task_key") != NULL)
        HRF_TRY(hrf_json_get_hash(value, "task_key", where, status->task_key, err));
    HRF_TRY(hrf_json_get_int(value, "record_bytes", where, &status->record_bytes, err));
    HRF_TRY(hrf_json_get_number(value, "seconds", where, &status->seconds, err));
    for (int i = 0; i < 3; i++) {
        if (strcmp(outcome, outcome_names[i]) == 0) {
            status->outcome = (enum hrf_task_outcome)i;
            return HRF_OK;
        }
    }
    return hrf_error_set(err, HRF_E_USER, "%s: unknown outcome '%s'", where, outcome);
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
    if (record_path == NULL || status_path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(status_path))
        return hrf_error_set(err, HRF_E_AGAIN, "task %s has not ended", task_id);
    HRF_TRY(hrf_json_read_file(status_path, &value, err));
    enum hrf_status result = parse_status(value, status_path, &found, err);
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
    (void)ignored; /* a hint: a reader that sees nothing shows nothing */
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
