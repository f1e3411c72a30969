/* private_directory.h - directories whose content is trusted: caches, queue caches, sockets.
 *
 * Whoever can write into such a directory can change results (a calibration's ranges), so it must
 * belong to the user who runs the program, and no other user may write into it. One function checks
 * that for all of them. It does not detect a parent directory that another user may write into and
 * that is not sticky, and it does not protect from the administrator.
 */
#ifndef HRF_BASE_PRIVATE_DIRECTORY_H
#define HRF_BASE_PRIVATE_DIRECTORY_H

#include "base/error.h"

/* Makes the directory (mode 0700, missing parents too) if it does not exist, then checks it.
 * HRF_E_USER: it belongs to another user, is a link that another user made, or others may write
 * into it; the text says which, and what to do. */
HRF_CHECKED enum hrf_status hrf_private_directory_open(const char *path, struct hrf_error *err);
/* Checks the directory without making it, for readers; one that does not exist passes. */
HRF_CHECKED enum hrf_status hrf_private_directory_check(const char *path, struct hrf_error *err);

#endif
