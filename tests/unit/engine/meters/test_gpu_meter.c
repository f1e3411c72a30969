/* The GPU's meter on an emulated NVML: what it is told, and what it is not. */
#include "engine/meters/gpu_meter.h"

#include "base/file.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_script(void **state)
{
    return make_directory(state) != 0 || setenv("HRF_EMULATED_NVML", file("says"), 1) != 0;
}

static void say(const char *text)
{
    assert_int_equal(hrf_file_write_atomic(file("says"), text, strlen(text), NULL), HRF_OK);
}

static struct hrf_gpu_meter *open_meter(void)
{
    struct hrf_gpu_meter *meter = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_gpu_meter_create("0000:3B:00.0", HRF_TEST_NVML, &meter, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return meter;
}

static void energy_is_what_was_used_since_it_was_asked(void **state)
{
    (void)state;
    say("energy 5000\n");
    HRF_AUTO(hrf_gpu_meter) meter = open_meter();
    assert_string_equal(hrf_gpu_meter_driver(meter), "580.82.07");
    say("energy 7500\n");
    assert_true(hrf_gpu_meter_joules(meter) == 2.5);
    assert_true(hrf_gpu_meter_joules(meter) == 0);
    say("energy 8000\n");
    assert_true(hrf_gpu_meter_joules(meter) == 0.5);
}

static void what_a_gpu_does_not_tell_is_unknown(void **state)
{
    (void)state;
    say("no-driver\n");
    HRF_AUTO(hrf_gpu_meter) meter = open_meter();
    assert_string_equal(hrf_gpu_meter_driver(meter), "");
    assert_true(isnan(hrf_gpu_meter_joules(meter)));
    assert_int_equal(hrf_gpu_meter_process_bytes(meter), 0);
    say("energy 5\n"); /* too late: what was used before is not known */
    assert_true(isnan(hrf_gpu_meter_joules(meter)));
}

static void a_counter_that_fails_or_begins_anew_ends_the_figure(void **state)
{
    (void)state;
    say("energy 5000\n");
    HRF_AUTO(hrf_gpu_meter) meter = open_meter();
    say("");
    assert_true(isnan(hrf_gpu_meter_joules(meter)));
    say("energy 5000\n");
    HRF_AUTO(hrf_gpu_meter) other = open_meter();
    say("energy 10\n");
    assert_true(isnan(hrf_gpu_meter_joules(other)));
}

static void memory_is_the_own_process_or_the_only_one(void **state)
{
    (void)state;
    say("pid 1 bytes 100\npid own bytes 700\npid 2 bytes 900\n");
    HRF_AUTO(hrf_gpu_meter) meter = open_meter();
    assert_int_equal(hrf_gpu_meter_process_bytes(meter), 700);
    say("pid 1 bytes 100\n"); /* a container's other number */
    assert_int_equal(hrf_gpu_meter_process_bytes(meter), 100);
    say("pid 1 bytes 100\npid 2 bytes 900\n");
    assert_int_equal(hrf_gpu_meter_process_bytes(meter), 0);
    say("pid own bytes 18446744073709551615\n"); /* not available */
    assert_int_equal(hrf_gpu_meter_process_bytes(meter), 0);
}

static void without_nvml_or_the_gpu_there_is_no_meter(void **state)
{
    (void)state;
    struct hrf_gpu_meter *meter = NULL;
    struct hrf_error err = { .text = "" };
    assert_int_equal(
        hrf_gpu_meter_create("0000:3b:00.0", "/nowhere/libnvidia-ml.so.1", &meter, &err),
        HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "NVML cannot be loaded: /nowhere/libnvidia-ml.so.1"));
    say("");
    assert_int_equal(hrf_gpu_meter_create("0000:99:00.0", HRF_TEST_NVML, &meter, &err),
                     HRF_E_UNSUPPORTED);
    assert_string_equal(err.text, "NVML, 0000:99:00.0: Not Found");
    say("no-init\n");
    assert_int_equal(hrf_gpu_meter_create("0000:3b:00.0", HRF_TEST_NVML, &meter, &err),
                     HRF_E_UNSUPPORTED);
    assert_string_equal(err.text, "NVML, starting it: Driver Not Loaded");
    assert_null(meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energy_is_what_was_used_since_it_was_asked),
        cmocka_unit_test(what_a_gpu_does_not_tell_is_unknown),
        cmocka_unit_test(a_counter_that_fails_or_begins_anew_ends_the_figure),
        cmocka_unit_test(memory_is_the_own_process_or_the_only_one),
        cmocka_unit_test(without_nvml_or_the_gpu_there_is_no_meter),
    };
    return cmocka_run_group_tests(tests, make_script, remove_directory);
}
