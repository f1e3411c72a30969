/* start.h - the starts of one attempt, each with a folder that only one process can own.
 *
 * A scheduler may start the same attempt again, and a driver may revoke an attempt before it
 * starts. Start 0 owns the attempt's own folder, start k the folder r<k> in it. A launcher owns
 * start 0 if it creates the file "claim", and start k if it creates the folder r<k>: both fail if
 * they exist. A launcher takes the first start that is free, and does nothing if the start before
 * its own is fenced (sentinel.h).
 *
 * A driver revokes an attempt by taking the next start itself and fencing it: every later launcher
 * then finds the fence. If the driver does not get that start, the attempt has begun.
 */
#ifndef HRF_SCHEMA_RECORD_START_H
#define HRF_SCHEMA_RECORD_START_H

#include "base/error.h"

#include <stdbool.h>

/* The most starts of one attempt. */
enum { HRF_MAX_STARTS = 100 };

/* The folder of start k: heap. */
char *hrf_start_directory(const char *attempt, int k);
/* The number of starts that are taken. The first `from` of them are known to be. */
int hrf_start_count(const char *attempt, int from);
/* Takes start k. *is_ours: it was free and now belongs to the caller. */
HRF_CHECKED enum hrf_status hrf_start_take(const char *attempt, int k, bool *is_ours,
                                           struct hrf_error *err);
/* Fences all starts, and those that begin meanwhile. Later ones find the last fence. */
HRF_CHECKED enum hrf_status hrf_start_revoke(const char *attempt, struct hrf_error *err);

#endif
