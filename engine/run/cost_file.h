/* cost_file.h - measured costs of nodes, kept between runs in the cache directory.
 *
 * One file for each host, device, number of threads of a rank and number of ranks that compute at
 * once: costs/<host>.<device>.t<threads>.r<ranks>.json. Written by rename; the last writer wins.
 */
#ifndef HRF_ENGINE_RUN_COST_FILE_H
#define HRF_ENGINE_RUN_COST_FILE_H

#include "engine/plan/cost.h"

/* A heap path. `cache` as hrf_cache_directory() takes it; HRF_E_USER: other users may write there.
 */
HRF_CHECKED enum hrf_status hrf_cost_file_path(const char *cache, const char *device,
                                               int32_t n_threads, int32_t n_at_once, char **out,
                                               struct hrf_error *err);
/* Adds the file's entries to `table` and fits its rates; a file that is not there adds nothing. */
HRF_CHECKED enum hrf_status hrf_cost_file_read(const char *path, struct hrf_cost_table *table,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status
hrf_cost_file_write(const char *path, const struct hrf_cost_table *table, struct hrf_error *err);

#endif
