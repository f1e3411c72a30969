/* feed.h - patches of one slide, read ahead of compute.
 *
 * Reader threads decode, resample, normalise and lay out patches as dense NHWC, in float32 or in
 * the type that the network computes in, into a ring of batches; one consumer takes the batches in
 * order. A patch that several networks score is read once and laid out in the form of each. Patches
 * are visited block by block, so that a compressed tile of the slide is decoded once for all
 * patches on it. The position of a patch in the batches depends on the patches alone, never on the
 * threads.
 */
#ifndef HRF_ENGINE_INPUT_FEED_H
#define HRF_ENGINE_INPUT_FEED_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/input/stain_jitter.h"
#include "engine/ir/feed_form.h"
#include "engine/ir/tile_batch.h"
#include "image/preparation.h"
#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_feed; /* opaque */

enum { HRF_FEED_MAX_FORMS = 8 };

/* Memory of somebody else. `take` gives memory aligned to a cache line, until `give`. */
struct hrf_feed_memory {
    enum hrf_status (*take)(void *context, size_t n_bytes, void **out, struct hrf_error *err);
    void (*give)(void *context, void *memory);
    void *context;
};

struct hrf_feed_config {
    struct hrf_slide *slide;          /* borrowed; stays open until the feed is destroyed */
    const struct hrf_tile_plan *plan; /* borrowed: geometry and patches */
    int64_t first_patch, n_patches;   /* the range of plan->patches to read */
    int64_t batch;                    /* patches per batch */
    /* What becomes of a patch first; its size is that of the images then, else the patches'. */
    struct hrf_preparation preparation;
    int64_t first_row, n_rows; /* the rows of every image to make; n_rows 0: all */
    double mean[3], std[3];    /* of RGB scaled to 0..1 */
    struct hrf_feed_form forms[HRF_FEED_MAX_FORMS];
    /* Of each form, whether its pixels are stained otherwise. */
    bool is_jittered[HRF_FEED_MAX_FORMS];
    struct hrf_stain_jitter jitter;
    int32_t n_forms;   /* 0: one, float32 */
    int32_t n_readers; /* >= 1 */
    /* Batches in the ring, >= 2 and more than n_held; 0: those that the consumer holds, those that
     * the readers fill at a time, and one more. */
    int32_t n_ahead;
    /* The batches that the consumer holds: what hrf_feed_next() gave stays as it is for as many
     * calls. 0: one. */
    int32_t n_held;
    /* Where forms that are raw lie, for a device that reads them there; `take` NULL: on the heap.
     * Called by the thread that creates and destroys the feed. */
    struct hrf_feed_memory memory;
    /* Batches are compressed tiles, for a device that decodes them (hrf_feed_no_tiles() is NULL):
     * hrf_feed_batch.tiles in the place of pixels. One patch of each batch is decoded here, too, so
     * that the device's pixels can be compared with it. */
    bool gives_tiles;
    /* The file is read ahead of the readers (tiler/slide/read_ahead.h), which takes threads that
     * wait for the disk and 32 MiB. Not where other processes read most of the batches. */
    bool reads_ahead;
    /* Returns the number of the next batch to read, counted in the visiting order; -1 after the
     * last. Called by one thread at a time. NULL: all batches. The contents of batch i do not
     * depend on who reads it. */
    int64_t (*next)(void *context);
    void *context;
};

struct hrf_feed_batch {
    /* By form: [config.batch][rows][image side][3] of its type, zeros behind the n patches of a
     * short batch; aligned to a cache line, and valid until the next hrf_feed_next (with n_held,
     * one of the next). A session reads them where they are (hrf_session_feed()). */
    const void *pixels[HRF_FEED_MAX_FORMS];
    const struct hrf_tile_batch *tiles; /* with config.gives_tiles */
    const int64_t
        *patches; /* [n]: the patch numbers, counted from first_patch; valid as long as the feed */
    int64_t n;
    int64_t number; /* in the visiting order */
};

struct hrf_feed_times {
    double decode, prepare; /* s, summed over all readers */
    double wait;            /* s that the consumer waited */
    int64_t n_patches;      /* read so far */
};

/* The visiting order of n_patches patches from first_patch on: out[i] is the patch at position i,
 * counted from first_patch. Batch b of size n holds the positions from n * b on. */
void hrf_feed_order(const struct hrf_tile_plan *plan, int64_t first_patch, int64_t n_patches,
                    int64_t *out);
/* NULL: a feed with this configuration may give tiles. Else why not: "its patches are resampled
 * from another resolution", static. */
HRF_CHECKED enum hrf_status hrf_feed_no_tiles(const struct hrf_feed_config *config,
                                              const char **why, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_feed_create(const struct hrf_feed_config *config,
                                            struct hrf_feed **out, struct hrf_error *err);
/* Stops the readers and waits until each has finished its current patch. */
void hrf_feed_destroy(struct hrf_feed *feed);
HRF_DEFINE_AUTO(hrf_feed)
/* Gives the oldest batch that is held back and waits for the next; n is 0 after the last. A patch
 * that cannot be read ends the feed; the error names the slide and the position. */
HRF_CHECKED enum hrf_status hrf_feed_next(struct hrf_feed *feed, struct hrf_feed_batch *batch,
                                          struct hrf_error *err);
struct hrf_feed_times hrf_feed_times(struct hrf_feed *feed);
/* Why a device cannot decode tiles that a feed gave: HRF_E_USER, if one of them is damaged, in the
 * words of a feed that decodes; else HRF_OK. */
HRF_CHECKED enum hrf_status hrf_feed_check_tiles(struct hrf_slide *slide,
                                                 const struct hrf_tile_plan *plan,
                                                 const struct hrf_tile_batch *tiles,
                                                 struct hrf_error *err);

#endif
