/* start.h - the starts of one attempt: each takes a place of its own, by what only one can do.
 *
 * A scheduler may start the same attempt again, and a driver may take it back before it begins. The
 * first place is the attempt's own folder, for whoever makes the file "claim" there; the k-th is
 * the folder r<k> in it, for whoever makes that. Places are taken in turn: one that begins takes
 * the first free one, and does nothing when the place before its own is fenced (sentinel.h).
 *
 * A driver that takes the next place itself, and then fences it, has taken the attempt back: what
 * begins later finds the fence. Where it does not get that place, the attempt has begun.
 */
#ifndef HRF_SCHEMA_RECORD_START_H
#define HRF_SCHEMA_RECORD_START_H

#include "base/error.h"

#include <stdbool.h>

/* Starts of one attempt; more are refused. */
enum { HRF_MAX_STARTS = 100 };

/* The folder of the k-th start, 0 the attempt's own; heap, NULL when memory ran out. */
char *hrf_start_directory(const char *attempt, int k);
/* How many places are taken, `from` of which are known to be. */
int hrf_start_count(const char *attempt, int from);
/* Takes the k-th place; *is_ours: it was free until now. */
HRF_CHECKED enum hrf_status hrf_start_take(const char *attempt, int k, bool *is_ours,
                                           struct hrf_error *err);
/* Fences all starts that there are, and those that begin meanwhile; later ones find the last fence.
 */
HRF_CHECKED enum hrf_status hrf_start_revoke(const char *attempt, struct hrf_error *err);

#endif
