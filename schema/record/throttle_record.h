/* throttle_record.h - throttle.json in a run directory: the number of jobs that the driver may have
 * at a time, as `hires-flow throttle` sets it. It holds until it is removed. */
#ifndef HRF_SCHEMA_RECORD_THROTTLE_RECORD_H
#define HRF_SCHEMA_RECORD_THROTTLE_RECORD_H

#include "base/error.h"

#include <stdint.h>

/* Sets the number, max_jobs >= 0; with 0 nothing new is started. */
HRF_CHECKED enum hrf_status hrf_throttle_write(const char *directory, int64_t max_jobs,
                                               struct hrf_error *err);
/* Reads the number. HRF_E_AGAIN: none is set. */
HRF_CHECKED enum hrf_status hrf_throttle_read(const char *directory, int64_t *max_jobs,
                                              struct hrf_error *err);
/* Removes the number; it is fine if none is set. */
HRF_CHECKED enum hrf_status hrf_throttle_remove(const char *directory, struct hrf_error *err);

#endif
