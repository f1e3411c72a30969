/* neighbours.c - see neighbours.h. */
#include "aggregate/study/neighbours.h"

#include "statistics/cosine.h"

#include <math.h>

void hrf_neighbours_release(struct hrf_neighbours *s)
{
    hrf_free(s->rows[0]);
    hrf_free(s->rows[1]);
    *s = (struct hrf_neighbours){ .n_all = 0 };
}

enum hrf_status hrf_neighbours_begin(struct hrf_neighbours *s, int64_t n_patches, int64_t width,
                                     struct hrf_error *err)
{
    s->step = (n_patches + HRF_NEIGHBOUR_SAMPLE - 1) / HRF_NEIGHBOUR_SAMPLE;
    s->step = s->step > 0 ? s->step : 1;
    s->at = s->n_sample = 0;
    s->width = width;
    for (int i = 0; i < 2; i++) {
        hrf_free(s->rows[i]);
        s->rows[i] = hrf_try_alloc_array((size_t)(HRF_NEIGHBOUR_SAMPLE * width), sizeof **s->rows);
        HRF_CHECK_MEMORY(s->rows[i] != NULL, err, "no memory for %d embeddings",
                         HRF_NEIGHBOUR_SAMPLE);
    }
    return HRF_OK;
}

/* Of length 1, so that products are cosines; zeros stay. */
static void normalise(const float *from, int64_t width, float *to)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)from[i] * (double)from[i];
    const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int64_t i = 0; i < width; i++)
        to[i] = (float)((double)from[i] * scale);
}

void hrf_neighbours_add(struct hrf_neighbours *s, const float *reference, const float *values,
                        int64_t n)
{
    for (int64_t i = 0; i < n; i++, s->at++) {
        if (s->at % s->step != 0)
            continue;
        normalise(reference + i * s->width, s->width, s->rows[0] + s->n_sample * s->width);
        normalise(values + i * s->width, s->width, s->rows[1] + s->n_sample * s->width);
        s->n_sample++;
    }
}

/* The patches of the sample that are nearest to patch `of`. */
static void find(const struct hrf_neighbours *s, int side, int64_t of,
                 int64_t found[HRF_NEIGHBOURS])
{
    float cosines[HRF_NEIGHBOURS];
    int n = 0;
    for (int64_t i = 0; i < s->n_sample; i++) {
        if (i == of)
            continue;
        const float c = hrf_float_dot(s->rows[side] + of * s->width, s->rows[side] + i * s->width,
                                      s->width);
        int rank = n;
        while (rank > 0 && c > cosines[rank - 1])
            rank--;
        if (rank == HRF_NEIGHBOURS)
            continue;
        n += n < HRF_NEIGHBOURS;
        for (int k = n - 1; k > rank; k--) {
            cosines[k] = cosines[k - 1];
            found[k] = found[k - 1];
        }
        cosines[rank] = c;
        found[rank] = i;
    }
}

void hrf_neighbours_end(struct hrf_neighbours *s)
{
    for (int64_t i = 0; i < s->n_sample && s->n_sample > HRF_NEIGHBOURS; i++) {
        int64_t found[2][HRF_NEIGHBOURS];
        find(s, 0, i, found[0]);
        find(s, 1, i, found[1]);
        for (int a = 0; a < HRF_NEIGHBOURS; a++)
            for (int b = 0; b < HRF_NEIGHBOURS; b++)
                s->n_kept += found[0][a] == found[1][b];
        s->n_all += HRF_NEIGHBOURS;
        s->n_patches++;
    }
    for (int i = 0; i < 2; i++) {
        hrf_free(s->rows[i]);
        s->rows[i] = NULL;
    }
}

double hrf_neighbours_kept(const struct hrf_neighbours *s)
{
    return s->n_all > 0 ? (double)s->n_kept / (double)s->n_all : (double)NAN;
}
