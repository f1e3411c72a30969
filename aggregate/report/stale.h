/* stale.h - what an earlier report left below results/ and this one does not make again.
 *
 * Only files that a report could have written are taken away: by folder and by ending. They can be
 * made again from the store.
 */
#ifndef HRF_AGGREGATE_REPORT_STALE_H
#define HRF_AGGREGATE_REPORT_STALE_H

#include "base/error.h"

#include <stddef.h>

/* Temporary files of a writer that was killed, and every STEM`suffix` whose stem is not among
 * `keep` (n of them, in strcmp() order). */
HRF_CHECKED enum hrf_status hrf_stale_files_remove(const char *folder, const char *suffix,
                                                   const char *const *keep, size_t n,
                                                   struct hrf_error *err);
/* Temporary files alone. */
HRF_CHECKED enum hrf_status hrf_stale_temporaries_remove(const char *folder, struct hrf_error *err);

struct hrf_stale_form {
    const char *folder, *suffix;
};
/* The files of the forms in results/NAME/ for every NAME that is not among `names`, and the folders
 * that are empty then. */
HRF_CHECKED enum hrf_status hrf_stale_precisions_remove(const char *results,
                                                        const struct hrf_stale_form *forms,
                                                        size_t n_forms, const char *const *names,
                                                        size_t n_names, struct hrf_error *err);

#endif
