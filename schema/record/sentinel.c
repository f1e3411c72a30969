/* sentinel.c - writes and reads sentinels and fences (sentinel.h). */
#include "schema/record/sentinel.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* RESERVED_BYTES: one block of common file systems, and more than the largest sentinel: about 800
 * bytes of keys and numbers, 530 of names and a reason of 255 bytes, each of which may be escaped
 * to six. */
enum { RESERVED_BYTES = 4096, LIMIT_BYTES = 1 << 16 };
enum { BEAT_MS = 30000, MISSED_BEATS = 2 };

static char *sentinel_path(const char *directory, const char *name, const char *suffix)
{
    HRF_AUTO_FREE char *file = hrf_format("%s.json%s", name, suffix);
    return hrf_path_join(directory, file);
}

enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, "done", ".reserved");
    char blanks[RESERVED_BYTES]; /* written, because a file system may ignore fallocate() */
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

static const struct hrf_field fields[] = {
#define FIELD(key, member, type) HRF_FIELD(struct hrf_sentinel, key, member, HRF_FIELD_##type)
    FIELD("run_id", run_id, CHARS),
    FIELD("job_id", job_id, CHARS),
    FIELD("attempt", attempt, INT),
    FIELD("scheduler_job", scheduler_job, INT),
    FIELD("host", host, CHARS),
    FIELD("boot", boot, CHARS),
    FIELD("pid", pid, INT),
    FIELD("start_time", start_time, UINT64),
    FIELD("start_ms", start_ms, INT),
    FIELD("end_ms", end_ms, INT),
    FIELD("n_beats", n_beats, INT),
    FIELD("beat_ms", beat_ms, INT),
    FIELD("period_ms", period_ms, INT),
    FIELD("idle_ms", idle_ms, INT),
    FIELD("n_stopped", n_stopped, INT),
    FIELD("exited", exited, BOOL),
    FIELD("exit_code", exit_code, INT),
    FIELD("signal", signal, INT),
    FIELD("was_asked", was_asked, BOOL),
    FIELD("was_warned", was_warned, BOOL),
    FIELD("was_revoked", was_revoked, BOOL),
    FIELD("was_out_of_memory", was_out_of_memory, BOOL),
    FIELD("peak_memory_bytes", peak_memory_bytes, INT),
    FIELD("cpu_ms", cpu_ms, INT),
    FIELD("tasks_done", tasks.n_done, INT),
    FIELD("tasks_no_tissue", tasks.n_no_tissue, INT),
    FIELD("tasks_failed", tasks.n_failed, INT),
    FIELD("tasks_missing", tasks.n_missing, INT),
    FIELD("reason", reason, NOTE),
#undef FIELD
};

/* *out is a heap line. */
static enum hrf_status render(const struct hrf_sentinel *sentinel, char **out,
                              struct hrf_error *err)
{
    HRF_AUTO_JSON object = hrf_fields_document(HRF_FIELDS(fields), sentinel);
    HRF_TRY(hrf_fields_seal(object, err));
    HRF_AUTO_FREE char *text = hrf_json_text(object);
    *out = hrf_format("%s\n", text);
    return HRF_OK;
}

/* Writes over the reserved block in place, then renames it: this needs no new block. The rest of
 * the block stays blank, which JSON allows. */
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
    HRF_TRY(render(sentinel, &line, err));
    if (strlen(line) <= RESERVED_BYTES && hrf_path_size(reserved) == RESERVED_BYTES)
        return write_reserved(reserved, path, line, err);
    return hrf_file_write_atomic(path, line, strlen(line), err);
}

enum hrf_status hrf_sentinel_read(const char *directory, const char *name, struct hrf_sentinel *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = sentinel_path(directory, name, "");
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_JSON object = NULL;
    size_t n_bytes = 0;
    struct hrf_sentinel found = { .attempt = 0 };
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_AGAIN, "'%s' is not there", path);
    HRF_TRY(hrf_file_read(path, LIMIT_BYTES, &text, &n_bytes, err));
    HRF_TRY(hrf_json_parse(text, n_bytes, path, &object, err));
    HRF_TRY(hrf_fields_check_version(object, "sentinel", path, err));
    HRF_TRY(hrf_fields_unseal(object, path, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), object, path, &found, err));
    *out = found;
    return HRF_OK;
}

int64_t hrf_sentinel_period_ms(void)
{
    return hrf_clock_setting_ms("HRF_BEAT_MS", 1, BEAT_MS);
}

bool hrf_sentinel_has_missed_beats(const struct hrf_sentinel *beat, int64_t age_ms)
{
    return beat->period_ms > 0 && age_ms >= MISSED_BEATS * beat->period_ms;
}

int64_t hrf_sentinel_silence(const struct hrf_sentinel *beat, int64_t age_ms, char *out,
                             size_t size)
{
    const int64_t idle_ms = beat->idle_ms > 0 ? beat->idle_ms + age_ms : 0;
    const bool is_launcher_silent = hrf_sentinel_has_missed_beats(beat, age_ms);
    const int64_t silence_ms = is_launcher_silent && age_ms > idle_ms ? age_ms : idle_ms;
    out[0] = '\0';
    if (beat->period_ms <= 0 || silence_ms < MISSED_BEATS * beat->period_ms)
        return 0;
    const double seconds = (double)silence_ms / 1000;
    if (is_launcher_silent)
        snprintf(out, size, "no beat has come for %.0f s: it is stopped, or its disk hangs",
                 (double)age_ms / 1000);
    else if (beat->n_stopped > 0)
        snprintf(out, size, "its worker has done nothing for %.0f s: it is stopped", seconds);
    else
        snprintf(out, size,
                 "its worker has done nothing for %.0f s: it waits for something, such as a disk "
                 "that hangs",
                 seconds);
    return silence_ms;
}

enum hrf_status hrf_fence_set(const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, HRF_FENCE_NAME);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    return hrf_path_sync_directory(directory, err);
}

bool hrf_fence_is_set(const char *directory)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, HRF_FENCE_NAME);
    return hrf_path_exists(path);
}
