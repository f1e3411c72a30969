/* energy.h - the energy that this machine's processors use, by their own counters (RAPL).
 *
 * Linux shows the counters below /sys/class/powercap as intel-rapl:N (AMD's too); since 2020 only
 * root may read them. A counter counts its whole package, whichever process uses it, and wraps
 * around after minutes to hours: call hrf_energy_tick() at least once a minute.
 */
#ifndef HRF_ENGINE_METERS_ENERGY_H
#define HRF_ENGINE_METERS_ENERGY_H

#include "base/error.h"

#include <stdint.h>

enum { HRF_ENERGY_PACKAGES = 16 };

struct hrf_energy_meter {
    int n_packages;
    char paths[HRF_ENERGY_PACKAGES][96]; /* of the counters */
    int64_t last_uj[HRF_ENERGY_PACKAGES];
    int64_t most_uj[HRF_ENERGY_PACKAGES]; /* the value at which the counter wraps; 0: not known */
    double joules;                        /* since hrf_energy_start(); NaN: cannot be measured */
};

/* Starts a meter. `powercap` is the folder of the counters; NULL stands for $HRF_POWERCAP, or for
 * /sys/class/powercap if that is not set. On a machine without readable counters, joules is NaN. */
void hrf_energy_start(struct hrf_energy_meter *meter, const char *powercap);
/* Adds the energy used since the last call. From the first counter that cannot be read on, joules
 * is NaN. */
void hrf_energy_tick(struct hrf_energy_meter *meter);

#endif
