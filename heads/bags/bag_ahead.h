/* bag_ahead.h - reads the next bag in a thread while the present one is computed.
 *
 * At most one read is in flight, so that one thread at a time uses HDF5's library; the caller must
 * not use it in between. Used by one thread.
 */
#ifndef HRF_HEADS_BAGS_BAG_AHEAD_H
#define HRF_HEADS_BAGS_BAG_AHEAD_H

#include "heads/bags/bag.h"

#include <pthread.h>

struct hrf_bag_ahead {
    const char *path, *set; /* borrowed; path NULL: no read is in flight */
    int64_t width;
    bool is_again;
    pthread_t thread;
    struct hrf_bag *bag;
    enum hrf_status status;
    struct hrf_error err;
};

/* Starts to read a bag (is_again: by hrf_bag_read_again()) into the memory of `spare`, which it
 * takes over (NULL: none). If no thread can be started, hrf_bag_ahead_take() reads the bag. */
void hrf_bag_ahead_start(struct hrf_bag_ahead *ahead, const char *path, const char *set,
                         int64_t width, bool is_again, struct hrf_bag *spare);
/* Returns what hrf_bag_read() returns, for the file that was started or for another one. */
HRF_CHECKED enum hrf_status hrf_bag_ahead_take(struct hrf_bag_ahead *ahead, const char *path,
                                               const char *set, int64_t width, struct hrf_bag **out,
                                               struct hrf_error *err);
/* Waits for the read in flight and discards its bag. */
void hrf_bag_ahead_release(struct hrf_bag_ahead *ahead);

#endif
