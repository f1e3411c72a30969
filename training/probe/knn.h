/* knn.h - the k nearest embeddings by their cosine. Pure. */
#ifndef HRF_TRAINING_PROBE_KNN_H
#define HRF_TRAINING_PROBE_KNN_H

#include <stddef.h>

/* Writes the mean truth ([n_classes], label_kind.h) of the k of n rows that are nearest to each of
 * n_asked rows: the shares of their classes, or the mean of their numbers. Of equal cosines the
 * first rows count. k <= n. The same bits on any number of threads. */
void hrf_knn_score(const float *const *rows, const float *const *truths, size_t n, size_t width,
                   size_t n_classes, size_t k, const float *const *asked, size_t n_asked,
                   float *const *scores);

#endif
