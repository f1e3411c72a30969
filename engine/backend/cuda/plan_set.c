#include "engine/backend/cuda/plan_set.h"

#include "base/directory.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/backend/cuda/cudnn_choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SET_FORMAT = 1, TEXT_ROOM = 512 };

struct hrf_plan_set {
    char *folder;
};

void hrf_plan_set_destroy(struct hrf_plan_set *set)
{
    if (set == NULL)
        return;
    hrf_free(set->folder);
    hrf_free(set);
}

/* ---- the device ---- */

/* What cuDNN 9.19 compares when it takes a plan back (found by changing one at a time); the rest,
 * names, clocks, caches and memory, it lets differ. */
static const char *const compared[] = { "deviceVer",
                                        "driverVer",
                                        "multiProcessorCount",
                                        "maxSharedMemoryPerBlock",
                                        "maxSharedMemoryPerBlockOptin",
                                        "reservedSharedMemoryPerBlock",
                                        "maxRegistersPerSM",
                                        "regsPerBlock",
                                        "maxThreadsPerBlock",
                                        "maxThreadsPerSM" };

static const char *name_of(const json_t *properties)
{
    const char *name = json_string_value(json_object_get(properties, "deviceName"));
    return name != NULL ? name : "a device without a name";
}

/* True, or `why` says what of the set is other than here. */
static bool plan_set_fits(const json_t *set, const json_t *here, char *why, size_t size)
{
    const json_t *there = json_object_get(set, "device");
    const json_int_t version = json_integer_value(json_object_get(set, "cudnn"));
    if (json_integer_value(json_object_get(set, "format")) != SET_FORMAT || there == NULL) {
        snprintf(why, size, "of another version of this program");
        return false;
    }
    if (version != (json_int_t)cudnnGetVersion()) {
        snprintf(why, size, "for %s and cuDNN %" PRId64 ", here is %zu", name_of(there),
                 (int64_t)version, cudnnGetVersion());
        return false;
    }
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++) {
        const json_t *a = json_object_get(there, compared[i]);
        const json_t *b = json_object_get(here, compared[i]);
        if (a == NULL || b == NULL || json_equal(a, b))
            continue;
        snprintf(why, size, "for %s with %s %" PRId64 ", here it is %" PRId64, name_of(there),
                 compared[i], (int64_t)json_integer_value(a), (int64_t)json_integer_value(b));
        return false;
    }
    return true;
}

static enum hrf_status read_device(const struct hrf_cudnn_device *properties, json_t **out,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_TRY(hrf_cudnn_device_json(properties, &text, err));
    return hrf_json_parse(text, strlen(text), "the device's properties", out, err);
}

enum hrf_status hrf_plan_set_open(const char *folder, const struct hrf_cudnn_device *properties,
                                  struct hrf_plan_set **out, struct hrf_strbuf *lines,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "set.json");
    HRF_AUTO_JSON set = NULL;
    HRF_AUTO_JSON here = NULL;
    HRF_AUTO(hrf_plan_set) found = hrf_calloc(1, sizeof *found);
    char why[256];
    struct hrf_error unread = { .text = "" };
    *out = NULL;
    HRF_TRY(read_device(properties, &here, err));
    found->folder = hrf_strdup(folder);
    if (hrf_json_read_file(path, &set, &unread) != HRF_OK)
        hrf_strbuf_addf(lines, "plans made beforehand are not used: %s\n", unread.text);
    else if (!plan_set_fits(set, here, why, sizeof why))
        hrf_strbuf_addf(lines, "plans made beforehand are not used, '%s' is %s\n", folder, why);
    else
        HRF_MOVE(*out, found);
    return HRF_OK;
}

enum hrf_status hrf_plan_set_find(const char *directory, const struct hrf_cudnn_device *properties,
                                  struct hrf_plan_set **out, struct hrf_strbuf *lines,
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_text_list) names = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_strbuf) unfit = HRF_STRBUF_INIT;
    *out = NULL;
    if (!hrf_path_exists(directory))
        return HRF_OK;
    HRF_TRY(hrf_path_list_directory(directory, &names, err));
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < names.n_items && *out == NULL && status == HRF_OK; i++) {
        HRF_AUTO_FREE char *folder = hrf_path_join(directory, names.items[i]);
        status = hrf_plan_set_open(folder, properties, out, &unfit, err);
    }
    if (*out == NULL)
        hrf_strbuf_adds(lines, unfit.text);
    return status;
}

/* ---- a convolution ---- */

static enum hrf_status path_of(const char *folder, const char *text, char **out,
                               struct hrf_error *err)
{
    char hash[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_buffer(text, strlen(text), hash, err));
    HRF_AUTO_FREE char *path = hrf_format("%s/%s.json", folder, hash);
    HRF_MOVE(*out, path);
    return HRF_OK;
}

static enum hrf_status parse_plans(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                                   const json_t *plans, const char *path,
                                   struct hrf_candidates *out, struct hrf_error *err)
{
    const size_t n = json_array_size(plans);
    for (size_t i = 0; i < n && out->n < HRF_MOST_CANDIDATES; i++) {
        const json_t *item = json_array_get(plans, i);
        struct hrf_cudnn_plan *plan = &out->plans[out->n];
        const char *text;
        int64_t engine;
        HRF_TRY(hrf_json_get_text(item, "plan", path, &text, err));
        HRF_TRY(hrf_json_get_int(item, "engine", path, &engine, err));
        HRF_TRY(hrf_cudnn_plan_parse(cudnn, properties, text, plan, err));
        plan->engine = engine;
        out->n++;
    }
    return HRF_OK;
}

