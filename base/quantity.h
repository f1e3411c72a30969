/* quantity.h - durations, bytes, counts and ranges as people read them: on terminals, in messages
 * and on pages.
 */
#ifndef HRF_BASE_QUANTITY_H
#define HRF_BASE_QUANTITY_H

#include <stdint.h>

struct hrf_quantity {
    char text[48];
};
struct hrf_quantity hrf_duration_text(double seconds); /* "12.3 s", "4 min 05 s", "3 h 07 min" */
struct hrf_quantity hrf_bytes_text(int64_t n_bytes);   /* "1.2 GB" (decimal units) */
/* "16 to 1024"; "at least 16" where `max` means that there is no limit, HRF_UNBOUNDED or more. */
#define HRF_UNBOUNDED 1e15 /* exact in a double */
struct hrf_quantity hrf_range_text(double min, double max);
struct hrf_quantity hrf_count_text(int64_t count); /* "12,345" */

#endif
