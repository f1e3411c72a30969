/* clock.c - monotonic, processor and wall clocks (clock.h). */
#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

int64_t hrf_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hrf_clock_ms(void)
{
    return hrf_clock_ns() / 1000000;
}

double hrf_clock_seconds(void)
{
    return (double)hrf_clock_ns() * 1e-9;
}

double hrf_clock_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double hrf_clock_process_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int64_t hrf_clock_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t hrf_clock_setting_ms(const char *variable, int64_t min, int64_t otherwise)
{
    const char *text = getenv(variable);
    char *end = NULL;
    const int64_t ms = text != NULL ? strtoll(text, &end, 10) : 0;
    return end != NULL && end != text && *end == '\0' && ms >= min ? ms : otherwise;
}

void hrf_clock_sleep_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

void hrf_clock_iso8601(int64_t wall_ms, char out[24])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    if (strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        out[0] = '\0';
}
