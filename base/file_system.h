/* file_system.h - the file system that a path is on. Whether machines share it decides how files
 * are locked and how late another machine's files are seen. */
#ifndef HRF_BASE_FILE_SYSTEM_H
#define HRF_BASE_FILE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the name of a file system by statfs(2)'s f_type. A type that is not in the table is
 * "another" and counts as not shared. */
const char *hrf_file_system_name(unsigned long type, bool *is_shared);
/* Returns the name of the file system that holds `path`. */
const char *hrf_file_system_of(const char *path, bool *is_shared);
/* Returns how many bytes this user may still write on the file system of `path`, or of its nearest
 * folder that exists; -1 if that is not known. */
int64_t hrf_file_system_free(const char *path);
/* True if so little space is left that a store must not be mapped into memory: where a written page
 * needs a new block (btrfs, sparse files), a full disk ends the process with SIGBUS. */
bool hrf_file_system_is_full(const char *path);
/* Opens a directory, which makes an NFS client ask its server what is in it. Otherwise a file that
 * was looked for and not found may stay unseen for a minute (nfs(5), "Data and metadata
 * coherence"). */
void hrf_file_system_refresh(const char *directory);

#endif
