/* private_directory.c - checks that nobody else can write a directory (private_directory.h). */
#include "base/private_directory.h"

#include "base/alloc.h"
#include "base/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A link in a directory that everybody may write into leads where its maker wants. */
static enum hrf_status check_link(const char *path, const struct stat *link, struct hrf_error *err)
{
    if (!S_ISLNK(link->st_mode) || link->st_uid == geteuid() || link->st_uid == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is a link that user %lu made, so what stands there is not trusted; "
                         "remove it, or name another folder (cache:, --cache, XDG_CACHE_HOME)",
                         path, (unsigned long)link->st_uid);
}

enum hrf_status hrf_private_directory_check(const char *path, struct hrf_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? HRF_OK
                   : hrf_error_set_errno(err, errno, "cannot look at the directory '%s'", path);
    HRF_TRY(check_link(path, &st, err));
    if (stat(path, &st) != 0)
        return hrf_error_set_errno(err, errno, "cannot look at the directory '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return hrf_error_set(err, HRF_E_USER, "'%s' exists and is not a directory", path);
    if (st.st_uid != geteuid())
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' belongs to user %lu and not to user %lu, who runs this, so what "
                             "stands there is not trusted; name another folder (cache:, --cache, "
                             "XDG_CACHE_HOME)",
                             path, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' can be written by others (mode %04o), so what stands there is "
                             "not trusted; remove what you do not know, then: chmod -R go-w '%s'",
                             path, (unsigned)st.st_mode & 07777U, path);
    return HRF_OK;
}

static enum hrf_status private_directory_make(const char *path, struct hrf_error *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return HRF_OK;
    if (errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot make the directory '%s'", path);
    HRF_AUTO_FREE char *parent = hrf_path_directory(path);
    HRF_TRY(strcmp(parent, path) != 0 ? private_directory_make(parent, err) : HRF_OK);
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return HRF_OK;
    return hrf_error_set_errno(err, errno, "cannot make the directory '%s'", path);
}

enum hrf_status hrf_private_directory_open(const char *path, struct hrf_error *err)
{
    HRF_TRY(private_directory_make(path, err));
    return hrf_private_directory_check(path, err);
}
