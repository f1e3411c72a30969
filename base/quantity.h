/* quantity.h - durations, bytes and counts as people read them: on terminals, in messages and on
 * pages.
 */
#ifndef HRF_BASE_QUANTITY_H
#define HRF_BASE_QUANTITY_H

#include <stdint.h>

struct hrf_quantity {
    char text[40];
};
struct hrf_quantity hrf_duration_text(double seconds); /* "12.3 s", "4 min 05 s", "3 h 07 min" */
struct hrf_quantity hrf_bytes_text(int64_t n_bytes);   /* "1.2 GB" (decimal units) */
struct hrf_quantity hrf_count_text(int64_t count);     /* "12,345" */

#endif
