/* cost_file.c - path, reading and writing of the file of measured costs (cost_file.h). */
#include "engine/run/cost_file.h"

#include "base/cache.h"
#include "base/host.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "base/text.h"

enum { VERSION = 1 };

enum hrf_status hrf_cost_file_path(const char *cache, const char *device, int32_t n_threads,
                                   int32_t n_at_once, char **out, struct hrf_error *err)
{
    char host[256];
    HRF_AUTO_FREE char *directory = NULL;
    HRF_TRY(hrf_cache_folder(cache, "costs", &directory, err));
    hrf_process_host_name(host, sizeof host);
    HRF_AUTO_FREE char *name = hrf_text_file_name(host);
    char *path = hrf_format("%s/%s.%s.t%d.r%d.json", directory, name, device, n_threads, n_at_once);
    *out = path;
    return HRF_OK;
}

enum hrf_status hrf_cost_file_read(const char *path, struct hrf_cost_table *table,
                                   struct hrf_error *err)
{
    HRF_AUTO_JSON json = NULL;
    int64_t version;
    if (!hrf_path_exists(path))
        return HRF_OK;
    HRF_TRY(hrf_json_read_file(path, &json, err));
    HRF_TRY(hrf_json_get_int(json, "version", path, &version, err));
    if (version != VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: version %lld of measured costs where this program reads %d; "
                             "remove the file to measure again",
                             path, (long long)version, VERSION);
    HRF_TRY(hrf_cost_decode(json, path, table, err));
    hrf_cost_fit_rates(table);
    return HRF_OK;
}

enum hrf_status hrf_cost_file_write(const char *path, const struct hrf_cost_table *table,
                                    struct hrf_error *err)
{
    HRF_AUTO_JSON json = hrf_cost_encode(table);
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    hrf_json_put_int(json, "version", VERSION);
    HRF_TRY(hrf_private_directory_open(directory, err));
    return hrf_json_write_file(path, json, err);
}
