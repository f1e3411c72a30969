/* Filters and regions against brute force over random masks. */
#include "base/alloc.h"
#include "base/random.h"
#include "tests/unit/unit.h"
#include "tiler/tissue/morphology.h"

#include <stdlib.h>
#include <string.h>

enum { MAX = 24 };

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static void random_mask(struct hrf_random *random, unsigned char *mask, int64_t n, double density)
{
    for (int64_t i = 0; i < n; i++)
        mask[i] = hrf_random_unit(random) < density ? 255 : 0;
}

static int compare_bytes(const void *a, const void *b)
{
    return *(const unsigned char *)a - *(const unsigned char *)b;
}

static unsigned char slow_median(const unsigned char *in, int64_t w, int64_t h, int64_t x,
                                 int64_t y, int radius)
{
    unsigned char window[15 * 15];
    size_t n = 0;
    for (int64_t v = y - radius; v <= y + radius; v++)
        for (int64_t u = x - radius; u <= x + radius; u++)
            window[n++] = in[clamp(v, h) * w + clamp(u, w)];
    qsort(window, n, 1, compare_bytes);
    return window[n / 2];
}

static void the_median_of_nine_is_the_fifth_of_them(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    for (int i = 0; i < 200; i++) {
        unsigned char in[MAX * MAX] = { 0 }, out[MAX * MAX];
        int64_t w = 1 + hrf_random_below(&random, MAX), h = 1 + hrf_random_below(&random, MAX);
        for (int64_t k = 0; k < w * h; k++)
            in[k] = (unsigned char)hrf_random_below(&random, 256);
        memcpy(out, in, sizeof in);
        assert_int_equal(hrf_median_3x3(out, w, h, NULL), HRF_OK);
        for (int64_t k = 0; k < w * h; k++)
            assert_int_equal(out[k], slow_median(in, w, h, k % w, k / w, 1));
    }
}

static void a_majority_of_a_threshold_is_the_threshold_of_the_median(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(2);
    for (int i = 0; i < 60; i++) {
        unsigned char in[MAX * MAX] = { 0 }, mask[MAX * MAX];
        int64_t w = 1 + hrf_random_below(&random, MAX), h = 1 + hrf_random_below(&random, MAX);
        int size = 3 + 2 * (int)hrf_random_below(&random, 7);
        for (int64_t k = 0; k < w * h; k++) {
            in[k] = (unsigned char)hrf_random_below(&random, 16);
            mask[k] = in[k] > 7 ? 255 : 0;
        }
        assert_int_equal(hrf_mask_majority(mask, w, h, size, NULL), HRF_OK);
        for (int64_t k = 0; k < w * h; k++)
            assert_int_equal(mask[k], slow_median(in, w, h, k % w, k / w, size / 2) > 7 ? 255 : 0);
    }
}

static unsigned char slow_spread(const unsigned char *in, int64_t w, int64_t h, int64_t x,
                                 int64_t y, int before, int after, unsigned char value)
{
    for (int64_t v = y - before; v <= y + after; v++)
        for (int64_t u = x - before; u <= x + after; u++)
            if (u >= 0 && v >= 0 && u < w && v < h && in[v * w + u] == value)
                return value;
    return in[y * w + x];
}

static void spreading_sets_what_is_within_reach(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(3);
    for (int i = 0; i < 200; i++) {
        unsigned char in[MAX * MAX] = { 0 }, out[MAX * MAX], value = i % 2 == 0 ? 255 : 0;
        int64_t w = 1 + hrf_random_below(&random, MAX), h = 1 + hrf_random_below(&random, MAX);
        int before = (int)hrf_random_below(&random, 5), after = (int)hrf_random_below(&random, 5);
        random_mask(&random, in, w * h, value != 0 ? 0.03 : 0.97);
        memcpy(out, in, sizeof in);
        assert_int_equal(hrf_mask_spread(out, w, h, before, after, value, NULL), HRF_OK);
        for (int64_t k = 0; k < w * h; k++)
            assert_int_equal(out[k], slow_spread(in, w, h, k % w, k / w, before, after, value));
    }
}

