/* job.c - spec.json, and the status, record and progress files of a task (job.h). */
#include "schema/record/job.h"

#include "base/crash.h"
#include "base/error_record.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "schema/record/container.h"
#include "schema/settings/precision.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const job_kinds[] = { "tile",  "infer",         "calibrate", "head",
                                         "train", "train-network", NULL };

const char *hrf_job_kind_name(enum hrf_job_kind kind)
{
    return job_kinds[kind];
}

const char *hrf_job_network_name(const struct hrf_job_network *network)
{
    return network->stain_jitter > 0 ? HRF_JITTER : hrf_precision_name(network->precision);
}

static const struct hrf_field network_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_job_network, #name, name, HRF_FIELD_##type)
    HRF_FIELD_ENUM(struct hrf_job_network, "precision", precision, hrf_precision_names),
    FIELD(scales, TEXT),
    FIELD(stain_jitter, REAL),
    FIELD(jitter_seed, INT),
#undef FIELD
};

static const struct hrf_field task_fields[] = {
#define FIELD(key, member, type) HRF_FIELD(struct hrf_job_task, key, member, HRF_FIELD_##type)
    FIELD("id", id, NEEDED),
    FIELD("key", identity.task, HASH),
    FIELD("slide", identity.slide, HASH),
    FIELD("tile_plan_hash", identity.plan, HASH),
    FIELD("slide_name", slide_name, NEEDED),
    FIELD("slide_path", slide_path, NEEDED),
    FIELD("mpp_override", mpp_override, REAL),
    FIELD("mpp_fallback", mpp_fallback, REAL),
    FIELD("tile_plan", tile_plan, TEXT),
    FIELD("partial", partial, TEXT),
    FIELD("first_patch", first_patch, INT),
    FIELD("n_patches", n_patches, INT),
    FIELD("measures_layers", measures_layers, BOOL),
    FIELD("features", bag.features, TEXT),
    FIELD("features_sha256", bag.features_sha256, TEXT),
    FIELD("head", bag.head, TEXT),
    FIELD("head_sha256", bag.head_sha256, TEXT),
    FIELD("classes", bag.classes, TEXT),
    FIELD("mixed", bag.mixed, BOOL),
    FIELD("any_precision", bag.any_precision, BOOL),
    FIELD("recipe", training.recipe, TEXT),
    FIELD("fold", training.fold, INT),
    FIELD("seed", training.seed, INT),
    FIELD("network", network, INT),
#undef FIELD
};

static const char *const name_forms[] = { "keys", "options", NULL };
static const struct hrf_field spec_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_job_spec, #name, name, HRF_FIELD_##type)
    FIELD(run_id, NEEDED),
    FIELD(job_id, NEEDED),
    FIELD(attempt, INT),
    HRF_FIELD_ENUM(struct hrf_job_spec, "kind", kind, job_kinds),
    HRF_FIELD_ENUM(struct hrf_job_spec, "names", names, name_forms),
    FIELD(model_sha256, TEXT),
    FIELD(tissue_sha256, TEXT),
    FIELD(n_threads, INT),
    FIELD(n_ranks, INT),
    HRF_FIELD_COUNTED(struct hrf_job_spec, "wrap", wrap, n_wrap, HRF_FIELD_TEXTS),
    HRF_FIELD_STRUCTS(struct hrf_job_spec, "networks", networks, n_networks, HRF_FIELD_LIST,
                      network_fields),
    HRF_FIELD_STRUCTS(struct hrf_job_spec, "tasks", tasks, n_tasks, HRF_FIELD_LIST, task_fields),
#undef FIELD
};

