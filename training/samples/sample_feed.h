/* sample_feed.h - batches of pictures as the network takes them, read ahead by threads.
 *
 * A batch's numbers are a function of the order, the seed and the epoch; the number of threads does
 * not change them. One thread takes batches.
 */
#ifndef HRF_TRAINING_SAMPLES_SAMPLE_FEED_H
#define HRF_TRAINING_SAMPLES_SAMPLE_FEED_H

#include "engine/ir/attributes.h"
#include "training/samples/sample_list.h"

/* How pictures become the network's images. */
struct hrf_sample_form {
    struct hrf_preparation preparation; /* size 0: as they are */
    double mean[3], std[3];
    int64_t side; /* px of the images */
};

struct hrf_sample_feed_config {
    const struct hrf_sample_list *list;
    const struct hrf_sample_form *form;
    const int64_t *order; /* [n]: numbers of pictures */
    /* [n]: chance is drawn by these places in the order, where some are left out; NULL: by their
     * own.
     */
    const int64_t *places;
    int64_t n, first; /* begins with order[first] */
    int64_t batch;
    /* Only images [own_first, own_end) of each batch are read, the others' numbers are of no use: a
     * rank reads its own. 0 and 0: all. */
    int64_t own_first, own_end;
    const struct hrf_augmentation *augmentation; /* NULL: none */
    int64_t seed, epoch;                         /* of the augmentation */
    int n_threads;
};
struct hrf_sample_feed; /* opaque */

/* The configuration's pointers are borrowed for life. */
HRF_CHECKED enum hrf_status hrf_sample_feed_create(const struct hrf_sample_feed_config *config,
                                                   struct hrf_sample_feed **out,
                                                   struct hrf_error *err);
void hrf_sample_feed_destroy(struct hrf_sample_feed *feed);
HRF_DEFINE_AUTO(hrf_sample_feed)
/* The next batch into images[batch][side][side][3]; what the last one lacks is 0. `masks`: the
 * classes of their pixels, [batch][side][side], changed as the images are; NULL: there are none. */
HRF_CHECKED enum hrf_status hrf_sample_feed_next(struct hrf_sample_feed *feed, float *images,
                                                 unsigned char *masks, struct hrf_error *err);
/* The same in steps, for a network that takes images in parts: wait for the next batch, take boxes
 * of its images as often as is wanted, [rows][columns][3], and give it back. */
HRF_CHECKED enum hrf_status hrf_sample_feed_hold(struct hrf_sample_feed *feed,
                                                 struct hrf_error *err);
void hrf_sample_feed_put(const struct hrf_sample_feed *feed, int64_t image,
                         const struct hrf_box *box, float *out);
/* The mask of an image of it, [side][side]; NULL: there are none. */
const unsigned char *hrf_sample_feed_mask(const struct hrf_sample_feed *feed, int64_t image);
void hrf_sample_feed_give_back(struct hrf_sample_feed *feed);
/* Bytes that a feed of this configuration holds. */
int64_t hrf_sample_feed_memory(const struct hrf_sample_feed_config *config);
/* Seconds that the caller has waited for pictures. */
double hrf_sample_feed_waited(const struct hrf_sample_feed *feed);

#endif