static void closing_fills_gaps_and_moves_nothing(void **state)
{
    (void)state;
    for (int size = 2; size <= 7; size++) {
        unsigned char mask[20 * 20] = { 0 };
        for (int y = 6; y < 14; y++)
            for (int x = 4; x < 16; x++)
                mask[y * 20 + x] = x == 9 ? 0 : 255; /* a gap of one */
        assert_int_equal(hrf_mask_close(mask, 20, 20, size, NULL), HRF_OK);
        for (int i = 0; i < 400; i++) {
            int x = i % 20, y = i / 20;
            assert_int_equal(mask[i], x >= 4 && x < 16 && y >= 6 && y < 14 ? 255 : 0);
        }
    }
}

/* Number of px that can be reached from `start`, marked in `seen`. */
static int64_t slow_flood(const unsigned char *mask, int64_t w, int64_t h, int64_t x, int64_t y,
                          unsigned char value, bool diagonal, unsigned char *seen)
{
    if (x < 0 || y < 0 || x >= w || y >= h || mask[y * w + x] != value || seen[y * w + x])
        return 0;
    seen[y * w + x] = 1;
    int64_t area = 1;
    for (int64_t v = -1; v <= 1; v++)
        for (int64_t u = -1; u <= 1; u++)
            if (diagonal || u == 0 || v == 0)
                area += slow_flood(mask, w, h, x + u, y + v, value, diagonal, seen);
    return area;
}

static void check_regions(const unsigned char *mask, int64_t w, int64_t h, unsigned char value,
                          bool diagonal)
{
    HRF_AUTO_RELEASE(hrf_regions) regions = { .n_regions = 0 };
    unsigned char seen[MAX * MAX] = { 0 };
    int32_t n = 0;
    assert_int_equal(hrf_regions_find(mask, w, h, value, diagonal, &regions, NULL), HRF_OK);
    for (int64_t i = 0; i < w * h; i++) {
        if (mask[i] != value) {
            assert_int_equal(regions.label[i], 0);
            continue;
        }
        if (seen[i])
            continue;
        unsigned char before[MAX * MAX];
        bool touches = false;
        memcpy(before, seen, sizeof seen);
        int64_t area = slow_flood(mask, w, h, i % w, i / w, value, diagonal, seen);
        n++;
        assert_int_equal(regions.region[n - 1].first, i);
        assert_int_equal(regions.region[n - 1].area, area);
        for (int64_t k = 0; k < w * h; k++) {
            if (seen[k] == before[k])
                continue;
            assert_int_equal(regions.label[k], n);
            touches |= k % w == 0 || k % w == w - 1 || k / w == 0 || k / w == h - 1;
        }
        assert_int_equal(regions.region[n - 1].touches_border, touches);
    }
    assert_int_equal(regions.n_regions, n);
}

static void regions_are_those_of_a_flood_fill(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(4);
    for (int i = 0; i < 400; i++) {
        unsigned char mask[MAX * MAX] = { 0 };
        int64_t w = 1 + hrf_random_below(&random, MAX), h = 1 + hrf_random_below(&random, MAX);
        random_mask(&random, mask, w * h, 0.3 + 0.4 * hrf_random_unit(&random));
        check_regions(mask, w, h, 255, i % 2 == 0);
        check_regions(mask, w, h, 0, i % 3 == 0);
    }
}

static void running_out_of_memory_is_a_status(void **state)
{
    (void)state;
    for (int n = 1; n < 3; n++) {
        unsigned char mask[MAX * MAX] = { 255 };
        struct hrf_regions regions = { .n_regions = 0 };
        enum hrf_status status[4];
        hrf_alloc_fail_after(n);
        status[0] = hrf_regions_find(mask, MAX, MAX, 255, true, &regions, NULL);
        status[1] = hrf_median_3x3(mask, MAX, MAX, NULL);
        hrf_alloc_fail_after(1);
        status[2] = hrf_mask_majority(mask, MAX, MAX, 7, NULL);
        hrf_alloc_fail_after(1);
        status[3] = hrf_mask_close(mask, MAX, MAX, 3, NULL);
        hrf_alloc_fail_after(0);
        assert_int_equal(status[0], n <= 1 ? HRF_E_NOMEM : HRF_OK);
        for (int i = 1; i < 4; i++)
            assert_int_equal(status[i], HRF_E_NOMEM);
        hrf_regions_release(&regions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_of_nine_is_the_fifth_of_them),
        cmocka_unit_test(a_majority_of_a_threshold_is_the_threshold_of_the_median),
        cmocka_unit_test(spreading_sets_what_is_within_reach),
        cmocka_unit_test(closing_fills_gaps_and_moves_nothing),
        cmocka_unit_test(regions_are_those_of_a_flood_fill),
        cmocka_unit_test(running_out_of_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
