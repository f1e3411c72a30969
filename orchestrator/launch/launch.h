/* launch.h - the first process of a job: starts its worker, speaks for it, ends with it.
 *
 * `hires-flow launch SPEC.json`. Writes start, beat and done sentinels beside the spec, forwards
 * signals to the worker's process group, ends the worker when the fence file appears, and takes
 * the worker down with itself when it is killed. One per attempt; single-threaded.
 *
 * Environment: HRF_ENGINE names another hires-engine (tests), HRF_BEAT_MS the beat's period.
 */
#ifndef HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H
#define HRF_ORCHESTRATOR_LAUNCH_LAUNCH_H

/* Exit code: the worker's; 128 + signal when a signal ended it; 75 when trying again can help and
 * no worker was started, or when the attempt was revoked; 2 for a spec that cannot be used. */
int hrf_launch_main(const char *spec_path);

#endif
