/* process_session.h - all processes of a session, as /proc shows them: for whoever started one
 * process that starts others (mpirun its ranks), watches over them and ends them.
 *
 * Processes of other users are counted, too; what cannot be read is taken for gone.
 */
#ifndef HRF_BASE_PROCESS_SESSION_H
#define HRF_BASE_PROCESS_SESSION_H

#include <stdint.h>
#include <sys/types.h>

struct hrf_process_session {
    int64_t n_processes; /* zombies left out */
    int64_t n_stopped;   /* of those, by SIGSTOP or a debugger */
    int64_t cpu_ticks;   /* that they have used, in sysconf(_SC_CLK_TCK); ended ones left out */
};

/* `without`: a process that is not counted; 0 = none. */
void hrf_process_session_look(pid_t session, pid_t without, struct hrf_process_session *out);
/* SIGKILL for every process of it, also for those that start meanwhile. Never for the caller's own
 * session. */
void hrf_process_session_kill(pid_t session);

#endif
