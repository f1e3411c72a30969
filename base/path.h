/* path.h - joins paths, takes them apart, makes them absolute, and says what a path names.
 *
 * Names are bytes: nothing here assumes that a path is printable. Returned strings are heap strings
 * (hrf_free) where they are not const.
 */
#ifndef HRF_BASE_PATH_H
#define HRF_BASE_PATH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* "a" + "b" -> "a/b"; an absolute `name` is returned as it is. */
char *hrf_path_join(const char *directory, const char *name);
char *hrf_path_directory(const char *path);  /* "a/b" -> "a", "b" -> "." */
const char *hrf_path_name(const char *path); /* "a/b.tif" -> "b.tif", inside `path` */
char *hrf_path_stem(const char *path);       /* "a/b.tif" -> "b" */
char *hrf_path_extension(const char *path);  /* "a/b.TIF" -> "tif", "" when none */

/* Removes "//", "/." and "X/.." from an absolute path, in place; a relative path stays as it is.
 * "X/.." is kept if X is a link, whose parent is elsewhere, or contains characters of a glob. */
void hrf_path_tidy(char *path);

bool hrf_path_exists(const char *path);
bool hrf_path_is_directory(const char *path);
int64_t hrf_path_size(const char *path); /* bytes; -1 when it cannot be read */
/* Makes a path absolute and tidies it (heap). The path need not exist. */
HRF_CHECKED enum hrf_status hrf_path_absolute(const char *path, char **out, struct hrf_error *err);
#endif
