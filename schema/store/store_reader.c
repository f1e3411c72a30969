/* store_reader.c - reading beside a writer, and where nothing may be written.
 *
 * A reader of a write-ahead log shares the writer's index file and never stops it. Where that
 * file cannot be made (a read-only directory, a full disk) nobody writes either: the file is read
 * as it stands, or, when a log or a journal stands beside it, a copy of both is, in the temporary
 * directory or in memory.
 */
#include "base/file.h"
#include "base/file_system.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "schema/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_read_only(struct hrf_store *store, const char *name, int flags)
{
    int code = sqlite3_open_v2(name, &store->db, flags, NULL);
    sqlite3_busy_timeout(store->db, HRF_STORE_BUSY_MS);
    if (code == SQLITE_OK) /* the first read; it shows whether an index is missing */
        code = sqlite3_exec(store->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    return code & 0xff;
}

static int open_immutable(struct hrf_store *store)
{
    HRF_AUTO_RELEASE(hrf_strbuf) uri = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&uri, store->path[0] == '/' ? "file://" : "file:");
    for (const char *s = store->path; *s != '\0'; s++) {
        if (*s == '?' || *s == '#' || *s == '%')
            hrf_strbuf_addf(&uri, "%%%02x", (unsigned char)*s);
        else
            hrf_strbuf_addc(&uri, *s);
    }
    hrf_strbuf_adds(&uri, "?immutable=1");
    const int code = open_read_only(store, uri.text, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    return code;
}

static enum hrf_status copy_file(const char *from, const char *to, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int in = -1;
    HRF_TRY(hrf_file_open(from, &in, err));
    HRF_AUTO_CLOSE int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", to);
    char block[1 << 16];
    ssize_t n;
    while ((n = read(in, block, sizeof block)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", from);
        HRF_TRY(hrf_file_write_all(out, block, (size_t)n, to, err));
    }
    return HRF_OK;
}

static const char *const logs[] = { "-wal", "-journal" };
enum { N_LOGS = sizeof logs / sizeof logs[0] };

static enum hrf_status copy_with_logs(struct hrf_store *store, const char *copy,
                                      struct hrf_error *err)
{
    HRF_TRY(copy_file(store->path, copy, err));
    for (size_t i = 0; i < N_LOGS; i++) {
        HRF_AUTO_FREE char *from = hrf_format("%s%s", store->path, logs[i]);
        HRF_AUTO_FREE char *to = hrf_format("%s%s", copy, logs[i]);
        if (hrf_path_size(from) > 0)
            HRF_TRY(copy_file(from, to, err));
    }
    return HRF_OK;
}

/* The sizes and times of the store and its logs, which tell whether somebody wrote meanwhile. */
struct moment {
    int64_t values[1 + N_LOGS][3];
};

static int64_t take_moment(const struct hrf_store *store, struct moment *out)
{
    int64_t n_bytes = 0;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < 1 + N_LOGS; i++) {
        struct stat info;
        HRF_AUTO_FREE char *path = hrf_format("%s%s", store->path, i == 0 ? "" : logs[i - 1]);
        if (stat(path, &info) != 0)
            continue;
        const int64_t values[] = { info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec };
        memcpy(out->values[i], values, sizeof values);
        n_bytes += info.st_size;
    }
    return n_bytes;
}

/* A folder with room for a copy; NULL: there is none. */
static const char *find_room(int64_t n_bytes)
{
    const char *const folders[] = { getenv("TMPDIR"), "/tmp", "/dev/shm" };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (folders[i] != NULL && folders[i][0] != '\0' && access(folders[i], W_OK) == 0 &&
            hrf_file_system_free(folders[i]) > n_bytes + n_bytes / 8 + (1 << 20))
            return folders[i];
    return NULL;
}

static enum hrf_status copy_at_rest(struct hrf_store *store, const char *copy,
                                    struct hrf_error *err)
{
    enum { TRIES = 5 };
    for (int i = 0; i < TRIES; i++) {
        struct moment before, after;
        take_moment(store, &before);
        HRF_TRY(copy_with_logs(store, copy, err));
        take_moment(store, &after);
        if (memcmp(&before, &after, sizeof before) == 0)
            return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_AGAIN,
                         "'%s' was written to each of the %d times that it was copied to be read; "
                         "try again",
                         store->path, TRIES);
}

static enum hrf_status open_copy(struct hrf_store *store, struct hrf_error *err)
{
    struct moment now;
    const int64_t n_bytes = take_moment(store, &now);
    const char *base = find_room(n_bytes);
    HRF_AUTO_FREE char *copy = NULL;
    if (base == NULL)
        return hrf_error_set(err, HRF_E_NOSPACE,
                             "'%s' can only be read as a copy where it is, and neither $TMPDIR nor "
                             "/tmp nor /dev/shm has room for its %lld bytes; set TMPDIR to a "
                             "folder that has",
                             store->path, (long long)n_bytes);
    store->copy = hrf_format("%s/hires-flow-XXXXXX", base);
    if (mkdtemp(store->copy) == NULL)
        return hrf_error_set_errno(err, errno, "cannot make '%s' to read '%s'", store->copy,
                                   store->path);
    copy = hrf_path_join(store->copy, "run.db");
    HRF_TRY(copy_at_rest(store, copy, err));
    int code = open_read_only(store, copy, SQLITE_OPEN_READWRITE);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code, "opening a copy of it", err);
}

static bool has_log(const struct hrf_store *store)
{
    for (size_t i = 0; i < N_LOGS; i++) {
        HRF_AUTO_FREE char *path = hrf_format("%s%s", store->path, logs[i]);
        if (hrf_path_size(path) > 0)
            return true;
    }
    return false;
}

/* True if a reader maps an index file: the header's "read version" is 2 then. */
static bool has_index(const struct hrf_store *store)
{
    unsigned char header[20] = { 0 };
    HRF_AUTO_CLOSE int fd = -1;
    return hrf_file_open(store->path, &fd, NULL) == HRF_OK &&
           pread(fd, header, sizeof header, 0) == (ssize_t)sizeof header && header[19] == 2;
}

enum hrf_status hrf_store_open_reader(struct hrf_store *store, struct hrf_error *err)
{
    int code = SQLITE_CANTOPEN;
    if (!hrf_file_system_is_full(store->path) || !has_index(store)) {
        struct hrf_error why = { .status = HRF_OK };
        code = open_read_only(store, store->path, SQLITE_OPEN_READONLY);
        if (code == SQLITE_OK)
            return HRF_OK;
        if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY &&
            hrf_store_fail(store, code, "opening it", &why) != HRF_E_NOSPACE)
            return hrf_store_fail(store, code, "opening it", err);
    }
    if (access(store->path, R_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot read '%s'", store->path);
    sqlite3_close(store->db);
    store->db = NULL;
    if (has_log(store))
        return open_copy(store, err);
    code = open_immutable(store);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code, "opening it", err);
}
