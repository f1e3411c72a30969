/* real_data.h - the real slides, patches and tables in HRF_SHARED_DATA, which need not be there. */
#ifndef HRF_TESTS_UNIT_REAL_DATA_H
#define HRF_TESTS_UNIT_REAL_DATA_H

#include "tests/unit/unit.h"

#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>

enum { REAL_DATA_PATH = 4096 };

/* The path of that file or folder. Skips the test where it is not there, and cmocka jumps past what
 * the test would free: to be called before anything is allocated. */
static inline void real_data(const char *name, char out[REAL_DATA_PATH])
{
    const char *folder = getenv("HRF_SHARED_DATA");
    snprintf(out, REAL_DATA_PATH, "%s/%s", folder != NULL ? folder : "../shared/data", name);
    if (!hrf_path_exists(out))
        skip_for_want_of(out); /* CONTRIBUTING.md, Real data */
}

#endif
