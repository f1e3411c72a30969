/* identity.h - what a record answers: its task, its slide and its tile plan.
 *
 * The identity stands in every record's header and so under its checksum. Whoever reads a record
 * says which identity it expects: a record that was put in another's place, or that answers
 * another task, is found out however whole it is.
 */
#ifndef HRF_SCHEMA_RECORD_IDENTITY_H
#define HRF_SCHEMA_RECORD_IDENTITY_H

#include "base/error.h"
#include "base/hash.h"

#include <stdint.h>

/* "": not known. */
struct hrf_record_identity {
    char task[HRF_HASH_HEX];  /* content key of the task */
    char slide[HRF_HASH_HEX]; /* hrf_slide_fingerprint() */
    char plan[HRF_HASH_HEX];  /* hash of the tile plan that it is, or that it was made by */
};

/* Names a slide's file as it was when it was listed. mtime_ns: of its last change. */
HRF_CHECKED enum hrf_status hrf_slide_fingerprint(const char *path, int64_t n_bytes,
                                                  int64_t mtime_ns, char out[HRF_HASH_HEX],
                                                  struct hrf_error *err);
/* HRF_E_USER when the record `where` is that of another task, slide or tile plan. What `expected`
 * leaves "" is not compared. A record of version 1 says less: it passes when all that it says fits,
 * and that is at least its task or its tile plan. */
HRF_CHECKED enum hrf_status hrf_record_identity_check(const struct hrf_record_identity *found,
                                                      const struct hrf_record_identity *expected,
                                                      const char *where, struct hrf_error *err);

#endif
