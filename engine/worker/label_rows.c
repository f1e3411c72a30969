/* label_rows.c - see label_rows.h. */
#include "engine/worker/label_rows.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

int64_t hrf_label_row_length(int64_t n_classes, int64_t n_pixels)
{
    const int64_t size = (int64_t)sizeof(float);
    return n_classes + (n_pixels + size - 1) / size;
}

const unsigned char *hrf_label_row_labels(const float *row, int64_t n_classes)
{
    return (const unsigned char *)(row + n_classes);
}

/* 0: an output is not finite. */
static int64_t label_of(const float *output, int64_t n_classes)
{
    int64_t best = 0;
    bool is_finite = true;
    for (int64_t c = 0; c < n_classes; c++) {
        is_finite &= isfinite(output[c]) != 0;
        best = output[c] > output[best] ? c : best;
    }
    return is_finite ? best + 1 : 0;
}

void hrf_label_row_fill(const float *output, int64_t n_classes, int64_t n_pixels, float *row)
{
    unsigned char *labels = (unsigned char *)(row + n_classes);
    int64_t counts[256] = { 0 };
    bool is_good = true;
    memset(row + n_classes, 0,
           (size_t)(hrf_label_row_length(n_classes, n_pixels) - n_classes) * sizeof *row);
    for (int64_t i = 0; i < n_pixels; i++) {
        const float *at = output + i * n_classes;
        int64_t label = label_of(at, n_classes);
        is_good &= label > 0;
        if (n_classes == 1)
            label = at[0] >= 0.5F;
        labels[i] = (unsigned char)label;
        counts[label]++;
    }
    for (int64_t c = 0; c < n_classes; c++)
        row[c] = is_good ? (float)((double)counts[c + 1] / (double)n_pixels) : NAN;
}
