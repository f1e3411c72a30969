#include "engine/backend/cuda/plan_cache.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/backend/cuda/cudnn_tune.h"
#include "engine/backend/cuda/plan_set.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT = 6, KEY_ROOM = 1024, MOST_THREADS = 16 };

struct entry {
    char hash[HRF_HASH_HEX]; /* of the key */
    char kind[HRF_HASH_HEX]; /* of what a strip of the image has in common with the whole */
    enum hrf_arithmetic arithmetic;
    struct hrf_cudnn_conv conv;
    struct hrf_cudnn_plan plan;
    bool has_plan;
    double ms, pass_ms; /* as in struct hrf_planned_conv */
};

/* An entry on its way: read, or built and still to be timed. */
struct job {
    char key[KEY_ROOM];
    struct entry *entry;
    struct hrf_cudnn_conv asked;
    bool is_read, is_made_beforehand;
    struct hrf_candidates candidates;
    struct hrf_candidate_times times;
    struct hrf_strbuf lines;
    enum hrf_status status;
};

/* A thread's own; plans may refer to the handle that they were built with, so they stay. */
struct builder {
    cudnnHandle_t cudnn;
    const struct hrf_cudnn_device *properties;
    struct hrf_cudnn_device *own; /* the same, where it is the builder's */
};

struct hrf_plan_cache {
    char *directory; /* NULL: nothing is kept */
    const struct hrf_cuda_device *device;
    cudnnHandle_t cudnn;
    const struct hrf_cudnn_device *properties;
    struct entry **entries; /* each stays where it is: kernels point at its plan */
    size_t n_entries, capacity;
    struct hrf_strbuf lines;         /* on entries that were replaced, and engines that failed */
    struct hrf_plan_set *beforehand; /* NULL: none fits this device */
    int32_t n_read, n_tuned, n_beforehand, n_taken; /* taken: from another rank */
    int32_t n_wrong;                                /* engines that were left out */
    int32_t n_otherwise; /* INT8 engines that were not timed, since they round otherwise */
    double tuning_seconds, tuned_at; /* at: when the last was timed; 0: none was */
    int32_t n_uneven;                /* whose times differ by much from round to round */
    float most_uneven;
    bool cannot_write;
    void (*progress)(void *context); /* NULL: nobody waits */
    void *progress_context;
    struct builder builders[MOST_THREADS]; /* NULL where no thread has needed one yet */
};

void hrf_plan_cache_destroy(struct hrf_plan_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < cache->n_entries; i++) {
        hrf_cudnn_plan_release(&cache->entries[i]->plan);
        hrf_free(cache->entries[i]);
    }
    hrf_free(cache->entries);
    for (int i = 0; i < MOST_THREADS; i++) {
        hrf_cudnn_device_destroy(cache->builders[i].own);
        if (cache->builders[i].cudnn != NULL)
            (void)cudnnDestroy(cache->builders[i].cudnn);
    }
    hrf_plan_set_destroy(cache->beforehand);
    hrf_free(cache->directory);
    hrf_strbuf_release(&cache->lines);
    hrf_free(cache);
}

struct hrf_plan_cache *hrf_plan_cache_create(const char *directory,
                                             const struct hrf_cuda_device *device,
                                             cudnnHandle_t cudnn,
                                             const struct hrf_cudnn_device *properties)
{
    struct hrf_plan_cache *cache = hrf_calloc(1, sizeof *cache);
    cache->lines = (struct hrf_strbuf)HRF_STRBUF_INIT;
    cache->device = device;
    cache->cudnn = cudnn;
    cache->properties = properties;
    cache->directory = hrf_strdup(directory);
    return cache;
}

enum hrf_status hrf_plan_cache_use_sets(struct hrf_plan_cache *cache, const char *directory,
                                        struct hrf_error *err)
{
    return hrf_plan_set_find(directory, cache->properties, &cache->beforehand, &cache->lines, err);
}

