/* label_rows.h - the output of a segmentation network for a patch as a row of numbers, the form in
 * which results travel to rank 0.
 *
 * A row is a float per class, the fraction of the pixels that got its label, and behind them the
 * labels themselves, a byte per pixel (label_maps.h), padded to whole floats. Nobody computes with
 * those bytes; they are only copied. Pure.
 */
#ifndef HRF_ENGINE_WORKER_LABEL_ROWS_H
#define HRF_ENGINE_WORKER_LABEL_ROWS_H

#include <stdint.h>

/* Numbers of a row. */
int64_t hrf_label_row_length(int64_t n_classes, int64_t n_pixels);
/* `output` [n_pixels][n_classes]. The label is that of the largest output, of equal ones the first;
 * with one class it is 1 where the output, a probability, is at least 0.5, and 0 elsewhere. Where
 * an output is not a number or infinite, the fractions are NaN. */
void hrf_label_row_fill(const float *output, int64_t n_classes, int64_t n_pixels, float *row);
/* The labels in a row. */
const unsigned char *hrf_label_row_labels(const float *row, int64_t n_classes);

#endif
