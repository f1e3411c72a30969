/* throttle_record.h - throttle.json in a run directory: how many jobs its driver may have at a
 * time, as somebody said beside it (`hires-flow throttle`). It holds until it is taken away. */
#ifndef HRF_SCHEMA_RECORD_THROTTLE_RECORD_H
#define HRF_SCHEMA_RECORD_THROTTLE_RECORD_H

#include "base/error.h"

#include <stdint.h>

/* max_jobs >= 0; 0: nothing new is started. */
HRF_CHECKED enum hrf_status hrf_throttle_write(const char *directory, int64_t max_jobs,
                                               struct hrf_error *err);
/* HRF_E_AGAIN when there is none. */
HRF_CHECKED enum hrf_status hrf_throttle_read(const char *directory, int64_t *max_jobs,
                                              struct hrf_error *err);
/* None is fine. */
HRF_CHECKED enum hrf_status hrf_throttle_remove(const char *directory, struct hrf_error *err);

#endif