void hrf_plan_cache_device(const struct hrf_plan_cache *cache,
                           char text[HRF_PLAN_CACHE_DEVICE_ROOM])
{
    snprintf(text, HRF_PLAN_CACHE_DEVICE_ROOM, "cuDNN %zu; %.160s; sm %d.%d; driver %d",
             cudnnGetVersion(), cache->device->name, cache->device->major, cache->device->minor,
             cache->device->driver);
}

static void write_key(const struct hrf_plan_cache *cache, const struct hrf_cudnn_conv *conv,
                      char key[KEY_ROOM])
{
    char text[KEY_ROOM / 2], device[HRF_PLAN_CACHE_DEVICE_ROOM];
    hrf_cudnn_conv_text(conv, text, sizeof text);
    hrf_plan_cache_device(cache, device);
    snprintf(key, KEY_ROOM, "%d; %s; %s", FORMAT, device, text);
}

/* ---- on disk ---- */

static char *path_of(const struct hrf_plan_cache *cache, const char *hash)
{
    return cache->directory != NULL ? hrf_format("%s/%s.json", cache->directory, hash) : NULL;
}

static enum hrf_status check_sum(const json_t *file, const char *plan, const char *path,
                                 struct hrf_error *err)
{
    char sum[HRF_HASH_HEX];
    const char *stored;
    HRF_TRY(hrf_json_get_text(file, "plan_sha256", path, &stored, err));
    HRF_TRY(hrf_hash_buffer(plan, strlen(plan), sum, err));
    if (strcmp(sum, stored) != 0)
        return hrf_error_set(err, HRF_E_USER, "%s: the plan is not what was written", path);
    return HRF_OK;
}

static enum hrf_status plan_cache_decode(cudnnHandle_t cudnn, const json_t *file, const char *path,
                                         const char *key, struct entry *entry,
                                         struct hrf_error *err)
{
    const char *stored, *plan;
    int64_t in, out, arithmetic;
    HRF_TRY(hrf_json_get_text(file, "key", path, &stored, err));
    HRF_TRY(hrf_json_get_int(file, "in_channels", path, &in, err));
    HRF_TRY(hrf_json_get_int(file, "out_channels", path, &out, err));
    HRF_TRY(hrf_json_get_bool(file, "has_engine", path, &entry->has_plan, err));
    HRF_TRY(hrf_json_get_text(file, "plan", path, &plan, err));
    HRF_TRY(hrf_json_get_int(file, "arithmetic", path, &arithmetic, err));
    HRF_TRY(hrf_json_get_number(file, "ms", path, &entry->ms, err));
    HRF_TRY(hrf_json_get_number(file, "pass_ms", path, &entry->pass_ms, err));
    HRF_TRY(check_sum(file, plan, path, err));
    if (strcmp(stored, key) != 0 || in < entry->conv.x[1] || out < entry->conv.y[1] ||
        arithmetic < 0 || arithmetic >= HRF_N_ARITHMETICS)
        return hrf_error_set(err, HRF_E_USER, "%s: it is of another convolution", path);
    entry->arithmetic = (enum hrf_arithmetic)arithmetic;
    if (!entry->has_plan)
        return HRF_OK;
    hrf_cudnn_conv_widen(&entry->conv, in, out);
    HRF_TRY(hrf_cudnn_plan_parse(cudnn, NULL, plan, &entry->plan, err));
    return hrf_json_get_int(file, "engine", path, &entry->plan.engine, err);
}

/* HRF_OK with has_entry false: there is none. A failure: there is one and it is of no use. */
static enum hrf_status read_entry(const struct hrf_plan_cache *cache, cudnnHandle_t cudnn,
                                  const char *key, struct entry *entry, bool *has_entry,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = path_of(cache, entry->hash);
    HRF_AUTO_JSON file = NULL;
    *has_entry = false;
    if (path == NULL || !hrf_path_exists(path))
        return HRF_OK;
    HRF_TRY(hrf_json_read_file(path, &file, err));
    HRF_TRY(plan_cache_decode(cudnn, file, path, key, entry, err));
    *has_entry = true;
    return HRF_OK;
}

