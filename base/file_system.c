/* file_system.c - asks what kind of file system a path is on, and refreshes what it caches
 * (file_system.h). */
#include "base/file_system.h"

#include "base/alloc.h"
#include "base/path.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Numbers: statfs(2), and each project's own headers. */
static const struct {
    unsigned long type;
    const char *name;
    bool is_shared;
} known[] = { { 0xEF53, "ext4", false },        { 0x58465342, "XFS", false },
              { 0x9123683E, "Btrfs", false },   { 0x01021994, "tmpfs", false },
              { 0x794C7630, "overlay", false }, { 0x2FC12FC1, "ZFS", false },
              { 0x6969, "NFS", true },          { 0x0BD00BD0, "Lustre", true },
              { 0x47504653, "GPFS", true },     { 0x19830326, "BeeGFS", true },
              { 0x00C36400, "Ceph", true },     { 0xFF534D42, "CIFS", true },
              { 0xFE534D42, "SMB2", true },     { 0x517B, "SMB", true },
              { 0x5346414F, "AFS", true },      { 0x20030528, "OrangeFS", true },
              { 0x01021997, "9p", true },       { 0x65735546, "FUSE", true } };

const char *hrf_file_system_name(unsigned long type, bool *is_shared)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].type != (type & 0xffffffffUL))
            continue;
        *is_shared = known[i].is_shared;
        return known[i].name;
    }
    *is_shared = false;
    return "another";
}

const char *hrf_file_system_of(const char *path, bool *is_shared)
{
    struct statfs fs;
    *is_shared = false;
    return statfs(path, &fs) == 0 ? hrf_file_system_name((unsigned long)fs.f_type, is_shared)
                                  : "another";
}

void hrf_file_system_refresh(const char *directory)
{
    struct stat info;
    HRF_AUTO_CLOSE int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) != 0)
        return; /* gone, or out of reach: as if nothing were there */
}

int64_t hrf_file_system_free(const char *path)
{
    HRF_AUTO_FREE char *at = NULL;
    struct statvfs fs;
    if (hrf_path_absolute(path, &at, NULL) != HRF_OK)
        return -1;
    while (statvfs(at, &fs) != 0) {
        char *slash = strrchr(at, '/');
        if (slash == NULL || slash == at)
            return -1;
        *slash = '\0';
    }
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

bool hrf_file_system_is_full(const char *path)
{
    enum { MIN_BYTES = 32 << 10 }; /* of SQLite's index of a log, a file of the least size */
    const int64_t n_free = hrf_file_system_free(path);
    return n_free >= 0 && n_free < MIN_BYTES;
}
