/* file_system.h - what kind of file system a path is on: whether machines share it, which decides
 * how files are locked and how late another machine's files are seen. */
#ifndef HRF_BASE_FILE_SYSTEM_H
#define HRF_BASE_FILE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* By statfs(2)'s f_type; "another" for what is not known here, which counts as not shared. */
const char *hrf_file_system_name(unsigned long type, bool *is_shared);
/* Of the file system that holds `path`. */
const char *hrf_file_system_of(const char *path, bool *is_shared);
/* Makes an NFS client ask its server what is in a directory, which opening it does; otherwise what
 * was looked for and not found may stay unseen for a minute (nfs(5), "Data and metadata
 * coherence"). */
/* Bytes that this user may still write where the path is, or its nearest folder that is there; -1:
 * not known. */
int64_t hrf_file_system_free(const char *path);
void hrf_file_system_refresh(const char *directory);

#endif
