/* quantity.c - durations, bytes, counts and ranges as text. */
#include "base/quantity.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

struct hrf_quantity hrf_duration_text(double seconds)
{
    struct hrf_quantity out;
    const long long s = llround(seconds);
    if (seconds < 60.0)
        snprintf(out.text, sizeof out.text, seconds < 10.0 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        snprintf(out.text, sizeof out.text, "%lld min %02lld s", s / 60, s % 60);
    else
        snprintf(out.text, sizeof out.text, "%lld h %02lld min", s / 3600, s / 60 % 60);
    return out;
}

struct hrf_quantity hrf_bytes_text(int64_t n_bytes)
{
    struct hrf_quantity out;
    double value = (double)n_bytes;
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    size_t unit = 0;
    for (; value >= 1000.0 && unit < 5; unit++)
        value /= 1000.0;
    snprintf(out.text, sizeof out.text, unit == 0 || value >= 100.0 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
    return out;
}

struct hrf_quantity hrf_count_text(int64_t count)
{
    struct hrf_quantity out;
    char digits[32], *to = out.text;
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (int i = 0; i < n; i++) {
        *to++ = digits[i];
        if (i + 1 < n && (n - i - 1) % 3 == 0 && digits[i] != '-')
            *to++ = ',';
    }
    *to = '\0';
    return out;
}

struct hrf_quantity hrf_range_text(double min, double max)
{
    struct hrf_quantity out;
    if (max < HRF_UNBOUNDED)
        snprintf(out.text, sizeof out.text, "%.12g to %.12g", min, max);
    else
        snprintf(out.text, sizeof out.text, "at least %.12g", min);
    return out;
}
