/* blur.c - the blur effect of an image (quality.h). */
#include "base/alloc.h"
#include "tiler/quality/quality.h"

#include <assert.h>
#include <math.h>

enum { WINDOW = 11 }; /* px of the blur that is added */

/* Positions beyond the edge are mirrored, the edge pixel included: -1 is 0, n is n - 1. */
static int64_t mirrored(int64_t i, int64_t n)
{
    while (i < 0 || i >= n)
        i = i < 0 ? -1 - i : 2 * n - 1 - i;
    return i;
}

/* A plane seen along one direction: element (i, j) is pixel i of line j. */
struct lines {
    const float *plane;
    int64_t n, n_lines;  /* pixels of a line, lines */
    int64_t step, pitch; /* to the next pixel, to the next line */
};

static float at(const struct lines *l, int64_t i, int64_t j)
{
    return l->plane[mirrored(i, l->n) * l->step + mirrored(j, l->n_lines) * l->pitch];
}

/* Writes the means of WINDOW pixels along line j. */
static void blur_line(const struct lines *l, int64_t j, float *out)
{
    double sum = 0;
    for (int64_t k = -(WINDOW / 2); k <= WINDOW / 2; k++)
        sum += (double)at(l, k, j);
    for (int64_t i = 0; i < l->n; i++) {
        out[i * l->step + j * l->pitch] = (float)(sum / WINDOW);
        sum += (double)at(l, i + WINDOW / 2 + 1, j) - (double)at(l, i - WINDOW / 2, j);
    }
}

/* Returns the absolute value of Sobel's derivative along the line at (i, j). */
static double edge(const struct lines *l, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = -1; k <= 1; k++)
        sum += (k == 0 ? 2 : 1) * ((double)at(l, i + 1, j + k) - (double)at(l, i - 1, j + k));
    return fabs(sum) / 8;
}

static double blur_measure(const struct lines *sharp, float *blurred)
{
    double all = 0, lost = 0;
    for (int64_t j = 0; j < sharp->n_lines; j++)
        blur_line(sharp, j, blurred);
    struct lines again = *sharp;
    again.plane = blurred;
    for (int64_t j = 2; j < sharp->n_lines - 1; j++)
        for (int64_t i = 2; i < sharp->n - 1; i++) {
            const double before = edge(sharp, i, j);
            all += before;
            lost += fmax(0, before - edge(&again, i, j));
        }
    return all > 0 ? (all - lost) / all : 1;
}

enum hrf_status hrf_blur_measure(const unsigned char *rgb, int64_t width, int64_t height,
                                 double *out, struct hrf_error *err)
{
    const size_t n = (size_t)(width * height);
    assert(width >= 4 && height >= 4);
    HRF_AUTO_FREE float *gray = hrf_try_alloc_array(n, sizeof *gray);
    HRF_AUTO_FREE float *blurred = hrf_try_alloc_array(n, sizeof *blurred);
    HRF_CHECK_MEMORY(gray != NULL && blurred != NULL, err, "no memory to measure blur");
    for (size_t i = 0; i < n; i++)
        gray[i] = (float)((0.2125 * rgb[3 * i] + 0.7154 * rgb[3 * i + 1] +
                           0.0721 * rgb[3 * i + 2]) /
                          255);
    const struct lines rows = { gray, width, height, 1, width };
    const struct lines columns = { gray, height, width, width, 1 };
    *out = fmax(blur_measure(&rows, blurred), blur_measure(&columns, blurred));
    return HRF_OK;
}
