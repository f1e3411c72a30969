/* owner.c - identifies processes and finds out whether they are alive. */
#include "schema/store/owner.h"

#include "base/clock.h"
#include "base/host.h"

#include <string.h>
#include <unistd.h>

enum { STALE_MS = 90000 };

struct hrf_owner hrf_owner_self(void)
{
    struct hrf_owner owner = { .pid = getpid(), .beat_ms = hrf_clock_wall_ms() };
    hrf_process_host_name(owner.host, sizeof owner.host);
    hrf_process_boot_id(owner.boot);
    owner.start_time = hrf_process_start_time(getpid());
    ssize_t n = readlink("/proc/self/ns/pid", owner.pid_space, sizeof owner.pid_space - 1);
    owner.pid_space[n > 0 ? n : 0] = '\0';
    return owner;
}

bool hrf_owner_is_same(const struct hrf_owner *a, const struct hrf_owner *b)
{
    return a->pid == b->pid && a->start_time == b->start_time && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot, b->boot) == 0 && strcmp(a->pid_space, b->pid_space) == 0;
}

/* A process of an earlier boot of this host is dead; a process that is visible in /proc is alive.
 */
enum hrf_owner_life hrf_owner_life(const struct hrf_owner *owner, const struct hrf_owner *me)
{
    bool same_boot = strcmp(owner->boot, me->boot) == 0;
    if (strcmp(owner->host, me->host) == 0 && !same_boot)
        return HRF_OWNER_DEAD;
    if (same_boot && strcmp(owner->pid_space, me->pid_space) == 0)
        return owner->start_time != 0 &&
                       hrf_process_start_time((pid_t)owner->pid) == owner->start_time
                   ? HRF_OWNER_LIVING
                   : HRF_OWNER_DEAD;
    const int64_t stale_ms = hrf_clock_setting_ms("HRF_LEASE_STALE_MS", 0, STALE_MS);
    return me->beat_ms - owner->beat_ms < stale_ms ? HRF_OWNER_LIVING : HRF_OWNER_SILENT;
}
