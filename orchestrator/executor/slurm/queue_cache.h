/* queue_cache.h - squeue's last answer, kept in a file that all drivers of one user share.
 *
 * A driver that has asked squeue writes the answer into the cache; the user's other drivers read it
 * there instead of asking the controller again. The file lies in the user's cache directory, which
 * login nodes usually share. If that directory cannot be written, a directory of this machine is
 * used. The file's name is derived from the controller's own description of itself, so that only
 * drivers that talk to the same controller share a cache.
 *
 * A lock file says which driver is asking at present. It is made with O_EXCL, because advisory
 * locks do not work between machines on every shared file system. The lock of a dead process is
 * taken over at once; the lock of a process on another machine is taken over when it was held for
 * too long. If two drivers ask at the same time nevertheless, the only cost is one more question.
 *
 * The clocks of different machines are not compared. Of another machine's answer it is only known
 * that it arrived: it proves which jobs exist, but a job that it does not show may exist.
 * Not thread-safe.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_QUEUE_CACHE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_QUEUE_CACHE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_queue_cache; /* opaque; NULL is a cache that is shared with nobody */

struct hrf_queue_answer {
    int64_t asked_ms, took_ms; /* when squeue was started (monotonic), and how long it ran */
    bool is_from_other_host;   /* another machine asked; asked_ms is then not known and 0 */
    bool succeeded;            /* false: `text` says why there is no answer */
    char *text;                /* heap, owned by the reader */
    size_t n_bytes;
};

/* `site` describes the controller (hrf_slurm_limits). `shared` is the directory to try first (NULL:
 * the user's cache directory), `own` the one to try next (NULL: this machine's directory for the
 * user). Returns NULL if neither can be written. `err` says which directory could not be
 * used. */
struct hrf_queue_cache *hrf_queue_cache_open(const char *shared, const char *own, const char *site,
                                             struct hrf_error *err);
/* All functions below accept NULL. */
void hrf_queue_cache_close(struct hrf_queue_cache *cache);
const char *hrf_queue_cache_path(const struct hrf_queue_cache *cache); /* NULL if there is none */
/* Reads an answer that was not read before. An answer of this machine counts if it was asked for
 * after `since_ms`, one of another machine if it arrived after this cache was opened. Returns false
 * if there is no such answer. */
bool hrf_queue_cache_read(struct hrf_queue_cache *cache, int64_t since_ms,
                          struct hrf_queue_answer *out);
/* Returns true if the caller may ask squeue; it must then call put() or unlock(). Returns false if
 * another driver is asking. A live driver that holds the lock for longer than `patience_ms` loses
 * it. */
bool hrf_queue_cache_lock(struct hrf_queue_cache *cache, int64_t now_ms, int64_t patience_ms);
/* Publishes the answer and unlocks. An answer that cannot be written, or whose lock was taken over
 * in the meantime, is dropped. */
void hrf_queue_cache_put(struct hrf_queue_cache *cache, const struct hrf_queue_answer *answer);
void hrf_queue_cache_unlock(struct hrf_queue_cache *cache);

#endif
