/* process_session.h - all processes of a session, as /proc shows them. A launcher that started one
 * process which starts others (mpirun its ranks) watches and ends them by it.
 *
 * Processes of other users are counted, too; a process that cannot be read counts as ended.
 */
#ifndef HRF_BASE_PROCESS_SESSION_H
#define HRF_BASE_PROCESS_SESSION_H

#include <stdint.h>
#include <sys/types.h>

struct hrf_process_session {
    int64_t n_processes; /* zombies left out */
    int64_t n_stopped;   /* how many of these SIGSTOP or a debugger has stopped */
    int64_t cpu_ticks;   /* processor time of those that run, in sysconf(_SC_CLK_TCK) */
};

/* Counts the processes of a session, but for the process `without` (0: for none). */
void hrf_process_session_look(pid_t session, pid_t without, struct hrf_process_session *out);
/* Sends SIGKILL to every process of a session, also to those that start meanwhile. It does nothing
 * to the caller's own session. */
void hrf_process_session_kill(pid_t session);

#endif