/* Kept for people (tools/gpu-check's part 'sweep'): nothing reads them here. */
static json_t *times_json(const struct hrf_candidate_times *times)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < times->n; i++) {
        json_t *entry = json_object();
        hrf_json_put_int(entry, "engine", times->engines[i]);
        hrf_json_put_number(entry, "ms", times->ms[i] < 0 ? (double)NAN : (double)times->ms[i]);
        hrf_json_put_number(entry, "spread", (double)times->spread[i]);
        hrf_json_add(list, entry);
    }
    return list;
}

static enum hrf_status encode(const char *key, const struct entry *entry,
                              const struct hrf_candidate_times *times, json_t **out,
                              struct hrf_error *err)
{
    HRF_AUTO_FREE char *plan = NULL;
    char sum[HRF_HASH_HEX];
    if (entry->has_plan)
        HRF_TRY(hrf_cudnn_plan_json(&entry->plan, &plan, err));
    const char *text = plan != NULL ? plan : "";
    HRF_TRY(hrf_hash_buffer(text, strlen(text), sum, err));
    *out = json_object();
    hrf_json_put_text(*out, "key", key);
    hrf_json_put_int(*out, "in_channels", entry->conv.x[1]);
    hrf_json_put_int(*out, "out_channels", entry->conv.y[1]);
    hrf_json_put_bool(*out, "has_engine", entry->has_plan);
    hrf_json_put_int(*out, "engine", entry->plan.engine);
    hrf_json_put_int(*out, "arithmetic", entry->arithmetic);
    hrf_json_put_number(*out, "ms", entry->ms);
    hrf_json_put_number(*out, "pass_ms", entry->pass_ms);
    hrf_json_put_text(*out, "plan", text);
    hrf_json_put_text(*out, "plan_sha256", sum);
    hrf_json_put(*out, "candidates", times_json(times));
    return HRF_OK;
}

static enum hrf_status write_entry(const struct hrf_plan_cache *cache, const char *key,
                                   const struct entry *entry,
                                   const struct hrf_candidate_times *times, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = path_of(cache, entry->hash);
    HRF_AUTO_JSON file = NULL;
    HRF_TRY(encode(key, entry, times, &file, err));
    HRF_TRY(hrf_private_directory_open(cache->directory, err));
    return hrf_json_write_file(path, file, err);
}

/* A cache that cannot be written costs time in the next start, no more: one line tells of it. */
static void keep(struct hrf_plan_cache *cache, const char *key, const struct entry *entry,
                 const struct hrf_candidate_times *times)
{
    struct hrf_error err = { .status = HRF_OK };
    if (cache->directory == NULL || write_entry(cache, key, entry, times, &err) == HRF_OK)
        return;
    if (!cache->cannot_write)
        hrf_strbuf_addf(&cache->lines, "tuned plans cannot be kept: %s\n", err.text);
    cache->cannot_write = true;
}

/* ---- looking up ---- */

static void show_progress(const struct hrf_plan_cache *cache)
{
    if (cache->progress != NULL)
        cache->progress(cache->progress_context);
}

static enum hrf_status build_in_a_way(const struct hrf_plan_cache *cache,
                                      const struct builder *builder, enum hrf_cudnn_way way,
                                      struct job *job, int32_t *n_engines, struct hrf_strbuf *why,
                                      struct hrf_error *err)
{
    const int64_t most_workspace = hrf_cudnn_most_workspace(cache->device->memory_bytes);
    const cudnnHandle_t handle = way == HRF_CUDNN_BY_HANDLE ? builder->cudnn : NULL;
    HRF_AUTO_RELEASE(hrf_cudnn_graph) graph = { .graph = NULL };
    HRF_AUTO_RELEASE(hrf_cudnn_engines) engines = { .n_items = 0 };
    job->entry->conv = job->asked;
    enum hrf_status status = hrf_cudnn_conv_choose(&job->entry->conv, handle, builder->properties,
                                                   most_workspace, &graph, &engines, err);
    *n_engines = engines.n_items;
    if (status == HRF_OK && engines.n_items > 0)
        hrf_candidates_build(builder->cudnn, builder->properties, way, &engines, &job->candidates,
                             why);
    return status;
}

