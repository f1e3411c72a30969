/* owner.h - identifies a process, as rows of a store and lock files do, and tells whether it is
 * alive. */
#ifndef HRF_SCHEMA_STORE_OWNER_H
#define HRF_SCHEMA_STORE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

struct hrf_owner {
    char host[128], boot[40], pid_space[64];
    int64_t pid, beat_ms; /* beat_ms: wall clock of its last sign of life */
    uint64_t start_time;
};

/* Returns the identity of this process, with the present time as its last sign of life. */
struct hrf_owner hrf_owner_self(void);
/* True if both are the same process; their beats may differ. */
bool hrf_owner_is_same(const struct hrf_owner *a, const struct hrf_owner *b);

/* A process of another host or container cannot be seen from here. It is LIVING if its last sign of
 * life is less than 90 s old, otherwise SILENT. */
enum hrf_owner_life { HRF_OWNER_DEAD, HRF_OWNER_LIVING, HRF_OWNER_SILENT };
enum hrf_owner_life hrf_owner_life(const struct hrf_owner *owner, const struct hrf_owner *me);

#endif
