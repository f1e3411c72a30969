/* cost_file.h - measured costs of nodes, kept between runs in the cache directory.
 *
 * There is one file for each host, device, number of threads per rank and number of ranks that
 * compute at the same time: costs/<host>.<device>.t<threads>.r<ranks>.json. It is replaced by
 * rename; the last writer wins.
 */
#ifndef HRF_ENGINE_RUN_COST_FILE_H
#define HRF_ENGINE_RUN_COST_FILE_H

#include "engine/plan/cost.h"

/* *out is a heap path. `cache` is as for hrf_cache_directory(). HRF_E_USER if other users may write
 * to that directory. */
HRF_CHECKED enum hrf_status hrf_cost_file_path(const char *cache, const char *device,
                                               int32_t n_threads, int32_t n_at_once, char **out,
                                               struct hrf_error *err);
/* Adds the entries of the file to `table` and fits its rates. A missing file adds nothing. */
HRF_CHECKED enum hrf_status hrf_cost_file_read(const char *path, struct hrf_cost_table *table,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status
hrf_cost_file_write(const char *path, const struct hrf_cost_table *table, struct hrf_error *err);

#endif