/* By the handle first. That there is no engine is no refusal: it is so for the device. */
static enum hrf_status plan_cache_build(const struct hrf_plan_cache *cache,
                                        const struct builder *builder, struct job *job,
                                        struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) why = HRF_STRBUF_INIT;
    enum hrf_status status = HRF_OK;
    bool is_refused = true;
    for (int way = 0; way < HRF_CUDNN_N_WAYS && is_refused; way++) {
        int32_t n_engines = 0;
        hrf_strbuf_clear(&why);
        status = build_in_a_way(cache, builder, (enum hrf_cudnn_way)way, job, &n_engines, &why,
                                err);
        is_refused = status != HRF_OK || (n_engines > 0 && job->candidates.n == 0);
    }
    hrf_strbuf_adds(&job->lines, why.text);
    return status;
}

/* Touches nothing but the job and what is the builder's. */
static enum hrf_status start_job(const struct hrf_plan_cache *cache, const struct builder *builder,
                                 struct job *job, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    show_progress(cache);
    if (read_entry(cache, builder->cudnn, job->key, job->entry, &job->is_read, &why) != HRF_OK) {
        hrf_strbuf_addf(&job->lines, "a tuned plan is made anew: %s\n", why.text);
        hrf_cudnn_plan_release(&job->entry->plan);
        job->entry->conv = job->asked;
        job->entry->has_plan = false;
    }
    if (!job->is_read && cache->beforehand != NULL)
        job->is_made_beforehand = hrf_plan_set_get(cache->beforehand, builder->cudnn,
                                                   builder->properties, &job->entry->conv,
                                                   &job->candidates, &job->lines);
    return job->is_read || job->is_made_beforehand ? HRF_OK
                                                   : plan_cache_build(cache, builder, job, err);
}

/* A strip that rounds otherwise than the whole image gives other bytes in places. */
static void compare_arithmetics(struct hrf_plan_cache *cache, const struct entry *entry)
{
    for (size_t i = 0; i < cache->n_entries && entry->conv.type == HRF_S8; i++) {
        const struct entry *other = cache->entries[i];
        if (strcmp(other->kind, entry->kind) != 0 || other->arithmetic == entry->arithmetic)
            continue;
        hrf_strbuf_addf(&cache->lines,
                        "INT8 may differ by a step between layouts: a convolution is %s at "
                        "%" PRId64 " x %" PRId64 " pixels and %s at %" PRId64 " x %" PRId64 "\n",
                        hrf_arithmetic_text(entry->arithmetic), entry->conv.y[3], entry->conv.y[2],
                        hrf_arithmetic_text(other->arithmetic), other->conv.y[3], other->conv.y[2]);
        return;
    }
}

/* Takes the job's entry over. */
static void add_entry(struct hrf_plan_cache *cache, struct job *job)
{
    HRF_RESERVE(cache->entries, cache->capacity, cache->n_entries + 1);
    compare_arithmetics(cache, job->entry);
    cache->entries[cache->n_entries++] = job->entry;
    job->entry = NULL;
}

/* A GPU that idles lowers its clock. */
static void keep_warm(const struct hrf_plan_cache *cache)
{
    const double pause = 0.05; /* s */
    if (cache->tuned_at == 0 || hrf_clock_seconds() - cache->tuned_at > pause)
        hrf_tune_warm_up(cache->device);
}

