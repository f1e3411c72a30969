/* cache.h - the directory that keeps what runs of one user share: calibrations, tuned kernels,
 * measured costs. */
#ifndef HRF_BASE_CACHE_H
#define HRF_BASE_CACHE_H

#include "base/error.h"

/* Where programs keep what runs share: `cache` (may be NULL), else $XDG_CACHE_HOME/hires-flow, else
 * ~/.cache/hires-flow. Heap. */
char *hrf_cache_directory(const char *cache);
/* The directory `folder` (NULL: itself) of the cache that `cache` names as for
 * hrf_cache_directory(), both checked and neither made. *out is a heap path. */
HRF_CHECKED enum hrf_status hrf_cache_folder(const char *cache, const char *folder, char **out,
                                             struct hrf_error *err);

#endif
