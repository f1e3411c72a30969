/* file.c - whole files: reading, and replacing them atomically (file.h). */
#include "base/file.h"

#include "base/alloc.h"
#include "base/directory.h"
#include "base/path.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static enum hrf_status read_all(int fd, const char *path, char *bytes, size_t size, size_t *n,
                                struct hrf_error *err)
{
    *n = 0;
    while (*n < size) {
        ssize_t got = read(fd, bytes + *n, size - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return HRF_OK;
}

/* Reads until the end: a file of /proc does not tell its size. */
static enum hrf_status read_stream(int fd, const char *path, size_t limit, struct hrf_strbuf *out,
                                   struct hrf_error *err)
{
    char block[16384];
    size_t n = 0;
    do {
        HRF_TRY(read_all(fd, path, block, sizeof block, &n, err));
        if (n > limit - out->length)
            return hrf_error_set(err, HRF_E_USER, "'%s' has more bytes than the limit of %zu", path,
                                 limit);
        hrf_strbuf_add(out, block, n);
    } while (n == sizeof block);
    return HRF_OK;
}

static enum hrf_status take_stream(int fd, const char *path, size_t limit, char **out,
                                   size_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    enum hrf_status status = read_stream(fd, path, limit, &text, err);
    const size_t n = text.length;
    char *bytes = status == HRF_OK ? hrf_strbuf_detach(&text) : NULL;
    HRF_TRY(status);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for the %zu bytes of '%s'", n, path);
    *out = bytes;
    *n_bytes = n;
    return HRF_OK;
}

static enum hrf_status refuse_special(const char *path, mode_t mode, struct hrf_error *err)
{
    if (S_ISREG(mode))
        return HRF_OK;
    if (S_ISDIR(mode))
        return hrf_error_set(err, HRF_E_USER, "'%s' is a directory, not a file", path);
    return hrf_error_set(err, HRF_E_USER, "'%s' is a %s; a regular file is needed", path,
                         S_ISFIFO(mode)   ? "FIFO (pipe)"
                         : S_ISSOCK(mode) ? "socket"
                                          : "device");
}

enum hrf_status hrf_file_check(const char *path, struct hrf_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", path);
    return refuse_special(path, st.st_mode, err);
}

enum hrf_status hrf_file_open(const char *path, int *fd, struct hrf_error *err)
{
    struct stat st;
    HRF_TRY(hrf_file_check(path, err)); /* opening a device alone may do something */
    /* It may have become another meanwhile: a FIFO must not be waited for. */
    HRF_AUTO_CLOSE int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", path);
    if (fstat(opened, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    HRF_TRY(refuse_special(path, st.st_mode, err));
    *fd = opened;
    opened = -1;
    return HRF_OK;
}

static enum hrf_status open_below(const char *directory, const char *path, int *fd,
                                  struct hrf_error *err)
{
    enum { COMMON = O_RDONLY | O_CLOEXEC | O_NOFOLLOW };
    const size_t n = strlen(directory);
    struct stat st;
    HRF_AUTO_CLOSE int at = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    HRF_AUTO_FREE char *rest = hrf_strdup(
        strncmp(path, directory, n) == 0 && path[n] == '/' ? path + n + 1 : path);
    for (char *name = rest, *end; at >= 0 && name != NULL; name = end) {
        end = strchr(name, '/');
        if (end != NULL)
            *end++ = '\0';
        if (strcmp(name, "..") == 0)
            return hrf_error_set(err, HRF_E_USER, "'%s' is not below '%s'", path, directory);
        const int next = openat(
            at, name, end != NULL ? COMMON | O_DIRECTORY : COMMON | O_NONBLOCK | O_NOCTTY);
        const int native = errno;
        close(at);
        at = next;
        errno = native;
    }
    if (at < 0 && (errno == ELOOP || errno == ENOTDIR))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is or goes through a link, which is not followed below '%s'",
                             path, directory);
    if (at < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", path);
    if (fstat(at, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    HRF_TRY(refuse_special(path, st.st_mode, err));
    *fd = at;
    at = -1;
    return HRF_OK;
}

static enum hrf_status read_opened(int fd, const char *path, size_t limit, char **out,
                                   size_t *n_bytes, struct hrf_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    if (st.st_size == 0)
        return take_stream(fd, path, limit, out, n_bytes, err);
    if (st.st_size < 0 || (uintmax_t)st.st_size > limit)
        return hrf_error_set(err, HRF_E_USER, "'%s' has %jd bytes, more than the limit of %zu",
                             path, (intmax_t)st.st_size, limit);
    size_t size = (size_t)st.st_size;
    HRF_AUTO_FREE char *bytes = hrf_alloc_aligned(size + 1, sizeof(void *));
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for the %zu bytes of '%s'", size, path);
    size_t n = 0;
    HRF_TRY(read_all(fd, path, bytes, size, &n, err));
    bytes[n] = '\0';
    *out = bytes;
    *n_bytes = n;
    bytes = NULL;
    return HRF_OK;
}

enum hrf_status hrf_file_read(const char *path, size_t limit, char **out, size_t *n_bytes,
                              struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    HRF_TRY(hrf_file_open(path, &fd, err));
    return read_opened(fd, path, limit, out, n_bytes, err);
}

enum hrf_status hrf_file_read_below(const char *directory, const char *path, size_t limit,
                                    char **out, size_t *n_bytes, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    HRF_TRY(open_below(directory, path, &fd, err));
    return read_opened(fd, path, limit, out, n_bytes, err);
}

enum hrf_status hrf_file_read_tail_below(const char *directory, const char *path, size_t limit,
                                         char **out, size_t *n_bytes, bool *is_cut,
                                         struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    HRF_AUTO_FREE char *bytes = hrf_alloc(limit + 1);
    HRF_TRY(open_below(directory, path, &fd, err));
    const off_t end = lseek(fd, 0, SEEK_END);
    const bool cut = end > (off_t)limit;
    if (end < 0 || lseek(fd, cut ? end - (off_t)limit : 0, SEEK_SET) < 0)
        return hrf_error_set_errno(err, errno, "cannot seek in '%s'", path);
    HRF_TRY(read_all(fd, path, bytes, limit, n_bytes, err));
    bytes[*n_bytes] = '\0';
    *is_cut = cut;
    HRF_MOVE(*out, bytes);
    return HRF_OK;
}

enum hrf_status hrf_file_write_all(int fd, const void *bytes, size_t n_bytes, const char *path,
                                   struct hrf_error *err)
{
    const char *at = bytes;
    while (n_bytes > 0) {
        ssize_t n = write(fd, at, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
        at += n;
        n_bytes -= (size_t)n;
    }
    return HRF_OK;
}

/* A rename would put a file in the place of a device: of everybody's /dev/null, for root. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* One try under a random name; EEXIST in *native: that name is taken. */
static int create_temporary(const char *path, char **name, int *native)
{
    uint64_t random;
    *native = EIO;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    *name = hrf_format("%s.tmp.%012" PRIx64, path, random >> 16);
    const int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    *native = errno;
    return fd;
}

enum hrf_status hrf_file_temporary(const char *path, char **temporary, int *fd,
                                   struct hrf_error *err)
{
    enum { TRIES = 16 }; /* two of 2^48 names are rarely the same */
    if (is_special(path))
        return hrf_error_set(err, HRF_E_USER, "'%s' is a device or a pipe; a file is needed", path);
    int native = EEXIST;
    for (int i = 0; i < TRIES && native == EEXIST; i++) {
        HRF_AUTO_FREE char *name = NULL;
        const int made = create_temporary(path, &name, &native);
        if (made < 0)
            continue;
        *temporary = name;
        *fd = made;
        name = NULL;
        return HRF_OK;
    }
    return hrf_error_set_errno(err, native, "cannot write '%s'", path);
}

static enum hrf_status commit(const char *temporary, const char *path, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = open(temporary, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot open '%s'", temporary);
    if (fsync(fd) != 0)
        return hrf_error_set_errno(err, errno, "cannot sync '%s'", temporary);
    if (rename(temporary, path) != 0)
        return hrf_error_set_errno(err, errno, "cannot rename '%s' to '%s'", temporary, path);
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    return hrf_path_sync_directory(directory, err);
}

enum hrf_status hrf_file_commit(const char *temporary, const char *path, struct hrf_error *err)
{
    enum hrf_status status = commit(temporary, path, err);
    if (status != HRF_OK)
        unlink(temporary);
    return status;
}

static enum hrf_status write_special(const char *path, const void *bytes, size_t n_bytes,
                                     struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot write '%s'", path);
    return hrf_file_write_all(fd, bytes, n_bytes, path, err);
}

enum hrf_status hrf_file_write_atomic(const char *path, const void *bytes, size_t n_bytes,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *temporary = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    if (is_special(path))
        return write_special(path, bytes, n_bytes, err);
    HRF_TRY(hrf_file_temporary(path, &temporary, &fd, err));
    enum hrf_status status = hrf_file_write_all(fd, bytes, n_bytes, temporary, err);
    if (status != HRF_OK) {
        unlink(temporary);
        return status;
    }
    return hrf_file_commit(temporary, path, err);
}

int64_t hrf_file_size_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur <= INT64_MAX
               ? (int64_t)limit.rlim_cur
               : INT64_MAX;
}
