/* stale.h - removes files below results/ that an earlier report wrote and the current one does not.
 *
 * Only files that a report could have written are removed, recognised by directory and suffix. They
 * can be made again from the store.
 */
#ifndef HRF_AGGREGATE_REPORT_STALE_H
#define HRF_AGGREGATE_REPORT_STALE_H

#include "base/error.h"

#include <stddef.h>

/* Removes temporary files of a writer that was killed, and every STEM`suffix` whose stem is not
 * among keep[n], which is in strcmp() order. */
HRF_CHECKED enum hrf_status hrf_stale_files_remove(const char *folder, const char *suffix,
                                                   const char *const *keep, size_t n,
                                                   struct hrf_error *err);
/* Removes only the temporary files. */
HRF_CHECKED enum hrf_status hrf_stale_temporaries_remove(const char *folder, struct hrf_error *err);

struct hrf_stale_form {
    const char *folder, *suffix;
};
/* Removes the files of these forms in results/NAME/ for every NAME that is not among `names`, and
 * the directories that are then empty. */
HRF_CHECKED enum hrf_status hrf_stale_precisions_remove(const char *results,
                                                        const struct hrf_stale_form *forms,
                                                        size_t n_forms, const char *const *names,
                                                        size_t n_names, struct hrf_error *err);

#endif
