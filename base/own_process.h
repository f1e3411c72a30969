/* own_process.h - the process that calls: its program, its processors, its memory. */
#ifndef HRF_BASE_OWN_PROCESS_H
#define HRF_BASE_OWN_PROCESS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Absolute path of the running program (heap): what starts it anew. */
HRF_CHECKED enum hrf_status hrf_process_self(char **out, struct hrf_error *err);

int64_t hrf_process_peak_memory(void); /* of this process, bytes */
int hrf_process_cpu_count(void);       /* processors that this process may use, >= 1 */
/* Which they are, "0-3,8"; "" when that is not told. What does not fit is left out behind "...". */
void hrf_process_cpu_list(char *out, size_t size);
/* All threads of this process, and those to come, keep to these processors. HRF_E_USER: not such a
 * list, or none of them may be used. */
HRF_CHECKED enum hrf_status hrf_process_set_cpus(const char *list, struct hrf_error *err);

/* Gives the system back what was freed, as far as it can: after something large that is not coming
 * again. */
void hrf_memory_trim(void);
/* Bytes that are resident now; 0: not known. */
int64_t hrf_memory_resident(void);

#endif
