/* memory.h - the process's memory as the system sees it. */
#ifndef HRF_BASE_MEMORY_H
#define HRF_BASE_MEMORY_H

#include <stdint.h>

/* Gives the system back what was freed, as far as it can: after something large that is not coming
 * again. */
void hrf_memory_trim(void);
/* Bytes that are resident now; 0: not known. */
int64_t hrf_memory_resident(void);

#endif
