/* own_process.c - what this process knows and sets about itself (own_process.h). */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/own_process.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int64_t hrf_process_peak_memory(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

int hrf_process_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

void hrf_process_cpu_list(char *out, size_t size)
{
    cpu_set_t set;
    size_t n = 0;
    out[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t first = 0; first < CPU_SETSIZE; first++) {
        size_t last = first;
        char range[32];
        if (!CPU_ISSET(first, &set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        snprintf(range, sizeof range, last > first ? "%s%zu-%zu" : "%s%zu", n > 0 ? "," : "", first,
                 last);
        if (n + strlen(range) + sizeof "..." > size) {
            snprintf(out + n, size - n, "...");
            return;
        }
        n += (size_t)snprintf(out + n, size - n, "%s", range);
        first = last;
    }
}

static bool parse_cpus(const char *list, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        char *end;
        const long first = strtol(at, &end, 10);
        if (end == at)
            return false;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (first < 0 || last < first || last >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
            return false;
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET((size_t)cpu, set);
        at = end;
    }
    return CPU_COUNT(set) > 0;
}

enum hrf_status hrf_process_set_cpus(const char *list, struct hrf_error *err)
{
    cpu_set_t set;
    struct dirent *entry;
    if (!parse_cpus(list, &set))
        return hrf_error_set(err, HRF_E_USER, "'%s' is no list of processors such as 0-3,8", list);
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL)
        return hrf_error_set_errno(err, errno, "cannot list the threads of this process");
    int failed = 0;
    while ((entry = readdir(threads)) != NULL) {
        const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && sched_setaffinity(thread, sizeof set, &set) != 0 && errno != ESRCH)
            failed = errno;
    }
    closedir(threads);
    return failed == 0 ? HRF_OK
                       : hrf_error_set_errno(err, failed, "cannot keep to the processors %s", list);
}

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

enum hrf_status hrf_process_self(char **out, struct hrf_error *err)
{
    char path[4096];
    const char *program = path, *given = getenv("HRF_PROGRAM");
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return hrf_error_set_errno(err, errno, "cannot find the path of this program");
    path[n] = '\0';
    static const char deleted[] = " (deleted)"; /* Linux's words; another build may stand there */
    char *end = path + n - strlen(deleted);
    if (end > path && strcmp(end, deleted) == 0 && access(path, F_OK) != 0) {
        *end = '\0';
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' was replaced since it was started; start it again", path);
    }
    /* Started through the dynamic linker (tools/bundle), whose path this is. */
    const char *base = strrchr(path, '/');
    if (given != NULL && base != NULL && strncmp(base, "/ld-", 4) == 0)
        program = given;
    char *copy = hrf_strdup(program);
    *out = copy;
    return HRF_OK;
}
