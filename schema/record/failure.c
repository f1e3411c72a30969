/* failure.c - errors of jobs and tasks, with the file that a machine lacks (failure.h). */
#include "schema/record/failure.h"

#include "base/error_record.h"
#include "base/fields.h"
#include "base/host.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const struct hrf_field fields[] = {
#define FIELD(key, type) HRF_FIELD(struct hrf_failure, #key, key, HRF_FIELD_##type)
    FIELD(lacks, TEXT),
    FIELD(lacks_errno, INT),
    FIELD(host, NOTE),
#undef FIELD
};

void hrf_failure_release(struct hrf_failure *failure)
{
    hrf_free(failure->lacks);
    *failure = (struct hrf_failure){ .lacks = NULL };
}

/* The number of what prevents reading; 0: nothing. Opening asks the file server, too. */
static int64_t why_unreadable(const char *path)
{
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 ? 0 : errno;
}

void hrf_failure_fill(struct hrf_failure *failure, const struct hrf_error *error,
                      const char *const paths[], size_t n_paths)
{
    failure->error = *error;
    hrf_process_host_name(failure->host, sizeof failure->host);
    for (size_t i = 0; i < n_paths && failure->lacks_errno == 0; i++) {
        failure->lacks_errno = paths[i] != NULL ? why_unreadable(paths[i]) : 0;
        if (failure->lacks_errno != 0)
            failure->lacks = hrf_strdup(paths[i]);
    }
}

json_t *hrf_failure_json(const struct hrf_failure *failure)
{
    if (failure->error.status == HRF_OK)
        return json_null();
    json_t *object = hrf_fields_json(HRF_FIELDS(fields), failure);
    hrf_json_put(object, "error", hrf_error_to_json(&failure->error));
    return object;
}

enum hrf_status hrf_failure_from_json(const json_t *value, const char *where,
                                      struct hrf_failure *out, struct hrf_error *err)
{
    struct hrf_failure found = { .lacks = NULL };
    struct hrf_error error = { .status = HRF_OK };
    if (json_is_null(value)) {
        *out = found;
        return HRF_OK;
    }
    enum hrf_status status = hrf_fields_read(HRF_FIELDS(fields), value, where, &found, err);
    if (status == HRF_OK && !hrf_error_from_json(json_object_get(value, "error"), &error))
        status = hrf_error_set(err, HRF_E_USER, "%s: 'error' is no error", where);
    found.error = error;
    if (status == HRF_OK)
        *out = found;
    else
        hrf_failure_release(&found);
    return status;
}

static char *error_path(const char *directory)
{
    return hrf_path_join(directory, "error.json");
}

void hrf_failure_write(const char *directory, const struct hrf_failure *failure)
{
    HRF_AUTO_FREE char *path = error_path(directory);
    HRF_AUTO_JSON value = hrf_failure_json(failure);
    (void)!hrf_json_write_file(path, value, NULL);
}

enum hrf_status hrf_failure_read(const char *directory, struct hrf_failure *out,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = error_path(directory);
    HRF_AUTO_JSON value = NULL;
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_json_read_file(path, &value, err));
    return hrf_failure_from_json(value, path, out, err);
}
