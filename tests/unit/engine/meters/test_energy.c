/* The energy meter on counters made of files. */
#include "engine/meters/energy.h"

#include "base/file.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(int domain, const char *name, const char *text)
{
    HRF_AUTO_FREE char *counters = hrf_format("%s/intel-rapl:%d", directory, domain);
    HRF_AUTO_FREE char *path = hrf_path_join(counters, name);
    assert_int_equal(hrf_path_make_directories(counters, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, text, strlen(text), NULL), HRF_OK);
}

static void nothing_to_read_is_not_measured(void **state)
{
    (void)state;
    struct hrf_energy_meter meter;
    hrf_energy_start(&meter, directory);
    assert_true(isnan(meter.joules));
    hrf_energy_tick(&meter);
    assert_true(isnan(meter.joules));
}

static void packages_are_summed_and_may_run_over(void **state)
{
    (void)state;
    struct hrf_energy_meter meter;
    put(0, "name", "package-0\n");
    put(0, "max_energy_range_uj", "10000000\n");
    put(0, "energy_uj", "9000000\n");
    put(1, "name", "psys\n"); /* holds the packages again */
    put(1, "energy_uj", "77\n");
    put(2, "name", "package-1\n");
    put(2, "max_energy_range_uj", "10000000\n");
    put(2, "energy_uj", "1000000\n");
    hrf_energy_start(&meter, directory);
    hrf_energy_tick(&meter);
    assert_true(meter.joules == 0);
    put(0, "energy_uj", "9500000\n");
    put(1, "energy_uj", "99000000\n");
    hrf_energy_tick(&meter);
    assert_true(meter.joules == 0.5);
    put(0, "energy_uj", "1000000\n"); /* 0.5 J to the end, 1 J from the start */
    put(2, "energy_uj", "3000000\n");
    hrf_energy_tick(&meter);
    assert_true(meter.joules == 4.0);
    put(2, "energy_uj", "denied\n");
    hrf_energy_tick(&meter);
    assert_true(isnan(meter.joules));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_read_is_not_measured),
        cmocka_unit_test(packages_are_summed_and_may_run_over),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
