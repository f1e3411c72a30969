/* exclusions.h - slides of CAMELYON16 that are known to be wrong for an evaluation, with reasons.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_EXCLUSIONS_H
#define HRF_AGGREGATE_CAMELYON16_EXCLUSIONS_H

#include <stdbool.h>
#include <stddef.h>

struct hrf_exclusion {
    const char *slide;
    bool lesions_only; /* the slide's own label is right: it stays in slide-level figures */
    const char *reason;
};
extern const struct hrf_exclusion hrf_camelyon16_exclusions[];
extern const size_t hrf_n_camelyon16_exclusions;

/* Returns the exclusion of a slide, or NULL if there is none. Names are compared by
 * hrf_camelyon16_name(). */
const struct hrf_exclusion *hrf_camelyon16_exclusion(const char *slide);

enum { HRF_CAMELYON16_NAME = 256 };
/* Writes the common form of the names that the releases use for a slide: "Test_001.tif",
 * "test_001_mask" and "test_1" are all "test_001". Folders and extensions are removed; other names
 * are only made lower case. A name that does not fit is cut. */
void hrf_camelyon16_name(const char *name, char out[HRF_CAMELYON16_NAME]);

#endif
