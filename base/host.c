/* host.c - names of this host, its boot and its processor, and its processes by number (host.h). */
#include "base/host.h"

#include "base/alloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
