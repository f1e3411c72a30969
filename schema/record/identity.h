/* identity.h - what a record belongs to: its task, its slide and its tile plan.
 *
 * The identity is in every record's header and is covered by its checksum. Every reader of a record
 * states the identity that it expects, so an intact record that was put in another's place, or that
 * belongs to another task, is refused.
 */
#ifndef HRF_SCHEMA_RECORD_IDENTITY_H
#define HRF_SCHEMA_RECORD_IDENTITY_H

#include "base/error.h"
#include "base/hash.h"

#include <stdint.h>

/* "": not known. */
struct hrf_record_identity {
    char task[HRF_HASH_HEX];  /* content key of the task */
    char slide[HRF_HASH_HEX]; /* its content, as ingest found it */
    char plan[HRF_HASH_HEX];  /* hash of the tile plan that it is or was computed from */
};

#endif
