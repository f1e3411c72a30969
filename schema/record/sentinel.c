#include "schema/record/sentinel.h"

#include "base/crash.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* RESERVED_BYTES: one block of the usual file systems, and more than a sentinel ever has: about
 * 700 bytes of keys and numbers, 530 of names and a reason of 255 that may be escaped sixfold. */
enum { VERSION = 1, RESERVED_BYTES = 4096, LIMIT_BYTES = 1 << 16 };

static char *sentinel_path(const char *directory, const char *name, const char *suffix)
{
    HRF_AUTO_FREE char *file = hrf_format("%s.json%s", name, suffix);
    return file != NULL ? hrf_path_join(directory, file) : NULL;
}

enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, "done", ".reserved");
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    char blanks[RESERVED_BYTES]; /* written, not only allocated: also where fallocate is a wish */
    memset(blanks, ' ', sizeof blanks);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    enum hrf_status status = hrf_file_write_all(fd, blanks, sizeof blanks, path, err);
    if (status == HRF_OK && fsync(fd) != 0)
        status = hrf_error_set_errno(err, errno, "cannot sync '%s'", path);
    if (status != HRF_OK)
        unlink(path); /* half a reserve is none */
    return status;
}

/* One table says which keys a sentinel has; the writer and the reader walk it. */
enum field_type { FIELD_TEXT, FIELD_INT, FIELD_U64, FIELD_BOOL };
static const struct field {
    const char *key;
    enum field_type type;
    size_t offset, size;
    bool is_new; /* not there in what older launchers wrote: then 0 */
} fields[] = {
#define FIELD_BUT(key, member, type, is_new)                                                       \
    {                                                                                              \
        key, type, offsetof(struct hrf_sentinel, member),                                          \
            sizeof((struct hrf_sentinel *)NULL)->member, is_new                                    \
    }
#define FIELD(key, member, type) FIELD_BUT(key, member, type, false)
    FIELD("run_id", run_id, FIELD_TEXT),
    FIELD("job_id", job_id, FIELD_TEXT),
    FIELD("attempt", attempt, FIELD_INT),
    FIELD_BUT("scheduler_job", scheduler_job, FIELD_INT, true),
    FIELD("host", host, FIELD_TEXT),
    FIELD("boot", boot, FIELD_TEXT),
    FIELD("pid", pid, FIELD_INT),
    FIELD("start_time", start_time, FIELD_U64),
    FIELD("start_ms", start_ms, FIELD_INT),
    FIELD("end_ms", end_ms, FIELD_INT),
    FIELD("n_beats", n_beats, FIELD_INT),
    FIELD("exited", exited, FIELD_BOOL),
    FIELD("exit_code", exit_code, FIELD_INT),
    FIELD("signal", signal, FIELD_INT),
    FIELD("was_asked", was_asked, FIELD_BOOL),
    FIELD("was_warned", was_warned, FIELD_BOOL),
    FIELD("was_revoked", was_revoked, FIELD_BOOL),
    FIELD("peak_memory_bytes", peak_memory_bytes, FIELD_INT),
    FIELD("tasks_done", tasks.n_done, FIELD_INT),
    FIELD("tasks_no_tissue", tasks.n_no_tissue, FIELD_INT),
    FIELD("tasks_failed", tasks.n_failed, FIELD_INT),
    FIELD("tasks_missing", tasks.n_missing, FIELD_INT),
    FIELD("reason", reason, FIELD_TEXT),
#undef FIELD
#undef FIELD_BUT
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static json_t *field_value(const struct field *field, const struct hrf_sentinel *s)
{
    const void *at = (const char *)s + field->offset;
    switch (field->type) {
    case FIELD_TEXT:
        return hrf_json_string(at);
    case FIELD_INT:
        return json_integer(*(const int64_t *)at);
    case FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    }
    return NULL;
}

static enum hrf_status read_field(const struct field *field, const json_t *value, const char *where,
                                  struct hrf_sentinel *s, struct hrf_error *err)
{
    void *at = (char *)s + field->offset;
    const char *text;
    int64_t number;
    if (field->is_new && json_object_get(value, field->key) == NULL)
        return HRF_OK;
    switch (field->type) {
    case FIELD_TEXT:
        HRF_TRY(hrf_json_get_text(value, field->key, where, &text, err));
        if (strlen(text) >= field->size)
            return hrf_error_set(err, HRF_E_USER, "'%s': '%s' has more than %zu bytes", where,
                                 field->key, field->size - 1);
        memcpy(at, text, strlen(text) + 1);
        return HRF_OK;
    case FIELD_INT:
        return hrf_json_get_int(value, field->key, where, at, err);
    case FIELD_U64:
        HRF_TRY(hrf_json_get_int(value, field->key, where, &number, err));
        *(uint64_t *)at = (uint64_t)number;
        return HRF_OK;
    case FIELD_BOOL:
        return hrf_json_get_bool(value, field->key, where, at, err);
    }
    return hrf_error_set(err, HRF_E_BUG, "unknown field type");
}

/* The hash of an object as it is without its checksum. */
static enum hrf_status hash_object(const json_t *object, char sha256[HRF_HASH_HEX],
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *body = hrf_json_text(object);
    if (body == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    return hrf_hash_buffer(body, strlen(body), sha256, err);
}

/* *out is a heap line. */
static enum hrf_status render(const struct hrf_sentinel *sentinel, char **out,
                              struct hrf_error *err)
{
    HRF_AUTO_JSON object = json_object();
    char sha256[HRF_HASH_HEX];
    bool failed = object == NULL ||
                  json_object_set_new(object, "version", json_integer(VERSION)) != 0;
    for (size_t i = 0; i < N_FIELDS; i++)
        failed |= json_object_set_new(object, fields[i].key, field_value(&fields[i], sentinel)) !=
                  0;
    if (failed)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    HRF_TRY(hash_object(object, sha256, err));
    failed = json_object_set_new(object, "sha256", json_string(sha256)) != 0;
    HRF_AUTO_FREE char *text = failed ? NULL : hrf_json_text(object);
    char *line = text != NULL ? hrf_format("%s\n", text) : NULL;
    if (line == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    *out = line;
    return HRF_OK;
}

/* Over the reserved block, in place, then renamed: no new block is needed. What is left of the
 * block stays blank, which JSON allows. */
static enum hrf_status write_reserved(const char *reserved, const char *path, const char *text,
                                      struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = open(reserved, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", reserved);
    HRF_TRY(hrf_file_write_all(fd, text, strlen(text), reserved, err));
    hrf_crash_point("sentinel.done.before_rename");
    return hrf_file_commit(reserved, path, err);
}

enum hrf_status hrf_sentinel_write(const char *directory, const char *name,
                                   const struct hrf_sentinel *sentinel, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, name, "");
    HRF_AUTO_FREE char *reserved = sentinel_path(directory, name, ".reserved");
    HRF_AUTO_FREE char *line = NULL;
    if (path == NULL || reserved == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    HRF_TRY(render(sentinel, &line, err));
    if (strlen(line) <= RESERVED_BYTES && hrf_path_size(reserved) == RESERVED_BYTES)
        return write_reserved(reserved, path, line, err);
    return hrf_file_write_atomic(path, line, strlen(line), err);
}

static enum hrf_status check_object(json_t *object, const char *path, struct hrf_error *err)
{
    int64_t version;
    const char *claimed;
    char expected[HRF_HASH_HEX], found[HRF_HASH_HEX];
    HRF_TRY(hrf_json_get_int(object, "version", path, &version, err));
    if (version > VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' was written by a newer hires-flow (sentinel version %lld, this "
                             "one reads up to %d)",
                             path, (long long)version, VERSION);
    HRF_TRY(hrf_json_get_text(object, "sha256", path, &claimed, err));
    snprintf(expected, sizeof expected, "%s", claimed);
    json_object_del(object, "sha256");
    HRF_TRY(hash_object(object, found, err));
    if (strcmp(expected, found) != 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' is damaged: it does not fit its checksum",
                             path);
    return HRF_OK;
}

enum hrf_status hrf_sentinel_read(const char *directory, const char *name, struct hrf_sentinel *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, name, "");
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_JSON object = NULL;
    size_t n_bytes = 0;
    struct hrf_sentinel found = { .attempt = 0 };
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_file_read(path, LIMIT_BYTES, &text, &n_bytes, err));
    HRF_TRY(hrf_json_parse(text, n_bytes, path, &object, err));
    HRF_TRY(check_object(object, path, err));
    for (size_t i = 0; i < N_FIELDS; i++)
        HRF_TRY(read_field(&fields[i], object, path, &found, err));
    *out = found;
    return HRF_OK;
}

enum hrf_status hrf_fence_set(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, HRF_FENCE_NAME);
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    return hrf_path_sync_directory(directory, err);
}

bool hrf_fence_is_set(const char *directory)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, HRF_FENCE_NAME);
    return path != NULL && hrf_path_exists(path);
}
