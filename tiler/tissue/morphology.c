#include "tiler/tissue/morphology.h"

#include "base/alloc.h"

#include <string.h>

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static unsigned char median_of(const int32_t histogram[256], int32_t half)
{
    int32_t seen = 0;
    for (int v = 0; v < 255; v++) {
        seen += histogram[v];
        if (seen > half)
            return (unsigned char)v;
    }
    return 255;
}

static void add_column(int32_t histogram[256], const unsigned char *plane, int64_t width,
                       int64_t height, int64_t x, int64_t y, int radius, int32_t sign)
{
    x = clamp(x, width);
    for (int64_t r = y - radius; r <= y + radius; r++)
        histogram[plane[clamp(r, height) * width + x]] += sign;
}

enum hrf_status hrf_median_filter(unsigned char *plane, int64_t width, int64_t height, int size,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *copy = hrf_alloc((size_t)(width * height));
    if (copy == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to filter %lld x %lld px",
                             (long long)width, (long long)height);
    memcpy(copy, plane, (size_t)(width * height));
    int radius = size / 2;
    for (int64_t y = 0; y < height; y++) {
        int32_t histogram[256] = { 0 };
        for (int64_t x = -radius; x <= radius; x++)
            add_column(histogram, copy, width, height, x, y, radius, 1);
        for (int64_t x = 0; x < width; x++) {
            plane[y * width + x] = median_of(histogram, size * size / 2);
            add_column(histogram, copy, width, height, x - radius, y, radius, -1);
            add_column(histogram, copy, width, height, x + radius + 1, y, radius, 1);
        }
    }
    return HRF_OK;
}

/* out[i] = whether `value` stands within [i - before, i + after] of a line with this stride. */
static void spread_line(unsigned char *line, int64_t n, int64_t stride, int before, int after,
                        unsigned char value, unsigned char *buffer)
{
    for (int64_t i = 0; i < n; i++)
        buffer[i] = line[i * stride];
    int64_t count = 0; /* of `value` in the window */
    for (int64_t i = 0; i < n && i < after; i++)
        count += buffer[i] == value;
    for (int64_t i = 0; i < n; i++) {
        if (i + after < n)
            count += buffer[i + after] == value;
        if (i - before > 0)
            count -= buffer[i - before - 1] == value;
        if (count > 0)
            line[i * stride] = value;
    }
}

static void spread(unsigned char *mask, int64_t width, int64_t height, int before, int after,
                   unsigned char value, unsigned char *buffer)
{
    for (int64_t y = 0; y < height; y++)
        spread_line(mask + y * width, width, 1, before, after, value, buffer);
    for (int64_t x = 0; x < width; x++)
        spread_line(mask + x, height, width, before, after, value, buffer);
}

enum hrf_status hrf_mask_close(unsigned char *mask, int64_t width, int64_t height, int size,
                               struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *buffer = hrf_alloc((size_t)(width > height ? width : height));
    if (buffer == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to close a mask");
    int before = size / 2, after = size - 1 - before;
    spread(mask, width, height, before, after, 255, buffer);
    spread(mask, width, height, after, before, 0, buffer); /* the reflected square */
    return HRF_OK;
}

struct fill {
    unsigned char *mask, *seen;
    int64_t width, height, n;
    int32_t *stack; /* pixels of the region, all of them: it is the queue too */
};

/* Collects the region of the pixel `start`; returns whether it touches the border. */
static bool collect_region(struct fill *fill, int64_t start, unsigned char value)
{
    bool touches = false;
    fill->n = 0;
    fill->stack[fill->n++] = (int32_t)start;
    fill->seen[start] = 1;
    for (int64_t at = 0; at < fill->n; at++) {
        int64_t x = fill->stack[at] % fill->width, y = fill->stack[at] / fill->width;
        touches |= x == 0 || y == 0 || x == fill->width - 1 || y == fill->height - 1;
        for (int64_t v = y - 1; v <= y + 1; v++) {
            for (int64_t u = x - 1; u <= x + 1; u++) {
                if (u < 0 || v < 0 || u >= fill->width || v >= fill->height)
                    continue;
                int64_t i = v * fill->width + u;
                if (fill->seen[i] || fill->mask[i] != value)
                    continue;
                fill->seen[i] = 1;
                fill->stack[fill->n++] = (int32_t)i;
            }
        }
    }
    return touches;
}

enum hrf_status hrf_mask_drop_small(unsigned char *mask, int64_t width, int64_t height,
                                    unsigned char value, double min_pixels, struct hrf_error *err)
{
    int64_t n = width * height;
    HRF_AUTO_FREE unsigned char *seen = hrf_calloc((size_t)n, 1);
    HRF_AUTO_FREE int32_t *stack = hrf_alloc_array((size_t)n, sizeof *stack);
    if (seen == NULL || stack == NULL || n > INT32_MAX)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to label %lld px", (long long)n);
    struct fill fill = { mask, seen, width, height, 0, stack };
    for (int64_t i = 0; i < n; i++) {
        if (seen[i] || mask[i] != value)
            continue;
        bool touches = collect_region(&fill, i, value);
        if ((double)fill.n >= min_pixels || (value == 0 && touches))
            continue;
        for (int64_t k = 0; k < fill.n; k++) /* seen stays: it is not looked at again */
            mask[stack[k]] = (unsigned char)(255 - value);
    }
    return HRF_OK;
}
