/* launch.h - the process that a job is: starts the worker, watches it, tells how it ended.
 *
 * Writes start.json, beat.json (every 30 s; HRF_BEAT_MS for tests) and done.json beside the
 * spec; the worker's output goes to `log` there. SIGTERM, SIGINT and SIGUSR1 are passed on. A
 * file "revoked" beside the spec ends the worker. The worker dies with the launcher.
 */
#ifndef HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H
#define HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H

/* Returns the exit code: the worker's, 128 + its signal, or 1 when it could not be started. */
int hrf_launch(const char *spec_path);

#endif
