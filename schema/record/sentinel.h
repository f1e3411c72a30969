/* sentinel.h - what a job says of itself: start.json, beat.json and done.json in its attempt's
 * directory, written by the launcher through temporary names and renames.
 *
 * done.json is the primary truth of how a job ended; the scheduler is the second witness. It is
 * written into a block that was reserved at the start, so that a full disk cannot silence it.
 */
#ifndef HRF_SCHEMA_RECORD_SENTINEL_H
#define HRF_SCHEMA_RECORD_SENTINEL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_sentinel {
    char run_id[40];
    int64_t attempt;
    char host[128], boot[40];
    int64_t pid;
    uint64_t start_time;      /* of the launcher's process */
    int64_t start_ms, end_ms; /* wall; end 0 while it runs */
    bool exited;              /* of the worker: by itself */
    int64_t exit_code, signal;
    int64_t peak_memory_bytes; /* of the worker's process tree */
};

/* name: "start", "beat" or "done". */
HRF_CHECKED enum hrf_status hrf_sentinel_write(const char *directory, const char *name,
                                               const struct hrf_sentinel *sentinel,
                                               struct hrf_error *err);
/* HRF_E_AGAIN when it is not there (yet); HRF_E_USER when it is damaged. */
HRF_CHECKED enum hrf_status hrf_sentinel_read(const char *directory, const char *name,
                                              struct hrf_sentinel *out, struct hrf_error *err);
/* Reserves the space for done.json; hrf_sentinel_write("done") uses it. */
HRF_CHECKED enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err);

#endif
