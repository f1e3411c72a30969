/* energy.h - what the processors of this machine use, by their own counters (RAPL).
 *
 * Linux shows them below /sys/class/powercap as intel-rapl:N (AMD's too); since 2020 only root may
 * read them. They count the whole package, whoever uses it, and run over every few minutes to
 * hours: tick a meter at least once a minute.
 */
#ifndef HRF_BASE_ENERGY_H
#define HRF_BASE_ENERGY_H

#include "base/error.h"

#include <stdint.h>

enum { HRF_ENERGY_PACKAGES = 16 };

struct hrf_energy_meter {
    int n_packages;
    char paths[HRF_ENERGY_PACKAGES][96]; /* of the counters */
    int64_t last_uj[HRF_ENERGY_PACKAGES];
    int64_t most_uj[HRF_ENERGY_PACKAGES]; /* where it runs over; 0: not known */
    double joules;                        /* since the start; NaN: cannot be measured */
};

/* powercap: NULL for $HRF_POWERCAP, or /sys/class/powercap where that is not set. A machine without
 * readable counters gives a meter that says NaN. */
void hrf_energy_start(struct hrf_energy_meter *meter, const char *powercap);
/* Counts what was used since the last call; once a counter cannot be read, joules is NaN. */
void hrf_energy_tick(struct hrf_energy_meter *meter);

#endif
