/* file.h - opens and reads files that users name, and replaces files so that a crash leaves either
 * the old or the new one. */
#ifndef HRF_BASE_FILE_H
#define HRF_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a file that a user has named, for reading: a regular file or a link to one. For a FIFO, a
 * socket or a device it returns HRF_E_USER with a text that says what it is, without waiting for
 * it. The caller closes *fd. */
HRF_CHECKED enum hrf_status hrf_file_open(const char *path, int *fd, struct hrf_error *err);
/* Makes the check of hrf_file_open() without opening the file, for libraries that open files by
 * their path. */
HRF_CHECKED enum hrf_status hrf_file_check(const char *path, struct hrf_error *err);
/* Reads a whole file, opened as hrf_file_open() does, into *out (heap), with a NUL after its
 * *n_bytes. A file of more than `limit` bytes is refused. */
HRF_CHECKED enum hrf_status hrf_file_read(const char *path, size_t limit, char **out,
                                          size_t *n_bytes, struct hrf_error *err);
/* The same of a regular file below `directory`; `path` is relative to the directory, or begins with
 * it. Neither the file nor a folder on the way may be a link, because a link could lead out of the
 * directory. This is for folders that others may write to, such as a run directory. */
HRF_CHECKED enum hrf_status hrf_file_read_below(const char *directory, const char *path,
                                                size_t limit, char **out, size_t *n_bytes,
                                                struct hrf_error *err);
/* Reads its last bytes, at most `limit`, with a NUL after them; *is_cut: there are more before. */
HRF_CHECKED enum hrf_status hrf_file_read_tail_below(const char *directory, const char *path,
                                                     size_t limit, char **out, size_t *n_bytes,
                                                     bool *is_cut, struct hrf_error *err);
/* Replaces a file: writes a temporary file beside it, syncs it, renames it and syncs the directory.
 * If `path` is a device or a pipe, the bytes are written to it directly. */
HRF_CHECKED enum hrf_status hrf_file_write_atomic(const char *path, const void *bytes,
                                                  size_t n_bytes, struct hrf_error *err);
/* The same in steps, for writers that stream: hrf_file_temporary() makes a new file beside `path`
 * and opens it for writing, and hrf_file_commit() renames it to `path`, or removes it on failure.
 * The temporary name (path.tmp.<12 hex digits>) is random, and an existing file is neither followed
 * nor reused, so that writers on several hosts or in several containers never share one. The caller
 * frees *temporary and closes *fd. Neither works for devices and pipes. */
HRF_CHECKED enum hrf_status hrf_file_temporary(const char *path, char **temporary, int *fd,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_file_commit(const char *temporary, const char *path,
                                            struct hrf_error *err);
/* Calls write() until all bytes are written. `path` is for messages. */
HRF_CHECKED enum hrf_status hrf_file_write_all(int fd, const void *bytes, size_t n_bytes,
                                               const char *path, struct hrf_error *err);

/* Returns how many bytes a file of this process may have (ulimit -f); INT64_MAX means no limit. */
int64_t hrf_file_size_limit(void);

#endif
