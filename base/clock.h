/* clock.h - time. Durations come from the monotonic clock; wall time is for people. */
#ifndef HRF_BASE_CLOCK_H
#define HRF_BASE_CLOCK_H

#include <stdint.h>

int64_t hrf_clock_ns(void);             /* monotonic */
int64_t hrf_clock_ms(void);             /* monotonic */
double hrf_clock_seconds(void);         /* monotonic */
double hrf_clock_thread_seconds(void);  /* processor time of the calling thread */
double hrf_clock_process_seconds(void); /* processor time of all threads of this process */
int64_t hrf_clock_wall_ms(void);        /* since 1970-01-01 UTC */
/* Returns the milliseconds that an environment variable holds, or `otherwise` if it is not set, is
 * not a number or is below `min`. Tests shorten waits by such variables. */
int64_t hrf_clock_setting_ms(const char *variable, int64_t min, int64_t otherwise);
void hrf_clock_sleep_ms(int64_t ms); /* returns early on a signal */
/* "2026-01-31T23:59:59Z"; out holds at least 21 bytes. */
void hrf_clock_iso8601(int64_t wall_ms, char out[24]);

#endif