static void note_spread(struct hrf_plan_cache *cache, const struct hrf_candidate_times *times)
{
    const float much = 0.05f;
    cache->tuned_at = hrf_clock_seconds();
    if (times->taken_ms < 0 || times->taken_spread <= much)
        return;
    cache->n_uneven++;
    if (times->taken_spread > cache->most_uneven)
        cache->most_uneven = times->taken_spread;
}

/* Times what was built, keeps the best and takes the entry over. */
static void end_job(struct hrf_plan_cache *cache, struct job *job)
{
    struct entry *entry = job->entry;
    show_progress(cache);
    cache->n_read += job->is_read;
    cache->n_tuned += !job->is_read;
    cache->n_beforehand += job->is_made_beforehand;
    const bool is_tried = job->candidates.n > 0;
    if (is_tried)
        keep_warm(cache);
    if (is_tried)
        entry->has_plan = hrf_tune_pick(cache->device, cache->cudnn, &entry->conv, &job->candidates,
                                        &entry->plan, &job->times, &job->lines);
    if (is_tried)
        entry->arithmetic = entry->has_plan ? job->times.arithmetic : HRF_AS_WRITTEN;
    entry->ms = is_tried ? (double)job->times.taken_ms : entry->ms;
    entry->pass_ms = is_tried ? (double)job->times.pass_ms : entry->pass_ms;
    if (is_tried)
        note_spread(cache, &job->times);
    cache->n_otherwise += job->times.n_otherwise;
    cache->n_wrong += job->times.n_wrong;
    hrf_strbuf_adds(&cache->lines, job->lines.text);
    if (!entry->has_plan)
        entry->conv = job->asked;
    /* Whether one of the engines is right is asked again in the next start. */
    if (!job->is_read && (entry->has_plan || !is_tried))
        keep(cache, job->key, entry, &job->times);
    add_entry(cache, job);
}

static void release_job(struct job *job)
{
    hrf_candidates_release(&job->candidates);
    hrf_strbuf_release(&job->lines);
    if (job->entry != NULL)
        hrf_cudnn_plan_release(&job->entry->plan);
    hrf_free(job->entry);
}

static enum hrf_status init_job(const struct hrf_plan_cache *cache,
                                const struct hrf_cudnn_conv *conv, struct job *job,
                                struct hrf_error *err)
{
    const struct hrf_cudnn_conv kind = hrf_cudnn_conv_kind(conv);
    char key[KEY_ROOM];
    *job = (struct job){ .lines = HRF_STRBUF_INIT };
    write_key(cache, conv, job->key);
    job->entry = hrf_calloc(1, sizeof *job->entry);
    job->entry->conv = job->asked = *conv;
    job->entry->plan.engine = -1;
    job->entry->ms = job->entry->pass_ms = -1;
    HRF_TRY(hrf_hash_buffer(job->key, strlen(job->key), job->entry->hash, err));
    write_key(cache, &kind, key);
    return hrf_hash_buffer(key, strlen(key), job->entry->kind, err);
}

static const struct entry *plan_cache_find(const struct hrf_plan_cache *cache, const char *hash)
{
    for (size_t i = 0; i < cache->n_entries; i++)
        if (strcmp(cache->entries[i]->hash, hash) == 0)
            return cache->entries[i];
    return NULL;
}

static void give(const struct entry *entry, struct hrf_planned_conv *out)
{
    *out = (struct hrf_planned_conv){ .conv = entry->conv,
                                      .plan = entry->has_plan ? &entry->plan : NULL,
                                      .arithmetic = entry->arithmetic,
                                      .ms = entry->ms,
                                      .pass_ms = entry->pass_ms };
}

