/* host.h - this machine: its name, its boot, its processor, and its processes by number. */
#ifndef HRF_BASE_HOST_H
#define HRF_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hrf_process_stat {
    char state; /* proc(5): 'R' runs, 'S' sleeps, 'D' waits for a disk, 'T' is stopped */
    pid_t session;
    int64_t cpu_ticks;   /* processor time that it has used, in sysconf(_SC_CLK_TCK) */
    uint64_t start_time; /* in the same ticks, since boot */
};
/* Reads proc(5)'s stat. False if there is no such process, or if it is a zombie. */
bool hrf_process_stat_read(pid_t pid, struct hrf_process_stat *out);
/* Start time of a process in clock ticks since boot, 0 when there is no such process (or it is
 * a zombie): pid + start time identify a process for its life on one boot. */
uint64_t hrf_process_start_time(pid_t pid);
/* Identity of this boot, "" when unknown; out holds 40 bytes. */
void hrf_process_boot_id(char out[40]);
void hrf_process_host_name(char *out, size_t size);
/* Writes the model name of the machine's processors, or "" if it is not known. */
void hrf_process_processor(char *out, size_t size);
/* Returns how many bytes of memory this process may still take: the least of what the machine has
 * free or can free, what its control groups (version 2) allow and what its own limit (ulimit -v)
 * leaves. INT64_MAX if none of them is known. */
int64_t hrf_process_memory_left(void);

#endif
