#include "base/path.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

char *hrf_path_join(const char *directory, const char *name)
{
    if (name[0] == '/' || directory[0] == '\0')
        return hrf_strdup(name);
    size_t n = strlen(directory);
    return hrf_format("%s%s%s", directory, directory[n - 1] == '/' ? "" : "/", name);
}

char *hrf_path_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return hrf_strdup(".");
    return hrf_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

const char *hrf_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *extension_dot(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? dot : name + strlen(name);
}

char *hrf_path_stem(const char *path)
{
    const char *name = hrf_path_name(path);
    return hrf_strndup(name, (size_t)(extension_dot(name) - name));
}

char *hrf_path_extension(const char *path)
{
    const char *dot = extension_dot(hrf_path_name(path));
    char *extension = hrf_strdup(*dot != '\0' ? dot + 1 : dot);
    for (char *c = extension; c != NULL && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return extension;
}

bool hrf_path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool hrf_path_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t hrf_path_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

char *hrf_cache_directory(const char *cache)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL)
        return hrf_strdup(cache);
    if (xdg != NULL && xdg[0] == '/')
        return hrf_format("%s/hires-flow", xdg);
    if (home != NULL && home[0] == '/')
        return hrf_format("%s/.cache/hires-flow", home);
    return hrf_format("/tmp/hires-flow-%lu", (unsigned long)geteuid()); /* not another user's */
}

/* Whether ".." after path[0, end) only takes its last part back. */
static bool may_go_back(char *path, char *end)
{
    struct stat st;
    const char after = *end;
    *end = '\0';
    const char *name = hrf_path_name(path);
    const bool may = strpbrk(name, "*?[") == NULL && strcmp(name, "..") != 0 &&
                     (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode));
    *end = after;
    return may;
}

