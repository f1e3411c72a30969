/* downsample.c - area average of an image, row by row (downsample.h). */
#include "image/downsample.h"

#include <assert.h>
#include <string.h>

/* Output pixel i is the mean of input pixels [begin[i], begin[i + 1]), which are at least one. */
static void make_borders(int64_t n_in, int64_t n_out, int64_t **out)
{
    int64_t *begin = hrf_alloc_array((size_t)n_out + 1, sizeof *begin);
    for (int64_t i = 0; i <= n_out; i++)
        begin[i] = i * n_in / n_out;
    *out = begin;
}

void hrf_downsampler_release(struct hrf_downsampler *s)
{
    hrf_free(s->columns);
    hrf_free(s->rows);
    hrf_free(s->sums);
}

enum hrf_status hrf_downsampler_init(struct hrf_downsampler *s, int64_t in_width, int64_t in_height,
                                     int n_channels, int64_t width, int64_t height,
                                     struct hrf_error *err)
{
    assert(width >= 1 && width <= in_width && height >= 1 && height <= in_height);
    s->in_width = in_width;
    s->width = width;
    s->n_channels = n_channels;
    make_borders(in_width, width, &s->columns);
    make_borders(in_height, height, &s->rows);
    s->sums = hrf_try_alloc_array((size_t)(width * n_channels), sizeof s->sums[0]);
    HRF_CHECK_MEMORY(s->sums != NULL, err, "no memory to downsample an image");
    return HRF_OK;
}

static void add_row(struct hrf_downsampler *s, const unsigned char *p)
{
    int n = s->n_channels;
    for (int64_t i = 0; i < s->width; i++)
        for (int64_t k = s->columns[i]; k < s->columns[i + 1]; k++, p += n)
            for (int c = 0; c < n; c++)
                s->sums[i * n + c] += p[c];
}

/* The same for three channels: without it, most of the time of tiling would be spent here. */
static void add_rgb_row(struct hrf_downsampler *s, const unsigned char *p)
{
    for (int64_t i = 0; i < s->width; i++) {
        uint32_t r = 0, g = 0, b = 0;
        for (int64_t k = s->columns[i]; k < s->columns[i + 1]; k++, p += 3) {
            r += p[0];
            g += p[1];
            b += p[2];
        }
        s->sums[3 * i] += r;
        s->sums[3 * i + 1] += g;
        s->sums[3 * i + 2] += b;
    }
}

void hrf_downsampler_row(struct hrf_downsampler *s, int64_t y, const unsigned char *in,
                         unsigned char *out)
{
    int64_t n_rows = s->rows[y + 1] - s->rows[y];
    int n = s->n_channels;
    if (n_rows == 1 && s->width == s->in_width) {
        memcpy(out, in, (size_t)(s->width * n));
        return;
    }
    memset(s->sums, 0, (size_t)(s->width * n) * sizeof s->sums[0]);
    for (int64_t r = 0; r < n_rows; r++, in += s->in_width * n) {
        if (n == 3)
            add_rgb_row(s, in);
        else
            add_row(s, in);
    }
    for (int64_t i = 0; i < s->width; i++) {
        uint32_t count = (uint32_t)((s->columns[i + 1] - s->columns[i]) * n_rows);
        for (int c = 0; c < n; c++)
            out[i * n + c] = (unsigned char)((s->sums[i * n + c] + count / 2) / count);
    }
}

enum hrf_status hrf_downsample(const unsigned char *in, int64_t in_width, int64_t in_height,
                               int n_channels, int64_t width, int64_t height, unsigned char *out,
                               struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_downsampler) s = { .in_width = 0 };
    HRF_TRY(hrf_downsampler_init(&s, in_width, in_height, n_channels, width, height, err));
    for (int64_t y = 0; y < height; y++)
        hrf_downsampler_row(&s, y, in + s.rows[y] * in_width * n_channels,
                            out + y * width * n_channels);
    return HRF_OK;
}
