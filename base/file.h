/* file.h - whole files, written so that a crash leaves the old or the new one. */
#ifndef HRF_BASE_FILE_H
#define HRF_BASE_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Opens a file that a user has named, for reading: a regular file or a link to one. A FIFO, a
 * socket or a device is refused by that name (HRF_E_USER) and never waited for. *fd is the
 * caller's. */
HRF_CHECKED enum hrf_status hrf_file_open(const char *path, int *fd, struct hrf_error *err);
/* The same check, for libraries that open files by their path. */
HRF_CHECKED enum hrf_status hrf_file_check(const char *path, struct hrf_error *err);
/* *out gets n_bytes and one NUL after them. Opened as hrf_file_open() does; files over `limit`
 * bytes are refused. */
HRF_CHECKED enum hrf_status hrf_file_read(const char *path, size_t limit, char **out,
                                          size_t *n_bytes, struct hrf_error *err);
/* Temporary name beside it, write, fsync, rename, fsync of the directory. A device or a pipe is
 * written as it is: nothing is put in its place. */
HRF_CHECKED enum hrf_status hrf_file_write_atomic(const char *path, const void *bytes,
                                                  size_t n_bytes, struct hrf_error *err);
/* The same in three steps, for writers that stream. A new file beside `path` is made and opened for
 * writing; nothing that stands there is followed or reused, and its name (path.tmp.<12 hex digits>)
 * is random, so that writers on several hosts or in several containers never share one. *temporary
 * (heap) and *fd are the caller's. Commit renames it, and on failure removes it. Not for devices
 * and pipes. */
HRF_CHECKED enum hrf_status hrf_file_temporary(const char *path, char **temporary, int *fd,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_file_commit(const char *temporary, const char *path,
                                            struct hrf_error *err);
/* write() until done. */
HRF_CHECKED enum hrf_status hrf_file_write_all(int fd, const void *bytes, size_t n_bytes,
                                               const char *path, struct hrf_error *err);

#endif
