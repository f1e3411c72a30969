/* launch.h - the process that a job is: starts the worker, watches it, tells how it ended.
 *
 * Writes start.json, beat.json (every 30 s; HRF_BEAT_MS for tests) and done.json beside the
 * spec; the worker's output goes to `log` there. SIGTERM, SIGINT and SIGUSR1 are passed on to
 * the worker's process group; after the first two it has 10 s. A file "revoked" beside the spec
 * does the same as SIGTERM, and done.json says so. A worker whose work is over (its last task has
 * a status, or its ranks have said their last word) and that is still there after 4 minutes (twice
 * HRF_RANK_DEADLINE_MS) is ended so, too: nothing is lost by that. The worker dies with the
 * launcher, and what a worker leaves running ends with it. The executor starts it in a session of
 * its own. Single-threaded; blocks its signals.
 */
#ifndef HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H
#define HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H

#include "base/error.h"

/* Returns the exit code: the worker's, or 128 + its signal; 127 when it could not be started, 75
 * when trying again may help (no space, no memory), 2 when the spec cannot be used. */
int hrf_launch(const char *spec_path);

/* The engine that everything here starts: what the environment variable HRF_ENGINE names, else
 * hires-engine in the folder of this program. Heap. */
HRF_CHECKED enum hrf_status hrf_launch_find_engine(char **path, struct hrf_error *err);

#endif
