/* read_ahead.h - reads compressed tiles from the file before the threads that decode them ask for
 * them.
 *
 * The tiles are listed in the order in which they will be asked for. Threads read them in that
 * order, neighbours in the file in one piece of up to 2 MiB, so that a disk of high latency gets
 * few and early requests. Pieces that were read and not yet asked for take at most
 * HRF_READ_AHEAD_BYTES. Only time depends on it: the caller reads a tile that is not there.
 */
#ifndef HRF_TILER_SLIDE_READ_AHEAD_H
#define HRF_TILER_SLIDE_READ_AHEAD_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { HRF_READ_AHEAD_BYTES = 32 << 20 };

struct hrf_read_ahead; /* opaque */

/* Creates a list for tiles that are numbered from 0 to n_tiles - 1, of the file `fd` (borrowed). */
HRF_CHECKED enum hrf_status
hrf_read_ahead_create(int fd, int64_t n_tiles, struct hrf_read_ahead **out, struct hrf_error *err);
/* Ends the threads. NULL is fine. */
void hrf_read_ahead_destroy(struct hrf_read_ahead *ahead);
HRF_DEFINE_AUTO(hrf_read_ahead)
/* Adds a tile to the end of the list, unless it is there or reading has begun. */
void hrf_read_ahead_add(struct hrf_read_ahead *ahead, int64_t tile, uint64_t offset,
                        uint32_t n_bytes);
/* Stops reading early; a thread that waits for a tile gets NULL. */
void hrf_read_ahead_stop(struct hrf_read_ahead *ahead);
/* Starts reading. Pieces that nobody will ask for (of tiles that were skipped) are not read, or are
 * dropped when the memory is needed. */
HRF_CHECKED enum hrf_status hrf_read_ahead_start(struct hrf_read_ahead *ahead,
                                                 struct hrf_error *err);
/* Waits for the tile and returns its bytes, which hrf_read_ahead_put() gives back. NULL: the tile
 * is not listed, was asked for before, was dropped, or could not be read. Any thread. */
const unsigned char *hrf_read_ahead_take(struct hrf_read_ahead *ahead, int64_t tile);
void hrf_read_ahead_put(struct hrf_read_ahead *ahead, int64_t tile);

struct hrf_read_counts {
    int64_t n_reads, n_bytes; /* so far */
    int64_t n_taken;          /* tiles */
    int64_t peak_bytes;       /* the most memory at any time */
};
struct hrf_read_counts hrf_read_ahead_counts(struct hrf_read_ahead *ahead);

#endif
