/* sampler.h - the pictures of an epoch, in their order. Pure. */
#ifndef HRF_TRAINING_SAMPLES_SAMPLER_H
#define HRF_TRAINING_SAMPLES_SAMPLER_H

#include "training/cohort/training_set.h"
#include "training/recipe/train_recipe.h"

/* Writes the numbers of the n pictures of an epoch (from 1) to order[n], drawn from those that
 * train. Balanced: the classes that have pictures come equally often, and of each all its pictures
 * before one comes again; of several labels each counts as a class with all pictures that have it,
 * and so do pictures without any. Else, and of numbers, all pictures come before one comes again.
 */
void hrf_sampler_draw(const struct hrf_training_set *set, const enum hrf_training_part *parts,
                      size_t n_classes, enum hrf_sampling sampling, int64_t seed, int64_t epoch,
                      int64_t n, int64_t *order);

#endif
