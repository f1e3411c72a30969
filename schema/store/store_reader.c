/* store_reader.c - reading beside a writer, and where nothing may be written.
 *
 * A reader of a write-ahead log shares the writer's index file and never stops it. Where that
 * file cannot be made (a read-only directory) nobody writes either: the file is read as it
 * stands, or, when a crash left a log or a journal beside it, a copy of both in the temporary
 * directory is.
 */
#include "base/file.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "schema/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int open_read_only(struct hrf_store *store, const char *name, int flags)
{
    int code = sqlite3_open_v2(name, &store->db, flags, NULL);
    sqlite3_busy_timeout(store->db, HRF_STORE_BUSY_MS);
    if (code == SQLITE_OK) /* the first read; it shows whether an index is missing */
        code = sqlite3_exec(store->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    return code & 0xff;
}

static void close_failed(struct hrf_store *store)
{
    sqlite3_close(store->db);
    store->db = NULL;
}

static int open_immutable(struct hrf_store *store)
{
    struct hrf_strbuf uri = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&uri, store->path[0] == '/' ? "file://" : "file:");
    for (const char *s = store->path; *s != '\0'; s++) {
        if (*s == '?' || *s == '#' || *s == '%')
            hrf_strbuf_addf(&uri, "%%%02x", (unsigned char)*s);
        else
            hrf_strbuf_addc(&uri, *s);
    }
    hrf_strbuf_adds(&uri, "?immutable=1");
    int code = uri.failed ? SQLITE_NOMEM
                          : open_read_only(store, uri.text, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    hrf_strbuf_release(&uri);
    return code;
}

static enum hrf_status copy_file(const char *from, const char *to, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int in = -1;
    HRF_TRY(hrf_file_open(from, &in, err));
    HRF_AUTO_CLOSE int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
        HRF_CHECK_MEMORY(from != NULL && to != NULL, err, "no memory to read '%s'", store->path);
        if (hrf_path_size(from) > 0)
            HRF_TRY(copy_file(from, to, err));
    }
    return HRF_OK;
}

static enum hrf_status open_copy(struct hrf_store *store, struct hrf_error *err)
{
    const char *base = getenv("TMPDIR");
    store->copy = hrf_format("%s/hires-flow-XXXXXX", base != NULL && *base != '\0' ? base : "/tmp");
    HRF_AUTO_FREE char *copy = NULL;
    HRF_CHECK_MEMORY(store->copy != NULL, err, "no memory to read '%s'", store->path);
    if (mkdtemp(store->copy) == NULL)
        return hrf_error_set_errno(err, errno, "cannot make '%s' to read '%s'", store->copy,
                                   store->path);
    if ((copy = hrf_path_join(store->copy, "run.db")) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to read '%s'", store->path);
    HRF_TRY(copy_with_logs(store, copy, err));
    int code = open_read_only(store, copy, SQLITE_OPEN_READWRITE);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code, "opening a copy of it", err);
}

static bool has_log(const struct hrf_store *store)
{
    for (size_t i = 0; i < N_LOGS; i++) {
        HRF_AUTO_FREE char *path = hrf_format("%s%s", store->path, logs[i]);
        if (path != NULL && hrf_path_size(path) > 0)
            return true;
    }
    return false;
}

enum hrf_status hrf_store_open_reader(struct hrf_store *store, struct hrf_error *err)
{
    int code = open_read_only(store, store->path, SQLITE_OPEN_READONLY);
    if (code == SQLITE_OK)
        return HRF_OK;
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)
        return hrf_store_fail(store, code, "opening it", err);
    if (access(store->path, R_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot read '%s'", store->path);
    close_failed(store);
    if (has_log(store))
        return open_copy(store, err);
    code = open_immutable(store);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code, "opening it", err);
}
