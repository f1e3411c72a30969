#include "engine/input/normalise.h"

#include "engine/backend/cpu/instructions.h"

#include <string.h>

#ifndef HRF_BUILD_AVX512
int64_t hrf_normalise_avx512(const struct hrf_normaliser *normaliser, const unsigned char *rgb,
                             int64_t n, float *out)
{
    (void)normaliser, (void)rgb, (void)n, (void)out;
    return 0;
}

void hrf_normalise_fence_avx512(void)
{
}
#endif

/* True if the product and sum round to the table for every byte of every channel. */
static bool is_the_table(const struct hrf_normaliser *normaliser)
{
    unsigned char rgb[256 * 3];
    float wide[256 * 3];
    for (int i = 0; i < 256 * 3; i++)
        rgb[i] = (unsigned char)(i / 3);
    const int64_t n = hrf_normalise_avx512(normaliser, rgb, 256 * 3, wide);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&wide[i], &normaliser->table[i % 3][rgb[i]], sizeof wide[i]) != 0)
            return false;
    return n == 256 * 3;
}

void hrf_normaliser_init(struct hrf_normaliser *normaliser, const double mean[3],
                         const double std[3])
{
    hrf_normalise_table(mean, std, normaliser->table);
    for (int i = 0; i < 48; i++) {
        normaliser->scale[i] = 1 / (255 * std[i % 3]);
        normaliser->shift[i] = -mean[i % 3] / std[i % 3];
    }
    normaliser->is_wide = hrf_cpu_has_avx512() && is_the_table(normaliser);
}

void hrf_normalise_part(const struct hrf_normaliser *normaliser, const unsigned char *rgb,
                        int64_t n, float *out)
{
    int64_t i = 0;
    if (normaliser->is_wide)
        i = hrf_normalise_avx512(normaliser, rgb, n, out);
    for (; i + 3 <= n; i += 3) /* without a division by 3 for each number */
        for (int c = 0; c < 3; c++)
            out[i + c] = normaliser->table[c][rgb[i + c]];
    for (; i < n; i++)
        out[i] = normaliser->table[i % 3][rgb[i]];
}

void hrf_normalise_end(const struct hrf_normaliser *normaliser)
{
    if (normaliser->is_wide)
        hrf_normalise_fence_avx512();
}

void hrf_normalise(const struct hrf_normaliser *normaliser, const unsigned char *rgb, int64_t n,
                   float *out)
{
    hrf_normalise_part(normaliser, rgb, n, out);
    hrf_normalise_end(normaliser);
}

void hrf_normalise_table(const double mean[3], const double std[3], float table[3][256])
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table[c][v] = (float)((v / 255.0 - mean[c]) / std[c]);
}

struct hrf_pixel_form hrf_normalise_form(const double mean[3], const double std[3])
{
    struct hrf_pixel_form form;
    for (int c = 0; c < 3; c++) {
        form.scale[c] = (float)(1 / (255 * std[c]));
        form.shift[c] = (float)(-mean[c] / std[c]);
    }
    return form;
}
