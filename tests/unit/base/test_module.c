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

static void a_module_of_the_same_version_is_loaded(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("test", HRF_VERSION, &operations, &err), HRF_OK);
    assert_int_equal(*(const int *)operations, 42);
}

static void a_module_of_another_version_is_refused(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("test", "9.9", &operations, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "is of version " HRF_VERSION ", this program of version 9.9"));
    assert_null(operations);
}

static void a_module_that_is_not_installed_is_named(void **state)
{
    (void)state;
    const void *operations = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_module_load("nowhere", HRF_VERSION, &operations, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this installation has no nowhere module"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_of_the_same_version_is_loaded),
        cmocka_unit_test(a_module_of_another_version_is_refused),
        cmocka_unit_test(a_module_that_is_not_installed_is_named),
    };
    return cmocka_run_group_tests(tests, look_beside_the_tests, NULL);
}
