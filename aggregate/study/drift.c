/* drift.c - cosines between embeddings of two precisions. */
#include "aggregate/study/drift.h"

#include "statistics/cosine.h"

#include <math.h>
#include <stdlib.h>

void hrf_drift_release(struct hrf_drift *drift)
{
    hrf_free(drift->cosines);
    *drift = (struct hrf_drift){ .cosines = NULL };
}

static enum hrf_status reserve(struct hrf_drift *drift, size_t n, struct hrf_error *err)
{
    if (n <= drift->capacity)
        return HRF_OK;
    const size_t capacity = n > 2 * drift->capacity ? n : 2 * drift->capacity;
    float *grown = hrf_try_realloc_array(drift->cosines, capacity, sizeof *grown);
    HRF_CHECK_MEMORY(grown != NULL, err, "no memory for the cosines of %zu patches", n);
    drift->cosines = grown;
    drift->capacity = capacity;
    return HRF_OK;
}

static enum hrf_status begin(struct hrf_drift *drift, int64_t n, int64_t width,
                             struct hrf_error *err)
{
    if (drift->width != 0 && drift->width != width)
        return hrf_error_set(err, HRF_E_USER,
                             "embeddings of %lld numbers, where other slides have %lld",
                             (long long)width, (long long)drift->width);
    HRF_TRY(reserve(drift, drift->n_patches + (size_t)n, err));
    drift->width = width;
    return HRF_OK;
}

enum hrf_status hrf_drift_add(struct hrf_drift *drift, const float *reference, const float *values,
                              int64_t n, int64_t width, struct hrf_error *err)
{
    HRF_TRY(begin(drift, n, width, err));
    for (int64_t i = 0; i < n; i++)
        drift->cosines[drift->n_patches++] = (float)hrf_cosine(reference + i * width,
                                                               values + i * width, width);
    return HRF_OK;
}

enum hrf_status hrf_drift_add_same(struct hrf_drift *drift, int64_t n, int64_t width,
                                   struct hrf_error *err)
{
    HRF_TRY(begin(drift, n, width, err));
    for (int64_t i = 0; i < n; i++)
        drift->cosines[drift->n_patches++] = 1;
    return HRF_OK;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

struct hrf_drift_summary hrf_drift_summarise(struct hrf_drift *drift)
{
    struct hrf_drift_summary s = { NAN, NAN, NAN, NAN };
    const size_t n = drift->n_patches;
    if (n == 0)
        return s;
    qsort(drift->cosines, n, sizeof *drift->cosines, compare_floats);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)drift->cosines[i];
    s.mean = sum / (double)n;
    s.median = ((double)drift->cosines[(n - 1) / 2] + (double)drift->cosines[n / 2]) / 2;
    s.percentile1 = (double)drift->cosines[(n - 1) / 100];
    s.min = (double)drift->cosines[0];
    return s;
}
