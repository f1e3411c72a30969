/* throttle_record.c - throttle.json, the user's limit on jobs (throttle_record.h). */
#include "schema/record/throttle_record.h"

#include "base/fields.h"
#include "base/path.h"

#include <errno.h>
#include <unistd.h>

static const struct hrf_field fields[] = {
    { .key = "max_jobs", .type = HRF_FIELD_INT, .size = sizeof(int64_t) }
};

static char *throttle_path(const char *directory)
{
    return hrf_path_join(directory, "throttle.json");
}

enum hrf_status hrf_throttle_write(const char *directory, int64_t max_jobs, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    HRF_AUTO_JSON value = hrf_fields_document(HRF_FIELDS(fields), &max_jobs);
    return hrf_json_write_file(path, value, err);
}

enum hrf_status hrf_throttle_read(const char *directory, int64_t *max_jobs, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    HRF_AUTO_JSON value = NULL;
    int64_t found;
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_json_read_file(path, &value, err));
    HRF_TRY(hrf_fields_check_version(value, "limit on jobs", path, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), value, path, &found, err));
    if (found < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': %lld jobs at once; 'hires-flow throttle' writes it anew", path,
                             (long long)found);
    *max_jobs = found;
    return HRF_OK;
}

enum hrf_status hrf_throttle_remove(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = throttle_path(directory);
    if (unlink(path) != 0 && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
    return HRF_OK;
}
