/* calibrations.h - the calibrations that runs share: one SQLite file in the cache directory.
 *
 * Each calibration is stored under its key, completely or not at all, with its own checksum (see
 * schema/record/calibration.h). Any number of processes may read and write at the same time. If two
 * store the same key, the first one wins; equal keys mean equal ranges.
 */
#ifndef HRF_SCHEMA_STORE_CALIBRATIONS_H
#define HRF_SCHEMA_STORE_CALIBRATIONS_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/calibration.h"

#include <stdbool.h>

struct hrf_calibrations; /* opaque */

/* Makes `directory` and opens the file calibrations.db in it. A damaged or foreign file is renamed
 * to calibrations.db.damaged-<ms>, so that nothing is lost, and a new file is made. */
HRF_CHECKED enum hrf_status
hrf_calibrations_open(const char *directory, struct hrf_calibrations **out, struct hrf_error *err);
/* Returns the new name of a damaged file that this opening found, to be reported to the user, or
 * NULL if there was none. */
const char *hrf_calibrations_put_aside(const struct hrf_calibrations *calibrations);
void hrf_calibrations_destroy(struct hrf_calibrations *store);
HRF_DEFINE_AUTO(hrf_calibrations)
/* *out stays NULL if there is none. HRF_E_USER: it is damaged or has another key;
 * hrf_calibrations_drop() removes it. */
HRF_CHECKED enum hrf_status hrf_calibrations_get(struct hrf_calibrations *store, const char *key,
                                                 struct hrf_calibration **out,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_calibrations_put(struct hrf_calibrations *store,
                                                 const struct hrf_calibration *calibration,
                                                 struct hrf_error *err);
/* Claims the making of a calibration, so that runs that need the same key at the same time make it
 * only once. *mine: this process must make it, because no live process does. Otherwise `who` (may
 * be NULL) gets the maker, "process 12 on HOST". The maker must claim again every few seconds as a
 * sign of life. */
HRF_CHECKED enum hrf_status hrf_calibrations_claim(struct hrf_calibrations *store, const char *key,
                                                   bool *mine, char who[192],
                                                   struct hrf_error *err);
/* Gives up the claim, after the calibration was stored or abandoned. */
HRF_CHECKED enum hrf_status hrf_calibrations_give_up(struct hrf_calibrations *store,
                                                     const char *key, struct hrf_error *err);
/* *found says whether it was there. */
HRF_CHECKED enum hrf_status hrf_calibrations_drop(struct hrf_calibrations *store, const char *key,
                                                  bool *found, struct hrf_error *err);
/* All keys, the oldest first: a heap array of heap strings. */
HRF_CHECKED enum hrf_status hrf_calibrations_keys(struct hrf_calibrations *store, char ***out,
                                                  size_t *n, struct hrf_error *err);

#endif
