/* Modules: found, refused for a reason, loaded. */
#include "base/module.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int look_beside_the_tests(void **state)
{
    (void)state;
    const char *bin = getenv("HRF_BIN_DIR");
    char directory[4096];
    if (bin == NULL)
        return -1;
    snprintf(directory, sizeof directory, "%s/../lib/hires-flow", bin);
    return setenv("HRF_MODULE_DIR", directory, 1);
}

static void a_module_of_the_same_build_is_loaded(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("test", "a test", &operations, &err), HRF_OK);
    assert_int_equal(*(const int *)operations, 42);
}

static void a_module_of_another_build_is_refused(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("test", "0.2.0+0", &operations, &err), HRF_E_UNSUPPORTED);
    assert_int_equal(err.id, HRF_ERROR_MODULE_VERSION);
    assert_non_null(strstr(err.text,
                           "/hrf_test.so' is of build a test, and this program needs build "
                           "0.2.0+0"));
    assert_null(operations);
}

static void a_module_that_is_not_installed_is_named(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("nowhere", "a test", &operations, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this installation has no nowhere module"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_of_the_same_build_is_loaded),
        cmocka_unit_test(a_module_of_another_build_is_refused),
        cmocka_unit_test(a_module_that_is_not_installed_is_named),
    };
    return cmocka_run_group_tests(tests, look_beside_the_tests, NULL);
}