void hrf_path_tidy(char *path)
{
    char *out = path;
    if (path[0] != '/')
        return;
    for (const char *in = path; *in != '\0';) {
        const size_t n = strcspn(in, "/");
        const bool is_back = n == 2 && in[0] == '.' && in[1] == '.';
        if (n == 0) {
            in++;
        } else if (n == 1 && in[0] == '.') {
            in += n;
        } else if (is_back && (out == path || may_go_back(path, out))) {
            while (out > path && *--out != '/')
                ;
            in += n;
        } else {
            *out++ = '/'; /* `in` is at least one further: it has passed this slash */
            memmove(out, in, n);
            out += n;
            in += n;
        }
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

enum hrf_status hrf_path_absolute(const char *path, char **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *current = NULL;
    char *result;
    if (path[0] == '/') {
        result = hrf_strdup(path);
    } else {
        current = hrf_alloc(4096);
        if (current != NULL && getcwd(current, 4096) == NULL)
            return hrf_error_set_errno(err, errno, "cannot find the current directory");
        result = current != NULL ? hrf_path_join(current, path) : NULL;
    }
    if (result == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the path '%s'", path);
    hrf_path_tidy(result);
    *out = result;
    return HRF_OK;
}

enum hrf_status hrf_path_make_directories(const char *path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *part = hrf_strdup(path);
    if (part == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the path '%s'", path);
    for (char *slash = part + 1;; slash++) {
        slash = part[0] != '\0' ? strchr(slash, '/') : NULL;
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return hrf_error_set_errno(err, errno, "cannot make the directory '%s'", part);
        if (slash == NULL)
            break;
        *slash = '/';
    }
    if (!hrf_path_is_directory(path))
        return hrf_error_set(err, HRF_E_USER, "'%s' exists and is not a directory", path);
    return HRF_OK;
}

static enum hrf_status remove_children(const char *path, DIR *directory, struct hrf_error *err)
{
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        HRF_AUTO_FREE char *child = hrf_path_join(path, entry->d_name);
        if (child == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory to remove '%s'", path);
        HRF_TRY(hrf_path_remove_tree(child, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_path_remove_tree(const char *path, struct hrf_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return HRF_OK;
    if (errno != EISDIR && errno != EPERM)
        return hrf_error_set_errno(err, errno, "cannot remove '%s'", path);
    DIR *directory = opendir(path);
    if (directory == NULL)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", path);
    enum hrf_status status = remove_children(path, directory, err);
    closedir(directory);
    HRF_TRY(status);
    if (rmdir(path) != 0 && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot remove the directory '%s'", path);
    return HRF_OK;
}

enum hrf_status hrf_path_sync_directory(const char *path, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", path);
    if (fsync(fd) != 0 && errno != EINVAL) /* some network file systems cannot */
        return hrf_error_set_errno(err, errno, "cannot sync the directory '%s'", path);
    return HRF_OK;
}

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

/* Until its end: a file of /proc does not tell its size. */
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
        HRF_TRY(hrf_strbuf_status(out, err));
    } while (n == sizeof block);
    return HRF_OK;
}

static enum hrf_status take_stream(int fd, const char *path, size_t limit, char **out,
                                   size_t *n_bytes, struct hrf_error *err)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    enum hrf_status status = read_stream(fd, path, limit, &text, err);
    const size_t n = text.length;
    char *bytes = status == HRF_OK ? hrf_strbuf_detach(&text) : NULL;
    hrf_strbuf_release(&text);
    HRF_TRY(status);
    if (bytes == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the %zu bytes of '%s'", n, path);
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

enum hrf_status hrf_file_read(const char *path, size_t limit, char **out, size_t *n_bytes,
                              struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct stat st;
    HRF_TRY(hrf_file_open(path, &fd, err));
    if (fstat(fd, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot stat '%s'", path);
    if (st.st_size == 0)
        return take_stream(fd, path, limit, out, n_bytes, err);
    if (st.st_size < 0 || (uintmax_t)st.st_size > limit)
        return hrf_error_set(err, HRF_E_USER, "'%s' has %jd bytes, more than the limit of %zu",
                             path, (intmax_t)st.st_size, limit);
    size_t size = (size_t)st.st_size;
    HRF_AUTO_FREE char *bytes = hrf_alloc(size + 1);
    if (bytes == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the %zu bytes of '%s'", size, path);
    size_t n = 0;
    HRF_TRY(read_all(fd, path, bytes, size, &n, err));
    bytes[n] = '\0';
    *out = bytes;
    *n_bytes = n;
    bytes = NULL;
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
    const int fd = *name != NULL
                       ? open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)
                       : -1;
    *native = *name != NULL ? errno : ENOMEM;
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
    if (directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the path '%s'", path);
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

char *hrf_text_printable(const char *text)
{
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    while (*text != '\0') {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        text += hrf_text_step(text, shown, &is_plain);
        hrf_strbuf_adds(&out, shown);
    }
    return hrf_strbuf_detach(&out);
}

/* FILE_NAME_MOST: what may be left of the 255 bytes that file systems take when an ending and a
 * temporary name's addition have had theirs. A longer name keeps its beginning, before a dash and
 * HASH_DIGITS of its SHA-256. */
enum { FILE_NAME_MOST = 180, HASH_DIGITS = 16, BEGINNING = FILE_NAME_MOST - 1 - HASH_DIGITS };

/* *cut: how many bytes whole characters have within BEGINNING. */
static void escape(const char *text, struct hrf_strbuf *out, size_t *cut)
{
    for (const char *s = text; *s != '\0';) {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        const unsigned char c = (unsigned char)*s;
        const size_t n = hrf_text_step(s, shown, &is_plain);
        if (c < 0x80)
            is_plain = isalnum(c) || c == '_' || c == '-' || (c == '.' && s != text);
        if (out->length <= BEGINNING)
            *cut = out->length;
        for (size_t i = 0; i < n; i++)
            hrf_strbuf_addf(out, is_plain ? "%c" : "%%%02X", (unsigned char)s[i]);
        s += n;
    }
}

static char *file_name(const char *text, bool *is_shortened)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    char hash[HRF_HASH_HEX];
    size_t cut = 0;
    escape(text, &out, &cut);
    *is_shortened = out.length > FILE_NAME_MOST;
    if (!*is_shortened)
        return hrf_strbuf_detach(&out);
    if (out.failed || hrf_hash_buffer(text, strlen(text), hash, NULL) != HRF_OK)
        return NULL;
    return hrf_format("%.*s-%.*s", (int)cut, out.text, HASH_DIGITS, hash);
}

char *hrf_text_file_name(const char *text)
{
    bool is_shortened;
    return file_name(text, &is_shortened);
}

char *hrf_text_shortened(const char *text)
{
    bool is_shortened;
    HRF_AUTO_FREE char *name = file_name(text, &is_shortened);
    char *result = is_shortened ? name : NULL;
    name = is_shortened ? NULL : name;
    return result;
}
