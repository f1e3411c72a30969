/* host.c - names of this host, its boot and its processor, and its processes by number (host.h). */
#include "base/host.h"

#include "base/alloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool hrf_process_stat_read(pid_t pid, struct hrf_process_stat *out)
{
    enum {
        STATE = 3,
        SESSION = 6,
        USER_TIME = 14,
        KERNEL_TIME = 15,
        START_TIME = 22
    }; /* proc(5) */
    char path[64], text[1024];
    uint64_t fields[START_TIME + 1] = { 0 };
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    HRF_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')'); /* the name may hold spaces and brackets */
    if (at == NULL || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X')
        return false;
    const char state = at[2];
    at += 2;
    for (int i = STATE + 1; i <= START_TIME; i++) {
        if ((at = strchr(at, ' ')) == NULL)
            return false;
        fields[i] = strtoull(++at, NULL, 10);
    }
    *out = (struct hrf_process_stat){ .state = state,
                                      .session = (pid_t)fields[SESSION],
                                      .cpu_ticks = (int64_t)(fields[USER_TIME] +
                                                             fields[KERNEL_TIME]),
                                      .start_time = fields[START_TIME] };
    return true;
}

uint64_t hrf_process_start_time(pid_t pid)
{
    struct hrf_process_stat stat;
    return hrf_process_stat_read(pid, &stat) ? stat.start_time : 0;
}

void hrf_process_boot_id(char out[40])
{
    HRF_AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 39) : 0;
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

void hrf_process_host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0)
        snprintf(out, size, "unknown");
    out[size - 1] = '\0';
}

void hrf_process_processor(char *out, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    out[0] = '\0';
    while (file != NULL && out[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        value += 1 + strspn(value + 1, " ");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    }
    if (file != NULL)
        fclose(file);
}

/* The number that follows `key` in a file of the kernel's, -1 if there is none ("max"). */
static int64_t number_in(const char *path, const char *key)
{
    char line[256], *end;
    long long value = -1;
    const size_t n = strlen(key);
    FILE *file = fopen(path, "re");
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, n) != 0)
            continue;
        value = strtoll(line + n, &end, 10);
        if (end == line + n)
            value = -1;
    }
    if (file != NULL)
        fclose(file);
    return value;
}

/* What the control group and all above it leave; caches of files count as left. */
static int64_t group_memory_left(void)
{
    int64_t left = INT64_MAX;
    char group[512] = "", path[1024];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && group[0] == '\0' && fgets(path, sizeof path, file) != NULL)
        if (strncmp(path, "0::", 3) == 0)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    if (file != NULL)
        fclose(file);
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        const int64_t max = number_in(path, "");
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
        const int64_t used = number_in(path, "");
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
        const int64_t cached = number_in(path, "inactive_file ");
        const int64_t here = max - used + (cached > 0 ? cached : 0);
        if (max >= 0 && used >= 0 && here < left)
            left = here > 0 ? here : 0;
    }
    return left;
}

int64_t hrf_process_memory_left(void)
{
    enum { KIB = 1024 };
    struct rlimit limit;
    int64_t left = group_memory_left();
    const int64_t free_kib = number_in("/proc/meminfo", "MemAvailable:");
    if (free_kib >= 0 && free_kib * KIB < left)
        left = free_kib * KIB;
    const int64_t size_kib = number_in("/proc/self/status", "VmSize:");
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < INT64_MAX && size_kib >= 0) {
        const int64_t own = (int64_t)limit.rlim_cur - size_kib * KIB;
        left = own < left ? own : left;
    }
    return left > 0 ? left : 0;
}
