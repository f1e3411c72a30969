/* bag_ahead.h - reads the next bag in a thread while the present one is computed.
 *
 * At most one read is on its way, so HDF5's library is used by one thread at a time; the caller
 * must not use it in between. Used by one thread.
 */
#ifndef HRF_HEADS_BAGS_BAG_AHEAD_H
#define HRF_HEADS_BAGS_BAG_AHEAD_H

#include "heads/bags/bag.h"

#include <pthread.h>

struct hrf_bag_ahead {
    const char *path, *set; /* borrowed; path NULL: nothing is on its way */
    int64_t width;
    bool is_again;
    pthread_t thread;
    struct hrf_bag *bag;
    enum hrf_status status;
    struct hrf_error err;
};

/* Begins to read (is_again: hrf_bag_read_again()), into the memory of `spare`, which it owns from
 * here on (NULL: none). Without a thread to spare, the read happens when it is asked for. */
void hrf_bag_ahead_start(struct hrf_bag_ahead *ahead, const char *path, const char *set,
                         int64_t width, bool is_again, struct hrf_bag *spare);
/* What hrf_bag_read() gives, of the file that was begun or of another one. */
HRF_CHECKED enum hrf_status hrf_bag_ahead_take(struct hrf_bag_ahead *ahead, const char *path,
                                               const char *set, int64_t width, struct hrf_bag **out,
                                               struct hrf_error *err);
/* Waits for what is on its way and forgets it. */
void hrf_bag_ahead_release(struct hrf_bag_ahead *ahead);

#endif
