/* process_session.c - walks /proc: a session has no system call of its own. */
#include "base/process_session.h"

#include "base/clock.h"
#include "base/host.h"

#include <assert.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the number of processes that `each` was called with. */
static int64_t walk(pid_t session,
                    void (*each)(pid_t pid, const struct hrf_process_stat *stat, void *context),
                    void *context)
{
    int64_t n = 0;
    DIR *stream = opendir("/proc");
    for (const struct dirent *e; stream != NULL && (e = readdir(stream)) != NULL;) {
        struct hrf_process_stat stat;
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10); /* 0 of what is no process */
        if (pid <= 0 || !hrf_process_stat_read(pid, &stat) || stat.session != session)
            continue;
        each(pid, &stat, context);
        n++;
    }
    if (stream != NULL)
        closedir(stream);
    return n;
}

struct look {
    pid_t without;
    struct hrf_process_session *sum;
};

static void process_session_add(pid_t pid, const struct hrf_process_stat *stat, void *context)
{
    struct look *look = context;
    if (pid == look->without)
        return;
    look->sum->n_processes++;
    look->sum->n_stopped += stat->state == 'T' || stat->state == 't';
    look->sum->cpu_ticks += stat->cpu_ticks;
}

void hrf_process_session_look(pid_t session, pid_t without, struct hrf_process_session *out)
{
    struct look look = { .without = without, .sum = out };
    *out = (struct hrf_process_session){ .n_processes = 0 };
    walk(session, process_session_add, &look);
}

static void end(pid_t pid, const struct hrf_process_stat *stat, void *context)
{
    (void)stat;
    (void)context;
    kill(pid, SIGKILL);
}

void hrf_process_session_kill(pid_t session)
{
    enum { ROUNDS = 20 }; /* one that was killed may be there a while; one that forks is found */
    assert(session > 0 && session != getsid(0));
    for (int i = 0; i < ROUNDS && walk(session, end, NULL) > 0; i++)
        hrf_clock_sleep_ms(5);
}
