/* not_finite.h - says why a step of training gave numbers that are not finite: its pictures and the
 * largest numbers of its layers. */
#ifndef HRF_TRAINING_LOOP_NOT_FINITE_H
#define HRF_TRAINING_LOOP_NOT_FINITE_H

#include "base/strbuf.h"
#include "training/loop/fine_tuning.h"

/* `network` has the weights of that step, and `feeding` begins with its batch, which is read again;
 * `uses_batch`: struct hrf_train_step_config.
 * `details`: all pictures of the batch, where numbers stop being finite, and the layers with the
 * largest ones, a line each; `brief`: the same in few words. Without layers, and why, if there is
 * no memory to look at them. */
HRF_CHECKED enum hrf_status hrf_not_finite_explain(const struct hrf_fine_tuning *tuning,
                                                   const struct hrf_graph *network,
                                                   const struct hrf_sample_feed_config *feeding,
                                                   bool uses_batch, struct hrf_strbuf *details,
                                                   struct hrf_strbuf *brief, struct hrf_error *err);
/* HRF_E_USER: the network gave a picture of the part a score that is not finite; the same is said
 * of the first of them. */
HRF_CHECKED enum hrf_status hrf_not_finite_check(const struct hrf_fine_tuning *tuning,
                                                 const struct hrf_graph *network,
                                                 const enum hrf_training_part *parts,
                                                 enum hrf_training_part part, const float *scores,
                                                 struct hrf_error *err);

#endif
