/* crash.h - named points at which a test may kill the process, as a power cut would.
 *
 * HRF_CRASH_AT=NAME or NAME:K kills this process with SIGKILL at the K-th pass (default 1) of
 * the point NAME; with HRF_CRASH_SIGNAL=STOP it is stopped there instead, as if it hung, and with
 * MEMORY a small allocation fails there (alloc.h).
 * HRF_CRASH_LIST=FILE appends the name of every point passed to FILE: a test runs once to learn the
 * points, then once for each of them. Without either variable a point costs one branch.
 */
#ifndef HRF_BASE_CRASH_H
#define HRF_BASE_CRASH_H

/* name: a string literal "program.action", e.g. "store.commit.before". */
void hrf_crash_point(const char *name);

#endif
