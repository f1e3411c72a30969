#include "schema/record/sentinel.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, RESERVED_BYTES = 4096 };

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
    char blanks[RESERVED_BYTES];
    memset(blanks, ' ', sizeof blanks);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    HRF_TRY(hrf_file_write_all(fd, blanks, sizeof blanks, path, err));
    return fsync(fd) == 0 ? HRF_OK : hrf_error_set_errno(err, errno, "cannot sync '%s'", path);
}

static json_t *to_json(const struct hrf_sentinel *s)
{
    return json_pack("{sisssIsssssIsssIsIsbsIsIsI}", "version", VERSION, "run_id", s->run_id,
                     "attempt", (json_int_t)s->attempt, "host", s->host, "boot", s->boot, "pid",
                     (json_int_t)s->pid, "kind", "sentinel", "start_time",
                     (json_int_t)s->start_time, "start_ms", (json_int_t)s->start_ms, "exited",
                     s->exited, "exit_code", (json_int_t)s->exit_code, "signal",
                     (json_int_t)s->signal, "peak_memory_bytes", (json_int_t)s->peak_memory_bytes);
}

/* Over the reserved block, in place, then renamed: no new block is needed. */
static enum hrf_status write_reserved(const char *reserved, const char *path, const char *text,
                                      struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = open(reserved, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", reserved);
    HRF_TRY(hrf_file_write_all(fd, text, strlen(text), reserved, err));
    return hrf_file_commit(reserved, path, err);
}

enum hrf_status hrf_sentinel_write(const char *directory, const char *name,
                                   const struct hrf_sentinel *sentinel, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, name, "");
    HRF_AUTO_FREE char *reserved = sentinel_path(directory, name, ".reserved");
    HRF_AUTO_JSON value = to_json(sentinel);
    if (value == NULL || path == NULL || reserved == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    json_object_set_new(value, "end_ms", json_integer(sentinel->end_ms));
    HRF_AUTO_FREE char *body = hrf_json_text(value);
    char sha256[HRF_HASH_HEX];
    if (body == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    HRF_TRY(hrf_hash_buffer(body, strlen(body), sha256, err));
    HRF_AUTO_FREE char *line = hrf_format("%s\n%s\n", sha256, body);
    if (line == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a sentinel");
    if (hrf_path_exists(reserved))
        return write_reserved(reserved, path, line, err);
    return hrf_file_write_atomic(path, line, strlen(line), err);
}

static enum hrf_status get_short(const json_t *value, const char *key, const char *where, char *out,
                                 size_t size, struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(value, key, where, &text, err));
    snprintf(out, size, "%s", text);
    return HRF_OK;
}

static enum hrf_status from_json(const json_t *v, const char *where, struct hrf_sentinel *s,
                                 struct hrf_error *err)
{
    int64_t start_time;
    HRF_TRY(get_short(v, "run_id", where, s->run_id, sizeof s->run_id, err));
    HRF_TRY(get_short(v, "host", where, s->host, sizeof s->host, err));
    HRF_TRY(get_short(v, "boot", where, s->boot, sizeof s->boot, err));
    HRF_TRY(hrf_json_get_int(v, "attempt", where, &s->attempt, err));
    HRF_TRY(hrf_json_get_int(v, "pid", where, &s->pid, err));
    HRF_TRY(hrf_json_get_int(v, "start_time", where, &start_time, err));
    HRF_TRY(hrf_json_get_int(v, "start_ms", where, &s->start_ms, err));
    HRF_TRY(hrf_json_get_int(v, "end_ms", where, &s->end_ms, err));
    HRF_TRY(hrf_json_get_bool(v, "exited", where, &s->exited, err));
    HRF_TRY(hrf_json_get_int(v, "exit_code", where, &s->exit_code, err));
    HRF_TRY(hrf_json_get_int(v, "signal", where, &s->signal, err));
    s->start_time = (uint64_t)start_time;
    return hrf_json_get_int(v, "peak_memory_bytes", where, &s->peak_memory_bytes, err);
}

enum hrf_status hrf_sentinel_read(const char *directory, const char *name, struct hrf_sentinel *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, name, "");
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    char sha256[HRF_HASH_HEX];
    if (path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_file_read(path, 1 << 16, &text, &n_bytes, err));
    char *body = strchr(text, '\n');
    char *end = body != NULL ? strchr(body + 1, '\n') : NULL;
    if (end == NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' is cut short", path);
    body++;
    HRF_TRY(hrf_hash_buffer(body, (size_t)(end - body), sha256, err));
    if (strncmp(text, sha256, HRF_HASH_HEX - 1) != 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' does not fit its checksum", path);
    HRF_AUTO_JSON value = NULL;
    struct hrf_sentinel found = { .attempt = 0 };
    HRF_TRY(hrf_json_parse(body, (size_t)(end - body), path, &value, err));
    HRF_TRY(from_json(value, path, &found, err));
    *out = found;
    return HRF_OK;
}
