/* knn.c - see knn.h. */
#include "training/probe/knn.h"

#include "base/alloc.h"
#include "statistics/cosine.h"

#include <math.h>
#include <stdint.h>

/* 1 / its length; 0 of an embedding of zeros, whose cosines are then 0. */
static float scale_of(const float *row, size_t n)
{
    const float squares = hrf_float_dot(row, row, (int64_t)n);
    return squares > 0 ? 1 / sqrtf(squares) : 0;
}

struct near {
    float cosine;
    size_t row;
};

static bool is_nearer(const struct near *a, const struct near *b)
{
    return a->cosine != b->cosine ? a->cosine > b->cosine : a->row < b->row;
}

/* `list` has the nearest of those seen before, the farthest first, as a heap. */
static void sift(struct near *list, size_t n, size_t at)
{
    for (;;) {
        size_t far = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            far = is_nearer(&list[far], &list[child]) ? child : far;
        if (far == at)
            return;
        const struct near kept = list[at];
        list[at] = list[far];
        list[far] = kept;
        at = far;
    }
}

void hrf_knn_score(const float *const *rows, const float *const *truths, size_t n, size_t width,
                   size_t n_classes, size_t k, const float *const *asked, size_t n_asked,
                   float *const *scores)
{
    HRF_AUTO_FREE float *scales = hrf_alloc_array(n + 1, sizeof *scales);
    for (size_t i = 0; i < n; i++)
        scales[i] = scale_of(rows[i], width);
#pragma omp parallel for schedule(dynamic)
    for (size_t a = 0; a < n_asked; a++) {
        struct near *list = hrf_alloc_array(k + 1, sizeof *list);
        for (size_t i = 0; i < n; i++) {
            const struct near here = { hrf_float_dot(rows[i], asked[a], (int64_t)width) * scales[i],
                                       i };
            if (i < k)
                list[i] = here;
            for (size_t at = k / 2; i + 1 == k && at-- > 0;)
                sift(list, k, at);
            if (i >= k && is_nearer(&here, &list[0])) {
                list[0] = here;
                sift(list, k, 0);
            }
        }
        for (size_t c = 0; c < n_classes; c++) {
            double sum = 0;
            for (size_t j = 0; j < k; j++)
                sum += (double)truths[list[j].row][c];
            scores[a][c] = (float)(sum / (double)k);
        }
        hrf_free(list);
    }
}
