/* throttle_record.c - throttle.json, the user's limit on jobs (throttle_record.h). */
#include "schema/record/throttle_record.h"

#include "base/json.h"
#include "base/path.h"

#include <errno.h>
#include <unistd.h>

enum { VERSION = 1 };

static char *throttle_path(const char *directory)
{
    return hrf_path_join(directory, "throttle.json");
}

enum hrf_status hrf_throttle_write(const char *directory, int64_t max_jobs, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    HRF_AUTO_JSON value = json_pack("{sisI}", "version", VERSION, "max_jobs", (json_int_t)max_jobs);
    HRF_CHECK_MEMORY(path != NULL && value != NULL, err, "no memory for a throttle");
    return hrf_json_write_file(path, value, err);
}

enum hrf_status hrf_throttle_read(const char *directory, int64_t *max_jobs, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    HRF_AUTO_JSON value = NULL;
    int64_t version, found;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_json_read_file(path, &value, err));
    HRF_TRY(hrf_json_get_int(value, "version", path, &version, err));
    HRF_TRY(hrf_json_get_int(value, "max_jobs", path, &found, err));
    if (version != VERSION || found < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': version %lld with max_jobs %lld; this build reads version %d "
                             "with 0 or more jobs ('hires-flow throttle' writes it anew)",
                             path, (long long)version, (long long)found, VERSION);
    *max_jobs = found;
    return HRF_OK;
}

enum hrf_status hrf_throttle_remove(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    if (unlink(path) != 0 && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
    return HRF_OK;
}
