/* in_place.h - a test program's set-up and tear-down: the emulated GPU's modules are the ones that
 * are loaded, and tuned plans go into a folder of its own, which goes with it. */
#ifndef HRF_TESTS_EMULATED_CUDA_IN_PLACE_H
#define HRF_TESTS_EMULATED_CUDA_IN_PLACE_H

#include "base/directory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int put_it_in_place(void **state)
{
    const char *bin = getenv("HRF_BIN_DIR");
    static char directory[4096];
    static char cache[] = "/tmp/hrf-cuda-XXXXXX";
    if (bin == NULL || mkdtemp(cache) == NULL)
        return -1;
    snprintf(directory, sizeof directory, "%s/../tests/emulated-cuda", bin);
    *state = cache;
    return setenv("HRF_MODULE_DIR", directory, 1) + setenv("XDG_CACHE_HOME", cache, 1);
}

static inline int tidy_up(void **state)
{
    return hrf_path_remove_tree(*state, NULL) == HRF_OK ? 0 : -1;
}

/* "cpu", or "cuda" where the test is run for the emulated GPU, which is slow. */
static inline const char *tested_device(void)
{
    const char *name = getenv("HRF_TEST_DEVICE");
    return name != NULL ? name : "cpu";
}

static inline bool is_emulated(void)
{
    return strcmp(tested_device(), "cuda") == 0;
}

/* The same, where the test is run for the emulated GPU. */
static inline int put_device_in_place(void **state)
{
    return is_emulated() ? put_it_in_place(state) : 0;
}

static inline int tidy_up_device(void **state)
{
    return is_emulated() ? tidy_up(state) : 0;
}

#endif