enum hrf_status hrf_plan_cache_get(struct hrf_plan_cache *cache, const struct hrf_cudnn_conv *conv,
                                   struct hrf_planned_conv *out, struct hrf_error *err)
{
    const struct builder builder = { .cudnn = cache->cudnn, .properties = cache->properties };
    struct job job;
    const double start = hrf_clock_seconds();
    enum hrf_status status = init_job(cache, conv, &job, err);
    const struct entry *known = status == HRF_OK ? plan_cache_find(cache, job.entry->hash) : NULL;
    if (known != NULL) {
        give(known, out);
        release_job(&job);
        return HRF_OK;
    }
    const struct entry *entry = job.entry;
    if (status == HRF_OK)
        status = start_job(cache, &builder, &job, err);
    if (status == HRF_OK)
        end_job(cache, &job);
    if (status == HRF_OK)
        give(entry, out);
    if (!job.is_read)
        cache->tuning_seconds += hrf_clock_seconds() - start;
    release_job(&job);
    return status;
}

/* ---- many at once ---- */

static enum hrf_status make_builder(const struct hrf_plan_cache *cache, struct builder *builder,
                                    struct hrf_error *err)
{
    HRF_TRY(hrf_cuda_device_enter(cache->device, err));
    if (builder->cudnn == NULL)
        HRF_TRY_CUDNN(cudnnCreate(&builder->cudnn), "starting it");
    if (builder->own == NULL)
        HRF_TRY(hrf_cudnn_device_of(builder->cudnn, &builder->own, err));
    builder->properties = builder->own;
    return HRF_OK;
}

/* Every n_threads-th job from `first` on. */
struct crew {
    struct hrf_plan_cache *cache;
    struct job *jobs;
    int32_t n, n_threads, first;
};

static void *start_some(void *context)
{
    const struct crew *c = context;
    struct builder *builder = &c->cache->builders[c->first];
    const enum hrf_status ready = make_builder(c->cache, builder, NULL);
    for (int32_t i = c->first; i < c->n; i += c->n_threads)
        c->jobs[i].status = ready == HRF_OK ? start_job(c->cache, builder, &c->jobs[i], NULL)
                                            : ready;
    return NULL;
}

/* Threads that end with the work: a pool's would stay about. */
static void start_all(struct hrf_plan_cache *cache, struct job *jobs, int32_t n, int32_t n_threads)
{
    struct crew crews[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    bool runs[MOST_THREADS] = { false };
    for (int32_t t = 0; t < n_threads; t++) {
        crews[t] = (struct crew){ cache, jobs, n, n_threads, t };
        runs[t] = pthread_create(&threads[t], NULL, start_some, &crews[t]) == 0;
        if (!runs[t])
            (void)start_some(&crews[t]);
    }
    for (int32_t t = 0; t < n_threads; t++)
        if (runs[t])
            (void)pthread_join(threads[t], NULL);
}

/* The convolutions that are not known yet, each once. */
static enum hrf_status find_new(const struct hrf_plan_cache *cache,
                                const struct hrf_cudnn_conv *convs, int32_t n, struct job *jobs,
                                int32_t *n_jobs, struct hrf_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        struct job *job = &jobs[*n_jobs];
        const enum hrf_status status = init_job(cache, &convs[i], job, err);
        bool is_known = status != HRF_OK || plan_cache_find(cache, job->entry->hash) != NULL;
        for (int32_t k = 0; k < *n_jobs && !is_known; k++)
            is_known = strcmp(jobs[k].entry->hash, job->entry->hash) == 0;
        if (is_known)
            release_job(job);
        else
            ++*n_jobs;
        HRF_TRY(status);
    }
    return HRF_OK;
}

enum hrf_status hrf_plan_cache_prepare(struct hrf_plan_cache *cache,
                                       const struct hrf_cudnn_conv *convs, int32_t n,
                                       int32_t n_threads, struct hrf_error *err)
{
    int32_t n_jobs = 0;
    const double start = hrf_clock_seconds();
    HRF_AUTO_FREE struct job *jobs = hrf_calloc((size_t)n + 1, sizeof *jobs);
    enum hrf_status status = find_new(cache, convs, n, jobs, &n_jobs, err);
    if (n_threads > MOST_THREADS)
        n_threads = MOST_THREADS;
    if (n_threads > n_jobs)
        n_threads = n_jobs;
    if (status == HRF_OK && n_threads > 1)
        start_all(cache, jobs, n_jobs, n_threads);
    for (int32_t i = 0; i < n_jobs; i++) {
        if (status == HRF_OK && n_threads > 1 && jobs[i].status == HRF_OK)
            end_job(cache, &jobs[i]);
        release_job(&jobs[i]);
    }
    if (n_threads > 1)
        cache->tuning_seconds += hrf_clock_seconds() - start;
    return status;
}

