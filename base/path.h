/* path.h - paths and whole files, written so that a crash leaves the old or the new one.
 *
 * Names are bytes: nothing here assumes that a path is printable. Strings returned through
 * `out` are heap strings (hrf_free).
 */
#ifndef HRF_BASE_PATH_H
#define HRF_BASE_PATH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "a" + "b" -> "a/b"; an absolute `name` is returned as it is. NULL when memory ran out. */
char *hrf_path_join(const char *directory, const char *name);
char *hrf_path_directory(const char *path);  /* "a/b" -> "a", "b" -> "." */
const char *hrf_path_name(const char *path); /* "a/b.tif" -> "b.tif", inside `path` */
char *hrf_path_stem(const char *path);       /* "a/b.tif" -> "b" */
char *hrf_path_extension(const char *path);  /* "a/b.TIF" -> "tif", "" when none */

/* An absolute path without "//", "/." and "X/..", in place; other paths are left alone. "X/.."
 * stays where X is a link (its parent is elsewhere) or has a glob's characters. */
void hrf_path_tidy(char *path);

bool hrf_path_exists(const char *path);
bool hrf_path_is_directory(const char *path);
int64_t hrf_path_size(const char *path); /* bytes; -1 when it cannot be read */
/* Tidied. */
HRF_CHECKED enum hrf_status hrf_path_absolute(const char *path, char **out, struct hrf_error *err);
/* mkdir -p. */
HRF_CHECKED enum hrf_status hrf_path_make_directories(const char *path, struct hrf_error *err);
/* rm -r; a missing path is fine. Does not follow links. */
HRF_CHECKED enum hrf_status hrf_path_remove_tree(const char *path, struct hrf_error *err);
/* fsync of a directory, so that a rename in it survives a power cut. */
HRF_CHECKED enum hrf_status hrf_path_sync_directory(const char *path, struct hrf_error *err);

/* Where programs keep what runs share: `cache` (may be NULL), else $XDG_CACHE_HOME/hires-flow, else
 * ~/.cache/hires-flow. Heap; NULL when memory ran out. */
char *hrf_cache_directory(const char *cache);

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

/* Any byte string as printable text for messages (base/text.h). NULL when memory ran out. */
char *hrf_text_printable(const char *text);
/* A slide name as a file name: every byte outside [A-Za-z0-9._-] and valid UTF-8
 * above 0x7f (but for marks of direction) becomes %XX, a leading '.' too. What would be longer than
 * 180 bytes, which leaves room for an ending, is cut and told apart by a part of its SHA-256. The
 * mapping is one to one. */
char *hrf_text_file_name(const char *text);
/* The same of a text that is too long, NULL of one that is not. */
char *hrf_text_shortened(const char *text);

#endif
