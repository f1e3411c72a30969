/* path.c - text operations on paths, and questions to the file system (path.h). */
#include "base/path.h"

#include "base/alloc.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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
        if (getcwd(current, 4096) == NULL)
            return hrf_error_set_errno(err, errno, "cannot find the current directory");
        result = hrf_path_join(current, path);
    }
    hrf_path_tidy(result);
    *out = result;
    return HRF_OK;
}