/* ---- of several ranks ---- */

enum hrf_status hrf_plan_cache_export(struct hrf_plan_cache *cache,
                                      const struct hrf_cudnn_conv *conv, json_t **out,
                                      struct hrf_error *err)
{
    const struct hrf_candidate_times times = { .n = 0 };
    struct hrf_planned_conv planned;
    struct job job;
    HRF_TRY(hrf_plan_cache_get(cache, conv, &planned, err));
    enum hrf_status status = init_job(cache, conv, &job, err);
    const struct entry *known = status == HRF_OK ? plan_cache_find(cache, job.entry->hash) : NULL;
    if (known != NULL)
        status = encode(job.key, known, &times, out, err);
    release_job(&job);
    return status;
}

enum hrf_status hrf_plan_cache_import(struct hrf_plan_cache *cache,
                                      const struct hrf_cudnn_conv *conv, const json_t *entry,
                                      const char *where, struct hrf_error *err)
{
    struct job job;
    enum hrf_status status = init_job(cache, conv, &job, err);
    if (status == HRF_OK && plan_cache_find(cache, job.entry->hash) == NULL) {
        status = plan_cache_decode(cache->cudnn, entry, where, job.key, job.entry, err);
        if (status == HRF_OK) {
            cache->n_taken++;
            add_entry(cache, &job);
        }
    }
    release_job(&job);
    return status;
}

void hrf_plan_cache_show_progress(struct hrf_plan_cache *cache, void (*progress)(void *context),
                                  void *context)
{
    cache->progress = progress;
    cache->progress_context = context;
}

void hrf_plan_cache_note(struct hrf_plan_cache *cache, const char *lines)
{
    hrf_strbuf_adds(&cache->lines, lines);
}

int32_t hrf_plan_cache_n_wrong(const struct hrf_plan_cache *cache)
{
    return cache->n_wrong;
}

void hrf_plan_cache_notes(struct hrf_plan_cache *cache, struct hrf_strbuf *notes)
{
    hrf_strbuf_adds(notes, cache->lines.text);
    hrf_strbuf_clear(&cache->lines);
    if (cache->n_tuned > 0)
        hrf_strbuf_addf(notes,
                        "%" PRId32 " convolutions tuned in %.1f s (%" PRId32
                        " by plans made beforehand), %" PRId32 " read; plans are kept in %s\n",
                        cache->n_tuned, cache->tuning_seconds, cache->n_beforehand, cache->n_read,
                        cache->directory != NULL ? cache->directory : "memory");
    if (cache->n_uneven > 0)
        hrf_strbuf_addf(notes,
                        "%" PRId32 " of the engines that were taken needed over 5 %% longer in "
                        "some rounds than in others, %.0f %% at most: the GPU is shared, or its "
                        "clock is not steady\n",
                        cache->n_uneven, (double)cache->most_uneven * 100);
    cache->n_uneven = 0;
    cache->most_uneven = 0;
    if (cache->n_otherwise > 0)
        hrf_strbuf_addf(notes,
                        "%" PRId32 " engines for INT8 were not timed: they round otherwise than "
                        "the ones that were taken\n",
                        cache->n_otherwise);
    if (cache->n_taken > 0)
        hrf_strbuf_addf(notes, "%" PRId32 " convolutions by plans that another rank has tuned\n",
                        cache->n_taken);
    cache->n_otherwise = cache->n_taken = 0;
    cache->n_tuned = cache->n_read = cache->n_beforehand = 0;
    cache->tuning_seconds = 0;
}
