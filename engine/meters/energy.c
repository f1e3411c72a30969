/* energy.c - reads the energy counters of the processors from /sys (energy.h). */
#include "engine/meters/energy.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of a small file. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const bool ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

static bool read_number(const char *path, int64_t *out)
{
    char line[64], *end;
    if (!read_line(path, line, sizeof line))
        return false;
    errno = 0;
    const long long value = strtoll(line, &end, 10);
    if (end == line || errno != 0 || value < 0)
        return false;
    *out = value;
    return true;
}

/* Packages only: their cores and memory are parts of them, and psys holds them all again. */
static bool add_package(struct hrf_energy_meter *meter, const char *powercap, int index)
{
    char path[256], name[64];
    const int k = meter->n_packages;
    snprintf(path, sizeof path, "%s/intel-rapl:%d/name", powercap, index);
    if (!read_line(path, name, sizeof name))
        return false;
    if (strncmp(name, "package", 7) != 0)
        return true;
    snprintf(path, sizeof path, "%s/intel-rapl:%d/max_energy_range_uj", powercap, index);
    if (!read_number(path, &meter->most_uj[k]))
        meter->most_uj[k] = 0;
    const int n = snprintf(meter->paths[k], sizeof meter->paths[k], "%s/intel-rapl:%d/energy_uj",
                           powercap, index);
    if (n < 0 || (size_t)n >= sizeof meter->paths[k] ||
        !read_number(meter->paths[k], &meter->last_uj[k]))
        meter->joules = NAN;
    meter->n_packages++;
    return true;
}

void hrf_energy_start(struct hrf_energy_meter *meter, const char *powercap)
{
    *meter = (struct hrf_energy_meter){ .n_packages = 0 };
    if (powercap == NULL)
        powercap = getenv("HRF_POWERCAP");
    if (powercap == NULL)
        powercap = "/sys/class/powercap";
    for (int i = 0; meter->n_packages < HRF_ENERGY_PACKAGES; i++)
        if (!add_package(meter, powercap, i))
            break;
    if (meter->n_packages == 0)
        meter->joules = NAN;
}

void hrf_energy_tick(struct hrf_energy_meter *meter)
{
    for (int i = 0; i < meter->n_packages && !isnan(meter->joules); i++) {
        int64_t now;
        if (!read_number(meter->paths[i], &now)) {
            meter->joules = NAN;
            return;
        }
        int64_t used = now - meter->last_uj[i];
        if (used < 0) /* it ran over */
            used = meter->most_uj[i] > 0 ? used + meter->most_uj[i] : now;
        meter->joules += (double)used / 1e6;
        meter->last_uj[i] = now;
    }
}
