#include "base/directory.h"

#include "base/alloc.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
