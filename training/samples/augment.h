/* augment.h - a picture as it might have been cut, stained and scanned otherwise. Pure; the same
 * bytes on every machine. */
#ifndef HRF_TRAINING_SAMPLES_AUGMENT_H
#define HRF_TRAINING_SAMPLES_AUGMENT_H

#include "base/random.h"
#include "training/recipe/train_recipe.h"

/* rgb[side][side][3] to out[side][side][3]. `random` is the picture's own (draw.h); as many numbers
 * are drawn whatever is asked for, so that a setting does not change what the others draw. */
void hrf_augment(const struct hrf_augmentation *augmentation, struct hrf_random random,
                 int64_t side, const unsigned char *rgb, unsigned char *out);

/* The same flips, turns and shift of a mask[side][side]. */
void hrf_augment_mask(const struct hrf_augmentation *augmentation, struct hrf_random random,
                      int64_t side, const unsigned char *mask, unsigned char *out);

#endif