void hrf_job_spec_destroy(struct hrf_job_spec *spec)
{
    if (spec == NULL)
        return;
    hrf_fields_release(HRF_FIELDS(spec_fields), spec);
    hrf_workflow_destroy(spec->settings);
    hrf_free(spec->layout);
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

enum hrf_status hrf_job_spec_write(const struct hrf_job_spec *spec,
                                   const struct hrf_workflow *settings, const char *path,
                                   struct hrf_error *err)
{
    struct hrf_job_spec named = *spec;
    named.names = hrf_settings_names();
    HRF_AUTO_JSON root = hrf_fields_document(HRF_FIELDS(spec_fields), &named);
    hrf_json_put(root, "settings", hrf_settings_json(settings));
    HRF_TRY(hrf_fields_seal(root, err));
    return hrf_json_write_file(path, root, err);
}

int64_t hrf_job_batch(int64_t batch, int64_t n_patches)
{
    const int64_t step = batch < 8 ? 1 : batch / 8;
    const int64_t n_batches = n_patches > 0 ? (n_patches + batch - 1) / batch : 1;
    const int64_t each = ((n_patches + n_batches - 1) / n_batches + step - 1) / step * step;
    return each < 1 || each > batch ? batch : each;
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

static enum hrf_status check_settings(const struct hrf_job_spec *spec, const char *where,
                                      struct hrf_error *err)
{
    const struct hrf_workflow *w = spec->settings;
    const bool is_scored = spec->kind == HRF_JOB_INFER || spec->kind == HRF_JOB_CALIBRATE;
    const bool by_network = spec->kind == HRF_JOB_TILE && w->tiler.tissue.method == HRF_TISSUE_ONNX;
    if (is_scored && (w->model.file == NULL || spec->model_sha256 == NULL))
        return hrf_error_set(err, HRF_E_USER, "%s: the model or its hash is missing", where);
    if (by_network && (w->tiler.tissue.model == NULL || spec->tissue_sha256 == NULL))
        return hrf_error_set(err, HRF_E_USER, "%s: the tissue network or its hash is missing",
                             where);
    if (is_scored &&
        (hrf_workflow_n_scores(w) < (w->model.output != HRF_OUTPUT_EMBEDDING) ||
         hrf_workflow_n_scores(w) > 1 << 16 || w->model.input.size > w->model.input.resize))
        return hrf_error_set(err, HRF_E_USER, "%s: the settings do not fit each other", where);
    return HRF_OK;
}

static enum hrf_status check_task(const struct hrf_job_spec *spec, const struct hrf_job_task *task,
                                  const char *where, struct hrf_error *err)
{
    const struct hrf_job_bag *bag = &task->bag;
    HRF_TRY(check_id(task->id, where, err));
    if (task->first_patch < 0 || task->n_patches < 0)
        return hrf_error_set(err, HRF_E_USER, "%s: task %s: patches %lld and on, %lld of them",
                             where, task->id, (long long)task->first_patch,
                             (long long)task->n_patches);
    const bool is_training = spec->kind == HRF_JOB_TRAIN || spec->kind == HRF_JOB_TRAIN_NETWORK;
    if (is_training && task->training.recipe == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s: 'recipe' is null", where);
    if (spec->kind != HRF_JOB_TILE && !is_training && task->tile_plan == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s: 'tile_plan' is null", where);
    if (spec->kind == HRF_JOB_HEAD &&
        (bag->features == NULL || bag->features_sha256 == NULL || bag->head == NULL ||
         bag->head_sha256 == NULL || bag->classes == NULL))
        return hrf_error_set(err, HRF_E_USER, "%s: a head task lacks its files", where);
    if (spec->kind != HRF_JOB_TILE &&
        (task->network < 0 || task->network >= (int64_t)spec->n_networks))
        return hrf_error_set(err, HRF_E_USER, "%s: task %s asks for network %lld of %zu", where,
                             task->id, (long long)task->network, spec->n_networks);
    return HRF_OK;
}

static enum hrf_status check_spec(const struct hrf_job_spec *spec, const char *where,
                                  struct hrf_error *err)
{
    HRF_TRY(check_id(spec->job_id, where, err));
    HRF_TRY(check_settings(spec, where, err));
    if (spec->n_threads < 0 || spec->n_threads > 4096 || spec->n_ranks < 0 ||
        spec->n_ranks > 1 << 20)
        return hrf_error_set(err, HRF_E_USER, "%s: %lld ranks of %lld threads", where,
                             (long long)spec->n_ranks, (long long)spec->n_threads);
    if (spec->kind != HRF_JOB_TILE &&
        (spec->n_networks < 1 || spec->n_networks > HRF_JOB_MAX_NETWORKS))
        return hrf_error_set(err, HRF_E_USER, "%s: 'networks' has %zu, not 1 to %d", where,
                             spec->n_networks, HRF_JOB_MAX_NETWORKS);
    for (size_t i = 0; i < spec->n_tasks; i++)
        HRF_TRY(check_task(spec, &spec->tasks[i], where, err));
    return HRF_OK;
}

static enum hrf_status read_spec(const json_t *root, const char *where, struct hrf_job_spec *spec,
                                 struct hrf_error *err)
{
    json_t *settings;
    HRF_TRY(hrf_fields_check_version(root, "job's spec", where, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(spec_fields), root, where, spec, err));
    HRF_TRY(hrf_json_get_object(root, "settings", where, &settings, err));
    HRF_TRY(hrf_settings_from_json(settings, where, &spec->settings, err));
    hrf_settings_name_by(spec->names);
    spec->layout = hrf_workflow_layout(spec->settings);
    return check_spec(spec, where, err);
}

enum hrf_status hrf_job_spec_read(const char *path, struct hrf_job_spec **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_json_read_file(path, &root, &why);
    if (status == HRF_OK)
        status = hrf_fields_unseal(root, path, &why);
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
    FIELD(record_sha256, HASH),
    FIELD(record_bytes, INT),
    FIELD(seconds, REAL),
    FIELD(task_key, HASH),
#undef FIELD
};

void hrf_task_status_release(struct hrf_task_status *status)
{
    hrf_fields_release(HRF_FIELDS(status_fields), status);
    hrf_failure_release(&status->failure);
    *status = (struct hrf_task_status){ .outcome = HRF_TASK_DONE };
}

void hrf_task_status_fail(struct hrf_task_status *status, const struct hrf_job_spec *spec,
                          const struct hrf_job_task *task, const struct hrf_error *error)
{
    const char *const paths[] = { task->slide_path,     spec->settings->model.file,
                                  task->tile_plan,      spec->settings->tiler.tissue.model,
                                  task->bag.features,   task->bag.head,
                                  task->training.recipe };
    status->outcome = HRF_TASK_FAILED;
    hrf_failure_fill(&status->failure, error, paths, sizeof paths / sizeof paths[0]);
}

int hrf_job_worker_end(const char *program, const char *command, const char *spec_path,
                       enum hrf_status status, const struct hrf_error *error)
{
    if (status == HRF_OK)
        return 0;
    HRF_AUTO_RELEASE(hrf_failure) failure = { .lacks = NULL };
    HRF_AUTO(hrf_job_spec) spec = NULL;
    HRF_AUTO_FREE char *directory = hrf_path_directory(spec_path);
    (void)hrf_error_report(program, command, error);
    (void)!hrf_job_spec_read(spec_path, &spec, NULL);
    const struct hrf_workflow *settings = spec != NULL ? spec->settings : NULL;
    const char *const paths[] = { settings != NULL ? settings->model.file : NULL,
                                  settings != NULL ? settings->tiler.tissue.model : NULL };
    hrf_failure_fill(&failure, error, paths, sizeof paths / sizeof paths[0]);
    hrf_failure_write(directory, &failure);
    return hrf_status_row(status)->worker_exit_code;
}

/* DIRECTORY/ID.SUFFIX */
static char *task_file(const char *directory, const char *task_id, const char *suffix)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", task_id, suffix);
    return hrf_path_join(directory, name);
}

bool hrf_task_has_status(const char *directory, const char *task_id)
{
    HRF_AUTO_FREE char *path = task_file(directory, task_id, "json");
    return hrf_path_exists(path);
}

static enum hrf_status check_fence(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *fence = hrf_path_join(directory, "revoked");
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
    HRF_AUTO_JSON value = hrf_fields_document(HRF_FIELDS(status_fields), status);
    hrf_json_put(value, "failure", hrf_failure_json(&status->failure));
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
    if (!hrf_path_exists(status_path))
        return hrf_error_set(err, HRF_E_AGAIN, "task %s has not ended", task_id);
    HRF_TRY(hrf_json_read_file(status_path, &value, err));
    HRF_TRY(hrf_fields_check_version(value, "status of a task", status_path, err));
    enum hrf_status result = hrf_fields_read(HRF_FIELDS(status_fields), value, status_path, &found,
                                             err);
    if (result == HRF_OK)
        result = hrf_failure_from_json(json_object_get(value, "failure"), status_path,
                                       &found.failure, err);
    if (result == HRF_OK && found.outcome == HRF_TASK_FAILED &&
        found.failure.error.status == HRF_OK)
        result = hrf_error_set(err, HRF_E_USER, "%s: the task failed without a reason",
                               status_path);
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
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    ssize_t ignored = pwrite(fd, line, (size_t)n, 0);
    (void)ignored; /* only a hint: without it, a reader shows no progress */
}

bool hrf_task_progress_read(const char *directory, const char *task_id, int64_t *done,
                            int64_t *total)
{
    HRF_AUTO_FREE char *path = task_file(directory, task_id, "progress");
    HRF_AUTO_CLOSE int fd = -1;
    char line[64], *end;
    ssize_t n = hrf_file_open(path, &fd, NULL) == HRF_OK ? read(fd, line, sizeof line - 1) : -1;
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
