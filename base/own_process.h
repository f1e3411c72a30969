/* own_process.h - the calling process: its program, its processors, its memory. */
#ifndef HRF_BASE_OWN_PROCESS_H
#define HRF_BASE_OWN_PROCESS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Returns the absolute path of the running program (heap), to start it once more. */
HRF_CHECKED enum hrf_status hrf_process_self(char **out, struct hrf_error *err);

int64_t hrf_process_peak_memory(void); /* of this process, bytes */
int hrf_process_cpu_count(void);       /* processors that this process may use, >= 1 */
/* Writes the numbers of these processors, e.g. "0-3,8", or "" if they are not known. A list that
 * does not fit ends in "...". */
void hrf_process_cpu_list(char *out, size_t size);
/* Restricts all threads of this process, and those that start later, to these processors.
 * HRF_E_USER: the list is malformed, or none of its processors may be used. */
HRF_CHECKED enum hrf_status hrf_process_set_cpus(const char *list, struct hrf_error *err);

/* Returns freed memory to the system as far as possible. Call it after something large was freed
 * that will not be needed again. */
void hrf_memory_trim(void);
/* Returns how many bytes of this process are resident now; 0 if that is not known. */
int64_t hrf_memory_resident(void);

#endif
