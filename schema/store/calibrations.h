/* calibrations.h - the calibrations that runs share: one SQLite file in the cache directory.
 *
 * A calibration is there whole or not at all, under its key, with a checksum of its own (see
 * schema/record/calibration.h). Any number of processes may read and write at a time; the first
 * one to keep a key wins, and equal keys mean equal ranges.
 */
#ifndef HRF_SCHEMA_STORE_CALIBRATIONS_H
#define HRF_SCHEMA_STORE_CALIBRATIONS_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/calibration.h"

#include <stdbool.h>

struct hrf_calibrations; /* opaque */

/* `directory` is made; the file is calibrations.db in it. A file that is damaged, or none of ours,
 * is renamed to calibrations.db.damaged-<ms>, so that nothing is lost, and begun anew. */
HRF_CHECKED enum hrf_status
hrf_calibrations_open(const char *directory, struct hrf_calibrations **out, struct hrf_error *err);
/* What a damaged file is called now that was found at this opening; NULL: all was well. To be told
 * to the user. */
const char *hrf_calibrations_put_aside(const struct hrf_calibrations *calibrations);
void hrf_calibrations_destroy(struct hrf_calibrations *store);
HRF_DEFINE_AUTO(hrf_calibrations)
/* *out stays NULL when there is none. HRF_E_USER: it is damaged, or another's;
 * hrf_calibrations_drop() makes room for a new one. */
HRF_CHECKED enum hrf_status hrf_calibrations_get(struct hrf_calibrations *store, const char *key,
                                                 struct hrf_calibration **out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_calibrations_put(struct hrf_calibrations *store,
                                                 const struct hrf_calibration *calibration,
                                                 struct hrf_error *err);
/* So that runs which need the same key at once make it once. *mine: this process is to make it,
 * because nobody does, or who did is gone; else `who` (may be NULL) gets "process 12 on HOST".
 * Claim again every few seconds while it is made: that is the sign of life. */
HRF_CHECKED enum hrf_status hrf_calibrations_claim(struct hrf_calibrations *store, const char *key,
                                                   bool *mine, char who[192],
                                                   struct hrf_error *err);
/* This process no longer makes it: it is kept, or given up. */
HRF_CHECKED enum hrf_status hrf_calibrations_give_up(struct hrf_calibrations *store,
                                                     const char *key, struct hrf_error *err);
/* *found says whether it was there. */
HRF_CHECKED enum hrf_status hrf_calibrations_drop(struct hrf_calibrations *store, const char *key,
                                                  bool *found, struct hrf_error *err);
/* Every key, oldest first: heap array of heap strings. */
HRF_CHECKED enum hrf_status hrf_calibrations_keys(struct hrf_calibrations *store, char ***out,
                                                  size_t *n, struct hrf_error *err);

#endif
