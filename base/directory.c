/* directory.c - creates, syncs and removes directories (directory.h). */
#define _XOPEN_SOURCE 700 /* nftw() */
#include "base/directory.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/path.h"
#include "base/sort.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum hrf_status hrf_path_make_directories(const char *path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *part = hrf_strdup(path);
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

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

enum hrf_status hrf_path_remove_tree(const char *path, struct hrf_error *err)
{
    enum { MAX_OPEN = 16 }; /* directories at once; deeper trees cost time only */
    if (nftw(path, remove_one, MAX_OPEN, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return HRF_OK;
    return hrf_error_set_errno(err, errno, "cannot remove '%s' and all in it", path);
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

enum hrf_status hrf_path_list_directory(const char *path, struct hrf_text_list *out,
                                        struct hrf_error *err)
{
    struct hrf_text_list list = { NULL, 0 };
    size_t capacity = 0;
    DIR *stream = opendir(path);
    if (stream == NULL)
        return hrf_error_set_errno(err, errno, "cannot open the folder '%s'", path);
    for (const struct dirent *e; (e = readdir(stream)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        HRF_RESERVE(list.items, capacity, list.n_items + 1);
        list.items[list.n_items++] = hrf_strdup(e->d_name);
    }
    closedir(stream);
    if (list.n_items > 1)
        qsort(list.items, list.n_items, sizeof list.items[0], hrf_compare_texts);
    *out = list;
    return HRF_OK;
}