static enum hrf_status read_file(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                                 const char *path, const char *text, struct hrf_cudnn_conv *conv,
                                 struct hrf_candidates *out, struct hrf_error *err)
{
    HRF_AUTO_JSON file = NULL;
    const char *stored;
    int64_t in_channels, out_channels;
    json_t *plans;
    HRF_TRY(hrf_json_read_file(path, &file, err));
    HRF_TRY(hrf_json_get_text(file, "convolution", path, &stored, err));
    HRF_TRY(hrf_json_get_int(file, "in_channels", path, &in_channels, err));
    HRF_TRY(hrf_json_get_int(file, "out_channels", path, &out_channels, err));
    HRF_TRY(hrf_json_get_array(file, "plans", path, &plans, err));
    if (strcmp(stored, text) != 0 || in_channels < conv->x[1] || out_channels < conv->y[1])
        return hrf_error_set(err, HRF_E_USER, "%s: it is of another convolution", path);
    HRF_TRY(parse_plans(cudnn, properties, plans, path, out, err));
    hrf_cudnn_conv_widen(conv, in_channels, out_channels);
    return HRF_OK;
}

bool hrf_plan_set_get(const struct hrf_plan_set *set, cudnnHandle_t cudnn,
                      const struct hrf_cudnn_device *properties, struct hrf_cudnn_conv *conv,
                      struct hrf_candidates *out, struct hrf_strbuf *lines)
{
    HRF_AUTO_FREE char *path = NULL;
    struct hrf_error why = { .text = "" };
    char text[TEXT_ROOM];
    hrf_cudnn_conv_text(conv, text, sizeof text);
    if (path_of(set->folder, text, &path, &why) != HRF_OK || !hrf_path_exists(path))
        return false;
    if (read_file(cudnn, properties, path, text, conv, out, &why) == HRF_OK)
        return true;
    hrf_candidates_release(out);
    hrf_strbuf_addf(lines, "plans made beforehand are built anew: %s\n", why.text);
    return false;
}

/* ---- making one ---- */

enum hrf_status hrf_plan_set_begin(const char *folder, const char *properties_json,
                                   struct hrf_error *err)
{
    HRF_AUTO_JSON device = NULL;
    HRF_TRY(hrf_path_make_directories(folder, err));
    HRF_TRY(hrf_json_parse(properties_json, strlen(properties_json), "the device's properties",
                           &device, err));
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "set.json");
    HRF_AUTO_JSON set = json_object();
    hrf_json_put_int(set, "format", SET_FORMAT);
    hrf_json_put_int(set, "cudnn", (int64_t)cudnnGetVersion());
    hrf_json_put(set, "device", json_incref(device));
    return hrf_json_write_file(path, set, err);
}

static enum hrf_status build_plans(const struct hrf_cudnn_device *properties,
                                   int64_t most_workspace, struct hrf_cudnn_conv *conv,
                                   struct hrf_candidates *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_cudnn_graph) graph = { .graph = NULL };
    HRF_AUTO_RELEASE(hrf_cudnn_engines) engines = { .n_items = 0 };
    HRF_AUTO_RELEASE(hrf_strbuf) why = HRF_STRBUF_INIT;
    enum hrf_status status = hrf_cudnn_conv_choose(conv, NULL, properties, most_workspace, &graph,
                                                   &engines, err);
    const int32_t n = engines.n_items;
    if (status == HRF_OK && n > 0)
        hrf_candidates_build(NULL, properties, HRF_CUDNN_BY_PROPERTIES, &engines, out, &why);
    if (status == HRF_OK && n > 0 && out->n == 0)
        status = hrf_error_set(err, HRF_E_EXTERNAL, "%s", why.text);
    return status;
}

static enum hrf_status write_plans(const char *path, const char *text,
                                   const struct hrf_cudnn_conv *conv,
                                   const struct hrf_candidates *candidates, struct hrf_error *err)
{
    HRF_AUTO_JSON file = json_object();
    hrf_json_put_text(file, "convolution", text);
    hrf_json_put_int(file, "in_channels", conv->x[1]);
    hrf_json_put_int(file, "out_channels", conv->y[1]);
    json_t *plans = json_array();
    hrf_json_put(file, "plans", plans);
    for (int32_t i = 0; i < candidates->n; i++) {
        HRF_AUTO_FREE char *plan = NULL;
        HRF_TRY(hrf_cudnn_plan_json(&candidates->plans[i], &plan, err));
        json_t *item = json_object();
        hrf_json_put_int(item, "engine", candidates->plans[i].engine);
        hrf_json_put_text(item, "plan", plan);
        hrf_json_add(plans, item);
    }
    return hrf_json_write_file(path, file, err);
}

enum hrf_status hrf_plan_set_add(const char *folder, const struct hrf_cudnn_device *properties,
                                 int64_t most_workspace, const struct hrf_cudnn_conv *conv,
                                 int32_t *n_plans, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    struct hrf_cudnn_conv wide = *conv;
    HRF_AUTO_RELEASE(hrf_candidates) candidates = { .n = 0 };
    char text[TEXT_ROOM];
    hrf_cudnn_conv_text(conv, text, sizeof text);
    HRF_TRY(path_of(folder, text, &path, err));
    if (hrf_path_exists(path)) {
        HRF_AUTO_JSON file = NULL;
        HRF_TRY(hrf_json_read_file(path, &file, err));
        *n_plans = (int32_t)json_array_size(json_object_get(file, "plans"));
        return HRF_OK;
    }
    enum hrf_status status = build_plans(properties, most_workspace, &wide, &candidates, err);
    if (status == HRF_OK)
        status = write_plans(path, text, &wide, &candidates, err);
    if (status == HRF_OK)
        *n_plans = candidates.n;
    return status;
}
