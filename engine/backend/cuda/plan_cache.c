#include "engine/backend/cuda/plan_cache.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/backend/cuda/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT = 1, KEY_ROOM = 1024, MOST_BYTES = 1 << 24 };

struct entry {
    char hash[HRF_HASH_HEX]; /* of the key */
    struct hrf_cudnn_conv conv;
    struct hrf_cudnn_plan plan;
    bool has_plan;
};

struct hrf_plan_cache {
    char *directory; /* NULL: nothing is kept */
    const struct hrf_cuda_device *device;
    cudnnHandle_t cudnn;
    const struct hrf_cudnn_device *properties;
    struct entry **entries; /* each stays where it is: kernels point at its plan */
    size_t n_entries, capacity;
    struct hrf_strbuf lines; /* on entries that were replaced, and engines that failed */
    int32_t n_read, n_tuned;
    double tuning_seconds;
    bool cannot_write;
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
    hrf_free(cache->directory);
    hrf_strbuf_release(&cache->lines);
    hrf_free(cache);
}

enum hrf_status hrf_plan_cache_create(const char *directory, const struct hrf_cuda_device *device,
                                      cudnnHandle_t cudnn,
                                      const struct hrf_cudnn_device *properties,
                                      struct hrf_plan_cache **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_plan_cache) cache = hrf_calloc(1, sizeof *cache);
    if (cache == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the tuned plans");
    cache->lines = (struct hrf_strbuf)HRF_STRBUF_INIT;
    cache->device = device;
    cache->cudnn = cudnn;
    cache->properties = properties;
    cache->directory = hrf_strdup(directory);
    if (directory != NULL && cache->directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the tuned plans");
    *out = cache;
    cache = NULL;
    return HRF_OK;
}

static void write_key(const struct hrf_plan_cache *cache, const struct hrf_cudnn_conv *conv,
                      char key[KEY_ROOM])
{
    char text[KEY_ROOM / 2];
    hrf_cudnn_conv_text(conv, text, sizeof text);
    snprintf(key, KEY_ROOM, "%d; cuDNN %zu; %s; sm %d.%d; driver %d; %s", FORMAT, cudnnGetVersion(),
             cache->device->name, cache->device->major, cache->device->minor, cache->device->driver,
             text);
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

static enum hrf_status decode(const struct hrf_plan_cache *cache, const json_t *file,
                              const char *path, const char *key, struct entry *entry,
                              struct hrf_error *err)
{
    const char *stored, *plan;
    int64_t in, out;
    HRF_TRY(hrf_json_get_text(file, "key", path, &stored, err));
    HRF_TRY(hrf_json_get_int(file, "in_channels", path, &in, err));
    HRF_TRY(hrf_json_get_int(file, "out_channels", path, &out, err));
    HRF_TRY(hrf_json_get_bool(file, "has_engine", path, &entry->has_plan, err));
    HRF_TRY(hrf_json_get_text(file, "plan", path, &plan, err));
    HRF_TRY(check_sum(file, plan, path, err));
    if (strcmp(stored, key) != 0 || in < entry->conv.x[1] || out < entry->conv.y[1])
        return hrf_error_set(err, HRF_E_USER, "%s: it is of another convolution", path);
    if (!entry->has_plan)
        return HRF_OK;
    if (entry->conv.w[1] == entry->conv.x[1])
        entry->conv.w[1] = in;
    entry->conv.x[1] = in;
    entry->conv.w[0] = entry->conv.y[1] = out;
    HRF_TRY(hrf_cudnn_plan_parse(cache->cudnn, plan, &entry->plan, err));
    return hrf_json_get_int(file, "engine", path, &entry->plan.engine, err);
}

/* HRF_OK with has_entry false: there is none. A failure: there is one and it is of no use. */
static enum hrf_status read_entry(const struct hrf_plan_cache *cache, const char *key,
                                  struct entry *entry, bool *has_entry, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = path_of(cache, entry->hash);
    HRF_AUTO_JSON file = NULL;
    *has_entry = false;
    if (path == NULL || !hrf_path_exists(path))
        return HRF_OK;
    HRF_TRY(hrf_json_read_file(path, &file, err));
    HRF_TRY(decode(cache, file, path, key, entry, err));
    *has_entry = true;
    return HRF_OK;
}

static enum hrf_status write_entry(const struct hrf_plan_cache *cache, const char *key,
                                   const struct entry *entry, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = path_of(cache, entry->hash);
    HRF_AUTO_FREE char *plan = NULL;
    char sum[HRF_HASH_HEX];
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (entry->has_plan)
        HRF_TRY(hrf_cudnn_plan_json(&entry->plan, &plan, err));
    const char *text = plan != NULL ? plan : "";
    HRF_TRY(hrf_hash_buffer(text, strlen(text), sum, err));
    HRF_AUTO_JSON file = json_pack(
        "{sssIsIsbsIssss}", "key", key, "in_channels", (json_int_t)entry->conv.x[1], "out_channels",
        (json_int_t)entry->conv.y[1], "has_engine", (int)entry->has_plan, "engine",
        (json_int_t)entry->plan.engine, "plan", text, "plan_sha256", sum);
    if (file == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a tuned plan");
    HRF_TRY(hrf_path_make_directories(cache->directory, err));
    return hrf_json_write_file(path, file, err);
}

/* A cache that cannot be written costs time in the next start, no more: one line tells of it. */
static void keep(struct hrf_plan_cache *cache, const char *key, const struct entry *entry)
{
    struct hrf_error err = { .status = HRF_OK };
    if (cache->directory == NULL || write_entry(cache, key, entry, &err) == HRF_OK)
        return;
    if (!cache->cannot_write)
        hrf_strbuf_addf(&cache->lines, "tuned plans cannot be kept: %s\n", err.text);
    cache->cannot_write = true;
}

/* ---- looking up ---- */

static enum hrf_status tune(struct hrf_plan_cache *cache, struct entry *entry,
                            struct hrf_error *err)
{
    struct hrf_cudnn_graph graph;
    struct hrf_cudnn_engines engines;
    const double start = hrf_clock_seconds();
    enum hrf_status status = hrf_cudnn_conv_choose(&entry->conv, cache->properties, &graph,
                                                   &engines, err);
    if (status == HRF_OK && engines.n_items > 0)
        status = hrf_tune_conv(cache->device, cache->cudnn, cache->properties, &entry->conv,
                               &engines, &entry->plan, &entry->has_plan, &cache->lines, err);
    hrf_cudnn_engines_release(&engines);
    hrf_cudnn_graph_release(&graph);
    cache->n_tuned++;
    cache->tuning_seconds += hrf_clock_seconds() - start;
    return status;
}

static enum hrf_status fill_entry(struct hrf_plan_cache *cache, const char *key,
                                  struct entry *entry, struct hrf_error *err)
{
    const struct hrf_cudnn_conv asked = entry->conv;
    struct hrf_error why = { .status = HRF_OK };
    bool has_entry = false;
    if (read_entry(cache, key, entry, &has_entry, &why) != HRF_OK) {
        hrf_strbuf_addf(&cache->lines, "a tuned plan is made anew: %s\n", why.text);
        hrf_cudnn_plan_release(&entry->plan);
        entry->conv = asked;
        entry->has_plan = false;
    }
    if (has_entry) {
        cache->n_read++;
        return HRF_OK;
    }
    HRF_TRY(tune(cache, entry, err));
    keep(cache, key, entry);
    return HRF_OK;
}

static void give(const struct entry *entry, struct hrf_planned_conv *out)
{
    *out = (struct hrf_planned_conv){ .conv = entry->conv,
                                      .plan = entry->has_plan ? &entry->plan : NULL };
}

enum hrf_status hrf_plan_cache_get(struct hrf_plan_cache *cache, const struct hrf_cudnn_conv *conv,
                                   struct hrf_planned_conv *out, struct hrf_error *err)
{
    char key[KEY_ROOM], hash[HRF_HASH_HEX];
    write_key(cache, conv, key);
    HRF_TRY(hrf_hash_buffer(key, strlen(key), hash, err));
    for (size_t i = 0; i < cache->n_entries; i++)
        if (strcmp(cache->entries[i]->hash, hash) == 0) {
            give(cache->entries[i], out);
            return HRF_OK;
        }
    void *entries = cache->entries;
    enum hrf_status status = hrf_array_reserve(&entries, &cache->capacity, cache->n_entries + 1,
                                               sizeof(struct entry *), err);
    cache->entries = entries;
    HRF_TRY(status);
    struct entry *entry = hrf_calloc(1, sizeof *entry);
    if (entry == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a tuned plan");
    memcpy(entry->hash, hash, sizeof entry->hash);
    entry->conv = *conv;
    entry->plan.engine = -1;
    status = fill_entry(cache, key, entry, err);
    if (status != HRF_OK) {
        hrf_cudnn_plan_release(&entry->plan);
        hrf_free(entry);
        return status;
    }
    cache->entries[cache->n_entries++] = entry;
    give(entry, out);
    return HRF_OK;
}

void hrf_plan_cache_notes(struct hrf_plan_cache *cache, struct hrf_strbuf *notes)
{
    hrf_strbuf_adds(notes, cache->lines.text);
    hrf_strbuf_clear(&cache->lines);
    if (cache->n_tuned > 0)
        hrf_strbuf_addf(notes,
                        "%" PRId32 " convolutions tuned in %.1f s, %" PRId32
                        " read; plans are kept in %s\n",
                        cache->n_tuned, cache->tuning_seconds, cache->n_read,
                        cache->directory != NULL ? cache->directory : "memory");
    cache->n_tuned = cache->n_read = 0;
    cache->tuning_seconds = 0;
}
