/* bench_resize SIDE RESIZE SIZE FILTER [ROUNDS]: the image on standard input, SIDE x SIDE x 3
 * bytes, resized and cropped to standard output (tools/reference/image_resize_goldens.py compares
 * it with Pillow). With ROUNDS: how many such images one core makes a second. */
#include "base/clock.h"
#include "engine/input/image_resize.h"

#include <stdio.h>
#include <stdlib.h>

static void take(void *context, int64_t row, int64_t n, const unsigned char *rgb, int64_t stride)
{
    const int64_t *row_bytes = context;
    (void)row;
    for (int64_t k = 0; k<n && * row_bytes> 0; k++)
        fwrite(rgb + k * stride, 1, (size_t)*row_bytes, stdout);
}

static void make(struct hrf_image_resizer *resizer, const unsigned char *image, int64_t side,
                 int64_t size, int64_t row_bytes)
{
    int64_t from, n;
    hrf_image_resizer_needs(resizer, 0, size, &from, &n);
    hrf_image_resizer_begin(resizer, 0, size, take, &row_bytes);
    for (int64_t i = from; i < from + n; i++)
        hrf_image_resizer_put(resizer, image + 3 * side * i);
}

int main(int argc, char **argv)
{
    if (argc < 5 || hrf_interpolation_find(argv[4]) == HRF_N_INTERPOLATIONS)
        return 2;
    const int64_t side = atoll(argv[1]), rounds = argc > 5 ? atoll(argv[5]) : 0;
    const struct hrf_preparation how = { atoll(argv[3]), atoll(argv[2]),
                                         hrf_interpolation_find(argv[4]) };
    HRF_AUTO(hrf_image_resizer) resizer = NULL;
    HRF_AUTO_FREE unsigned char *image = hrf_calloc((size_t)(3 * side), (size_t)side);
    hrf_image_resizer_create(side, &how, &resizer);
    if (image == NULL)
        return 1;
    if (rounds == 0) {
        if (fread(image, (size_t)(3 * side), (size_t)side, stdin) != (size_t)side)
            return 1;
        make(resizer, image, side, how.size, 3 * how.size);
        return 0;
    }
    const double start = hrf_clock_seconds();
    for (int64_t i = 0; i < rounds; i++)
        make(resizer, image, side, how.size, 0);
    printf("{\"images_per_second\": %.1f}\n", (double)rounds / (hrf_clock_seconds() - start));
    return 0;
}
