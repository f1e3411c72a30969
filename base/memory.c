#include "base/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

void hrf_memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0); /* ci-allow */
#endif
}

/* Source: proc(5), statm: the second number is the resident pages. */
int64_t hrf_memory_resident(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL)
        return 0;
    const int n = fscanf(file, "%*s %lld", &pages);
    fclose(file);
    return n == 1 ? (int64_t)pages * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}
